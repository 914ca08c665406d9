package handoff_test

import (
	"context"
	"fmt"
	"log/slog"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// What agents wait for people for is in the inbox of the node: a question, and then
// an authorization of one operation.
func ExampleNode_Inbox() {
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite::memory:"
	node, err := handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer node.Shutdown(context.Background())
	card := handoff.NewCard("Buyer", "Orders.", "1.0.0", handoff.Skill{ID: "order", Name: "Order", Description: "Orders goods.", Tags: []string{"procurement"}})
	err = node.Handle("buyer", card, func(_ context.Context, t *handoff.Turn) error {
		switch {
		case t.Grant != nil && t.Grant.Approved:
			return t.Artifact(a2a.Text("ordered (" + t.Grant.Note + ")"))
		case t.Grant != nil:
			return t.Reject("not ordered: " + t.Grant.Note)
		case t.Number == 1:
			return t.Ask("How many?", nil)
		}
		return t.Authorize("Order "+t.Text()+" for 840 EUR?", "order")
	})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	order, err := node.Delegate(ctx, handoff.Delegation{To: "buyer", Ref: "PO-7", Message: client.NewMessage(a2a.Text("bearings"))})
	if err != nil {
		panic(err)
	}
	for {
		task, err := order.Wait(ctx)
		if err != nil {
			panic(err)
		}
		if task.Status.State.Terminal() {
			fmt.Println(task.Status.State, task.Artifacts[0].Parts[0].Text)
			break
		}
		items, err := node.Inbox().List(ctx, handoff.InboxQuery{Task: order.ID()})
		if err != nil {
			panic(err)
		}
		for _, item := range items {
			fmt.Println(item.Kind, item.Ref+":", item.Text)
			if item.Kind == "grant" {
				err = node.Inbox().Approve(ctx, item.ID, "ann", "within the budget")
			} else {
				err = node.Inbox().Answer(ctx, item.ID, "ann", "400")
			}
			if err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// question PO-7: How many?
	// grant PO-7: Order 400 for 840 EUR?
	// TASK_STATE_COMPLETED ordered (within the budget)
}
