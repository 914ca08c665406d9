package handoff_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// A purchase order is handed to the agent of a supplier, which asks something
// back. The handle is found again by the number of the order, also by another
// process.
func ExampleNode_Delegate() {
	supplier, stop := supplierNode()
	defer stop()

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite:" + filepath.Join(dir, "tasks.db")
	cfg.Peers = map[string]*handoff.Peer{"supplier": handoff.NewPeer(supplier + "/agents/quote/")}
	node, err := handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer node.Shutdown(context.Background())

	ctx := context.Background()
	order, err := node.Delegate(ctx, handoff.Delegation{
		To: "supplier", Ref: "PO-2026-0184", Message: client.NewMessage(a2a.Text("Quote 400 units of BRG-0042")),
	})
	if err != nil {
		panic(err)
	}
	task, err := order.Wait(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(task.Status.State, task.Status.Message.Text())

	order, err = node.Delegation(ctx, "PO-2026-0184")
	if err != nil {
		panic(err)
	}
	if err := order.Send(ctx, a2a.Text("delivered")); err != nil {
		panic(err)
	}
	if task, err = order.Wait(ctx); err != nil {
		panic(err)
	}
	fmt.Println(task.Status.State, task.Artifacts[0].Parts[0].Text)
	// Output:
	// TASK_STATE_INPUT_REQUIRED Incoterm? FOB or delivered?
	// TASK_STATE_COMPLETED 400 units, delivered: 4,200 EUR
}

// supplierNode is the node of somebody else, with an agent that asks once.
func supplierNode() (url string, stop func()) {
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite::memory:"
	node, err := handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	card := handoff.NewCard("Quotes", "Quotes bulk orders.", "1.0.0", handoff.Skill{
		ID: "quote", Name: "Quote", Description: "Quotes an order of 100 units or more.", Tags: []string{"procurement"},
	})
	err = node.Handle("quote", card, func(_ context.Context, t *handoff.Turn) error {
		if t.Number == 1 {
			return t.Ask("Incoterm? FOB or delivered?", nil)
		}
		return t.Artifact(a2a.Text("400 units, " + t.Text() + ": 4,200 EUR"))
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(node)
	return server.URL, func() {
		server.Close()
		_ = node.Shutdown(context.Background())
	}
}
