package main

import "github.com/spf13/cobra"

func newMCPCommand(a *app) *cobra.Command {
	cmd := newGroup("mcp", "See, call and serve the tools behind a node")
	cmd.Long = `Call the tools that a node has at /mcp, serve them to programs on this machine, and
say who may call which. Tool servers stand in the configuration, under mcp.servers;
handoff mcp import takes them over from the file of another program.

The node is named as for admin: over its admin socket, or with --node or
HANDOFF_NODE and the rights of HANDOFF_TOKEN.`
	cmd.AddCommand(
		newMCPListCommand(a), newMCPCallCommand(a), newMCPReadCommand(a), newMCPPromptCommand(a), newMCPTasksCommand(a), newMCPServeCommand(a),
		newMCPServersCommand(a), newMCPExplainCommand(a), newMCPHeldCommand(a), newMCPApproveCommand(a), newMCPImportCommand(a),
	)
	return cmd
}
