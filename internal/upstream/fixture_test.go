package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

const name = "fixture"

// serve starts an HTTP server.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// servers returns the servers of one configuration.
func servers(t *testing.T, c *config.MCPServer, opts upstream.Options) *upstream.Servers {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := upstream.New(&config.MCP{Servers: map[string]*config.MCPServer{name: c}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// only returns the one server.
func only(t *testing.T, s *upstream.Servers) upstream.Server {
	t.Helper()
	one, ok := s.Get(name)
	if !ok {
		t.Fatal("no server")
	}
	return one
}

func at(t *testing.T, url string) upstream.Server {
	t.Helper()
	return only(t, servers(t, config.NewMCPServer(url), upstream.Options{}))
}

// request returns a modern request. capabilities may be "".
func request(method, params, capabilities string) *upstream.Request {
	meta := mcp.Meta{Client: jsontext.Value(`{"name":"test","version":"1"}`)}
	if capabilities != "" {
		meta.Capabilities = jsontext.Value(capabilities)
	}
	return &upstream.Request{Message: mcp.NewRequest(jsontext.Value("1"), method, jsontext.Value(params), meta)}
}

func call(tool, args string) *upstream.Request {
	return request(mcp.MethodCallTool, `{"name":"`+tool+`","arguments":`+args+`}`, "")
}

// conversation is what came of a request.
type conversation struct {
	Notes    []string
	Response *mcp.Message
}

// ask sends a request and reads the answer to its end.
func ask(t *testing.T, s upstream.Server, r *upstream.Request) (*conversation, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return askIn(ctx, s, r)
}

func askIn(ctx context.Context, s upstream.Server, r *upstream.Request) (*conversation, error) {
	answer, err := s.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	c := &conversation{}
	for {
		m, err := answer.Next()
		switch {
		case err == io.EOF && c.Response == nil:
			return c, errors.New("no response")
		case err == io.EOF:
			return c, nil
		case err != nil:
			return c, err
		case m.IsResponse():
			c.Response = m
		default:
			c.Notes = append(c.Notes, string(m.Body))
		}
	}
}

// must sends a request that has to succeed.
func must(t *testing.T, s upstream.Server, r *upstream.Request) *conversation {
	t.Helper()
	c, err := ask(t, s, r)
	if err != nil {
		t.Fatalf("%s: %v", r.Message.Method, err)
	}
	return c
}

// codeOf returns the code of an error, or 0.
func codeOf(err error) int {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e.Code
	}
	return 0
}

// toolServer is a server of the official SDK with the tools that the tests call.
func toolServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, &sdk.ServerOptions{Instructions: "Use the tools."})
	type text struct {
		Text string `json:"text"`
	}
	said := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, r *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		if in.Text == "trace" {
			return said(fmt.Sprint("within ", r.Params.Meta[mcp.MetaTraceparent])), nil, nil
		}
		return said(in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "steps"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}); err != nil {
				return nil, nil, err
			}
		}
		return said("done"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("it broke")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if r.ProtocolVersion() >= mcp.Modern {
			if len(r.Params.InputResponses) == 0 {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"name": &sdk.ElicitParams{Message: "Your name?", RequestedSchema: nameSchema}}, RequestState: "asked"}, nil, nil
			}
			answer := r.Params.InputResponses["name"].(*sdk.ElicitResult)
			return said("Hello " + answer.Content["name"].(string)), nil, nil
		}
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Your name?", RequestedSchema: nameSchema})
		if err != nil {
			return nil, nil, err
		}
		if answer.Action != "accept" {
			return said("Hello nobody: " + answer.Action), nil, nil
		}
		return said("Hello " + answer.Content["name"].(string)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask_twice"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		var both sync.WaitGroup
		var answers [2]string
		for i := range answers {
			both.Go(func() {
				if a, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Your name?", RequestedSchema: nameSchema}); err == nil {
					answers[i], _ = a.Content["name"].(string)
				}
			})
		}
		both.Wait()
		return said(answers[0] + answers[1]), nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "memo://one", Name: "one"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "memo://one", Text: "first"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Hi"}}}}, nil
	})
	return s
}

var nameSchema = map[string]any{
	"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
}

// modernHandler serves it without sessions.
func modernHandler(s *sdk.Server, json bool) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: json, PropagateRequestCancellation: true})
}

// journal remembers the requests that a handler gets.
type journal struct {
	next http.Handler

	mu      sync.Mutex
	headers []http.Header
}

func (j *journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	j.headers = append(j.headers, r.Header.Clone())
	j.mu.Unlock()
	j.next.ServeHTTP(w, r)
}

func (j *journal) of(method string) []http.Header {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []http.Header
	for _, h := range j.headers {
		if h.Get(mcp.HeaderMethod) == method {
			list = append(list, h)
		}
	}
	return list
}

// legacyServer is the server with the tools for clients of an old revision only.
func legacyServer(revision string) *sdk.Server {
	s := toolServer()
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == mcp.MethodDiscover {
				return nil, errors.New("not initialized")
			}
			return next(ctx, method, r)
		}
	})
	_ = revision
	return s
}

// legacyHandler serves it with sessions.
func legacyHandler(t *testing.T, s *sdk.Server, o *sdk.StreamableHTTPOptions) http.Handler {
	t.Helper()
	t.Cleanup(func() {
		for one := range s.Sessions() {
			one.Close() //nolint:errcheck // it may be closed
		}
	})
	if o == nil {
		o = &sdk.StreamableHTTPOptions{}
	}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
}
