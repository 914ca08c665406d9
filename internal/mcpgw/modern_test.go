package mcpgw_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

func TestModernCall(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	got := e.do(http.MethodPost, "", strings.ReplaceAll(echoFor, "META", meta("")), nil)
	if got.status != 200 || string(got.result["resultType"]) != `"complete"` || !strings.Contains(got.body, `"text":"hi"`) || !strings.Contains(got.body, `"id":7`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got.header.Get(mcp.HeaderSession) != "" { // TRN-31
		t.Error("a modern client was given a session")
	}
}

// What is refused, with which code and which status (table 0.1).
func TestModernRefusals(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	good := strings.ReplaceAll(echoFor, "META", meta(""))
	with := func(old, text string) string { return strings.ReplaceAll(good, old, text) }
	for _, c := range []struct {
		name    string
		body    string
		changes map[string]string
		status  int
		code    int
	}{
		{"TRN-15 version of header and body", good, map[string]string{mcp.HeaderVersion: "2027-01-01"}, 400, mcp.CodeHeaderMismatch},
		{"TRN-16 version that is not known", with("2026-07-28", "2027-01-01"), map[string]string{mcp.HeaderVersion: "2027-01-01"}, 400, mcp.CodeUnsupportedVersion},
		{"TRN-16 version that was never one", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{mcp.HeaderVersion: "1900-01-01", mcp.HeaderMethod: ""}, 400, mcp.CodeUnsupportedVersion},
		{"TRN-14 no version header", good, map[string]string{mcp.HeaderVersion: ""}, 400, mcp.CodeHeaderMismatch},
		{"TRN-14 no headers", good, map[string]string{mcp.HeaderVersion: "", mcp.HeaderMethod: "", mcp.HeaderName: ""}, 400, mcp.CodeHeaderMismatch},
		{"TRN-19 method", good, map[string]string{mcp.HeaderMethod: "prompts/get"}, 400, mcp.CodeHeaderMismatch},
		{"TRN-19 no method", good, map[string]string{mcp.HeaderMethod: ""}, 400, mcp.CodeHeaderMismatch},
		{"TRN-24 case of the method", good, map[string]string{mcp.HeaderMethod: "Tools/Call"}, 400, mcp.CodeHeaderMismatch},
		{"TRN-20 no name", good, map[string]string{mcp.HeaderName: ""}, 400, mcp.CodeHeaderMismatch},
		{"TRN-25 name", good, map[string]string{mcp.HeaderName: "twice"}, 400, mcp.CodeHeaderMismatch},
		{"TRN-23 broken escape", good, map[string]string{mcp.HeaderName: "=?base64?!!!?="}, 400, mcp.CodeHeaderMismatch},
		{"TRN-23 escape of another", good, map[string]string{mcp.HeaderName: "=?base64?dHdpY2U=?="}, 400, mcp.CodeHeaderMismatch},
		{"SEC-08 header twice", good, map[string]string{mcp.HeaderName: "echo\ntwice"}, 400, mcp.CodeHeaderMismatch},
		{"SEC-08 same header twice", good, map[string]string{mcp.HeaderMethod: "tools/call\ntools/call"}, 400, mcp.CodeHeaderMismatch},
		{"SEC-08 name twice", with(`"name":"echo"`, `"name":"twice","name":"echo"`), nil, 400, mcp.CodeParseError},
		{"SEC-08 name twice, escaped", with(`"name":"echo"`, `"n\u0061me":"twice","name":"echo"`), nil, 400, mcp.CodeParseError},
		{"SEC-08 method twice", with(`"id":7`, `"id":7,"method":"tools/list"`), nil, 400, mcp.CodeParseError},
		{"SEC-08 _meta twice", with(`"_meta"`, `"_meta":{},"_meta"`), nil, 400, mcp.CodeParseError},
		{"SEC-08 a batch", "[" + good + "]", nil, 400, mcp.CodeInvalidRequest},
		{"SEC-08 not UTF-8", with("hi", "\xff"), nil, 400, mcp.CodeParseError},
		{"BAS-01 not JSON", "{", nil, 400, mcp.CodeParseError},
		{"BAS-01 two messages", good + good, nil, 400, mcp.CodeParseError},
		{"BAS-02 id null", with(`"id":7`, `"id":null`), nil, 400, mcp.CodeInvalidRequest},
		{"BAS-02 id that is no integer", with(`"id":7`, `"id":7.5`), nil, 400, mcp.CodeInvalidRequest},
		{"BAS-06 a response", `{"jsonrpc":"2.0","id":7,"result":{}}`, nil, 400, mcp.CodeInvalidRequest},
		{"MET-04 no _meta", with(","+meta(""), ""), nil, 400, mcp.CodeInvalidParams},
		{"MET-04 capabilities", with(`"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":1`), nil, 400, mcp.CodeInvalidParams},
		{"MET-04 no capabilities", with(`,"io.modelcontextprotocol/clientCapabilities":{}`, ``), nil, 400, mcp.CodeInvalidParams},
		{"MET-04 version is a number", with(`"2026-07-28"`, `1`), nil, 400, mcp.CodeInvalidParams},
		{"MET-09 level of logs", with(`"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"loud",`), nil, 400, mcp.CodeInvalidParams},
		{"too deep", with(`{"text":"hi"}`, strings.Repeat("[", 200)+strings.Repeat("]", 200)), nil, 400, mcp.CodeInvalidRequest},
		{"too large", with("hi", strings.Repeat("x", 2<<20)), nil, 413, mcp.CodeInvalidRequest},
		{"TRN-04 content type", good, map[string]string{"Content-Type": "text/plain"}, 415, mcp.CodeInvalidRequest},
		{"TRN-04 accept", good, map[string]string{"Accept": "text/html"}, 406, mcp.CodeInvalidRequest},
		{"compressed", good, map[string]string{"Content-Encoding": "gzip"}, 415, mcp.CodeInvalidRequest},
		{"TRN-02 origin", good, map[string]string{"Origin": "https://evil.example"}, 403, mcp.CodeInvalidRequest},
		{"TRN-02 origin null", good, map[string]string{"Origin": "null"}, 403, mcp.CodeInvalidRequest},
		{"TRN-02 origins", good, map[string]string{"Origin": "https://app.example.com\nhttps://app.example.com"}, 403, mcp.CodeInvalidRequest},
		{"SEC-05 host", good, map[string]string{"Host": "evil.example"}, 403, mcp.CodeInvalidRequest},
		{"GWY-01 unknown tool", with(`"name":"echo"`, `"name":"none"`), map[string]string{mcp.HeaderName: "none"}, 200, mcp.CodeInvalidParams},
		{"AUT-08 bad token", good, map[string]string{"Authorization": "Bearer bad"}, 401, mcp.CodeDenied},
		{"GWY-03 two keys", with(`"_meta":{`, `"_meta":{"handoff.example/idempotencyKey":"a",`), map[string]string{"Idempotency-Key": "b"}, 200, mcp.CodeInvalidParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := e.do(http.MethodPost, "", c.body, c.changes)
			if got.status != c.status || got.code != c.code {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
	if got := e.do(http.MethodPost, "", good, map[string]string{"Authorization": "Bearer bad"}); got.header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` { // AUT-23
		t.Errorf("got %q", got.header)
	}
	if got := e.do(http.MethodPost, "", good, map[string]string{"Origin": "https://app.example.com"}); got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := e.do(http.MethodPost, "", good, map[string]string{mcp.HeaderName: "=?base64?ZWNobw==?="}); got.status != 200 || got.code != 0 { // TRN-23
		t.Errorf("an escaped name: got %d %s", got.status, got.body)
	}
	if got := e.do(http.MethodPost, "", `{"jsonrpc":"2.0","method":"notifications/x"}`, map[string]string{mcp.HeaderMethod: "", mcp.HeaderName: ""}); got.status != 202 || got.body != "" { // TRN-05, TRN-07
		t.Errorf("a notification: got %d %q", got.status, got.body)
	}
}

// A list of a server that is down says so beside the name of the gateway, in one _meta
// (MET-06, GWY-06), and is one document.
func TestListOfAServerThatIsDown(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{yaml: "servers:\n  gone:\n    url: http://127.0.0.1:1/mcp\n"})
	got := e.modern(mcp.MethodListTools, "", "", "")
	var meta map[string]jsontext.Value
	if err := json.Unmarshal(got.result["_meta"], &meta); err != nil || string(meta[mcp.MetaStale]) != `["gone"]` || meta[mcp.MetaServer].Kind() != '{' {
		t.Errorf("got %s, %v", got.body, err)
	}
}

// Methods that the revision does not have, or does not have any more (TRN-17,
// VER-09, TSK-13).
func TestModernMethods(t *testing.T) {
	t.Parallel()
	e := newEdge(t, edgeOptions{})
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "tasks/list", "no/such"} {
		got := e.modern(method, "", "", "")
		if got.status != 404 || got.code != mcp.CodeMethodNotFound {
			t.Errorf("%s: got %d %s", method, got.status, got.body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} { // TRN-31
		if got := e.do(method, "", "", nil); got.status != 405 {
			t.Errorf("%s: got %d %s", method, got.status, got.body)
		}
	}
	for method, member := range map[string]string{
		mcp.MethodDiscover: "supportedVersions", mcp.MethodListTools: "tools", mcp.MethodListPrompts: "prompts",
		mcp.MethodListResources: "resources", mcp.MethodListTemplates: "resourceTemplates",
	} {
		got := e.modern(method, "", "", "")
		if got.status != 200 || got.result[member] == nil || got.result["resultType"] == nil || got.result["ttlMs"] == nil || got.result["cacheScope"] == nil || !strings.Contains(string(got.result["_meta"]), mcp.MetaServer) { // CCH-01, MET-06
			t.Errorf("%s: got %d %s", method, got.status, got.body)
		}
	}
	if got := e.modern(mcp.MethodReadResource, "memo://one", `"uri":"memo://one",`, ""); got.result["contents"] == nil {
		t.Errorf("got %s", got.body)
	}
	if got := e.modern(mcp.MethodReadResource, "memo://none", `"uri":"memo://none",`, ""); got.code != mcp.CodeInvalidParams || got.status != 200 { // RSC-01
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := e.modern(mcp.MethodGetPrompt, "greet", `"name":"greet",`, ""); got.result["messages"] == nil {
		t.Errorf("got %s", got.body)
	}
	for _, path := range []string{"/none", "/tools/x", "/s/none", "/s/"} {
		if got := e.do(http.MethodPost, path, "{}", nil); got.status != 404 {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	if got := e.do(http.MethodPost, "/tools", strings.ReplaceAll(echoFor, "META", meta("")), nil); got.status != 200 || got.code != 0 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// An input_required result of a server goes to the client as it is, and its retry to
// the server (MRT-07).
func TestModernRounds(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		e := newEdge(t, edgeOptions{legacy: legacy})
		got := e.modern(mcp.MethodCallTool, "elicit", `"name":"elicit","arguments":{},`, `"elicitation":{}`)
		if legacy {
			if string(got.result["resultType"]) != `"input_required"` {
				t.Fatalf("got %s", got.body)
			}
			key := firstKey(t, got.result["inputRequests"])
			got = e.modern(mcp.MethodCallTool, "elicit", `"name":"elicit","arguments":{},"inputResponses":{`+key+`:{"action":"accept","content":{"value":"Ana"}}},"requestState":`+string(got.result["requestState"])+`,`, `"elicitation":{}`)
			if !strings.Contains(got.body, "hello Ana") {
				t.Errorf("got %s", got.body)
			}
			continue
		}
		got = e.modern(mcp.MethodCallTool, "twice", `"name":"twice","arguments":{},`, `"elicitation":{"form":{}}`)
		if string(got.result["requestState"]) != `"one"` {
			t.Errorf("got %s", got.body)
		}
	}
}
