// Command supplier is the node of a supplier, with its agent.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"handoff.example/handoff"
	"handoff.example/handoff/examples/procurement/supplier"
)

func main() {
	file := flag.String("c", "examples/procurement/supplier.yaml", "the configuration `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file); err != nil {
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
	if err := node.Handle("supplier", supplier.Card(), supplier.Quote); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}
