// Command buyer is the node of a company that buys: its agent asks a supplier for
// a quote and finance for the credit, and keeps the order in the ERP system.
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
	"time"

	"handoff.example/handoff"
)

func main() {
	file := flag.String("c", "examples/procurement/handoff.yaml", "the configuration `file`")
	erp := flag.String("erp", "examples/procurement/erp.db", "the `file` of the ERP system")
	desk := flag.String("desk", "127.0.0.1:8083", "the `address` at which orders are shown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *erp, *desk); err != nil {
		log.Fatal(err)
	}
}

type buyer struct {
	node *handoff.Node
	erp  *erp
}

func serve(ctx context.Context, file, erpFile, desk string) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	erp, err := openERP(ctx, erpFile)
	if err != nil {
		return err
	}
	defer erp.db.Close()
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	b := &buyer{node, erp}
	card := handoff.NewCard("Procurement Agent", "Buys what a warehouse needs, as a draft that people post", "3.1.0", handoff.Skill{
		ID: "buy", Name: "Buy", Description: "Gets a quote and the credit for a purchase order", Tags: []string{"procurement", "erp"},
		Examples: []string{"Order 400 units of BRG-0042 for SBY, PO-2026-0184"},
	})
	card.OnInterrupt = "resume" // a turn that runs again finds the order that it has made
	if err := node.Handle("procurement", card, b.plan); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	show := &http.Server{Addr: desk, Handler: b.desk(), ReadHeaderTimeout: 5 * time.Second}
	defer show.Close()
	go func() {
		if err := show.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	return node.ListenAndServe(ctx)
}
