package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcpgw/policy"
)

// knownTools are the tools of a server erp: order, which alice sees and whose
// definition waits, and post, which nobody does.
type knownTools struct{}

func (knownTools) Reports() []policy.ServerReport {
	return []policy.ServerReport{{
		Name: "erp", Tools: 2, Fetched: time.Now(), LeftOut: []policy.LeftOut{{Name: "bad", Reason: "its name is long"}},
		State: &policy.ServerState{Transport: "stdio", Up: true, Circuit: "closed", Processes: []policy.ServerProcess{{PID: 12, Caller: "alice", Started: time.Now()}}},
	}}
}

func (knownTools) Seen(_ context.Context, q policy.Question) ([]policy.SeenTool, error) {
	if q.Server == "other" {
		return nil, policy.ErrNoEndpoint
	}
	return []policy.SeenTool{{Name: "order", Server: "erp", Tool: "order", Description: strings.Join(q.Caller.Scopes, "+"), Outcome: "allowed"}}, nil
}

func (knownTools) Explain(_ context.Context, q policy.Question) ([]policy.Explanation, error) {
	x := policy.Explanation{Server: "erp", Tool: "order", Name: "order", Outcome: "allowed", Steps: []policy.Step{{Key: "mcp.servers.erp.tools.order", Says: "listed", Effect: "shown"}}}
	if q.Tool != "order" {
		x = policy.Explanation{Server: "erp", Tool: q.Tool, Outcome: "hidden", Steps: []policy.Step{}}
	}
	return []policy.Explanation{x}, nil
}

func (knownTools) Held(context.Context) ([]policy.Held, error) {
	return []policy.Held{{Server: "erp", Tool: "order", Digest: "sha256:2", Pinned: "sha256:1", Since: time.Now(), Old: jsontext.Value(`{"name":"order"}`), New: jsontext.Value(`{"name":"order"}`), Item: "i"}}, nil
}

func (knownTools) Approve(_ context.Context, _, tool, digest, _ string) error {
	if tool != "order" || digest != "" && digest != "sha256:2" {
		return policy.ErrNotHeld
	}
	return nil
}

func TestToolsOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var seen struct{ Tools []policy.SeenTool }
	n.call("GET", "/mcp/tools?as=alice&scopes=a%20b", "operator//op", "").want(http.StatusOK).decode(&seen)
	if len(seen.Tools) != 1 || seen.Tools[0].Description != "a+b" {
		t.Error(seen)
	}
	for path, status := range map[string]int{
		"/mcp/tools?server=other":     http.StatusNotFound,
		"/mcp/tools?server=erp&set=x": http.StatusBadRequest,
		"/mcp/tools?role=king":        http.StatusBadRequest,
		"/mcp/explain":                http.StatusBadRequest,
	} {
		n.call("GET", path, "operator//op", "").want(status)
	}
	n.call("GET", "/mcp/servers", "operator/acme/op", "").want(http.StatusForbidden)
	n.call("POST", "/mcp/held:approve", "operator//op", `{"server":"erp","tool":"order"}`).want(http.StatusForbidden)
	n.call("POST", "/mcp/held:approve", "admin//root", `{"server":"erp","tool":"order","digest":"sha256:3"}`).want(http.StatusNotFound)
	n.call("POST", "/mcp/held:approve", "admin//root", `{"server":"erp"}`).want(http.StatusBadRequest)
	n.call("POST", "/mcp/held:approve", "admin//root", `{"server":"erp","tool":"order"}`).want(http.StatusNoContent)
}
