package mcpgw_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/internal/mcp"
)

func firstKey(t *testing.T, object jsontext.Value) string {
	t.Helper()
	m, err := mcp.Scan(mcp.AppendResult(nil, jsontext.Value("1"), object), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(m.Text(m.Result))
	key, _, ok := strings.Cut(strings.TrimPrefix(text, "{"), ":")
	if !ok {
		t.Fatalf("got %s", text)
	}
	return key
}

// askable are the options of a client that answers forms, in the order in which it is
// asked.
func askable(answers ...string) *sdk.ClientOptions {
	var mu sync.Mutex
	return &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return nil, errors.New("asked too often")
		}
		answer := answers[0]
		answers = answers[1:]
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"value": answer}}, nil
	}}
}

// Any revision of a client reaches any of a server, with questions in both
// directions (MRT-09).
func TestEveryRevisionReachesEveryServer(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		for _, revision := range []string{mcp.Modern, mcp.Legacy, "2025-06-18", "2025-03-26"} {
			name := revision + " to modern"
			if legacy {
				name = revision + " to legacy"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEdge(t, edgeOptions{legacy: legacy})
				s := e.connect(revision, askable("Ana", "Ben"))
				ctx := t.Context()
				list, err := s.ListTools(ctx, nil)
				if err != nil || !slices.ContainsFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == "echo" }) {
					t.Fatalf("got %v, %v", list, err)
				}
				got, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
				if err != nil || textOf(got) != "hi" {
					t.Fatalf("got %v, %v", got, err)
				}
				if _, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "memo://one"}); err != nil {
					t.Error(err)
				}
				if _, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "greet"}); err != nil {
					t.Error(err)
				}
				want := mcp.CodeInvalidParams // RSC-01
				if revision != mcp.Modern {
					want = mcp.CodeResourceNotFound
				}
				_, err = s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "memo://none"})
				if e := new(jsonrpc.Error); !errors.As(err, &e) || int(e.Code) != want {
					t.Errorf("got %v", err)
				}
				if revision == "2025-03-26" { // which has no elicitation
					return
				}
				tool, text := "twice", "Ana and Ben"
				if legacy {
					tool, text = "elicit", "hello Ana"
				}
				got, err = s.CallTool(ctx, &sdk.CallToolParams{Name: tool})
				if err != nil || textOf(got) != text {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
	}
}

// session opens a session by hand.
func (e *edge) session(revision, caps, token string) string {
	e.t.Helper()
	got := e.legacy("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{`+caps+`},"clientInfo":{"name":"c","version":"1"}}}`, token)
	id := got.header.Get(mcp.HeaderSession)
	if got.status != 200 || id == "" {
		e.t.Fatalf("got %d %s", got.status, got.body)
	}
	return id
}

func (e *edge) legacy(session, body, token string) reply {
	e.t.Helper()
	changes := map[string]string{mcp.HeaderVersion: "", mcp.HeaderMethod: "", mcp.HeaderName: "", mcp.HeaderSession: session}
	if token != "" {
		changes["Authorization"] = "Bearer " + token
	}
	return e.do(http.MethodPost, "", body, changes)
}

func TestLegacySessions(t *testing.T) {
	t.Parallel()
	docs := openDocs(t)
	e := newEdge(t, edgeOptions{docs: docs})
	other := newEdge(t, edgeOptions{docs: docs})
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	id := e.session(mcp.Legacy, "", "ana")
	for _, c := range []struct {
		name    string
		e       *edge
		session string
		body    string
		token   string
		status  int
		code    int
	}{
		{"LEG-02 here", e, id, ping, "ana", 200, 0},
		{"LEG-02 at another node", other, id, ping, "ana", 200, 0},
		{"LEG-11 of somebody else", e, id, ping, "ben", 404, mcp.CodeInvalidRequest},
		{"LEG-11 anonymous", e, id, ping, "", 404, mcp.CodeInvalidRequest},
		{"LEG-02 unknown", e, "x" + id, ping, "ana", 404, mcp.CodeInvalidRequest},
		{"LEG-02 missing", e, "", ping, "ana", 400, mcp.CodeInvalidRequest},
		{"LEG-05 a batch", e, id, "[" + ping + "]", "ana", 400, mcp.CodeInvalidRequest},
		{"TRN-17 for legacy clients", e, id, `{"jsonrpc":"2.0","id":2,"method":"no/such"}`, "ana", 200, mcp.CodeMethodNotFound},
		{"TSK-20", e, id, `{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"x"}}`, "ana", 200, mcp.CodeMethodNotFound},
		{"modern method", e, id, `{"jsonrpc":"2.0","id":2,"method":"server/discover"}`, "ana", 200, mcp.CodeMethodNotFound},
		{"level", e, id, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}`, "ana", 200, mcp.CodeInvalidParams},
		{"level", e, id, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`, "ana", 200, 0},
		{"subscribe to what is not there", e, id, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"memo://none"}}`, "ana", 200, mcp.CodeResourceNotFound},
		{"subscribe", e, id, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"memo://one"}}`, "ana", 200, 0},
		{"unsubscribe", other, id, `{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"memo://one"}}`, "ana", 200, 0},
		{"initialized", e, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "ana", 202, 0},
		{"answer that nobody waits for", e, id, `{"jsonrpc":"2.0","id":"x","result":{}}`, "ana", 202, 0},
		{"LEG-01 without what it has to say", e, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, "ana", 200, mcp.CodeInvalidParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.e.legacy(c.session, c.body, c.token)
			if got.status != c.status || got.code != c.code {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
	for asked, want := range map[string]string{"2025-06-18": "2025-06-18", mcp.Modern: mcp.Legacy, "2024-11-05": mcp.Legacy} { // LEG-01
		got := e.legacy("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "ana")
		if string(got.result["protocolVersion"]) != `"`+want+`"` || strings.Contains(got.body, "extensions") || strings.Contains(got.body, "resultType") {
			t.Errorf("%s: got %s", asked, got.body)
		}
	}
	gone := other.do(http.MethodDelete, "", "", map[string]string{mcp.HeaderVersion: mcp.Legacy, mcp.HeaderSession: id, "Authorization": "Bearer ana"})
	if gone.status != 204 {
		t.Errorf("got %d %s", gone.status, gone.body)
	}
	if got := e.legacy(id, ping, "ana"); got.status != 404 {
		t.Errorf("the session goes on: %d %s", got.status, got.body)
	}
}

// LEG-05: the oldest revision has batches.
func TestLegacyBatch(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	id := e.session("2025-03-26", "", "")
	body := `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},
		{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"two"}}},{"jsonrpc":"2.0","id":3,"method":"no/such"}]`
	got := e.legacy(id, body, "")
	for _, part := range []string{`"id":1,"result":{}`, `"text":"two"`, `"id":3,"error"`} {
		if !strings.Contains(got.body, part) {
			t.Errorf("%s is missing in %s", part, got.body)
		}
	}
	got = e.do(http.MethodPost, "", body, map[string]string{mcp.HeaderVersion: "", mcp.HeaderMethod: "", mcp.HeaderName: "", mcp.HeaderSession: id, "Accept": "application/json"})
	if got.status != 200 || !strings.HasPrefix(got.body, "[{") || !strings.HasSuffix(got.body, "}]") || strings.Count(got.body, `"jsonrpc"`) != 3 {
		t.Errorf("got %s", got.body)
	}
	if got := e.legacy(id, `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, ""); got.status != 202 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for _, bad := range []string{"[]", "[1]", "[[]]", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 200) + `{}]`} {
		if got := e.legacy(id, bad, ""); got.status != 400 {
			t.Errorf("%.20s: got %d %s", bad, got.status, got.body)
		}
	}
}

// LEG-09, LEG-10: a client is told what its revision has.
func TestLegacyDownConversion(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	id := e.session(mcp.Legacy, "", "")
	got := e.legacy(id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"numbers","arguments":{}}}`, "")
	if got.result["structuredContent"] != nil || got.result["resultType"] != nil || got.result["content"] == nil {
		t.Errorf("got %s", got.body)
	}
	got = e.legacy(id, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "")
	if strings.Contains(got.body, `"array"`) || strings.Contains(got.body, "ttlMs") || strings.Contains(got.body, "resultType") {
		t.Errorf("got %s", got.body)
	}
}
