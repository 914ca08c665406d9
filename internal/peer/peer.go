// Package peer knows the other agents that work is handed to: their cards, what
// they are shown as credentials, and what was observed of them.
//
// A peer is not trusted. Its card is verified, bounded, and held for approval when
// it changes though it is pinned; what a person or a model reads of it is cleaned.
// Credentials go to the origins that the operator named and nowhere else, and what
// a card names elsewhere is reached by the guarded way only.
package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mask"
	"handoff.example/handoff/internal/store"
)

// User is for whom a peer is called. The zero User is the node itself.
type User struct {
	Tenant  string
	Subject string
}

type userKey struct{}

// WithUser returns a context in which calls of any client of a Directory are made
// for that user, so that one client serves several (row 139).
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// userOf returns the user of a context, or the one that a client was made for.
func userOf(ctx context.Context, otherwise User) User {
	if u, ok := ctx.Value(userKey{}).(User); ok {
		return u
	}
	return otherwise
}

// Peer is what is known of a peer at one moment. It must not be changed.
type Peer struct {
	Name   string
	Config *config.Peer
	Added  bool // while the node ran, and not by the configuration
	// Card is the card in use, its texts cleaned; nil while none is known.
	Card   *a2a.AgentCard
	Digest string // of the card in use, in base64url
	Pinned string // the digest that was approved; "": any card is taken
	Held   *Held  // nil: no card waits for approval
	// Interface is what is spoken with the peer; nil while no card is known, or
	// when it has none that is spoken here.
	Interface *a2a.AgentInterface
	Facts     Facts
	Seen      time.Time // when the peer last answered; zero: never

	secrets *mask.Secrets
}

// Redact returns a text of the peer's, or about it, with *** for the secrets that
// it was shown: of its configuration, and the tokens that were got for it.
func (p *Peer) Redact(text string) string { return p.secrets.Text(text) }

// Held is a card that differs from the one that was approved.
type Held struct {
	Digest  string
	Since   time.Time
	Changes []string // from the card that was approved, cleaned
}

// Deduplicates reports whether the peer takes a message that it gets twice for
// one, and why: configured, declared, observed, or "" when nothing is known. What
// is declared and was observed too is observed.
func (p *Peer) Deduplicates() (yes bool, why string) {
	switch p.Config.Deduplicates {
	case config.Yes:
		return true, "configured"
	case config.No:
		return false, "configured"
	}
	switch {
	case p.Facts.Deduplicates == config.Yes, p.Facts.Deduplicates == config.No:
		return p.Facts.Deduplicates == config.Yes, "observed" // whatever it declares
	case p.declaresIdempotency():
		return true, "declared"
	}
	return false, ""
}

// declaresIdempotency reports whether the card says that messages of this node are
// taken for one that come twice. A card may say it of callers with credentials
// only; then there have to be some that it asks for.
func (p *Peer) declaresIdempotency() bool {
	if p.Card == nil {
		return false
	}
	for _, e := range p.Card.Capabilities.Extensions {
		var params struct {
			Callers string `json:"callers"`
		}
		switch {
		case e.URI != a2a.IdempotencyExtension:
		case e.Params == nil:
			return true
		case json.Unmarshal(e.Params, &params) != nil:
		case params.Callers == "":
			return true
		case params.Callers == "authenticated":
			set, err := choose(p.Name, p.Card, &p.Config.Auth)
			return err == nil && len(set) > 0
		}
	}
	return false
}

// UnknownError says that there is no peer of that name.
type UnknownError struct {
	Name  string
	Names []string // that there are
}

// Error names the peers that there are.
func (e *UnknownError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("there is no peer %q, and no other: name peers in the configuration, under peers", e.Name)
	}
	return fmt.Sprintf("there is no peer %q; there are %s", e.Name, strings.Join(e.Names[:min(len(e.Names), 20)], ", "))
}

// Is makes the error a store.ErrNotFound.
func (e *UnknownError) Is(target error) bool { return target == store.ErrNotFound }

// HeldError says that nothing is sent to a peer, because its card has changed and
// nobody has approved that.
type HeldError struct {
	Peer   string
	Pinned string
	Digest string // of the card that waits
}

// Error says how the card is approved.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the card of the peer %q has changed and waits for approval: look at it with `handoff peer show %s`, and approve it with `handoff peer pin %s --digest %s`", e.Peer, e.Peer, e.Peer, e.Digest)
}

// LoginError says that a person has to log in to a peer before it can be called.
type LoginError struct {
	Peer string
	User User // the zero User when one login counts for all
	Err  error
}

// Error says how to log in.
func (e *LoginError) Error() string {
	text := fmt.Sprintf("nobody has logged in to the peer %q", e.Peer)
	if e.User != (User{}) {
		text += fmt.Sprintf(" as %q", e.User.Subject)
	}
	if e.Err != nil {
		text = fmt.Sprintf("the login to the peer %q has ended (%v)", e.Peer, e.Err)
	}
	return text + ": run `handoff peer login " + e.Peer + "`"
}

// Unwrap returns why a login has ended.
func (e *LoginError) Unwrap() error { return e.Err }

// ErrNoKey says that something secret would have to be kept and there is no key
// to seal it with.
var ErrNoKey = errors.New("secrets cannot be kept without secret_key in the configuration; `handoff init` makes one")
