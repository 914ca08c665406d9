package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

//go:embed *.yaml
var configurations embed.FS

// exe ends the name of a program.
var exe = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

// The processes of the example. Each agent is a node with an identity, a store and
// keys of its own, and so is the gateway, which has erp-draft as a process below it.
// erp-post is for people, and books is what finance has behind it.
const (
	buyer    = "buyer"
	supplier = "supplier"
	finance  = "finance"
	books    = "books"
	gateway  = "gateway"
	erpRead  = "erp-read"
	erpPost  = "erp-post"
)

// processes are all of them, in the order in which they start.
var processes = []string{erpRead, erpPost, books, gateway, supplier, finance, buyer}

// files are the configurations of the nodes.
var files = map[string]string{buyer: "handoff.yaml", supplier: "supplier.yaml", finance: "finance.yaml", gateway: "gateway.yaml"}

// addresses are where the example listens when it is run by hand.
var addresses = map[string]string{
	buyer: "127.0.0.1:8080", supplier: "127.0.0.1:8081", finance: "127.0.0.1:8082", "desk": "127.0.0.1:8083",
	gateway: "127.0.0.1:8084", erpRead: "127.0.0.1:8085", erpPost: "127.0.0.1:8086", books: "127.0.0.1:8087",
}

// company is the processes, in a directory with their files.
type company struct {
	dir, programs string
	address       map[string]string
	keys          map[string][]string // variables with the keys that a process has
	running       map[string]*exec.Cmd
	log           io.Writer
}

// found writes the configurations into a directory, with ports that are free.
func found(dir, programs string) (*company, error) {
	c := &company{dir: dir, programs: programs, address: map[string]string{}, keys: map[string][]string{}, running: map[string]*exec.Cmd{}, log: io.Discard}
	var ports []string
	for name, usual := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("look for a free port: %w", err)
		}
		defer listener.Close()
		c.address[name] = listener.Addr().String()
		ports = append(ports, usual, c.address[name])
	}
	for _, name := range []string{books, erpRead, erpPost} {
		c.keys[name] = []string{variable(name) + rand.Text()}
	}
	c.keys[finance] = slices.Clone(c.keys[books])
	c.keys[gateway] = slices.Clone(c.keys[erpRead])
	ports = append(ports, "./bin/erp-draft", filepath.Join(programs, "erp-draft"+exe))
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

// variable begins the variable that has the key of a process.
func variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_KEY="
}

func (c *company) file(name string) string { return filepath.Join(c.dir, name) }

// url is where the MCP server of a process is.
func (c *company) url(name string) string { return "http://" + c.address[name] + "/mcp" }

// key is the key of a tool server.
func (c *company) key(name string) string {
	_, key, _ := strings.Cut(c.keys[name][0], "=")
	return key
}

// program is the program of a process.
func (c *company) program(name string) string {
	if name == gateway {
		name = "handoff"
	}
	return filepath.Join(c.programs, name+exe)
}

// arguments are those of the program of a process.
func (c *company) arguments(name string) []string {
	switch name {
	case buyer:
		return []string{"-c", c.file(files[name]), "-requests", c.file("requests.db"), "-desk", c.address["desk"], "-gateway", c.url(gateway)}
	case finance:
		return []string{"-c", c.file(files[name]), "-books", c.url(books)}
	case books:
		return []string{"-books", c.file("books.db"), "-listen", c.address[books]}
	case erpRead, erpPost:
		return []string{"-erp", c.file("erp.db"), "-listen", c.address[name]}
	case gateway:
		return []string{"serve", "-c", c.file(files[name])}
	}
	return []string{"-c", c.file(files[name])}
}

// start starts a process and returns when it is ready.
func (c *company) start(ctx context.Context, name string) error {
	cmd := exec.Command(c.program(name), c.arguments(name)...) //nolint:noctx // it is killed when the story says so
	cmd.Env = append(os.Environ(), c.keys[name]...)
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
		if ready.MatchString(lines.Text()) {
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

// ready is what a process says when it listens.
var ready = regexp.MustCompile(`The (node|tool server) is ready`)

// kill ends a process as kill -9 does, which it cannot hear.
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
	for _, name := range processes {
		c.kill(name)
	}
}

// open starts all, and gives the buyer a key of each of the others.
func (c *company) open(ctx context.Context) error {
	for _, name := range processes {
		if err := c.start(ctx, name); err != nil {
			return err
		}
		if name != supplier && name != finance && name != gateway {
			continue
		}
		var made struct {
			Key string `json:"key"`
		}
		if err := c.ask(ctx, name, &made, "keys", "create", "--subject", buyer); err != nil {
			return err
		}
		c.keys[buyer] = append(c.keys[buyer], variable(name)+made.Key)
	}
	return nil
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
