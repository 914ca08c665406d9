package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
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
	answer *response   // to the request
	over   atomic.Bool // it was read to its end

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
	if b.expects.Load() && b.ended() == nil {
		b.answer.goOn() // without the lock, which who writes the answer may wait for
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	return b.read(p)
}

func (b *body) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
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
		case errors.Is(err, os.ErrDeadlineExceeded):
			return n, err // who extends it reads on
		}
	}
	b.err = err
	switch err {
	case nil:
	case io.EOF:
		b.over.Store(true)
		b.c.heard()
	default:
		b.broken.Store(true)
	}
	return n, err
}

// trailer reads the fields behind the last chunk (RFC 9112 §7.1.2).
func (b *body) trailer() error {
	c := b.c
	err := c.readLines()
	if err == nil {
		err = canonicalize(c.head)
	}
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case len(c.head) > 0:
		r := b.answer.r
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		addFields(r.Trailer, string(c.head))
	}
	return io.EOF
}

// Close is what a handler calls that wants no more. What is left is read over, so that
// it still hears when its client goes.
func (b *body) Close() error {
	b.drainInTime()
	return nil
}

// drainInTime is drain, within the time of a header.
func (b *body) drainInTime() bool {
	if b.over.Load() {
		return true
	}
	if b.c.bound(time.Now().Add(b.c.server.opts.HeaderTimeout)) {
		defer b.c.setDeadline(time.Time{})
	}
	return b.drain()
}

// leaves reports whether more is left of the content than anybody would read.
func (b *body) leaves() bool {
	return !b.over.Load() && (b.expects.Load() || b.broken.Load() || b.left.Load() > maxLeft)
}

// drain reads over what is left, if that is little, and reports whether it has come to
// the end. Nobody reads on afterwards.
func (b *body) drain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	waste := wastePool.Get().(*[room]byte)
	defer wastePool.Put(waste)
	for n := 0; n <= maxLeft && !b.over.Load() && !b.leaves(); {
		m, err := b.read(waste[:])
		if err != nil {
			break
		}
		n += m
	}
	b.err = http.ErrBodyReadAfterClose
	b.broken.Store(!b.over.Load())
	return b.over.Load()
}

// wastePool is for what nobody looks at.
var wastePool = sync.Pool{New: func() any { return new([room]byte) }}

// leave ends what a handler, or what it has started, does with the content, and
// reports whether a request can come behind it.
func (b *body) leave() bool {
	switch {
	case b.over.Load():
		return true
	case b.leaves():
		b.c.setDeadline(longAgo) // for who still reads
	default:
		b.c.setDeadline(time.Now().Add(b.c.server.opts.HeaderTimeout))
	}
	return b.drain()
}

// addFields adds fields, whose names are canonical, to a header.
func addFields(header http.Header, fields string) {
	values := make([]string, strings.Count(fields, "\r\n"))
	for i := range values {
		var line string
		line, fields, _ = strings.Cut(fields, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if others := header[name]; others != nil {
			header[name] = append(others, value)
			continue
		}
		values[i] = value
		header[name] = values[i : i+1 : i+1]
	}
}
