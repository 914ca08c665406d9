// Package mcpgw is the gateway in front of tool servers: one endpoint of the Model
// Context Protocol for many servers, one for each of them, and one for each set.
//
// A request goes one way: the edge reads its headers and finds out who calls, the
// catalog says what its name stands for, policy admits it before its body is read
// and looks at its arguments afterwards, and it is handed to its server as it is.
// Inside, everything is revision 2026-07-28: legacy clients are turned into modern
// ones at this rim, legacy servers at that of package upstream.
package mcpgw

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// Endpoint is one of the gateway's: /mcp for all servers, /mcp/{server} for one, or
// /mcp/s/{set} for a set.
type Endpoint struct {
	Server string
	Set    string
}

// Path returns the path of the endpoint.
func (e Endpoint) Path() string {
	switch {
	case e.Server != "":
		return Path + "/" + e.Server
	case e.Set != "":
		return Path + "/s/" + e.Set
	}
	return Path
}

// Path is where the gateway is.
const Path = "/mcp"

// View is what the catalog is asked from: an endpoint, by a caller.
type View struct {
	Endpoint Endpoint
	Caller   *auth.Principal
}

// Catalog knows what the servers have, and what of it a caller may know. Its
// methods do no I/O where what they need is fresh.
type Catalog interface {
	// Known reports whether the endpoint is there for the caller.
	Known(v View) bool
	// Find returns what a name of a tool or a prompt, or the URI of a resource,
	// stands for. The method is that of the request (tools/call, prompts/get,
	// resources/read, resources/subscribe, completion/complete). What is hidden and
	// what is not there are the same *mcp.Error.
	Find(ctx context.Context, v View, method, name string) (*Target, error)
	// List returns the result of a list method: a page with resultType, ttlMs and
	// cacheScope. A _meta stands first in it.
	List(ctx context.Context, v View, method, cursor string) (jsontext.Value, error)
	// Discover returns the result of server/discover without _meta.
	Discover(ctx context.Context, v View) (jsontext.Value, error)
	// Servers returns the servers of the endpoint, by name.
	Servers(v View) []upstream.Server
	// May reports whether the caller may hear of a change: of the list of that kind
	// of a server, or of the resource with that URI of it.
	May(v View, server, notification, uri string) (exposedURI string, ok bool)
	// Changed says that a server has told of a change, so that what is kept of it is
	// stale (CCH-08).
	Changed(server, notification string)
}

// Target is what a name stands for.
type Target struct {
	Server  upstream.Server
	Name    string // as the server has it
	Exposed string // as the client has it
	// Definition is that of the tool or prompt as the client sees it; nil where there
	// is none, as for a resource.
	Definition jsontext.Value
	// Params are the arguments of the tool that go into headers.
	Params []mcp.Param
	// Local, when it is set, answers in place of the server: a tool of the gateway's
	// own, such as find_tools. The params are those of the call. Answer is the result,
	// or else Redirect is the call that is meant (call_tool), which is begun anew with
	// that name and those arguments.
	Local func(ctx context.Context, params jsontext.Value) (answer jsontext.Value, redirect *Redirect, err error)
	Rules Rules
}

// Redirect is another call that is meant.
type Redirect struct {
	Name      string
	Arguments jsontext.Value
}

// Rules is what policy says of calls of one target by one caller.
type Rules interface {
	// Admit takes a place for a call before its body is read. It refuses what is
	// denied, too often or too much at once with an *mcp.Error, and a caller that
	// lacks scopes with a *ScopeError. Release is called when the call is over.
	Admit(ctx context.Context) (release func(), err error)
	// Terms looks at the arguments of a call (nil: none) and its idempotency key, and
	// says how it is made. It refuses with an *mcp.Error, or with a *Result for
	// arguments that do not fit the schema of the tool (TOL-03).
	Terms(ctx context.Context, arguments jsontext.Value, key string) (*Terms, error)
}

// Terms are how an allowed call is made.
type Terms struct {
	Key         string // idempotency key; "": none
	Approve     string // why a person has to approve; "": nobody has to
	Idempotent  bool   // may be made again after a crash
	Recorded    bool   // the audit row is committed before the call is made
	Timeout     time.Duration
	Task        bool          // becomes a task
	TaskAfter   time.Duration // with Task: how long its client waits for the result first
	HandleAfter time.Duration // 0: never
}

// Kept reports whether the call has to survive a crash.
func (t *Terms) Kept() bool { return t.Key != "" || t.Approve != "" || t.Task }

// ScopeError says that the caller's credential lacks scopes (AUT-10).
type ScopeError struct {
	Scopes  []string // all that the operation needs
	Message string
}

// Error returns the message.
func (e *ScopeError) Error() string { return e.Message }

// Result is an error that is told as the result of a tool, so that a model sees it.
type Result struct{ Message string }

// Error returns the message.
func (e *Result) Error() string { return e.Message }

// Call is a call that is kept: it survives a crash, and is made once.
type Call struct {
	Endpoint     string
	Server       string
	Tool         string // as the server has it
	Exposed      string // as the client has called it
	Caller       *auth.Principal
	Request      *upstream.Request // tools/call
	Capabilities mcp.Capabilities
	Terms        *Terms
	TTL          time.Duration
	// UpstreamTask is the id of the task that the server has made already; "": none.
	UpstreamTask string
}

// Calls keeps calls. A task that is unknown, and one of somebody else, are the same
// *mcp.Error (TSK-12, TSK-18).
type Calls interface {
	// Start keeps a call and begins it. It is durable when Start returns (TSK-05). A
	// key that is known gives the task that has it; with another call it is
	// CodeIdempotencyConflict.
	Start(ctx context.Context, c *Call) (*mcp.Task, error)
	// Await returns the task when it is over or asks for input, or as it is when ctx
	// ends.
	Await(ctx context.Context, p *auth.Principal, id string) (*mcp.Task, error)
	Get(ctx context.Context, p *auth.Principal, id string) (*mcp.Task, error)
	// Update answers what a task asks: an object of responses by their keys.
	Update(ctx context.Context, p *auth.Principal, id string, responses jsontext.Value) error
	Cancel(ctx context.Context, p *auth.Principal, id string) error
	// Watch sends the task after each change, until it is over or ctx ends, and closes
	// the channel.
	Watch(ctx context.Context, p *auth.Principal, id string) (<-chan *mcp.Task, error)
}
