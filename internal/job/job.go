// Package job does what was committed to be done later. A job is written in the
// commit that causes it, claimed by a guarded statement, and done at least
// once: its handler is idempotent and finishes it in a commit of its own.
package job

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"handoff.example/handoff/internal/store"
)

const (
	claimed  = 64               // jobs claimed at once
	retry    = 15 * time.Second // after which a claimed job that is not done comes again
	interval = 5 * time.Second  // between looks at the store: other nodes make jobs too, and die
)

// Store is where jobs are kept.
type Store interface {
	Jobs(ctx context.Context, limit int, retry time.Duration) ([]store.Job, error)
	NextJob(ctx context.Context) (time.Time, error)
}

// Handler does a job. An error leaves the job to be tried again.
type Handler func(ctx context.Context, job *store.Job) error

// Runner claims jobs that are due and hands them to the handler of their kind.
type Runner struct {
	store    Store
	handlers map[string]Handler
	log      *slog.Logger
	earlier  chan time.Time
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// NewRunner returns a runner that is not started yet.
func NewRunner(s Store, handlers map[string]Handler, log *slog.Logger) *Runner {
	return &Runner{store: s, handlers: handlers, log: log, earlier: make(chan time.Time, 1)}
}

// Due says that a job was made that is due at a time.
func (r *Runner) Due(at time.Time) {
	for {
		select {
		case r.earlier <- at:
			return
		case other := <-r.earlier: // not taken yet: keep the earlier of the two
			if other.Before(at) {
				at = other
			}
		}
	}
}

// Start runs jobs until Stop.
func (r *Runner) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.done.Go(func() { r.loop(ctx) })
}

// Stop ends the runner and waits for the jobs under way.
func (r *Runner) Stop() {
	if r.stop != nil {
		r.stop()
	}
	r.done.Wait()
}

func (r *Runner) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-r.earlier:
			if next.IsZero() || at.Before(next) {
				next = at
				timer.Reset(time.Until(next))
			}
			continue
		case <-timer.C:
		}
		next = r.work(ctx)
		timer.Reset(time.Until(next))
	}
}

// work does what is due and returns when to look again.
func (r *Runner) work(ctx context.Context) time.Time {
	for ctx.Err() == nil {
		jobs, err := r.store.Jobs(ctx, claimed, retry)
		if err != nil {
			r.log.WarnContext(ctx, "Jobs could not be claimed", "error", err)
			return time.Now().Add(time.Second)
		}
		var group sync.WaitGroup
		for i := range jobs {
			group.Go(func() { r.do(ctx, &jobs[i]) })
		}
		group.Wait()
		if len(jobs) < claimed {
			break
		}
	}
	latest := time.Now().Add(interval)
	next, err := r.store.NextJob(ctx)
	if err != nil || next.IsZero() || next.After(latest) {
		return latest
	}
	return next
}

func (r *Runner) do(ctx context.Context, job *store.Job) {
	handler := r.handlers[job.Kind]
	if handler == nil {
		r.log.ErrorContext(ctx, "There is no handler for a job", "kind", job.Kind, "task", job.Task)
		return
	}
	if err := handler(ctx, job); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "A job failed and will be tried again", "kind", job.Kind, "task", job.Task, "attempt", job.Attempt, "error", err)
	}
}
