package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

func TestModernHTTP(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%v", json), func(t *testing.T) {
			t.Parallel()
			tools := toolServer()
			s := at(t, serve(t, modernHandler(tools, json)).URL)
			got := must(t, s, call("echo", `{"text":"hello"}`))
			if !strings.Contains(string(got.Response.Body), `"text":"hello"`) || got.Response.ResultType != mcp.ResultComplete || string(got.Response.ID) != "1" {
				t.Errorf("got %s", got.Response.Body)
			}
			if got := must(t, s, request(mcp.MethodListTools, "{}", "")); !strings.Contains(string(got.Response.Body), `"name":"echo"`) {
				t.Errorf("got %s", got.Response.Body)
			}
			if got := must(t, s, request(mcp.MethodReadResource, `{"uri":"memo://one"}`, "")); !strings.Contains(string(got.Response.Body), "first") {
				t.Errorf("got %s", got.Response.Body)
			}
			if got := must(t, s, request(mcp.MethodDiscover, `{}`, "")); !strings.Contains(string(got.Response.Body), mcp.Modern) {
				t.Errorf("got %s", got.Response.Body)
			}
			if got := must(t, s, call("unknown", `{}`)).Response.Error(); got == nil || got.Code != mcp.CodeInvalidParams {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestModernHTTPProgress(t *testing.T) {
	t.Parallel()
	s := at(t, serve(t, modernHandler(toolServer(), false)).URL)
	r := call("steps", "{}")
	r.Message = r.Message.WithMeta(mcp.MetaProgress, []byte(`"token"`))
	got := must(t, s, r)
	if len(got.Notes) != 3 || !strings.Contains(got.Notes[2], `"progressToken":"token"`) {
		t.Errorf("got %q", got.Notes)
	}
}

func TestModernHTTPInput(t *testing.T) {
	t.Parallel()
	s := at(t, serve(t, modernHandler(toolServer(), false)).URL)
	got := must(t, s, request(mcp.MethodCallTool, `{"name":"ask","arguments":{}}`, `{"elicitation":{}}`))
	if got.Response.ResultType != mcp.ResultInputRequired || got.Response.ParamString("requestState") != "asked" {
		t.Fatalf("got %s", got.Response.Body)
	}
	got = must(t, s, request(mcp.MethodCallTool, `{"name":"ask","arguments":{},"requestState":"asked","inputResponses":{"name":{"action":"accept","content":{"name":"Sari"}}}}`, `{"elicitation":{}}`))
	if !strings.Contains(string(got.Response.Body), "Hello Sari") {
		t.Errorf("got %s", got.Response.Body)
	}
}

// What the client shows does not reach the server, but for arguments and trace
// context (AUT-07, S21).
func TestHTTPHeader(t *testing.T) {
	t.Parallel()
	j := &journal{next: modernHandler(toolServer(), false)}
	c := config.NewMCPServer(serve(t, j).URL)
	c.Headers = map[string]config.Secret{"X-Fixed": config.NewSecret("ours")}
	c.Auth.Bearer = config.NewSecret("node-token")
	s := only(t, servers(t, c, upstream.Options{}))
	r := request(mcp.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`, "")
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.Header = http.Header{
		"Authorization": {"Bearer of-the-client"}, "Cookie": {"a=b"}, "Mcp-Session-Id": {"s"}, "Mcp-Param-Region": {"west"}, "X-Fixed": {"theirs"},
		"Traceparent": {trace}, "Baggage": {"a=b"}, "Mcp-Method": {"tools/list"}, "Mcp-Name": {"other"}, "Idempotency-Key": {"k"}, "X-Forwarded-For": {"1.2.3.4"}, "Origin": {"https://x"},
	}
	must(t, s, r)
	list := j.of(mcp.MethodCallTool)
	if len(list) != 1 {
		t.Fatalf("%d calls", len(list))
	}
	list[0].Del("Content-Length")
	want := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}, "User-Agent": {"handoff"},
		"Authorization": {"Bearer node-token"}, "X-Fixed": {"ours"}, "Mcp-Param-Region": {"west"}, "Traceparent": {trace},
		"Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}, "Mcp-Protocol-Version": {mcp.Modern},
	}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Error(diff)
	}
}

// script answers server/discover as a modern server does, and the rest by the
// function.
func script(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderMethod) == mcp.MethodDiscover {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":"discover","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}`)
			return
		}
		h(w, r)
	})
}

func reply(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	}
}

func TestHostileHTTP(t *testing.T) {
	t.Parallel()
	const events, doc = "text/event-stream", "application/json"
	tests := map[string]struct {
		handler http.HandlerFunc
		code    int
		unknown bool // the outcome
	}{
		"wrong id":             {reply(doc, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`), mcp.CodeBadAnswer, true},
		"id of another type":   {reply(doc, `{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`), mcp.CodeBadAnswer, true},
		"no id":                {reply(doc, `{"jsonrpc":"2.0","result":{"content":[]}}`), mcp.CodeBadAnswer, true},
		"unknown result type":  {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"martian"}}`), mcp.CodeBadAnswer, true},
		"task without consent": {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"x"}}`), mcp.CodeBadAnswer, true},
		"garbage":              {reply(doc, `hello`), mcp.CodeBadAnswer, true},
		"truncated":            {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{`), mcp.CodeBadAnswer, true},
		"duplicate keys":       {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{"a":1},"result":{"a":2}}`), mcp.CodeBadAnswer, true},
		"a batch":              {reply(doc, `[{"jsonrpc":"2.0","id":1,"result":{}}]`), mcp.CodeBadAnswer, true},
		"another type":         {reply("text/html", `<html>`), mcp.CodeBadAnswer, true},
		"no type":              {reply("", ``), mcp.CodeBadAnswer, true},
		"too large":            {reply(doc, `{"jsonrpc":"2.0","id":1,"result":{"x":"`+strings.Repeat("x", 200<<10)+`"}}`), mcp.CodeBadAnswer, true},
		"event too large":      {reply(events, "data: "+strings.Repeat("x", 200<<10)+"\n\n"), mcp.CodeBadAnswer, true},
		"event garbage":        {reply(events, "data: {\n\n"), mcp.CodeBadAnswer, true},
		"event wrong id":       {reply(events, "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n"), mcp.CodeBadAnswer, true},
		"event request":        {reply(events, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n"), mcp.CodeBadAnswer, true},
		"stream ends":          {reply(events, ": hello\n\n"), mcp.CodeOutcomeUnknown, true},
		"endless stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", events)
			for {
				if _, err := io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"); err != nil {
					return
				}
			}
		}, mcp.CodeBadAnswer, true},
		"500":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) }, mcp.CodeOutcomeUnknown, true},
		"503":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusServiceUnavailable) }, mcp.CodeUnavailable, false},
		"401":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusUnauthorized) }, mcp.CodeUnavailable, false},
		"429":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusTooManyRequests) }, mcp.CodeUnavailable, false},
		"no page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusNotFound) }, mcp.CodeUnavailable, false},
		"redirect to elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/mcp", http.StatusTemporaryRedirect)
		}, mcp.CodeOutcomeUnknown, true},
		"closed": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, mcp.CodeOutcomeUnknown, true},
		"closed in the answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", doc)
			io.WriteString(w, `{"jsonrpc":"2.0",`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, mcp.CodeOutcomeUnknown, true},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, mcp.CodeTimeout, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.NewMCPServer(serve(t, script(test.handler)).URL)
			c.ResultBytes = 100 << 10
			c.Timeout = config.Duration(300 * time.Millisecond)
			if name != "slow" {
				c.Timeout = config.Duration(20 * time.Second)
			}
			got, err := ask(t, only(t, servers(t, c, upstream.Options{})), call("echo", `{}`))
			if err == nil {
				t.Fatalf("got %s", got.Response.Body)
			}
			if code := codeOf(err); code != test.code {
				t.Errorf("code %d: %v", code, err)
			}
			if errors.Is(err, upstream.ErrOutcomeUnknown) != test.unknown || errors.Is(err, upstream.ErrUnavailable) == test.unknown {
				t.Errorf("unknown is not %v: %v", test.unknown, err)
			}
		})
	}
}

// A large document is handed on while it comes, and fails where it turns out to be
// wrong.
func TestRaw(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(`{"a":["b\"\\",{"resultType":"deep","id":7}]},`, 10_000)
	tests := map[string]struct {
		body string
		ok   bool
	}{
		"small":              {`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, true},
		"large":              {`{"result":{"resultType":"complete","x":[` + large + `1]},"jsonrpc":"2.0","id":1}`, true},
		"an error":           {`{"error":{"code":1,"message":"` + strings.Repeat("m", 100<<10) + `"},"jsonrpc":"2.0","id":1}`, true},
		"wrong id":           {`{"result":{"resultType":"complete","x":[` + large + `1]},"jsonrpc":"2.0","id":2}`, false},
		"two ids":            {`{"id":2,"result":{"resultType":"complete","x":[` + large + `1]},"jsonrpc":"2.0","id":1}`, false},
		"an escaped id":      {`{"result":{"x":[` + large + `1]},"jsonrpc":"2.0","\u0069d":2,"id":1}`, false},
		"unknown type":       {`{"id":1,"result":{"x":[` + large + `1],"resultType":"martian"},"jsonrpc":"2.0"}`, false},
		"an escaped type":    {`{"id":1,"result":{"x":[` + large + `1],"resultT\u0079pe":"martian"},"jsonrpc":"2.0"}`, false},
		"truncated":          {`{"id":1,"result":{"x":[` + large, false},
		"something after it": {`{"id":1,"result":{"x":[` + large + `1]}} {}`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := at(t, serve(t, script(reply("application/json", test.body))).URL)
			answer, err := s.Do(t.Context(), call("echo", "{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Close()
			body, length := answer.(upstream.Raw).Raw()
			got, err := io.ReadAll(body)
			if test.ok && (err != nil || string(got) != test.body || length >= 0 && length != int64(len(got))) {
				t.Errorf("%d of %d bytes (%d said): %v", len(got), len(test.body), length, err)
			}
			if !test.ok && codeOf(err) != mcp.CodeBadAnswer && codeOf(err) != mcp.CodeOutcomeUnknown {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	gone := serve(t, http.NotFoundHandler())
	gone.Close()
	c := config.NewMCPServer(gone.URL)
	c.Breaker.Failures = 2
	all := servers(t, c, upstream.Options{})
	s := only(t, all)
	for range 3 {
		_, err := ask(t, s, call("echo", "{}"))
		if !errors.Is(err, upstream.ErrUnavailable) || codeOf(err) != mcp.CodeUnavailable {
			t.Errorf("got %v", err)
		}
	}
	state, _ := all.State(name)
	if state.Up || state.Circuit != upstream.CircuitOpen || state.Calls != 2 || state.LastError == "" {
		t.Errorf("got %+v", state)
	}
}

// That who has asked goes away cancels the request at the server (TRN-13, CAN-01).
func TestCancelHTTP(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan struct{})
	s := at(t, serve(t, script(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
		close(ended)
	})).URL)
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := s.Do(ctx, call("echo", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	<-ended
	if _, err := answer.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	answer.Close()
}

// Arguments go into headers as the schema says, which is asked for again when the
// server does not agree (XMH-01, XMH-05, XMH-07).
func TestParamHeaders(t *testing.T) {
	t.Parallel()
	list := `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` +
		`{"name":"sql","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"},"deep":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"On"}}}}}},` +
		`{"name":"bad","inputSchema":{"type":"object","properties":{"list":{"type":"array","items":{"type":"string","x-mcp-header":"X"}}}}}]}}`
	var seen []http.Header
	s := at(t, serve(t, script(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get(mcp.HeaderMethod) == mcp.MethodListTools:
			body, _ := io.ReadAll(r.Body)
			m, _ := mcp.Scan(body, mcp.Limits{})
			fmt.Fprintf(w, list, m.ID)
		case r.Header.Get("Mcp-Param-Region") == "":
			w.WriteHeader(400)
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no region"}}`)
		default:
			seen = append(seen, r.Header.Clone())
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		}
	})).URL)
	must(t, s, call("sql", `{"region":"Åland","limit":42.0,"deep":{"on":true}}`))
	if len(seen) != 1 || seen[0].Get("Mcp-Param-Region") != "=?base64?w4VsYW5k?=" || seen[0].Get("Mcp-Param-Limit") != "42" || seen[0].Get("Mcp-Param-On") != "true" {
		t.Errorf("got %v", seen)
	}
	// It is remembered, and what the client says instead does not count.
	r := call("sql", `{"region":"west"}`)
	r.Header = http.Header{"Mcp-Param-Region": {"east"}, "Mcp-Param-Limit": {"7"}}
	must(t, s, r)
	if len(seen) != 2 || seen[1].Get("Mcp-Param-Region") != "west" || seen[1].Get("Mcp-Param-Limit") != "" {
		t.Errorf("got %v", seen)
	}
	// A tool whose annotation is not allowed is not listed (XMH-04).
	got := must(t, s, request(mcp.MethodListTools, "{}", ""))
	if text := string(got.Response.Body); !strings.Contains(text, `"sql"`) || strings.Contains(text, `"bad"`) {
		t.Errorf("got %s", text)
	}
}

// A server may repeat what it was shown as credentials where it refuses them. Nobody
// who calls it gets to see them.
func TestNoFailureNamesCredentials(t *testing.T) {
	t.Parallel()
	const token, fixed = "node-token-0184", "fixed-value-0042"
	failure := func(said string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"not ` + said + `","data":{"got":"` + said + `"}}}`
	}
	for name, answer := range map[string]func(w http.ResponseWriter, said string){
		"document": func(w http.ResponseWriter, said string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, failure(said))
		},
		"event": func(w http.ResponseWriter, said string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+failure(said)+"\n\n")
		},
		"result": func(w http.ResponseWriter, said string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","isError":true,"content":[{"type":"text","text":"`+said+`"}]}}`)
		},
		"status": func(w http.ResponseWriter, said string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, failure(said))
		},
		"text": func(w http.ResponseWriter, said string) { http.Error(w, "who is "+said, http.StatusTeapot) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.NewMCPServer(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer(w, r.Header.Get("Authorization")+" "+r.Header.Get("X-Fixed"))
			})).URL)
			c.Revision = mcp.Modern
			c.Headers = map[string]config.Secret{"X-Fixed": config.NewSecret(fixed)}
			c.Auth.Bearer = config.NewSecret(token)
			c.Env = map[string]config.Secret{"MODE": config.NewSecret("complete"), "FIELD": config.NewSecret("message")} // words of the protocol
			got, err := ask(t, only(t, servers(t, c, upstream.Options{})), call("echo", `{"text":"x"}`))
			if name != "text" && err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(err)
			if got != nil && got.Response != nil {
				text += string(got.Response.Body)
			}
			if !strings.Contains(text, "Bearer ***") || strings.Contains(text, token) || strings.Contains(text, fixed) {
				t.Errorf("got %s", text)
			}
		})
	}
}
