package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"handoff.example/interop/mcp/process"
)

// A column is what the suite is asked for: the scenarios that a revision
// requires, or those of the tasks extension.
type column struct {
	name      string
	arguments []string          // of the suite
	tasks     bool              // only the scenarios of the tasks extension; otherwise all others
	least     int               // so many scenarios have to run
	without   map[string]string // scenarios that do not count, and why
}

// otherFlows are the ways of logging in that are extensions, which the suite does
// not score and the gateway does not have.
var otherFlows = map[string]string{
	"auth/client-credentials-jwt":           "the gateway shows a secret, and signs no assertions",
	"auth/enterprise-managed-authorization": "the gateway does not exchange tokens of an identity provider",
	"auth/dpop":                             "the gateway's tokens are bearer tokens",
	"auth/dpop-nonce":                       "the gateway's tokens are bearer tokens",
	"auth/wif-jwt-bearer":                   "the gateway has no workload identity",
}

var (
	modernColumn   = column{name: "2026-07-28", arguments: []string{"--requirements", "2026-07-28"}, least: 40}
	tasksColumn    = column{name: "tasks", arguments: []string{"--requirements", "2026-07-28"}, tasks: true, least: 10}
	novemberColumn = column{name: "2025-11-25", arguments: []string{"--requirements", "2025-11-25"}, least: 30}
	juneColumn     = column{name: "2025-06-18", arguments: []string{"--spec-version", "2025-06-18"}, least: 27}
	marchColumn    = column{name: "2025-03-26", arguments: []string{"--spec-version", "2025-03-26"}, least: 1}

	serverColumns = []column{modernColumn, tasksColumn, novemberColumn, juneColumn, marchColumn}
)

// A row is one thing under test.
type row struct {
	name    string
	columns []column
	client  bool     // the gateway as a client of the suite's servers
	server  []string // arguments of the fixture behind the gateway, or of the one under test
	stdio   bool     // over standard input and output
}

// gatewayRows are the gateway before servers of every kind.
var gatewayRows = []row{
	{name: "modern HTTP", columns: serverColumns, server: []string{"-revision", "2026-07-28"}},
	{name: "legacy HTTP", columns: serverColumns, server: []string{"-revision", "2025-11-25"}},
	{name: "older HTTP", columns: serverColumns, server: []string{"-revision", "2025-06-18"}},
	{name: "modern stdio", columns: serverColumns, server: []string{"-revision", "2026-07-28"}, stdio: true},
	{name: "legacy stdio", columns: serverColumns, server: []string{"-revision", "2025-11-25"}, stdio: true},
	{name: "client", columns: []column{
		{name: "2026-07-28", arguments: []string{"--requirements", "2026-07-28"}, least: 34, without: otherFlows},
		{name: "2025-11-25", arguments: []string{"--requirements", "2025-11-25"}, least: 20, without: otherFlows},
	}, client: true},
}

// directRows are the servers themselves, each with what it speaks.
var directRows = []row{
	{name: "modern HTTP", columns: []column{modernColumn}, server: []string{"-revision", "2026-07-28"}},
	{name: "tasks HTTP", columns: []column{tasksColumn}, server: []string{"-tasks"}},
	{name: "legacy HTTP", columns: []column{novemberColumn}, server: []string{"-revision", "2025-11-25"}},
	{name: "older HTTP", columns: []column{juneColumn}, server: []string{"-revision", "2025-06-18"}},
	{name: "oldest HTTP", columns: []column{marchColumn}, server: []string{"-revision", "2025-03-26"}},
}

// run gives what the suite says, column by column.
func (r row) run(ctx context.Context, s *suite, o options) (outcomes []outcome, err error) {
	dir, err := os.MkdirTemp("", "handoff-mcp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if r.client {
		return r.each(func(c column) (outcome, error) { return s.client(ctx, r.name, c, o.program) })
	}
	url, stop, err := r.start(ctx, o, dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.name, err)
	}
	defer stop()
	return r.each(func(c column) (outcome, error) { return s.server(ctx, r.name, c, url) })
}

func (r row) each(ask func(column) (outcome, error)) ([]outcome, error) {
	ran := map[string]outcome{} // two columns are of one run
	outcomes := make([]outcome, len(r.columns))
	for i, c := range r.columns {
		key := fmt.Sprint(c.arguments)
		all, ok := ran[key]
		if !ok {
			var err error
			if all, err = ask(c); err != nil {
				return nil, fmt.Errorf("run %s, %s: %w", r.name, c.name, err)
			}
			ran[key] = all
		}
		outcomes[i] = all.of(c)
	}
	return outcomes, nil
}

// start starts what is under test, and returns its URL.
func (r row) start(ctx context.Context, o options, dir string) (url string, stop func(), err error) {
	fixture, err := filepath.Abs("build/fixture")
	if err != nil {
		return "", nil, err
	}
	if o.direct {
		s, err := process.Fixture(ctx, fixture, r.server...)
		if err != nil {
			return "", nil, err
		}
		return s.URL, s.Stop, nil
	}
	tasks, err := process.Fixture(ctx, fixture, "-tasks")
	if err != nil {
		return "", nil, err
	}
	arguments := []string{"-c", o.example, "--set", "mcp.servers.tasks.url=" + tasks.URL}
	stops := []func(){tasks.Stop}
	if r.stdio {
		file := filepath.Join(dir, "handoff.yaml")
		configuration, err := process.Stdio(fixture, tasks.URL, r.server...)
		if err == nil {
			err = os.WriteFile(file, configuration, 0o600)
		}
		if err != nil {
			tasks.Stop()
			return "", nil, err
		}
		arguments = []string{"-c", file}
	} else {
		s, err := process.Fixture(ctx, fixture, r.server...)
		if err != nil {
			tasks.Stop()
			return "", nil, err
		}
		stops = append(stops, s.Stop)
		arguments = append(arguments, "--set", "mcp.servers.suite.url="+s.URL)
	}
	g, err := process.Gateway(ctx, o.program, filepath.Join(o.results, nonWord.ReplaceAllString(r.name, "-")+".log"), dir, arguments...)
	if err != nil {
		for _, stop := range stops {
			stop()
		}
		return "", nil, err
	}
	stops = append(stops, g.Stop)
	return g.URL, func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	}, nil
}

var nonWord = regexp.MustCompile(`[^a-zA-Z0-9]+`)
