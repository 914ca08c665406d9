package client

import (
	"context"
	"errors"
	"sync/atomic"

	"handoff.example/handoff/a2a"
)

// downgrade speaks 1.0 to an agent whose card names it, and 0.3 once the agent
// has said that it does not know the methods of 1.0: an agent that does not know
// a method has done nothing.
type downgrade struct {
	now, old binding
	isOld    atomic.Bool
}

var _ binding = (*downgrade)(nil)

func (d *downgrade) unary(ctx context.Context, r *request, out a2a.Decodable) error {
	return d.attempt(func(b binding) error { return b.unary(ctx, r, out) })
}

func (d *downgrade) stream(ctx context.Context, r *request) (s *Stream, err error) {
	err = d.attempt(func(b binding) error {
		s, err = b.stream(ctx, r)
		return err
	})
	return s, err
}

func (d *downgrade) attempt(call func(binding) error) error {
	if d.isOld.Load() {
		return call(d.old)
	}
	err := call(d.now)
	if !unknownMethod(err) {
		return err
	}
	second := call(d.old)
	if unknownMethod(second) || unsupported(second) {
		return err
	}
	// Whatever else it answers, it knows the method.
	if _, spoke := errors.AsType[*a2a.Error](second); spoke || second == nil {
		d.isOld.Store(true)
	}
	return second
}

// unknownMethod reports whether an agent does not know the method, by any binding.
// That it does not know a task is something else.
func unknownMethod(err error) bool {
	return unknownRoute(err) && !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound})
}

// unsupported reports whether 0.3 has no such operation.
func unsupported(err error) bool {
	return errors.Is(err, &a2a.Error{Code: a2a.CodeUnsupportedOperation})
}
