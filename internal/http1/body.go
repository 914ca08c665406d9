package http1

import (
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// request is a request with what belongs to it.
type request struct {
	*http.Request
	cancel context.CancelFunc
	body   *body
}

// body is the content of a request (RFC 9112 §6).
type body struct {
	c      *conn
	answer *response // to the request
	over   atomic.Bool

	left    atomic.Int64 // of a content whose length is known
	expects atomic.Bool  // the client waits to be told to go on
	broken  atomic.Bool  // the end cannot be reached any more

	mu     sync.Mutex // held by who reads
	chunks io.Reader  // of content in chunks; nil: its length is known
	err    error      // of every Read from now on
}

// setBody gives a request its body, as its header describes it.
func (c *conn) setBody(r *request) {
	r.body = &body{c: c}
	r.body.left.Store(r.ContentLength)
	switch {
	case r.ContentLength == 0:
		r.Body = http.NoBody
		r.body.over.Store(true)
		return
	case r.ContentLength < 0:
		r.body.chunks = httputil.NewChunkedReader(c.in)
	}
	r.body.expects.Store(r.Header["Expect"] != nil && r.ProtoMinor == 1)
	r.Body = r.body
}

// Read reads on in the content.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.expects.CompareAndSwap(true, false) {
		b.goOn()
	}
	return b.read(p)
}

// goOn tells the client that its content is wanted (RFC 9110 §10.1.1), unless it has
// an answer already.
func (b *body) goOn() {
	if !b.answer.begun.Load() {
		_, _ = io.WriteString(b.c.Conn, "HTTP/1.1 100 Continue\r\n\r\n") // Read tells of an error
	}
}

func (b *body) read(p []byte) (n int, err error) {
	if b.chunks != nil {
		if n, err = b.chunks.Read(p); err == io.EOF {
			err = b.trailer()
		}
	} else {
		n, err = b.c.in.Read(p[:min(int64(len(p)), b.left.Load())])
		switch left := b.left.Add(-int64(n)); {
		case left == 0:
			err = io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
	}
	b.err = err
	switch err {
	case nil:
	case io.EOF:
		b.over.Store(true)
	default:
		b.broken.Store(true)
	}
	return n, err
}

// trailer reads over what comes behind the last chunk, of which nobody takes notice.
func (b *body) trailer() error {
	err := b.c.readLines()
	if err == nil {
		err = canonicalize(b.c.head)
	}
	switch err {
	case nil:
		return io.EOF
	case io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close is what a handler calls that wants no more.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && !b.over.Load() {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// leaves reports whether more is left of the content than anybody would read.
func (b *body) leaves() bool {
	return !b.over.Load() && (b.expects.Load() || b.broken.Load() || b.left.Load() > maxLeft)
}

// leave reads over what the handler has left, and reports whether a request can come
// behind it.
func (b *body) leave() bool {
	if b.over.Load() {
		return true
	}
	if b.leaves() {
		return false
	}
	b.c.setDeadline(time.Now().Add(b.c.server.opts.HeaderTimeout))
	b.mu.Lock()
	defer b.mu.Unlock()
	buf := make([]byte, room)
	for n := 0; n <= maxLeft && !b.over.Load() && !b.broken.Load(); {
		m, _ := b.read(buf)
		n += m
	}
	return b.over.Load()
}
