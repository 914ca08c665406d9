package mcpgw_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/internal/mcp"
)

// hanging returns a tool server whose tool "wait" tells that it has begun, and why it
// has ended.
func hanging() (s *sdk.Server, begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}, 10), make(chan error, 10)
	s = tools()
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		begun <- struct{}{}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		ended <- ctx.Err()
		return &sdk.CallToolResult{}, nil, ctx.Err()
	})
	return s, begun, ended
}

const waitCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{}`

// TRN-13, CAN-01: a modern client that leaves has canceled, and the server hears of
// it.
func TestDisconnectCancels(t *testing.T) {
	t.Parallel()
	s, begun, ended := hanging()
	e := newEdge(t, edgeOptions{tools: s, change: keepAlive})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(waitCall+","+meta("")+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", mcp.HeaderVersion: mcp.Modern, mcp.HeaderMethod: mcp.MethodCallTool, mcp.HeaderName: "wait"} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	within(t, begun)
	buf := make([]byte, 8)
	if n, err := resp.Body.Read(buf); err != nil || buf[0] != ':' { // TRN-11
		t.Errorf("got %q, %v", buf[:n], err)
	}
	cancel()
	if err := within(t, ended); err == nil {
		t.Error("the call went on")
	}
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// LEG-06, CAN-01: a legacy client that leaves has not canceled; it says so, at any
// node.
func TestLegacyCancel(t *testing.T) {
	t.Parallel()
	docs := openDocs(t)
	s, begun, ended := hanging()
	e := newEdge(t, edgeOptions{tools: s, docs: docs})
	other := newEdge(t, edgeOptions{tools: s, docs: docs})
	id := e.session(mcp.Legacy, "", "")
	for i, node := range []*edge{e, other} {
		request := strconv.Itoa(8 + i) // BAS-02: the one before may not be over at the edge
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(strings.Replace(waitCall, `"id":7`, `"id":`+request, 1)+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(mcp.HeaderSession, id)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		within(t, begun)
		leave()
		<-gone
		select {
		case err := <-ended:
			t.Errorf("leaving has ended the call: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if got := node.legacy(id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+request+`}}`, ""); got.status != 202 {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if err := within(t, ended); err == nil {
			t.Error("the call went on")
		}
	}
}

// MRT-09 over two nodes: what the client answers may come to a node that does not
// wait for it.
func TestAnswerAtAnotherNode(t *testing.T) {
	t.Parallel()
	docs := openDocs(t)
	e := newEdge(t, edgeOptions{docs: docs})
	other := newEdge(t, edgeOptions{docs: docs, tools: e.tools})
	id := e.session("2025-06-18", `"elicitation":{}`, "")
	next, _ := e.events(http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"twice","arguments":{}}}`, map[string]string{mcp.HeaderSession: id})
	for i, node := range []*edge{other, e} {
		m, err := mcp.Scan([]byte(next()), mcp.Limits{})
		if err != nil || m.Method != mcp.MethodElicit || m.Param("mode") != nil || m.ID == nil {
			t.Fatalf("got %v, %v", m, err)
		}
		value := []string{"Ana", "Ben"}[i]
		got := node.legacy(id, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"action":"accept","content":{"value":"`+value+`"}}}`, "")
		if got.status != 202 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	if got := next(); !strings.Contains(got, "Ana and Ben") || !strings.Contains(got, `"id":7`) {
		t.Errorf("got %s", got)
	}
}

// MRT-09 over two nodes for a modern client: a call that waits for its answer goes on
// at any node, for its caller alone (SEC-04).
func TestRetryAtAnotherNode(t *testing.T) {
	t.Parallel()
	docs := openDocs(t)
	e := newEdge(t, edgeOptions{legacy: true, docs: docs})
	other := newEdge(t, edgeOptions{legacy: true, docs: docs, tools: e.tools})
	call := func(node *edge, more, token string) reply {
		t.Helper()
		header := map[string]string{mcp.HeaderName: "elicit", "Authorization": "Bearer " + token}
		return node.do(http.MethodPost, "", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"elicit","arguments":{},`+more+meta(`"elicitation":{}`)+`}}`, header)
	}
	got := call(e, "", "ana")
	if string(got.result["resultType"]) != `"input_required"` {
		t.Fatalf("got %s", got.body)
	}
	retry := `"inputResponses":{` + firstKey(t, got.result["inputRequests"]) + `:{"action":"accept","content":{"value":"Ana"}}},"requestState":` + string(got.result["requestState"]) + ","
	if got := call(other, retry, "ben"); got.code != mcp.CodeInvalidParams {
		t.Errorf("got %s", got.body)
	}
	if got := call(other, retry, "ana"); !strings.Contains(got.body, "hello Ana") {
		t.Errorf("got %s", got.body)
	}
	if got := call(other, retry, "ana"); got.code != mcp.CodeInvalidParams {
		t.Errorf("got %s", got.body)
	}
}

// MET-05 for legacy clients: one that cannot be asked is not.
func TestLegacyClientThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	for revision, caps := range map[string]string{mcp.Legacy: "", "2025-03-26": `"elicitation":{}`} {
		id := e.session(revision, caps, "")
		got := e.legacy(id, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"twice","arguments":{}}}`, "")
		if got.code != mcp.CodeInvalidRequest && string(got.result["isError"]) != "true" || strings.Contains(got.body, "elicitation/create") {
			t.Errorf("%s: got %d %s", revision, got.status, got.body)
		}
	}
}
