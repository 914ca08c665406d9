package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/backend"
)

// playEnv makes the test binary play an agent's program.
const playEnv = "HANDOFF_TEST_PLAY"

// play is the program. Its environment says which one.
func play() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	turn, err := agent.ParseTurn(input)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	print := func(s agent.Step) { os.Stdout.Write(append(s.AppendJSON(nil), '\n')) }
	switch text := turn.Messages[0].Text(); os.Getenv(playEnv) {
	case "echo":
		print(agent.Step{Working: agent.Say("on it")})
		print(agent.Step{Artifact: &agent.Artifact{Parts: turn.Messages[0].Parts}})
		fmt.Println()
		os.Stdout.WriteString(`{"state":{"known":` + fmt.Sprint(len(turn.History)+len(turn.Artifacts)) + `}}`) // no end of line
	case "raw":
		os.Stdout.WriteString(text)
	case "environment":
		for _, v := range os.Environ() {
			os.Stdout.WriteString(v + "\n")
		}
		dir, _ := os.Getwd()
		os.Stdout.WriteString("dir=" + filepath.Base(dir) + "\n")
		os.Stdout.WriteString("args=" + strings.Join(os.Args[1:], "|"))
	case "fail":
		print(agent.Step{Working: agent.Say("trying")})
		fmt.Fprint(os.Stderr, text)
		os.Exit(3)
	case "long":
		os.Stdout.WriteString(`{"complete":"`)
		os.Stdout.Write(bytes.Repeat([]byte("x"), agent.MaxStepBytes-100))
		os.Stdout.WriteString("\"}\n")
	case "endless":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				os.Exit(1)
			}
		}
	case "hang":
		print(agent.Step{Working: agent.Say("hanging")})
		wait(os.Getenv("TEST_CONTROL"))
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		print(agent.Step{Working: agent.Say("hanging")})
		wait(os.Getenv("TEST_CONTROL"))
	case "linger":
		print(agent.Step{Ask: &agent.Ask{Content: *agent.Say("why?")}})
		print(agent.Step{Working: agent.Say("too late")})
		fmt.Println("and no step at all")
		wait(os.Getenv("TEST_CONTROL"))
	case "children":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), playEnv+"=child")
		child.Stdin = bytes.NewReader(input)
		child.Stdout = os.Stdout // held open
		if err := child.Start(); err != nil {
			panic(err)
		}
		wait(os.Getenv("TEST_CONTROL"))
	case "node":
		e := config.Exec{Command: []string{os.Args[0]}, Env: map[string]config.Secret{
			playEnv: config.NewSecret("deaf"), "TEST_CONTROL": config.NewSecret(os.Getenv("TEST_CONTROL")),
		}}
		a, err := backend.New(config.Run{Exec: &e}, backend.Options{})
		if err != nil {
			panic(err)
		}
		_, _ = run(context.Background(), a, turn.Info)
	case "child":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		wait(os.Getenv("TEST_CONTROL"))
	}
}

// wait connects to a listener of the test and stays until that closes the
// connection. The test sees the connection end when the process dies.
func wait(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	_, _ = c.Write([]byte(os.Getenv(playEnv)))
	_, _ = io.Copy(io.Discard, c)
}

// control is where programs that wait report.
type control struct {
	listener net.Listener
	t        *testing.T
}

func newControl(t *testing.T) *control {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &control{listener: l, t: t}
}

// waiter is a program that waits.
type waiter struct {
	part string
	conn net.Conn
	t    *testing.T
}

// accept returns when a program waits.
func (c *control) accept() *waiter {
	c.t.Helper()
	conn, err := c.listener.Accept()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	part := make([]byte, 32)
	n, err := conn.Read(part)
	if err != nil {
		c.t.Fatal(err)
	}
	return &waiter{string(part[:n]), conn, c.t}
}

// release lets the program go on.
func (w *waiter) release() { _ = w.conn.Close() }

// gone returns when the process is gone.
func (w *waiter) gone() {
	if _, err := w.conn.Read(make([]byte, 1)); err == nil {
		w.t.Error("the program said more")
	}
}

func (c *control) address() string { return c.listener.Addr().String() }

// playing returns an agent whose program plays a part.
func playing(t *testing.T, part string, e config.Exec, opt backend.Options) agent.Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if e.Env == nil {
		e.Env = map[string]config.Secret{}
	}
	e.Env[playEnv] = config.NewSecret(part)
	e.Env["GOCOVERDIR"] = config.NewSecret(t.TempDir()) // else it warns on standard error
	e.Command = append([]string{self}, e.Command...)
	a, err := backend.New(config.Run{Exec: &e}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func waiting(c *control, e config.Exec) config.Exec {
	e.Env = map[string]config.Secret{"TEST_CONTROL": config.NewSecret(c.address())}
	return e
}

func TestExecSteps(t *testing.T) {
	t.Parallel()
	info := said("hello", a2a.Data(a2a.JSON(`{"z":1.10,"a":[]}`)))
	info.Number = 2
	r := &recorder{history: info.Messages, artifacts: []a2a.Artifact{{ArtifactID: "x"}}}
	if err := playing(t, "echo", config.Exec{}, backend.Options{}).Run(t.Context(), agent.NewTurn(t.Context(), info, r)); err != nil {
		t.Fatal(err)
	}
	want := `{"working":"on it"}` + "\n" + `{"artifact":{"parts":[{"text":"hello"},{"data":{"z":1.10,"a":[]}}]}}` + "\n" + `{"state":{"known":2}}` + "\n"
	if diff := cmp.Diff(want, r.lines()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestExecLines(t *testing.T) {
	t.Parallel()
	a := playing(t, "raw", config.Exec{}, backend.Options{})
	for _, test := range []struct{ output, steps, problem string }{
		{"", "", ""},
		{"\n\r\n  \n", "", ""},
		{"{\"working\":\"a\"}\r\n{\"working\":\"b\"}", `{"working":"a"} {"working":"b"} `, ""},
		{"{\"complete\":\"a\"}\n{\"working\":\"b\"}\nnonsense\n", `{"complete":"a"} `, ""},
		{"{\"working\":\"a\"}\nStarting up…\n{\"working\":\"b\"}\n", `{"working":"a"} `, "Invalid agent response: not JSON: invalid character 'S' at start of value at byte 0 in Starting up…"},
		{"[{\"working\":\"a\"}]\n", "", "want an object"},
		{"{\"wroking\":\"a\"}\n", "", `unknown key "wroking"`},
		{"\x1b[31mred\x07\x1b[0m" + strings.Repeat("x", 5000) + "\n", "", " in red" + strings.Repeat("x", 200)},
	} {
		r, err := run(t.Context(), a, said(test.output))
		if got := strings.ReplaceAll(r.lines(), "\n", " "); got != test.steps {
			t.Errorf("%.40q: steps are %s, want %s", test.output, got, test.steps)
		}
		if test.problem == "" {
			if err != nil {
				t.Errorf("%.40q: %v", test.output, err)
			}
			continue
		}
		if got := public(t, err); !strings.Contains(got, test.problem) || len(got) > 600 {
			t.Errorf("%.40q: error is %q, want %q", test.output, got, test.problem)
		}
		if refusal, ok := errors.AsType[*a2a.Error](err); ok {
			t.Errorf("%.40q: the message is refused, %v, where the task has to fail", test.output, refusal)
		}
	}
}

func TestExecLongLines(t *testing.T) {
	t.Parallel()
	r, err := run(t.Context(), playing(t, "long", config.Exec{}, backend.Options{}), said("x"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.steps[0].Complete.Parts[0].Text); n != agent.MaxStepBytes-100 {
		t.Errorf("the text has %d bytes", n)
	}
	_, err = run(t.Context(), playing(t, "endless", config.Exec{}, backend.Options{}), said("x"))
	if got := public(t, err); !strings.Contains(got, "a line has more than 16777216 bytes") || len(got) > 600 {
		t.Errorf("error is %.300q", got)
	}
}

func TestExecText(t *testing.T) {
	t.Parallel()
	a := playing(t, "raw", config.Exec{Output: config.ExecText}, backend.Options{})
	for _, text := range []string{"", "hello\nworld\n", strings.Repeat("grüße 🌍\n", 40_000)} {
		r, err := run(t.Context(), a, said(text))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for i, s := range r.steps {
			chunk := s.Artifact.Parts[0].Text
			if s.Artifact.Append != (i > 0) || len(chunk) > 64<<10 || strings.ContainsRune(chunk, '\uFFFD') {
				t.Errorf("chunk %d of %d bytes: append is %v", i, len(chunk), s.Artifact.Append)
			}
			got.WriteString(chunk)
		}
		if got.String() != text {
			t.Errorf("text of %d bytes became one of %d", len(text), got.Len())
		}
	}
}

func TestExecEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_SECRET_OF_THE_NODE", "hidden")
	t.Setenv("TZ", "Asia/Jakarta")
	info := said("x")
	info.Number, info.Attempt = 4, 2
	a := playing(t, "environment", config.Exec{
		Command: []string{"--fast", "a b"}, Dir: "below", Output: config.ExecText,
		Env: map[string]config.Secret{"TOKEN": config.NewSecret("s=1")},
	}, backend.Options{Dir: dir})
	r, err := run(t.Context(), a, info)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range r.steps {
		b.WriteString(s.Artifact.Parts[0].Text)
	}
	got := "\n" + b.String() + "\n"
	for _, want := range []string{
		"TZ=Asia/Jakarta", "TOKEN=s=1", "PATH=" + os.Getenv("PATH"),
		"HANDOFF_TASK_ID=task-1", "HANDOFF_CONTEXT_ID=context-1", "HANDOFF_TURN=4", "HANDOFF_ATTEMPT=2",
		"dir=below", "args=--fast|a b",
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("the program misses %s, it has %s", want, got)
		}
	}
	if strings.Contains(got, "TEST_SECRET_OF_THE_NODE") {
		t.Error("the program has the node's environment")
	}
}

func TestExecFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := playing(t, "fail", config.Exec{}, backend.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for text, want := range map[string]string{
		"":                                       "The agent's program ended with exit status 3.",
		"first\nno dock is free\n\n  \n":         "no dock is free",
		"no \x1b[1mend\x1b[0m\a of line\x00":     "no end of line",
		strings.Repeat("ü", 100_000):             strings.Repeat("ü", 150) + "…",
		"tab\there\u202e\n":                      "tab here",
		"last\r\n":                               "last",
		strings.Repeat("a line\n", 20_000) + "z": "z",
	} {
		r, err := run(t.Context(), a, said(text))
		if got := public(t, err); got != want {
			t.Errorf("%.40q: error is %q, want %q", text, got, want)
		}
		if len(r.steps) != 1 {
			t.Errorf("%.40q: made %d steps", text, len(r.steps))
		}
	}
	if !strings.Contains(log.String(), `level=DEBUG msg="agent wrote to standard error" task=task-1 line=first`) {
		t.Errorf("log is %.500s", log.String())
	}
	if lines := strings.Count(log.String(), "line=\"a line\""); lines > 10_000 {
		t.Errorf("%d lines are logged", lines)
	}
}

func TestExecThatCannotStart(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"./missing", "no-such-program-anywhere"} {
		a, err := backend.New(config.Run{Exec: &config.Exec{Command: []string{command}}}, backend.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = run(t.Context(), a, said("x"))
		if _, shown := agent.Public(err); err == nil || shown || !strings.Contains(err.Error(), "start program") {
			t.Errorf("%s: error is %v, shown to the client: %v", command, err, shown)
		}
	}
}

func TestExecIsCanceled(t *testing.T) {
	t.Parallel()
	stop := errors.New("canceled by the client")
	for part, killAfter := range map[string]time.Duration{"hang": time.Hour, "deaf": 50 * time.Millisecond} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c := newControl(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			a := playing(t, part, waiting(c, config.Exec{KillAfter: config.Duration(killAfter)}), backend.Options{})
			done := make(chan error)
			r := &recorder{emitted: make(chan agent.Step, 1)}
			go func() { done <- a.Run(ctx, agent.NewTurn(ctx, said("x"), r)) }()
			waiter := c.accept()
			<-r.emitted
			cancel(stop)
			if err := <-done; !errors.Is(err, stop) {
				t.Errorf("error is %v", err)
			}
			waiter.gone()
			if r.lines() != "{\"working\":\"hanging\"}\n" {
				t.Errorf("steps are %s", r.lines())
			}
		})
	}
}

func TestExecTimeout(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	a := playing(t, "hang", waiting(c, config.Exec{Timeout: config.Duration(300 * time.Millisecond)}), backend.Options{})
	_, err := run(t.Context(), a, said("x"))
	if got := public(t, err); got != "The agent's program took longer than 300ms." {
		t.Errorf("error is %q", got)
	}
}

// A program that goes on after the step that ended its turn is ended.
func TestExecLingers(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := playing(t, "linger", waiting(c, config.Exec{KillAfter: config.Duration(200 * time.Millisecond)}), backend.Options{})
	r := &recorder{emitted: make(chan agent.Step, 1)}
	done := make(chan error)
	go func() { done <- a.Run(ctx, agent.NewTurn(ctx, said("x"), r)) }()
	waiter := c.accept()
	<-r.emitted
	cancel() // as the engine does when the step is committed
	if err := <-done; err != nil {
		t.Errorf("error is %v", err)
	}
	waiter.gone()
	if r.lines() != "{\"ask\":\"why?\"}\n" {
		t.Errorf("steps are %s", r.lines())
	}
}

// What a program leaves behind goes with it, even when it ignores signals and
// holds the output.
func TestExecLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // children can be ended there only while their parent runs
	}
	for _, text := range []string{"leave", "hang"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := newControl(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := playing(t, "children", waiting(c, config.Exec{KillAfter: config.Duration(200 * time.Millisecond)}), backend.Options{})
			done := make(chan error)
			go func() { done <- a.Run(ctx, agent.NewTurn(ctx, said(text), &recorder{})) }()
			parent, child := c.accept(), c.accept()
			if parent.part == "child" {
				parent, child = child, parent
			}
			if text == "hang" {
				cancel()
			} else {
				parent.release()
			}
			if err := <-done; (err != nil) != (text == "hang") {
				t.Errorf("error is %v", err)
			}
			if text == "hang" {
				parent.gone()
			}
			child.gone()
		})
	}
}

// A shell script is an agent, found relative to the configuration.
func TestExecShell(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // has no shell of this kind
	}
	dir := t.TempDir()
	script := "#!/bin/sh\ncat >/dev/null\necho '{\"working\": \"'$1'\"}'\necho \"{\\\"complete\\\": \\\"turn $HANDOFF_TURN\\\"}\"\n"
	if err := os.WriteFile(filepath.Join(dir, "agent.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	a := build(t, "exec: [./agent.sh, fast]", backend.Options{Dir: dir})
	r, err := run(t.Context(), a, said("x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.lines(); got != "{\"working\":\"fast\"}\n{\"complete\":\"turn 1\"}\n" {
		t.Errorf("steps are %s", got)
	}
}

func TestExecConfiguration(t *testing.T) {
	t.Parallel()
	short := configured(t, "exec: [./a, -x]").Exec
	if diff := cmp.Diff([]string{"./a", "-x"}, short.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	long := configured(t, "exec: {command: [b], output: text, env: {A: one}, dir: d, timeout: 1m, kill_after: 2s}").Exec
	if long.Command[0] != "b" || long.Output != config.ExecText || long.Env["A"].Reveal() != "one" || long.Dir != "d" ||
		long.Timeout.Std() != time.Minute || long.KillAfter.Std() != 2*time.Second {
		t.Errorf("exec is %+v", long)
	}
}
