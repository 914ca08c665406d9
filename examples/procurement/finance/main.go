// Command finance is the node of a finance team: its agent grants credit, and
// above a limit wants somebody to approve that first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/examples/procurement/toolclient"
)

func main() {
	file := flag.String("c", "examples/procurement/finance.yaml", "the configuration `file`")
	books := flag.String("books", "http://127.0.0.1:8087/mcp", "the `URL` of finance's own MCP server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, toolclient.Server{URL: *books, Key: os.Getenv("BOOKS_KEY")}); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file string, books toolclient.Server) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	card := handoff.NewCard("Credit Agent", "Says whether a purchase is within the credit limit", "1.2.0", handoff.Skill{
		ID: "credit", Name: "Credit check", Description: "Grants the credit for a purchase order", Tags: []string{"credit", "finance"},
	})
	card.OnInterrupt = "resume" // what is granted is booked once
	card.Grants = "caller"      // who buys approves as well, by the grant extension
	if err := node.Handle("finance", card, (&creditor{books}).credit); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}

// creditor has its books behind an MCP server that nobody else can reach: who buys
// sees an agent, and no tool.
type creditor struct{ books toolclient.Server }

type request struct {
	PurchaseOrder string `json:"purchaseOrder"`
	Amount        int    `json:"amount"`
}

// credit is the agent. Only a grant gets past the limit: whatever else is sent
// while one is wanted, it is wanted again.
func (c *creditor) credit(ctx context.Context, t *handoff.Turn) error {
	r, err := wanted(t)
	switch {
	case err != nil:
		return err
	case r.PurchaseOrder == "" || r.Amount <= 0:
		return t.Reject("Say for what, as data: purchaseOrder, amount.")
	case t.Cause == agent.CauseGrant && t.Grant.Approved:
		return c.grant(ctx, t, r, "approved: "+t.Grant.Note)
	case t.Cause == agent.CauseGrant:
		return t.Reject("The credit was not approved. " + t.Grant.Note)
	}
	var v struct {
		Limit  int  `json:"limit"`
		Within bool `json:"within"`
	}
	if err := c.books.Call(ctx, "credit_limit", "", r, &v); err != nil {
		return err
	}
	if v.Within {
		return c.grant(ctx, t, r, "within the limit")
	}
	return authorize(t, r, v.Limit)
}

// wanted returns what the first message asked for, which later turns have as the
// state of the task.
func wanted(t *handoff.Turn) (r request, err error) {
	if t.State != nil {
		return r, json.Unmarshal(t.State, &r)
	}
	for _, p := range t.Messages[len(t.Messages)-1].Parts {
		if p.Kind == a2a.PartData {
			return r, json.Unmarshal(p.Data, &r)
		}
	}
	return r, nil
}

func authorize(t *handoff.Turn, r request, limit int) error {
	state, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := t.SetState(state); err != nil {
		return err
	}
	text := fmt.Sprintf("%s is IDR %d, more than %d. May it be bought on credit?", r.PurchaseOrder, r.Amount, limit)
	return t.Emit(agent.Step{Authorize: &agent.Authorize{
		Content: *agent.Say(text), Operation: "credit " + r.PurchaseOrder, Expires: time.Now().Add(48 * time.Hour),
	}})
}

func (c *creditor) grant(ctx context.Context, t *handoff.Turn, r request, why string) error {
	if err := c.books.Call(ctx, "book_credit", "", r, new(request)); err != nil {
		return err
	}
	document, err := json.Marshal(map[string]any{"purchaseOrder": r.PurchaseOrder, "amount": r.Amount, "why": why}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "credit", Name: "Credit", Parts: []a2a.Part{a2a.Data(document)}, Last: true}})
}
