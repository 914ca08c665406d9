package api

import (
	"context"
	"errors"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcpgw/policy"
)

// Tools are what is known of tool servers.
type Tools interface {
	// Reports returns what is known of the servers, without asking them.
	Reports() []policy.ServerReport
	// Seen returns the tools that a caller sees at an endpoint, and Explain what
	// becomes of calls of one.
	Seen(ctx context.Context, q policy.Question) ([]policy.SeenTool, error)
	Explain(ctx context.Context, q policy.Question) ([]policy.Explanation, error)
	// Held returns the definitions that wait for approval, and Approve takes one.
	Held(ctx context.Context) ([]policy.Held, error)
	Approve(ctx context.Context, server, tool, digest, by string) error
}

var errNoTools = a2a.Errorf(a2a.CodeUnsupportedOperation, "This node has no tool servers; put them below mcp.servers in its configuration")

// tools returns what is known of tool servers.
func (c *call) tools() (Tools, error) {
	if c.h.opts.Tools == nil {
		return nil, errNoTools
	}
	return c.h.opts.Tools, nil
}

// toolError makes an error of the gateway one of the protocol.
func toolError(err error) error {
	switch {
	case errors.Is(err, policy.ErrNoEndpoint):
		return a2a.Errorf(a2a.CodeTaskNotFound, "There is no such endpoint for this caller")
	case errors.Is(err, policy.ErrNotHeld):
		return a2a.Errorf(a2a.CodeTaskNotFound, "No such definition waits for approval; `handoff mcp held` lists those that do")
	}
	return err
}

// listToolServers returns what is known of the tool servers.
func (c *call) listToolServers() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	t, err := c.tools()
	if err != nil {
		return nil, err
	}
	return struct {
		Servers []policy.ServerReport `json:"servers"`
	}{t.Reports()}, nil
}

// question reads for whom is asked, and at which endpoint.
func (c *call) question(names ...string) (*policy.Question, error) {
	q := c.query(append(names, "as", "role", "tenant", "scopes", "server", "set")...)
	get := q.values.Get
	role := auth.RoleCaller
	if text := get("role"); text != "" {
		var ok bool
		if role, ok = auth.ParseRole(text); !ok {
			q.bad("role", "is none, viewer, caller, operator or admin")
		}
	}
	if get("server") != "" && get("set") != "" {
		q.bad("set", "is given besides server")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	return &policy.Question{
		Tool: get("tool"), Server: get("server"), Set: get("set"),
		Caller: &auth.Principal{Subject: get("as"), Tenant: get("tenant"), Role: role, Scopes: strings.Fields(get("scopes"))},
	}, nil
}

// listTools returns the tools that somebody sees.
func (c *call) listTools() (any, error) {
	q, err := c.question("tool")
	if err != nil {
		return nil, err
	}
	t, err := c.tools()
	if err != nil {
		return nil, err
	}
	list, err := t.Seen(c.context(), *q)
	if err != nil {
		return nil, toolError(err)
	}
	return struct {
		Tools []policy.SeenTool `json:"tools"`
	}{list}, nil
}

// explainTool says what becomes of calls of a tool by somebody.
func (c *call) explainTool() (any, error) {
	q, err := c.question("tool")
	switch {
	case err != nil:
		return nil, err
	case q.Tool == "":
		return nil, a2a.Invalid("tool", "is required")
	}
	t, err := c.tools()
	if err != nil {
		return nil, err
	}
	list, err := t.Explain(c.context(), *q)
	if err != nil {
		return nil, toolError(err)
	}
	return struct {
		Explanations []policy.Explanation `json:"explanations"`
	}{list}, nil
}

// listHeldTools returns the definitions that wait for approval.
func (c *call) listHeldTools() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	t, err := c.tools()
	if err != nil {
		return nil, err
	}
	list, err := t.Held(c.context())
	if err != nil {
		return nil, err
	}
	return struct {
		Held []policy.Held `json:"held"`
	}{append([]policy.Held{}, list...)}, nil
}

// approveTool takes a definition that waits.
func (c *call) approveTool() (any, error) {
	var q struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
		Digest string `json:"digest"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	switch {
	case q.Server == "":
		return nil, a2a.Invalid("server", "is required")
	case q.Tool == "":
		return nil, a2a.Invalid("tool", "is required")
	}
	t, err := c.tools()
	if err != nil {
		return nil, err
	}
	c.target = clip(q.Server+"/"+q.Tool, maxNote)
	if err := t.Approve(c.context(), q.Server, q.Tool, q.Digest, c.caller.Subject); err != nil {
		return nil, toolError(err)
	}
	return nil, nil
}
