package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
)

// bindings are those that the client speaks.
var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST}

// Client speaks to one agent over one of its interfaces. It is safe for use by
// several goroutines.
type Client struct {
	card    *a2a.AgentCard
	iface   a2a.AgentInterface
	address string // of the interface, for errors
	opts    Options
	binding binding
}

// binding carries operations to the agent.
type binding interface {
	// unary decodes the answer into out, unless it is nil.
	unary(ctx context.Context, r *request, out a2a.Decodable) error
	stream(ctx context.Context, r *request) (*Stream, error)
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
// prefers, and sends nothing. One of version 0.3 it takes when there is no other;
// then there is no ListTasks. An *InterfaceError says that there is none. The
// card is not changed and must not be changed later.
func New(card *a2a.AgentCard, opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("client options: %w", err)
	}
	iface, err := choose(card, opts.Transports)
	if err != nil {
		return nil, err
	}
	address, err := parseAddress(iface.URL)
	if err != nil {
		return nil, fmt.Errorf("agent %q: %w", card.Name, err)
	}
	if err := pin(address, &opts); err != nil {
		return nil, fmt.Errorf("agent %q: %w", card.Name, err)
	}
	c := &Client{card: card, iface: iface, address: redact(address), opts: opts}
	old := isOld(iface)
	tenant := iface.Tenant
	if old {
		opts.Version, tenant = a2a.Version03.String(), "" // 0.3 has no tenants
	}
	link := newLink(opts)
	if strings.EqualFold(iface.ProtocolBinding, a2a.BindingREST) {
		c.binding = &rest{link: link, base: address, tenant: tenant, old: old}
	} else {
		c.binding = &jsonRPC{link: link, url: address, old: old}
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

// Card returns the agent's card. It must not be changed.
func (c *Client) Card() *a2a.AgentCard { return c.card }

// Interface returns the interface of the card that the client uses.
func (c *Client) Interface() a2a.AgentInterface { return c.iface }

// Streams reports whether the card declares streaming.
func (c *Client) Streams() bool { return declared(c.card.Capabilities.Streaming) }

func declared(capability *bool) bool { return capability != nil && *capability }

// InterfaceError says that the client speaks none of an agent's interfaces.
type InterfaceError struct {
	Agent   string
	Offered []a2a.AgentInterface
}

// Error names what the card offers and what the client speaks.
func (e *InterfaceError) Error() string {
	offered := make([]string, len(e.Offered))
	for i, f := range e.Offered {
		offered[i] = fmt.Sprintf("%s %s at %s", f.ProtocolBinding, f.ProtocolVersion, f.URL)
	}
	text := strings.Join(offered, ", ")
	if text == "" {
		text = "nothing"
	}
	return fmt.Sprintf("agent %q offers no interface that is spoken here (%s; protocol 1.x and 0.3); it offers %s",
		e.Agent, strings.Join(bindings, ", "), text)
}

// choose returns the interface to use: the first of the most preferred binding,
// or the first of all. Those of 0.3 count when there are no others.
func choose(card *a2a.AgentCard, preferred []string) (a2a.AgentInterface, error) {
	var spoken, old []a2a.AgentInterface
	for _, f := range card.SupportedInterfaces {
		switch {
		case !slices.ContainsFunc(bindings, sameFold(f.ProtocolBinding)):
		case speaks(f.ProtocolVersion):
			spoken = append(spoken, f)
		case isOld(f):
			old = append(old, f)
		}
	}
	if len(spoken) == 0 {
		spoken = old
	}
	if len(spoken) == 0 {
		return a2a.AgentInterface{}, &InterfaceError{Agent: card.Name, Offered: card.SupportedInterfaces}
	}
	for _, binding := range preferred {
		for _, f := range spoken {
			if strings.EqualFold(binding, f.ProtocolBinding) {
				return f, nil
			}
		}
	}
	return spoken[0], nil
}

func sameFold(a string) func(string) bool {
	return func(b string) bool { return strings.EqualFold(a, b) }
}

// parseAddress reads the address of an interface.
func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || originOf(u) == "":
		return nil, fmt.Errorf("the interface URL %q is not an absolute http or https URL", text)
	case u.User != nil:
		return nil, errors.New("the interface URL carries credentials")
	}
	u.Fragment = ""
	return u, nil
}

// pin checks that credentials may go to that address: a card could name any.
func pin(address *url.URL, opts *Options) error {
	if opts.Credentials == nil {
		return nil
	}
	if opts.CardURL == "" && len(opts.Origins) == 0 {
		return errors.New("credentials need Options.CardURL or Options.Origins, which say where they may go")
	}
	if isFileURL(opts.CardURL) && len(opts.Origins) == 0 {
		return nil // whoever keeps the file decides what it says
	}
	if origins := newOriginSet(opts); !origins.allows(address) {
		return &TransportError{
			Kind: KindRefused,
			Op:   "Connect",
			URL:  redact(address),
			Err:  fmt.Errorf("origin not allowed: the card names %s; list it in Origins if credentials may go there", originOf(address)),
		}
	}
	return nil
}
