// Command go-agent is a node whose agent is a Go function: it asks for the
// Incoterm and answers with a quote.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
)

func main() {
	file := flag.String("c", "examples/go-agent/handoff.yaml", "the configuration `file`")
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
	card := handoff.NewCard("Supplier Quote Agent", "Quotes price and lead time for bulk orders.", "2.0.0", handoff.Skill{
		ID: "bulk-quote", Name: "Bulk order quote", Description: "Quotes 100 units and more.",
		Tags:     []string{"quote", "procurement"},
		Examples: []string{"Quote 400 units of BRG-0042, delivery Surabaya"},
	})
	card.OnInterrupt = "resume" // a quote has no effect that must not happen twice
	if err := node.Handle("go-agent", card, quote); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}

var units = regexp.MustCompile(`([1-9]\d{0,6}) units`)

// quote is the agent. It is called once for each turn of a task; the first
// message and the answer to its question come in different calls, with days or a
// restart between them.
func quote(_ context.Context, t *handoff.Turn) error {
	if t.Number == 1 {
		match := units.FindStringSubmatch(t.Text())
		if match == nil {
			return t.Reject("Say how many units, such as 400 units.")
		}
		if err := t.SetState(a2a.JSON(match[1])); err != nil {
			return err
		}
		return t.Ask("Incoterm? FOB or delivered?", a2a.JSON(`{"type":"string","enum":["FOB","delivered"]}`))
	}
	n, err := strconv.Atoi(string(t.State))
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	price := n * 31
	if strings.Contains(strings.ToLower(t.Text()), "delivered") {
		price += 1800
	}
	return t.Artifact(a2a.Text(fmt.Sprintf("%d units: %d EUR, lead time 3 weeks", n, price)))
}
