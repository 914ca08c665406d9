package stdio_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"handoff.example/handoff/internal/mcp/stdio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc, in string) (out string, err error) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	e := &stdio.Endpoint{URL: server.URL, Client: server.Client(), Logger: slog.New(slog.DiscardHandler)}
	var written bytes.Buffer
	err = e.Serve(t.Context(), strings.NewReader(in), &written)
	return written.String(), err
}

const call = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"n\u00e9","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// STD-01, TRN-14, TRN-19, TRN-20: each message is a line, and a request has the
// headers that mirror it.
func TestALineIsARequest(t *testing.T) {
	t.Parallel()
	var head http.Header
	out, err := serve(t, func(w http.ResponseWriter, r *http.Request) {
		head = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": \"a\", \"result\": {\"x\": \"a\\nb\"}\n}")
	}, call+"\n\n")
	if err != nil || out != `{"jsonrpc":"2.0","id":"a","result":{"x":"a\nb"}}`+"\n" {
		t.Errorf("wrote %q, %v", out, err)
	}
	if head.Get("Mcp-Protocol-Version") != "2026-07-28" || head.Get("Mcp-Method") != "tools/call" || head.Get("Mcp-Name") != "=?base64?bsOp?=" {
		t.Errorf("the headers are %v", head)
	}
}

func TestEventsAreLines(t *testing.T) {
	t.Parallel()
	out, err := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n\n")
	}, call)
	if want := `{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n" + `{"jsonrpc":"2.0","id":"a","result":{}}` + "\n"; err != nil || out != want {
		t.Errorf("wrote %q, %v", out, err)
	}
}

// A client gets an answer to each request, whatever the endpoint does.
func TestEveryRequestIsAnswered(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"no message": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
		"a status":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\"")
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := serve(t, h, call)
			if err != nil || !strings.HasPrefix(out, `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,`) || strings.Count(out, "\n") != 1 {
				t.Errorf("wrote %q, %v", out, err)
			}
		})
	}
	out, err := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("garbage is sent on") }, "hello\n{\n")
	if err != nil || strings.Count(out, `"code":-32700`) != 2 {
		t.Errorf("wrote %q, %v", out, err)
	}
}

// A host starts a server again that has ended.
func TestServeEndsWithTheNode(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	e := &stdio.Endpoint{
		URL: server.URL, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Logger: slog.New(slog.DiscardHandler),
		Gone: func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) },
	}
	in, host := io.Pipe()
	defer host.Close()
	go func() { _, _ = io.WriteString(host, call+"\n") }()
	var written bytes.Buffer
	if err := e.Serve(t.Context(), in, &written); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(written.String(), `"code":-32603`) {
		t.Errorf("wrote %q", written.String())
	}
}
