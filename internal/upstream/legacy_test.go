package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

func TestLegacyHTTP(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%v", json), func(t *testing.T) {
			t.Parallel()
			all := servers(t, config.NewMCPServer(serve(t, legacyHandler(t, legacyServer(mcp.Legacy), &sdk.StreamableHTTPOptions{JSONResponse: json})).URL), upstream.Options{})
			s := only(t, all)
			exerciseTools(t, s)
			if !json { // a document has no room for questions; they come beside it
				exerciseInput(t, s)
			}
			state, _ := all.State(name)
			if state.Era != "legacy" || state.Revision != mcp.Legacy || state.Sessions == 0 {
				t.Errorf("got %+v", state)
			}
		})
	}
}

func TestLegacyProgress(t *testing.T) {
	t.Parallel()
	s := at(t, serve(t, legacyHandler(t, legacyServer(mcp.Legacy), nil)).URL)
	r := call("steps", "{}")
	r.Message = r.Message.WithMeta(mcp.MetaProgress, []byte(`"token"`))
	got := must(t, s, r)
	if len(got.Notes) != 3 || !strings.Contains(got.Notes[2], `"progressToken":"token"`) {
		t.Errorf("got %q", got.Notes)
	}
}

// Callers have sessions of their own, unless the operator says otherwise.
func TestSharing(t *testing.T) {
	t.Parallel()
	for sharing, want := range map[config.MCPSharing]int{"auto": 2, "shared": 1} {
		c := config.NewMCPServer(serve(t, legacyHandler(t, legacyServer(mcp.Legacy), nil)).URL)
		c.Sharing, c.Revision = sharing, config.MCPRevisionLegacy
		all := servers(t, c, upstream.Options{})
		for _, caps := range []string{"", `{"elicitation":{}}`} {
			must(t, only(t, all), request(mcp.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`, caps))
		}
		if state, _ := all.State(name); state.Sessions != want {
			t.Errorf("%s: %d sessions", sharing, state.Sessions)
		}
	}
}

// A session that the server has forgotten is begun anew (LEG-02).
func TestSessionLost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	lost := map[string]bool{}
	var last string
	next := legacyHandler(t, legacyServer(mcp.Legacy), nil)
	s := at(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(mcp.HeaderSession)
		mu.Lock()
		gone := lost[id]
		if id != "" {
			last = id
		}
		mu.Unlock()
		if gone {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})).URL)
	must(t, s, call("echo", `{"text":"x"}`))
	mu.Lock()
	lost[last] = true
	mu.Unlock()
	must(t, s, call("echo", `{"text":"x"}`))
}

func TestLegacyListen(t *testing.T) {
	t.Parallel()
	tools := legacyServer(mcp.Legacy)
	transports := map[string]func(t *testing.T) upstream.Server{
		"http": func(t *testing.T) upstream.Server { return at(t, serve(t, legacyHandler(t, tools, nil)).URL) },
	}
	for name, start := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer, err := s.Do(ctx, request(mcp.MethodListen, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["memo://one"]}}`, ""))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Close()
			m, err := answer.Next()
			if err != nil || m.Method != mcp.NotifyAcknowledged || string(m.MetaValue(mcp.MetaSubscription)) != "1" || !strings.Contains(string(m.Body), `"toolsListChanged":true`) {
				t.Fatalf("got %s, %v", m.Body, err)
			}
			sdk.AddTool(tools, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return nil, nil, nil
			})
			m, err = answer.Next()
			if err != nil || m.Method != mcp.NotifyTools || string(m.MetaValue(mcp.MetaSubscription)) != "1" {
				t.Fatalf("got %v, %v", m, err)
			}
		})
	}
}

// legacyScript is a legacy server that answers tools/call by the function.
func legacyScript(revision string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
			h(w, r)
			return
		case r.Method != http.MethodPost:
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Scan(body, mcp.Limits{})
		switch {
		case err != nil:
			http.Error(w, err.Error(), 400)
		case m.Method == mcp.MethodInitialize:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(mcp.HeaderSession, "abc")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID, revision)
		case r.Header.Get(mcp.HeaderSession) != "abc":
			http.Error(w, "no session", 400)
		case m.IsNotification():
			w.WriteHeader(202)
		default:
			r = r.WithContext(context.WithValue(r.Context(), messageKey{}, m))
			h(w, r)
		}
	})
}

type messageKey struct{}

func messageOf(r *http.Request) *mcp.Message { return r.Context().Value(messageKey{}).(*mcp.Message) }

// The error that sends people to a page becomes a question (MRT-10).
func TestURLElicitationError(t *testing.T) {
	t.Parallel()
	s := at(t, serve(t, legacyScript(mcp.Legacy, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"go there","data":{"elicitations":[{"mode":"url","elicitationId":"e","message":"Log in.","url":"https://a.example/x"}]}}}`, messageOf(r).ID)
	})).URL)
	got := must(t, s, request(mcp.MethodCallTool, `{"name":"x","arguments":{}}`, `{"elicitation":{"url":{}}}`)).Response
	if got.ResultType != mcp.ResultInputRequired || !strings.Contains(string(got.Body), `{"mode":"url","message":"Log in.","url":"https://a.example/x"}`) {
		t.Errorf("got %s", got.Body)
	}
	if got := must(t, s, call("x", "{}")).Response.Error(); got == nil || got.Code != mcp.CodeMissingCapability {
		t.Errorf("got %v", got)
	}
}

// A stream that the server closes is taken up again where it says so (LEG-07), and
// servers of 2025-03-26 may send several messages at once.
func TestResumedStream(t *testing.T) {
	t.Parallel()
	var id string
	s := at(t, serve(t, legacyScript("2025-03-26", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			id = string(messageOf(r).ID)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "id: one\nretry: 1\ndata:\n\n")
		case r.Header.Get("Last-Event-ID") == "one":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: two\ndata: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}},\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}]\n\n", id)
		default:
			http.Error(w, "no", http.StatusMethodNotAllowed)
		}
	})).URL)
	must(t, s, call("x", "{}"))
}

func TestHostileLegacyHTTP(t *testing.T) {
	t.Parallel()
	const events, doc = "text/event-stream", "application/json"
	tests := map[string]struct {
		handler http.HandlerFunc
		code    int
	}{
		"wrong id":     {reply(doc, `{"jsonrpc":"2.0","id":777,"result":{}}`), mcp.CodeBadAnswer},
		"garbage":      {reply(doc, `hello`), mcp.CodeBadAnswer},
		"another type": {reply("text/html", `hello`), mcp.CodeBadAnswer},
		"too large":    {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{"x":"`+strings.Repeat("x", 200<<10)+`"}}`), mcp.CodeBadAnswer},
		"stream ends":  {reply(events, ": hello\n\n"), mcp.CodeOutcomeUnknown},
		"event":        {reply(events, "data: {\n\n"), mcp.CodeBadAnswer},
		"500":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 500) }, mcp.CodeOutcomeUnknown},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", events)
			for {
				if _, err := io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"); err != nil {
					return
				}
			}
		}, mcp.CodeBadAnswer},
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, mcp.CodeTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.NewMCPServer(serve(t, legacyScript("2025-06-18", test.handler)).URL)
			c.ResultBytes = 100 << 10
			c.Timeout = config.Duration(20 * time.Second)
			if name == "slow" {
				c.Timeout = config.Duration(300 * time.Millisecond)
			}
			got, err := ask(t, only(t, servers(t, c, upstream.Options{})), call("x", `{}`))
			if code := codeOf(err); code != test.code {
				t.Errorf("code %d: %v, %v", code, got, err)
			}
		})
	}
}

// A call that is given up is cancelled at a legacy server by a notification
// (LEG-06).
func TestCancelLegacyHTTP(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	tools := legacyServer(mcp.Legacy)
	ended := make(chan struct{})
	sdk.AddTool(tools, &sdk.Tool{Name: "block"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		began <- struct{}{}
		<-ctx.Done()
		close(ended)
		return nil, nil, ctx.Err()
	})
	s := at(t, serve(t, legacyHandler(t, tools, nil)).URL)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := askIn(ctx, s, call("block", "{}")); err == nil {
		t.Error("no error")
	}
	<-ended
}

// A server that has become another one is asked anew what it speaks (VER-05).
func TestEraChanges(t *testing.T) {
	t.Parallel()
	var now http.Handler = modernHandler(toolServer(), false)
	var mu sync.Mutex
	all := servers(t, config.NewMCPServer(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := now
		mu.Unlock()
		h.ServeHTTP(w, r)
	})).URL), upstream.Options{})
	s := only(t, all)
	for _, era := range []string{"modern", "legacy", "modern"} {
		mu.Lock()
		if era == "legacy" {
			now = legacyHandler(t, legacyServer(mcp.Legacy), nil)
		} else {
			now = script(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Header.Get(mcp.HeaderMethod) == "" {
					w.WriteHeader(404)
					io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`)
					return
				}
				io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
			})
		}
		mu.Unlock()
		must(t, s, call("echo", `{"text":"x"}`))
		if state, _ := all.State(name); state.Era != era {
			t.Errorf("%q, not %q", state.Era, era)
		}
	}
}

// A server that asks beside the stream of the call is heard, from the first call on
// (LEG-03).
func TestAskedBeside(t *testing.T) {
	t.Parallel()
	beside, answered := make(chan func(string), 1), make(chan string, 1)
	s := at(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			beside <- func(text string) {
				io.WriteString(w, text)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Scan(body, mcp.Limits{})
		switch {
		case err == nil && m.IsResponse():
			answered <- string(m.Body)
			w.WriteHeader(202)
			return
		case err == nil && m.Method == mcp.MethodCallTool:
			select {
			case send := <-beside:
				send("data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\"}}\n\n")
			default:
				t.Error("nobody listens")
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			select {
			case text := <-answered:
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[%s]}}\n\n", m.ID, text)
			case <-r.Context().Done():
			}
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		legacyScript(mcp.Legacy, func(http.ResponseWriter, *http.Request) {}).ServeHTTP(w, r)
	})).URL)
	form := `{"elicitation":{"form":{}}}`
	got := must(t, s, request(mcp.MethodCallTool, `{"name":"x","arguments":{}}`, form)).Response
	if got.ResultType != mcp.ResultInputRequired {
		t.Fatalf("got %s", got.Body)
	}
	got = must(t, s, request(mcp.MethodCallTool, `{"name":"x","arguments":{},"requestState":"`+got.ParamString("requestState")+`","inputResponses":{"input-1":{"action":"decline"}}}`, form)).Response
	if !strings.Contains(string(got.Body), `"id":"q","result":{"action":"decline"}`) {
		t.Errorf("got %s", got.Body)
	}
}
