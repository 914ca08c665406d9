package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
)

func newConsoleCommand(a *app) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use: "console", Short: "Print a link that signs you in to the web console",
		Long: `Print a link that signs you in to the console of a node as an admin. It works
once, within ten minutes, in a browser on the machine of the node. The link is
made over the admin socket.`,
		Example: "  handoff console\n  xdg-open \"$(handoff console)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tellProblems(a.console(cmd.Context(), &f))
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) console(ctx context.Context, f *apiFlags) error {
	node, err := a.openNode(f)
	if err != nil {
		return err
	}
	defer node.close()
	var answer struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires"`
	}
	value, err := node.get(ctx, "POST", "/console-links", struct{}{}, &answer)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	p.write(answer.URL + "\n")
	return p.err
}

// printConsole says where the console of a node is that is about to serve. Who
// reads it on the machine of a node that only this machine reaches may sign in.
func (a *app) printConsole(ctx context.Context, node *handoff.Node, log *slog.Logger, base string, address net.Addr) {
	c := node.Config()
	at, err := netip.ParseAddrPort(address.String())
	if err != nil || !c.Console.Enabled || !at.Addr().Unmap().IsLoopback() {
		return
	}
	if node.Start(context.WithoutCancel(ctx)) != nil {
		return // Serve says what is wrong
	}
	link, expires, err := node.ConsoleLink(ctx, base)
	switch {
	case err != nil:
		log.Warn("There is no link to the console", "error", err)
	case c.Log.Format == "text":
		p := printer{w: a.stderr}
		p.write("Console: " + link + " (works once, until " + expires.In(a.location).Format("15:04") + ")\n")
	default:
		log.Info("The console is open to whoever has this address, once", "address", link, "expires", expires)
	}
}
