package buyer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// Plan is the agent: a look at the stock, a quote of the supplier, the credit of
// finance, then a draft in the ERP system that people post. Each call is one turn;
// between them lie hours, questions to people, which pass the agent by, and crashes.
func (b *Buyer) Plan(ctx context.Context, t *handoff.Turn) error {
	q, err := b.requests.find(ctx, "task", t.TaskID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return b.begin(ctx, t)
	case err != nil:
		return err
	case t.Cause == agent.CauseOutcome:
		return b.outcome(ctx, t, q)
	case q.Status == "asking":
		return b.askQuote(ctx, t, q)
	}
	return b.draft(ctx, t, q)
}

var wish = regexp.MustCompile(`(\d{1,6}) units of ([A-Z]+-\d+) for ([A-Z]{3}), (PO-\d{4}-\d{4})`)

// begin makes the request.
func (b *Buyer) begin(ctx context.Context, t *handoff.Turn) error {
	w := wish.FindStringSubmatch(t.Text())
	if w == nil {
		return t.Reject("Say it like this: Order 400 units of BRG-0042 for SBY, PO-2026-0184")
	}
	units, err := strconv.Atoi(w[1])
	if err != nil {
		return err
	}
	q := request{Number: w[4], Task: t.TaskID, SKU: w[2], Units: units, Warehouse: w[3]}
	if err := b.requests.begin(ctx, q); errors.Is(err, errTaken) {
		return t.Reject(err.Error())
	} else if err != nil {
		return err
	}
	return b.askQuote(ctx, t, q)
}

// askQuote asks the supplier for what is not in stock.
func (b *Buyer) askQuote(ctx context.Context, t *handoff.Turn, q request) error {
	var stock struct {
		City  string `json:"city"`
		Units int    `json:"units"`
	}
	var refused *toolclient.RefusedError
	switch err := b.tools.Call(ctx, "get_stock_level", "", map[string]any{"sku": q.SKU, "warehouse": q.Warehouse}, &stock); {
	case errors.Is(err, toolclient.ErrLater):
		return t.Wait(time.Second)
	case errors.As(err, &refused):
		return errors.Join(b.requests.forget(ctx, q.Number), t.Reject(refused.Text))
	case err != nil:
		return err
	case stock.Units >= q.Units:
		return errors.Join(b.requests.forget(ctx, q.Number), t.Complete(fmt.Sprintf("There are %d of %s in %s. Nothing is ordered.", stock.Units, q.SKU, stock.City)))
	}
	if err := t.Working(fmt.Sprintf("There are %d of %s in %s", stock.Units, q.SKU, stock.City)); err != nil {
		return err
	}
	text := fmt.Sprintf("Quote %d units of %s, delivery %s", q.Units, q.SKU, stock.City)
	return delegate(t, "supplier", q, text, map[string]any{"sku": q.SKU, "units": q.Units, "deliverTo": stock.City})
}

// outcome goes on with what another agent has done.
func (b *Buyer) outcome(ctx context.Context, t *handoff.Turn, q request) error {
	switch {
	case !t.Outcome.Completed():
		return errors.Join(b.requests.status(ctx, q.Number, "failed", t.Outcome), t.Fail(t.Outcome.To+" says: "+t.Outcome.Text()))
	case t.Outcome.To == "supplier":
		return b.askCredit(ctx, t, q)
	}
	if q.Status == "asking" {
		if err := b.requests.status(ctx, q.Number, "credited", t.Outcome); err != nil {
			return err
		}
		q.Status = "credited"
	}
	return b.draft(ctx, t, q)
}

// askCredit puts the quote on the request and asks finance.
func (b *Buyer) askCredit(ctx context.Context, t *handoff.Turn, r request) error {
	var q quote
	if parts := t.Outcome.Parts(); len(parts) == 0 || json.Unmarshal(parts[0].Data, &q) != nil || q.UnitPrice <= 0 {
		return errors.Join(b.requests.status(ctx, r.Number, "failed", t.Outcome), t.Fail("The supplier's quote cannot be read."))
	}
	if err := b.requests.price(ctx, r.Number, q, t.Outcome); err != nil {
		return err
	}
	amount := r.Units * q.UnitPrice
	if err := t.Working(fmt.Sprintf("The quote is IDR %d, %s, in %d days", amount, q.Incoterm, q.LeadDays)); err != nil {
		return err
	}
	return delegate(t, "finance", r, "Is there credit for "+r.Number+"?", map[string]any{"purchaseOrder": r.Number, "amount": amount})
}

// order is one of the ERP system.
type order struct {
	Number       string `json:"number"`
	SKU          string `json:"sku"`
	Units        int    `json:"units"`
	Warehouse    string `json:"warehouse"`
	Incoterm     string `json:"incoterm"`
	UnitPrice    int    `json:"unitPrice"`
	Total        int    `json:"total"`
	LeadTimeDays int    `json:"leadTimeDays"`
	Status       string `json:"status,omitzero"`
}

// draft makes the order in the ERP system and leaves it to people. The key makes it
// one order, however often that is tried. While somebody at the gateway has to
// approve it, the turn ends, and another asks again.
func (b *Buyer) draft(ctx context.Context, t *handoff.Turn, q request) error {
	o := order{
		Number: q.Number, SKU: q.SKU, Units: q.Units, Warehouse: q.Warehouse, Incoterm: q.Incoterm,
		UnitPrice: q.UnitPrice, Total: q.Units * q.UnitPrice, LeadTimeDays: q.LeadDays,
	}
	switch err := b.tools.Call(ctx, "draft_order", q.Number+"/"+q.Task, o, &o); {
	case errors.Is(err, toolclient.ErrLater):
		return b.later(ctx, t, q, err)
	case err != nil && ctx.Err() == nil:
		return errors.Join(b.requests.status(ctx, q.Number, "failed", nil), t.Fail("The order cannot be drafted: "+toolclient.Reason(err)))
	case err != nil:
		return err
	}
	if err := b.requests.status(ctx, q.Number, "drafted", nil); err != nil {
		return err
	}
	document, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(
		t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "order", Name: "Purchase order", Parts: []a2a.Part{a2a.Data(document)}, Last: true}}),
		t.Complete(o.Number+" is a draft. Have a look at it, and post it."),
	)
}

// later parks the task, and says once that a person is why.
func (b *Buyer) later(ctx context.Context, t *handoff.Turn, q request, err error) error {
	if errors.Is(err, toolclient.ErrApproval) && q.Status == "credited" {
		if err := errors.Join(b.requests.status(ctx, q.Number, "approving", nil), t.Working("Somebody at the gateway has to approve the draft")); err != nil {
			return err
		}
	}
	return t.Wait(time.Second)
}

// delegate hands work on, under the number of the order.
func delegate(t *handoff.Turn, to string, q request, text string, data map[string]any) error {
	document, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return err
	}
	return t.Emit(agent.Step{Delegate: &agent.Delegate{
		To: to, Ref: q.Number, Content: agent.Content{Parts: []a2a.Part{a2a.Text(text), a2a.Data(document)}},
	}})
}
