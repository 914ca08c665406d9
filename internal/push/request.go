package push

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/span"
	"handoff.example/handoff/internal/store"
)

// The headers of a push. The token goes out under both names that receivers
// look for.
const (
	headerEvent    = "X-A2A-Event-Id"
	headerTokenOld = "X-A2A-Notification-Token"
	headerToken    = "A2A-Notification-Token"
	headerJWT      = "X-A2A-Notification-Jwt"
	contentType    = "application/a2a+json"
)

// jwtLife is for how long a receiver may take a signed push for new.
const jwtLife = 5 * time.Minute

// drained is how much of an answer is read so that its connection can be used
// again.
const drained = 16 << 10

// verdict is what became of one try.
type verdict int8

const (
	accepted verdict = iota
	failed           // and may succeed later
	refused          // and will probably not succeed later
	gone             // the receiver wants nothing more
)

// String names the verdict.
func (v verdict) String() string {
	return [...]string{"accepted", "failed", "refused", "gone"}[v]
}

// try is the outcome of one try to send an event.
type try struct {
	verdict  verdict
	answered bool   // by the receiver
	reason   string // for people, without secrets
	after    time.Duration
}

// eventID names an event. It is the same in every try.
func eventID(task string, seq int64) string { return task + "/" + strconv.FormatInt(seq, 10) }

// send sends one event to a webhook.
func (s *Service) send(ctx context.Context, hook *store.Webhook, secret *secrets, event *store.Event) try {
	ctx, end := s.traced(ctx, hook, event)
	t := s.exchange(ctx, hook, secret, event)
	end(t)
	return t
}

func (s *Service) exchange(ctx context.Context, hook *store.Webhook, secret *secrets, event *store.Event) try {
	event, t := s.encoded(ctx, hook, event)
	if event == nil {
		return t
	}
	request, err := s.request(ctx, hook, secret, event)
	if err != nil {
		return try{verdict: refused, answered: true, reason: err.Error()}
	}
	response, err := s.client.Do(request)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, drained)
	t = try{answered: true, reason: fmt.Sprintf("the receiver answered with HTTP status %d", response.StatusCode)}
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		t.verdict = accepted
	case code == http.StatusGone:
		t.verdict = gone
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		t.verdict, t.after = failed, min(retryAfter(response.Header.Get("Retry-After"), time.Now()), s.limits.MaxRetryAfter)
	case code >= 300 && code < 400:
		t.verdict, t.reason = refused, t.reason+", and redirects are not followed"
	default:
		t.verdict = refused
	}
	return t
}

// encoded returns an event with the body that its receiver understands, or the
// outcome when there is none.
func (s *Service) encoded(ctx context.Context, hook *store.Webhook, event *store.Event) (*store.Event, try) {
	if hook.Version == "" || s.opts.Encode == nil {
		return event, try{}
	}
	body, err := s.opts.Encode(ctx, hook)
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Code != a2a.CodeUnavailable {
		return nil, try{verdict: refused, answered: true, reason: "the task could not be read: " + e.Message}
	}
	if err != nil {
		return nil, try{verdict: failed, answered: true, reason: "the task could not be read"}
	}
	other := *event
	other.Body = body
	return &other, try{}
}

// broken is the outcome of a try without an answer. Errors of net/http name the
// URL, which may hold secrets.
func broken(err error) try {
	if blocked, ok := errors.AsType[*netguard.BlockedError](err); ok {
		return try{verdict: refused, answered: true, reason: "the receiver is not a place that this node sends events to: " + blocked.Reason}
	}
	reason := "the receiver could not be reached"
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		reason = "the name of the receiver could not be resolved"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		reason = "the receiver did not answer in time"
	default:
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		reason += ": " + clip(err.Error(), 200)
	}
	return try{verdict: failed, reason: reason}
}

func clip(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}

// request makes the request that brings an event (A2A §4.3.3).
func (s *Service) request(ctx context.Context, hook *store.Webhook, secret *secrets, event *store.Event) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(event.Body))
	if err != nil {
		return nil, errors.New("the URL cannot be used")
	}
	h := r.Header
	h.Set("Content-Type", contentType)
	h.Set("User-Agent", "handoff/"+s.opts.Version)
	h.Set("A2A-Version", a2a.Version10.String())
	if hook.Version != "" && s.opts.Encode != nil {
		h.Set("Content-Type", "application/json")
		h.Set("A2A-Version", hook.Version)
	}
	h.Set(headerEvent, eventID(hook.Task, event.Seq))
	if secret.Token != "" {
		h.Set(headerToken, secret.Token)
		h.Set(headerTokenOld, secret.Token)
	}
	if secret.Credentials != "" {
		h.Set("Authorization", hook.Scheme+" "+secret.Credentials)
	}
	jwt, err := s.sign(hook, event)
	if err != nil {
		return nil, err
	}
	if jwt != "" {
		h.Set(headerJWT, jwt)
		if secret.Credentials == "" {
			h.Set("Authorization", "Bearer "+jwt)
		}
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	return r, nil
}

// claims are what a signed push says of itself.
type claims struct {
	Issuer   string `json:"iss,omitempty"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	Task     string `json:"taskId"`
	Event    string `json:"eventId"`
	Digest   string `json:"request_body_sha256"` // in hexadecimal
}

// sign returns a JWT for an event, "" when the agent's are not signed.
func (s *Service) sign(hook *store.Webhook, event *store.Event) (string, error) {
	if s.opts.Signer == nil {
		return "", nil
	}
	signer := s.opts.Signer(hook.Agent)
	if signer == nil {
		return "", nil
	}
	now, digest := time.Now(), sha256.Sum256(event.Body)
	c := claims{
		Audience: Origin(hook.URL), Issued: now.Unix(), Expires: now.Add(jwtLife).Unix(),
		// Another one with each try: a receiver that wants none twice still gets
		// the second.
		ID: rand.Text(), Task: hook.Task, Event: eventID(hook.Task, event.Seq), Digest: hex.EncodeToString(digest[:]),
	}
	if s.opts.Issuer != nil {
		c.Issuer = s.opts.Issuer()
	}
	extra := map[string]string{}
	if s.opts.JWKS != nil {
		if jku := s.opts.JWKS(); jku != "" {
			extra["jku"] = jku
		}
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write claims: %w", err)
	}
	protected, signature, err := signer.Sign(payload, "JWT", extra)
	if err != nil {
		return "", errors.New("the event could not be signed")
	}
	return protected + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + signature, nil
}

// Origin returns the scheme, the host and the port of a URL: what may be shown
// of it, since its path and its query may hold secrets.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// retryAfter reads a Retry-After header (RFC 9110 §10.2.3); 0 when it says
// nothing.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// traced returns a context with a span for a try.
func (s *Service) traced(ctx context.Context, hook *store.Webhook, event *store.Event) (context.Context, func(try)) {
	if s.opts.Tracer == nil {
		return ctx, func(try) {}
	}
	if s.opts.Traced != nil {
		ctx = s.opts.Traced(ctx, hook.Task)
	}
	attributes := []attribute.KeyValue{
		span.Task.String(hook.Task), span.AgentID.String(hook.Agent),
		attribute.String("http.request.method", http.MethodPost), attribute.Int64("handoff.event", event.Seq),
	}
	if u, err := url.Parse(hook.URL); err == nil {
		attributes = append(attributes, span.Server.String(u.Hostname()))
	}
	ctx, sent := s.opts.Tracer.Start(ctx, "A2A push", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return ctx, func(t try) {
		if t.verdict != accepted {
			sent.SetStatus(codes.Error, t.reason)
			sent.SetAttributes(span.ErrorType.String(t.verdict.String()))
		}
		sent.End()
	}
}
