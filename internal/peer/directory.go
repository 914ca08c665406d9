package peer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// Sealer encrypts what is kept and secret.
type Sealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// Inbox takes items that wait for a person.
type Inbox interface {
	// Raise adds an item. One with an id that there is already is no error.
	Raise(ctx context.Context, item *store.InboxItem) error
	// Settle settles the open items about the card of a peer but the one with the
	// id except.
	Settle(ctx context.Context, peer, by, decision, except string) error
}

// Options are what a Directory works with.
type Options struct {
	// Store keeps the catalog; nil keeps it in memory.
	Store store.Peers
	// Inbox is told of cards that wait for approval; nil: nobody is.
	Inbox Inbox
	// Guard is the way out. It is required.
	Guard *netguard.Guard
	// Sealer seals tokens and the configurations of peers that are added; nil
	// refuses to keep them.
	Sealer Sealer
	// BaseURL returns the public URL of the node without a slash at its end, where
	// people come back after a login; nil: there are no logins.
	BaseURL func() string
	// Logger is told what an operator should know; nil: slog.Default().
	Logger *slog.Logger
	// Tracer makes spans for calls of peers that are a part of a trace; nil: none.
	Tracer trace.Tracer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Directory knows the peers of a node: those of its configuration, and those that
// were added while it ran. It is safe for concurrent use.
type Directory struct {
	opts  Options
	log   *slog.Logger
	now   func() time.Time
	rows  *rows
	auth  *http.Client // to authorization servers that the operator named
	named *http.Client // to those that others named
	set   atomic.Pointer[Set]

	mu    sync.Mutex
	added map[string]addedEntry // by name
}

// addedEntry is a peer that was added, as made of the configuration in its row.
type addedEntry struct {
	sealed []byte
	entry  *entry
}

// Set are the peers of one configuration. It is immutable.
type Set struct{ entries map[string]*entry }

// New returns a directory without peers; Use gives it those of a configuration.
func New(opts Options) *Directory {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	d := &Directory{
		opts: opts, log: opts.Logger, now: opts.Now, rows: newRows(opts.Store, opts.Now), added: map[string]addedEntry{},
		auth:  opts.Guard.Configured(netguard.Options{Timeout: tokenTimeout, MaxRedirects: -1}),
		named: opts.Guard.Named(netguard.Options{Timeout: tokenTimeout, MaxRedirects: -1}),
	}
	d.set.Store(&Set{})
	return d
}

// Prepare builds the peers of a configuration, without sending anything: what it
// cannot do, such as read a certificate, is an error of the configuration. A peer
// that has not changed stays what it is, with its connections.
func (d *Directory) Prepare(c *config.Config) (*Set, error) {
	s := &Set{entries: map[string]*entry{}}
	before := d.set.Load().entries
	var problems []config.Problem
	for _, name := range c.PeerNames() {
		if old := before[name]; old != nil && reflect.DeepEqual(old.config, c.Peers[name]) {
			s.entries[name] = old
			continue
		}
		e, err := d.newEntry(name, c.Peers[name], c.Path, false)
		if err != nil {
			problems = append(problems, problemOf(c, name, err))
			continue
		}
		s.entries[name] = e
	}
	return s, c.Refuse(problems...)
}

// Use puts a set into effect. Calls under way keep what they began with.
func (d *Directory) Use(s *Set) {
	before := d.set.Swap(s)
	for name, e := range before.entries {
		if s.entries[name] != e {
			e.way.CloseIdleConnections()
		}
	}
}

// Check returns what is wrong with the peers of a configuration that only a look
// at their files shows. Nothing is sent.
func Check(c *config.Config) []config.Problem {
	d := New(Options{Guard: netguard.New(netguard.Policy{}), Logger: slog.New(slog.DiscardHandler)})
	var problems []config.Problem
	for _, name := range c.PeerNames() {
		e, err := d.newEntry(name, c.Peers[name], c.Path, false)
		if err == nil && e.source != nil {
			_, err = e.ownCard(context.Background())
		}
		if err != nil {
			problems = append(problems, problemOf(c, name, err))
		}
	}
	return problems
}

func problemOf(c *config.Config, name string, err error) config.Problem {
	path := "peers." + name
	if e, ok := err.(*FieldError); ok {
		return c.Problem(path+"."+e.Path, "cannot be used: %v", e.Err)
	}
	return c.Problem(path, "cannot be used: %v", err)
}

// Close writes what was observed and not written yet.
func (d *Directory) Close(ctx context.Context) error {
	var first error
	for _, e := range d.all() {
		if err := d.flush(ctx, e); err != nil && first == nil {
			first = err
		}
		e.way.CloseIdleConnections()
	}
	return first
}

// all returns the entries that are in use.
func (d *Directory) all() []*entry {
	list := slices.Collect(maps.Values(d.set.Load().entries))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.added {
		list = append(list, a.entry)
	}
	return list
}

// patience bounds the questions to the store that have no context of a caller's.
const patience = 5 * time.Second

// Names returns the names of all peers, in order.
func (d *Directory) Names() []string {
	names := slices.Collect(maps.Keys(d.set.Load().entries))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	added, err := d.rows.added(ctx)
	if err != nil {
		d.log.Warn("The peers that were added are not known", "error", err)
	}
	names = append(names, added...)
	slices.Sort(names)
	return slices.Compact(names)
}

// find returns the peer of that name, or an *UnknownError.
func (d *Directory) find(name string) (*entry, error) {
	if e := d.set.Load().entries[name]; e != nil {
		return e, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	row, err := d.rows.get(ctx, name, rowAge)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.added[name]
	if row.Added == nil {
		if ok {
			delete(d.added, name)
			known.entry.way.CloseIdleConnections()
		}
		return nil, &UnknownError{Name: name}
	}
	if ok && bytes.Equal(known.sealed, row.Added) {
		return known.entry, nil
	}
	e, err := d.open(name, row.Added)
	if err != nil {
		return nil, err
	}
	d.added[name] = addedEntry{row.Added, e}
	return e, nil
}

// open makes a peer of a configuration that was kept.
func (d *Directory) open(name string, sealed []byte) (*entry, error) {
	if d.opts.Sealer == nil {
		return nil, fmt.Errorf("open peer %q: %w", name, ErrNoKey)
	}
	plain, err := d.opts.Sealer.Open(sealed)
	if err != nil {
		return nil, fmt.Errorf("open peer %q: %w", name, err)
	}
	p, err := config.ParsePeer(name, plain)
	if err != nil {
		return nil, fmt.Errorf("open peer %q: %w", name, err)
	}
	return d.newEntry(name, p, samePath, true)
}

func samePath(path string) string { return path }

// Add adds a peer while the node runs, by its configuration as JSON, or replaces
// one that was added. One of the configuration is not replaced.
func (d *Directory) Add(ctx context.Context, name string, body []byte) (*Peer, error) {
	if d.set.Load().entries[name] != nil {
		return nil, &config.Error{Problems: []config.Problem{{Path: "peers." + name, Message: "is in the configuration file", Hint: "change it there"}}}
	}
	p, err := config.ParsePeer(name, body)
	if err != nil {
		return nil, err
	}
	if _, err := d.newEntry(name, p, samePath, true); err != nil {
		return nil, &config.Error{Problems: []config.Problem{{Path: "peers." + name, Message: "cannot be used: " + err.Error()}}}
	}
	if d.opts.Sealer == nil {
		return nil, ErrNoKey
	}
	sealed, err := d.opts.Sealer.Seal(body)
	if err != nil {
		return nil, fmt.Errorf("seal peer: %w", err)
	}
	_, err = d.rows.update(ctx, name, func(row *store.Peer) (bool, error) {
		fresh := store.Peer{Name: name, Version: row.Version, Added: sealed, Pinned: row.Pinned}
		if row.Added == nil { // what is left of one that was in the configuration
			fresh.Pinned = ""
		}
		*row = fresh
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	d.rows.forget()
	return d.Get(name)
}

// Remove removes a peer that was added, or what is kept of one that is not
// configured any more.
func (d *Directory) Remove(ctx context.Context, name string) error {
	if d.set.Load().entries[name] != nil {
		return &config.Error{Problems: []config.Problem{{Path: "peers." + name, Message: "is in the configuration file", Hint: "remove it there"}}}
	}
	if _, err := d.find(name); err != nil {
		return err
	}
	return d.rows.remove(ctx, name)
}

// Get returns what is known of a peer, without asking it. Its error is an
// *UnknownError when there is none.
func (d *Directory) Get(name string) (*Peer, error) {
	e, err := d.find(name)
	if err != nil {
		if u, ok := err.(*UnknownError); ok {
			u.Names = d.Names()
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	row, err := d.rows.get(ctx, name, rowAge)
	if err != nil {
		return nil, err
	}
	return d.peerOf(ctx, e, row), nil
}

// peerOf puts together what is known of a peer.
func (d *Directory) peerOf(ctx context.Context, e *entry, row *store.Peer) *Peer {
	p := &Peer{Name: e.name, Config: e.config, Added: e.added, Pinned: e.pinned(row), Facts: factsOf(row), Seen: row.Seen, secrets: e.way.secrets}
	current := e.known(row)
	if current != nil {
		p.Card, p.Digest = current.card, current.digest
		if c, err := client.New(current.use, client.Options{Transports: e.config.Transports}); err == nil {
			i := c.Interface()
			p.Interface = &i
		}
	}
	if len(row.Held) > 0 {
		p.Held = e.held(row, current)
	}
	return p
}

// Client returns a client of a peer for a user, and what is known of the peer. The
// card comes from memory while it is fresh, from the peer, or where the peer is
// down from the store; it is verified, and compared with the one that is pinned
// (*HeldError). Credentials are chosen to fit it (*CredentialsError, *LoginError at
// the first request).
func (d *Directory) Client(ctx context.Context, name string, user User) (*client.Client, *Peer, error) {
	e, err := d.find(name)
	if err != nil {
		return nil, nil, err
	}
	current, row, err := d.ensure(WithUser(ctx, user), e, false)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.client(current, user)
	if err != nil {
		return nil, nil, err
	}
	p := d.peerOf(ctx, e, row)
	i := c.Interface()
	p.Card, p.Digest, p.Interface = current.card, current.digest, &i
	return c, p, nil
}

// client returns a client of the agent with that card.
func (e *entry) client(current *current, user User) (*client.Client, error) {
	set, err := choose(e.name, current.use, &e.config.Auth)
	if err != nil {
		return nil, err
	}
	opts := e.options()
	opts.Credentials = newCredentials(e, user, set)
	c, err := client.New(current.use, opts)
	if err != nil {
		return nil, fmt.Errorf("peer %q: %w", e.name, err)
	}
	return c, nil
}

// options are those of every client of the peer, without credentials.
func (e *entry) options() client.Options {
	c := e.config
	opts := client.Options{
		HTTPClient: e.http, Extensions: c.Extensions, Transports: c.Transports, NoFiles: true,
		IdleTimeout: c.Quiet.Std(), CallTimeout: c.AnswerTimeout.Std(), ResponseTimeout: c.AnswerTimeout.Std(),
		Tracer: e.tracer,
		VerifyCard: func(ctx context.Context, data []byte) ([]byte, error) {
			v, err := e.verifier.Verify(ctx, data)
			if err != nil {
				return nil, err
			}
			return v.Covered, nil
		},
	}
	if e.source == nil {
		opts.CardURL = c.Card.Ref()
	}
	for _, u := range e.way.own {
		opts.Origins = append(opts.Origins, u.Scheme+"://"+u.Host)
	}
	return opts
}

// ClientOptions returns the options of clients of a peer for a user, with all
// credentials that it has: for programs that look at the peer themselves, such as
// one that checks its conformance.
func (d *Directory) ClientOptions(name string, user User) (client.Options, error) {
	e, err := d.find(name)
	if err != nil {
		return client.Options{}, err
	}
	set, err := choose(name, nil, &e.config.Auth)
	if err != nil {
		return client.Options{}, err
	}
	opts := e.options()
	opts.Credentials = newCredentials(e, user, set)
	return opts, nil
}

// OwnCard returns the bytes of a card in a file or one that is written out, and nil
// for one that is at a URL.
func (d *Directory) OwnCard(name string) ([]byte, error) {
	e, err := d.find(name)
	if err != nil || e.source == nil {
		return nil, err
	}
	data, err := e.source()
	if err != nil {
		return nil, &FieldError{"card", err}
	}
	return data, nil
}

// Adjust returns a card of a peer as it is used: at the address and for the tenant
// that the configuration says.
func (d *Directory) Adjust(name string, card *a2a.AgentCard) *a2a.AgentCard {
	e, err := d.find(name)
	if err != nil {
		return card
	}
	return adjust(card, e.config)
}

// adjust returns the card as it is used: at the address and for the tenant that
// the configuration says.
func adjust(card *a2a.AgentCard, p *config.Peer) *a2a.AgentCard {
	if p.URL == "" && p.Tenant == "" {
		return card
	}
	c := *card
	c.SupportedInterfaces = slices.Clone(card.SupportedInterfaces)
	if p.Tenant != "" {
		of := slices.DeleteFunc(slices.Clone(c.SupportedInterfaces), func(i a2a.AgentInterface) bool { return i.Tenant != p.Tenant })
		if len(of) > 0 {
			c.SupportedInterfaces = of
		}
	}
	for i := range c.SupportedInterfaces {
		one := &c.SupportedInterfaces[i]
		if p.URL != "" {
			one.URL = p.URL
		}
		if p.Tenant != "" {
			one.Tenant = p.Tenant
		}
	}
	return &c
}
