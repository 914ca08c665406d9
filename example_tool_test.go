package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
)

// An agent calls a tool of the ERP, and a person has to approve the order. The task
// waits for that; then the agent runs again from the beginning of the turn, and Tool
// returns what the tool has answered.
func ExampleTurn_Tool() {
	erp := erp() // a server of MCP
	defer erp.Close()
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite::memory:"
	server := handoff.NewMCPServer(erp.URL)
	server.Default = &handoff.MCPPolicy{Approve: "Orders bind us."}
	cfg.MCP.Servers = map[string]*handoff.MCPServer{"erp": server}
	node, err := handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer node.Shutdown(context.Background())
	card := handoff.NewCard("Buyer", "Orders.", "1.0.0", handoff.Skill{ID: "order", Name: "Order", Description: "Orders goods.", Tags: []string{"procurement"}})
	card.OnInterrupt = "resume" // a call that was made is not made again
	type order struct {
		Article string `json:"article"`
		Units   int    `json:"units"`
	}
	err = node.Handle("buyer", card, func(ctx context.Context, t *handoff.Turn) error {
		result, err := t.Tool(ctx, "draft_order", order{Article: t.Text(), Units: 400})
		switch {
		case errors.Is(err, agent.ErrToolRefused):
			return t.Reject("The order was not approved.")
		case err != nil: // agent.ErrToolWaits too: the turn is over for now
			return err
		case result.IsError:
			return t.Fail(result.Text())
		}
		return t.Artifact(a2a.Text(result.Text()))
	})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	work, err := node.Delegate(ctx, handoff.Delegation{To: "buyer", Message: client.NewMessage(a2a.Text("BRG-0042"))})
	if err != nil {
		panic(err)
	}
	task, err := work.Wait(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(task.Status.State)
	items, err := node.Inbox().List(ctx, handoff.InboxQuery{Task: work.ID()})
	if err != nil {
		panic(err)
	}
	if err := node.Inbox().Approve(ctx, items[0].ID, "ann", "within the budget"); err != nil {
		panic(err)
	}
	if task, err = work.Wait(ctx); err != nil {
		panic(err)
	}
	fmt.Println(task.Status.State, task.Artifacts[0].Parts[0].Text)
	// Output:
	// TASK_STATE_AUTH_REQUIRED
	// TASK_STATE_COMPLETED drafted 400 of BRG-0042
}

// erp is a tool server that knows the stock, and takes orders.
func erp() *httptest.Server {
	type stock struct {
		Article string `json:"article"`
	}
	type order struct {
		Article string `json:"article"`
		Units   int    `json:"units"`
	}
	says := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "get_stock", Description: "Says what is in stock"}, func(_ context.Context, _ *mcp.CallToolRequest, in stock) (*mcp.CallToolResult, any, error) {
		return says("%s: 120", in.Article), nil, nil
	})
	for _, name := range []string{"draft_order", "post_order"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Takes an order"}, func(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
			return says("drafted %d of %s", in.Units, in.Article), nil, nil
		})
	}
	mcp.AddTool(s, &mcp.Tool{Name: "cancel_order", Description: "Cancels an order"}, func(_ context.Context, _ *mcp.CallToolRequest, in stock) (*mcp.CallToolResult, any, error) {
		return says("canceled %s", in.Article), nil, nil
	})
	return httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
}
