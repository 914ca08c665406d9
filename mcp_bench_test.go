package handoff_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	handoff "handoff.example/handoff"
)

// BenchmarkToolCall is a call of a tool through the gateway with policy on, from
// connection to connection. Client and server allocate nothing, so that what is
// counted is the node's.
func BenchmarkToolCall(b *testing.B) {
	for _, result := range []string{"json", "event"} {
		for _, connections := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/%d", result, connections), func(b *testing.B) { benchToolCall(b, result, connections) })
		}
	}
}

func benchToolCall(b *testing.B, tool string, connections int) {
	upstream := bareToolServer(b)
	file := filepath.Join(b.TempDir(), "handoff.yaml")
	text := fmt.Sprintf(`
store: sqlite:tasks.db
mcp:
  servers:
    bench:
      url: http://%s/mcp
      default: {rate: {per_second: 1000000, burst: 100000}, concurrency: 1000}
      tools: {json: {}, event: {}}
`, upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	c, err := handoff.LoadConfig(file)
	if err != nil {
		b.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- node.Serve(ctx, listener) }()
	b.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	clients := make([]*bareToolClient, connections)
	for i := range clients {
		clients[i] = newBareToolClient(b, listener.Addr().String(), tool)
		if err := clients[i].call(); err != nil { // which warms the pools up
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	errs := make(chan error, connections)
	for _, c := range clients {
		go func() {
			for left.Add(-1) >= 0 {
				if err := c.call(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}

// bareToolClient makes one call again and again.
type bareToolClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	answer  []byte
}

func newBareToolClient(b *testing.B, address, tool string) *bareToolClient {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"` + tool + `","arguments":{"article":"BRG-0042"}}}`
	request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nContent-Length: %d\r\n\r\n%s", address, tool, len(body), body)
	return &bareToolClient{conn: conn, in: bufio.NewReader(conn), request: request, answer: make([]byte, 4<<10)}
}

func (c *bareToolClient) call() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	head, length, err := bareHead(c.in)
	if err != nil {
		return err
	}
	if !head || length > len(c.answer) {
		return fmt.Errorf("the answer has %d bytes, or another status than 200", length)
	}
	if _, err := io.ReadFull(c.in, c.answer[:length]); err != nil {
		return err
	}
	if !bytes.Contains(c.answer[:length], []byte(`"resultType":"complete"`)) {
		return fmt.Errorf("answered %q", c.answer[:length])
	}
	return nil
}

// bareHead reads the head of a request or an answer. It reports whether a line of it
// is that of a call, or of an answer with the status 200.
func bareHead(in *bufio.Reader) (of bool, length int, err error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return of, length, nil
		}
		if bytes.HasPrefix(line, []byte("HTTP/1.1 200")) || bytes.EqualFold(line, []byte("Mcp-Method: tools/call")) {
			of = true
		}
		if name := []byte("content-length:"); len(line) > len(name) && bytes.EqualFold(line[:len(name)], name) {
			for _, digit := range bytes.TrimSpace(line[len(name):]) {
				length = 10*length + int(digit-'0')
			}
		}
	}
}

// bareToolServer starts a tool server that does nothing but answer.
func bareToolServer(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveBareTools(conn)
		}
	}()
	return listener.Addr().String()
}

func serveBareTools(conn net.Conn) {
	defer conn.Close()
	const result = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"There are 40 of it in the hall 3, row 12."}]}}`
	plain := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(result), result)
	event := "event: message\ndata: " + result + "\n\n"
	events := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(event), event)
	in := bufio.NewReader(conn)
	body := make([]byte, 4<<10)
	for {
		call, length, err := bareHead(in)
		if err != nil || length > len(body) {
			return
		}
		if _, err := io.ReadFull(in, body[:length]); err != nil {
			return
		}
		answer := plain
		switch {
		case !call:
			answer = bareAnswer(body[:length])
		case bytes.Contains(body[:length], []byte(`"name":"event"`)):
			answer = events
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// bareAnswer answers what is no call.
func bareAnswer(request []byte) []byte {
	result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}`
	if bytes.Contains(request, []byte(`"tools/list"`)) {
		const tool = `","description":"Looks up how much of an article is there.","inputSchema":{"type":"object","properties":{"article":{"type":"string"}},"required":["article"]}}`
		result = `{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"json` + tool + `,{"name":"event` + tool + `]}`
	}
	_, id, _ := bytes.Cut(request, []byte(`"id":`))
	id, _, _ = bytes.Cut(id, []byte(","))
	body := `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}
