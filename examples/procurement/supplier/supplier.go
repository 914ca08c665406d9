// Package supplier is the agent of a supplier: it asks for the Incoterm and answers
// with a quote.
package supplier

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// Card is the card of the agent.
func Card() handoff.Card {
	card := handoff.NewCard("Supplier Quote Agent", "Quotes price and lead time for bulk orders", "2.0.0", handoff.Skill{
		ID: "bulk-quote", Name: "Bulk order quote", Description: "Negotiates a quote for 100+ units",
		Tags: []string{"quote", "procurement"}, Examples: []string{"Quote 400 units of BRG-0042, delivery Surabaya"},
	})
	card.OnInterrupt = "resume" // a quote has no effect that must not happen twice
	return card
}

type request struct {
	SKU       string `json:"sku"`
	Units     int    `json:"units"`
	DeliverTo string `json:"deliverTo"`
}

// prices of a unit in rupiah, by Incoterm.
var prices = map[string]map[string]int{
	"BRG-0042": {"FOB": 118_000, "delivered": 122_500},
}

const incoterm = `{"type":"object","properties":{"incoterm":{"type":"string","enum":["FOB","delivered"],"title":"Incoterm"}},"required":["incoterm"]}`

// Quote is the agent. The request and the answer to its question are turns of
// their own; what has to be known in both is the state of the task.
func Quote(_ context.Context, t *handoff.Turn) error {
	if t.Number == 1 {
		return ask(t)
	}
	var r request
	if err := json.Unmarshal(t.State, &r); err != nil {
		return err
	}
	var answer struct {
		Incoterm string `json:"incoterm"`
	}
	if !data(t, &answer) && strings.Contains(strings.ToLower(t.Text()), "delivered") {
		answer.Incoterm = "delivered" // words will do as well as the form
	}
	price := prices[r.SKU][answer.Incoterm]
	if price == 0 {
		return t.Ask("I can quote FOB or delivered. Which one?", a2a.JSON(incoterm))
	}
	document, err := json.Marshal(map[string]any{
		"sku": r.SKU, "units": r.Units, "deliverTo": r.DeliverTo, "incoterm": answer.Incoterm,
		"unitPrice": price, "currency": "IDR", "leadTimeDays": 14,
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "quote", Name: "Quote", Parts: []a2a.Part{a2a.Data(document)}, Last: true}})
}

func ask(t *handoff.Turn) error {
	var r request
	if !data(t, &r) || r.Units < 100 || prices[r.SKU] == nil {
		return t.Reject("I quote 100 units or more of what I have, as data: sku, units, deliverTo.")
	}
	state, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := t.SetState(state); err != nil {
		return err
	}
	return t.Ask("Incoterm? FOB or delivered?", a2a.JSON(incoterm))
}

// data reads the first data part of the newest message.
func data(t *handoff.Turn, into any) bool {
	if len(t.Messages) == 0 {
		return false
	}
	for _, p := range t.Messages[len(t.Messages)-1].Parts {
		if p.Kind == a2a.PartData {
			return json.Unmarshal(p.Data, into) == nil
		}
	}
	return false
}
