package netguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"
)

// Plain posts small bodies to one URL of the operator's over HTTP/1.1 without TLS.
// It takes a good half of what net/http takes for that, since nothing but the
// caller's goroutine has a part in it: it writes a request and then reads the
// answer. It follows no redirect. It is safe for concurrent use.
type Plain struct {
	guard *Guard
	opts  Options
	addr  string
	head  []byte // request line and host

	mu     sync.Mutex
	idle   []*plainConn // the one that was used last is the last
	sweep  *time.Timer  // set while connections are idle
	closed bool
}

// PlainBytes is the largest body that Plain posts: one that a connection takes
// though the server does not read it yet.
const PlainBytes = 32 << 10

// ConfiguredPlain returns a client for one URL that the operator configured, which
// may be private; nil for one that it cannot serve, such as one of https.
func (g *Guard) ConfiguredPlain(raw string, o Options) *Plain {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.User != nil || g.checkURL(u, false) != nil {
		return nil
	}
	if !httpguts.ValidHostHeader(u.Host) || strings.ContainsAny(u.Host, "%") || strings.ContainsFunc(u.Host, func(r rune) bool { return r > '~' }) {
		return nil // it would have to be written otherwise
	}
	return &Plain{
		guard: g, opts: o.withDefaults(), addr: net.JoinHostPort(u.Hostname(), portOf(u)),
		head: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n", u.RequestURI(), u.Host),
	}
}

// Post sends a body. Sent reports whether the server may have something of it when
// there is an error. Of an answer whose status is 2xx, the header has but the type
// of the content and what is named in want. The body of the answer has to be closed,
// and ends with the context.
func (p *Plain) Post(ctx context.Context, header http.Header, body []byte, want ...string) (r *http.Response, sent bool, err error) {
	for {
		conn, err := p.conn(ctx)
		if err != nil {
			return nil, false, err
		}
		e := &plainExchange{conn: conn}
		e.release = context.AfterFunc(ctx, conn.abort)
		n, err := conn.write(p.head, header, body)
		if err != nil {
			e.end(false)
			if n == 0 && conn.used && ctx.Err() == nil && !errors.Is(err, errHeader) {
				continue // the server has closed it while it was idle
			}
			return nil, n > 0, orDone(ctx, err)
		}
		e.ctx = ctx
		if err := e.begin(want); err != nil {
			e.end(false)
			return nil, true, orDone(ctx, err)
		}
		return &e.response, true, nil
	}
}

// orDone returns why the context has ended, if it has.
func orDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// conn returns a connection: one that is idle, or else a new one.
func (p *Plain) conn(ctx context.Context) (*plainConn, error) {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			p.mu.Unlock()
			break
		}
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if c.alive() {
			return c, nil
		}
		_ = c.Close()
	}
	dial, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	conn, err := p.guard.DialConfigured(dial, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	c := &plainConn{Conn: conn, pool: p, in: bufio.NewReader(conn)}
	c.abort = func() { _ = conn.Close() }
	c.watch(conn)
	return c, nil
}

// keep takes a connection that may be used again.
func (p *Plain) keep(c *plainConn) {
	c.used, c.since = true, time.Now()
	p.mu.Lock()
	kept := !p.closed && len(p.idle) < p.opts.MaxIdle
	if kept {
		p.idle = append(p.idle, c)
		if p.sweep == nil {
			p.sweep = time.AfterFunc(p.opts.IdleTimeout, p.expire)
		}
	}
	p.mu.Unlock()
	if !kept {
		_ = c.Close()
	}
}

// expire closes what has been idle for too long.
func (p *Plain) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, n := time.Now().Add(-p.opts.IdleTimeout), 0
	for n < len(p.idle) && !p.idle[n].since.After(before) {
		_ = p.idle[n].Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.sweep = nil
	if len(p.idle) > 0 {
		p.sweep = time.AfterFunc(p.idle[0].since.Sub(before)+time.Second, p.expire)
	}
}

// Close closes what is idle, and what comes to be.
func (p *Plain) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// plainConn is a connection, used by one exchange at a time.
type plainConn struct {
	net.Conn
	pool   *Plain
	in     *bufio.Reader
	out    []byte
	abort  func()
	used   bool // before
	since  time.Time
	answer fasthttp.Response
	liveness
}

var errHeader = errors.New("the header of the request is not valid")

// write sends a request with one system call. It returns how many bytes are gone.
func (c *plainConn) write(head []byte, header http.Header, body []byte) (int, error) {
	c.out = append(c.out[:0], head...)
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return 0, errHeader
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return 0, errHeader
			}
			c.out = append(append(append(append(c.out, name...), ": "...), value...), "\r\n"...)
		}
	}
	c.out = strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	return c.Write(c.out)
}

// plainExchange is one request with its answer.
type plainExchange struct {
	response http.Response
	kind     [1]string
	ctx      context.Context // of the request
	release  func() bool     // stops watching it

	mu      sync.Mutex
	conn    *plainConn // nil once it is over
	body    io.Reader
	empty   bool // there is no body
	in      *bufio.Reader
	reading bool
	err     error // of every Read from now on
}

// maxInterim is how many answers may come before the one that counts.
const maxInterim = 5

// begin reads the head of the answer.
func (e *plainExchange) begin(want []string) error {
	c := e.conn
	a := &c.answer
	a.Header.SetNoDefaultContentType(true)
	e.in = c.in
	for range maxInterim {
		if err := e.head(a); err != nil {
			return err
		}
		if status := a.StatusCode(); status >= 200 {
			return e.take(status, want)
		} else if status == http.StatusSwitchingProtocols {
			break
		}
	}
	return errors.New("the server does not come to its answer")
}

// head reads a head, which may be larger than what a connection has room for.
func (e *plainExchange) head(a *fasthttp.Response) error {
	err := a.Header.Read(e.in)
	if _, ok := errors.AsType[*fasthttp.ErrSmallBuffer](err); ok && e.in == e.conn.in {
		e.in = bufio.NewReaderSize(e.conn.in, int(e.conn.pool.opts.MaxHeaderBytes))
		err = a.Header.Read(e.in)
	}
	return err
}

// take makes the answer of what was read of it.
func (e *plainExchange) take(status int, want []string) error {
	a, h := &e.conn.answer, &e.conn.answer.Header
	e.response = http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(max(h.ContentLength(), -1)), Body: e}
	if status/100 == 2 {
		e.kind[0] = commonType(h.Peek("Content-Type"))
		e.response.Header["Content-Type"] = e.kind[:]
		for _, name := range want {
			if value := h.Peek(name); value != nil {
				e.response.Header.Set(name, string(value))
			}
		}
	} else {
		for name, value := range h.All() {
			e.response.Header.Add(string(name), string(value))
		}
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		e.response.ContentLength, e.empty = 0, true
		return nil
	}
	a.StreamBody = true
	if err := a.ReadBody(e.in, 0); err != nil {
		return err
	}
	e.body = a.BodyStream()
	return nil
}

// commonType returns a type without allocating where it is a common one.
func commonType(value []byte) string {
	for _, one := range [...]string{"application/json", "text/event-stream"} {
		if string(value) == one {
			return one
		}
	}
	return string(value)
}

// Read reads on in the body. The connection is given back as soon as it has ended.
func (e *plainExchange) Read(into []byte) (int, error) {
	e.mu.Lock()
	if e.err == nil && e.empty {
		e.err = io.EOF
	}
	if e.err != nil {
		defer e.mu.Unlock()
		return 0, e.err
	}
	e.reading = true
	body := e.body
	e.mu.Unlock()
	n, err := body.Read(into)
	e.mu.Lock()
	e.reading = false
	if err != nil && err != io.EOF {
		err = orDone(e.ctx, err)
	}
	if e.err == nil {
		e.err = err
	}
	if e.conn == nil && err == nil { // it was closed in the meantime
		err = e.err
	}
	e.mu.Unlock()
	if err != nil {
		e.end(err == io.EOF)
	}
	return n, err
}

// Close ends the exchange. What the server has not said then it need not say.
func (e *plainExchange) Close() error {
	e.end(false)
	return nil
}

// end gives the connection back when the answer is whole, and closes it otherwise.
func (e *plainExchange) end(whole bool) {
	e.mu.Lock()
	c := e.conn
	e.conn = nil
	if e.err == nil {
		e.err = errClosed
	}
	busy, empty := e.reading, e.empty
	e.mu.Unlock()
	if c == nil {
		return
	}
	left := !e.release() // the context has ended, and the connection with it
	if busy {            // nothing of it may be touched
		_ = c.Close()
		return
	}
	reusable := (whole || empty) && !left && !c.answer.ConnectionClose() && c.answer.Header.ContentLength() >= -1 && e.in.Buffered() == 0 && c.in.Buffered() == 0
	c.answer.Reset()
	if !reusable {
		_ = c.Close()
		return
	}
	c.pool.keep(c)
}

var errClosed = errors.New("the body is closed")
