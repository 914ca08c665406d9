package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// What a connection does.
const (
	active int32 = iota
	idle
	closed
)

const (
	// watchAfter is how long a call lasts before the server looks whether its client
	// is still there.
	watchAfter = 10 * time.Millisecond
	// maxLeft bounds what is read of content that a handler has left, so that its
	// connection can go on.
	maxLeft = 256 << 10
	// lingerTime is how long a client that still writes has to take its answer, before
	// the end of the connection takes it away (RFC 9112 §9.6).
	lingerTime = 500 * time.Millisecond
)

// longAgo is a deadline that ends who reads.
var longAgo = time.Unix(1, 0)

// conn is a connection. One goroutine serves it: it reads a request, lets the handler
// answer, and reads the next one.
type conn struct {
	server *Server
	net.Conn
	base   context.Context
	remote string
	tls    *tls.ConnectionState
	state  atomic.Int32

	given    []byte // what was read before the connection was taken over
	in       *bufio.Reader
	*buffers             // nil while the connection is idle
	text     string      // of the last head, unless it was long
	posted   bool        // the last request was a POST
	dated    atomic.Bool // there is a deadline for writes
	taken    atomic.Bool // the connection is somebody else's now
	released sync.Once

	mu       sync.Mutex
	deadline time.Time // for reads
	inForce  time.Time // deadline that the connection was told
	reading  bool
	timer    *time.Timer
	watched  *request      // whose client is watched; nil: none
	late     bool          // it was time to look, and the content was not there
	looking  chan struct{} // closed when the look is over; nil: nobody looks
}

func newConn(s *Server, nc net.Conn, r *http.Request, given []byte) *conn {
	c := &conn{server: s, Conn: nc, base: baseOf(r), remote: r.RemoteAddr, tls: r.TLS, given: append([]byte(nil), given...)}
	c.in = bufio.NewReader((*source)(c))
	if len(given) > 0 {
		_, _ = c.in.Peek(1) // they are in the buffer now
	}
	return c
}

// first returns the request with which the connection was taken over.
func (c *conn) first(r *http.Request) *request {
	ctx, cancel := context.WithCancel(c.base)
	next := &request{Request: r.WithContext(ctx), cancel: cancel}
	c.setBody(next)
	return next
}

// serve serves requests, from the first one on.
func (c *conn) serve(r *request) {
	defer func() {
		if p := recover(); p != nil {
			c.logPanic(p)
		}
		c.release()
		if !c.taken.Load() {
			_ = c.Close()
		}
	}()
	c.buffers = takeBuffers()
	for r != nil && c.answer(r) {
		r = c.next()
	}
}

// release says that the server has nothing to do with the connection any more.
func (c *conn) release() {
	c.released.Do(func() {
		c.server.forget(c)
		c.server.running.Done()
	})
}

func (c *conn) logPanic(p any) {
	c.server.opts.Logger.Error("A request panicked", "remote", c.remote, "panic", p, "stack", string(debug.Stack()))
}

// answer lets the handler answer a request, and reports whether another one may
// come.
func (c *conn) answer(r *request) bool {
	w := &response{c: c, r: r, header: make(http.Header, 8), length: unknown}
	r.body.answer = w
	c.posted = r.Method == http.MethodPost
	if ok := c.handle(w, r); c.taken.Load() || !ok {
		return false
	}
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll() // the system removes what is left
	}
	err := w.finish()
	if err != nil && !errors.Is(err, errShort) {
		return false
	}
	if c.dated.CompareAndSwap(true, false) {
		_ = c.SetWriteDeadline(time.Time{})
	}
	switch again := r.body.leave(); {
	case !again || err != nil:
		c.linger()
		return false
	case w.closes:
		if c.in.Buffered() > 0 {
			c.linger()
		}
		return false
	}
	return true
}

// handle calls the handler, and reports whether it has come to an end.
func (c *conn) handle(w *response, r *request) (ok bool) {
	c.watch(r)
	defer func() {
		w.over.Store(true)
		c.unwatch()
		r.cancel()
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is compared, as net/http does
			c.logPanic(p)
		}
	}()
	if r.Method == http.MethodOptions && r.RequestURI == "*" { // of the server itself; net/http answers like that
		w.Header().Set("Content-Length", "0")
		return true
	}
	c.server.handler.ServeHTTP(w, r.Request)
	return true
}

// next reads the next request. It returns nil when there is none.
func (c *conn) next() *request {
	c.buffers.giveBack()
	c.buffers = nil
	c.setDeadline(time.Now().Add(c.server.opts.IdleTimeout))
	c.state.Store(idle)
	if c.server.closing.Load() {
		return nil
	}
	if _, err := c.in.Peek(1); err != nil {
		return nil
	}
	c.buffers = takeBuffers()
	c.setDeadline(time.Now().Add(c.server.opts.HeaderTimeout))
	r, err := c.read()
	if !c.state.CompareAndSwap(idle, active) {
		return nil // the server stops
	}
	if err != nil {
		c.refuse(err)
		return nil
	}
	c.setDeadline(time.Time{})
	return r
}

// refuse answers what is no request, unless the connection itself has failed.
func (c *conn) refuse(err error) {
	e, ok := errors.AsType[*refusal](err)
	if !ok {
		return
	}
	status := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	_, werr := fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n%s: %s", status, status, e.why)
	if werr == nil {
		c.linger()
	}
}

// linger takes what the client still writes, so that it reads its answer before it
// hears of the end.
func (c *conn) linger() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.setDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, c.in)
	}
}

// retire closes the connection if it is idle, and else lets it end with its answer.
func (c *conn) retire() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.Close()
	}
}

// abort breaks the connection off.
func (c *conn) abort() { _ = c.Close() }

// setDeadline bounds the reads from now on.
func (c *conn) setDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bind(t)
}

// limit bounds the reads of content, as its handler says. Nobody reads it when it is
// over, and who looks for the client has no deadline.
func (c *conn) limit(b *body, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.over.Load() {
		c.bind(t)
	}
}

// bound bounds the reads from now on, unless they are already. It reports whether it
// has.
func (c *conn) bound(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := c.deadline.IsZero()
	if free {
		c.bind(t)
	}
	return free
}

// bind sets the deadline. The connection hears of it when there is something to wait
// for.
func (c *conn) bind(t time.Time) {
	c.deadline = t
	if c.reading {
		c.enforce()
	}
}

// enforce tells the connection of the deadline.
func (c *conn) enforce() {
	if c.deadline != c.inForce && !c.taken.Load() {
		c.inForce = c.deadline
		_ = c.SetReadDeadline(c.deadline)
	}
}

// source is the connection as its buffer reads it.
type source conn

func (s *source) Read(p []byte) (int, error) {
	c := (*conn)(s)
	if len(c.given) > 0 {
		n := copy(p, c.given)
		if c.given = c.given[n:]; len(c.given) == 0 {
			c.given = nil
		}
		return n, nil
	}
	c.mu.Lock()
	c.enforce()
	c.reading = true
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if err != nil && c.watched != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.watched.cancel() // its client is gone, or has nothing more to say
	}
	return n, err
}

// look finds out whether the client of a call is gone: source tells the handler. It is
// time for that once a call has lasted for a while, and when its content was read:
// until then, who reads the content finds out.
func (c *conn) look() {
	c.mu.Lock()
	switch {
	case c.watched == nil || c.looking != nil:
		c.mu.Unlock()
		return
	case !c.watched.body.over.Load():
		c.late = true
		c.mu.Unlock()
		return
	}
	looking := make(chan struct{})
	defer close(looking)
	c.looking = looking
	c.deadline = time.Time{}
	c.mu.Unlock()
	_, _ = c.in.Peek(1) // at best the next request, before this one is answered
}

// watch begins to watch the client of a call.
func (c *conn) watch(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.late = r, false
	if c.timer == nil {
		c.timer = time.AfterFunc(watchAfter, c.look)
	} else {
		c.timer.Reset(watchAfter)
	}
}

// heard says that the content of the request was read.
func (c *conn) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late && c.watched != nil {
		c.late = false
		c.timer.Reset(0)
	}
}

// unwatch ends that. Nobody reads the connection afterwards.
func (c *conn) unwatch() {
	c.mu.Lock()
	c.watched = nil
	c.timer.Stop()
	looking := c.looking
	c.mu.Unlock()
	if looking == nil {
		return
	}
	c.setDeadline(longAgo)
	<-looking
	c.mu.Lock()
	c.looking = nil
	c.mu.Unlock()
	c.setDeadline(time.Time{})
}
