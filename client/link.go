package client

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"handoff.example/handoff/a2a"
)

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"

	maxErrorBody = 1 << 20 // bytes of an answer that is an error
	userAgent    = "handoff-client"
)

// link sends HTTP requests to one agent and turns what goes wrong into errors.
type link struct {
	http        *http.Client
	opts        Options
	origins     originSet
	credentials Credentials // nil sends none
	roams       bool        // may follow redirects to other origins
	common      http.Header // of every request; not to be changed
}

// newLink returns a link for validated options.
func newLink(opts Options) *link {
	l := &link{opts: opts, origins: newOriginSet(&opts), credentials: opts.Credentials, common: commonHeaders(&opts)}
	l.http = l.newHTTPClient()
	return l
}

func (l *link) newHTTPClient() *http.Client {
	c := *l.opts.HTTPClient
	c.Timeout = 0
	c.CheckRedirect = l.checkRedirect
	return &c
}

// call is one HTTP request.
type call struct {
	op        string // for errors
	method    string
	url       *url.URL
	body      []byte // nil: none
	mediaType string // of the body
	accept    string
	header    http.Header // more headers
	refused   bool        // the agent wants other credentials
}

// do sends the request and returns the answer, of whatever status. A peer that
// answers 401 is asked once more when the credentials can be refreshed.
func (l *link) do(ctx context.Context, c *call) (*http.Response, error) {
	resp, err := l.send(ctx, c)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	refresher, ok := l.credentials.(Refresher)
	if !ok {
		return resp, nil
	}
	if err := refresher.Refresh(ctx, resp.Header.Values("WWW-Authenticate")); err != nil {
		return resp, nil // the 401 says what is wrong
	}
	discard(resp)
	return l.send(ctx, c)
}

func (l *link) send(ctx context.Context, c *call) (*http.Response, error) {
	progress := new(progress)
	req, err := l.newRequest(progress.trace(ctx), c)
	if err != nil {
		return nil, err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		kind, cause := classify(ctx, err)
		sent := progress.sent(kind) && !strings.HasPrefix(cause.Error(), closedIdle)
		return nil, l.fail(c, kind, sent, cause)
	}
	if err := decompress(resp); err != nil {
		discard(resp)
		e := l.fail(c, KindProtocol, true, err)
		e.Status = resp.StatusCode
		return nil, e
	}
	return resp, nil
}

func (l *link) newRequest(ctx context.Context, c *call) (*http.Request, error) {
	var body io.Reader
	if c.body != nil {
		body = bytes.NewReader(c.body)
	}
	target := *c.url
	req, err := http.NewRequestWithContext(ctx, c.method, target.String(), body)
	if err != nil {
		return nil, l.fail(c, KindRefused, false, errors.New("the address or the method is not valid"))
	}
	req.Header = l.headers(c)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	if l.credentials != nil {
		if err := l.credentials.Apply(ctx, req); err != nil {
			return nil, l.fail(c, KindCredentials, false, fmt.Errorf("apply credentials: %w", err))
		}
	}
	return req, nil
}

// headers returns the headers of a request, without credentials.
func (l *link) headers(c *call) http.Header {
	h := make(http.Header, len(l.common)+len(c.header)+4)
	maps.Copy(h, l.common)
	maps.Copy(h, c.header)
	if c.accept != "" {
		h["Accept"] = []string{c.accept}
	}
	if c.body != nil {
		h["Content-Type"] = []string{c.mediaType}
	}
	if strings.HasPrefix(c.accept, mediaEvents) {
		h["Accept-Encoding"] = []string{"identity"} // compression holds events back
	}
	return h
}

// commonHeaders returns the headers that every request has.
func commonHeaders(opts *Options) http.Header {
	h := http.Header{}
	h.Set("User-Agent", userAgent)
	for name, values := range opts.Headers {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	h.Set(a2a.HeaderVersion, opts.Version)
	if len(opts.Extensions) > 0 {
		h.Set(a2a.HeaderExtensions, a2a.FormatExtensions(slices.Concat(h.Values(a2a.HeaderExtensions), opts.Extensions)))
	}
	for name, values := range h {
		h[name] = slices.Clip(values) // requests share them, and may append
	}
	return h
}

// fail returns a TransportError about the call.
func (l *link) fail(c *call, kind Kind, sent bool, err error) *TransportError {
	return &TransportError{Kind: kind, Op: c.op, URL: redact(c.url), Sent: sent, Err: err}
}

// badAnswer returns a TransportError about an answer that is not A2A.
func (l *link) badAnswer(c *call, resp *http.Response, err error) *TransportError {
	e := l.fail(c, KindProtocol, true, err)
	e.Status = resp.StatusCode
	return e
}

func redact(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment, v.ForceQuery = nil, "", "", false
	return v.String()
}

// readBody reads and closes the body of an answer.
func (l *link) readBody(ctx context.Context, c *call, resp *http.Response, limit int) ([]byte, error) {
	defer resp.Body.Close()
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= int64(limit) {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		kind, cause := classify(ctx, err)
		e := l.fail(c, kind, true, fmt.Errorf("read answer: %w", cause))
		if corrupt(err) {
			e.Kind = KindProtocol
		}
		return nil, e
	}
	if buf.Len() > limit {
		return nil, l.badAnswer(c, resp, fmt.Errorf("%w (%d bytes)", ErrTooLarge, limit))
	}
	return buf.Bytes(), nil
}

// statusError turns an answer whose status is not a success into an error. The
// body may hold an error of either binding, or anything else.
func (l *link) statusError(ctx context.Context, c *call, resp *http.Response) error {
	body, err := l.readBody(ctx, c, resp, maxErrorBody)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	wait := retryAfter(resp.Header, time.Now())
	e := errorInBody(body, resp.StatusCode)
	if e == nil {
		text := fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		if s := summary(body); s != "" {
			text += ": " + s
		}
		code, ok := codeOfStatus(resp.StatusCode)
		if !ok {
			t := l.badAnswer(c, resp, errors.New(text))
			t.RetryAfter = wait
			return t
		}
		e = &a2a.Error{Code: code, Message: text}
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = wait
	}
	if challenges := resp.Header.Values("WWW-Authenticate"); len(challenges) > 0 && resp.StatusCode == http.StatusUnauthorized {
		e.Err = &ChallengeError{Challenges: challenges}
	}
	return e
}

// errorInBody returns the A2A error that a body holds, or nil when it is not
// even JSON.
func errorInBody(body []byte, status int) *a2a.Error {
	env, err := parseEnvelope(body)
	switch {
	case err != nil:
		return nil
	case env.isJSONRPC && env.err.Kind() == '{':
		return a2a.ParseJSONRPCError(env.err)
	}
	return a2a.ParseStatusError(body, status)
}

// codeOfStatus returns the code of an HTTP status that says enough by itself.
func codeOfStatus(status int) (a2a.Code, bool) {
	switch status {
	case http.StatusUnauthorized:
		return a2a.CodeUnauthenticated, true
	case http.StatusForbidden:
		return a2a.CodePermissionDenied, true
	case http.StatusRequestEntityTooLarge:
		return a2a.CodeTooLarge, true
	case http.StatusUnsupportedMediaType:
		return a2a.CodeContentTypeNotSupported, true
	case http.StatusTooManyRequests:
		return a2a.CodeResourceExhausted, true
	case http.StatusServiceUnavailable:
		return a2a.CodeUnavailable, true
	}
	return a2a.CodeInternal, false
}

func success(resp *http.Response) bool { return resp.StatusCode/100 == 2 }

// discard reads a little of the body, so that the connection can be used again.
func discard(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

// answerType returns the media type of an answer without its parameters.
func answerType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func isJSON(mediaType string) bool {
	return mediaType == mediaJSON || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}

// decompress undoes a content coding that the transport left in place.
func decompress(resp *http.Response) error {
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{src: resp.Body}
		resp.ContentLength = -1
	default:
		return fmt.Errorf("the answer has the content coding %s, which was not asked for", summary([]byte(coding)))
	}
	return nil
}

// gzipBody decompresses a body. The header is read with the first byte, not
// before, so that opening it does not block.
type gzipBody struct {
	src io.ReadCloser
	zip *gzip.Reader
	err error
}

func (b *gzipBody) Read(p []byte) (int, error) {
	if b.zip == nil && b.err == nil {
		b.zip, b.err = gzip.NewReader(b.src)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.zip.Read(p)
}

func (b *gzipBody) Close() error { return b.src.Close() }

// corrupt reports whether err comes from decompression.
func corrupt(err error) bool {
	_, damaged := errors.AsType[flate.CorruptInputError](err)
	return damaged || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

// progress records how far a request came.
type progress struct{ state atomic.Int32 }

const (
	wantsConnection = 1
	hasConnection   = 2
)

func (p *progress) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { p.state.CompareAndSwap(0, wantsConnection) },
		GotConn: func(httptrace.GotConnInfo) { p.state.Store(hasConnection) },
	})
}

// sent reports whether the peer may have got the request. A transport that does
// not trace leaves only the kind of the error to go by.
func (p *progress) sent(kind Kind) bool {
	switch p.state.Load() {
	case wantsConnection:
		return false
	case hasConnection:
		return true
	}
	return kind != KindResolve && kind != KindRefused
}
