package mcpgw_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/internal/mcp"
)

// A hidden tool is reached by no revision, alias, escape, duplicate or trick with
// headers, and cannot be told from one that is not there (GWY-01, SEC-08).
func TestNoTrickReachesAHiddenTool(t *testing.T) {
	t.Parallel()
	s := &recorder{list: `{"name":"erp-read","inputSchema":{"type":"object"}},{"name":"erp-post","inputSchema":{"type":"object"}}`}
	s.answer = func(w http.ResponseWriter, m *mcp.Message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"%s was called"}]}}`, m.ID, m.NameValue())
	}
	e := newEdge(t, edgeOptions{handler: s, yaml: "servers:\n  tools:\n    url: $URL\n    tools: [erp-read]\nsets:\n  all: {tools: [tools.*]}\n  search: {tools: [tools.*], mode: search}\n"})
	none := e.modern(mcp.MethodCallTool, "erp-none", `"name":"erp-none","arguments":{},`, "")
	names := []string{
		"erp-post", "tools.erp-post", "tools/erp-post", "ERP-POST", "erp-post ", " erp-post", "erp-post\x00", "erp\u2010post", "erp-po\u017ft", "../erp-post", "erp-read\nerp-post", "erp%2Dpost",
	}
	for _, path := range []string{"", "/tools", "/s/all", "/s/search"} {
		for _, name := range names {
			quoted := fmt.Sprintf("%q", name)
			if strings.Contains(name, "\x00") {
				quoted = `"erp-post\u0000"`
			}
			body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":` + quoted + `,"arguments":{},` + meta("") + `}}`
			for _, header := range []string{mcp.EscapeHeader(name), "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="} {
				got := e.do(http.MethodPost, path, body, map[string]string{mcp.HeaderName: header})
				if got.code == 0 {
					t.Errorf("%s %q: got %s", path, name, got.body)
				}
				if name == "erp-post" && path == "" && strings.ReplaceAll(got.body, "erp-post", "erp-none") != none.body {
					t.Errorf("it differs from none: %s and %s", got.body, none.body)
				}
			}
		}
		for _, trick := range []struct{ header, body string }{
			{"erp-read", `"name":"erp-post",`},
			{"erp-read", `"name":"erp-read","name":"erp-post",`},
			{"erp-read", `"name":"erp-post","name":"erp-read",`},
			{"erp-read", `"name":"erp-read","n\u0061me":"erp-post",`},
			{"erp-read", `"Name":"erp-post",`},
			{"erp-read\nerp-post", `"name":"erp-post",`},
			{"=?base64?ZXJwLXBvc3Q=?=", `"name":"erp-read",`},
			{"erp-post", `"name":"erp-read",`},
			{"", `"name":"erp-post",`},
		} {
			body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + trick.body + `"arguments":{},` + meta("") + `}}`
			if got := e.do(http.MethodPost, path, body, map[string]string{mcp.HeaderName: trick.header}); got.code == 0 {
				t.Errorf("%s %q: got %s", path, trick, got.body)
			}
		}
		for _, tool := range []string{"call_tool", "find_tools"} {
			got := e.do(http.MethodPost, path, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"name":"erp-post","query":"post erp","arguments":{}},`+meta("")+`}}`, map[string]string{mcp.HeaderName: tool})
			if strings.Contains(got.body, "was called") || strings.Contains(got.body, `\"erp-post`) {
				t.Errorf("%s %s: got %s", path, tool, got.body)
			}
		}
	}
	for _, revision := range []string{mcp.Legacy, "2025-06-18", "2025-03-26"} {
		id := e.session(revision, "", "")
		for _, name := range names {
			if strings.Contains(name, "\x00") {
				continue
			}
			call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":` + fmt.Sprintf("%q", name) + `,"arguments":{}}}`
			if got := e.legacy(id, call, ""); got.code == 0 {
				t.Errorf("%s %q: got %s", revision, name, got.body)
			}
			if got := e.legacy(id, "["+call+"]", ""); strings.Contains(got.body, "was called") {
				t.Errorf("%s %q: got %s", revision, name, got.body)
			}
		}
		if got := e.legacy(id, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, ""); strings.Contains(got.body, "erp-post") {
			t.Errorf("%s: got %s", revision, got.body)
		}
	}
	if calls := s.called(); len(calls) > 0 {
		t.Errorf("the server was called: %q", calls)
	}
	if got := e.modern(mcp.MethodCallTool, "erp-read", `"name":"erp-read","arguments":{},`, ""); !strings.Contains(got.body, "erp-read was called") {
		t.Errorf("got %s", got.body)
	}
}
