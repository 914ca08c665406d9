// Command erp-draft is an MCP server over stdio that makes drafts in the ERP system,
// which people post, and values the stock. It posts nothing.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/erpdraft"
)

func main() {
	file := flag.String("erp", "examples/procurement/erp.db", "the `file` of the ERP system")
	pace := flag.Duration("pace", 0, "how long the valuation of an article takes at least")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *file, *pace); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, file string, pace time.Duration) error {
	system, err := erp.Open(ctx, file)
	if err != nil {
		return err
	}
	defer system.Close()
	return erpdraft.New(system, pace).Run(ctx, &mcp.StdioTransport{})
}
