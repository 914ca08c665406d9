package mcpgw_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/upstream"
)

// server is a tool server that answers lists from memory, in pages where it has
// several.
type server struct {
	name string

	mu     sync.Mutex
	lists  map[string][]string // results by method, one a page
	down   error
	asked  map[string]int
	caller []*auth.Principal
	// own are lists by the subject of the caller, in place of lists.
	own map[string]map[string][]string
}

func newServer(name string, tools ...string) *server {
	s := &server{name: name, lists: map[string][]string{}, asked: map[string]int{}}
	s.set(mcp.MethodListTools, "tools", tools...)
	return s
}

// set makes a list of one page.
func (s *server) set(method, member string, items ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[method] = []string{`{"resultType":"complete","` + member + `":[` + strings.Join(items, ",") + `],"ttlMs":60000,"cacheScope":"public"}`}
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *server) times(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

func (s *server) Name() string { return s.name }

func (s *server) Do(_ context.Context, r *upstream.Request) (upstream.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method := r.Message.Method
	s.asked[method]++
	s.caller = append(s.caller, r.Caller)
	if s.down != nil {
		return nil, s.down
	}
	pages := s.lists[method]
	if r.Caller != nil && s.own[r.Caller.Subject] != nil {
		pages = s.own[r.Caller.Subject][method]
	}
	n := 0
	if cursor := r.Message.ParamString("cursor"); cursor != "" {
		if _, err := fmt.Sscanf(cursor, "page-%d", &n); err != nil {
			return nil, err
		}
	}
	if n >= len(pages) {
		return &answer{mcp.AppendError(nil, r.Message.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))}, nil
	}
	return &answer{mcp.AppendResult(nil, r.Message.ID, jsontext.Value(pages[n]))}, nil
}

type answer struct{ body []byte }

func (a *answer) Next() (*mcp.Message, error) {
	if a.body == nil {
		return nil, io.EOF
	}
	m, err := mcp.Scan(a.body, mcp.Limits{})
	a.body = nil
	return m, err
}

func (*answer) Close() error { return nil }

func tool(name string) string {
	return `{"name":"` + name + `","description":"Does ` + name + `","inputSchema":{"type":"object"}}`
}

// fixture is a directory of servers.
type fixture struct {
	*mcpgw.Directory
	t       testing.TB
	servers map[string]*server
}

func gateway(t testing.TB, yaml string, servers ...*server) *fixture {
	t.Helper()
	return gatewayWith(t, mcpgw.DirectoryOptions{}, yaml, servers...)
}

func gatewayWith(t testing.TB, opts mcpgw.DirectoryOptions, yaml string, servers ...*server) *fixture {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	if opts.Guard == nil {
		opts.Guard = policy.NewGuard(nil, opts.Now)
	}
	f := &fixture{mcpgw.NewDirectory(opts), t, map[string]*server{}}
	for _, s := range servers {
		f.servers[s.name] = s
	}
	f.use(yaml)
	return f
}

// use configures the servers; those that the text does not name have the defaults.
func (f *fixture) use(yaml string) {
	f.t.Helper()
	f.Use(f.settings(yaml))
}

func (f *fixture) settings(yaml string) mcpgw.Settings {
	f.t.Helper()
	c, err := config.Parse([]byte("agents: {}\nmcp:\n  list_ttl: 1m\n"+indent(yaml)), "")
	if err != nil {
		f.t.Fatal(err)
	}
	m := &c.MCP
	if m.Servers == nil {
		m.Servers = map[string]*config.MCPServer{}
	}
	all := map[string]upstream.Server{}
	for name, s := range f.servers {
		all[name] = s
		if m.Servers[name] == nil && name != mcpgw.AgentsServer {
			m.Servers[name] = config.NewMCPServer("http://127.0.0.1:1")
		}
	}
	p, err := policy.New(m)
	if err != nil {
		f.t.Fatal(err)
	}
	return mcpgw.Settings{Config: m, Policy: p, Servers: all}
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

func as(subject string) *auth.Principal {
	return &auth.Principal{Subject: subject, Role: auth.RoleCaller}
}

// names lists a kind through all pages.
func (f *fixture) names(v mcpgw.View, method, member, key string) []string {
	f.t.Helper()
	var names []string
	cursor := ""
	for {
		result, err := f.List(f.t.Context(), v, method, cursor)
		if err != nil {
			f.t.Fatal(err)
		}
		var page map[string]jsontext.Value
		var items []map[string]any
		if err := json.Unmarshal(result, &page); err != nil {
			f.t.Fatalf("%s: %v", result, err)
		}
		if err := json.Unmarshal(page[member], &items); err != nil {
			f.t.Fatalf("%s: %v", result, err)
		}
		for _, it := range items {
			names = append(names, it[key].(string))
		}
		if page["nextCursor"] == nil {
			return names
		}
		if err := json.Unmarshal(page["nextCursor"], &cursor); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) tools(v mcpgw.View) []string {
	f.t.Helper()
	return f.names(v, mcp.MethodListTools, "tools", "name")
}
