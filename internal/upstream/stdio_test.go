package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// part is the configuration of a server that this binary plays.
func part(t *testing.T, name string) *config.MCPServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.NewMCPServer("")
	c.Command = []string{self}
	c.Env = map[string]config.Secret{playEnv: config.NewSecret(name)}
	c.Timeout = config.Duration(20 * time.Second)
	return c
}

// logs takes what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestModernStdio(t *testing.T) {
	t.Parallel()
	all := servers(t, part(t, "modern"), upstream.Options{})
	s := only(t, all)
	exerciseTools(t, s)
	state, _ := all.State(name)
	if state.Transport != "stdio" || state.Era != "modern" || state.Revision != mcp.Modern || len(state.Processes) != 1 || !state.Up {
		t.Errorf("got %+v", state)
	}
	r := call("steps", "{}")
	r.Message = r.Message.WithMeta(mcp.MetaProgress, []byte(`"token"`))
	got := must(t, s, r)
	if len(got.Notes) != 3 || !strings.Contains(got.Notes[2], `"progressToken":"token"`) {
		t.Errorf("got %q", got.Notes)
	}
	got = must(t, s, request(mcp.MethodCallTool, `{"name":"ask","arguments":{}}`, `{"elicitation":{}}`))
	if got.Response.ResultType != mcp.ResultInputRequired {
		t.Errorf("got %s", got.Response.Body)
	}
}

// A process has no headers: its message says which trace it is a part of (OBS-02).
func TestTraceStdio(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		s := only(t, servers(t, part(t, era), upstream.Options{}))
		r := call("echo", `{"text":"trace"}`)
		r.Header = http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
		if got := must(t, s, r); !strings.Contains(string(got.Response.Body), "within 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") {
			t.Errorf("%s: got %s", era, got.Response.Body)
		}
	}
}

// A log message of a process does not say of which request it is. It is of the only
// one that has no answer yet, though somebody still has that of the one before in
// his hands.
func TestLogsAreOfTheOnlyRequest(t *testing.T) {
	t.Parallel()
	s := only(t, servers(t, part(t, "logging"), upstream.Options{}))
	logging := func() *upstream.Request {
		r := call("x", "{}")
		r.Message = r.Message.WithMeta(mcp.MetaLogLevel, []byte(`"info"`))
		return r
	}
	before, err := s.Do(t.Context(), logging())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	for {
		m, err := before.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.IsResponse() {
			break
		}
	}
	if got := must(t, s, logging()); len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "said") {
		t.Errorf("got %q", got.Notes)
	}
}

// exerciseTools calls what every server with the tools answers alike.
func exerciseTools(t *testing.T, s upstream.Server) {
	t.Helper()
	var all sync.WaitGroup
	for range 10 { // all with the id 1
		all.Go(func() {
			got, err := ask(t, s, call("echo", "{\n\"text\":\"hello\"}"))
			if err != nil || !strings.Contains(string(got.Response.Body), `"text":"hello"`) || string(got.Response.ID) != "1" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	all.Wait()
	for _, test := range []struct {
		r    *upstream.Request
		want []string
	}{
		{request(mcp.MethodListTools, "{}", ""), []string{`"name":"echo"`, `"resultType":"complete"`, `"ttlMs":`, `"cacheScope":`}},
		{request(mcp.MethodListResources, "{}", ""), []string{`memo://one`, `"resultType":"complete"`, `"ttlMs":`}},
		{request(mcp.MethodListPrompts, "{}", ""), []string{`greet`, `"resultType":"complete"`}},
		{request(mcp.MethodReadResource, `{"uri":"memo://one"}`, ""), []string{"first", `"resultType":"complete"`, `"ttlMs":`}},
		{request(mcp.MethodGetPrompt, `{"name":"greet"}`, ""), []string{"Hi", `"resultType":"complete"`}},
		{request(mcp.MethodDiscover, `{}`, ""), []string{mcp.Modern, `"resultType":"complete"`, `"ttlMs":`, `"cacheScope":`, `"tools":{`, "Use the tools.", `"name":"tools"`}},
		{call("fail", "{}"), []string{`"isError":true`, "it broke"}},
		{request(mcp.MethodReadResource, `{"uri":"memo://none"}`, ""), []string{`"code":-32602`}},
		{call("none", "{}"), []string{`"code":-32602`}},
		{request("tasks/get", `{"taskId":"x"}`, ""), []string{`"code":-32601`}},
	} {
		got := must(t, s, test.r)
		for _, want := range test.want {
			if !strings.Contains(string(got.Response.Body), want) {
				t.Errorf("%s: %s has no %s", test.r.Message.Method, got.Response.Body, want)
			}
		}
	}
}

func TestLegacyStdio(t *testing.T) {
	t.Parallel()
	all := servers(t, part(t, "legacy"), upstream.Options{})
	s := only(t, all)
	exerciseTools(t, s)
	exerciseInput(t, s)
	state, _ := all.State(name)
	if state.Era != "legacy" || state.Revision != mcp.Legacy || len(state.Processes) != 2 {
		t.Errorf("got %+v", state)
	}
}

// exerciseInput has a tool of a legacy server ask in the middle of a call (MRT-09).
func exerciseInput(t *testing.T, s upstream.Server) {
	t.Helper()
	form := `{"elicitation":{"form":{}}}`
	first := func() *mcp.Message {
		got := must(t, s, request(mcp.MethodCallTool, `{"name":"ask","arguments":{}}`, form)).Response
		if got.ResultType != mcp.ResultInputRequired || !strings.Contains(string(got.Body), `"input-1":{"method":"elicitation/create"`) || !strings.Contains(string(got.Body), "Your name?") {
			t.Fatalf("got %s", got.Body)
		}
		return got
	}
	retry := func(state, answers string) *mcp.Message {
		r := request(mcp.MethodCallTool, `{"name":"ask","arguments":{},"requestState":"`+state+`","inputResponses":`+answers+`}`, form)
		r.Message = r.Message.WithID([]byte(`"second"`))
		return must(t, s, r).Response
	}
	answer := `{"input-1":{"action":"accept","content":{"name":"Sari"}}}`
	state := first().ParamString("requestState")
	if got := retry(state, `{"other":{}}`); got.ResultType != mcp.ResultInputRequired || got.ParamString("requestState") != state { // MRT-06
		t.Errorf("got %s", got.Body)
	}
	if got := retry("held.unknown", answer).Error(); got == nil || got.Code != mcp.CodeInvalidParams {
		t.Errorf("got %v", got)
	}
	// Another caller, and another call, do not get it (SEC-04).
	other := request(mcp.MethodCallTool, `{"name":"ask","arguments":{},"requestState":"`+state+`","inputResponses":`+answer+`}`, form)
	other.Caller = &auth.Principal{Subject: "somebody"}
	if got := must(t, s, other).Response.Error(); got == nil || got.Code != mcp.CodeInvalidParams {
		t.Errorf("got %v", got)
	}
	another := request(mcp.MethodCallTool, `{"name":"ask","arguments":{"x":1},"requestState":"`+state+`","inputResponses":`+answer+`}`, form)
	if got := must(t, s, another).Response.Error(); got == nil || got.Code != mcp.CodeInvalidParams {
		t.Errorf("got %v", got)
	}
	if got := retry(state, answer); !strings.Contains(string(got.Body), "Hello Sari") || string(got.ID) != `"second"` || got.ResultType != mcp.ResultComplete {
		t.Errorf("got %s", got.Body)
	}
	if got := retry(state, answer).Error(); got == nil || got.Code != mcp.CodeInvalidParams { // once
		t.Errorf("got %v", got)
	}
	if got := retry(first().ParamString("requestState"), `{"input-1":{"action":"decline"}}`); !strings.Contains(string(got.Body), "Hello nobody: decline") {
		t.Errorf("got %s", got.Body)
	}
	// Two questions at once are one round, of which one can be answered first.
	got := must(t, s, request(mcp.MethodCallTool, `{"name":"ask_twice","arguments":{}}`, form)).Response
	if text := string(got.Body); !strings.Contains(text, `"input-1":`) || !strings.Contains(text, `"input-2":`) {
		t.Fatalf("got %s", text)
	}
	state = got.ParamString("requestState")
	twice := func(answers string) *mcp.Message {
		return must(t, s, request(mcp.MethodCallTool, `{"name":"ask_twice","arguments":{},"requestState":"`+state+`","inputResponses":`+answers+`}`, form)).Response
	}
	one := `{"action":"accept","content":{"name":"A"}}`
	if text := string(twice(`{"input-2":` + one + `}`).Body); !strings.Contains(text, `"input-1":`) || strings.Contains(text, `"input-2":`) {
		t.Errorf("got %s", text)
	}
	if text := string(twice(`{"input-1":` + one + `}`).Body); !strings.Contains(text, `"AA"`) {
		t.Errorf("got %s", text)
	}
	// A client that cannot be asked is not.
	if got := must(t, s, call("ask", "{}")).Response; !strings.Contains(string(got.Body), `"isError":true`) {
		t.Errorf("got %s", got.Body)
	}
}

func TestHostileStdio(t *testing.T) {
	t.Parallel()
	tests := map[string]int{
		"wrong": 0, "noise": 0, "flood": 0, "plain": 0,
		"garbage": mcp.CodeBadAnswer, "giant": mcp.CodeBadAnswer, "martian": mcp.CodeBadAnswer, "die": mcp.CodeOutcomeUnknown, "mute": mcp.CodeTimeout,
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := part(t, name)
			c.ResultBytes = 100 << 10
			c.Env["SECRET"] = config.NewSecret("hunter2hunter2")
			if name == "mute" {
				c.Timeout = config.Duration(300 * time.Millisecond)
			}
			var l logs
			s := only(t, servers(t, c, upstream.Options{Log: l.logger()}))
			got, err := ask(t, s, call("x", "{}"))
			if codeOf(err) != code || code != 0 && !errors.Is(err, upstream.ErrOutcomeUnknown) {
				t.Errorf("got %v, %v", got, err)
			}
			if name != "mute" && code != 0 {
				// It is started again.
				if _, err := ask(t, s, request(mcp.MethodListTools, "{}", "")); err != nil {
					t.Errorf("again: %v", err)
				}
			}
			if text := l.text(); strings.Contains(text, "hunter2") || name == "die" && !strings.Contains(text, "out of ***") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// What only reads is asked again when the process is lost (STD-06).
func TestRestartStdio(t *testing.T) {
	t.Parallel()
	c := part(t, "once")
	c.Env["TEST_FIRST"] = config.NewSecret(filepath.Join(t.TempDir(), "first"))
	s := only(t, servers(t, c, upstream.Options{}))
	must(t, s, request(mcp.MethodListTools, "{}", ""))
}

func TestKilledStdio(t *testing.T) {
	t.Parallel()
	all := servers(t, part(t, "mute"), upstream.Options{})
	s := only(t, all)
	answer, err := s.Do(t.Context(), call("x", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	state, _ := all.State(name)
	p, err := os.FindProcess(state.Processes[0].PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Next(); !errors.Is(err, upstream.ErrOutcomeUnknown) || codeOf(err) != mcp.CodeOutcomeUnknown {
		t.Errorf("got %v", err)
	}
}

// A legacy server that does not answer what it does not know is found out (G11,
// VER-07).
func TestSilentStdio(t *testing.T) {
	t.Parallel()
	c := part(t, "silent")
	c.ConnectTimeout = config.Duration(500 * time.Millisecond)
	all := servers(t, c, upstream.Options{})
	must(t, only(t, all), call("x", "{}"))
	if state, _ := all.State(name); state.Revision != "2025-06-18" {
		t.Errorf("got %+v", state)
	}
}

// A program gets what is configured and little else.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	os.Setenv("TEST_NOT_PASSED_ON", "x") //nolint:usetesting // for all
	c := part(t, "environment")
	got := must(t, only(t, servers(t, c, upstream.Options{})), call("x", "{}"))
	text := string(got.Response.Body)
	if strings.Contains(text, "TEST_NOT_PASSED_ON") || !strings.Contains(text, playEnv+"=environment") || !strings.Contains(text, "PATH=") {
		t.Errorf("got %s", text)
	}
}

func TestCancelStdio(t *testing.T) {
	t.Parallel()
	var l logs
	seen := make(chan struct{})
	s := only(t, servers(t, part(t, "mute"), upstream.Options{Log: slog.New(&sees{Handler: l.logger().Handler(), text: "cancelled 2", seen: seen})}))
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := s.Do(ctx, call("x", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := answer.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	answer.Close()
	<-seen
}

// sees closes a channel when a text is logged.
type sees struct {
	slog.Handler
	text string
	seen chan struct{}
	once sync.Once
}

func (s *sees) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), s.text) {
			s.once.Do(func() { close(s.seen) })
		}
		return true
	})
	return s.Handler.Handle(ctx, r)
}

func (s *sees) WithAttrs([]slog.Attr) slog.Handler { return s }
