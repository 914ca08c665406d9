package mcpgw

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// checkParams holds the Mcp-Param headers of a call against its arguments.
func (x *exchange) checkParams(c *call) error {
	if c.method != mcp.MethodCallTool || c.target.Definition == nil || x.old {
		return nil
	}
	var tool struct {
		Schema jsontext.Value `json:"inputSchema"`
	}
	if json.Unmarshal(c.target.Definition, &tool) != nil {
		return nil
	}
	return upstream.CheckParamHeaders(tool.Schema, c.message.Text(c.message.Args), x.r.Header)
}
