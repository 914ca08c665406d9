// Package erppost is an MCP server that posts what has been drafted. It is for people:
// no configuration of a node names it, and each call says in whose name it is.
package erppost

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/toolserver"
)

const (
	orderInput = `{"type":"object","properties":{
		"number":{"type":"string","pattern":"^PO-[0-9]{4}-[0-9]{4}$"},
		"by":{"type":"string","minLength":1,"maxLength":100,"description":"Who posts it"}},
		"required":["number","by"],"additionalProperties":false}`
	receiptInput = `{"type":"object","properties":{
		"number":{"type":"string","pattern":"^GRN-[0-9]{4}-[0-9]{4}$"},
		"period":{"type":"string","pattern":"^20[0-9]{2}-(0[1-9]|1[0-2])$"},
		"by":{"type":"string","minLength":1,"maxLength":100,"description":"Who posts it"}},
		"required":["number","period","by"],"additionalProperties":false}`
)

// New makes the server.
func New(system *erp.System) *mcp.Server {
	s := toolserver.New("erp-post", "Posts documents. It is for people, and for no agent.", time.Minute)
	p := poster{system}
	mcp.AddTool(s, binding("post_order", "Post an order", "Makes a draft of a purchase order binding.", orderInput), p.order)
	mcp.AddTool(s, binding("post_receipt", "Post a receipt", "Takes what has arrived into stock.", receiptInput), p.receipt)
	return s
}

func binding(name, title, description, input string) *mcp.Tool {
	yes := true
	return &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: jsontext.Value(input),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}
}

type poster struct{ system *erp.System }

type document struct {
	Number string `json:"number"`
	Period string `json:"period,omitempty"`
	By     string `json:"by"`
}

func (p poster) order(ctx context.Context, _ *mcp.CallToolRequest, in document) (*mcp.CallToolResult, erp.Order, error) {
	o, err := p.system.PostOrder(ctx, in.Number, in.By)
	return nil, o, err
}

func (p poster) receipt(ctx context.Context, _ *mcp.CallToolRequest, in document) (*mcp.CallToolResult, erp.Receipt, error) {
	r, err := p.system.PostReceipt(ctx, in.Number, in.Period, in.By)
	return nil, r, err
}
