package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// rest is the HTTP+JSON binding (A2A §11).
type rest struct {
	*link
	base   *url.URL
	tenant string // a path segment before every path, when set
	old    bool   // speaks version 0.3
	// What was learned about the peer.
	plainJSON      atomic.Bool // takes application/json only
	otherSubscribe atomic.Bool // subscribes with the method that is tried second
}

const acceptREST = a2a.MediaType + ", " + mediaJSON

func (b *rest) newCall(r *request, accept string) (*call, error) {
	below, body, header := r.path, []byte(nil), r.header
	switch {
	case b.old:
		var err error
		if below, body, err = oldRoute(r); err != nil {
			return nil, err
		}
		header = oldHeader(r, &b.opts)
	case r.hasBody:
		setTenant(r.params, b.tenant)
		body = r.params.AppendJSON(make([]byte, 0, 512))
	}
	path := strings.TrimRight(b.base.EscapedPath(), "/")
	if b.tenant != "" {
		path += "/" + url.PathEscape(b.tenant)
	}
	path += below
	target := *b.base
	target.RawPath = path
	target.Path, _ = url.PathUnescape(path) // every part is escaped
	if len(r.query) > 0 {
		query := target.Query()
		for name, values := range r.query {
			query[name] = values
		}
		target.RawQuery = query.Encode()
	}
	c := &call{op: r.op, method: r.method, url: &target, accept: accept, header: header}
	if body != nil {
		c.body, c.mediaType = body, b.opts.MediaType
		if b.old || b.plainJSON.Load() {
			c.mediaType = mediaJSON
		}
	}
	return c, nil
}

// accepts returns what is asked for: 0.3 knows no media type of its own.
func (b *rest) accepts() string {
	if b.old {
		return mediaJSON
	}
	return acceptREST
}

func (b *rest) decode(memory *a2a.Memory, data []byte, out a2a.Decodable) error {
	if b.old {
		return decodeOld(v03.REST, data, out)
	}
	return decodeWith(memory, data, out)
}

// exchange sends the request, and once more as application/json when the peer
// does not take the media type.
func (b *rest) exchange(ctx context.Context, c *call) (*http.Response, error) {
	resp, err := b.do(ctx, c)
	if err != nil || resp.StatusCode != http.StatusUnsupportedMediaType || c.body == nil || c.mediaType == mediaJSON {
		return resp, err
	}
	discard(resp)
	c.mediaType = mediaJSON
	resp, err = b.do(ctx, c)
	if err == nil && success(resp) {
		b.plainJSON.Store(true)
	}
	return resp, err
}

func (b *rest) unary(ctx context.Context, r *request, out a2a.Decodable) error {
	c, err := b.newCall(r, b.accepts())
	if err != nil {
		return err
	}
	resp, err := b.exchange(ctx, c)
	if err != nil {
		return err
	}
	if !success(resp) {
		err := b.statusError(ctx, c, resp)
		if b.old {
			return oldStatusError(r.op, resp.StatusCode, err)
		}
		return err
	}
	body, err := b.readBody(ctx, c, resp, b.opts.MaxResponse)
	if err != nil || out == nil {
		return err
	}
	if err := b.decode(nil, body, out); err != nil {
		return b.badAnswer(c, resp, describe(resp, body, err))
	}
	if r.result != nil {
		*r.result = body
	}
	return nil
}

func (b *rest) stream(ctx context.Context, r *request) (*Stream, error) {
	if r.op == opSubscribeToTask {
		return b.subscribe(ctx, r)
	}
	return b.open(ctx, r)
}

func (b *rest) open(ctx context.Context, r *request) (*Stream, error) {
	c, err := b.newCall(r, mediaEvents+", "+b.accepts())
	if err != nil {
		return nil, err
	}
	return b.openStream(ctx, c, b.exchange, b.decodeFrame)
}

// subscribe tries POST, which the specification's text has, and then GET, which
// its proto file has, when the peer does not know the first. Peers of 0.3 follow
// the proto file, so that there it is the other way round.
func (b *rest) subscribe(ctx context.Context, r *request) (*Stream, error) {
	get := *r
	get.method, get.hasBody = http.MethodGet, false
	first, second := r, &get
	if b.old {
		first, second = second, first
	}
	if b.otherSubscribe.Load() {
		return b.open(ctx, second)
	}
	stream, err := b.open(ctx, first)
	if !unknownRoute(err) {
		return stream, err
	}
	stream, secondErr := b.open(ctx, second)
	if secondErr != nil {
		if unknownRoute(secondErr) {
			return nil, err
		}
		return nil, secondErr
	}
	b.otherSubscribe.Store(true)
	return stream, nil
}

// unknownRoute reports whether an answer may mean that the peer does not know
// the method or the path, and not that it does not know the task.
func unknownRoute(err error) bool {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.Code == a2a.CodeMethodNotFound || e.Code == a2a.CodeTaskNotFound && len(e.Metadata) == 0
	}
	e, ok := errors.AsType[*TransportError](err)
	return ok && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented)
}

// decodeFrame reads one event of a stream: a StreamResponse, or an error in the
// form of a failed request, which ends the stream.
func (b *rest) decodeFrame(frame []byte, memory *a2a.Memory, out *a2a.StreamResponse) error {
	decodeErr := b.decode(memory, frame, out)
	if decodeErr == nil && holdsEvent(out) {
		return nil
	}
	env, err := parseEnvelope(frame)
	switch {
	case err != nil:
		return err
	case env.err.Kind() == '{':
		return a2a.ParseStatusError(frame, 0)
	}
	return decodeErr
}
