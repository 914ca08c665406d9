package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// config is the node that is measured. Its agent has the verbs of the peer's.
var config = `
listen: 127.0.0.1:0
store: sqlite:bench.db
log: {level: error}
limits: {streams: 0, turns: 20000, queue: 200000}
telemetry: {pprof: true}
agents:
  bench:
    name: Bench
    description: Does what the official SDK's agent does.
    version: 1.0.0
    skills: [{id: bench, name: Bench, description: Measures., tags: [bench]}]
    limits: {inactivity: 0s, total: 0s, steps: 0}
    run:
      script:
        - when: {text: "^echo (.*)"}
          do: [{artifact: {parts: [{text: "{{.Match 1}}"}]}}]
        - when: {text: "^message (.*)"}
          do: [{message: "{{.Match 1}}"}]
        - when: {text: "^burst (.*)"}
          do:
            - repeat: {times: "{{.Match 1}}", do: [{artifact: {id: a, append: true, parts: [{text: "` + chunk + `"}]}}]}
        - when: {text: "^flood (.*)"}
          do:
            - repeat: {times: "{{.Match 1}}", do: [{artifact: {id: a, append: true, parts: [{text: "` + page + `"}]}}]}
        - when: {text: "^ticks (.*)"}
          do:
            - sleep: 10s
            - repeat: {times: "{{.Match 1}}", every: 20ms, do: [{artifact: {id: a, append: true, parts: [{text: "` + chunk + `"}]}}]}
        - when: {text: "^slow (.*)"}
          do: [{working: {}}, {sleep: "{{.Match 1}}s"}]
        - when: {text: "^pulse (.*)"}
          do:
            - working: {}
            - sleep: 1s
            - repeat: {times: "{{.Match 1}}", every: 20ms, do: [{artifact: {id: a, append: true, parts: [{text: "` + chunk + `"}]}}]}
        - when: {text: "^spread (.*)"}
          do: [{working: {}}, {sleep: 30ms}, {artifact: {parts: [{text: "{{.Match 1}}"}]}}, {sleep: 30ms}]
        - when: {text: "^ask"}
          do: [{ask: "Which one?"}]
`

// page is 64 KB of text.
var page = strings.Repeat(chunk, 64<<10/len(chunk))

// process is a server that is measured.
type process struct {
	cmd    *exec.Cmd
	url    string        // of JSON-RPC
	socket string        // of its administration; "" for the peer
	took   time.Duration // from start to ready
	end    os.Signal     // that ends it with its children; nil: it is killed
}

// startHandoff starts bin/handoff in a directory, which keeps its store.
func startHandoff(ctx context.Context, dir string) (*process, error) {
	return startNode(ctx, dir, config, "bench.db.sock")
}

// startNode starts bin/handoff with a configuration in a directory, where its
// socket will be.
func startNode(ctx context.Context, dir, config, socket string) (*process, error) {
	binary, err := filepath.Abs("../bin/handoff")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	text := strings.Replace(config, "127.0.0.1:0", address, 1)
	if err := os.WriteFile(filepath.Join(dir, "handoff.yaml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	p := &process{socket: filepath.Join(dir, socket), url: "http://" + address + "/agents/bench/rpc"}
	p.cmd = exec.CommandContext(ctx, binary, "serve", "-c", "handoff.yaml")
	p.cmd.Dir = dir
	p.cmd.Stderr = os.Stderr
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start bin/handoff (make build makes it): %w", err)
	}
	for {
		res, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				p.took = time.Since(began)
				return p, nil
			}
		}
		if time.Since(began) > time.Minute {
			p.stop()
			return nil, errors.New("the node does not get ready")
		}
		time.Sleep(time.Millisecond)
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func startPeer(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "peer")}
	p.cmd.Stderr = io.Discard
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	p.url = "http://" + strings.TrimSpace(address) + "/rpc"
	return p, nil
}

func (p *process) stop() {
	if p.end != nil {
		_ = p.cmd.Process.Signal(p.end)
	} else {
		_ = p.cmd.Process.Kill()
	}
	_ = p.cmd.Wait()
}

// memory returns the resident memory of the process, in bytes.
func (p *process) memory() (float64, error) { return p.resident("VmRSS:") }

// resident returns what a line of the status of the process says of its memory.
func (p *process) resident(name string) (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("no " + name)
}

// cost returns what the process has allocated so far.
func (p *process) cost() (c cost, err error) {
	if c.cpu, err = p.cpu(); err != nil {
		return c, err
	}
	if p.socket == "" {
		res, err := http.Get(strings.TrimSuffix(p.url, "rpc") + "memory")
		if err != nil {
			return c, err
		}
		defer res.Body.Close()
		_, err = fmt.Fscan(res.Body, &c.allocations, &c.bytes)
		return c, err
	}
	if c.allocations, err = p.metric("go_memstats_mallocs_total"); err != nil {
		return c, err
	}
	c.bytes, err = p.metric("go_memstats_alloc_bytes_total")
	return c, err
}

// cpu returns the seconds of CPU that the process has used.
func (p *process) cpu() (float64, error) { return cpuOf(p.cmd.Process.Pid, false) }

// metric reads the sum of a metric over the admin socket.
func (p *process) metric(name string) (float64, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}}
	defer client.CloseIdleConnections()
	res, err := client.Get("http://node/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	sum, scanner := 0.0, bufio.NewScanner(res.Body)
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			sum += value
		}
	}
	return sum, scanner.Err()
}
