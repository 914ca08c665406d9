// Package netguard is the one way out: the dialer and the HTTP transport that
// stand under every outbound client.
//
// It knows two kinds of destinations. What the operator configured may be
// private. What somebody else named (a webhook, a URL in a card or in a part, a
// redirect) must be public, unless the policy allows it. The address is checked
// when it is dialled, after names are resolved, so that neither a spelling of
// an address nor a name that changes its mind gets past it.
package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Policy says what others may make the node connect to.
type Policy struct {
	// Allow lists destinations that are allowed though they are private.
	Allow []Destination
	// AllowPrivate allows every destination. It is for tests and for networks
	// that are closed.
	AllowPrivate bool
	// Resolver looks names up; nil is the system's.
	Resolver Resolver
}

// Resolver looks up the addresses of a host name.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard makes clients that obey a policy. It is safe for concurrent use.
type Guard struct {
	policy Policy
}

// New returns a guard of that policy.
func New(policy Policy) *Guard {
	if policy.Resolver == nil {
		policy.Resolver = net.DefaultResolver
	}
	return &Guard{policy: policy}
}

// BlockedError says that a connection is not allowed.
type BlockedError struct {
	Address string // what was asked for: an address, a host or a URL without its query
	Reason  string // such as loopback
}

// Error returns the address and the reason.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("connection to %s is not allowed: %s", e.Address, e.Reason)
}

// Options bounds a client. A zero field has the default that it names.
type Options struct {
	DialTimeout    time.Duration // 10s, names included
	TLSTimeout     time.Duration // 10s
	HeaderTimeout  time.Duration // 30s, from the request to the header of its response; negative is none
	IdleTimeout    time.Duration // 90s, of a connection in the pool
	Timeout        time.Duration // of the whole exchange, body included; 0 is none, for streams
	MaxHeaderBytes int64         // 64 KiB
	MaxRedirects   int           // 3, all of one origin; -1 follows none
	MaxConns       int           // per host; 0 is no limit
	MaxIdle        int           // 16, connections in the pool per host
	TLS            *tls.Config   // of connections, such as with a client certificate; nil is the default
}

func (o Options) withDefaults() Options {
	set := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	set(&o.DialTimeout, 10*time.Second)
	set(&o.TLSTimeout, 10*time.Second)
	set(&o.HeaderTimeout, 30*time.Second)
	set(&o.IdleTimeout, 90*time.Second)
	if o.MaxIdle == 0 {
		o.MaxIdle = 16
	}
	if o.MaxHeaderBytes == 0 {
		o.MaxHeaderBytes = 64 << 10
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = 3
	}
	return o
}

// Configured returns a client for destinations that the operator configured,
// which may be private.
func (g *Guard) Configured(o Options) *http.Client { return g.client(o, false) }

// Named returns a client for destinations that others named, which must be
// public unless the policy allows them.
func (g *Guard) Named(o Options) *http.Client { return g.client(o, true) }

func (g *Guard) client(o Options, named bool) *http.Client {
	o = o.withDefaults()
	return &http.Client{
		Transport:     &checkedTransport{guard: g, named: named, base: g.transport(o, named)},
		CheckRedirect: checkRedirect(o.MaxRedirects),
		Timeout:       o.Timeout,
	}
}

// transport returns a transport that knows no proxy: a proxy would resolve and
// dial for us, out of sight.
func (g *Guard) transport(o Options, named bool) *http.Transport {
	dial := g.DialConfigured
	if named {
		dial = g.DialNamed
	}
	return &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    o.TLSTimeout,
		ResponseHeaderTimeout:  max(o.HeaderTimeout, 0), // HTTP/2 takes a negative one for over
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		MaxIdleConns:           max(100, o.MaxIdle),
		MaxIdleConnsPerHost:    o.MaxIdle,
		MaxConnsPerHost:        o.MaxConns,
		ForceAttemptHTTP2:      true,
	}
}

// DialConfigured connects to a destination that the operator configured.
func (g *Guard) DialConfigured(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dial(ctx, network, address, false)
}

// DialNamed connects to a destination that somebody else named. It fails with a
// *BlockedError when the policy does not allow it.
func (g *Guard) DialNamed(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dial(ctx, network, address, true)
}

func (g *Guard) dial(ctx context.Context, network, address string, named bool) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, &BlockedError{Address: address, Reason: "not TCP"}
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split address: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read port of %s: %w", address, err)
	}
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		// Here every address passes that the system is about to dial.
		ControlContext: func(_ context.Context, _, dialled string, _ syscall.RawConn) error {
			addrPort, err := netip.ParseAddrPort(dialled)
			if err != nil {
				return &BlockedError{Address: dialled, Reason: "not an address"}
			}
			return g.check(host, addrPort.Addr(), addrPort.Port(), named)
		},
	}
	err = fmt.Errorf("look up %s: no addresses", host)
	for i, addr := range addrs {
		var connection net.Conn
		part, cancel := shareOfDeadline(ctx, len(addrs)-i)
		connection, err = dialer.DialContext(part, network, netip.AddrPortFrom(addr, uint16(port)).String())
		cancel()
		if err == nil {
			return connection, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if blocked, ok := errors.AsType[*BlockedError](err); ok {
		return nil, blocked
	}
	return nil, err
}

// shareOfDeadline gives one of n attempts its part of the time that is left, so
// that an address that does not answer leaves time for the next.
func shareOfDeadline(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || n <= 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// maxAddresses bounds the addresses of a name that are tried.
const maxAddresses = 8

func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	addrs, err := g.policy.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	// IPv4 first: a host without IPv6 fails at once rather than by timeout.
	var ordered []netip.Addr
	for _, want4 := range []bool{true, false} {
		for _, addr := range addrs {
			if addr = addr.Unmap(); addr.Is4() == want4 {
				ordered = append(ordered, addr)
			}
		}
	}
	return ordered[:min(len(ordered), maxAddresses)], nil
}

// check judges one address, reached under a name.
func (g *Guard) check(host string, addr netip.Addr, port uint16, named bool) error {
	addr = addr.Unmap()
	if !named || g.policy.AllowPrivate {
		return nil
	}
	reason := reasonBlocked(addr)
	if reason == "" || g.allowed(host, addr, port) {
		return nil
	}
	return &BlockedError{Address: net.JoinHostPort(host, strconv.Itoa(int(port))), Reason: reason}
}

func (g *Guard) allowed(host string, addr netip.Addr, port uint16) bool {
	for _, d := range g.policy.Allow {
		if d.Matches(host, addr, port) {
			return true
		}
	}
	return false
}

// Lists reports whether the policy names the host of a URL among the
// destinations that it allows, or allows every one.
func (g *Guard) Lists(u *url.URL) bool {
	if g.policy.AllowPrivate {
		return true
	}
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil {
		return false
	}
	host, err := hostOf(u)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil && host == "localhost" {
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return g.allowed(host, addr.Unmap(), uint16(port))
}

// CheckURL checks the form of a URL that somebody else named: http or https, no
// credentials, a host, and no address that is blocked already by its spelling.
// Names are judged when they are dialled. Its error is a *BlockedError.
func (g *Guard) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return &BlockedError{Address: "URL", Reason: "it cannot be parsed"}
	}
	return g.checkURL(u, true)
}

func (g *Guard) checkURL(u *url.URL, named bool) error {
	where := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &BlockedError{Address: where, Reason: "the scheme is neither http nor https"}
	case u.Hostname() == "":
		return &BlockedError{Address: where, Reason: "it has no host"}
	case u.User != nil:
		return &BlockedError{Address: where, Reason: "it holds credentials"}
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		var err error
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return &BlockedError{Address: where, Reason: "the port is not a number from 1 to 65535"}
		}
	}
	host, err := hostOf(u)
	if err != nil {
		return &BlockedError{Address: where, Reason: "the host is not a name"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.check(host, addr, uint16(port), named)
	}
	if !named || g.policy.AllowPrivate {
		return nil
	}
	if looksNumeric(host) {
		// 2130706433, 0x7f.1, 0177.0.0.1: no public name ends so.
		return &BlockedError{Address: where, Reason: "the host is an address in a form that is not allowed"}
	}
	if (host == "localhost" || strings.HasSuffix(host, ".localhost")) && !g.allowed(host, netip.Addr{}, uint16(port)) && !g.allowed(host, netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)) {
		return &BlockedError{Address: where, Reason: "loopback"}
	}
	return nil
}

// checkedTransport checks the URL of every request, redirects included.
type checkedTransport struct {
	guard *Guard
	named bool
	base  *http.Transport
}

// RoundTrip sends a request, or fails with a *BlockedError.
func (t *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.guard.checkURL(r.URL, t.named); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// HTTP2Only returns a transport of the same policy that speaks nothing but HTTP/2,
// also without TLS, which is what gRPC needs, and that gives up a connection whose
// other end does not answer pings.
func (t *checkedTransport) HTTP2Only() http.RoundTripper {
	base := t.base.Clone()
	base.Protocols = new(http.Protocols)
	base.Protocols.SetHTTP2(true)
	base.Protocols.SetUnencryptedHTTP2(true)
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return &checkedTransport{guard: t.guard, named: t.named, base: base}
}

// CloseIdleConnections closes what is in the pool.
func (t *checkedTransport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// checkRedirect refuses redirects to another origin, since credentials belong
// to one, and more than a number of them.
func checkRedirect(limit int) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		where := next.URL.Scheme + "://" + next.URL.Host
		switch {
		case limit < 0:
			return http.ErrUseLastResponse
		case len(via) > limit:
			return &BlockedError{Address: where, Reason: "too many redirects"}
		case !SameOrigin(next.URL, via[0].URL):
			return &BlockedError{Address: where, Reason: "it is a redirect to another origin"}
		}
		return nil
	}
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) &&
		sameHost(a, b) && portOf(a) == portOf(b)
}

func sameHost(a, b *url.URL) bool {
	one, err := hostOf(a)
	if err != nil {
		return false
	}
	other, err := hostOf(b)
	return err == nil && one == other
}

// hostOf returns the host of a URL as it is looked up: in lower case, without the
// dot of the root, and in ASCII as net/http writes it before it dials (UTS 46),
// which makes digits and dots of what other scripts have for them.
func hostOf(u *url.URL) (string, error) {
	host := u.Hostname()
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", fmt.Errorf("write host in ASCII: %w", err)
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || strings.HasSuffix(host, ".") {
		return "", errors.New("read host: an empty label")
	}
	return host, nil
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	switch strings.ToLower(u.Scheme) {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}
