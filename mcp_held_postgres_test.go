//go:build postgres

package handoff_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// askingServer is a tool server of 2025-11-25 whose tool asks for two names and then
// says that it was answered. It waits for the channel, unless that is nil.
func askingServer(t *testing.T, answered chan<- struct{}, wait <-chan struct{}) (address string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "introduce", Description: "Asks who is there"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		var names []string
		for range 2 {
			got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who is there?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			}})
			if err != nil {
				return nil, nil, err
			}
			names = append(names, fmt.Sprint(got.Content["name"]))
			answered <- struct{}{}
			if wait != nil {
				select {
				case <-wait:
				case <-ctx.Done():
				}
				return nil, nil, fmt.Errorf("stopped")
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(names, " and ")}}}, nil, nil
	})
	tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		for one := range s.Sessions() { // those of a node that was killed
			_ = one.Close()
		}
		tools.CloseClientConnections()
		tools.Close()
	})
	return tools.URL
}

func askingConfig(address string) string {
	return fmt.Sprintf("store: sqlite:tasks.db\nsecret_key: 0123456789abcdef0123456789abcdef\nlease: 1s\ncallers: {anonymous: loopback}\n"+
		"mcp: {servers: {erp: {url: %q, revision: legacy}}}\n", address)
}

// A client that is asked in the middle of a call answers through a balancer that
// sends each of its requests to another node (MRT-09).
func TestAnswersOfOneCallComeToManyNodes(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{}, 10)
	config, address := askingConfig(askingServer(t, answered, nil)), aSchema(t)
	var nodes []http.Handler
	for range 3 {
		target, err := url.Parse(join(t, address, config).server.URL)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	}
	var calls atomic.Int32
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nodes[int(calls.Add(1))%len(nodes)].ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	people := make(chan string, 10)
	session := connectMCP(t, balancer.URL+"/mcp", "2026-07-28", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": <-people}}, nil
	}})
	for i := range 3 { // which begins at each of the nodes
		people <- "Ana"
		people <- fmt.Sprint("Ben ", i)
		if got, _ := callTool(t, session, "introduce", map[string]any{}); textOf(got) != fmt.Sprint("Ana and Ben ", i) {
			t.Errorf("got %q", textOf(got))
		}
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if len(answered) != 6 {
		t.Errorf("the tool was answered %d times", len(answered))
	}
}

// A client that has answered through another node hears that the outcome is not known
// when the node that had the call is killed.
func TestTheNodeOfAHeldCallDies(t *testing.T) {
	t.Parallel()
	answered, wait := make(chan struct{}, 10), make(chan struct{})
	config, address := askingConfig(askingServer(t, answered, wait)), aSchema(t)
	t.Cleanup(func() { close(wait) })
	heir := join(t, address, config)
	kill, doomed := doom(t, doomedServer, strings.Replace(config, "sqlite:tasks.db", address, 1))
	first := introduce(t, doomed, "")
	if first.Result.State == "" {
		t.Fatalf("got %+v", first)
	}
	go func() {
		<-answered
		kill()
	}()
	more := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"input-1":{"action":"accept","content":{"name":"Ana"}}}`, first.Result.State)
	if got := introduce(t, heir.server.URL, more); got.Error.Code != 5041 {
		t.Errorf("got %+v", got)
	}
	if got := introduce(t, heir.server.URL, more); got.Error.Code != -32602 {
		t.Errorf("got %+v", got)
	}
	if len(answered) != 0 {
		t.Error("the tool was answered again")
	}
}

type introduced struct {
	Result struct {
		State string `json:"requestState"`
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func introduce(t *testing.T, node, more string) (got introduced) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"introduce","arguments":{}` + more + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, node+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "introduce",
	} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return got
}
