package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// toolServer is a tool server of the official Go SDK that counts its calls.
type toolServer struct {
	*httptest.Server
	mu      sync.Mutex
	calls   map[string]int
	changed chan struct{} // closed at each call
	finish  chan struct{} // closed when slow tools may end
}

type stockQuery struct {
	Article string `json:"article"`
	Units   int    `json:"units,omitempty"`
}

func newToolServer() *toolServer {
	t := &toolServer{calls: map[string]int{}, changed: make(chan struct{}), finish: make(chan struct{})}
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "stock", Description: "Says what is in stock"}, func(_ context.Context, _ *mcp.CallToolRequest, in stockQuery) (*mcp.CallToolResult, any, error) {
		t.count("stock")
		return text(fmt.Sprintf("%s: %d", in.Article, in.Units)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		r := text("It has failed")
		r.IsError = true
		return r, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "large", Description: "Says much"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return text(strings.Repeat("much ", 200_000)), nil, nil
	})
	region := map[string]any{"type": "object", "properties": map[string]any{"region": map[string]any{"type": "string", "x-mcp-header": "Region"}}}
	s.AddTool(&mcp.Tool{Name: "regional", Description: "Wants a header", InputSchema: region}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("header " + r.Extra.Header.Get("Mcp-Param-Region")), nil
	})
	for _, name := range []string{"slow", "again", "held"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Takes long"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			t.count(name)
			select {
			case <-t.finish:
				return text("finished"), nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})
	}
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello, " + r.Params.Arguments["name"]}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "terms", URI: "erp://terms"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "erp://terms", Text: "Net 30"}}}, nil
	})
	t.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	return t
}

func (t *toolServer) count(tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[tool]++
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *toolServer) counted(tool string) (int, chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[tool], t.changed
}

func (t *toolServer) close() {
	select {
	case <-t.finish:
	default:
		close(t.finish)
	}
	t.CloseClientConnections()
	t.Close()
}

// cmdTools starts a tool server and sets TOOLS to its URL.
func cmdTools(ts *testscript.TestScript, _ bool, _ []string) {
	s := newToolServer()
	ts.Defer(s.close)
	ts.Value(serverKey{}).(*serving).tools = s
	ts.Setenv("TOOLS", s.URL)
}

// cmdCalls waits until a tool has been called so often, and not more.
func cmdCalls(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	deadline := time.After(testPatience)
	for {
		n, changed := ts.Value(serverKey{}).(*serving).tools.counted(args[0])
		if n == want {
			return
		}
		if n > want {
			ts.Fatalf("%s has been called %d times", args[0], n)
		}
		select {
		case <-changed:
		case <-deadline:
			ts.Fatalf("%s has been called %d times", args[0], n)
		}
	}
}

// cmdFinish lets slow tools end.
func cmdFinish(ts *testscript.TestScript, _ bool, _ []string) {
	close(ts.Value(serverKey{}).(*serving).tools.finish)
}

// stdioRevisions are what hosts on standard input speak here.
var stdioRevisions = []string{"2026-07-28", "2025-06-18"}

// A desktop host starts the program, which runs a node of its own where none is
// running; a second host finds it. Both end with standard input.
func TestStdioHosts(t *testing.T) {
	t.Parallel()
	tools := newToolServer()
	t.Cleanup(tools.close)
	program, err := exec.LookPath("handoff")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "h") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "handoff.yaml")
	if err := os.WriteFile(file, []byte("store: sqlite:tasks.db\nmcp: {servers: {erp: {url: \""+tools.URL+"\"}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	connect := func(revision string) (*mcp.ClientSession, *exec.Cmd) {
		cmd := exec.Command(program, "mcp", "serve", "--stdio", "-c", file)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		ctx, cancel := context.WithTimeout(t.Context(), testPatience)
		defer cancel()
		c := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
		s, err := c.Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		return s, cmd
	}
	call := func(s *mcp.ClientSession, tool string, args any) string {
		ctx, cancel := context.WithTimeout(t.Context(), testPatience)
		defer cancel()
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		return text.Text
	}
	var ends []func()
	for _, revision := range stdioRevisions {
		s, cmd := connect(revision)
		if got := call(s, "stock", map[string]any{"article": "BRG-0042", "units": 7}); got != "BRG-0042: 7" {
			t.Errorf("%s: got %q", revision, got)
		}
		if got := call(s, "large", nil); len(got) != 1_000_000 {
			t.Errorf("%s: got %d bytes", revision, len(got))
		}
		if got := call(s, "regional", map[string]any{"region": "Jakarta"}); revision == "2026-07-28" && got != "header Jakarta" {
			t.Errorf("%s: got %q", revision, got)
		}
		// A call that is canceled ends at the server, which counts no more.
		before, changed := tools.counted("slow")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "slow"})
			done <- err
		}()
		for n := before; n == before; n, changed = tools.counted("slow") {
			<-changed
		}
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: a canceled call has a result", revision)
		}
		ends = append(ends, func() {
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", revision, err)
			}
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("%s: exit code %d", revision, code)
			}
		})
	}
	for i := len(ends) - 1; i >= 0; i-- { // the one with the node ends last
		ends[i]()
	}
}

// Lines that are no messages are refused, and what follows is served.
func TestStdioGarbage(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("handoff")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "handoff.yaml")
	if err := os.WriteFile(file, []byte("store: sqlite:tasks.db\nmcp: {agents: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "mcp", "serve", "--stdio", "-c", file)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.Stdin = strings.NewReader("garbage\n{\"jsonrpc\":\n\n\"text\"\n" +
		`{"jsonrpc":"2.0","id":"last","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var codes []int
	answered := false
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var m struct {
			ID     any
			Result *struct{ Tools []any }
			Error  struct{ Code int }
		}
		if err := dec.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if m.ID == "last" && m.Result != nil && len(m.Result.Tools) > 0 {
			answered = true
			continue
		}
		codes = append(codes, m.Error.Code)
	}
	if !answered || fmt.Sprint(codes) != "[-32700 -32700 -32700]" {
		t.Errorf("got %s", out)
	}
}
