package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/go-json-experiment/json"
)

//go:embed *.yaml
var configurations embed.FS

// exe ends the name of a program.
var exe = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

// The three agents, each a process with an identity, a store and keys of its own.
const (
	buyer    = "buyer"
	supplier = "supplier"
	finance  = "finance"
)

// files are their configurations.
var files = map[string]string{buyer: "handoff.yaml", supplier: "supplier.yaml", finance: "finance.yaml"}

// company is the three agents, in a directory with their files.
type company struct {
	dir, programs string
	address       map[string]string // of the buyer's agent, and of its desk
	env           []string          // the keys that the buyer has
	running       map[string]*exec.Cmd
	log           io.Writer
}

// found writes the configurations into a directory, with ports that are free.
func found(dir, programs string) (*company, error) {
	c := &company{dir: dir, programs: programs, address: map[string]string{}, running: map[string]*exec.Cmd{}, log: io.Discard}
	var ports []string
	for i, name := range []string{buyer, supplier, finance, "desk"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("look for a free port: %w", err)
		}
		defer listener.Close()
		c.address[name] = listener.Addr().String()
		ports = append(ports, fmt.Sprintf("127.0.0.1:%d", 8080+i), c.address[name])
	}
	for _, file := range files {
		text, err := configurations.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if err := os.WriteFile(c.file(file), []byte(strings.NewReplacer(ports...).Replace(string(text))), 0o600); err != nil {
			return nil, fmt.Errorf("write configuration: %w", err)
		}
	}
	return c, nil
}

func (c *company) file(name string) string { return filepath.Join(c.dir, name) }

// start starts an agent and returns when it is ready.
func (c *company) start(ctx context.Context, name string) error {
	args := []string{"-c", c.file(files[name])}
	if name == buyer {
		args = append(args, "-erp", c.file("erp.db"), "-desk", c.address["desk"])
	}
	cmd := exec.Command(filepath.Join(c.programs, name+exe), args...) //nolint:noctx // it is killed when the story says so
	cmd.Env = append(os.Environ(), c.env...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.running[name] = cmd
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		_, _ = fmt.Fprintf(io.MultiWriter(&said, c.log), "%s: %s\n", name, lines.Text())
		if strings.Contains(lines.Text(), "The node is ready") {
			go func() {
				for lines.Scan() {
					_, _ = fmt.Fprintf(c.log, "%s: %s\n", name, lines.Text())
				}
			}()
			return nil
		}
	}
	return fmt.Errorf("%s ended before it was ready: %s", name, said.String())
}

// kill ends an agent as kill -9 does, which it cannot hear.
func (c *company) kill(name string) (pid int) {
	cmd := c.running[name]
	delete(c.running, name)
	if cmd == nil {
		return 0
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return cmd.Process.Pid
}

func (c *company) close() {
	for _, name := range []string{buyer, supplier, finance} {
		c.kill(name)
	}
}

// open starts the three, and gives the buyer a key of each of the others.
func (c *company) open(ctx context.Context) error {
	for _, name := range []string{supplier, finance} {
		if err := c.start(ctx, name); err != nil {
			return err
		}
		var made struct {
			Key string `json:"key"`
		}
		if err := c.ask(ctx, name, &made, "keys", "create", "--subject", buyer); err != nil {
			return err
		}
		c.env = append(c.env, strings.ToUpper(name)+"_KEY="+made.Key)
	}
	return c.start(ctx, buyer)
}

// ask runs a command of handoff for an agent's node and reads what it prints.
func (c *company) ask(ctx context.Context, name string, into any, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, "handoff"+exe), append(args, "-c", c.file(files[name]), "-o", "json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("handoff %s: %w", strings.Join(args, " "), errors.Join(err, errors.New(stderr.String())))
	}
	return nil
}
