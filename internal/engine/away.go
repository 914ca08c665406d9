package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// outage keeps whether this node may judge that others are dead. After a time
// without the store, nobody could renew a lease, and everybody looks dead.
type outage struct {
	mu      sync.Mutex
	renewed time.Time // when the lease was last renewed
	failing time.Time // since when it cannot be; zero: it can
	until   time.Time
}

// renewal notes an attempt to renew the lease. It says whether an outage has begun
// with it, or how long the one was that has ended with it.
func (o *outage) renewal(began time.Time, lease time.Duration, ok bool) (begun bool, ended time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	switch {
	case !ok && o.failing.IsZero():
		begun, o.failing = true, began
	case ok && !o.failing.IsZero():
		ended, o.failing = now.Sub(o.failing), time.Time{}
	}
	if !ok || now.Sub(began) > lease/2 || !o.renewed.IsZero() && now.Sub(o.renewed) > lease {
		o.until = now.Add(lease)
	}
	if ok {
		o.renewed = now
	}
	return begun, ended
}

// failed reports whether the lease cannot be renewed now.
func (o *outage) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failing.IsZero()
}

// over reports whether the lease was renewed in time, now and for a while.
func (o *outage) over(lease time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	return !now.Before(o.until) && (o.renewed.IsZero() || now.Sub(o.renewed) < lease*2/3)
}

// Pauses between attempts to reach a store that is away.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// patiently calls f until the store answers, cut is closed, or ctx ends.
func (e *Engine) patiently(ctx context.Context, cut <-chan struct{}, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		case <-cut:
			return ErrDraining
		}
	}
}

// endure calls f again while the store is away, up to the patience of the node.
// When others could reach it and have taken the task over meanwhile, the guard of
// the change refuses it. A change that may have been made is not tried again.
func (e *Engine) endure(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(e.cfg.Patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || !time.Now().Add(pause).Before(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		case <-e.closed:
			return err
		}
	}
}

// enduring is the store as a turn uses it, which waits while the store is away.
type enduring struct{ e *Engine }

func (s enduring) Commit(ctx context.Context, c *store.Change) error {
	return s.e.endure(ctx, func() error { return s.e.store.Commit(ctx, c) })
}

func (s enduring) Task(ctx context.Context, id string) (row *store.Task, err error) {
	err = s.e.endure(ctx, func() error {
		row, err = s.e.store.Task(ctx, nodeScope, id)
		return err
	})
	return row, err
}

func (s enduring) Read(ctx context.Context, id string, want store.Want) (item *store.Item, err error) {
	err = s.e.endure(ctx, func() error {
		item, err = s.e.store.Read(ctx, nodeScope, id, want)
		return err
	})
	return item, err
}

func (s enduring) Messages(ctx context.Context, key, from int64) (events []store.Event, err error) {
	err = s.e.endure(ctx, func() error {
		events, err = s.e.store.Messages(ctx, key, from)
		return err
	})
	return events, err
}

func (s enduring) Result(ctx context.Context, task int64, key string) (value a2a.JSON, err error) {
	err = s.e.endure(ctx, func() error {
		value, err = s.e.store.Result(ctx, task, key)
		return err
	})
	return value, err
}
