package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"handoff.example/handoff/a2a"
)

// Client speaks to one agent over one of its interfaces. It is safe for use by
// several goroutines.
type Client struct {
	card    *a2a.AgentCard
	opts    Options
	routes  []*route // in the order of preference; one unless Options.Fallback is set
	current atomic.Int32
}

// request is an operation in the form of either binding.
type request struct {
	op     string // the operation, which is the method on JSON-RPC
	params appender
	header http.Header // for this request only
	result *[]byte     // gets the JSON of the result; nil: it is not asked for

	// On HTTP+JSON: the method, the path with its parts escaped, the query,
	// and whether params are the body.
	method  string
	path    string
	query   url.Values
	hasBody bool
}

// appender is a request object of the protocol.
type appender interface{ AppendJSON(dst []byte) []byte }

// Dial finds the agent that ref names and returns a client of it: Discover and
// New in one. The credentials are pinned to the origin of ref.
func Dial(ctx context.Context, ref string, opts Options) (*Client, error) {
	card, at, err := find(ctx, ref, opts)
	if err != nil {
		return nil, err
	}
	if opts.CardURL == "" {
		opts.CardURL = at
	}
	return New(card, opts)
}

// New returns a client of the agent with that card. It takes the first
// interface of the card that it speaks (A2A §8.3.2), or that Options.Transports
// prefers, and sends nothing. One of version 0.3 it takes when there is no other
// or Options.Version says so; then there is no ListTasks but over gRPC. An *InterfaceError says that there is none. The
// card is not changed and must not be changed later.
func New(card *a2a.AgentCard, opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("client options: %w", err)
	}
	interfaces, err := choose(card, opts.Transports, isVersion03(opts.Version))
	if err != nil {
		return nil, err
	}
	opts.http2 = opts.http2.of(opts.HTTPClient)
	c := &Client{card: card, opts: opts}
	for i, iface := range interfaces {
		r, err := newRoute(iface, opts)
		switch {
		case err == nil:
			c.routes = append(c.routes, r)
		case i == 0:
			return nil, fmt.Errorf("agent %q: %w", card.Name, err)
		}
		if !opts.Fallback {
			break
		}
	}
	return c, nil
}

// With returns a client of the same agent whose options change has changed, for
// limits or credentials of a single call. It shares the connections.
func (c *Client) With(change func(*Options)) (*Client, error) {
	opts := c.opts
	change(&opts)
	return New(c.card, opts)
}

// CloseIdleConnections closes the connections that no call uses: those of
// Options.HTTPClient, and those that gRPC has beside them. The client can be used
// on.
func (c *Client) CloseIdleConnections() {
	c.opts.HTTPClient.CloseIdleConnections()
	for _, r := range c.routes {
		if strings.EqualFold(r.iface.ProtocolBinding, a2a.BindingGRPC) {
			(&http.Client{Transport: c.opts.http2.transport()}).CloseIdleConnections()
			return
		}
	}
}

// Card returns the agent's card. It must not be changed.
func (c *Client) Card() *a2a.AgentCard { return c.card }

// Interface returns the interface of the card that the client uses: with
// Options.Fallback, the one that answered last.
func (c *Client) Interface() a2a.AgentInterface { return c.route().iface }

func (c *Client) route() *route { return c.routes[c.current.Load()] }

// Streams reports whether the card declares streaming.
func (c *Client) Streams() bool { return declared(c.card.Capabilities.Streaming) }

func declared(capability *bool) bool { return capability != nil && *capability }
