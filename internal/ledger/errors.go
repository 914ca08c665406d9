package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// PeerError says that a peer cannot be spoken to as it is configured, and that
// another try will not mend it.
type PeerError struct {
	Peer string
	Err  error
}

// Error says what is wrong.
func (e *PeerError) Error() string { return fmt.Sprintf("peer %q: %v", e.Peer, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// SetupError says that a peer cannot be spoken to until somebody has changed
// something here, such as its credentials, or approved its card.
type SetupError struct {
	Peer string
	Err  error
}

// Error says what is wrong.
func (e *SetupError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// forPeople reports whether only people can mend what went wrong.
func forPeople(err error) bool {
	_, setup := errors.AsType[*SetupError](err)
	_, never := errors.AsType[*PeerError](err)
	return setup || never
}

// illegible reports whether a peer has answered what cannot be read, or is larger
// than is taken.
func illegible(err error) bool {
	_, odd := errors.AsType[*client.DecodeError](err)
	return odd || errors.Is(err, client.ErrTooLarge)
}

// IdentityError says that a peer answered about another task or context than
// the one that it had named before. What it says of that is not believed.
type IdentityError struct {
	What string // task or context
	Want string
	Got  string
}

// Error names both ids.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("the peer spoke of the %s %.80q instead of %.80q", e.What, e.Got, e.Want)
}

// Clock is one of the three clocks of a delegation.
type Clock string

// The clocks of a delegation.
const (
	ClockConnect Clock = "connect"  // reaching the peer
	ClockAnswer  Clock = "answer"   // its first answer to a message
	ClockWork    Clock = "deadline" // the work itself
)

// ClockError says which clock has run out.
type ClockError struct {
	Clock Clock
	Limit time.Duration // 0: it is not known
	Err   error
}

// Error names the clock.
func (e *ClockError) Error() string {
	text := map[Clock]string{
		ClockConnect: "the peer could not be connected to",
		ClockAnswer:  "the peer did not answer the message",
		ClockWork:    "the work was not done",
	}[e.Clock]
	if e.Limit > 0 {
		text += " within " + e.Limit.String()
	}
	return text + " (clock: " + string(e.Clock) + ")"
}

// Unwrap returns the cause.
func (e *ClockError) Unwrap() error { return e.Err }

// doubtError says why it is still not known what became of a message. Its text has
// nothing secret.
type doubtError struct {
	text string
	err  error
}

func (e *doubtError) Error() string { return e.text }

func (e *doubtError) Unwrap() error { return e.err }

// errAnswer ends a send whose first answer has not come in time.
var errAnswer = errors.New("no answer in time")

// fate is what a failed call says of the message that it carried.
type fate int8

const (
	fateUnknown fate = iota // it may have been taken
	fateUnsent              // it was not taken, and may be sent again
	fateRefused             // it was not taken, and never will be
)

// fateOf says what became of a message whose send has failed.
func fateOf(err error) fate {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		switch e.Code {
		case a2a.CodeResourceExhausted:
			return fateUnsent // 429: it is what the status means
		case a2a.CodeUnavailable:
			if e.RetryAfter > 0 {
				return fateUnsent
			}
			return fateUnknown // a proxy may say so after the message has got through
		case a2a.CodeInternal:
			return fateUnknown
		}
		return fateRefused
	}
	if e, ok := errors.AsType[*client.TransportError](err); ok {
		switch {
		case e.Kind == client.KindRefused:
			if e.Sent {
				return fateUnknown // by a redirect of the peer
			}
			return fateRefused
		case !e.Sent:
			return fateUnsent
		case e.RetryAfter > 0 && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable):
			return fateUnsent
		}
		return fateUnknown
	}
	if _, ok := errors.AsType[*PeerError](err); ok {
		return fateRefused
	}
	return fateUnknown
}

// left reports whether anything of a call that was refused has left this machine.
func left(err error) bool {
	if _, ok := errors.AsType[*PeerError](err); ok {
		return false
	}
	e, ok := errors.AsType[*client.TransportError](err)
	return !ok || e.Sent
}

// lasting reports whether a call that failed cannot succeed later.
func lasting(err error) bool {
	if _, ok := errors.AsType[*PeerError](err); ok {
		return true
	}
	_, noInterface := errors.AsType[*client.InterfaceError](err)
	_, badCard := errors.AsType[*client.CardError](err)
	if noInterface || badCard {
		return true
	}
	e, ok := errors.AsType[*client.TransportError](err)
	return ok && e.Kind == client.KindRefused
}

// asked returns how long a peer asked to wait.
func asked(err error) time.Duration {
	const most = time.Hour
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return min(e.RetryAfter, most)
	}
	if e, ok := errors.AsType[*client.TransportError](err); ok {
		return min(e.RetryAfter, most)
	}
	return 0
}

// clocked names the clock when a call failed because one ran out.
func clocked(err error, link *Link) error {
	if _, ok := errors.AsType[*doubtError](err); ok {
		return err
	}
	if errors.Is(err, errAnswer) {
		return &ClockError{Clock: ClockAnswer, Limit: link.Answer, Err: err}
	}
	e, ok := errors.AsType[*client.TransportError](err)
	if !ok || e.Kind != client.KindTimeout {
		return err
	}
	if !e.Sent {
		return &ClockError{Clock: ClockConnect, Limit: link.Connect, Err: err}
	}
	return &ClockError{Clock: ClockAnswer, Err: err}
}

// explain returns the text of an error for people: bounded, and in one line.
func explain(err error) string {
	const most = 500
	_, doubt := errors.AsType[*doubtError](err)
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Message != "" && !doubt {
		err = fmt.Errorf("the peer answered: %s", e.Message)
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7F }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// ended reports whether an error comes of the end of the turn.
func ended(ctx context.Context, err error) bool { return ctx.Err() != nil && err != nil }
