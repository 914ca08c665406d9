package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newReloadCommand(a *app) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use: "reload", Short: "Let a node read its configuration again",
		Long: `Let a running node put its configuration file into effect, without dropping a
request: turns keep what they began with. A file that is wrong, or that changes
what needs a restart, changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tellProblems(a.reload(cmd.Context(), &f))
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) reload(ctx context.Context, f *apiFlags) error {
	node, err := a.openNode(f)
	if err != nil {
		return err
	}
	defer node.close()
	var answer struct {
		Changes []struct{ Path, Old, New string }
	}
	value, err := node.get(ctx, "POST", "/reload", struct{}{}, &answer)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	for _, c := range answer.Changes {
		switch {
		case c.Old == "":
			p.field(c.Path, c.New)
		case c.New == "":
			p.field(c.Path, "removed")
		case c.Old == c.New:
			p.field(c.Path, "changed") // a secret
		default:
			p.field(c.Path, c.Old+" -> "+c.New)
		}
	}
	if len(answer.Changes) == 0 {
		p.write("Nothing has changed.\n")
	}
	return p.err
}
