// Package process starts the fixtures and the gateway, for the suite and for the
// official clients.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const patience = 20 * time.Second // for a process to be ready, or to end

// Process is a server that was started.
type Process struct {
	URL  string // of its endpoint
	Stop func()
}

// Fixture starts a fixture on a free port.
func Fixture(ctx context.Context, program string, arguments ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, program, append([]string{"-http", "127.0.0.1:0"}, arguments...)...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe() // it ends with it
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start fixture: %w", err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		return nil, errors.Join(fmt.Errorf("the fixture is not ready: %q", line), input.Close(), cmd.Wait())
	}
	return &Process{URL: url, Stop: func() {
		_ = input.Close()
		_ = cmd.Wait()
	}}, nil
}

// Stdio returns the configuration of a gateway before a fixture that it starts
// itself, and the URL of the tasks fixture.
func Stdio(program, tasks string, arguments ...string) ([]byte, error) {
	return json.Marshal(map[string]any{"mcp": map[string]any{"poll": "100ms", "servers": map[string]any{
		"suite": map[string]any{"command": append([]string{program}, arguments...)},
		"tasks": map[string]any{"url": tasks},
	}}})
}

var ready = regexp.MustCompile(`The node is ready.*?\baddress"?[=:]"?([0-9a-f.:\[\]]+:\d+)`)

// Gateway starts a gateway on a free port, with a store of its own in dir.
func Gateway(ctx context.Context, program, log, dir string, arguments ...string) (*Process, error) {
	arguments = append([]string{"serve", "--listen", "127.0.0.1:0", "--anonymous", "loopback", "--store", "sqlite:" + filepath.Join(dir, "store.db")}, arguments...)
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir = dir
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start gateway (make build makes it): %w", err)
	}
	address := make(chan string, 1)
	go func() {
		defer file.Close()
		defer close(address)
		lines := bufio.NewReader(io.TeeReader(output, file))
		for {
			line, err := lines.ReadString('\n')
			if m := ready.FindStringSubmatch(line); m != nil {
				select {
				case address <- m[1]:
				default: // it has been ready before
				}
			}
			if err != nil {
				return
			}
		}
	}()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		end := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer end.Stop()
		_ = cmd.Wait()
	}
	select {
	case a, ok := <-address:
		if !ok {
			said, _ := os.ReadFile(log)
			return nil, fmt.Errorf("the gateway did not start: %w\n%s", cmd.Wait(), said)
		}
		// The suite wants a name that is the machine's own.
		return &Process{URL: "http://" + strings.Replace(a, "127.0.0.1", "localhost", 1) + "/mcp", Stop: stop}, nil
	case <-time.After(patience):
		stop()
		return nil, fmt.Errorf("the gateway is not ready after %s", patience)
	}
}
