package mcpgw_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/internal/mcp"
)

// events opens a stream and returns what comes on it.
func (e *edge) events(method, body string, header map[string]string) (next func() string, stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	r, err := http.NewRequestWithContext(ctx, method, e.url, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" { // TRN-10
		text, _ := io.ReadAll(resp.Body)
		e.t.Fatalf("got %d %v %s", resp.StatusCode, resp.Header, text)
	}
	scan := bufio.NewScanner(resp.Body)
	e.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	return func() string {
		for scan.Scan() {
			if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				return data
			}
		}
		return ""
	}, cancel
}

var listenHeader = map[string]string{mcp.HeaderVersion: mcp.Modern, mcp.HeaderMethod: mcp.MethodListen}

func listenBody(filter string) string {
	return `{"jsonrpc":"2.0","id":"sub-1","method":"subscriptions/listen","params":{"notifications":` + filter + `,` + meta("") + `}}`
}

// change has the tool server tell of changes until somebody has heard.
func (e *edge) change(until <-chan struct{}) {
	n := 0
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-until:
			return
		case <-every.C:
		}
		n++
		e.tools.AddTool(&sdk.Tool{Name: "more", Description: strings.Repeat("x", n), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, io.EOF })
		_ = e.tools.ResourceUpdated(e.t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: "memo://one"})
	}
}

func (e *edge) hears(next func() string, want ...string) {
	e.t.Helper()
	done := make(chan struct{})
	go e.change(done)
	defer close(done)
	left := map[string]bool{}
	for _, one := range want {
		left[one] = true
	}
	for range 50 {
		got := next()
		if got == "" {
			break
		}
		for one := range left {
			if strings.Contains(got, one) {
				delete(left, one)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	e.t.Errorf("not heard: %v", left)
}

func TestListen(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		e := newEdge(t, edgeOptions{legacy: legacy})
		next, _ := e.events(http.MethodPost, listenBody(`{"toolsListChanged":true,"resourceSubscriptions":["memo://one","memo://none"]}`), listenHeader)
		ack := next() // SUB-03, SUB-04
		if !strings.Contains(ack, mcp.NotifyAcknowledged) || !strings.Contains(ack, `"io.modelcontextprotocol/subscriptionId":"sub-1"`) ||
			!strings.Contains(ack, `"resourceSubscriptions":["memo://one"]`) || !strings.Contains(ack, `"toolsListChanged":true`) || strings.Contains(ack, "prompts") {
			t.Fatalf("got %s", ack)
		}
		e.hears(next, `"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}}`,
			`"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"},"uri":"memo://one"}`)
		go e.handler.Close()
		var last string
		for got := next(); got != ""; got = next() {
			last = got
		}
		if !strings.Contains(last, `"id":"sub-1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}`) { // SUB-06
			t.Errorf("got %s", last)
		}
	}
}

func TestListenRefusals(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	for filter, code := range map[string]int{
		`1`: mcp.CodeInvalidParams, `{"toolsListChanged":1}`: mcp.CodeInvalidParams, `{"resourceSubscriptions":"x"}`: mcp.CodeInvalidParams,
		`{"taskIds":["x"]}`: mcp.CodeMissingCapability, // TSK-12
	} {
		if got := e.do(http.MethodPost, "", listenBody(filter), map[string]string{mcp.HeaderMethod: mcp.MethodListen, mcp.HeaderName: ""}); got.code != code {
			t.Errorf("%s: got %d %s", filter, got.status, got.body)
		}
	}
}

// LEG-03, LEG-12: a legacy client hears of the same changes on its GET stream, which
// goes over to who opens it last.
func TestLegacyStream(t *testing.T) {
	t.Parallel()
	docs := openDocs(t)
	e := newEdge(t, edgeOptions{docs: docs})
	other := newEdge(t, edgeOptions{docs: docs, tools: e.tools})
	id := e.session(mcp.Legacy, "", "")
	header := map[string]string{mcp.HeaderVersion: mcp.Legacy, mcp.HeaderSession: id, "Accept": "text/event-stream"}
	next, _ := e.events(http.MethodGet, "", header)
	if got := other.legacy(id, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"memo://one"}}`, ""); got.code != 0 {
		t.Fatalf("got %s", got.body)
	}
	e.hears(next, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `"method":"notifications/resources/updated","params":{"uri":"memo://one"}`)
	second, _ := other.events(http.MethodGet, "", header)
	for next() != "" { //nolint:revive // until the stream is over
	}
	other.hears(second, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got := other.do(http.MethodDelete, "", "", map[string]string{mcp.HeaderVersion: mcp.Legacy, mcp.HeaderSession: id}); got.status != 204 {
		t.Errorf("got %d", got.status)
	}
	for second() != "" { //nolint:revive // until the stream is over
	}
}
