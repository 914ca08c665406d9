package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
)

// Headers of the request that carries a turn.
const (
	// HeaderCallback is the URL that the steps are posted to after a 202.
	HeaderCallback = "Handoff-Callback"
	// HeaderCallbackToken is the bearer token for that URL.
	HeaderCallbackToken = "Handoff-Callback-Token"
)

// service is an agent that posts each turn to a URL.
type service struct {
	url       string
	header    http.Header
	secrets   []string // not shown in errors
	timeout   time.Duration
	client    *http.Client
	callbacks *Callbacks
}

// reserved are headers that the request itself needs.
var reserved = []string{
	"Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Accept", "Traceparent",
	HeaderCallback, HeaderCallbackToken,
}

func newService(c *checker, path string, h *config.HTTP, opt Options) *service {
	s := &service{
		url:       h.URL,
		header:    make(http.Header),
		timeout:   h.Timeout.Std(),
		client:    opt.HTTP,
		callbacks: opt.Callbacks,
	}
	if s.client == nil {
		c.fail(path, "has no HTTP client to use")
	}
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.fail(path+".url", "is not an absolute http or https URL")
	case u.User != nil:
		c.fail(path+".url", "has credentials; put them into headers, where they are kept secret")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		value := h.Headers[name].Reveal()
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			c.fail(path+".headers", "%q is not the name of a header", name)
		case slices.Contains(reserved, key):
			c.fail(path+".headers."+name, "is set by the request itself")
		case !httpguts.ValidHeaderFieldValue(value):
			c.fail(path+".headers."+name, "has a value that a header cannot have")
		}
		s.header.Set(key, value)
		s.secrets = append(s.secrets, secretsOf(value)...)
	}
	return s
}

// secretsOf returns what of a header's value is not shown in errors: all of it,
// and what follows a scheme such as Bearer.
func secretsOf(value string) []string {
	const shortest = 4 // less would blacken ordinary words
	secrets := []string{value}
	if _, token, ok := strings.Cut(value, " "); ok {
		secrets = append(secrets, token)
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < shortest })
}

var errSilent = errors.New("the service was silent for too long")

// Run posts the turn and emits the steps of the answer, or those that come by
// callback.
func (s *service) Run(ctx context.Context, t *agent.Turn) error {
	body, err := turnJSON(t)
	if err != nil {
		return err
	}
	var callback *Callback
	if s.callbacks != nil {
		callback = s.callbacks.Register(ctx, t)
		defer callback.Close()
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	idle := newIdleTimer(s.timeout, func() { end(errSilent) })
	defer idle.stop()

	steps := &emitter{turn: t}
	accepted, err := s.call(life, body, t, callback, steps, idle)
	switch {
	case callback.ended(): // whatever else went wrong
		return nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(context.Cause(life), errSilent):
		return agent.Errorf("The agent's service was silent for longer than %s.", s.timeout)
	case err != nil:
		return public(err)
	case !accepted:
		return nil
	case callback == nil:
		return agent.Errorf("The agent's service wants to answer later, but has no callback.")
	}
	idle.stop()
	select {
	case <-callback.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call posts the turn, again when the service asks for that, and reads the
// answer. It reports whether the steps come by callback.
func (s *service) call(ctx context.Context, body []byte, t *agent.Turn, callback *Callback, steps *emitter, idle *idleTimer) (accepted bool, err error) {
	for try := 1; ; try++ {
		res, err := s.post(ctx, body, t, callback)
		if err != nil {
			return false, err
		}
		idle.reset()
		if delay, ok := retryAfter(res, time.Now()); ok && try <= maxRetries {
			_ = res.Body.Close()
			idle.stop()
			if err := pause(ctx, delay); err != nil {
				return false, err
			}
			idle.reset()
			continue
		}
		defer res.Body.Close()
		return s.read(res, callback, steps, idle)
	}
}

func (s *service) post(ctx context.Context, body []byte, t *agent.Turn, callback *Callback) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = s.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	req.Header.Set("Content-Type", formJSON)
	req.Header.Set("Accept", formJSON+", "+formLines+", "+formEvents)
	if t.Traceparent != "" && httpguts.ValidHeaderFieldValue(t.Traceparent) {
		req.Header.Set("Traceparent", t.Traceparent)
	}
	if callback != nil {
		req.Header.Set(HeaderCallback, callback.URL)
		req.Header.Set(HeaderCallbackToken, callback.Token)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("post turn to %s: %w", req.URL.Host, withoutURL(err))
	}
	return res, nil
}

// withoutURL takes the URL out of an error of the client: its query may hold a
// secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// read takes an answer.
func (s *service) read(res *http.Response, callback *Callback, steps *emitter, idle *idleTimer) (accepted bool, err error) {
	body := &watchedReader{r: res.Body, idle: idle}
	switch {
	case res.StatusCode == http.StatusAccepted:
		return true, nil
	case res.StatusCode == http.StatusNoContent:
		return false, nil
	case res.StatusCode < 200 || res.StatusCode > 299:
		return false, s.refused(res, callback, body)
	}
	form := formOf(res.Header.Get("Content-Type"))
	if form != "" {
		return false, readSteps(form, body, steps)
	}
	var first [1]byte
	switch _, err := io.ReadFull(body, first[:]); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read answer: %w", err)
	}
	return false, &stepError{fmt.Sprintf("the content type is %q and not %s, %s or %s",
		shorten(plainText(res.Header.Get("Content-Type")), 100), formJSON, formLines, formEvents)}
}

// refused is the error of an answer that is no success.
func (s *service) refused(res *http.Response, callback *Callback, body io.Reader) error {
	start, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // what can be read is enough
	line, _, _ := strings.Cut(strings.TrimSpace(string(start)), "\n")
	for _, secret := range s.secrets {
		line = strings.ReplaceAll(line, secret, "***")
	}
	if callback != nil {
		line = strings.ReplaceAll(line, callback.Token, "***")
	}
	if line = plainText(line); line == "" {
		return agent.Errorf("The agent's service answered %d.", res.StatusCode)
	}
	return agent.Errorf("The agent's service answered %d: %s", res.StatusCode, line)
}

// Bounds of the retries that a service asks for with Retry-After.
const (
	maxRetries    = 3
	maxRetryAfter = time.Minute
)

// retryAfter returns when a service that is busy wants to be asked again.
func retryAfter(res *http.Response, now time.Time) (time.Duration, bool) {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := res.Header.Get("Retry-After")
	delay := time.Duration(-1)
	if seconds, err := strconv.Atoi(text); err == nil && seconds <= int(maxRetryAfter/time.Second) {
		delay = time.Duration(seconds) * time.Second
	} else if moment, err := http.ParseTime(text); err == nil {
		delay = max(0, moment.Sub(now))
	}
	return delay, delay >= 0 && delay <= maxRetryAfter
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// idleTimer calls a function when nothing has happened for a time.
type idleTimer struct {
	after time.Duration
	timer *time.Timer // nil without a limit
}

func newIdleTimer(after time.Duration, f func()) *idleTimer {
	t := &idleTimer{after: after}
	if after > 0 {
		t.timer = time.AfterFunc(after, f)
	}
	return t
}

func (t *idleTimer) reset() {
	if t.timer != nil {
		t.timer.Reset(t.after)
	}
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// watchedReader resets a timer with each read.
type watchedReader struct {
	r    io.Reader
	idle *idleTimer
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.idle.reset()
	n, err := w.r.Read(p)
	w.idle.stop() // what is done with the bytes is not the service's time
	return n, err
}
