// Command buyer is the node of a company that buys: its agent asks a supplier for
// a quote and finance for the credit, and makes a draft in the ERP system, which it
// reaches through the gateway and no other way.
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
	"handoff.example/handoff/examples/procurement/toolclient"
)

func main() {
	file := flag.String("c", "examples/procurement/handoff.yaml", "the configuration `file`")
	requests := flag.String("requests", "examples/procurement/requests.db", "the `file` of what is to be bought")
	gateway := flag.String("gateway", "http://127.0.0.1:8084/mcp", "the `URL` of the gateway, whose key is in GATEWAY_KEY")
	desk := flag.String("desk", "127.0.0.1:8083", "the `address` at which orders are shown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *requests, *desk, toolclient.Server{URL: *gateway, Key: os.Getenv("GATEWAY_KEY")}); err != nil {
		log.Fatal(err)
	}
}

type buyer struct {
	node     *handoff.Node
	requests *requests
	tools    toolclient.Server
}

func serve(ctx context.Context, file, requestsFile, desk string, tools toolclient.Server) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	requests, err := openRequests(ctx, requestsFile)
	if err != nil {
		return err
	}
	defer requests.db.Close()
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	b := &buyer{node, requests, tools}
	card := handoff.NewCard("Procurement Agent", "Buys what a warehouse needs, as a draft that people post", "3.1.0", handoff.Skill{
		ID: "buy", Name: "Buy", Description: "Gets a quote and the credit for a purchase order", Tags: []string{"procurement", "erp"},
		Examples: []string{"Order 400 units of BRG-0042 for SBY, PO-2026-0184"},
	})
	card.OnInterrupt = "resume" // a turn that runs again finds the request that it has made
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
