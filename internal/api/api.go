// Package api is the node's own REST API, below /api/v1/: what the command line
// and a console need to see, and to settle, on a node. openapi.yaml describes
// it; a test holds the two together.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// Prefix is the path below which the API is.
const Prefix = "/api/v1"

// Options are what the API runs on.
type Options struct {
	Engine *engine.Engine
	Auth   auth.Authenticator
	Logger *slog.Logger // nil: slog.Default()
	// Version is that of the program.
	Version string
	// Config returns the configuration in force, Reload reads it again.
	Config func() *config.Config
	Reload func() ([]config.Change, error)
	// Backup writes a consistent copy of the store to a new file.
	Backup func(ctx context.Context, file string) error
	// Nodes returns the nodes of the store.
	Nodes func(ctx context.Context) ([]store.Node, error)
	// Seals returns what is sealed with which key, nil when there is nothing to
	// say; nil: there is nothing.
	Seals func() *SealState
	// Bus returns how the bus is, nil when there is none; nil: there is none.
	Bus func() *bus.State
	// Keys are the API keys of the node; nil: there are none.
	Keys *auth.Keys
	// Delegator hands work to other agents, and Delegations keeps it; nil: nobody
	// does.
	Delegator   Delegator
	Delegations store.Delegations
	// Store is what is kept of tasks, read in the scope of each caller.
	Store store.Store
	// Changes says what changes while it does; nil: nobody does.
	Changes *changes.Feed
	// Card returns the card of an agent as it is served below a base URL, signed
	// when cards are; nil: cards are not signed.
	Card func(id, tenant, base string) (body []byte, ok bool, err error)
	// Gateway serves the endpoints of MCP to callers of auth.WithCaller; nil: there
	// are none.
	Gateway func() http.Handler
	// Webhooks delivers events to webhooks; nil: nobody does.
	Webhooks *push.Service
	// Peers are the agents elsewhere that work is handed to; nil: there are none.
	Peers *peer.Directory
	// Tools are the servers of tools behind the gateway; nil: there are none.
	Tools Tools
	// Inbox is what waits for people.
	Inbox *inbox.Service
	// Audit records who did what; nil: nobody does.
	Audit *audit.Log
	// Limited is told of every request that a limit has refused; nil: nobody.
	Limited func(limit string)
	// Metrics serves what there is to measure; nil: nothing.
	Metrics http.Handler
	// ConsoleLink makes a link that signs its reader in to the console, once; nil:
	// there is no console.
	ConsoleLink func(ctx context.Context) (link string, expires time.Time, err error)
	// Base returns the URL at which this machine reaches the node, without a
	// slash at its end, for requests that come over the admin socket; nil:
	// made of the configuration.
	Base func() string
}

// Bounds of requests.
const (
	maxBody        = 256 << 10
	bodyTimeout    = 30 * time.Second
	maxNote        = 4 << 10 // bytes
	maxPath        = 4 << 10 // bytes of the name of a backup
	maxGrants      = 1000    // requests in one answer
	maxPartBytes   = 1 << 30
	maxFollows     = 256 // logs that are followed at once
	maxFollowsEach = 32  // of them by one caller
	defaultPage    = 50  // tasks
)

type handler struct {
	opts    Options
	log     *slog.Logger
	origins *http.CrossOriginProtection
	follows places
}

// New returns a handler of everything below /api/v1/.
func New(opts Options) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &handler{
		opts: opts, log: opts.Logger,
		origins: http.NewCrossOriginProtection(), follows: places{of: map[string]int{}},
	}
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(h, w, r)
	defer c.end()
	operation, allow := route(r)
	switch {
	case operation != nil:
		c.operation = operation
		c.serve()
	case allow == "":
		c.refuseHTTP(http.StatusNotFound, "NOT_FOUND", "There is nothing at "+clip(r.URL.Path, 200)+"; "+Prefix+"/openapi.json says what there is")
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow)
		c.send(http.StatusNoContent, "", nil)
	default:
		w.Header().Set("Allow", allow)
		c.refuseHTTP(http.StatusMethodNotAllowed, "UNIMPLEMENTED", "The HTTP method "+clip(r.Method, 32)+" is not allowed here; use "+allow)
	}
}
