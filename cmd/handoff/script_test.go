package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"handoff.example/handoff/a2a"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"handoff": main})
}

// settle gives a script a home, a time zone, and what the race detector was told.
func settle(env *testscript.Env) {
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("TZ", "UTC")
	env.Setenv("GORACE", os.Getenv("GORACE"))
}

// TestScripts runs the program on real agents; see the comments of the
// commands for what the scripts can do.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			settle(env)
			env.Values[stateKey{}] = new(scriptState)
			return os.MkdirAll(filepath.Join(env.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent":   cmdAgent,
			"await":   cmdAwait,
			"release": cmdRelease,
			"capture": cmdCapture,
			"exits":   cmdExits,
			"unused":  cmdUnused,
			"expand":  cmdExpand,
			"cut":     cmdCut,
		},
	})
}

type stateKey struct{}

// scriptState is what a script has started.
type scriptState struct{ node *testNode }

func stateOf(ts *testscript.TestScript) *scriptState { return ts.Value(stateKey{}).(*scriptState) }

// cmdAgent starts an agent and sets AGENT to its address and NODE to that of
// its node. Arguments change it: nostream, rest, tls, bearer, header-key
// and query-key (callers need credentials), push (one that keeps webhooks), deaf
// (one that never answers).
func cmdAgent(ts *testscript.TestScript, _ bool, args []string) {
	if slices.Contains(args, "push") || slices.Contains(args, "deaf") {
		done := make(chan struct{})
		server := deafServer(done)
		if slices.Contains(args, "push") {
			server = pushServer()
		}
		started := server.start()
		ts.Defer(func() {
			close(done)
			started.CloseClientConnections()
			started.Close()
		})
		ts.Setenv("AGENT", started.URL)
		return
	}
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "node")
	ts.Check(err)
	o := nodeOptions{dir: dir}
	for _, arg := range args {
		switch arg {
		case "nostream":
			o.noStream = true
		case "rest":
			o.restOnly = true
		case "tls":
			o.tls = true
		case "bearer":
			o.auth = bearerCallers{}
			o.schemes = map[string]a2a.SecurityScheme{"token": {HTTPAuth: &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}}
		case "header-key":
			o.auth = bearerCallers{}
			o.schemes = map[string]a2a.SecurityScheme{"key": {APIKey: &a2a.APIKeySecurityScheme{Location: "header", Name: "X-Quote-Key"}}}
		case "query-key":
			o.auth = bearerCallers{}
			o.schemes = map[string]a2a.SecurityScheme{"key": {APIKey: &a2a.APIKeySecurityScheme{Location: "query", Name: "quote_key"}}}
		default:
			ts.Fatalf("agent: there is no %s", arg)
		}
	}
	node, err := startNode(o)
	ts.Check(err)
	ts.Defer(node.close)
	stateOf(ts).node = node
	ts.Setenv("AGENT", node.url)
	ts.Setenv("NODE", node.base)
}

// cmdAwait waits until a turn holds and sets TASK to its task, or with the
// argument stream until somebody has got the first event of a stream.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	node := stateOf(ts).node
	var streams chan struct{}
	begun := node.begun
	if slices.Contains(args, "stream") {
		streams, begun = node.streams, nil
	}
	select {
	case <-streams:
	case id := <-begun:
		ts.Setenv("TASK", id)
	case <-time.After(20 * time.Second):
		ts.Fatalf("nothing has happened")
	}
}

// cmdRelease lets every turn that holds go on.
func cmdRelease(ts *testscript.TestScript, _ bool, _ []string) { close(stateOf(ts).node.gate) }

// cmdCapture sets a variable to what the first group of a regular expression
// matches in the last output.
func cmdCapture(ts *testscript.TestScript, _ bool, args []string) {
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("the output does not match %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// cmdExits runs the program and checks its exit code.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s instead of %s", code, args[0])
	}
}

// cmdUnused sets a variable to an address at which nobody listens.
func cmdUnused(ts *testscript.TestScript, _ bool, args []string) {
	address, err := unusedAddress()
	ts.Check(err)
	ts.Setenv(args[0], address)
}

// cmdExpand replaces variables in a file by their values.
func cmdExpand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// cmdCut cuts the next answer of the agent. With the argument gateway, a proxy
// answers in its place.
func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	node := stateOf(ts).node
	node.gateway.Store(slices.Contains(args, "gateway"))
	node.cuts.Store(1)
}
