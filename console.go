package handoff

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/console"
)

// openSessions opens the sessions of people with a browser. A nil sealer keeps
// them as they are.
func (n *Node) openSessions(sealer *auth.Sealer) {
	n.sealer = sealer
	o := auth.SessionOptions{Docs: n.store, Keys: n.apiKeys, Issuer: func(issuer string) bool {
		return slices.ContainsFunc(n.Config().Callers.OIDC, func(o config.OIDC) bool { return o.Issuer == issuer })
	}}
	if sealer != nil {
		o.Sealer = sealer
	}
	n.sessions = auth.NewSessions(o)
}

// browser says how requests of browsers reach a node.
func browser(c *config.Config) auth.Browser {
	return auth.Browser{Proxies: c.TrustedPrefixes(), PublicURL: c.PublicURL, Hosts: hostsOf(c.PublicURL)}
}

// signedIn returns who has signed in to the console in a browser; nil: nobody has.
func (n *Node) signedIn(r *http.Request) *Principal {
	b := browser(n.Config())
	id := b.SessionID(r)
	if id == "" {
		return nil
	}
	session, err := n.sessions.Find(r.Context(), id)
	if err != nil {
		return nil
	}
	return &session.Principal
}

// newConsole returns the web pages for the people of the node. What they ask of
// the API they ask as whoever has signed in.
func (n *Node) newConsole(c *config.Config, people, credentials auth.Authenticator) (*console.Console, error) {
	o := console.Options{
		Agents: n.newWire(c, auth.Known{}, nil),
		API:    n.apiHandlerFor(auth.Known{}, slog.New(warnings{n.log.Handler()})), Auth: people, Credentials: credentials, Sessions: n.sessions, Browser: browser(c),
		Config: n.Config, Audit: n.audit, Logger: n.log, Version: n.opts.Version, Client: n.outbound,
	}
	if chain, ok := credentials.(*auth.Chain); ok && n.sealer != nil {
		o.Identity, o.Sealer = chain.Identity, n.sealer
	}
	return console.New(o)
}

// warnings is a log without what is told of every request.
type warnings struct{ slog.Handler }

// Enabled reports whether something goes wrong.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs returns one with attributes.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup returns one with a group.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// ConsoleLink returns the address of the console with a secret that signs its
// reader in as an admin: once, within ten minutes, and from this machine alone.
// The base is the URL at which this machine reaches the node, without a slash at
// its end; "" for URL. The node has to be started.
func (n *Node) ConsoleLink(ctx context.Context, base string) (link string, expires time.Time, err error) {
	if !n.Config().Console.Enabled {
		return "", time.Time{}, errors.New("console.enabled is false")
	}
	secret, expires, err := n.sessions.Link(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	return cmp.Or(base, n.localURL()) + console.Prefix + "?once=" + secret, expires, nil
}

// localURL returns the URL at which this machine reaches the node, without a slash
// at its end.
func (n *Node) localURL() string {
	c := *n.Config()
	c.PublicURL = ""
	return n.urlOf(&c)
}
