package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// plan is the agent: a quote of the supplier, then the credit of finance, then a
// draft that people post. Each call is one turn; between them lie hours, questions
// to people, which pass the agent by, and crashes.
func (b *buyer) plan(ctx context.Context, t *handoff.Turn) error {
	if t.Cause != agent.CauseOutcome {
		return b.begin(ctx, t)
	}
	o, err := b.erp.order(ctx, "task", t.TaskID)
	switch {
	case err != nil:
		return err
	case !t.Outcome.Completed():
		return errors.Join(b.erp.status(ctx, o, "failed", t.Outcome), t.Fail(t.Outcome.To+" says: "+t.Outcome.Text()))
	case t.Outcome.To == "supplier":
		return b.askCredit(ctx, t, o)
	}
	return b.draft(ctx, t, o)
}

var wish = regexp.MustCompile(`(\d{1,6}) units of ([A-Z]+-\d+) for ([A-Z]{3}), (PO-\d{4}-\d{4})`)

// begin makes the order and asks the supplier.
func (b *buyer) begin(ctx context.Context, t *handoff.Turn) error {
	w := wish.FindStringSubmatch(t.Text())
	if w == nil {
		return t.Reject("Say it like this: Order 400 units of BRG-0042 for SBY, PO-2026-0184")
	}
	units, err := strconv.Atoi(w[1])
	if err != nil {
		return err
	}
	o := order{Number: w[4], Task: t.TaskID, SKU: w[2], Units: units, Warehouse: w[3]}
	if err := b.erp.begin(ctx, o); errors.Is(err, errRefused) {
		return t.Reject(err.Error())
	} else if err != nil {
		return err
	}
	text := fmt.Sprintf("Quote %d units of %s, delivery %s", o.Units, o.SKU, warehouses[o.Warehouse])
	return delegate(t, "supplier", o, text, map[string]any{"sku": o.SKU, "units": o.Units, "deliverTo": warehouses[o.Warehouse]})
}

var warehouses = map[string]string{"SBY": "Surabaya", "SRG": "Semarang"}

// askCredit puts the quote on the order and asks finance.
func (b *buyer) askCredit(ctx context.Context, t *handoff.Turn, o order) error {
	var q quote
	if parts := t.Outcome.Parts(); len(parts) == 0 || json.Unmarshal(parts[0].Data, &q) != nil || q.UnitPrice <= 0 {
		return errors.Join(b.erp.status(ctx, o, "failed", t.Outcome), t.Fail("The supplier's quote cannot be read."))
	}
	if err := b.erp.price(ctx, o, q, t.Outcome); err != nil {
		return err
	}
	amount := o.Units * q.UnitPrice
	if err := t.Working(fmt.Sprintf("The quote is IDR %d, %s, in %d days", amount, q.Incoterm, q.LeadDays)); err != nil {
		return err
	}
	return delegate(t, "finance", o, "Is there credit for "+o.Number+"?", map[string]any{"purchaseOrder": o.Number, "amount": amount})
}

// draft leaves the order to people.
func (b *buyer) draft(ctx context.Context, t *handoff.Turn, o order) error {
	if err := b.erp.status(ctx, o, "draft", t.Outcome); err != nil {
		return err
	}
	o.Status = "draft"
	document, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(
		t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "order", Name: "Purchase order", Parts: []a2a.Part{a2a.Data(document)}, Last: true}}),
		t.Complete(o.Number+" is a draft. Have a look at it, and post it."),
	)
}

// delegate hands work on, under the number of the order.
func delegate(t *handoff.Turn, to string, o order, text string, data map[string]any) error {
	document, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return err
	}
	return t.Emit(agent.Step{Delegate: &agent.Delegate{
		To: to, Ref: o.Number, Content: agent.Content{Parts: []a2a.Part{a2a.Text(text), a2a.Data(document)}},
	}})
}
