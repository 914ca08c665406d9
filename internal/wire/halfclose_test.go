package wire_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// dial opens a connection of its own to the node.
func (n *node) dial() *net.TCPConn {
	n.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		n.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// postAndShut writes a request as a simple client does, and ends its side.
func (n *node) postAndShut(path string, body any) *net.TCPConn {
	n.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		n.t.Fatal(err)
	}
	conn := n.dial()
	_, err = fmt.Fprintf(conn, "POST /agents/quote/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nA2A-Version: 1.0\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		n.t.Fatal(err)
	}
	return conn
}

func TestHalfClosedClientsGetTheirAnswers(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"v1/message:send", "v1/message:stream"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, setting{})
			got, err := io.ReadAll(n.postAndShut(path, send("slow 5")))
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200") || !strings.Contains(string(got), "TASK_STATE_COMPLETED") {
				t.Errorf("%v: %.2000s", err, got)
			}
		})
	}
	t.Run("subscription", func(t *testing.T) {
		t.Parallel()
		n := newNode(t, setting{})
		id := n.sent(rpc, send("ask")).ID
		lines := bufio.NewReader(n.postAndShut("v1/tasks/"+id+":subscribe", object{}))
		// It has been parked, and has been asked whether it is there.
		for comments := 0; comments < 3; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, ":") {
				comments++
			}
		}
		n.sent(rpc, object{"message": message("more", object{"taskId": id})})
		got, err := io.ReadAll(lines)
		if err != nil || !strings.Contains(string(got), "TASK_STATE_COMPLETED") {
			t.Errorf("%v: %.2000s", err, got)
		}
	})
}

// A client that is gone looks the same at first, and has to be found out.
func TestDepartedSubscribersAreFound(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	id := n.sent(rpc, send("ask")).ID
	for _, path := range []string{"v1/tasks/" + id + ":subscribe", "v1/message:stream"} {
		body := object{}
		if path == "v1/message:stream" {
			body = send("never")
		}
		conn := n.postAndShut(path, body)
		var b [1]byte
		if _, err := conn.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "somebody watches", func() bool { return n.fixture.watchers.Load() == 1 })
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "nobody watches", func() bool { return n.fixture.watchers.Load() == 0 })
	}
}
