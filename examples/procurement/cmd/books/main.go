// Command books is an MCP server of the finance team: the credit that it has granted.
// Only finance's agent has its key. The buyer's node does not know that it is there.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"handoff.example/handoff/examples/procurement/books"
	"handoff.example/handoff/examples/procurement/toolserver"
)

func main() {
	file := flag.String("books", "examples/procurement/books.db", "the `file` of the books")
	address := flag.String("listen", "127.0.0.1:8087", "the `address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *address); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file, address string) error {
	b, err := books.Open(ctx, file)
	if err != nil {
		return err
	}
	defer b.Close()
	return toolserver.Serve(ctx, "books", address, os.Getenv("BOOKS_KEY"), books.New(b))
}
