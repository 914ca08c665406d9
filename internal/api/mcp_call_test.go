package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
)

// serveTools stands for the gateway: it says who has called what.
func serveTools(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/mcp/nowhere" {
		http.NotFound(w, r)
		return
	}
	p, _ := auth.Inside{Authenticator: authenticator{}}.Authenticate(r)
	var q struct {
		ID     jsontext.Value `json:"id"`
		Params struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"params"`
	}
	if err := json.UnmarshalRead(r.Body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := fmt.Sprintf(`"result":{"resultType":"complete","content":[{"type":"text","text":"%s %s %s %s at %s with %s"}]}`,
		p.Role, p.Tenant, p.Subject, q.Params.Name, r.URL.Path, strings.ReplaceAll(string(q.Params.Arguments), `"`, `'`))
	switch q.Params.Name {
	case "fail":
		answer = `"error":{"code":-32602,"message":"no such tool","data":{"a":1}}`
	case "slow":
		answer = `"result":{"resultType":"task","taskId":"h-1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":1}`
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, answer)
}

func TestCallTool(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, test := range []struct{ caller, body, want string }{
		{"operator//op", `{"tool":"order","arguments":{"n":12345678901234567890}}`, `operator  op order at /mcp with {'n':12345678901234567890}`},
		{"operator//op", `{"tool":"order","server":"erp"}`, `op order at /mcp/erp with {}`},
		{"operator//op", `{"tool":"order","as":{"role":"caller"}}`, `caller  op order`},
		{"admin//root", `{"tool":"order","as":{"role":"caller","scopes":["a"]}}`, `caller  root order`},
		{"admin//root", `{"tool":"order","as":{"subject":"alice","tenant":"acme","role":"viewer"}}`, `viewer acme alice order`},
		{"operator//op", `{"tool":"fail"}`, `"error":{"code":-32602,"message":"no such tool","data":{"a":1}}`},
		{"operator//op", `{"tool":"slow"}`, `"task":{"handle":"h-1","status":"working"}`},
	} {
		got := n.call("POST", "/mcp/call", test.caller, test.body).want(http.StatusOK)
		if !strings.Contains(string(got.body), test.want) || !strings.Contains(string(got.body), `"took_ms":`) {
			t.Errorf("%s: %s, want %s", test.body, got.body, test.want)
		}
	}
	for _, test := range []struct {
		caller, body string
		status       int
	}{
		{"operator//op", `{"tool":"order","as":{"role":"admin"}}`, http.StatusBadRequest},
		{"operator//op", `{"tool":"order","as":{"subject":"alice"}}`, http.StatusForbidden},
		{"operator//op", `{"tool":"order","as":{"tenant":"acme"}}`, http.StatusForbidden},
		{"operator//op", `{"tool":"order","as":{"scopes":["a"]}}`, http.StatusBadRequest},
		{"operator/acme/op", `{"tool":"order"}`, http.StatusForbidden},
		{"caller//alice", `{"tool":"order"}`, http.StatusForbidden},
		{"operator//op", `{"tool":"order","server":"nowhere"}`, http.StatusNotFound},
		{"operator//op", `{"tool":"order","arguments":[1]}`, http.StatusBadRequest},
		{"operator//op", `{}`, http.StatusBadRequest},
	} {
		n.call("POST", "/mcp/call", test.caller, test.body).failure(test.status)
	}
}
