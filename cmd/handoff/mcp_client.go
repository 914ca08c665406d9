package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcp/client"
)

// mcpFlags say which endpoint of a node is meant.
type mcpFlags struct {
	server string
	set    string
}

func (f *mcpFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "server", "", "only what this tool server has, at /mcp/SERVER")
	cmd.Flags().StringVar(&f.set, "set", "", "only what this set has, at /mcp/s/SET")
	cmd.MarkFlagsMutuallyExclusive("server", "set")
}

// path returns the path of the endpoint.
func (f *mcpFlags) path() string {
	switch {
	case f.server != "":
		return "/mcp/" + url.PathEscape(f.server)
	case f.set != "":
		return "/mcp/s/" + url.PathEscape(f.set)
	}
	return "/mcp"
}

// mcpCapabilities are those of the command line. Forms are among them without a
// terminal too: what a task asks can be answered later.
const mcpCapabilities = `{"elicitation":{"form":{},"url":{}},"extensions":{"` + mcp.ExtensionTasks + `":{}}}`

// mcpClient is a client of an endpoint of a node.
type mcpClient struct {
	*client.Client
	node *nodeAPI
}

func (a *app) openMCP(node *nodeAPI, f *mcpFlags) *mcpClient {
	c := &client.Client{
		URL: node.base + f.path(), HTTP: node.http, Header: http.Header{}, Name: "handoff", Version: versionText(),
		Capabilities: jsontext.Value(mcpCapabilities),
	}
	if node.token != "" {
		c.Header.Set("Authorization", "Bearer "+node.token)
	}
	return &mcpClient{c, node}
}

// call is Call with errors for people.
func (c *mcpClient) call(ctx context.Context, method string, params client.Params, notify client.Notify) (jsontext.Value, error) {
	result, err := c.Call(ctx, method, params, notify)
	if err == nil || ctx.Err() != nil {
		return result, errors.Join(ctx.Err(), err)
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return nil, mcpFailure(e, method)
	}
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		if e.Status == http.StatusNotFound {
			return nil, failf(codeNotFound, "the node has no tools at %s", c.URL).hint("Put tool servers below mcp.servers: in its configuration; the names of --server and --set are from there")
		}
		return nil, c.node.refused("/mcp", e.Status, []byte(e.Body))
	}
	return nil, c.node.unreachable(err)
}

// mcpFailure tells an error of the protocol.
func mcpFailure(e *mcp.Error, method string) error {
	code := codeRefused
	hint := ""
	switch {
	case e.Status == http.StatusUnauthorized:
		f := failf(codeAuthFailed, "%w", e).hint("Set HANDOFF_TOKEN to an API key of a caller (handoff keys create), or run the command on the node's machine, where the admin socket is")
		f.Message = e.Message
		return f
	case e.Code == mcp.CodeInvalidParams && strings.HasPrefix(method, "tasks/"):
		code, hint = codeNotFound, "A task is known to nobody but the caller whose call it was, and only for mcp.task_ttl"
	case e.Code == mcp.CodeInvalidParams:
		code, hint = codeNotFound, "See what there is with: handoff mcp list"
	}
	switch e.Code {
	case mcp.CodeIdempotencyConflict:
		hint = "Take another key for another call"
	case mcp.CodeInternal:
		code = codeInternal
	case mcp.CodeDenied:
		hint = "See why with: handoff mcp explain TOOL"
	case mcp.CodeKeyRequired:
		hint = "Give the call a key of its own with --key; the same key again gives the same result"
	case mcp.CodeApprovalPending:
		hint = "It waits in the inbox: handoff inbox list; call again with the same --key"
	case mcp.CodeMissingCapability:
		hint = "A person has to answer: run the command on a terminal"
	case mcp.CodeUnavailable, mcp.CodeTimeout:
		code = codeUnreachable
	case mcp.CodeOutcomeUnknown:
		hint = "Look at what the tool has done before you call it again"
	}
	f := failf(code, "%w", e)
	f.Message = e.Message
	f.Hint = hint
	return f
}

// mcpPages asks for a list until there are no more pages.
func (c *mcpClient) pages(ctx context.Context, method, key string) ([]jsontext.Value, error) {
	var all []jsontext.Value
	params := client.Params{}
	for range 1000 {
		result, err := c.call(ctx, method, params, nil)
		if err != nil {
			return nil, err
		}
		var page map[string]jsontext.Value
		var items []jsontext.Value
		if json.Unmarshal(result, &page) != nil || json.Unmarshal(page[key], &items) != nil {
			return nil, failf(codeInternal, "the list of the node is not understood")
		}
		all = append(all, items...)
		var cursor string
		if page["nextCursor"] == nil || json.Unmarshal(page["nextCursor"], &cursor) != nil {
			return all, nil
		}
		params["cursor"] = cursor
	}
	return all, nil
}

// mcpTool is what is shown of a tool, a prompt or a resource.
type mcpTool struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	URI         string         `json:"uri"`
	Template    string         `json:"uriTemplate"`
	Schema      jsontext.Value `json:"inputSchema"`
	Output      jsontext.Value `json:"outputSchema"`
}

var mcpLists = map[string]struct{ method, key string }{
	"tools":     {mcp.MethodListTools, "tools"},
	"prompts":   {mcp.MethodListPrompts, "prompts"},
	"resources": {mcp.MethodListResources, "resources"},
	"templates": {mcp.MethodListTemplates, "resourceTemplates"},
}

func newMCPListCommand(a *app) *cobra.Command {
	var f mcpFlags
	kinds := []string{"tools", "prompts", "resources", "templates"}
	cmd := adminCommand(a, "list [tools|prompts|resources|templates]", "List the tools of a node, or its prompts or resources", cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), func(ctx context.Context, node *nodeAPI, args []string) error {
		kind := "tools"
		if len(args) > 0 {
			kind = args[0]
		}
		list := mcpLists[kind]
		items, err := a.openMCP(node, &f).pages(ctx, list.method, list.key)
		if err != nil {
			return err
		}
		if a.output != formatText {
			value, err := json.Marshal(items)
			if err != nil {
				return err
			}
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for _, item := range items {
			var t mcpTool
			if json.Unmarshal(item, &t) != nil {
				continue
			}
			what := t.Title
			if what == "" || what == t.Name {
				what, _, _ = strings.Cut(t.Description, "\n")
			}
			name := t.Name
			if t.URI+t.Template != "" {
				name = t.URI + t.Template
			}
			p.write(oneLine(name) + "\n")
			if what != "" {
				p.write("  " + oneLine(what) + "\n")
			}
		}
		if len(items) == 0 {
			p.write("There are no " + kind + ".\n")
		}
		return p.err
	})
	cmd.ValidArgs = kinds
	cmd.Long = `List what a node offers to clients of MCP: with the rights of an admin over its
admin socket, or of HANDOFF_TOKEN with --node.`
	cmd.Example = `  handoff mcp list
  handoff mcp list prompts --server erp-read
  handoff mcp list -o json`
	f.register(cmd)
	return cmd
}
