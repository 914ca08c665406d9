package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
)

// bindings are those that the client speaks.
var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// binding carries operations to the agent.
type binding interface {
	// unary decodes the answer into out, unless it is nil.
	unary(ctx context.Context, r *request, out a2a.Decodable) error
	stream(ctx context.Context, r *request) (*Stream, error)
}

// route is one interface of the card, and how it is spoken to.
type route struct {
	binding
	iface   a2a.AgentInterface
	address string // for errors
}

// newRoute returns the way to an interface that choose has returned.
func newRoute(iface a2a.AgentInterface, opts Options) (*route, error) {
	address, err := parseAddress(&iface, opts.CardURL)
	if err != nil {
		return nil, err
	}
	if err := pin(address, &opts); err != nil {
		return nil, err
	}
	r := &route{iface: iface, address: redact(address)}
	old := isOld(iface)
	r.binding = newBinding(&iface, address, opts, old)
	if opts.TryVersion03 && !old {
		r.binding = &downgrade{now: r.binding, old: newBinding(&iface, address, opts, true)}
	}
	return r, nil
}

func newBinding(iface *a2a.AgentInterface, address *url.URL, opts Options, old bool) binding {
	tenant := iface.Tenant
	if old {
		opts.Version, tenant = a2a.Version03.String(), "" // 0.3 has no tenants
	}
	link := newLink(opts)
	switch {
	case strings.EqualFold(iface.ProtocolBinding, a2a.BindingREST):
		return &rest{link: link, base: address, tenant: tenant, old: old}
	case strings.EqualFold(iface.ProtocolBinding, a2a.BindingGRPC):
		return newGRPC(link, address, tenant, old)
	}
	return &jsonRPC{link: link, url: address, tenant: tenant, old: old}
}

// setTenant puts the tenant of an interface into a request of 1.0.
func setTenant(params appender, tenant string) {
	switch r := params.(type) {
	case *a2a.SendMessageRequest:
		r.Tenant = tenant
		if c := r.Configuration; c != nil && c.TaskPushNotificationConfig != nil {
			c.TaskPushNotificationConfig.Tenant = tenant
		}
	case *a2a.GetTaskRequest:
		r.Tenant = tenant
	case *a2a.ListTasksRequest:
		r.Tenant = tenant
	case *a2a.CancelTaskRequest:
		r.Tenant = tenant
	case *a2a.SubscribeToTaskRequest:
		r.Tenant = tenant
	case *a2a.TaskPushNotificationConfig:
		r.Tenant = tenant
	case *a2a.GetTaskPushNotificationConfigRequest:
		r.Tenant = tenant
	case *a2a.ListTaskPushNotificationConfigsRequest:
		r.Tenant = tenant
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		r.Tenant = tenant
	case *a2a.GetExtendedAgentCardRequest:
		r.Tenant = tenant
	}
}

// choose returns the interfaces that can be used, the best first: those of the
// most preferred binding, then the others, in the order of the card. Those of 0.3
// count when there are no others. With first, those of 0.3 count, and when there are
// none the others as if they were.
func choose(card *a2a.AgentCard, preferred []string, first bool) ([]a2a.AgentInterface, error) {
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
	if len(spoken) == 0 || first && len(old) > 0 {
		spoken = old
	} else if first {
		for i := range spoken {
			spoken[i].ProtocolVersion = a2a.Version03.String()
		}
	}
	if len(spoken) == 0 {
		return nil, &InterfaceError{Agent: card.Name, Offered: card.SupportedInterfaces}
	}
	rank := func(f a2a.AgentInterface) int {
		if i := slices.IndexFunc(preferred, sameFold(f.ProtocolBinding)); i >= 0 {
			return i
		}
		return len(preferred)
	}
	slices.SortStableFunc(spoken, func(a, b a2a.AgentInterface) int { return rank(a) - rank(b) })
	return spoken, nil
}

func sameFold(a string) func(string) bool {
	return func(b string) bool { return strings.EqualFold(a, b) }
}

// parseAddress reads the address of an interface.
func parseAddress(iface *a2a.AgentInterface, cardURL string) (*url.URL, error) {
	text := iface.URL
	if strings.EqualFold(iface.ProtocolBinding, a2a.BindingGRPC) {
		text = grpcAddress(text, cardURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || originOf(u) == "":
		return nil, fmt.Errorf("the interface URL %q is not an absolute http or https URL", iface.URL)
	case u.User != nil:
		return nil, errors.New("the interface URL carries credentials")
	}
	u.Fragment = ""
	return u, nil
}

// grpcAddress adds the scheme that cards leave out at gRPC, whose addresses may
// be host:port: that of the card where it is on the same host and port, else
// https, and http on a loopback host.
func grpcAddress(text, cardURL string) string {
	text = strings.TrimPrefix(text, "dns:///")
	if strings.Contains(text, "://") {
		return text
	}
	if u, err := url.Parse(cardURL); err == nil && originOf(u) != "" && originOf(u) == originOf(&url.URL{Scheme: u.Scheme, Host: text}) {
		return u.Scheme + "://" + text
	}
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = text
	}
	if loopback(host) {
		return "http://" + text
	}
	return "https://" + text
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

// attempt carries out a call over the interface in use, and over the next ones
// while no connection can be made, when there are more.
func (c *Client) attempt(ctx context.Context, call func(*route) error) error {
	first := int(c.current.Load())
	err := call(c.routes[first])
	for n := 1; n < len(c.routes) && unreached(ctx, err); n++ {
		i := (first + n) % len(c.routes)
		next := call(c.routes[i])
		if unreached(ctx, next) {
			continue // what the preferred interface says is told
		}
		c.current.Store(int32(i))
		return next
	}
	return err
}

// unreached reports whether a call failed before anything was sent, because no
// connection could be made.
func unreached(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*TransportError](err)
	if !ok || e.Sent || ctx.Err() != nil {
		return false
	}
	switch e.Kind {
	case KindResolve, KindConnect, KindTLS, KindTimeout:
		return true
	}
	return false
}

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
