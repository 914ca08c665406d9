//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// lease is how long a node counts as alive without a sign of life.
const lease = 10 * time.Second

// The agents of the server. What the program of the exec agents does stands in
// program.go.
const configuration = `# written by the chaos test
listen: ADDRESS
store: sqlite:store.db
callers: {anonymous: loopback}
limits: {streams: 0}
retention: {tasks: 0s}
agents:
  script:
    name: Script
    description: Goes on after an interruption where it was.
    version: 1.0.0
    skills: [{id: script, name: Script, description: Echoes and counts., tags: [test]}]
    idempotency: on
    run:
      script:
        - when: {turn: 2}
          do: [{artifact: {id: answer, parts: [{text: "{{.Text}}"}], last: true}}]
        - when: {text: '^ask$'}
          do: [{ask: What next?}]
        - when: {text: '^message (.*)$'}
          do: [{message: "{{.Match 1}}"}]
        - when: {text: '^slow (\d+)$'}
          do:
            - working: counting
            - repeat: {times: "{{.Match 1}}", every: 25ms, do: [{artifact: {id: work, append: true, parts: [{text: "{{.I}} "}]}}]}
        - when: {text: '^burst (\d+)$'}
          do:
            - repeat: {times: "{{.Match 1}}", do: [{artifact: {id: work, append: true, parts: [{text: "{{.I}} "}]}}]}
        - do: [{artifact: {id: echo, parts: [{text: "{{.Text}}"}], last: true}}]
  once:
    name: Once
    description: A program with side effects, which is not run again.
    version: 1.0.0
    skills: [{id: once, name: Once, description: Writes a journal., tags: [test]}]
    idempotency: on
    on_interrupt: fail
    run: {exec: {command: ["PROGRAM", program, "JOURNAL.once"], kill_after: 2s}}
  again:
    name: Again
    description: A program that is run again after an interruption.
    version: 1.0.0
    skills: [{id: again, name: Again, description: Writes a journal., tags: [test]}]
    idempotency: on
    on_interrupt: resume
    run: {exec: {command: ["PROGRAM", program, "JOURNAL.again"], kill_after: 2s}}
`

// server is the server under test: one address and one store, and one process
// after the other.
type server struct {
	program string
	dir     string
	address string
	log     *os.File
	starts  int
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone
	exit    error         // of the process, once it is
	// graceful is set while the process is told to stop in its own way.
	graceful atomic.Bool
}

// newServer prepares a directory with a configuration.
func newServer(program, dir string) (*server, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// A port that was free a moment ago: every process of the server has the
	// same one.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{program: program, dir: dir, address: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	text := strings.NewReplacer("ADDRESS", s.address, "PROGRAM", self, "JOURNAL", s.journal("")).Replace(configuration)
	for _, agent := range programs {
		if err := os.Mkdir(s.journal(agent)+".locks", 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "handoff.yaml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	s.log, err = os.Create(filepath.Join(dir, "server.log"))
	return s, err
}

// programs are the agents that run the program.
var programs = []string{"once", "again"}

// journal is where the program of an agent writes.
func (s *server) journal(agent string) string {
	path := filepath.Join(s.dir, "journal")
	if agent != "" {
		path += "." + agent
	}
	return path
}

func (s *server) socket() string { return filepath.Join(s.dir, "store.db.sock") }

// start starts a process, and does not wait until it is ready.
func (s *server) start() error {
	s.starts++
	fmt.Fprintf(s.log, "--- start %d\n", s.starts)
	cmd := exec.Command(s.program, "serve", "-c", "handoff.yaml")
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited, s.exit = cmd, exited, nil
	go func() {
		s.exit = cmd.Wait()
		close(exited)
	}()
	return nil
}

// ready waits until the server takes requests.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-s.exited:
			return fmt.Errorf("start %d of the server ended by itself: %w", s.starts, errOr(s.exit, "it says that all is well"))
		case <-ctx.Done():
			return fmt.Errorf("start %d of the server is not ready: %w", s.starts, ctx.Err())
		case <-ticker.C:
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(q); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

// kill ends the process without a warning.
func (s *server) kill() error {
	select {
	case <-s.exited:
		return fmt.Errorf("start %d of the server had ended before it was killed: %w", s.starts, errOr(s.exit, "without an error"))
	default:
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.exited
	return nil
}

// stop tells the process to stop, and waits until it has.
func (s *server) stop(ctx context.Context) error {
	s.graceful.Store(true)
	defer s.graceful.Store(false)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		if s.exit != nil {
			return fmt.Errorf("start %d of the server was told to stop and ended with: %w", s.starts, s.exit)
		}
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("start %d of the server does not stop", s.starts)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeze stops the process for a time, as a machine that is paused does.
func (s *server) freeze(ctx context.Context, d time.Duration) error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, d)
	return s.cmd.Process.Signal(syscall.SIGCONT)
}

// end ends what is left of the server.
func (s *server) end() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	_ = s.log.Close()
}

func errOr(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// wait passes time, less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
