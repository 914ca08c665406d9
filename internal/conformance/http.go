package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/netguard"
)

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
	userAgent   = "handoff-conformance"
	wrongToken  = "handoff-conformance-never-issued" // no secret: it opens nothing
)

// link sends HTTP requests to one interface. It follows no redirect.
type link struct {
	http        *http.Client
	headers     http.Header
	extensions  []string
	credentials client.Credentials // nil: none may go there
	timeout     time.Duration
	observed    *observed
}

// exchange is one HTTP request.
type exchange struct {
	method string
	url    *url.URL
	body   []byte
	header http.Header
}

// request builds the HTTP request of a call.
func (l *link) request(ctx context.Context, c *call, e *exchange) (*http.Request, error) {
	target := *e.url
	if c.versionQuery {
		query := target.Query()
		query.Set(a2a.HeaderVersion, "1.0")
		target.RawQuery = query.Encode()
	}
	var body io.Reader
	if e.body != nil {
		body = bytes.NewReader(e.body)
	}
	r, err := http.NewRequestWithContext(ctx, e.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("User-Agent", userAgent)
	for name, values := range l.headers {
		r.Header[name] = values
	}
	for name, values := range e.header {
		r.Header[name] = values
	}
	version := c.version
	if version == "" {
		version = "1.0"
	}
	if !c.noVersion && !c.versionQuery {
		r.Header.Set(a2a.HeaderVersion, version)
	}
	if len(l.extensions) > 0 && !c.noExtensions {
		r.Header.Set(a2a.HeaderExtensions, a2a.FormatExtensions(l.extensions))
	}
	switch {
	case c.wrongSecret:
		r.Header.Set("Authorization", "Bearer "+wrongToken)
	case l.credentials != nil && !c.anonymous:
		if err := l.credentials.Apply(ctx, r); err != nil {
			return nil, fmt.Errorf("apply credentials: %w", err)
		}
	}
	return r, nil
}

// begin sends a request and returns the answer with its body still open. The
// function ends both.
func (l *link) begin(ctx context.Context, c *call, e *exchange, a *answer) (*http.Response, context.CancelFunc) {
	limit := c.limit
	if limit == 0 {
		limit = l.timeout
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	began := time.Now()
	r, err := l.request(ctx, c, e)
	if err != nil {
		a.err = err
		return nil, cancel
	}
	resp, err := l.http.Do(r)
	a.took = time.Since(began)
	if err != nil {
		a.fail(ctx, limit, err)
		a.cut = whole.Err() != nil
		return nil, cancel
	}
	a.status, a.header = resp.StatusCode, resp.Header
	return resp, func() {
		a.cut = a.err != nil && whole.Err() != nil
		cancel()
		resp.Body.Close()
	}
}

// fail keeps why there is no answer.
func (a *answer) fail(ctx context.Context, limit time.Duration, err error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.timeout = true
		a.err = fmt.Errorf("no answer within %s", limit)
		return
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	a.err = fmt.Errorf("no answer: %w", err)
}

// fetch sends a request and reads all of its answer.
func (l *link) fetch(ctx context.Context, c *call, e *exchange, a *answer) {
	resp, end := l.begin(ctx, c, e, a)
	defer end()
	if resp != nil {
		a.read(resp.Body)
	}
}

// read reads the body of an answer.
func (a *answer) read(body io.ReadCloser) {
	data, err := netguard.ReadAll(body, maxAnswer)
	a.body = data
	if err != nil {
		a.timeout = errors.Is(err, context.DeadlineExceeded)
		a.err = fmt.Errorf("read answer: %w", err)
	}
}

// mediaType returns the media type of an answer without its parameters.
func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func isJSON(mediaType string) bool {
	return mediaType == mediaJSON || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}

// route is how a request to an interface goes out.
type route struct {
	http        *http.Client
	credentials client.Credentials
	guard       *netguard.Guard // nil: the host is the one that the user named
	why         string          // why no credentials go there; "" when they do
}

// route decides how an interface is reached. A card can name any host: one that
// is not its own must be public, and gets no credentials (as with
// client.Options.Origins).
func (r *run) route(address *url.URL) route {
	own := r.cardURL == nil || strings.EqualFold(r.cardURL.Hostname(), address.Hostname()) || r.listed(address, false)
	out := route{credentials: r.opts.Client.Credentials}
	if r.cardURL != nil && out.credentials != nil && !netguard.SameOrigin(r.cardURL, address) && !r.listed(address, true) {
		out.credentials, out.why = nil, "the card is of another origin, so that no credentials go there"
	}
	if own {
		c := *r.opts.Client.HTTPClient
		c.Timeout, c.Jar = 0, nil
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		out.http = &c
		return out
	}
	out.guard = netguard.New(netguard.Policy{AllowPrivate: isPrivate(r.cardURL.Hostname())})
	out.http = out.guard.Named(netguard.Options{MaxRedirects: -1})
	return out
}

// listed reports whether the user has named the origin of an address, or, with all,
// any origin.
func (r *run) listed(address *url.URL, all bool) bool {
	for _, origin := range r.opts.Client.Origins {
		if u, err := url.Parse(origin); all && origin == "*" || err == nil && netguard.SameOrigin(u, address) {
			return true
		}
	}
	return false
}
