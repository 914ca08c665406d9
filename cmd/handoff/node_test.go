package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"handoff.example/handoff/config"
)

// TestNodeScripts runs real nodes: handoff serve, as processes.
func TestNodeScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "node"),
		Setup: func(env *testscript.Env) error {
			settle(env)
			env.Values[serverKey{}] = &serving{}
			return nil
		},
		Cmds: nodeCommands(),
	})
}

// nodeCommands are what scripts about nodes can do.
func nodeCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"serve":   cmdServe,
		"signal":  cmdSignal,
		"ended":   cmdEnded,
		"logged":  cmdLogged,
		"append":  cmdAppend,
		"replace": cmdReplace,
		"capture": cmdCapture,
		"exits":   cmdExits,
		"occupy":  cmdOccupy,
		"mode":    cmdMode,
		"certify": cmdCertify,
		"until":   cmdUntil,
		"expand":  cmdExpand,
		"tools":   cmdTools,
		"calls":   cmdCalls,
		"finish":  cmdFinish,
	}
}

// patience of tests is how long they wait for what happens at once.
const testPatience = 30 * time.Second

type serverKey struct{}

// serving is the node of a script.
type serving struct {
	tools   *toolServer // that the node uses; nil: none
	process *exec.Cmd
	log     *lineLog
	ended   chan struct{} // closed when the process has
	err     error
}

func serverOf(ts *testscript.TestScript) *serving {
	s := ts.Value(serverKey{}).(*serving)
	if s.process == nil {
		ts.Fatalf("no node has been started")
	}
	return s
}

// cmdServe starts a node on a port that is free, with further arguments, and
// waits until it is ready. It sets NODE to its URL.
func cmdServe(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value(serverKey{}).(*serving)
	if s.process != nil {
		select {
		case <-s.ended:
		default:
			ts.Fatalf("a node is running already")
		}
	}
	program, err := exec.LookPath("handoff")
	if found := filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], "handoff"); err != nil || fileExists(found) {
		program = found
	}
	process := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--shutdown-grace", "5s"}, args...)...)
	process.Dir = ts.MkAbs(".")
	process.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "TZ=UTC")
	for _, name := range []string{"FOLDER", "PASSWORD", "SCHEMA"} {
		process.Env = append(process.Env, "DATABASE_"+name+"="+ts.Getenv("DATABASE_"+name))
	}
	*s = serving{tools: s.tools, process: process, log: &lineLog{changed: make(chan struct{})}, ended: make(chan struct{})}
	process.Stderr = s.log
	ts.Check(process.Start())
	go func() {
		s.err = process.Wait()
		close(s.ended)
	}()
	ts.Defer(func() {
		_ = process.Process.Kill()
		<-s.ended
		if text := s.log.String(); text != "" {
			ts.Logf("[log of the node]\n%s", text)
		}
	})
	m := s.wait(ts, regexp.MustCompile(`msg="The node is ready" address=(\S+)`))
	ts.Setenv("NODE", "http://"+m[1])
	ts.Setenv("ADDRESS", m[1])
	ready(ts, args)
}

// ready waits until the node says over its socket that it is ready.
func ready(ts *testscript.TestScript, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	c, err := config.Load(ts.MkAbs("handoff.yaml"))
	ts.Check(err)
	if i := slices.Index(args, "--store"); i >= 0 {
		ts.Check(c.Set("store", args[i+1], "--store"))
	}
	node, err := socketNode(c)
	ts.Check(err)
	if slices.Contains(args, "-c") { // a configuration with a database
		node = socketAt(ts.MkAbs("handoff.sock"))
	}
	defer node.close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := node.ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("the node is not ready: %v", err)
		}
	}
}

// wait waits for a line of the log.
func (s *serving) wait(ts *testscript.TestScript, line *regexp.Regexp) []string {
	deadline := time.After(testPatience)
	for {
		text, changed := s.log.now()
		if m := line.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-changed:
		case <-s.ended:
			if m := line.FindStringSubmatch(s.log.String()); m != nil {
				return m
			}
			ts.Fatalf("the node has ended without %s:\n%s", line, s.log.String())
		case <-deadline:
			ts.Fatalf("the node does not say %s:\n%s", line, text)
		}
	}
}

// cmdSignal sends the node a signal: TERM, INT, HUP or KILL.
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "HUP": syscall.SIGHUP, "KILL": os.Kill}
	ts.Check(serverOf(ts).process.Process.Signal(signals[args[0]]))
}

// cmdEnded waits until the node has ended, with an exit code, or by a signal.
func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	s := serverOf(ts)
	select {
	case <-s.ended:
	case <-time.After(testPatience):
		ts.Fatalf("the node does not end")
	}
	code := strconv.Itoa(s.process.ProcessState.ExitCode())
	if !s.process.ProcessState.Exited() {
		code = "signal"
	}
	if code != args[0] {
		ts.Fatalf("the node has ended with %s and not %s: %v", code, args[0], s.err)
	}
}

// cmdLogged waits until the log of the node has a line; with ! it has none so
// far.
func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	s, line := serverOf(ts), regexp.MustCompile(args[0])
	if !neg {
		s.wait(ts, line)
		return
	}
	if line.MatchString(s.log.String()) {
		ts.Fatalf("the node has said %s:\n%s", line, s.log.String())
	}
}

// cmdAppend adds the content of a file to another one.
func cmdAppend(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(file, []byte(ts.ReadFile(file)+ts.ReadFile(args[1])), 0o644))
}

// cmdReplace replaces a text in a file.
func cmdReplace(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	text := ts.ReadFile(file)
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s has no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(file, []byte(strings.Replace(text, args[1], args[2], 1)), 0o644))
}

// cmdOccupy listens on an address and sets ADDRESS to it.
func cmdOccupy(ts *testscript.TestScript, _ bool, _ []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	ts.Defer(func() { _ = server.Close() })
	ts.Setenv("ADDRESS", listener.Addr().String())
}

// cmdMode checks or, with a third argument, changes the mode of a file.
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	if len(args) == 3 {
		ts.Check(os.Chmod(ts.MkAbs(args[1]), os.FileMode(want)))
		return
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); got != os.FileMode(want) {
		ts.Fatalf("%s has mode %04o", args[1], got)
	}
}

// cmdUntil runs the program until its output matches.
func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	line := regexp.MustCompile("(?m)" + args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testPatience)
	for {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && line.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s does not come to %s: %v", strings.Join(args[1:], " "), line, err)
		}
	}
}

// lineLog keeps what a process writes, and says when there is more.
type lineLog struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

func (l *lineLog) now() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String(), l.changed
}

func (l *lineLog) String() string {
	text, _ := l.now()
	return text
}
