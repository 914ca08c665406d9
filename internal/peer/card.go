package peer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/store"
)

const (
	// cardAge is how old a card in memory may be before the peer is asked for it
	// again, as far as HTTP caching lets that be necessary.
	cardAge = time.Minute
	// cardRetry is the time after which a peer whose card could not be had is
	// asked again, where there is a card to go on with.
	cardRetry = 15 * time.Second
	// failurePause is that time where there is none.
	failurePause = 2 * time.Second
)

// entry is a peer of one configuration.
type entry struct {
	name     string
	config   *config.Peer
	added    bool
	path     func(string) string
	source   func() ([]byte, error) // of a card in a file or written out; nil for one at a URL
	way      *way
	http     *http.Client // over way
	tracer   trace.Tracer // nil: no traces
	verifier *card.Verifier
	cards    *client.CardCache
	tokens   *tokens
	observed observed

	fetching chan struct{} // holds one: only one call fetches the card

	mu      sync.Mutex
	current *current  // the card in use, nil while none is known
	checked time.Time // when the card was fetched or asked for last
	failure error     // of that
	raised  string    // the item that the inbox was told of
}

// current is a card in use.
type current struct {
	card      *a2a.AgentCard // its texts cleaned
	use       *a2a.AgentCard // as clients are made of it
	digest    string
	signature string
	keyID     string
}

// newEntry makes a peer of its configuration. Paths in it are made whole by path.
func (d *Directory) newEntry(name string, c *config.Peer, path func(string) string, added bool) (*entry, error) {
	e := &entry{name: name, config: c, added: added, path: path, tracer: d.opts.Tracer, cards: &client.CardCache{}, fetching: make(chan struct{}, 1)}
	texts := append([]string{c.URL}, c.Origins...)
	file, isFile := c.Card.File()
	switch {
	case c.Card.Inline() != nil:
		e.source = func() ([]byte, error) { return c.Card.Inline(), nil }
	case isFile:
		e.source = func() ([]byte, error) { return readFile(path(file)) }
	default:
		texts = append(texts, c.Card.Ref())
	}
	if e.source != nil {
		// Whoever writes the file says where the peer is.
		parsed, err := e.parseOwn()
		if err != nil {
			return nil, &FieldError{"card", err}
		}
		for _, i := range parsed.SupportedInterfaces {
			if u, err := url.Parse(i.URL); err == nil && u.Host != "" {
				texts = append(texts, i.URL)
			}
		}
	}
	own, err := parseOrigins(texts...)
	if err != nil {
		return nil, err
	}
	if e.way, err = newWay(d.opts.Guard, c, own, path); err != nil {
		return nil, err
	}
	e.http = e.way.client()
	e.tokens = newTokens(d, e)
	return e, e.trust(d.now())
}

// trust loads the keys that the card is verified with.
func (e *entry) trust(now time.Time) error {
	s := &e.config.Signatures
	v := &card.Verifier{Policy: card.Policy(s.Policy), Trusted: &card.TrustStore{}, HTTPClient: e.http, Partial: s.Partial}
	for _, text := range s.Trust {
		if err := v.Trusted.Load(e.path(text), now); err != nil {
			return &FieldError{"signatures.trust", err}
		}
	}
	for _, text := range s.JKU {
		origin, err := card.ParseOrigin(text)
		if err != nil {
			return &FieldError{"signatures.jku", err}
		}
		v.JKUOrigins = append(v.JKUOrigins, origin)
	}
	e.verifier = v
	return nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, config.MaxPeerCard+1))
	if err == nil && len(data) > config.MaxPeerCard {
		err = fmt.Errorf("has more than %d bytes", config.MaxPeerCard)
	}
	return data, err
}

// parseOwn reads a card in a file or one that is written out.
func (e *entry) parseOwn() (*a2a.AgentCard, error) {
	data, err := e.source()
	if err != nil {
		return nil, err
	}
	return client.ParseCard(data, "peers."+e.name+".card")
}

// ownCard reads and verifies a card in a file or one that is written out.
func (e *entry) ownCard(ctx context.Context) (*fetched, error) {
	data, err := e.source()
	if err != nil {
		return nil, &FieldError{"card", err}
	}
	v, err := e.verifier.Verify(ctx, data)
	if err != nil {
		return nil, &FieldError{"card", err}
	}
	parsed, err := client.ParseCard(v.Covered, "peers."+e.name+".card")
	if err != nil {
		return nil, &FieldError{"card", err}
	}
	return newFetched(parsed, v)
}

// fetched is a card that came and was verified.
type fetched struct {
	card      *a2a.AgentCard
	data      []byte // that a signature covers, where the policy wants that
	digest    string
	signature string
	keyID     string
}

func newFetched(parsed *a2a.AgentCard, v *card.Verification) (*fetched, error) {
	digest, err := digestOf(v.Covered)
	if err != nil {
		return nil, err
	}
	return &fetched{card: parsed, data: v.Covered, digest: digest, signature: string(v.Outcome), keyID: v.KeyID}, nil
}

// digestOf returns the SHA-256 of a card's canonical JSON (RFC 8785) without its
// signatures, in base64url.
func digestOf(data []byte) (string, error) {
	canonical, err := card.CanonicalJSON(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// fetch gets the card and verifies it.
func (e *entry) fetch(ctx context.Context) (*fetched, error) {
	if e.source != nil {
		return e.ownCard(ctx)
	}
	opts := e.options()
	opts.Cards = e.cards
	// The card may be for those only who authenticate. What it asks for is not
	// known before it is there.
	set, err := choose(e.name, nil, &e.config.Auth)
	if err != nil {
		return nil, err
	}
	opts.Credentials = newCredentials(e, User{}, set)
	var seen *card.Verification
	opts.VerifyCard = func(ctx context.Context, data []byte) ([]byte, error) {
		v, err := e.verifier.Verify(ctx, data)
		if err != nil {
			return nil, err
		}
		seen = v
		return v.Covered, nil
	}
	parsed, err := client.Discover(ctx, e.config.Card.Ref(), opts)
	if err != nil {
		return nil, fmt.Errorf("card of the peer %q: %w", e.name, err)
	}
	return newFetched(parsed, seen)
}

// current makes the card one that is used.
func (f *fetched) current(e *entry) *current {
	return &current{card: cleanCard(f.card), use: adjust(f.card, e.config), digest: f.digest, signature: f.signature, keyID: f.keyID}
}

// pinned returns the digest that the card has to have, or "".
func (e *entry) pinned(row *store.Peer) string {
	if digest := e.config.Pin.Digest(); digest != "" {
		return digest
	}
	return row.Pinned
}

// known returns the card in use without asking for it: that in memory, or that in
// the row, if the configuration would still take it.
func (e *entry) known(row *store.Peer) *current {
	e.mu.Lock()
	defer e.mu.Unlock()
	pinned := e.pinned(row)
	if e.current != nil && (pinned == "" || e.current.digest == pinned) {
		return e.current
	}
	if len(row.Card) == 0 || pinned != "" && row.Digest != pinned {
		return nil
	}
	facts := factsOf(row)
	verified := facts.Signature == string(card.OutcomeVerified) || facts.Signature == string(card.OutcomePartial) && e.config.Signatures.Partial
	if e.config.Signatures.Policy == string(card.PolicyRequire) && !verified {
		return nil
	}
	parsed, err := client.ParseCard(row.Card, "the card that was kept")
	if err != nil {
		return nil
	}
	f := &fetched{card: parsed, data: row.Card, digest: row.Digest, signature: facts.Signature, keyID: facts.KeyID}
	e.current = f.current(e)
	return e.current
}

// held returns the card of a row that waits for approval.
func (e *entry) held(row *store.Peer, current *current) *Held {
	h := &Held{Since: factsOf(row).HeldSince}
	h.Digest, _ = digestOf(row.Held)
	parsed, err := client.ParseCard(row.Held, "the card that waits")
	if err != nil {
		return h
	}
	if current == nil {
		h.Changes = []string{"the card that was approved is not at hand"}
		return h
	}
	for _, change := range card.Diff(current.card, cleanCard(parsed)) {
		if h.Changes = append(h.Changes, Clean(change.String(), maxDescription, false)); len(h.Changes) == maxExamples {
			break
		}
	}
	return h
}

// ensure returns the card that may be used and the row it belongs to, asking the
// peer when the one in memory is old, or in any case.
func (d *Directory) ensure(ctx context.Context, e *entry, now bool) (*current, *store.Peer, error) {
	row, err := d.rows.get(ctx, e.name, rowAge)
	if err != nil {
		return nil, nil, err
	}
	if !now && !e.due(d.now(), row) {
		return d.usable(e, row)
	}
	if err := e.justFailed(d.now(), row); err != nil && !now {
		return nil, nil, err
	}
	select {
	case e.fetching <- struct{}{}:
		defer func() { <-e.fetching }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if !now && !e.due(d.now(), row) { // somebody else has asked meanwhile
		if row, err = d.rows.get(ctx, e.name, rowAge); err != nil {
			return nil, nil, err
		}
		return d.usable(e, row)
	}
	if err := e.justFailed(d.now(), row); err != nil && !now {
		return nil, nil, err
	}
	if now {
		e.cards = &client.CardCache{} // somebody wants to know what the peer says at this moment
	}
	f, err := e.fetch(ctx)
	_, login := errors.AsType[*LoginError](err)
	if err != nil && (ctx.Err() != nil || login && e.known(row) == nil) {
		return nil, nil, err // that nobody waits any more, or that one user has to log in, says nothing of the peer
	}
	e.mu.Lock()
	e.checked, e.failure = d.now(), err
	e.mu.Unlock()
	if err != nil {
		d.Observe(ctx, e.name, Observation{Err: err})
		if e.known(row) == nil {
			return nil, nil, err
		}
		d.log.Warn("The card of a peer could not be fetched; the last one is used", "peer", e.name, "error", err)
		return d.usable(e, row)
	}
	if row, err = d.arrived(ctx, e, f); err != nil {
		return nil, nil, err
	}
	return d.usable(e, row)
}

// due reports whether the peer is to be asked for its card.
func (e *entry) due(now time.Time, row *store.Peer) bool {
	known := e.known(row) != nil
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.checked.IsZero():
		return true
	case !known && len(row.Held) == 0:
		return true
	case e.failure != nil:
		return now.Sub(e.checked) >= cardRetry
	}
	return now.Sub(e.checked) >= cardAge
}

// justFailed returns why a card that is needed could not be had a moment ago, so
// that a peer that is down is not asked by one call after the other.
func (e *entry) justFailed(now time.Time, row *store.Peer) error {
	if e.known(row) != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil || now.Sub(e.checked) >= failurePause {
		return nil
	}
	return e.failure
}

// usable returns the card in use, or a *HeldError.
func (d *Directory) usable(e *entry, row *store.Peer) (*current, *store.Peer, error) {
	current := e.known(row)
	if len(row.Held) > 0 && (e.config.Changed != config.ChangedKeep || current == nil) || current == nil {
		digest, _ := digestOf(row.Held)
		return nil, nil, &HeldError{Peer: e.name, Pinned: e.pinned(row), Digest: digest}
	}
	return current, row, nil
}

// arrived takes a card into use, or holds it for approval when it is not the one
// that is pinned.
func (d *Directory) arrived(ctx context.Context, e *entry, f *fetched) (*store.Peer, error) {
	var held, cleared bool
	now := d.now()
	row, err := d.rows.update(ctx, e.name, func(row *store.Peer) (bool, error) {
		held, cleared = false, false
		facts := factsOf(row)
		pinned := e.pinned(row)
		if pinned == "" && e.config.Pin == config.PinFirst {
			row.Pinned, pinned = f.digest, f.digest
		}
		if pinned != "" && pinned != f.digest {
			if waiting, _ := digestOf(row.Held); waiting == f.digest && len(row.Held) > 0 && facts.HeldItem != "" {
				return false, nil
			}
			row.Held, held = f.data, true
			facts.HeldSince, facts.HeldItem = now, rand.Text()
			return true, facts.into(row)
		}
		if row.Digest == f.digest && len(row.Card) > 0 && row.Held == nil && facts.Signature == f.signature && facts.KeyID == f.keyID && row.Pinned == pinned {
			return false, nil
		}
		cleared = len(row.Held) > 0
		row.Card, row.Digest, row.Held = f.data, f.digest, nil
		facts.HeldSince, facts.HeldItem = time.Time{}, ""
		facts.Signature, facts.KeyID, facts.CardAt = f.signature, f.keyID, now
		return true, facts.into(row)
	})
	if err != nil {
		return nil, err
	}
	switch {
	case len(row.Held) > 0:
		if held {
			d.log.Warn("The card of a pinned peer has changed and waits for approval", "peer", e.name, "digest", f.digest, "pinned", e.pinned(row))
		}
		d.raise(ctx, e, row)
	default:
		e.mu.Lock()
		e.current, e.raised = f.current(e), ""
		e.mu.Unlock()
		if cleared {
			d.settle(ctx, e.name, e.name, "gone on", "")
		}
	}
	return row, nil
}

// raise tells people that a card waits for approval. The item has an id that is in
// the row, so that it is there once, though several nodes see the card and any may
// end before it has told of it.
func (d *Directory) raise(ctx context.Context, e *entry, row *store.Peer) {
	id := factsOf(row).HeldItem
	e.mu.Lock()
	known := e.raised == id
	e.mu.Unlock()
	if d.opts.Inbox == nil || known || id == "" {
		return
	}
	held := e.held(row, e.known(row))
	var text strings.Builder
	fmt.Fprintf(&text, "The card of the peer %s has changed. Its digest is %s; %s was approved.", e.name, held.Digest, e.pinned(row))
	for _, change := range held.Changes {
		text.WriteString("\n- " + change)
	}
	d.settle(ctx, e.name, e.name, "gone on", id) // of cards that it had in between
	err := d.opts.Inbox.Raise(ctx, &store.InboxItem{
		ID: id, Kind: store.InboxCard, Agent: e.name, Peer: true, Text: text.String(), Op: opPin + held.Digest,
	})
	if err != nil {
		d.log.Error("The inbox could not be told of a card that waits for approval", "peer", e.name, "error", err)
		return
	}
	e.mu.Lock()
	e.raised = id
	e.mu.Unlock()
}

// opPin begins what an item asks to be approved; the digest follows.
const opPin = "pin the card "

// settle settles what the inbox has about a peer's card, but one item.
func (d *Directory) settle(ctx context.Context, name, by, decision, except string) {
	if d.opts.Inbox == nil {
		return
	}
	if err := d.opts.Inbox.Settle(ctx, name, by, decision, except); err != nil {
		d.log.Error("The inbox could not be told what became of a card", "peer", name, "error", err)
	}
}

// Decide carries out what was decided on an item of the inbox: the card that it
// names is approved, or stays held. The item itself is left to the caller.
func (d *Directory) Decide(ctx context.Context, item *store.InboxItem, approved bool) error {
	digest, ok := strings.CutPrefix(item.Op, opPin)
	if !ok {
		return fmt.Errorf("the item %s names no card", item.ID)
	}
	if !approved {
		return nil
	}
	return d.pin(ctx, item.Agent, digest, item.Assignee, item.ID)
}

// ErrNothingToPin says that there is no card to approve.
var ErrNothingToPin = errors.New("no card of the peer is known; `handoff peer check` gets it")

// Pin approves a card: the one with that digest, or with "" the one that waits,
// else the one in use. From then on the peer is pinned to it. Who does it is for
// the record.
func (d *Directory) Pin(ctx context.Context, name, digest, by string) (*Peer, error) {
	if err := d.pin(ctx, name, digest, by, ""); err != nil {
		return nil, err
	}
	return d.Get(name)
}

// pin is Pin, and leaves one item of the inbox as it is.
func (d *Directory) pin(ctx context.Context, name, digest, by, except string) error {
	e, err := d.find(name)
	if err != nil {
		return err
	}
	if e.config.Pin.Digest() != "" {
		return &config.Error{Problems: []config.Problem{{Path: "peers." + name + ".pin", Message: "names the digest in the configuration file", Hint: "change it there, and reload"}}}
	}
	if row, err := d.rows.get(ctx, name, 0); err != nil {
		return err
	} else if len(row.Held) == 0 {
		if _, _, err := d.ensure(ctx, e, digest != ""); err != nil && !isHeld(err) {
			return err
		}
	}
	var adopted *current
	_, err = d.rows.update(ctx, name, func(row *store.Peer) (bool, error) {
		adopted = nil
		waiting, _ := digestOf(row.Held)
		switch {
		case len(row.Held) > 0 && (digest == "" || digest == waiting):
			parsed, err := client.ParseCard(row.Held, "the card that waits")
			if err != nil {
				return false, err
			}
			facts := factsOf(row)
			// It was verified when it came, by the policy of then.
			f := &fetched{card: parsed, data: row.Held, digest: waiting, signature: facts.Signature, keyID: facts.KeyID}
			adopted = f.current(e)
			row.Card, row.Digest, row.Held, row.Pinned = row.Held, waiting, nil, waiting
			facts.HeldSince, facts.HeldItem, facts.CardAt = time.Time{}, "", d.now()
			return true, facts.into(row)
		case row.Digest != "" && (digest == "" || digest == row.Digest):
			if row.Pinned == row.Digest && row.Held == nil {
				return false, nil
			}
			row.Pinned, row.Held = row.Digest, nil
			return true, nil
		case digest == "":
			return false, ErrNothingToPin
		}
		return false, &DigestError{Peer: name, Digest: digest, Current: row.Digest, Held: waiting}
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	if adopted != nil {
		e.current = adopted
	}
	e.checked = time.Time{} // what is approved is compared with what the peer says now
	e.mu.Unlock()
	d.settle(ctx, name, by, "approved", except)
	return nil
}

// Unpin lets any card of the peer pass from now on. One that the configuration
// pins is pinned to the next card.
func (d *Directory) Unpin(ctx context.Context, name, by string) (*Peer, error) {
	e, err := d.find(name)
	if err != nil {
		return nil, err
	}
	if e.config.Pin.Digest() != "" {
		return nil, &config.Error{Problems: []config.Problem{{Path: "peers." + name + ".pin", Message: "names the digest in the configuration file", Hint: "remove it there, and reload"}}}
	}
	_, err = d.rows.update(ctx, name, func(row *store.Peer) (bool, error) {
		changed := row.Pinned != "" || row.Held != nil
		row.Pinned, row.Held = "", nil
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.checked = time.Time{}
	e.mu.Unlock()
	d.settle(ctx, name, by, "gone on", "")
	return d.Get(name)
}

// DigestError says that no card of a peer has the digest that somebody approves.
type DigestError struct {
	Peer, Digest  string
	Current, Held string // the digests that there are; "" for none
}

// Error names the digests that there are.
func (e *DigestError) Error() string {
	return fmt.Sprintf("the peer %q has no card with the digest %s: the one in use is %s, and the one that waits %s", e.Peer, Clean(e.Digest, maxName, false), orNone(e.Current), orNone(e.Held))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func isHeld(err error) bool {
	_, ok := errors.AsType[*HeldError](err)
	return ok
}
