// Package erpread is an MCP server that looks into the ERP system: stock, prices and
// orders. It has the file open for reading and can change nothing.
package erpread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/toolserver"
)

// keep is how long the lists and the resources may be kept.
const keep = 30 * time.Second

// What the tools take. An agent that asks for something else is told why.
const (
	stockInput = `{"type":"object","properties":{
		"sku":{"type":"string","pattern":"^[A-Z]+-[0-9]{4}$","description":"Article, such as BRG-0042"},
		"warehouse":{"type":"string","pattern":"^[A-Z]{3}$","description":"Warehouse, such as SBY"}},
		"required":["sku","warehouse"],"additionalProperties":false}`
	priceInput = `{"type":"object","properties":{
		"sku":{"type":"string","pattern":"^[A-Z]+-[0-9]{4}$","description":"Article, such as BRG-0042"}},
		"required":["sku"],"additionalProperties":false}`
	orderInput = `{"type":"object","properties":{
		"number":{"type":"string","pattern":"^PO-[0-9]{4}-[0-9]{4}$","description":"Purchase order, such as PO-2026-0184"}},
		"required":["number"],"additionalProperties":false}`
)

// New makes the server.
func New(system *erp.System) *mcp.Server {
	s := toolserver.New("erp-read", "Looks into the ERP system. Nothing here changes it.", keep)
	r := reader{system}
	mcp.AddTool(s, look("get_stock_level", "Stock level", "Returns how many units of an article lie in a warehouse.", stockInput), r.stock)
	mcp.AddTool(s, look("get_price", "Price", "Returns the name of an article and what a unit of it was bought for last.", priceInput), r.price)
	mcp.AddTool(s, look("get_order_status", "Order status", "Returns a purchase order, and whether it is a draft or posted.", orderInput), r.order)
	const kind = "application/json"
	s.AddResource(&mcp.Resource{URI: "erp://articles", Name: "articles", Description: "All articles with their prices", MIMEType: kind}, r.read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "erp://stock/{warehouse}", Name: "stock", Description: "What lies in a warehouse", MIMEType: kind}, r.read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "erp://orders/{number}", Name: "order", Description: "A purchase order", MIMEType: kind}, r.read)
	return s
}

func look(name, title, description, input string) *mcp.Tool {
	inside := false
	return &mcp.Tool{
		Name: name, Title: title, Description: description, InputSchema: jsontext.Value(input),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &inside},
	}
}

type reader struct{ system *erp.System }

type article struct {
	SKU       string `json:"sku"`
	Warehouse string `json:"warehouse,omitempty"`
}

type number struct {
	Number string `json:"number"`
}

func (r reader) stock(ctx context.Context, _ *mcp.CallToolRequest, in article) (*mcp.CallToolResult, erp.Stock, error) {
	st, err := r.system.Stock(ctx, in.SKU, in.Warehouse)
	return nil, st, err
}

func (r reader) price(ctx context.Context, _ *mcp.CallToolRequest, in article) (*mcp.CallToolResult, erp.Price, error) {
	p, err := r.system.Price(ctx, in.SKU)
	return nil, p, err
}

func (r reader) order(ctx context.Context, _ *mcp.CallToolRequest, in number) (*mcp.CallToolResult, erp.Order, error) {
	o, err := r.system.Order(ctx, in.Number)
	return nil, o, err
}

// read reads a resource.
func (r reader) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	var value any
	var err error
	switch kind, name, _ := strings.Cut(strings.TrimPrefix(uri, "erp://"), "/"); kind {
	case "articles":
		value, err = r.system.Prices(ctx)
	case "stock":
		var all []erp.Stock
		if all, err = r.system.Stocks(ctx, name); err == nil && len(all) == 0 {
			err = erp.ErrUnknown
		}
		value = all
	case "orders":
		value, err = r.system.Order(ctx, name)
	default:
		err = erp.ErrUnknown
	}
	if errors.Is(err, erp.ErrUnknown) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", uri, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}}}, nil
}
