package examples_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
)

// example is a running example: a copy of its folder with a node of its own.
type example struct {
	name string
	dir  string // the copy
	base string // http://127.0.0.1:port
	stop func()
}

// start runs an example with one of its configuration files, in the process of
// the test.
func start(t *testing.T, name, file string) *example {
	t.Helper()
	e := &example{name: name, dir: folder(t, name)}
	e.serve(t, file)
	return e
}

// serve starts the node, and a test that has stopped it starts it again.
func (e *example) serve(t *testing.T, file string) {
	t.Helper()
	c, err := config.Load(filepath.Join(e.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.NewTextHandler(logOf(t), nil))})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.base = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- node.Serve(ctx, listener) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(e.stop)
}

// address is that of the example's agent.
func (e *example) address() string { return e.base + "/agents/" + e.name + "/" }

// client returns a client that prefers a binding.
func (e *example) client(t *testing.T, binding string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), e.address(), client.Options{Transports: []string{binding}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Interface().ProtocolBinding; got != binding {
		t.Fatalf("binding: %s, want %s", got, binding)
	}
	return c
}

// bothBindings runs a test over JSON-RPC and over HTTP+JSON.
func (e *example) bothBindings(t *testing.T, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		t.Run(binding, func(t *testing.T) { test(t, e.client(t, binding)) })
	}
}

// folder copies an example into a directory of the test and builds its program, or
// its tool server.
func folder(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for _, pattern := range []string{"*.yaml", "*.csv", "*.md", "*.pdf", "*.txt"} {
		files, err := filepath.Glob(filepath.Join(name, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			copyFile(t, file, filepath.Join(dir, filepath.Base(file)))
		}
	}
	for _, kind := range []string{"agent", "server"} {
		if _, err := os.Stat(filepath.Join(name, kind)); err != nil {
			continue
		}
		program, err := built("./" + name + "/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		link(t, program, filepath.Join(dir, "bin", name+"-"+kind))
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, program, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, to+filepath.Ext(program)); err != nil {
		t.Fatal(err)
	}
}

// exe ends the name of a program.
var exe = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

// programs are what the tests have built, by package.
var programs struct {
	sync.Mutex
	dir   string
	built map[string]string
}

// built returns the program of a package, which is built once.
func built(pkg string) (string, error) {
	programs.Lock()
	defer programs.Unlock()
	if program := programs.built[pkg]; program != "" {
		return program, nil
	}
	program := filepath.Join(programs.dir, strings.NewReplacer("/", "-", ".", "").Replace(pkg)+exe)
	if out, err := exec.Command("go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	if programs.built == nil {
		programs.built = map[string]string{}
	}
	programs.built[pkg] = program
	return program, nil
}

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "handoff-examples")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs.dir = dir
	return m.Run()
}

// testLog writes into the log of a test until that is over.
type testLog struct {
	mu   sync.Mutex
	t    *testing.T
	over bool
}

func logOf(t *testing.T) *testLog {
	l := &testLog{t: t}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.over = true
	})
	return l
}

// Write writes a line.
func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// post sends a body as it stands, with the header that the protocol asks for.
func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// edit replaces a text of a file.
func edit(t *testing.T, file, from, to string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), from) {
		t.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(content), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}
