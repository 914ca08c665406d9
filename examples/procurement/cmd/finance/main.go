// Command finance is the node of a finance team, with its agent.
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
	"handoff.example/handoff/examples/procurement/finance"
	"handoff.example/handoff/examples/procurement/toolclient"
)

func main() {
	file := flag.String("c", "examples/procurement/finance.yaml", "the configuration `file`")
	books := flag.String("books", "http://127.0.0.1:8087/mcp", "the `URL` of finance's own MCP server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, toolclient.Server{URL: *books, Key: os.Getenv("BOOKS_KEY")}); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file string, books toolclient.Server) error {
	config, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(config, handoff.Options{})
	if err != nil {
		return err
	}
	if err := node.Handle("finance", finance.Card(), finance.Creditor{Books: books}.Credit); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	return node.ListenAndServe(ctx)
}
