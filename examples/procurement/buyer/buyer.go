// Package buyer is the agent of a company that buys: it asks a supplier for a quote
// and finance for the credit, and makes a draft in the ERP system, which it reaches
// through the gateway and no other way.
package buyer

import (
	"context"
	"fmt"

	"handoff.example/handoff"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// Buyer is the agent with what it has.
type Buyer struct {
	requests *requests
	tools    toolclient.Server
}

// Open opens the file of what is to be bought, and fills one that is new. The tools
// are those of the gateway.
func Open(ctx context.Context, file string, tools toolclient.Server) (*Buyer, error) {
	requests, err := openRequests(ctx, file)
	if err != nil {
		return nil, err
	}
	return &Buyer{requests, tools}, nil
}

// Close closes the file.
func (b *Buyer) Close() error {
	if err := b.requests.db.Close(); err != nil {
		return fmt.Errorf("close requests: %w", err)
	}
	return nil
}

// Card is the card of the agent.
func Card() handoff.Card {
	card := handoff.NewCard("Procurement Agent", "Buys what a warehouse needs, as a draft that people post", "3.1.0", handoff.Skill{
		ID: "buy", Name: "Buy", Description: "Gets a quote and the credit for a purchase order", Tags: []string{"procurement", "erp"},
		Examples: []string{"Order 400 units of BRG-0042 for SBY, PO-2026-0184"},
	})
	card.OnInterrupt = "resume" // a turn that runs again finds the request that it has made
	return card
}
