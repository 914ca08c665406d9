package mcpgw_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

func keepAlive(o *mcpgw.Options) { o.KeepAlive = 20 * time.Millisecond }

// recorder is a modern tool server that answers tools/call by the function, and keeps
// what it was sent.
type recorder struct {
	list   string // of tools; "": echo
	answer func(w http.ResponseWriter, m *mcp.Message)

	mu    sync.Mutex
	calls []string
	heads []http.Header
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Scan(body, mcp.Limits{})
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case mcp.MethodCallTool:
		s.mu.Lock()
		s.calls, s.heads = append(s.calls, string(body)), append(s.heads, r.Header)
		s.mu.Unlock()
		s.answer(w, m)
	case mcp.MethodListTools:
		list := s.list
		if list == "" {
			list = `{"name":"echo","inputSchema":{"type":"object"}}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[%s],"ttlMs":60000,"cacheScope":"public"}}`, m.ID, list)
	case mcp.MethodDiscover:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}}`, m.ID)
	default:
		w.WriteHeader(404)
		w.Write(mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "no")))
	}
}

func (s *recorder) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// What a server says reaches the client to the byte, and what the client says the
// server, but for the name (GWY-05, S21, AUT-07).
func TestBytesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	const result = `{ "z":1, "resultType" :"complete","content":[{"type":"text","text":"\u0068i","x":1e0}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"theirs","version":"1"}},"unknown":[ 1 ,2.50 ]}`
	s := &recorder{}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"result":%s,"id":%s, "jsonrpc":"2.0"}`, result, m.ID)
	}
	e := newEdge(t, edgeOptions{handler: s})
	body := ` {"params":{"arguments":{"b":1.0,"a":"\u00e9"},"future":{"x":[]},"name":"ech\u006f",` + meta(`"new":{"a":1}`) + `},"method":"tools/call","id":"\u0037","jsonrpc":"2.0"}`
	got := e.do(http.MethodPost, "", body, map[string]string{
		"Authorization": "Bearer ana", "Cookie": "a=b", "X-Custom": "1", "Mcp-Param-Region": "eu", "Mcp-Session-Id": "abc", "Last-Event-ID": "1", "Proxy-Authorization": "x",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	if !strings.Contains(got.body, result) || strings.Count(got.body, "{") != strings.Count(result, "{")+1 {
		t.Errorf("got %s", got.body)
	}
	call := s.called()[0]
	if a, b := afterID(call), afterID(body); a != b {
		t.Errorf("got %s", call)
	}
	for name := range s.heads[0] {
		switch name {
		case "Authorization", "Cookie", "X-Custom", "Mcp-Session-Id", "Last-Event-Id", "Proxy-Authorization", "X-Forwarded-For":
			t.Errorf("%s has gone through", name)
		}
	}
	if s.heads[0].Get("Mcp-Param-Region") != "eu" || s.heads[0].Get("Traceparent") == "" { // TRN-28
		t.Errorf("got %v", s.heads[0])
	}
}

// afterID cuts a message before its id, which is the gateway's.
func afterID(body string) string {
	before, _, _ := strings.Cut(body, `"method":"tools/call"`)
	return strings.TrimSpace(before)
}

// GWY-05: a renamed tool is renamed in the body and in the header.
func TestRenamed(t *testing.T) {
	t.Parallel()
	s := &recorder{}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
	e := newEdge(t, edgeOptions{handler: s, yaml: "names: always\n"})
	got := e.modern(mcp.MethodCallTool, "tools.echo", `"arguments":{"name":"tools.echo"},"name":"tools.echo",`, "")
	if got.status != 200 || got.code != 0 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if call := s.called()[0]; !strings.Contains(call, `"arguments":{"name":"tools.echo"},"name":"echo"`) || s.heads[0].Get(mcp.HeaderName) != "echo" {
		t.Errorf("got %s with %v", call, s.heads[0])
	}
	if got := e.modern(mcp.MethodCallTool, "echo", `"name":"echo","arguments":{},`, ""); got.code != mcp.CodeInvalidParams {
		t.Errorf("got %s", got.body)
	}
}

// A server that lies gets nothing through.
func TestServersThatLie(t *testing.T) {
	t.Parallel()
	s := &recorder{}
	e := newEdge(t, edgeOptions{handler: s, yaml: "servers:\n  tools:\n    url: $URL\n    result_bytes: 64KiB\n    timeout: 2s\n    breaker: {failures: 0}\n"})
	for name, answer := range map[string]func(w http.ResponseWriter, m *mcp.Message){
		"BAS-03 another id": func(w http.ResponseWriter, _ *mcp.Message) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"forged","result":{"resultType":"complete","content":[{"type":"text","text":"forged"}]}}`)
		},
		"BAS-13 a kind that is not known": func(w http.ResponseWriter, m *mcp.Message) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"martian","content":[{"type":"text","text":"forged"}]}}`, m.ID)
		},
		"TSK-02 a task that nobody asked for": func(w http.ResponseWriter, m *mcp.Message) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"forged","status":"working"}}`, m.ID)
		},
		"no JSON": func(w http.ResponseWriter, _ *mcp.Message) { fmt.Fprint(w, `forged`) },
		"BAS-06 a request": func(w http.ResponseWriter, _ *mcp.Message) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"forged":1}}`)
		},
		"too large": func(w http.ResponseWriter, m *mcp.Message) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"forged%s"}]}}`, m.ID, strings.Repeat("x", 100<<10))
		},
		"a page": func(w http.ResponseWriter, _ *mcp.Message) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<forged>`)
		},
		"a stream without a response": func(w http.ResponseWriter, _ *mcp.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
		},
		"an endless stream": func(w http.ResponseWriter, _ *mcp.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := fmt.Fprint(w, ": forged\n\n"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		},
	} {
		s.answer = answer
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, strings.NewReader(strings.ReplaceAll(echoFor, "META", meta(""))))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": "application/json", mcp.HeaderVersion: mcp.Modern, mcp.HeaderMethod: mcp.MethodCallTool, mcp.HeaderName: "echo"} {
			r.Header.Set(key, value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil { // broken off, which is an answer too
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && strings.Contains(string(text), "forged") || err == nil && !strings.Contains(string(text), `"error"`) {
			t.Errorf("%s: got %d %.300s", name, resp.StatusCode, text)
		}
	}
}
