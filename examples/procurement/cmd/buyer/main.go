// Command buyer is the node of a company that buys, with its agent and a desk at
// which its orders are shown.
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
	"handoff.example/handoff/examples/procurement/buyer"
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

func serve(ctx context.Context, file, requests, desk string, tools toolclient.Server) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	b, err := buyer.Open(ctx, requests, tools)
	if err != nil {
		return err
	}
	defer b.Close()
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	if err := node.Handle("procurement", buyer.Card(), b.Plan); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	show := &http.Server{Addr: desk, Handler: b.Desk(node), ReadHeaderTimeout: 5 * time.Second}
	defer show.Close()
	go func() {
		if err := show.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	return node.ListenAndServe(ctx)
}
