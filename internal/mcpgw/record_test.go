package mcpgw_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// Every call of a known caller leaves a row and a measurement; that of an unknown one
// leaves none (GWY-07).
func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	rows, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	log := audit.New(rows, slog.New(slog.DiscardHandler))
	log.Set(audit.Settings{Level: audit.All})
	log.Start()
	var mu sync.Mutex
	var seen []string
	e := newEdge(t, edgeOptions{docs: rows, change: func(o *mcpgw.Options) {
		o.Audit = log
		o.Observe = func(server, tool, outcome string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, server+" "+tool+" "+outcome)
		}
	}})
	ana := map[string]string{"Authorization": "Bearer ana"}
	e.do(http.MethodPost, "", strings.ReplaceAll(echoFor, "META", meta("")), ana)
	e.do(http.MethodPost, "", strings.ReplaceAll(strings.ReplaceAll(echoFor, "META", meta("")), "echo", "none"), map[string]string{"Authorization": "Bearer ana", mcp.HeaderName: "none"})
	e.do(http.MethodPost, "", strings.ReplaceAll(echoFor, "META", meta("")), map[string]string{"Authorization": "Bearer bad"})
	id := e.session("2025-06-18", "", "ben")
	e.legacy(id, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`, "ben")
	if err := log.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := rows.Audit(t.Context(), store.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range list {
		var e audit.Entry
		if err := json.Unmarshal(row.Body, &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s %s %s", e.Subject, e.Operation, e.Binding, e.Version, e.Agent, e.Target, e.Result))
	}
	for _, want := range []string{
		"ana tools/call mcp 2026-07-28 mcp:tools echo OK", "ana tools/call mcp 2026-07-28  none invalid params",
		"ben initialize mcp 2025-06-18   OK", "ben tools/call mcp 2025-06-18 mcp:tools echo OK",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"tools echo OK", "tools echo OK"}; !slices.Equal(seen, want) {
		t.Errorf("got %q", seen)
	}
}

// AUT-10, GWY-01, GWY-02: what the headers decide is decided before the body comes.
func TestPolicyIsBeforeTheBody(t *testing.T) {
	t.Parallel()
	s := &recorder{}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
	s.list = `{"name":"free","inputSchema":{"type":"object"}},{"name":"denied","inputSchema":{"type":"object"}},{"name":"scoped","inputSchema":{"type":"object"}},{"name":"rare","inputSchema":{"type":"object"}},{"name":"hidden","inputSchema":{"type":"object"}}`
	e := newEdge(t, edgeOptions{handler: s, yaml: `servers:
  tools:
    url: $URL
    tools:
      free: {}
      denied: {deny: not today}
      scoped: {scopes: [erp.write]}
      rare: {rate: {per_second: 0.001, burst: 1}}
      hidden: {hide: true}
`})
	rare := strings.ReplaceAll(strings.ReplaceAll(echoFor, "META", meta("")), "echo", "rare")
	if got := e.do(http.MethodPost, "", rare, map[string]string{mcp.HeaderName: "rare", "Authorization": "Bearer ana"}); got.code != 0 {
		t.Fatalf("got %s", got.body)
	}
	for name, want := range map[string]struct{ status, code int }{
		"denied": {200, mcp.CodeDenied}, "scoped": {403, mcp.CodeDenied}, "rare": {429, mcp.CodeRateLimited}, "hidden": {200, mcp.CodeInvalidParams},
	} {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(e.url, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer ana\r\n"+
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nContent-Length: 100000\r\n\r\n{", name)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			conn.Close()
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		conn.Close()
		if resp.StatusCode != want.status || !strings.Contains(string(text), fmt.Sprintf(`"code":%d`, want.code)) {
			t.Errorf("%s: got %d %s", name, resp.StatusCode, text)
		}
		if name == "rare" && resp.Header.Get("Retry-After") == "" {
			t.Error("Retry-After is missing")
		}
	}
	if calls := s.called(); len(calls) != 1 {
		t.Errorf("got %q", calls)
	}
}

// OBS-01 to OBS-03.
func TestTraces(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	s := &recorder{}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
	e := newEdge(t, edgeOptions{handler: s, change: func(o *mcpgw.Options) { o.Tracer = provider.Tracer("test") }})
	const id = "0af7651916cd43dd8448eb211c80319c"
	e.modern(mcp.MethodCallTool, "echo", `"name":"echo","arguments":{},`, "")
	got := e.do(http.MethodPost, "", strings.ReplaceAll(strings.ReplaceAll(echoFor, "META", meta("")), `"_meta":{`, `"_meta":{"traceparent":"00-`+id+`-b7ad6b7169203331-01","baggage":"a=b",`), nil)
	if got.code != 0 {
		t.Fatalf("got %s", got.body)
	}
	e.do(http.MethodPost, "", strings.ReplaceAll(strings.ReplaceAll(echoFor, "META", meta("")), `"_meta":{`, `"_meta":{"traceparent":"no",`), nil)
	calls := s.called()
	if strings.Contains(calls[0], "traceparent") || strings.Contains(calls[2], "traceparent") || s.heads[0].Get("Traceparent") == "" {
		t.Errorf("got %q", calls)
	}
	if strings.Contains(calls[1], "baggage") || strings.Contains(calls[1], "b7ad6b7169203331") || !strings.Contains(calls[1], `"traceparent":"00-`+id) || !strings.HasPrefix(s.heads[1].Get("Traceparent"), "00-"+id) {
		t.Errorf("got %s %v", calls[1], s.heads[1])
	}
	list := spans.GetSpans()
	if len(list) != 6 {
		t.Fatalf("got %v", list)
	}
	sent, served := list[2], list[3] // a client's span ends first
	if served.SpanContext.TraceID().String() != id || served.Parent.SpanID().String() != "b7ad6b7169203331" || served.Name != "tools/call echo" || served.SpanKind != trace.SpanKindServer {
		t.Errorf("got %v", served)
	}
	if sent.Parent.SpanID() != served.SpanContext.SpanID() || sent.SpanKind != trace.SpanKindClient || !strings.Contains(calls[1], sent.SpanContext.SpanID().String()) {
		t.Errorf("got %v", sent)
	}
	for _, want := range []string{"{gen_ai.tool.name echo}", "{gen_ai.operation.name execute_tool}", "{mcp.method.name tools/call}", "{rpc.system.name jsonrpc}"} {
		for _, s := range []tracetest.SpanStub{sent, served} {
			if text := attributesOf(s); !strings.Contains(text, want) {
				t.Errorf("%s has no %s", text, want)
			}
		}
	}
}

// A call that call_tool makes is a part of the span of call_tool, which ends.
func TestTraceOfACallThroughAnother(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	s := &recorder{}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
	}
	e := newEdge(t, edgeOptions{handler: s, yaml: "sets:\n  all: {tools: [tools.*], mode: search}\n", change: func(o *mcpgw.Options) { o.Tracer = provider.Tracer("test") }})
	got := e.do(http.MethodPost, "/s/all", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"echo","arguments":{}},`+meta("")+`}}`, map[string]string{mcp.HeaderName: "call_tool"})
	if got.code != 0 {
		t.Fatalf("got %s", got.body)
	}
	list := spans.GetSpans()
	if len(list) != 2 {
		t.Fatalf("got %v", list)
	}
	sent, served := list[0], list[1]
	if served.Name != "tools/call call_tool" || sent.Name != "tools/call echo" || sent.Parent.SpanID() != served.SpanContext.SpanID() {
		t.Errorf("got %s below %s, %s", sent.Name, served.Name, sent.Parent.SpanID())
	}
}

func attributesOf(s tracetest.SpanStub) string {
	var b strings.Builder
	for _, a := range s.Attributes {
		fmt.Fprintf(&b, "{%s %s}", a.Key, a.Value.String())
	}
	return b.String()
}
