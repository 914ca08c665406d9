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

// An agent as a Go function: it asks once, and answers with an artifact.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cfg := handoff.DefaultConfig()
	cfg.Store = "sqlite:" + filepath.Join(dir, "tasks.db")
	node, err := handoff.New(cfg, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer node.Shutdown(context.Background())

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
	defer server.Close()

	ctx := context.Background()
	c, err := client.Dial(ctx, server.URL+"/agents/quote/", client.Options{})
	if err != nil {
		panic(err)
	}
	asked, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("Quote 400 units of BRG-0042"))})
	if err != nil {
		panic(err)
	}
	fmt.Println(asked.Task.Status.State, asked.Task.Status.Message.Text())
	done, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.FollowUp(asked.Task, a2a.Text("delivered"))})
	if err != nil {
		panic(err)
	}
	fmt.Println(done.Task.Status.State, done.Task.Artifacts[0].Parts[0].Text)
	// Output:
	// TASK_STATE_INPUT_REQUIRED Incoterm? FOB or delivered?
	// TASK_STATE_COMPLETED 400 units, delivered: 4,200 EUR
}
