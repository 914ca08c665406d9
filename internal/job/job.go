// Package job does what was committed to be done later. A job is written in the
// commit that causes it, claimed by a guarded statement, and done at least
// once: its handler is idempotent and finishes it in a commit of its own.
package job

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"handoff.example/handoff/internal/store"
)

const (
	claimed  = 64               // jobs claimed at once
	retry    = 15 * time.Second // after which a claimed job that is not done, and is not worked on any more, comes again
	interval = 5 * time.Second  // between looks at the store: other nodes make jobs too, and die
	margin   = time.Second      // before the end of its claim, at which the work on a job ends
)

// Store is where jobs are kept.
type Store interface {
	Jobs(ctx context.Context, limit int, retry time.Duration) ([]store.Job, error)
	NextJob(ctx context.Context) (time.Time, error)
	HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error
}

// Handler does a job. An error leaves the job to be tried again. While a handler
// works, the claim of its job is held; when it is lost, ctx ends.
type Handler func(ctx context.Context, job *store.Job) error

// Runner claims jobs that are due and hands them to the handler of their kind.
type Runner struct {
	store    Store
	handlers map[string]Handler
	long     map[string]bool // kinds whose handlers bound themselves
	slots    chan struct{}   // for those of the others
	hold     time.Duration   // of a claim
	observe  func(kind string, failed bool, took time.Duration)
	log      *slog.Logger
	earlier  chan time.Time
	stop     context.CancelFunc
	pausing  context.Context // ended when nothing more is to be claimed
	pause    context.CancelFunc
	done     sync.WaitGroup
	working  sync.WaitGroup
}

// NewRunner returns a runner that is not started yet.
func NewRunner(s Store, handlers map[string]Handler, log *slog.Logger) *Runner {
	return &Runner{
		store: s, handlers: handlers, long: map[string]bool{}, slots: make(chan struct{}, claimed), hold: retry,
		log: log, earlier: make(chan time.Time, 1), observe: func(string, bool, time.Duration) {},
	}
}

// Long adds the handler of a kind of jobs that may take as long as they want. It
// is called for any number of them at once, and bounds itself. Call it before
// Start.
func (r *Runner) Long(kind string, h Handler) {
	r.handlers[kind], r.long[kind] = h, true
}

// Claim sets how long a claim lasts that nobody holds: after that a job whose
// process has died comes again. It is 15 s otherwise. Call it before Start.
func (r *Runner) Claim(d time.Duration) { r.hold = d }

// Observe has f told of each job that was done or has failed, and how long it took.
// Call it before Start.
func (r *Runner) Observe(f func(kind string, failed bool, took time.Duration)) { r.observe = f }

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
	r.pausing, r.pause = context.WithCancel(ctx)
	r.done.Go(func() { r.loop(ctx) })
}

// Pause lets jobs that are due come to other nodes from now on. Those under way
// go on; one that fails is given back at once.
func (r *Runner) Pause() {
	if r.pause != nil {
		r.pause()
	}
}

// Stop ends the runner and waits for the jobs under way.
func (r *Runner) Stop() {
	if r.stop != nil {
		r.stop()
	}
	r.done.Wait()
	r.working.Wait()
}

func (r *Runner) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var next time.Time
	for {
		select {
		case <-r.pausing.Done():
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

// work begins what is due and returns when to look again.
func (r *Runner) work(ctx context.Context) time.Time {
	for r.pausing.Err() == nil {
		began := time.Now()
		jobs, err := r.store.Jobs(r.pausing, claimed, r.hold)
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) { // of which the log tells elsewhere
				r.log.WarnContext(ctx, "Jobs could not be claimed", "error", err)
			}
			return time.Now().Add(time.Second)
		}
		for i := range jobs {
			r.begin(ctx, &jobs[i], began)
		}
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

// begin lets a job be worked on, which was claimed at a time.
func (r *Runner) begin(ctx context.Context, job *store.Job, claimed time.Time) {
	free := func() {}
	if !r.long[job.Kind] {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		free = func() { <-r.slots }
	}
	r.working.Go(func() {
		defer free()
		ctx, release := r.keep(ctx, job, claimed)
		defer release()
		r.do(ctx, job)
	})
}

// keep holds the claim of a job until release is called, and ends the context
// when it is lost.
func (r *Runner) keep(ctx context.Context, job *store.Job, claimed time.Time) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	lost := time.AfterFunc(time.Until(claimed.Add(r.hold-min(margin, r.hold/4))), cancel)
	var mu sync.Mutex
	var hold *time.Timer
	again := func() {
		began := time.Now()
		err := r.store.HoldJob(ctx, job.ID, job.Attempt, r.hold)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrConflict):
			cancel() // its handler has ended the job itself, or another node has it
			return
		case err == nil:
			lost.Reset(time.Until(began.Add(r.hold - min(margin, r.hold/4))))
		}
		hold.Reset(r.hold / 3)
	}
	mu.Lock()
	hold = time.AfterFunc(r.hold/3, again)
	mu.Unlock()
	return ctx, func() {
		cancel()
		lost.Stop()
		mu.Lock()
		defer mu.Unlock()
		hold.Stop()
	}
}

func (r *Runner) do(ctx context.Context, job *store.Job) {
	handler := r.handlers[job.Kind]
	if handler == nil {
		r.log.ErrorContext(ctx, "There is no handler for a job", "kind", job.Kind, "task", job.Task)
		return
	}
	began := time.Now()
	err := handler(ctx, job)
	r.observe(job.Kind, err != nil && ctx.Err() == nil, time.Since(began))
	switch {
	case err == nil || ctx.Err() != nil:
	case r.pausing.Err() != nil:
		_ = r.store.HoldJob(ctx, job.ID, job.Attempt, 0) // otherwise it comes when the claim is over
	default:
		r.log.WarnContext(ctx, "A job failed and will be tried again", "kind", job.Kind, "task", job.Task, "attempt", job.Attempt, "error", err)
	}
}
