package handoff_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
)

// What a tool of the ERP is to an agent that is written in Go is what policy says of it
// for whoever the agent works.
func TestGoAgentCallsToolsByPolicy(t *testing.T) {
	t.Parallel()
	erp := erp()
	t.Cleanup(erp.Close)
	text := `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
mcp:
  servers:
    erp:
      url: ` + erp.URL + `
      tools:
        get_stock: {}
        draft_order: {approve_if: {properties: {units: {minimum: 100}}}}
        cancel_order: {deny: Ask the buyers}
`
	node, _ := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text), handoff.Options{})
	type outcome struct {
		result *agent.ToolResult
		err    error
	}
	outcomes := make(chan outcome, 1)
	card := handoff.NewCard("Buyer", "Buys.", "1.0.0", handoff.Skill{ID: "buy", Name: "Buy", Description: "Buys.", Tags: []string{"x"}})
	type order struct {
		Article string `json:"article,omitempty"`
		Units   int    `json:"units,omitempty"`
	}
	calls := map[string]struct {
		tool string
		args any
	}{
		"stock":     {"get_stock", order{Article: "BRG-0042"}},
		"on server": {"erp/get_stock", a2a.JSON(`{"article":"BRG-0042"}`)},
		"misfit":    {"get_stock", map[string]any{"article": 7}},
		"missing":   {"get_stock", nil},
		"no object": {"get_stock", "BRG-0042"},
		"hidden":    {"post_order", order{Article: "BRG-0042", Units: 1}},
		"unknown":   {"no_such_tool", nil},
		"denied":    {"cancel_order", order{Article: "BRG-0042"}},
		"approval":  {"draft_order", order{"BRG-0042", 400}},
	}
	err := node.Handle("buyer", card, func(ctx context.Context, turn *handoff.Turn) error {
		c := calls[turn.Text()]
		result, err := turn.Tool(ctx, c.tool, c.args)
		if errors.Is(err, agent.ErrToolWaits) {
			return err
		}
		outcomes <- outcome{result, err}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	ask := func(call string) *handoff.Handle {
		t.Helper()
		h, err := node.Delegate(ctx, handoff.Delegation{To: "buyer", Message: client.NewMessage(a2a.Text(call))})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, call := range []string{"stock", "on server"} {
		ask(call)
		if got := <-outcomes; got.err != nil || got.result.Text() != "BRG-0042: 120" || got.result.Tool != "get_stock" || got.result.Server != "erp" {
			t.Errorf("%s: got %+v, %v", call, got.result, got.err)
		}
	}
	for call, want := range map[string]struct {
		kind  error
		field string
		said  string
	}{
		"misfit":    {agent.ErrToolArguments, "article", "article"},
		"missing":   {agent.ErrToolArguments, "article", "article"},
		"no object": {agent.ErrToolArguments, "", "not an object"},
		"hidden":    {agent.ErrToolNotFound, "", "Unknown tool: post_order"},
		"unknown":   {agent.ErrToolNotFound, "", "Unknown tool: no_such_tool"},
		"denied":    {agent.ErrToolRefused, "", "Ask the buyers"},
	} {
		ask(call)
		got := <-outcomes
		of, ok := errors.AsType[*agent.ToolError](got.err)
		if !ok || !errors.Is(got.err, want.kind) || of.Field != want.field || !strings.Contains(got.err.Error(), want.said) {
			t.Errorf("%s: got %+v", call, got.err)
		}
	}
	h := ask("approval")
	task, err := h.Wait(ctx)
	if err != nil || task.Status.State != a2a.StateAuthRequired {
		t.Fatalf("got %v, %v", task, err)
	}
	items, err := node.Inbox().List(ctx, handoff.InboxQuery{Task: h.ID()})
	if err != nil || len(items) != 1 || !strings.Contains(items[0].Text, "draft_order") {
		t.Fatalf("got %+v, %v", items, err)
	}
	if err := node.Inbox().Approve(ctx, items[0].ID, "ann", "within the budget"); err != nil {
		t.Fatal(err)
	}
	if got := <-outcomes; got.err != nil || !got.result.Approved || got.result.Text() != "drafted 400 of BRG-0042" {
		t.Errorf("got %+v", got)
	}
}

// A node without servers of tools says so.
func TestGoAgentWithoutToolServers(t *testing.T) {
	t.Parallel()
	node, _ := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), "store: sqlite:tasks.db\n"), handoff.Options{})
	failed := make(chan error, 1)
	card := handoff.NewCard("Buyer", "Buys.", "1.0.0", handoff.Skill{ID: "buy", Name: "Buy", Description: "Buys.", Tags: []string{"x"}})
	err := node.Handle("buyer", card, func(ctx context.Context, turn *handoff.Turn) error {
		_, err := turn.Tool(ctx, "get_stock", nil)
		failed <- err
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Delegate(t.Context(), handoff.Delegation{To: "buyer", Message: client.NewMessage(a2a.Text("x"))}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, agent.ErrNoGateway) || !strings.Contains(err.Error(), "mcp.servers") {
		t.Errorf("got %v", err)
	}
}
