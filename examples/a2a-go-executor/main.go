// Command a2a-go-executor is a node whose agent was written for the SDK a2a-go.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"handoff.example/handoff"
	"handoff.example/handoff/a2ago"
)

func main() {
	file := flag.String("c", "examples/a2a-go-executor/handoff.yaml", "the configuration `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file string) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	card := handoff.NewCard("Spelling Agent", "Spells words in the NATO alphabet.", "1.0.0", handoff.Skill{
		ID: "spell", Name: "Spell", Description: "Spells a word.", Tags: []string{"text"}, Examples: []string{"dock"},
	})
	if err := node.HandleAgent("a2a-go-executor", card, a2ago.New(translator{})); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}
