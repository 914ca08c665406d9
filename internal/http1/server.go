// Package http1 serves connections of HTTP/1.1 over which programs make one call
// after another (RFC 9112). To handlers it is what net/http is, and it does with less:
// one string holds all that the header of a request says, an answer leaves with one
// system call, deadlines are set where somebody waits, and the goroutine that looks
// whether the client is still there is started for calls that last.
package http1

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options bound what a client may do. None of them may be zero.
type Options struct {
	HeaderTimeout time.Duration // for the header of a request
	IdleTimeout   time.Duration // of a connection
	HeaderBytes   int
	Logger        *slog.Logger
}

// Server takes connections over from net/http, which has accepted them and served their
// first call, and serves them to their end.
type Server struct {
	handler http.Handler
	opts    Options

	running sync.WaitGroup // connections
	closing atomic.Bool
	mu      sync.Mutex
	conns   map[*conn]struct{}
	aborted bool // what is left was broken off
}

// New returns a server for a handler. It has to be attached to one of net/http.
func New(handler http.Handler, o Options) *Server {
	return &Server{handler: handler, opts: o, conns: map[*conn]struct{}{}}
}

// calls is how many calls have come over a connection of net/http, and where it is in
// the context of its requests.
type (
	calls struct {
		n   atomic.Int32
		ctx context.Context // of the connection
	}
	callsKey struct{}
)

// Attach makes it the handler of a server, whose connections it takes over when they
// prove to be such. It is shut down at the same time as that server.
func (s *Server) Attach(server *http.Server) {
	server.Handler = s
	inner := server.ConnContext
	server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, nc)
		}
		return context.WithValue(ctx, callsKey{}, &calls{ctx: ctx})
	}
}

// baseOf returns the context of the connection of a request, which outlasts what
// net/http does with it.
func baseOf(r *http.Request) context.Context {
	before := r.Context().Value(callsKey{}).(*calls)
	return context.WithValue(before.ctx, http.LocalAddrContextKey, r.Context().Value(http.LocalAddrContextKey))
}

// ServeHTTP serves a request of net/http.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isCall(r) || !s.take(w, r) {
		s.handler.ServeHTTP(w, r)
	}
}

// isCall reports whether a request is the second call over its connection, so that
// more are to be expected.
func isCall(r *http.Request) bool {
	if r.Method != http.MethodPost || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Close || r.Header["Upgrade"] != nil {
		return false
	}
	before, ok := r.Context().Value(callsKey{}).(*calls)
	return ok && before.n.Add(1) > 1
}

// take takes over the connection of a request that was not yet looked at.
func (s *Server) take(w http.ResponseWriter, r *http.Request) bool {
	if !s.begin() {
		return false
	}
	nc, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.running.Done()
		return false
	}
	given, _ := buffered.Peek(buffered.Reader.Buffered()) // no more than is there
	c := newConn(s, nc, r, given)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	aborted := s.aborted
	s.mu.Unlock()
	if aborted {
		c.abort()
	}
	go c.serve(c.first(r))
	return true
}

// begin reports whether a connection may be taken, and counts it.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.running.Add(1)
	return true
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown closes the connections that are idle, and waits for the answers of the
// others. What is not over when ctx ends is broken off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close((*conn).retire)
	over := make(chan struct{})
	go func() {
		s.running.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.aborted = true
		s.mu.Unlock()
		s.close((*conn).abort)
		return context.Cause(ctx)
	}
}

func (s *Server) close(how func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	for c := range s.conns {
		how(c)
	}
}
