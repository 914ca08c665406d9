package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// revisions are what the Go SDK speaks to the gateway.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

// TestGo has the Go SDK do everything that it can, in every revision.
func TestGo(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		if direct && revision != "2026-07-28" && revision != "2025-11-25" {
			continue // these are spoken by the gateway only
		}
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			for name, test := range goTests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if revision < "2025-06-18" && name == "elicitation" {
						return // there is none in this revision
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					test(ctx, t, revision)
				})
			}
		})
	}
}

var goTests = map[string]func(context.Context, *testing.T, string){
	"list":         goLists,
	"structured":   goStructured,
	"error":        goError,
	"unknown":      goUnknown,
	"progress":     goProgress,
	"elicitation":  goElicitation,
	"cancellation": goCancellation,
	"resources":    goResources,
	"prompts":      goPrompts,
	"completion":   goCompletion,
	"changes":      goChanges,
}

func connect(ctx context.Context, t *testing.T, revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	if o == nil {
		o = &mcp.ClientOptions{}
	}
	url := endpoint
	if revision < "2026-07-28" {
		url = legacyEndpoint
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, o)
	s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func callTool(ctx context.Context, t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func words(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) == 0 {
		t.Fatal("no content")
	}
	c, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("content is %T", res.Content[0])
	}
	return c.Text
}

func goLists(ctx context.Context, t *testing.T, revision string) {
	s := connect(ctx, t, revision, nil)
	var names []string
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("tools are not in order: %v", names)
	}
	want := []string{"test_simple_text", "structured_weather", "hold"}
	if !direct {
		want = append(want, "slow_compute") // of the other server
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not listed: %v", name, names)
		}
	}
}

func goStructured(ctx context.Context, t *testing.T, revision string) {
	res := callTool(ctx, t, connect(ctx, t, revision, nil), "structured_weather", map[string]any{"city": "Surabaya"})
	if res.IsError || !strings.Contains(words(t, res), "Surabaya") {
		t.Errorf("result %+v", res)
	}
	if revision < "2025-06-18" {
		return // no structured content
	}
	got, _ := res.StructuredContent.(map[string]any)
	if got["city"] != "Surabaya" || got["celsius"] != 21.5 {
		t.Errorf("structured content %v", res.StructuredContent)
	}
}

func goError(ctx context.Context, t *testing.T, revision string) {
	res := callTool(ctx, t, connect(ctx, t, revision, nil), "test_error_handling", map[string]any{})
	if !res.IsError || !strings.Contains(words(t, res), "intentionally") {
		t.Errorf("result %+v", res)
	}
}

func goUnknown(ctx context.Context, t *testing.T, revision string) {
	_, err := connect(ctx, t, revision, nil).CallTool(ctx, &mcp.CallToolParams{Name: "there_is_no_such_tool"})
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("error %v", err)
	}
}

func goProgress(ctx context.Context, t *testing.T, revision string) {
	seen := make(chan float64, 10)
	s := connect(ctx, t, revision, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		seen <- r.Params.Progress
	}})
	params := &mcp.CallToolParams{Name: "test_tool_with_progress", Arguments: map[string]any{}}
	params.SetProgressToken("half/half")
	res, err := s.CallTool(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if got := words(t, res); got == "<nil>" {
		t.Error("the server got no progress token")
	}
	for _, want := range []float64{0, 50, 100} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("progress %v, want %v", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("no progress %v", want)
		}
	}
}

func goElicitation(ctx context.Context, t *testing.T, revision string) {
	answers := map[string]map[string]any{
		"Step 1: what is your name?": {"name": "Dewi"}, "Step 2: what is your favourite colour?": {"color": "ochre"},
	}
	s := connect(ctx, t, revision, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		answer, ok := answers[r.Params.Message]
		if !ok {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		return &mcp.ElicitResult{Action: "accept", Content: answer}, nil
	}})
	if got := words(t, callTool(ctx, t, s, "test_input_required_result_multi_round", map[string]any{})); got != "Dewi likes ochre" {
		t.Errorf("result %q", got)
	}
	if got := words(t, callTool(ctx, t, s, "test_elicitation", map[string]any{"message": "Who?"})); !strings.Contains(got, "action=decline") {
		t.Errorf("result %q", got)
	}
}

// held returns how many calls of hold are running, and were cancelled.
func held(ctx context.Context, t *testing.T, s *mcp.ClientSession) (running, cancelled int) {
	t.Helper()
	var counts struct{ Running, Cancelled int }
	if err := json.Unmarshal([]byte(words(t, callTool(ctx, t, s, "held", map[string]any{}))), &counts); err != nil {
		t.Fatal(err)
	}
	return counts.Running, counts.Cancelled
}

func goCancellation(ctx context.Context, t *testing.T, revision string) {
	begun := make(chan struct{}, 1)
	s := connect(ctx, t, revision, &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
		begun <- struct{}{}
	}})
	_, before := held(ctx, t, s)
	calling, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "hold", Arguments: map[string]any{}}
		params.SetProgressToken("hold")
		_, err := s.CallTool(calling, params)
		ended <- err
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatalf("the call has ended: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call that was cancelled has a result")
	}
	for {
		if _, after := held(ctx, t, s); after > before {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the server's call was not cancelled")
		}
	}
}

func goResources(ctx context.Context, t *testing.T, revision string) {
	s := connect(ctx, t, revision, nil)
	var uris []string
	for r, err := range s.Resources(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
	if !slices.Contains(uris, "test://static-text") {
		t.Errorf("resources %v", uris)
	}
	read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://static-text"})
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, "static text resource") {
		t.Errorf("contents %+v", read.Contents)
	}
	templates := 0
	for _, err := range s.ResourceTemplates(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		templates++
	}
	if templates == 0 {
		t.Error("no templates")
	}
	read, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://template/42/data"})
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, `"id":"42"`) {
		t.Errorf("contents %+v", read.Contents)
	}
	if _, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://there-is-none"}); err == nil {
		t.Error("a resource that is not there was read")
	}
}

func goPrompts(ctx context.Context, t *testing.T, revision string) {
	s := connect(ctx, t, revision, nil)
	got, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "one", "arg2": "two"}})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || !strings.Contains(c.Text, "arg1='one', arg2='two'") {
		t.Errorf("prompt %+v", got)
	}
}

func goCompletion(ctx context.Context, t *testing.T, revision string) {
	s := connect(ctx, t, revision, nil)
	got, err := s.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "pa"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Completion.Values, []string{"pa-1", "pa-2"}) {
		t.Errorf("completion %+v", got.Completion)
	}
}

// goChanges sees that a list has changed, and that a resource has.
func goChanges(ctx context.Context, t *testing.T, revision string) {
	listed, updated := make(chan struct{}, 1), make(chan string, 1)
	s := connect(ctx, t, revision, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case listed <- struct{}{}:
			default:
			}
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			select {
			case updated <- r.Params.URI:
			default:
			}
		},
	})
	if err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: "test://watched-resource"}); err != nil {
		t.Fatal(err)
	}
	callTool(ctx, t, s, "test_trigger_tool_change", map[string]any{})
	for range 2 {
		select {
		case <-listed:
			listed = nil
		case uri := <-updated:
			if uri != "test://watched-resource" {
				t.Errorf("%s was updated", uri)
			}
			updated = nil
		case <-ctx.Done():
			t.Fatalf("no notification: of lists missing %t, of resources missing %t", listed != nil, updated != nil)
		}
	}
}
