package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// mcpConfig is a gateway with policy on.
const mcpConfig = `
listen: 127.0.0.1:0
store: sqlite:bench.db
log: {level: error}
mcp:
  servers:
    bench:
      url: UPSTREAM/mcp
      default: {rate: {per_second: 1000000, burst: 100000}, concurrency: 1000}
      tools: {small: {}, k64: {}, m1: {}, sse: {}}
`

// mcpLists are two more servers with the same tools, whose lists are fresh for a
// minute, and never.
const mcpLists = `    lists: {url: UPSTREAM/mcp/lists, tools: {"tool_*": {}}}
    cold: {url: UPSTREAM/mcp/cold, tools: {"tool_*": {}}}
`

// mcpRoute is one way to the server.
type mcpRoute struct {
	name    string
	address string
	path    string
	process *process // nil: the server itself
}

// mcpLoad is one kind of load.
type mcpLoad struct {
	name        string
	method      string
	tool        string // "": the tools are listed
	connections int
	requests    int
	path        string // below that of the gateway
}

// mcpRun is what a route has done under a load.
type mcpRun struct{ rate, p50, p99, cpu float64 }

// benchMCP is what has a budget.
func benchMCP(ctx context.Context, s scale) ([]row, error) {
	return benchLoads(ctx, s, mcpConfig, []mcpLoad{
		{"a small result, one connection", "tools/call", "small", 1, s.sends / 4, ""},
		{"a small result, 32 connections", "tools/call", "small", 32, s.sends, ""},
	})
}

// benchMCPMore is other sizes, streams and lists.
func benchMCPMore(ctx context.Context, s scale) ([]row, error) {
	n := s.sends
	var loads []mcpLoad
	for _, c := range []struct {
		name, method, tool, path string
		requests                 int
	}{
		{"a result of 64 KB", "tools/call", "k64", "", n / 4},
		{"a result of 1 MB", "tools/call", "m1", "", n / 40},
		{"a small result as an event", "tools/call", "sse", "", n},
		{"a list of 100 tools, cached", "tools/list", "", "/lists", n / 10},
		{"a list of 100 tools, cold", "tools/list", "", "/cold", n / 10},
	} {
		loads = append(loads,
			mcpLoad{c.name + ", one connection", c.method, c.tool, 1, c.requests / 4, c.path},
			mcpLoad{c.name + ", 32 connections", c.method, c.tool, 32, c.requests, c.path})
	}
	return benchLoads(ctx, s, mcpConfig+mcpLists, loads)
}

func benchLoads(ctx context.Context, s scale, config string, loads []mcpLoad) ([]row, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	routes, stop, err := mcpRoutes(ctx, dir, config)
	defer stop()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, l := range loads {
		runs := map[string][]mcpRun{}
		for range s.rounds {
			for _, r := range routes {
				run, err := l.run(ctx, r)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", r.name, l.name, err)
				}
				runs[r.name] = append(runs[r.name], run)
			}
		}
		rows = append(rows, l.row(runs))
	}
	var memory []string
	for _, r := range routes {
		if r.process == nil {
			continue
		}
		used, err := r.process.memory()
		if err != nil {
			return nil, err
		}
		memory = append(memory, fmt.Sprintf("%s %.0f MB", r.name, used/(1<<20)))
	}
	rows[len(rows)-1].Detail = "Memory of the processes after all that (of nginx the master): " + strings.Join(memory, ", ") + "."
	return rows, nil
}

// row is the line of a load. The peer is nginx.
func (l *mcpLoad) row(runs map[string][]mcpRun) row {
	of := func(name string, value func(mcpRun) float64) float64 {
		var values []float64
		for _, r := range runs[name] {
			values = append(values, value(r))
		}
		if len(values) == 0 {
			return 0
		}
		return median(values)
	}
	rate := func(r mcpRun) float64 { return r.rate }
	p50 := func(r mcpRun) float64 { return r.p50 * 1e6 }
	p99 := func(r mcpRun) float64 { return r.p99 * 1e6 }
	cpu := func(r mcpRun) float64 { return r.cpu * 1e6 }
	tell := func(name string) string {
		return fmt.Sprintf("%.0f/s, p50 %.0f µs, p99 %.0f µs", of(name, rate), of(name, p50), of(name, p99))
	}
	r := row{
		Name: "MCP: " + l.name, Handoff: tell("Handoff"), Peer: "nginx: " + tell("nginx"),
		Ratio: of("Handoff", rate) / of("nginx", rate), Comment: "Straight to the server: " + tell("direct") + ".",
	}
	r.Comment += " Go's ReverseProxy: " + tell("ReverseProxy") + fmt.Sprintf("; Handoff has %.2f of its rate.", of("Handoff", rate)/of("ReverseProxy", rate))
	r.Comment += fmt.Sprintf(" CPU of a call: Handoff %.0f µs, nginx %.0f µs", of("Handoff", cpu), of("nginx", cpu))
	r.Comment += fmt.Sprintf(", ReverseProxy %.0f µs.", of("ReverseProxy", cpu))
	switch {
	case l.tool == "small" && l.connections == 1:
		r.Ratio = of("Handoff", p50) / of("nginx", p50)
		r.Budget, r.Held = "p50 <= 2x", r.Ratio <= 2
	case l.tool == "small":
		r.Budget = ">= 0.4x, and >= 1.2x ReverseProxy"
		r.Held = r.Ratio >= 0.4 && of("Handoff", rate) >= 1.2*of("ReverseProxy", rate)
	}
	return r
}

// run puts the load on a route.
func (l *mcpLoad) run(ctx context.Context, r mcpRoute) (mcpRun, error) {
	var left atomic.Int64
	left.Store(int64(l.requests))
	times := make([][]float64, l.connections)
	errs := make(chan error, l.connections)
	used, err := r.cpu()
	if err != nil {
		return mcpRun{}, err
	}
	var group sync.WaitGroup
	began := time.Now()
	for i := range l.connections {
		group.Go(func() {
			var err error
			times[i], err = l.call(ctx, r, &left)
			if err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	select {
	case err := <-errs:
		return mcpRun{}, err
	default:
	}
	var all []float64
	for _, t := range times {
		all = append(all, t...)
	}
	now, err := r.cpu()
	return mcpRun{rate: float64(l.requests) / took, p50: percentile(all, 0.5), p99: percentile(all, 0.99), cpu: (now - used) / float64(l.requests)}, err
}

// cpu returns the seconds of CPU that the processes of a route have used.
func (r *mcpRoute) cpu() (float64, error) {
	if r.process == nil {
		return 0, nil
	}
	sum, err := r.process.cpu()
	if err != nil || r.name != "nginx" {
		return sum, err
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, path := range processes {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err == nil && parentOf(pid) == r.process.cmd.Process.Pid { // a worker
			used, err := cpuOf(pid, false)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}

// request returns what a call is.
func (l *mcpLoad) request(r mcpRoute) []byte {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	body, name := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, ""
	if l.tool != "" {
		body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"` + l.tool + `","arguments":{"article":"BRG-0042"}}}`
		name = "Mcp-Name: " + l.tool + "\r\n"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		r.path+l.path, r.address, l.method, name, len(body), body)
}

// call makes calls, one after another over one connection.
func (l *mcpLoad) call(ctx context.Context, r mcpRoute, left *atomic.Int64) ([]float64, error) {
	request := l.request(r)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var times []float64
	var answer []byte
	for left.Add(-1) >= 0 {
		began := time.Now()
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		if answer, err = readAnswer(in, answer[:0]); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began).Seconds())
		if !bytes.Contains(answer[:min(len(answer), 300)], []byte(`"resultType":"complete"`)) {
			return nil, fmt.Errorf("answered %.300s", answer)
		}
	}
	return times, nil
}

// mcpRoutes starts the server and what stands before it.
func mcpRoutes(ctx context.Context, dir, config string) (routes []mcpRoute, stop func(), err error) {
	var started []*process
	stop = func() {
		for _, p := range started {
			p.stop()
		}
	}
	server, address, err := startSelf(ctx, "mcp-server")
	if err != nil {
		return nil, stop, err
	}
	started = append(started, server)
	routes = append(routes, mcpRoute{"direct", address, "/mcp", nil})
	gateway, err := startNode(ctx, dir, strings.ReplaceAll(config, "UPSTREAM", "http://"+address), "bench.db.sock")
	if err != nil {
		return nil, stop, err
	}
	started = append(started, gateway)
	host, _, _ := strings.Cut(strings.TrimPrefix(gateway.url, "http://"), "/")
	routes = append(routes, mcpRoute{"Handoff", host, "/mcp", gateway})
	nginx, at, err := startNginx(ctx, dir, address)
	if err != nil {
		return nil, stop, err
	}
	started = append(started, nginx)
	routes = append(routes, mcpRoute{"nginx", at, "/mcp", nginx})
	proxy, at, err := startSelf(ctx, "mcp-proxy", "http://"+address)
	if err != nil {
		return nil, stop, err
	}
	started = append(started, proxy)
	return append(routes, mcpRoute{"ReverseProxy", at, "/mcp", proxy}), stop, nil
}

// startSelf starts this program as another process, which says its address.
func startSelf(ctx context.Context, args ...string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return p, strings.TrimSpace(line), err
}

const nginxConfig = `
worker_processes auto;
daemon off;
pid DIR/nginx.pid;
error_log DIR/nginx.log crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  upstream bench { server UPSTREAM; keepalive 64; }
  map $http_mcp_name $route { small bench; k64 bench; m1 bench; sse bench; "" bench; default ""; }
  server {
    listen ADDRESS;
    keepalive_requests 10000000;
    location /mcp {
      if ($route = "") { return 404; }
      proxy_pass http://$route;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 64k;
      proxy_buffer_size 64k;
    }
  }
}
`

// startNginx starts nginx with the route of the gateway.
func startNginx(ctx context.Context, dir, upstream string) (*process, string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	text := strings.NewReplacer("DIR", dir, "UPSTREAM", upstream, "ADDRESS", address).Replace(nginxConfig)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p := &process{cmd: exec.CommandContext(ctx, "nginx", "-c", file), end: syscall.SIGTERM}
	p.cmd.Stderr = os.Stderr
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(p.end) }
	if err := p.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("start nginx, which is a package of that name: %w", err)
	}
	for range 500 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return p, address, conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return p, "", errors.New("nginx does not get ready")
}
