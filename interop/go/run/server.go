package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// configurations are what is served, and the variables in which the suites look
// for the address of each agent.
var configurations = []struct {
	variable, file, agent string
	flags                 []string
}{
	{"FIXTURE_URL", "fixture/handoff.yaml", "fixture", nil},
	{"FIXTURE_NO_STREAMING_URL", "fixture/no-streaming.yaml", "fixture", []string{"--set", "agents.fixture.push_notifications=false"}},
	{"FIXTURE_REQUIRED_EXTENSION_URL", "fixture/required-extension.yaml", "fixture", nil},
	{"RELEASE_NOTES_URL", "release-notes/handoff.yaml", "release-notes", []string{"--anonymous", "loopback"}},
}

// server is one that was started for the suites.
type server struct {
	cmd     *exec.Cmd
	address string
	log     *bytes.Buffer
}

var ready = regexp.MustCompile(`The node is ready.*?\baddress"?[=:]"?([0-9a-f.:\[\]]+:\d+)`)

// serve starts a server on a free port with a store of its own, and waits until
// it says that it is ready.
func serve(ctx context.Context, program, file, dir string, flags []string) (*server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{"serve", "-c", file, "--listen", "127.0.0.1:0", "--store", "sqlite:" + filepath.Join(dir, "store.db")}, flags...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server (make build makes it): %w", err)
	}
	s := &server{cmd: cmd, log: &bytes.Buffer{}}
	address := make(chan string, 1)
	go func() {
		defer close(address)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if s.address != "" {
				continue // the pipe has to be emptied still
			}
			if m := ready.FindStringSubmatch(lines.Text()); m != nil {
				s.address = m[1]
				address <- m[1]
				continue
			}
			s.log.WriteString(lines.Text() + "\n")
		}
	}()
	select {
	case _, ok := <-address:
		if ok {
			return s, nil
		}
		return nil, fmt.Errorf("the server did not start with %s: %w\n%s", file, cmd.Wait(), s.log)
	case <-time.After(20 * time.Second):
		s.stop()
		return nil, fmt.Errorf("the server is not ready after 20 s with %s", file)
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
}

// secret makes the key that seals the secrets of webhooks, and returns the flags
// of serve that name it.
func secret(dir string) ([]string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "secret.key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(key)), 0o600); err != nil {
		return nil, err
	}
	return []string{"--secret-key", "file:" + path}, nil
}
