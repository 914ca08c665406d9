// Command server is an MCP server on its standard streams that knows what is in
// stock, and counts it anew.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stock is what lies where, by warehouse and article.
var stock = map[string]map[string]int{
	"SBY": {"BRG-0042": 310, "BRG-0043": 12},
	"JKT": {"BRG-0042": 90},
}

type article struct {
	SKU string `json:"sku" jsonschema:"the article, such as BRG-0042"`
}

type level struct {
	SKU   string         `json:"sku"`
	Units map[string]int `json:"units"` // by warehouse
}

func look(_ context.Context, _ *mcp.CallToolRequest, in article) (*mcp.CallToolResult, *level, error) {
	l := &level{SKU: in.SKU, Units: map[string]int{}}
	for warehouse, articles := range stock {
		if units, ok := articles[in.SKU]; ok {
			l.Units[warehouse] = units
		}
	}
	if len(l.Units) == 0 {
		return nil, nil, fmt.Errorf("there is no article %s", in.SKU)
	}
	return nil, l, nil
}

type count struct {
	Warehouse string `json:"warehouse" jsonschema:"the warehouse, such as SBY"`
}

type counted struct {
	Warehouse string `json:"warehouse"`
	Units     int    `json:"units"`
}

// recount takes its time, and tells how far it is.
func recount(ctx context.Context, r *mcp.CallToolRequest, in count) (*mcp.CallToolResult, *counted, error) {
	articles, ok := stock[in.Warehouse]
	if !ok {
		return nil, nil, fmt.Errorf("there is no warehouse %s", in.Warehouse)
	}
	c := &counted{Warehouse: in.Warehouse}
	for sku, units := range articles {
		select {
		case <-time.After(1200 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		c.Units += units
		if token := r.Params.GetProgressToken(); token != nil {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(c.Units), Message: "Counted " + sku,
			})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return nil, c, nil
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "stock", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "get_stock_level", Title: "Stock level", Description: "Says how many units of an article lie in which warehouse."}, look)
	mcp.AddTool(s, &mcp.Tool{Name: "recount", Title: "Recount", Description: "Counts what lies in a warehouse. It takes a while."}, recount)
	mcp.AddTool(s, &mcp.Tool{Name: "post_correction", Title: "Correction", Description: "Corrects the books."}, func(context.Context, *mcp.CallToolRequest, article) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("nobody may do that from here")
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
