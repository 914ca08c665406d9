// Command erp-read is an MCP server over HTTP that looks into the ERP system: stock,
// prices and orders. It has the file open for reading and can change nothing.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/erpread"
	"handoff.example/handoff/examples/procurement/toolserver"
)

func main() {
	file := flag.String("erp", "examples/procurement/erp.db", "the `file` of the ERP system")
	address := flag.String("listen", "127.0.0.1:8085", "the `address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *address); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file, address string) error {
	system, err := erp.OpenToRead(ctx, file)
	if err != nil {
		return err
	}
	defer system.Close()
	return toolserver.Serve(ctx, "erp-read", address, os.Getenv("ERP_READ_KEY"), erpread.New(system))
}
