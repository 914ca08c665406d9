package engine

import (
	"context"
	"errors"
	"fmt"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// The kinds of jobs that an engine makes and does.
const (
	JobWake        = "wake"  // a wait is over
	JobGrantExpiry = "grant" // an undecided request counts as denied
)

// DoJob does a job of one of this package's kinds. Jobs that no longer apply
// are finished without effect.
func (e *Engine) DoJob(ctx context.Context, job *store.Job) error {
	row, err := e.store.Task(ctx, nodeScope, job.Task)
	if errors.Is(err, store.ErrNotFound) {
		return e.finishJob(ctx, job)
	}
	if err != nil {
		return err
	}
	switch job.Kind {
	case JobWake:
		err = e.wake(ctx, row, job)
	case JobGrantExpiry:
		_, err = e.Decide(ctx, nodeScope, &Decision{Grant: grantID(job.Task, job.Turn), Note: "The request has expired.", By: "expiry"})
		if err == nil || isRefusal(err) {
			err = e.finishJob(ctx, job)
		}
	default:
		return fmt.Errorf("unknown kind of job %q", job.Kind)
	}
	if errors.Is(err, store.ErrConflict) {
		return e.finishJob(ctx, job)
	}
	return err
}

func (e *Engine) finishJob(ctx context.Context, job *store.Job) error {
	return e.store.Commit(ctx, &store.Change{Finish: job.ID})
}

// wake starts the turn after a wait.
func (e *Engine) wake(ctx context.Context, row *store.Task, job *store.Job) error {
	if row.Wait != store.WaitTime || row.Turn != job.Turn {
		return store.ErrConflict
	}
	return e.resumeParked(ctx, row, &store.Change{Finish: job.ID}, func(r *run) { r.cause = agent.CauseTime })
}
