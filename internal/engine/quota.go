package engine

import (
	"context"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// CallerLimits bound what one caller may have going on; zero is no limit.
type CallerLimits struct {
	Open   int // tasks that are not terminal
	Parked int // tasks that wait for the caller: for input or an authorization
}

// Names of limits, as errors have them under a2a.MetadataLimit.
const (
	LimitQueue  = "queue"
	LimitOpen   = "open_tasks"
	LimitParked = "parked_tasks"
	LimitUnread = "message_queue"
)

// creator is a caller that makes tasks.
type creator struct{ tenant, owner string }

// allow sees that a caller may have one more task, counting those that are being
// made on this node. The task is counted so until done is called. What is there
// is counted by the store; on several nodes a limit may be exceeded by what is
// made elsewhere in the same moment.
func (e *Engine) allow(ctx context.Context, spec *Spec, tenant, owner string) (done func(), err error) {
	all, own := e.cfg.CallerLimits(), CallerLimits{Open: spec.Limits.Open, Parked: spec.Limits.Parked}
	if all == (CallerLimits{}) && own == (CallerLimits{}) {
		return func() {}, nil
	}
	c := creator{tenant, owner}
	e.mu.Lock()
	e.creating[c]++
	making := e.creating[c]
	e.mu.Unlock()
	done = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.creating[c]--; e.creating[c] == 0 {
			delete(e.creating, c)
		}
	}
	for _, of := range []struct {
		limits CallerLimits
		agent  string
		where  string
	}{{all, "", "on this node"}, {own, spec.ID, "with this agent"}} {
		if of.limits == (CallerLimits{}) {
			continue
		}
		load, err := e.store.Load(ctx, tenant, owner, of.agent)
		if err != nil {
			done()
			return nil, unavailable(err)
		}
		if err := of.limits.check(load, making, of.where); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// check compares what is there, and what is being made, with the limits.
func (l CallerLimits) check(load map[a2a.TaskState]int, making int, where string) error {
	parked := load[a2a.StateInputRequired] + load[a2a.StateAuthRequired]
	open := 0
	for state, n := range load {
		if store.Live.Has(state) {
			open += n
		}
	}
	switch {
	case l.Open > 0 && open+making > l.Open:
		return tooMany(LimitOpen, "You have as many tasks %s that are not finished as you may have (%d); let some finish, or cancel them", where, l.Open)
	case l.Parked > 0 && parked >= l.Parked:
		return tooMany(LimitParked, "You have as many tasks %s that wait for you as you may have (%d); answer some, or cancel them", where, l.Parked)
	}
	return nil
}

func tooMany(limit, format string, args ...any) error {
	return &a2a.Error{
		Code: a2a.CodeResourceExhausted, Message: fmt.Sprintf(format, args...),
		RetryAfter: 5 * time.Second, Metadata: map[string]string{a2a.MetadataLimit: limit},
	}
}
