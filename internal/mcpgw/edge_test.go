package mcpgw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/upstream"
)

// tokens takes Bearer tokens that are the names of their subjects; without one, the
// caller is anonymous.
type tokens struct{}

func (tokens) Authenticate(r *http.Request) (auth.Principal, error) {
	p := auth.Principal{Role: auth.RoleCaller, Address: r.RemoteAddr}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "bad" {
		return auth.Principal{Address: r.RemoteAddr}, &auth.Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "The token is not good"), Challenges: []string{`Bearer error="invalid_token"`}}
	}
	if ok {
		p.Subject, p.Issuer = token, "test"
	}
	return p, nil
}

// tools is a real tool server.
func tools() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	type text struct {
		Text string `json:"text"`
	}
	say := func(format string, args ...any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return say("%s", in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "twice"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		answer := func(key string) string {
			if e, ok := r.Params.InputResponses[key].(*sdk.ElicitResult); ok && e.Action == "accept" {
				return fmt.Sprint(e.Content["value"])
			}
			return ""
		}
		form := func(key, state string) *sdk.CallToolResult {
			return &sdk.CallToolResult{RequestState: state, InputRequests: sdk.InputRequestMap{key: &sdk.ElicitParams{
				Mode: "form", Message: "The " + key + "?",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"value": map[string]any{"type": "string"}}},
			}}}
		}
		switch {
		case r.Params.RequestState == "":
			return form("first", "one"), nil, nil
		case r.Params.RequestState == "one":
			return form("second", "two:"+answer("first")), nil, nil
		}
		return say("%s and %s", strings.TrimPrefix(r.Params.RequestState, "two:"), answer("second")), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "elicit"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"value": map[string]any{"type": "string"}}}})
		if err != nil {
			return nil, nil, err
		}
		return say("hello %v", got.Content["value"]), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "progress"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return nil, nil, err
			}
		}
		return say("done"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "hang"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "grown"}, func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			return say("grown"), nil, nil
		})
		return say("ok"), nil, nil
	})
	s.AddTool(&sdk.Tool{Name: "numbers", InputSchema: map[string]any{"type": "object"}, OutputSchema: map[string]any{"type": "array"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := say("[1,2]")
		r.StructuredContent = []int{1, 2}
		return r, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}}, nil
	})
	s.AddResource(&sdk.Resource{URI: "memo://one", Name: "one"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "memo://one", Text: "one"}}}, nil
	})
	return s
}

// edge is a gateway that is reached over HTTP, with a store that others can share.
type edge struct {
	t       *testing.T
	url     string
	handler *mcpgw.Handler
	tools   *sdk.Server
}

type edgeOptions struct {
	yaml    string // of the configuration, below mcp
	legacy  bool   // the tool server speaks 2025-11-25
	docs    store.Docs
	tools   *sdk.Server
	change  func(*mcpgw.Options)
	handler http.Handler // the tool server, in place of tools
}

func openDocs(t *testing.T) store.Docs {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// upstreamOf serves a tool server.
func upstreamOf(t *testing.T, s *sdk.Server, legacy bool) string {
	t.Helper()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: !legacy, PropagateRequestCancellation: !legacy})
	served := httptest.NewServer(h)
	t.Cleanup(func() {
		served.CloseClientConnections()
		served.Close()
	})
	return served.URL
}

func newEdge(t *testing.T, o edgeOptions) *edge {
	t.Helper()
	if o.tools == nil {
		o.tools = tools()
	}
	if o.docs == nil {
		o.docs = openDocs(t)
	}
	url := ""
	if o.handler != nil {
		served := httptest.NewServer(o.handler)
		t.Cleanup(func() {
			served.CloseClientConnections()
			served.Close()
		})
		url = served.URL
	} else {
		url = upstreamOf(t, o.tools, o.legacy)
	}
	yaml := o.yaml
	if !strings.Contains(yaml, "servers:") {
		yaml = "servers:\n  tools:\n    url: " + url + "\n" + yaml
	}
	yaml = strings.ReplaceAll(yaml, "$URL", url)
	c, err := config.Parse([]byte("agents: {}\nmcp:\n"+indent(yaml)), "")
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	servers, err := upstream.New(&c.MCP, upstream.Options{Log: quiet, Docs: o.docs})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(&c.MCP)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]upstream.Server{}
	for name := range c.MCP.Servers {
		one, _ := servers.Get(name)
		all[name] = one
	}
	directory := mcpgw.NewDirectory(mcpgw.DirectoryOptions{Guard: policy.NewGuard(nil, nil), Logger: quiet})
	directory.Use(mcpgw.Settings{Config: &c.MCP, Policy: p, Servers: all})
	opts := mcpgw.Options{
		Catalog: directory, Docs: o.docs, Auth: tokens{}, Revisions: c.MCP.Revisions, Version: "test", BodyBytes: 1 << 20,
		Wait: 10 * time.Second, TaskTTL: time.Hour, SessionTTL: time.Hour, Logger: quiet,
		Trusts: mcpgw.TrustsOf([]string{"https://app.example.com"}, nil, func(*http.Request) bool { return false }),
	}
	if o.change != nil {
		o.change(&opts)
	}
	h := mcpgw.New(opts)
	served := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		served.CloseClientConnections()
		served.Close()
		_ = servers.Close(context.WithoutCancel(t.Context()))
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return &edge{t: t, url: served.URL + "/mcp", handler: h, tools: o.tools}
}

// reply is what came back of a request.
type reply struct {
	status int
	header http.Header
	body   string
	// of the response
	code   int
	result map[string]jsontext.Value
}

const (
	metaOf  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{%s}}`
	echoFor = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},` + "META" + `}}`
)

func meta(caps string) string { return fmt.Sprintf(metaOf, caps) }

// do sends a request. The header is that of a modern call of echo; changes set
// others, or with "" remove them.
func (e *edge) do(method, path, body string, changes map[string]string) reply {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderVersion: mcp.Modern, mcp.HeaderMethod: mcp.MethodCallTool, mcp.HeaderName: "echo",
	} {
		r.Header.Set(name, value)
	}
	for name, value := range changes {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Del(name)
			for one := range strings.SplitSeq(value, "\n") {
				r.Header.Add(name, one)
			}
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	got := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	document := got.body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		document = lastEvent(got.body)
	}
	var parsed struct {
		Result map[string]jsontext.Value `json:"result"`
		Error  struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(document), &parsed) // an empty or broken body has no parts
	got.code, got.result = parsed.Error.Code, parsed.Result
	return got
}

func lastEvent(stream string) string {
	last := ""
	scan := bufio.NewScanner(strings.NewReader(stream))
	scan.Buffer(nil, 8<<20)
	for scan.Scan() {
		if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
			last = data
		}
	}
	return last
}

func (e *edge) modern(method, name, params string, caps string) reply {
	e.t.Helper()
	return e.do(http.MethodPost, "", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+meta(caps)+`}}`,
		map[string]string{mcp.HeaderMethod: method, mcp.HeaderName: name})
}

// connect opens a session of the official client with a gateway.
func (e *edge) connect(revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	e.t.Helper()
	return connectTo(e.t, e.url, revision, o)
}

func connectTo(t *testing.T, url, revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, o)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{}}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect with %s: %v", revision, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func textOf(r *sdk.CallToolResult) string {
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			return text.Text
		}
	}
	return ""
}
