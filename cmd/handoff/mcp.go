package main

import "github.com/spf13/cobra"

func newMCPCommand(a *app) *cobra.Command {
	cmd := newGroup("mcp", "Call tools, and serve them to programs")
	cmd.Long = `Call the tools that a node has at /mcp, and serve them to programs on this machine.
The node is named as for admin: over its admin socket, or with --node or
HANDOFF_NODE and the rights of HANDOFF_TOKEN.`
	cmd.AddCommand(
		newMCPListCommand(a), newMCPCallCommand(a), newMCPReadCommand(a), newMCPPromptCommand(a), newMCPTasksCommand(a), newMCPServeCommand(a),
	)
	return cmd
}
