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
	JobWake        = "wake"     // a wait is over
	JobGrantExpiry = "grant"    // an undecided request counts as denied
	JobDelegate    = "delegate" // a turn wants a task below its own
	JobOutcome     = "outcome"  // a task below another one has come to something
	JobForward     = "forward"  // a message is for a task below
	JobCancel      = "cancel"   // a task is over that waited for another one
	JobDeadline    = "deadline" // of a delegation
)

// JobKinds are the kinds of jobs that DoJob does.
func JobKinds() []string {
	return []string{JobWake, JobGrantExpiry, JobDelegate, JobOutcome, JobForward, JobCancel, JobDeadline}
}

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
		_, err = e.Decide(ctx, nodeScope, &Decision{Grant: grantID(job.Task, job.Turn), Note: "The request has expired.", By: byExpiry})
		if err == nil || isRefusal(err) {
			err = e.finishJob(ctx, job)
		}
	case JobDelegate:
		err = e.delegate(ctx, row, job)
	case JobOutcome:
		err = e.hearOfChild(ctx, row, job)
	case JobForward:
		err = e.forward(ctx, row, job)
	case JobCancel:
		err = e.cancelChildren(ctx, row, job)
	case JobDeadline:
		err = e.deadlinePassed(ctx, row, job)
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
	if row.Wait != store.WaitTime && row.Wait != store.WaitCallback || row.Turn != job.Turn {
		return store.ErrConflict
	}
	return e.resumeParked(ctx, row, &store.Change{Finish: job.ID}, func(r *run) { r.cause = agent.CauseTime })
}
