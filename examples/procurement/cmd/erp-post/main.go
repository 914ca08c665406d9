// Command erp-post is an MCP server over HTTP that posts what has been drafted. It is
// for people: it has an address and a key of its own, no configuration of a node
// names either, and each call says in whose name it is.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/erppost"
	"handoff.example/handoff/examples/procurement/toolserver"
)

func main() {
	file := flag.String("erp", "examples/procurement/erp.db", "the `file` of the ERP system")
	address := flag.String("listen", "127.0.0.1:8086", "the `address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *address); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file, address string) error {
	system, err := erp.Open(ctx, file)
	if err != nil {
		return err
	}
	defer system.Close()
	return toolserver.Serve(ctx, "erp-post", address, os.Getenv("ERP_POST_KEY"), erppost.New(system))
}
