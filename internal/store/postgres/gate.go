package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"handoff.example/handoff/internal/store"
)

// gate keeps callers from queueing up before a database that is away: while it
// is, one call at a time tries, and the others are refused at once.
type gate struct {
	away   atomic.Bool
	trying atomic.Bool
}

var errAway = fmt.Errorf("%w: the database does not answer", store.ErrUnavailable)

// enter refuses a call, or lets it in; it then has to leave with its outcome.
func (g *gate) enter() (leave func(error), err error) {
	if !g.away.Load() {
		return g.note, nil
	}
	if !g.trying.CompareAndSwap(false, true) {
		return nil, errAway
	}
	return func(err error) {
		g.note(err)
		g.trying.Store(false)
	}, nil
}

// note learns from the outcome of a call.
func (g *gate) note(err error) {
	switch gone := isGone(err); {
	case errors.Is(err, context.Canceled): // by the caller: it says nothing
	case gone != g.away.Load():
		g.away.Store(gone)
	}
}

// isGone reports whether an error says that the database cannot be reached or
// does not answer. A connection that broke says nothing yet: what the next one
// comes to does.
func isGone(err error) bool {
	if err == nil || isRefused(err) || isFull(err) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown)
}
