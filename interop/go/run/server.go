package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// configurations are what is served. The suites find the address of each agent
// in the variable NAME_URL, and the log of its server in the file NAME_LOG.
var configurations = []configuration{
	{"FIXTURE", "fixture/handoff.yaml", "fixture", nil, nil},
	{"FIXTURE_NO_STREAMING", "fixture/no-streaming.yaml", "fixture", []string{"--set", "agents.fixture.push_notifications=false"}, nil},
	{"FIXTURE_REQUIRED_EXTENSION", "fixture/required-extension.yaml", "fixture", nil, nil},
	{"RELEASE_NOTES", "release-notes/handoff.yaml", "release-notes", []string{"--anonymous", "loopback"}, nil},
}

type configuration struct {
	name, file, agent string
	flags             []string
	env               []string
}

// signed returns the configuration of the node that signs its cards, and what
// authenticates a caller there.
func signed(ctx context.Context, program, dir string) (c configuration, authorization string, err error) {
	key := filepath.Join(dir, "signing.pem")
	if out, err := exec.CommandContext(ctx, program, "card", "key", "new", key).CombinedOutput(); err != nil {
		return c, "", fmt.Errorf("make signing key: %w: %s", err, out)
	}
	const password = "interoperable"
	hash := exec.CommandContext(ctx, program, "keys", "hash-password")
	hash.Stdin = strings.NewReader(password + "\n")
	hashed, err := hash.Output()
	if err != nil {
		return c, "", fmt.Errorf("hash password: %w", err)
	}
	// What is signed names the address, which has to be known before.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, "", err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return c, "", err
	}
	file, err := filepath.Abs("../signed.yaml")
	return configuration{
		name: "FIXTURE_SIGNED", file: file, agent: "fixture", flags: []string{"--listen", address},
		env: []string{"PUBLIC_URL=http://" + address, "SIGNING_KEY=" + key, "PASSWORD_HASH=" + strings.TrimSpace(string(hashed))},
	}, "Basic " + base64.StdEncoding.EncodeToString([]byte("partner:"+password)), err
}

// server is one that was started for the suites.
type server struct {
	cmd     *exec.Cmd
	address string
	log     string // a file
}

var ready = regexp.MustCompile(`The node is ready.*?\baddress"?[=:]"?([0-9a-f.:\[\]]+:\d+)`)

// serve starts a server on a free port with a store of its own, and waits until
// it says that it is ready.
func serve(ctx context.Context, program, dir string, c configuration) (*server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{"serve", "-c", c.file, "--listen", "127.0.0.1:0", "--store", "sqlite:" + filepath.Join(dir, "store.db")}, c.flags...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.env...)
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server (make build makes it): %w", err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(address)
		defer log.Close()
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			_, _ = log.WriteString(lines.Text() + "\n")
			if m := ready.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case address <- m[1]:
				default: // it has been ready before
				}
			}
		}
	}()
	select {
	case a, ok := <-address:
		if ok {
			s.address = a
			return s, nil
		}
		said, _ := os.ReadFile(s.log)
		return nil, fmt.Errorf("the server did not start with %s: %w\n%s", c.file, cmd.Wait(), said)
	case <-time.After(20 * time.Second):
		s.stop()
		return nil, fmt.Errorf("the server is not ready after 20 s with %s", c.file)
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
