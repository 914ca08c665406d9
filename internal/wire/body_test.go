package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/internal/wire"
)

// A client that writes all before it reads gets the answer, whatever the size of
// its body, and a little too much does not cost the connection.
func TestRow92_ClientsThatWriteFirst(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	n := newNode(t, setting{options: func(o *wire.Options) { o.BodyBytes = limit }})
	for _, path := range []string{"rpc", "v1/message:send"} {
		for _, c := range []struct {
			size   int
			chunks bool
			closes bool
		}{
			{limit + 1, false, false},
			{limit + 1, true, false},
			{4 * limit, false, false},
			{4*limit + 1, false, true},
			{4*limit + 1, true, true},
			{16 << 20, false, true},
			{16 << 20, true, true},
		} {
			conn := n.dial()
			head := "POST /agents/quote/" + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
			body := bytes.Repeat([]byte{' '}, c.size)
			if c.chunks {
				_, _ = fmt.Fprintf(conn, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n", head, c.size)
				body = append(body, "\r\n0\r\n\r\n"...)
			} else {
				_, _ = fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n", head, c.size)
			}
			if _, err := conn.Write(body); err != nil {
				t.Errorf("%s, %+v: %v", path, c, err)
			}
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatalf("%s, %+v: %v", path, c, err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "65536 bytes") || response.Close != c.closes {
				t.Errorf("%s, %+v: %v, %d, closes %v, %s", path, c, err, response.StatusCode, response.Close, text)
			}
			if !c.closes {
				_, _ = io.WriteString(conn, "GET /agents/quote/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if response, err = http.ReadResponse(reader, nil); err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("%s, %+v: the next request: %v", path, c, err)
				}
			}
			_ = conn.Close()
		}
	}
}

// Who waits to be told to go on is told not to.
func TestRow92_ExpectContinue(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.BodyBytes = 100 }})
	within(t, 3*time.Second, func() {
		conn := n.dial()
		_, _ = io.WriteString(conn, "POST /agents/quote/rpc HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 200\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close {
			t.Errorf("%v: %+v", err, response)
		}
		_ = conn.Close()
	})
}
