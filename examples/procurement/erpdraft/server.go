// Package erpdraft is an MCP server that makes drafts in the ERP system, which people
// post, and values the stock. It posts nothing.
package erpdraft

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
)

// What the tools take. The total is an argument, so that a rule can look at it, and
// is checked against the rest, so that the rule can believe it.
const (
	orderInput = `{"type":"object","properties":{
		"number":{"type":"string","pattern":"^PO-[0-9]{4}-[0-9]{4}$"},
		"sku":{"type":"string","pattern":"^[A-Z]+-[0-9]{4}$"},
		"units":{"type":"integer","minimum":1,"maximum":999999},
		"warehouse":{"type":"string","pattern":"^[A-Z]{3}$"},
		"incoterm":{"type":"string","enum":["FOB","delivered"]},
		"unitPrice":{"type":"integer","minimum":1,"maximum":1000000000,"description":"In rupiah"},
		"total":{"type":"integer","minimum":1,"description":"units times unitPrice, in rupiah"},
		"leadTimeDays":{"type":"integer","minimum":0,"maximum":365}},
		"required":["number","sku","units","warehouse","incoterm","unitPrice","total","leadTimeDays"],"additionalProperties":false}`
	receiptInput = `{"type":"object","properties":{
		"number":{"type":"string","pattern":"^GRN-[0-9]{4}-[0-9]{4}$"},
		"purchaseOrder":{"type":"string","pattern":"^PO-[0-9]{4}-[0-9]{4}$"},
		"units":{"type":"integer","minimum":1,"maximum":999999}},
		"required":["number","purchaseOrder","units"],"additionalProperties":false}`
	periodInput = `{"type":"object","properties":{
		"period":{"type":"string","pattern":"^20[0-9]{2}-(0[1-9]|1[0-2])$","description":"A month, such as 2026-09"}},
		"required":["period"],"additionalProperties":false}`
)

// New makes the server. The valuation of an article takes at least as long as pace.
func New(system *erp.System, pace time.Duration) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "erp-draft", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Makes drafts that people post. Each call that makes one has an idempotency key in _meta, " + erp.IdempotencyKey + ".",
		Capabilities: &mcp.ServerCapabilities{},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = int(time.Minute.Milliseconds()), "public"
		},
	})
	w := writer{system, pace}
	mcp.AddTool(s, tool("draft_order", "Draft an order", "Makes a purchase order as a draft, which people post.", orderInput), w.order)
	mcp.AddTool(s, tool("draft_receipt", "Draft a receipt", "Writes down what has arrived of an order as a draft, which people post.", receiptInput), w.receipt)
	mcp.AddTool(s, tool("rebuild_stock_valuation", "Rebuild the stock valuation",
		"Values the stock at the end of a month. It takes a while, and a call again goes on where it was.", periodInput), w.value)
	return s
}

func tool(name, title, description, input string) *mcp.Tool {
	no := false
	return &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: jsontext.Value(input),
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
}

type writer struct {
	system *erp.System
	pace   time.Duration
}

type period struct {
	Period string `json:"period"`
}

// key is the idempotency key of a call, which is whoever's who makes it: the node in
// front of this server hands it on.
func key(req *mcp.CallToolRequest) string {
	k, _ := req.Params.Meta[erp.IdempotencyKey].(string)
	return k
}

func (w writer) order(ctx context.Context, req *mcp.CallToolRequest, in erp.Order) (*mcp.CallToolResult, erp.Order, error) {
	o, err := w.system.DraftOrder(ctx, key(req), in)
	return nil, o, err
}

func (w writer) receipt(ctx context.Context, req *mcp.CallToolRequest, in erp.Receipt) (*mcp.CallToolResult, erp.Receipt, error) {
	r, err := w.system.DraftReceipt(ctx, key(req), in)
	return nil, r, err
}

// value values the stock and says how far it is. It ends when nobody waits for it
// any more; what is done by then stays done.
func (w writer) value(ctx context.Context, req *mcp.CallToolRequest, in period) (*mcp.CallToolResult, erp.Valuation, error) {
	token := req.Params.GetProgressToken()
	v, err := w.system.Value(ctx, in.Period, func(done, of int) error {
		if token != nil {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(done), Total: float64(of), Message: fmt.Sprintf("%d of %d articles", done, of),
			}); err != nil {
				return err
			}
		}
		return wait(ctx, w.pace)
	})
	return nil, v, err
}

func wait(ctx context.Context, pace time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pace):
		return nil
	}
}
