package client

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// proxy lies between a client and an agent. It counts the messages that are sent
// through it, whatever the binding, and can cut what is open.
type proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{} // the client's ends
	sends int
}

// newProxy starts a proxy to an address. It ends with the test.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: l, open: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.carry(conn) })
	}
}

// carry connects a client with the agent until either end is closed.
func (p *proxy) carry(client net.Conn) {
	defer client.Close()
	agent, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer agent.Close()
	p.mu.Lock()
	p.open[client] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, client)
		p.mu.Unlock()
	}()
	seen, tap := io.Pipe()
	p.running.Go(func() {
		p.watch(seen)
		_, _ = io.Copy(io.Discard, seen)
	})
	p.running.Go(func() {
		_, _ = io.Copy(agent, io.TeeReader(client, tap))
		_ = tap.Close()
		_ = agent.Close()
	})
	_, _ = io.Copy(client, agent)
}

// cut breaks every open connection, as a network does: without an end of stream.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// close ends the proxy. What was sent is counted then.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut()
	p.running.Wait()
}

// sent closes the proxy and returns how many messages the client has sent.
func (p *proxy) sent() int {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sends
}

func (p *proxy) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends++
}

// watch counts the messages in what a client sends.
func (p *proxy) watch(r io.Reader) {
	b := bufio.NewReader(r)
	if start, err := b.Peek(len(http2.ClientPreface)); err == nil && string(start) == http2.ClientPreface {
		_, _ = b.Discard(len(http2.ClientPreface))
		p.watchFrames(b)
		return
	}
	for {
		req, err := http.ReadRequest(b)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var call struct{ Method string }
		_ = json.Unmarshal(body, &call)
		if sends(req.URL.Path) || sends(call.Method) {
			p.count()
		}
	}
}

// watchFrames is watch for HTTP/2, which gRPC uses.
func (p *proxy) watchFrames(r io.Reader) {
	framer := http2.NewFramer(nil, r)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && sends(h.PseudoValue("path")) {
			p.count()
		}
	}
}

// sends reports whether a path or a method is that of a message.
func sends(name string) bool {
	for _, operation := range []string{
		"/message:send", "/message:stream", // HTTP+JSON
		"message/send", "message/stream", // JSON-RPC of 0.3
		"SendMessage", "SendStreamingMessage", // JSON-RPC and gRPC
	} {
		if strings.HasSuffix(name, operation) {
			return true
		}
	}
	return false
}
