// Package push sends the events of tasks to webhooks (A2A §3.1.7 to §3.1.10,
// §4.3). The event log of a task is the outbox: a webhook keeps the number of the
// last event that it was sent, and a job lets it go on. So events come in order,
// and what a crash interrupts is sent again, with the same id.
package push

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// Store is where tasks and their webhooks are kept.
type Store interface {
	store.Webhooks
	Commit(ctx context.Context, c *store.Change) error
	Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error)
	Events(ctx context.Context, task int64, after int64, limit int) ([]store.Event, error)
}

// Sealer encrypts what authenticates the node to a receiver.
type Sealer interface {
	Seal(plain []byte) ([]byte, error)
	Open(sealed []byte) ([]byte, error)
}

// Signer signs what is sent. It returns the parts of a JWS before and after the
// payload.
type Signer interface {
	Sign(payload []byte, typ string, extra map[string]string) (protected, signature string, err error)
}

// Observer is told what happens, for metrics. Its methods have to be quick.
type Observer interface {
	PushDelivered(agent string, took time.Duration)
	// PushFailed is told of a try that failed; the outcome is retry, dead or
	// gone.
	PushFailed(agent, outcome string)
	PushInFlight(delta int)
}

// Limits bound what webhooks may take. A zero field has the default that it
// names.
type Limits struct {
	PerTask   int           // webhooks of a task; 10
	PerTarget int           // deliveries to one host and port at once, on this node; 8, of which one owner alone gets half
	InFlight  int           // deliveries at once, on this node; 512, likewise
	Timeout   time.Duration // of a delivery; 15s
	Retry     time.Duration // how long a delivery is tried; 24h
	Refusals  int           // tries of what a receiver refuses for good; 5
	// Backoff is the time to the second try, which then doubles up to
	// MaxBackoff; 1s and 10m.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// MaxRetryAfter is the longest time for which a receiver may put off a
	// delivery; 1h.
	MaxRetryAfter time.Duration
}

func (l Limits) withDefaults() Limits {
	number := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	period := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	number(&l.PerTask, 10)
	number(&l.PerTarget, 8)
	number(&l.InFlight, 512)
	number(&l.Refusals, 5)
	period(&l.Timeout, 15*time.Second)
	period(&l.Retry, 24*time.Hour)
	period(&l.Backoff, time.Second)
	period(&l.MaxBackoff, 10*time.Minute)
	period(&l.MaxRetryAfter, time.Hour)
	return l
}

// Options are what a Service works with.
type Options struct {
	Store Store
	Scope store.Scope // of the node itself, for deliveries
	// Guard is asked about URLs, and makes the client.
	Guard *netguard.Guard
	// AllowHTTP lets webhooks have URLs of http. Destinations that the guard
	// allows by name may have them in any case.
	AllowHTTP bool
	Sealer    Sealer // nil: webhooks with secrets are refused
	// Signer returns what signs the events of an agent; nil, or a function that
	// returns nil: they are not signed. Issuer is who signs, and JWKS the URL
	// of the keys.
	Signer func(agent string) Signer
	Issuer func() string
	JWKS   func() string
	// Due is told when a job will be due that was put off.
	Due    func(time.Time)
	Limits Limits
	// Encode returns the body for a receiver of another version than 1.0, which
	// gets no event but its task as it is now. An *a2a.Error is for good: the
	// task is gone. Nil: all get events of 1.0.
	Encode   func(ctx context.Context, hook *store.Webhook) ([]byte, error)
	Version  string       // of the program, for the User-Agent
	Logger   *slog.Logger // nil: slog.Default()
	Observer Observer     // nil: nobody
	Tracer   trace.Tracer // nil: no traces
	// Traced returns a context as a part of the trace of a task; nil: pushes are
	// traces of their own.
	Traced func(ctx context.Context, task string) context.Context
}

// Service keeps webhooks and delivers to them. It is safe for concurrent use.
type Service struct {
	opts   Options
	limits Limits
	client *http.Client
	pool   *pool
	log    *slog.Logger
}

// New returns a service.
func New(opts Options) *Service {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Observer == nil {
		opts.Observer = nobody{}
	}
	if opts.Due == nil {
		opts.Due = func(time.Time) {}
	}
	limits := opts.Limits.withDefaults()
	return &Service{
		opts: opts, limits: limits, log: opts.Logger,
		pool: newPool(limits.PerTarget, limits.InFlight, limits.Backoff),
		client: opts.Guard.Named(netguard.Options{
			Timeout: limits.Timeout, HeaderTimeout: limits.Timeout, DialTimeout: min(limits.Timeout, 10*time.Second),
			TLSTimeout: min(limits.Timeout, 10*time.Second), MaxRedirects: -1,
		}),
	}
}

// Close drops the connections that are idle.
func (s *Service) Close() { s.client.CloseIdleConnections() }

type nobody struct{}

func (nobody) PushDelivered(string, time.Duration) {}
func (nobody) PushFailed(string, string)           {}
func (nobody) PushInFlight(int)                    {}
