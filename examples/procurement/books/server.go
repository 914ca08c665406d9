// Package books is an MCP server of the finance team: the credit that it has granted.
package books

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/toolserver"

	_ "modernc.org/sqlite" // the driver
)

// limit is the amount, in rupiah, up to which nobody is asked.
const limit = 25_000_000

const creditInput = `{"type":"object","properties":{
	"purchaseOrder":{"type":"string","pattern":"^PO-[0-9]{4}-[0-9]{4}$"},
	"amount":{"type":"integer","minimum":1,"description":"In rupiah"}},
	"required":["purchaseOrder","amount"],"additionalProperties":false}`

// Books are what is granted, in a file.
type Books struct{ db *sql.DB }

// Open opens the file and fills one that is new.
func Open(ctx context.Context, file string) (*Books, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS credit (purchase_order TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT`)
	}
	if err != nil {
		return nil, fmt.Errorf("open books: %w", err)
	}
	return &Books{db}, nil
}

// Close closes the file.
func (b *Books) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close books: %w", err)
	}
	return nil
}

// New makes the server.
func New(b *Books) *mcp.Server {
	s := toolserver.New("books", "The books of the finance team.", time.Minute)
	mcp.AddTool(s, &mcp.Tool{
		Name: "credit_limit", Description: "Says whether a purchase is within the limit up to which nobody has to approve it.",
		InputSchema: jsontext.Value(creditInput), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, b.limit)
	mcp.AddTool(s, &mcp.Tool{
		Name: "book_credit", Description: "Books the credit for a purchase, once.",
		InputSchema: jsontext.Value(creditInput), Annotations: &mcp.ToolAnnotations{IdempotentHint: true},
	}, b.book)
	return s
}

type credit struct {
	PurchaseOrder string `json:"purchaseOrder"`
	Amount        int    `json:"amount"`
}

type verdict struct {
	Limit  int  `json:"limit"`
	Within bool `json:"within"`
}

func (b *Books) limit(_ context.Context, _ *mcp.CallToolRequest, in credit) (*mcp.CallToolResult, verdict, error) {
	return nil, verdict{limit, in.Amount <= limit}, nil
}

// book books a credit. A call that comes again finds it booked.
func (b *Books) book(ctx context.Context, _ *mcp.CallToolRequest, in credit) (*mcp.CallToolResult, credit, error) {
	booked := credit{PurchaseOrder: in.PurchaseOrder}
	err := b.db.QueryRowContext(ctx, `
		INSERT INTO credit VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount RETURNING amount`, in.PurchaseOrder, in.Amount).Scan(&booked.Amount)
	switch {
	case err != nil:
		return nil, booked, fmt.Errorf("book credit: %w", err)
	case booked.Amount != in.Amount:
		return nil, booked, errors.New("another amount is booked for that order")
	}
	return nil, booked, nil
}
