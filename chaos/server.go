//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// server is a node under test: one address and one directory, and one process
// after the other.
type server struct {
	name    string
	command []string // that starts a process
	dir     string
	address string
	socket  string // of its admin API
	host    string // where it runs, as its programs see it
	log     *os.File
	starts  int
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone
	exit    error         // of the process, once it is
}

// newServer prepares the directory of a node with its configuration. wrap is
// the command that runs other commands where the node is.
func newServer(name, program, dir, address, configuration string, wrap ...string) (*server, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("the program of the server is missing, make build makes it: %w", err)
	}
	s := &server{name: name, dir: dir, address: address, command: append(slices.Clone(wrap), program, "serve", "-c", "handoff.yaml")}
	if err := os.WriteFile(filepath.Join(dir, "handoff.yaml"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	s.log, err = os.Create(filepath.Join(dir, "server.log"))
	return s, err
}

// start starts a process, and does not wait until it is ready.
func (s *server) start() error {
	s.starts++
	fmt.Fprintf(s.log, "--- start %d\n", s.starts)
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
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
	last := "nothing"
	for {
		select {
		case <-s.exited:
			return fmt.Errorf("start %d of %s ended by itself: %w", s.starts, s.name, errOr(s.exit, "it says that all is well"))
		case <-ctx.Done():
			return fmt.Errorf("start %d of %s is not ready and says %s: %w", s.starts, s.name, last, ctx.Err())
		case <-ticker.C:
		}
		switch code, err := s.asks(ctx, "/readyz"); {
		case code == http.StatusOK:
			return nil
		case err != nil:
			last = err.Error()
		default:
			last = strconv.Itoa(code)
		}
	}
}

// asks returns the status that a path is answered with.
func (s *server) asks(ctx context.Context, path string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return 0, err
	}
	q.Close = true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// keepGoroutines writes what the process is doing to a file beside its log.
func (s *server) keepGoroutines(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/debug/pprof/goroutine?debug=2", nil)
	if err != nil {
		return err
	}
	answer, err := newAdmin([]string{s.socket}).http.Do(q)
	if err != nil {
		return fmt.Errorf("read goroutines of %s: %w", s.name, err)
	}
	defer answer.Body.Close()
	file, err := os.Create(filepath.Join(s.dir, "goroutines.txt"))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, answer.Body)
	return errors.Join(err, file.Close())
}

// alive says why there is no process, if there is none.
func (s *server) alive() error {
	select {
	case <-s.exited:
		return fmt.Errorf("start %d of %s has ended by itself: %w", s.starts, s.name, errOr(s.exit, "without an error"))
	default:
		return nil
	}
}

// kill ends the process without a warning.
func (s *server) kill() error {
	if err := s.alive(); err != nil {
		return err
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.exited
	return nil
}

// stop tells the process to stop, and waits until it has.
func (s *server) stop(ctx context.Context) error {
	if err := s.alive(); err != nil {
		return err
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		if s.exit != nil {
			return fmt.Errorf("start %d of %s was told to stop and ended with: %w", s.starts, s.name, s.exit)
		}
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("start %d of %s does not stop", s.starts, s.name)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeze stops the process for a time, as a machine that is paused does.
func (s *server) freeze(ctx context.Context, d time.Duration) error {
	if err := s.alive(); err != nil {
		return err
	}
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, d)
	return s.cmd.Process.Signal(syscall.SIGCONT)
}

// end ends what is left of the server.
func (s *server) end() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended already
		<-s.exited
	}
	return s.log.Close()
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
