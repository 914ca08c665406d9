package auth

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"handoff.example/handoff/a2a"
)

// Authenticator finds out who sent a request. The error is an *a2a.Error, in a
// *Refusal when there is something that the caller can do about it. The principal
// that comes with an error has at most the address, for the record.
type Authenticator interface {
	Authenticate(r *http.Request) (Principal, error)
}

// Refusal is an error of authentication together with the challenges that tell a
// client how to authenticate (RFC 9110 §11.6.1).
type Refusal struct {
	Err        *a2a.Error
	Challenges []string // values of WWW-Authenticate
	// Reason is for the log, where the caller is told less; "" is the message. It
	// holds no credential.
	Reason string
}

// Error returns the message of the error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the *a2a.Error.
func (r *Refusal) Unwrap() error { return r.Err }

// Challenges returns the values of WWW-Authenticate that go with an error, nil
// when there are none.
func Challenges(err error) []string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Challenges
	}
	return nil
}

// Reason returns why a caller was refused, for the log; "" when the message of the
// error says it all.
func Reason(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return ""
}

// Policy says from where callers without credentials are accepted.
type Policy string

// From where callers without credentials are accepted.
const (
	PolicyOff        Policy = "off"
	PolicyLoopback   Policy = "loopback"
	PolicyEverywhere Policy = "everywhere"
)

// Anonymous accepts callers without credentials, as far as its policy goes.
// Requests that carry credentials are refused, since nobody checks them here.
type Anonymous struct {
	Policy  Policy // "": off
	Proxies Proxies
	// Hosts are the names, besides those of the loopback interface, under which
	// a local caller may address the node: the host of its public URL.
	Hosts []string
	// Challenges go with a refusal; nil: Bearer.
	Challenges []string
}

var _ Authenticator = (*Anonymous)(nil)

// Authenticate returns the anonymous principal, or a *Refusal.
func (a *Anonymous) Authenticate(r *http.Request) (Principal, error) {
	if r.Header["Authorization"] != nil {
		return Principal{}, a.refuse("The credentials of the request are not accepted here")
	}
	client := a.Proxies.client(r)
	localHost, foreign := a.isLocalName(r.Host), a.foreignOrigin(r)
	p := Principal{Role: RoleCaller, Local: client.local() && localHost && foreign == "", Address: client.text}
	switch {
	case a.Policy == PolicyEverywhere:
		return p, nil
	case a.Policy != PolicyLoopback:
		return Principal{}, a.refuse("Authentication is required")
	case !client.local():
		return Principal{}, a.refuse("Authentication is required; callers without credentials are only accepted from this machine, and not through a proxy")
	case !localHost:
		return Principal{}, a.refuse("Authentication is required; callers without credentials have to address the node as localhost")
	case foreign != "":
		return Principal{}, a.refuse(fmt.Sprintf("Authentication is required, since the request comes from a web page elsewhere: its Origin is %.128q; "+
			"the operator can accept the pages of an origin by its name in cors.origins", foreign))
	}
	return p, nil
}

func (a *Anonymous) refuse(message string) error {
	challenges := a.Challenges
	if challenges == nil {
		challenges = []string{`Bearer realm="handoff"`}
	}
	return &Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "%s", message), Challenges: challenges}
}

// foreignOrigin returns the origin of the web page that the request comes from,
// "" for none and for one on this machine. A browser here sends requests for any
// page, to any name that the page's owner lets resolve to 127.0.0.1.
func (a *Anonymous) foreignOrigin(r *http.Request) string {
	for _, origin := range r.Header["Origin"] {
		_, host, ok := strings.Cut(origin, "://")
		if !ok || !a.isLocalName(host) {
			return cmp.Or(origin, "empty")
		}
	}
	return ""
}

// isLocalName reports whether somebody on this machine names the node so.
func (a *Anonymous) isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback()
	}
	for _, h := range a.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

// Proxies are the networks of the reverse proxies whose word about the client is
// taken.
type Proxies []netip.Prefix

// ParseProxies reads addresses and networks in CIDR notation.
func ParseProxies(list []string) (Proxies, error) {
	proxies := make(Proxies, 0, len(list))
	for _, text := range list {
		if address, err := netip.ParseAddr(text); err == nil {
			proxies = append(proxies, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("parse trusted proxy %q: %w", text, err)
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

// Trusts reports whether the request comes straight from a trusted proxy, so
// that what it says in forwarding headers is believed.
func (p Proxies) Trusts(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.contains(peer.Addr())
}

func (p Proxies) contains(address netip.Addr) bool {
	address = address.Unmap()
	for _, prefix := range p {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// client is where a request comes from.
type client struct {
	address   netip.Addr // invalid when unknown
	forwarded bool       // by a proxy that is not trusted
	text      string
}

func (c *client) local() bool { return !c.forwarded && c.address.IsLoopback() }

// Headers with which proxies say that they are there.
var forwardingHeaders = [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Forwarded-Host", "X-Forwarded-Proto", "Via"}

// client finds out where a request comes from. Behind trusted proxies that is
// the last address that one of them was called from and that is no such proxy.
func (p Proxies) client(r *http.Request) client {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return client{text: r.RemoteAddr}
	}
	c := client{address: peer.Addr().Unmap().WithZone("")}
	if !p.contains(c.address) {
		for _, name := range forwardingHeaders {
			c.forwarded = c.forwarded || len(r.Header[name]) > 0
		}
		c.text = c.address.String()
		return c
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(hops[i])
		if hop == "" {
			continue
		}
		address, err := parseHop(hop)
		if err != nil {
			c.address, c.forwarded, c.text = netip.Addr{}, true, hop
			return c
		}
		c.address = address
		if !p.contains(address) {
			break
		}
	}
	// A proxy that names no client for a request that it says it forwards has
	// not said that the client is here.
	if len(r.Header["X-Forwarded-For"]) == 0 {
		for _, name := range forwardingHeaders {
			c.forwarded = c.forwarded || len(r.Header[name]) > 0
		}
	}
	c.text = c.address.String()
	return c
}

// parseHop reads an address of X-Forwarded-For, which some proxies write with a
// port.
func parseHop(hop string) (netip.Addr, error) {
	if withPort, err := netip.ParseAddrPort(hop); err == nil {
		return withPort.Addr().Unmap().WithZone(""), nil
	}
	address, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return address.Unmap().WithZone(""), err
}
