// Package ledger keeps hold of the work that was handed to agents of others. A
// delegation is a task of the engine whose agent is the peer; what is known of
// the peer's side is a row beside it, written before the first byte is sent.
// One message is sent once: after a failure the ledger looks before it sends
// again.
package ledger

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/store"
)

// Store is where tasks and delegations are kept.
type Store interface {
	// Private returns the private state of a task, nil when it has none.
	Private(ctx context.Context, task int64) (a2a.JSON, error)
	Commit(ctx context.Context, c *store.Change) error
	Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error)
	List(ctx context.Context, scope store.Scope, q store.ListQuery) (*store.Page, error)
	Messages(ctx context.Context, task int64, from int64) ([]store.Event, error)
	Result(ctx context.Context, task int64, key string) (a2a.JSON, error)
	Delegation(ctx context.Context, scope store.Scope, task string) (*store.Delegation, error)
	InboxItems(ctx context.Context, scope store.Scope, q store.InboxQuery) (*store.InboxPage, error)
	UpdateInbox(ctx context.Context, scope store.Scope, u *store.InboxUpdate) error
}

// Engine runs the tasks.
type Engine interface {
	// Wake starts the next turn of a delegation that waits, with
	// agent.CauseCallback, or tells the turn that runs that there is news.
	Wake(ctx context.Context, task string) error
	// LineageOf returns what the messages of a delegation tell its peer.
	LineageOf(ctx context.Context, task string) (*a2a.Lineage, error)
}

// Peers knows the agents that work is handed to.
type Peers interface {
	// Open returns how a peer is spoken to, on behalf of a user. An error that
	// another try cannot mend is a *PeerError. With an error it may return a Link that
	// has nothing but Stuck.
	Open(ctx context.Context, name string, user User) (*Link, error)
	// Observe is told how a call went.
	Observe(ctx context.Context, name string, o Observation)
}

// User is on whose behalf a peer is called.
type User struct {
	Tenant  string
	Subject string // "" for an anonymous one
}

// Link is how a peer is spoken to. Zero durations have the defaults that they
// name.
type Link struct {
	Client *client.Client
	// Deduplicates says that the peer is known to do a message once that comes
	// twice with the same id.
	Deduplicates bool
	// Stream, Push and Poll say which channels may be used.
	Stream, Push, Poll bool
	// Quiet is how long a stream may bring no event before it is closed and the
	// delegation parked; 1m.
	Quiet time.Duration
	// PollMin and PollMax bound the time between two looks at a peer that is
	// polled; 2s and 5m.
	PollMin, PollMax time.Duration
	// Connect and Answer are the clocks of connecting and of waiting for the
	// first answer to a message; 10s and 1m. The third clock is the deadline of
	// the delegation.
	Connect, Answer time.Duration
	// Stuck is how long the peer may be silent where it has to answer before
	// somebody is told; 0: Options.Stuck.
	Stuck time.Duration
	// ArtifactBytes is how much the artifacts of a task may have together; 64 MiB.
	// Of what is over it, name, size and digest are kept.
	ArtifactBytes int64
	// ReceivedBytes and ReceivedEvents are how much a peer may send for a
	// delegation over its life, artifacts and everything that it says; 256 MiB and
	// 100,000. One that sends more is told to cancel, and the delegation FAILED.
	ReceivedBytes, ReceivedEvents int64
	// Redact returns a text with *** for what the peer was shown as credentials;
	// nil: texts are taken as they are.
	Redact     func(string) string
	CardDigest string
	// Keys is where the peer has the keys that it signs pushes with: the origins
	// that a jku may name. Empty: its own.
	Keys []string
}

func (l Link) withDefaults() Link {
	period := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	period(&l.Quiet, time.Minute)
	period(&l.PollMin, 2*time.Second)
	period(&l.PollMax, 5*time.Minute)
	period(&l.Connect, 10*time.Second)
	period(&l.Answer, time.Minute)
	l.PollMax = max(l.PollMax, l.PollMin)
	if l.ArtifactBytes <= 0 {
		l.ArtifactBytes = 64 << 20
	}
	if l.ReceivedBytes <= 0 {
		l.ReceivedBytes = 256 << 20
	}
	if l.ReceivedEvents <= 0 {
		l.ReceivedEvents = 100_000
	}
	return l
}

// Observation is how a call of a peer went.
type Observation struct {
	Interface string // binding, version and URL
	Took      time.Duration
	Err       error // nil: it answered
	// Deduplicates says whether the peer has taken a message that it got twice for
	// one; nil: that was not seen.
	Deduplicates *bool
}

// Sealer encrypts what a peer has to present at the receiver.
type Sealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// Options are what a Ledger works with.
type Options struct {
	Store  Store
	Scope  store.Scope // of the node itself
	Engine Engine
	Peers  Peers
	// BaseURL returns where the node is reached from outside, without a slash at
	// its end; "" when it is not, and peers cannot push.
	BaseURL func() string
	Sealer  Sealer // nil: peers are not asked to push
	// Keys returns the HTTP client with which the keys of peers are fetched, and
	// nothing else. Nil: pushes that are signed are taken by their secrets alone.
	Keys *http.Client
	// Stuck is how long a peer may be silent where it has to answer before
	// somebody is told; 0: 15m.
	Stuck time.Duration
	// Backoff is the time to the second try of what failed, which then doubles up
	// to MaxBackoff; 1s and 5m.
	Backoff, MaxBackoff time.Duration
	// Recall is how long a peer is told to cancel until it answers; 24h.
	Recall time.Duration
	// PushBytes bounds the body of a push; 16 MiB.
	PushBytes int64
	// ItemDue says when an item of the inbox is due that a job makes, and which
	// jobs go with it; nil: never, and none.
	ItemDue func(*store.InboxItem) (due time.Time, jobs []store.Job)
	Due     func(time.Time) // is told when a job will be due; may be nil
	Logger  *slog.Logger    // nil: slog.Default()
}

// Ledger runs the delegations of a node. It is safe for concurrent use.
type Ledger struct {
	opts Options
	log  *slog.Logger
	keys *keyring
	seen *recent // events and tokens that came to the receiver
	rate *meter

	hinting sync.Mutex // held while a push is added to those of its delegation

	mu      sync.Mutex
	sending map[string]chan struct{} // sends under way by task; closed when they are over
	lines   map[string]chan struct{} // to peers, for jobs
}

// New returns a ledger.
func New(opts Options) *Ledger {
	period := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	period(&opts.Stuck, 15*time.Minute)
	period(&opts.Backoff, time.Second)
	period(&opts.MaxBackoff, 5*time.Minute)
	period(&opts.Recall, 24*time.Hour)
	if opts.PushBytes <= 0 {
		opts.PushBytes = 16 << 20
	}
	if opts.BaseURL == nil {
		opts.BaseURL = func() string { return "" }
	}
	if opts.ItemDue == nil {
		opts.ItemDue = func(*store.InboxItem) (time.Time, []store.Job) { return time.Time{}, nil }
	}
	if opts.Due == nil {
		opts.Due = func(time.Time) {}
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Ledger{
		opts: opts, log: opts.Logger, keys: newKeyring(opts.Keys), seen: newRecent(), rate: newMeter(),
		sending: map[string]chan struct{}{}, lines: map[string]chan struct{}{},
	}
}

// Agent returns the agent that does its work by handing it to a peer. Its turns
// have to be those of delegations, and can be resumed.
func (l *Ledger) Agent(peer string) agent.Agent {
	return agent.Func(func(ctx context.Context, t *agent.Turn) error { return l.run(ctx, peer, t) })
}

// begin says that a send of a task is under way; end that it is over.
func (l *Ledger) begin(task string) (end func()) {
	done := make(chan struct{})
	l.mu.Lock()
	l.sending[task] = done
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		if l.sending[task] == done {
			delete(l.sending, task)
		}
		l.mu.Unlock()
		close(done)
	}
}

// sent waits until no send of a task is under way on this node.
func (l *Ledger) sent(ctx context.Context, task string) {
	l.mu.Lock()
	done := l.sending[task]
	l.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// maxLines is how many jobs ask one peer at once.
const maxLines = 8

// line waits until one more job may ask a peer, so that one that does not answer
// holds up nobody else.
func (l *Ledger) line(ctx context.Context, peer string) (free func(), err error) {
	l.mu.Lock()
	lines := l.lines[peer]
	if lines == nil {
		lines = make(chan struct{}, maxLines)
		l.lines[peer] = lines
	}
	l.mu.Unlock()
	select {
	case lines <- struct{}{}:
		return func() { <-lines }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
