// Package finance is the agent of a finance team: it grants credit, and above a limit
// wants somebody to approve that first.
package finance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// Card is the card of the agent.
func Card() handoff.Card {
	card := handoff.NewCard("Credit Agent", "Says whether a purchase is within the credit limit", "1.2.0", handoff.Skill{
		ID: "credit", Name: "Credit check", Description: "Grants the credit for a purchase order", Tags: []string{"credit", "finance"},
	})
	card.OnInterrupt = "resume" // what is granted is booked once
	card.Grants = "caller"      // who buys approves as well, by the grant extension
	return card
}

// Creditor is the agent. It has its books behind an MCP server that nobody else can
// reach: who buys sees an agent, and no tool.
type Creditor struct{ Books toolclient.Server }

type request struct {
	PurchaseOrder string `json:"purchaseOrder"`
	Amount        int    `json:"amount"`
}

// work is the state of a task: what was asked for, and why it is granted.
type work struct {
	Request request `json:"request"`
	Why     string  `json:"why,omitzero"`
}

// Credit takes a turn. Only a grant gets past the limit: whatever else is sent
// while one is wanted, it is wanted again.
func (c Creditor) Credit(ctx context.Context, t *handoff.Turn) error {
	w, err := wanted(t)
	if err != nil {
		return err
	}
	if r := w.Request; r.PurchaseOrder == "" || r.Amount <= 0 {
		return t.Reject("Say for what, as data: purchaseOrder, amount.")
	}
	if t.Cause == agent.CauseGrant {
		if !t.Grant.Approved {
			return t.Reject("The credit was not approved. " + t.Grant.Note)
		}
		w.Why = "approved: " + t.Grant.Note
	}
	if w.Why == "" {
		var v struct {
			Limit  int  `json:"limit"`
			Within bool `json:"within"`
		}
		switch err := c.Books.Call(ctx, "credit_limit", "", w.Request, &v); {
		case err != nil:
			return later(t, w, err)
		case !v.Within:
			return authorize(t, w, v.Limit)
		}
		w.Why = "within the limit"
	}
	if err := c.Books.Call(ctx, "book_credit", "", w.Request, new(request)); err != nil {
		return later(t, w, err)
	}
	document, err := json.Marshal(map[string]any{"purchaseOrder": w.Request.PurchaseOrder, "amount": w.Request.Amount, "why": w.Why}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "credit", Name: "Credit", Parts: []a2a.Part{a2a.Data(document)}, Last: true}})
}

// wanted returns what the first message asked for, which later turns have as the
// state of the task.
func wanted(t *handoff.Turn) (w work, err error) {
	if t.State != nil {
		return w, json.Unmarshal(t.State, &w)
	}
	for _, p := range t.Messages[len(t.Messages)-1].Parts {
		if p.Kind == a2a.PartData {
			return w, json.Unmarshal(p.Data, &w.Request)
		}
	}
	return w, nil
}

func keep(t *handoff.Turn, w work) error {
	state, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return t.SetState(state)
}

// later ends the turn where the books cannot be reached. The next asks again.
func later(t *handoff.Turn, w work, err error) error {
	if !errors.Is(err, toolclient.ErrLater) {
		return err
	}
	return errors.Join(keep(t, w), t.Wait(time.Second))
}

func authorize(t *handoff.Turn, w work, limit int) error {
	if err := keep(t, w); err != nil {
		return err
	}
	text := fmt.Sprintf("%s is IDR %d, more than %d. May it be bought on credit?", w.Request.PurchaseOrder, w.Request.Amount, limit)
	return t.Emit(agent.Step{Authorize: &agent.Authorize{
		Content: *agent.Say(text), Operation: "credit " + w.Request.PurchaseOrder, Expires: time.Now().Add(48 * time.Hour),
	}})
}
