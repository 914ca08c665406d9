// Package wire is the protocol's bindings: JSON-RPC (A2A §9) and HTTP+JSON
// (A2A §11), both with streams as server-sent events, and gRPC (A2A §10). It turns
// bytes into calls of the engine and back, and does nothing else.
package wire

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/push"
)

// Options are what a Handler runs on.
type Options struct {
	Engine *engine.Engine
	// Webhooks is nil when no agent sends events to webhooks.
	Webhooks *push.Service
	// Agents returns the current agents. A request uses one set to its end.
	Agents func() *Set
	Auth   auth.Authenticator
	// Challenger tells callers what their credentials lack; nil: nobody.
	Challenger auth.Challenger
	Logger     *slog.Logger // nil: slog.Default()
	Tracer     trace.Tracer // nil: no spans
	// Observe is told of every request for metrics; code is "OK" or the name of
	// the error. Nil: nobody. It has to be quick.
	Observe func(operation, code string, took time.Duration)
	// Limited is told of every request that a limit has refused, with the name of
	// the limit. Nil: nobody. It has to be quick.
	Limited func(limit string)
	// Audit records who did what; nil: nobody does.
	Audit *audit.Log
	CORS  CORS

	// BodyBytes is the largest request body; 0: 16 MiB.
	BodyBytes int64
	// BodyTimeout is how long a client may take to send a body; 0: 60 s.
	BodyTimeout time.Duration
	// Depth is how deep JSON may nest; 0 or more than a2a.MaxDepth: that.
	Depth int
	// KeepAlive is how long a stream may be silent before a comment is sent;
	// 0: 15 s.
	KeepAlive time.Duration
	// ParkAfter is how long a subscription is silent before it is parked, that is,
	// goes on without the buffers of the server; 0: 1 s.
	ParkAfter time.Duration
	// WriteTimeout is how long a client may take to read a piece of a stream of
	// at most 64 KiB, before it counts as dead; 0: 30 s.
	WriteTimeout time.Duration
	// Streams is how many streams one caller may have open; 0: no limit.
	Streams int
	// OpenStreams counts them, for all handlers that have it; nil: this one alone.
	OpenStreams *Streams
}

// Handler answers everything below /agents/, at the places that agents have for
// themselves, and below the services of gRPC. Everything else is not found.
type Handler struct {
	opts    Options
	log     *slog.Logger
	service service
	streams *Streams
	cors    cors
	grpc    *grpcServer
	parked  sync.WaitGroup // streams that the server does not know any more
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a handler.
func NewHandler(opts Options) *Handler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.BodyBytes == 0 {
		opts.BodyBytes = 16 << 20
	}
	if opts.BodyTimeout == 0 {
		opts.BodyTimeout = 60 * time.Second
	}
	if opts.Depth == 0 || opts.Depth > maxDepth {
		opts.Depth = maxDepth
	}
	if opts.KeepAlive == 0 {
		opts.KeepAlive = 15 * time.Second
	}
	if opts.ParkAfter == 0 {
		opts.ParkAfter = time.Second
	}
	if opts.WriteTimeout == 0 {
		opts.WriteTimeout = 30 * time.Second
	}
	if opts.OpenStreams == nil {
		opts.OpenStreams = NewStreams()
	}
	h := &Handler{
		opts:    opts,
		log:     opts.Logger,
		service: service{engine: opts.Engine, webhooks: opts.Webhooks, challenger: opts.Challenger, audit: opts.Audit},
		streams: opts.OpenStreams,
		cors:    newCORS(opts.CORS),
	}
	h.grpc = newGRPCServer(h)
	return h
}

// Serves reports whether an agent has something at that path, so that a node
// with more to offer can tell what to send here.
func (h *Handler) Serves(path string) bool {
	e, _ := h.opts.Agents().route(path)
	return e.kind != endpointNone
}

// Wait returns when the subscriptions have ended that are parked, and that the
// server therefore does not wait for when it shuts down. The end of the engine
// ends them.
func (h *Handler) Wait() { h.parked.Wait() }

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(h, w, r)
	defer x.end()
	x.limitBody()
	h.cors.answer(w.Header(), r)
	x.agents = h.opts.Agents()
	e, rest := x.agents.route(r.URL.EscapedPath())
	x.agent, x.tenant = e.agent, e.tenant
	switch e.kind {
	case endpointNone:
		x.refuseRoute()
	case endpointHome:
		x.serveHome()
	case endpointCard:
		x.serveCard()
	case endpointRPC:
		x.serveRPC()
	case endpointREST:
		x.serveREST(rest)
	case endpointOldHome:
		x.serveOldHome()
	case endpointOldREST:
		x.serveOldREST(rest)
	case endpointGRPC:
		x.serveGRPC(rest)
	}
}

// ServeREST answers a request of HTTP+JSON for an agent at another place than those
// that the set of agents has. The path is what follows the base there, with its
// percent escapes still.
func (h *Handler) ServeREST(w http.ResponseWriter, r *http.Request, a *Agent, path string) {
	x := newExchange(h, w, r)
	defer x.end()
	x.limitBody()
	x.agent = a
	x.serveREST(path)
}

// admitCaller finds out who is calling, and reports false when the request was
// refused.
func (x *exchange) admitCaller() bool {
	caller, err := x.h.opts.Auth.Authenticate(x.h.cors.known(x.r))
	if err != nil {
		x.remote = caller.Address
		x.refuse(err)
		return false
	}
	x.remote, x.caller, x.request = caller.Address, caller, x.r
	return true
}

// run carries the call out and answers it in the form of its binding. Every
// binding has its own way to read the parameters.
func (x *exchange) run(ctx context.Context, p parameters) {
	s, c := &x.h.service, &x.call
	if err := s.admit(c); err != nil {
		x.refuse(err)
		return
	}
	if len(c.active) > 0 {
		x.w.Header()[headerExtensions] = []string{formatExtensions(c.active)}
	}
	lasting := ctx
	if !c.op.streams() && x.via == nil {
		var release context.CancelFunc
		lasting, release = x.outlast(ctx)
		defer release()
	}
	switch c.op {
	case opSendMessage:
		q := &sendRequest{}
		if x.read(p, q) {
			response, err := s.send(lasting, c, q)
			answer(x, response, err)
		}
	case opSendStreamingMessage:
		q := &sendRequest{}
		if x.read(p, q) {
			x.stream(ctx, func(ctx context.Context) (*engine.Stream, error) { return s.stream(ctx, c, q) })
		}
	case opGetTask:
		q := &getRequest{}
		if x.read(p, q) {
			response, err := s.get(lasting, c, q)
			answer(x, response, err)
		}
	case opListTasks:
		q := &listRequest{}
		if x.read(p, q) {
			response, err := s.list(lasting, c, q)
			answer(x, response, err)
		}
	case opCancelTask:
		q := &cancelRequest{}
		if x.read(p, q) {
			response, err := s.cancel(lasting, c, q)
			answer(x, response, err)
		}
	case opGetExtendedCard:
		q := &cardRequest{}
		if x.read(p, q) {
			response, err := s.extended(c, q)
			x.answerCard(response, err)
		}
	case opSubscribeToTask:
		q := &subscribeRequest{}
		if x.read(p, q) {
			x.stream(ctx, func(ctx context.Context) (*engine.Stream, error) { return s.subscribe(ctx, c, q) })
		}
	default:
		x.runWebhooks(lasting, p)
	}
}
