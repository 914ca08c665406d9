package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// server is `handoff serve` as a process of its own.
type server struct {
	cmd    *exec.Cmd
	exited chan struct{}
	output *log
}

// log keeps what a server writes, and passes it on when somebody wants to see it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	also io.Writer
}

// Write keeps the text.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.also != nil {
		_, _ = l.also.Write(p)
	}
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startServer starts a server and returns when it is ready.
func startServer(ctx context.Context, program, config, address string, also io.Writer) (*server, error) {
	s := &server{
		cmd:    exec.Command(program, "serve", "-c", config, "--listen", address), //nolint:noctx // it is killed when the story says so
		exited: make(chan struct{}), output: &log{also: also},
	}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // its end is seen by exited, and its reason is in its output
		close(s.exited)
	}()
	if err := s.ready(ctx, "http://"+address+"/readyz"); err != nil {
		return nil, errors.Join(err, s.kill())
	}
	return s, nil
}

// ready returns when the server takes requests.
func (s *server) ready(ctx context.Context, url string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready in time:\n%s", s.output)
		case <-s.exited:
			return fmt.Errorf("the server has ended:\n%s", s.output)
		case <-tick.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask whether the server is ready: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// kill ends the server with SIGKILL, which it cannot hear, and waits for its end.
func (s *server) kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-s.exited
	return nil
}

// stop asks the server to end, and kills it when it does not.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return s.kill() // Windows has no such signal
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(10 * time.Second):
		return errors.Join(errors.New("the server did not end when it was asked to"), s.kill())
	}
}

// freeAddress returns an address of this machine that nobody uses.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("look for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// install makes a directory of its own for the story, with the configuration and
// the agent's program where the configuration expects it.
func install(dir string, p programs) (config string, err error) {
	config = filepath.Join(dir, filepath.Base(p.config))
	for from, to := range map[string]string{
		p.config: config,
		p.agent:  filepath.Join(dir, "bin", filepath.Base(p.agent)),
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("install the example: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", fmt.Errorf("install the example: %w", err)
		}
		if err := os.WriteFile(to, content, 0o755); err != nil { //nolint:gosec // one of them is a program
			return "", fmt.Errorf("install the example: %w", err)
		}
	}
	return config, nil
}
