package mcpgw

import (
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// checkParams holds the Mcp-Param headers of a call against its arguments.
func (x *exchange) checkParams(c *call) error {
	if c.method != mcp.MethodCallTool || len(c.target.Params) == 0 || x.old {
		return nil
	}
	return upstream.CheckParamHeaders(c.target.Params, c.message.Text(c.message.Args), x.r.Header)
}
