package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	natsMessage  = 32 << 10 // bytes of a message at most
	natsPending  = 1 << 10  // messages that wait for this node at most
	natsTimeout  = 2 * time.Second
	natsPing     = 10 * time.Second
	natsPort     = "4222"
	natsRetry    = 2 * time.Second // until the next attempt to subscribe
	maxFile      = 1 << 20         // bytes of a file of credentials or certificates
	maxAddresses = 64
)

// NATSOptions are about the server. The zero NATSOptions are those of a server
// that needs nothing but its URL.
type NATSOptions struct {
	// Credentials is the path of a .creds file, "" for none. It is read again
	// whenever the node connects.
	Credentials string
	// CA is the path of a PEM file with the certificates that the server's is
	// signed by, "" for those of the system. With it TLS is a must.
	CA string
}

// NATS returns a bus over a NATS server, whose messages are not kept. The URLs
// are separated by commas: nats://HOST:PORT, or tls://HOST:PORT for TLS, with
// USER:PASSWORD@ or TOKEN@ before the host if need be. One tls:// makes TLS a must
// for all. The context is for the first attempt to connect; a server that is
// away or refuses is no error: it is logged, and tried again until Close. An
// error says what is wrong with a URL or a file, without repeating a secret.
//
// The user of the node has to be allowed to publish and to subscribe to
// handoff.hints.>.
func NATS(ctx context.Context, urls string, n NATSOptions, o Options) (Bus, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	servers, err := parseServers(urls)
	if err != nil {
		return nil, err
	}
	security, err := n.options()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	l := &natsLink{
		relay:   newRelay("nats", o, newReporter(o.Logger, "nats", servers.secrets)),
		subject: "handoff.hints." + label(o.Cluster),
		servers: strings.Join(servers.hosts, ","),
		ready:   make(chan struct{}),
		closed:  make(chan struct{}),
	}
	defer close(l.ready)
	opts := append(l.options(), security...)
	if u := servers.user; u != nil {
		password, _ := u.Password()
		opts = append(opts, nats.UserInfo(u.Username(), password))
	}
	if l.conn, err = nats.Connect(strings.Join(servers.urls, ","), opts...); err != nil {
		return nil, fmt.Errorf("connect to NATS: %s", hide(err.Error(), servers.secrets))
	}
	if err := l.subscribe(); err != nil {
		l.conn.Close()
		return nil, fmt.Errorf("subscribe at NATS: %s", hide(err.Error(), servers.secrets))
	}
	if l.conn.IsConnected() && l.conn.FlushTimeout(natsTimeout) == nil {
		l.met()
	} else {
		l.awaited = true
	}
	l.relay.start(l)
	return l.relay, nil
}

// options returns those of the connection that are about trust.
func (n NATSOptions) options() (opts []nats.Option, err error) {
	if n.Credentials != "" {
		text, err := readFile(n.Credentials)
		if err != nil {
			return nil, fmt.Errorf("read the credentials of the bus: %w; give the path of a .creds file that the node may read", err)
		}
		defer clear(text)
		// What has no decoration is returned as it is: it would be sent as the JWT.
		if token, err := nkeys.ParseDecoratedJWT(text); err != nil || !strings.HasPrefix(token, "eyJ") {
			return nil, fmt.Errorf("read the credentials of the bus: %s has no user JWT; make the file anew, as with nsc generate creds", n.Credentials)
		}
		key, err := nkeys.ParseDecoratedUserNKey(text)
		if err != nil {
			return nil, fmt.Errorf("read the credentials of the bus: %s has no seed of a user; make the file anew, as with nsc generate creds", n.Credentials)
		}
		key.Wipe()
		opts = append(opts, nats.UserCredentials(n.Credentials))
	}
	if n.CA != "" {
		text, err := readFile(n.CA)
		if err != nil {
			return nil, fmt.Errorf("read the CA of the bus: %w; give the path of a PEM file that the node may read", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the CA of the bus: %s holds no certificate in PEM form", n.CA)
		}
		opts = append(opts, nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	}
	return opts, nil
}

// readFile reads a small file.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, nil
}

// servers are what the configuration says of them.
type servers struct {
	urls    []string
	hosts   []string // host:port
	secrets []string
	user    *url.Userinfo // whom all URLs name; nil when they do not agree
}

const urlForm = "write it as nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ before the host if need be and % escapes in the password"

// parseServers reads URLs. The error repeats nothing of them, since a URL that
// cannot be read may have its password anywhere.
func parseServers(text string) (s servers, err error) {
	parts := strings.Split(text, ",")
	if len(parts) > maxAddresses {
		return servers{}, fmt.Errorf("the bus has %d addresses, %d are the most", len(parts), maxAddresses)
	}
	for i, part := range parts {
		wrong := func(what string) error {
			return fmt.Errorf("address %d of %d of the bus %s: %s", i+1, len(parts), what, urlForm)
		}
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return servers{}, wrong("cannot be read")
		}
		switch {
		case u.Scheme != "nats" && u.Scheme != "tls":
			return servers{}, wrong("does not begin with nats:// or tls://")
		case u.Hostname() == "":
			return servers{}, wrong("has no host")
		case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
			return servers{}, wrong("has something behind the port")
		}
		port := u.Port()
		if port == "" {
			port = natsPort
		}
		if _, err := net.LookupPort("tcp", port); err != nil {
			return servers{}, wrong("has no valid port")
		}
		u.Host = net.JoinHostPort(u.Hostname(), port)
		u.Path = ""
		s.urls = append(s.urls, u.String())
		s.hosts = append(s.hosts, u.Host)
		switch {
		case i == 0:
			s.user = u.User
		case s.user != nil && (u.User == nil || *u.User != *s.user):
			s.user = nil
		}
		if u.User != nil {
			password, both := u.User.Password()
			if both {
				s.secrets = append(s.secrets, password)
			} else {
				s.secrets = append(s.secrets, u.User.Username()) // a token
			}
		}
	}
	return s, nil
}

// natsLink is the way to a NATS server.
type natsLink struct {
	relay   *relay
	subject string
	servers string // host:port of all

	conn    *nats.Conn
	ready   chan struct{}          // closed when the link has begun
	awaited bool                   // the first attempt to connect failed
	closed  chan struct{}          // closed when the connection is
	current atomic.Pointer[string] // host:port that is connected; nil for none

	// What follows is used by the subscription and by attempts to have it again,
	// which come one after the other.
	subscription *nats.Subscription
}

// options returns those of the connection.
func (l *natsLink) options() []nats.Option {
	return []nats.Option{
		nats.Name("handoff"),
		nats.NoEcho(),
		nats.Timeout(natsTimeout),
		nats.SetCustomDialer(dialer{l.relay.ctx}),
		nats.FlusherTimeout(sendTimeout),
		nats.PingInterval(natsPing),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(pauseAfter),
		nats.ReconnectBufSize(-1), // what waits, waits with the relay
		nats.ConnectHandler(func(*nats.Conn) {
			if <-l.ready; l.awaited {
				l.connected()
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			<-l.ready
			l.connected()
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			<-l.ready
			l.current.Store(nil)
			l.relay.mark(incoming, false)
			l.relay.mark(outgoing, false)
			if err != nil && l.relay.ctx.Err() == nil {
				l.relay.log.warn("the connection of the bus is lost", err, "server", l.servers)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			l.relay.log.seldom("the bus cannot be reached; the node polls until it can", err, "server", l.servers)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			switch {
			case errors.Is(err, nats.ErrSlowConsumer):
				l.relay.restore()
			case isRefusal(err, publishing):
				return // send tells it
			case isRefusal(err, subscribing):
				<-l.ready
				l.deafen()
			}
			l.relay.log.seldom("the bus has a problem", err, "server", l.servers)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
	}
}

// subscribe has messages received from now on, connected or not.
func (l *natsLink) subscribe() error {
	s, err := l.conn.Subscribe(l.subject, func(m *nats.Msg) { l.relay.receive(m.Data) })
	if err != nil {
		return err
	}
	l.subscription = s
	return s.SetPendingLimits(natsPending, natsPending*maxMessage)
}

// What a user may not do, as the server words it.
const (
	publishing  = "Publish to"
	subscribing = "Subscription to"
)

// isRefusal reports whether the server says that the user may not do something.
func isRefusal(err error, what string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), what)
}

// refused returns what the server has refused since the error that was the last
// one before, once it has answered. Each refusal is an error of its own.
func (l *natsLink) refused(before error, what string) error {
	if err := l.conn.LastError(); err != before && isRefusal(err, what) {
		return err
	}
	return nil
}

// deafen notes that the user may not subscribe, and tries again later: a server
// does not tell when that has changed.
func (l *natsLink) deafen() {
	l.relay.mark(incoming, false)
	time.AfterFunc(natsRetry, func() {
		if l.relay.ctx.Err() != nil || !l.conn.IsConnected() {
			return // a new connection subscribes
		}
		before := l.conn.LastError()
		_ = l.subscription.Unsubscribe()
		if l.subscribe() != nil || l.conn.FlushTimeout(sendTimeout) != nil || l.refused(before, subscribing) != nil {
			return // it is lost, or refused, and one of the handlers is called
		}
		l.relay.mark(incoming, true)
		l.relay.log.info("the bus is heard again", "server", l.server())
		l.relay.restore()
	})
}

// connected is called when a connection is there that was not.
func (l *natsLink) connected() {
	// When the server answers it knows the subscription: what is published from
	// now on is heard, what was before is not. When it does not, it is lost again,
	// and this is called again.
	if err := l.conn.FlushTimeout(sendTimeout); err != nil {
		l.relay.log.seldom("the bus does not answer", err, "server", l.servers)
	}
	if !l.conn.IsConnected() {
		return
	}
	l.met()
	l.relay.log.info("the bus is connected", "server", l.server())
	l.relay.back()
	l.relay.restore()
}

// met notes that a server is connected.
func (l *natsLink) met() {
	if u, err := url.Parse(l.conn.ConnectedUrlRedacted()); err == nil && u.Host != "" {
		l.current.Store(&u.Host)
	}
	l.relay.mark(incoming, true)
	l.relay.mark(outgoing, true)
}

// limit implements link.
func (l *natsLink) limit() int {
	if limit := int(l.conn.MaxPayload()); limit > 0 {
		return max(min(limit, natsMessage), headerSize+maxHint)
	}
	return natsMessage
}

// send implements link.
func (l *natsLink) send(ctx context.Context, messages [][]byte) error {
	if !l.conn.IsConnected() {
		return errAway
	}
	if len(messages) == 0 {
		return nil
	}
	before := l.conn.LastError()
	for _, m := range messages {
		if err := l.conn.Publish(l.subject, m); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := l.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return l.refused(before, publishing)
}

// server implements link.
func (l *natsLink) server() string {
	if host := l.current.Load(); host != nil {
		return *host
	}
	return l.servers
}

// close implements link.
func (l *natsLink) close() {
	l.conn.Close()
	<-l.closed
}

// dialer connects until a context is done, which ends its connections too: those
// that are not established yet would hold up the end of the bus.
type dialer struct{ ctx context.Context }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: natsTimeout}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &dialed{Conn: conn, keep: context.AfterFunc(d.ctx, func() { conn.Close() })}, nil
}

// dialed is a connection that ends with a context.
type dialed struct {
	net.Conn
	keep func() bool // no longer ends it with the context
}

// Close implements net.Conn.
func (d *dialed) Close() error {
	d.keep()
	return d.Conn.Close()
}
