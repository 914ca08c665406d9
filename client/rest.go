package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"handoff.example/handoff/a2a"
)

// rest is the HTTP+JSON binding (A2A §11).
type rest struct {
	*link
	base   *url.URL
	tenant string // a path segment before every path, when set
	// What was learned about the peer.
	plainJSON     atomic.Bool // takes application/json only
	getsSubscribe atomic.Bool // subscribes with GET
}

const acceptREST = a2a.MediaType + ", " + mediaJSON

func (b *rest) newCall(r *request, accept string) *call {
	path := strings.TrimRight(b.base.EscapedPath(), "/")
	if b.tenant != "" {
		path += "/" + url.PathEscape(b.tenant)
	}
	path += r.path
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
	c := &call{op: r.op, method: r.method, url: &target, accept: accept, header: r.header}
	if r.hasBody {
		c.body = r.params.AppendJSON(make([]byte, 0, 512))
		c.mediaType = b.opts.MediaType
		if b.plainJSON.Load() {
			c.mediaType = mediaJSON
		}
	}
	return c
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
	c := b.newCall(r, acceptREST)
	resp, err := b.exchange(ctx, c)
	if err != nil {
		return err
	}
	if !success(resp) {
		return b.statusError(ctx, c, resp)
	}
	body, err := b.readBody(ctx, c, resp, b.opts.MaxResponse)
	if err != nil || out == nil {
		return err
	}
	if err := decode(body, out); err != nil {
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
	return b.openStream(ctx, b.newCall(r, mediaEvents+", "+acceptREST), b.exchange, decodeFrame)
}

// subscribe tries POST, which the specification's text has, and then GET, which
// its proto file has, when the peer does not know the first.
func (b *rest) subscribe(ctx context.Context, r *request) (*Stream, error) {
	get := *r
	get.method, get.hasBody = http.MethodGet, false
	if b.getsSubscribe.Load() {
		return b.open(ctx, &get)
	}
	stream, err := b.open(ctx, r)
	if !unknownRoute(err) {
		return stream, err
	}
	stream, getErr := b.open(ctx, &get)
	if getErr != nil {
		if unknownRoute(getErr) {
			return nil, err
		}
		return nil, getErr
	}
	b.getsSubscribe.Store(true)
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
func decodeFrame(frame []byte, out *a2a.StreamResponse) error {
	decodeErr := decode(frame, out)
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
