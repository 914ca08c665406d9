package handoff_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
)

// A reload changes servers and policies, and leaves calls that are under way alone.
// Without mcp: there is nothing at /mcp.
func TestAReloadLeavesCallsOfToolsAlone(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Takes long"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		close(begun)
		<-release
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "finished"}}}, nil, nil
	})
	tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(tools.Close)
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	const base = "store: sqlite:tasks.db\ncallers: {anonymous: loopback}\n"
	node, server := start(t, load(t, file, base+`mcp: {servers: {erp: {url: "`+tools.URL+`"}}}`+"\n"), handoff.Options{})
	session := connectMCP(t, server.URL+"/mcp", "2026-07-28", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- textOf(r)
	}()
	<-begun
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(base+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(`mcp: {servers: {erp: {url: "` + tools.URL + `", tools: {slow: {deny: Not any more}}}}}` + "\n")
	if r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); err == nil && !r.IsError {
		t.Errorf("a denied call has a result: %s", textOf(r))
	}
	close(release)
	if got := <-ended; got != "finished" {
		t.Errorf("the call under way got %q", got)
	}
	reload("")
	response, err := http.Post(server.URL+"/mcp", "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("status %d without mcp:", response.StatusCode)
	}
}
