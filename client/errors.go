package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
)

// Kind says why no usable answer came from a peer.
type Kind string

// The kinds of a TransportError.
const (
	KindResolve  Kind = "resolve"  // the host name has no address
	KindConnect  Kind = "connect"  // no connection, or it broke
	KindTLS      Kind = "tls"      // the handshake or the certificate failed
	KindTimeout  Kind = "timeout"  // a limit of the client or the caller's deadline passed
	KindCanceled Kind = "canceled" // the caller canceled
	KindProtocol Kind = "protocol" // the peer answered something that is not A2A
	KindRefused  Kind = "refused"  // a rule of the client forbids it
	// KindCredentials says that the credentials could not be had.
	KindCredentials Kind = "credentials"
)

// TransportError says that a call failed without an A2A error of the peer.
type TransportError struct {
	Kind Kind
	// Op is the operation, such as SendMessage.
	Op string
	// URL is where the request went, without query and user info.
	URL string
	// Status is the HTTP status of the answer; 0 when there was none.
	Status int
	// Sent reports whether the peer may have got the request. When it is
	// false, a send can safely be repeated.
	Sent bool
	// RetryAfter is how long the peer asks to wait; zero when it does not say.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

// Error returns the operation, the address and the cause.
func (e *TransportError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// Timeout reports whether the kind is KindTimeout.
func (e *TransportError) Timeout() bool { return e.Kind == KindTimeout }

// ErrStreamCut is what every *StreamCutError is, for errors.Is.
var ErrStreamCut = errors.New("the stream ended before the task did")

// ErrTooLarge says that an answer is larger than the client allows.
var ErrTooLarge = errors.New("the answer is larger than allowed")

// DecodeError says that an answer has come that is not what A2A says, such as one
// that nests too deeply: the peer has answered all the same.
type DecodeError struct{ Err error }

// Error says what is wrong with it.
func (e *DecodeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

var (
	errIdle     = errors.New("nothing came within the idle timeout")
	errDeadline = errors.New("no answer within the timeout")
	// errOtherTask says that a peer spoke of a task that it was not asked about.
	errOtherTask = errors.New("the agent answered with another task")
)

// StreamCutError says that a stream ended before a message, a terminal state or
// an interrupted state, and without an error of the peer. The work goes on
// without the stream: subscribe again, or poll, and do not send again.
type StreamCutError struct {
	TaskID      string // "" when the stream did not come so far
	LastEventID string // "" when the peer sends none
	Err         error  // a *TransportError, or nil when the peer ended the stream properly
}

// Error says how the stream ended.
func (e *StreamCutError) Error() string {
	if e.Err == nil {
		return ErrStreamCut.Error()
	}
	return ErrStreamCut.Error() + ": " + e.Err.Error()
}

// Is reports whether target is ErrStreamCut.
func (e *StreamCutError) Is(target error) bool { return target == ErrStreamCut }

// Unwrap returns the cause.
func (e *StreamCutError) Unwrap() error { return e.Err }

// ChallengeError is the cause of an unauthenticated error whose answer carried
// WWW-Authenticate (RFC 9110 §11.6.1).
type ChallengeError struct {
	Challenges []string // the header's values, as they came
}

// Error returns the challenges.
func (e *ChallengeError) Error() string {
	return "authentication required: " + strings.Join(e.Challenges, ", ")
}

// classify finds the kind of an error of net/http. The context is that of the
// request; its cause tells a limit of the client from the caller's cancel.
func classify(ctx context.Context, err error) (Kind, error) {
	if ended := ctx.Err(); ended != nil {
		kind, cause := KindCanceled, context.Cause(ctx)
		if ended == context.DeadlineExceeded || cause == errIdle || cause == errDeadline {
			kind = KindTimeout
		} else if !errors.Is(cause, ended) {
			cause = fmt.Errorf("%w: %w", ended, cause)
		}
		return kind, cause
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text holds the whole URL, secrets included
	}
	if e, ok := errors.AsType[*refusedError](err); ok {
		return KindRefused, e
	}
	if e, ok := errors.AsType[*netguard.BlockedError](err); ok {
		return KindRefused, e
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return KindResolve, err
	}
	if isTLS(err) {
		return KindTLS, err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return KindTimeout, err
	}
	if _, ok := errors.AsType[*net.OpError](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return KindConnect, err
	}
	for _, prefix := range []string{
		"http2: ", "stream error: ", "connection error: ", // of HTTP/2; they have no type
		closedIdle, "http: CloseIdleConnections called", // nor have these
	} {
		if strings.HasPrefix(err.Error(), prefix) {
			return KindConnect, err
		}
	}
	return KindProtocol, err
}

// closedIdle is the text of an error of net/http that has no type: the peer had
// closed the connection before the request was begun on it.
const closedIdle = "http: server closed idle connection"

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	return strings.Contains(err.Error(), "tls: ") // most errors of a handshake have no type
}

// refusedError says that a rule of the client forbids a request.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110 §10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// transient reports whether a call that failed so may succeed later.
func transient(err error) bool {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		switch e.Code {
		case a2a.CodeUnavailable, a2a.CodeResourceExhausted, a2a.CodeInternal:
			return true
		}
		return false
	}
	if e, ok := errors.AsType[*TransportError](err); ok {
		switch e.Kind {
		case KindResolve, KindConnect, KindTimeout, KindCredentials:
			return true
		case KindProtocol:
			return e.Status >= http.StatusInternalServerError
		}
	}
	return false
}

// waitAsked returns how long the peer asked to wait before the next try.
func waitAsked(err error) time.Duration {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.RetryAfter
	}
	if e, ok := errors.AsType[*TransportError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// summary shortens what a peer answered instead of an A2A error, for people: no
// control characters, no runs of blanks, at most 200 bytes.
func summary(body []byte) string {
	const limit = 200
	text := strings.Join(strings.FieldsFunc(string(body[:min(len(body), 4*limit)]), func(r rune) bool {
		return r <= ' ' || r == 0x7F || (r >= 0x80 && r < 0xA0) || r == '\uFFFD'
	}), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
