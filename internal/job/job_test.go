package job_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func add(t *testing.T, s store.Store, jobs ...store.Job) {
	t.Helper()
	if err := s.Commit(t.Context(), &store.Change{Jobs: jobs}); err != nil {
		t.Fatal(err)
	}
}

func TestJobsAreDoneWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	s := open(t)
	began := time.Now()
	add(t, s, store.Job{Kind: "a", Task: "early", Due: began.Add(-time.Hour)})
	done := make(chan string)
	r := job.NewRunner(s, map[string]job.Handler{"a": func(ctx context.Context, j *store.Job) error {
		if time.Now().Before(j.Due) {
			t.Errorf("%s was done before it was due", j.Task)
		}
		done <- j.Task
		return s.Commit(ctx, &store.Change{Finish: j.ID})
	}}, slog.New(slog.DiscardHandler))
	r.Start()
	defer r.Stop()
	if got := <-done; got != "early" {
		t.Errorf("got %s", got)
	}
	// Made while the runner sleeps, the later one first.
	for _, j := range []store.Job{{Kind: "a", Task: "second", Due: time.Now().Add(60 * time.Millisecond)}, {Kind: "a", Task: "first", Due: time.Now().Add(20 * time.Millisecond)}} {
		add(t, s, j)
		r.Due(j.Due)
	}
	for _, want := range []string{"first", "second"} {
		if got := <-done; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if next, err := s.NextJob(t.Context()); err != nil || !next.IsZero() && time.Until(next) < time.Second {
		t.Errorf("a job is left: %v, %v", next, err)
	}
}

func TestAFailedJobStays(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Job{Kind: "a", Task: "t", Due: time.Now()}, store.Job{Kind: "unknown", Task: "t", Due: time.Now()})
	var tries atomic.Int32
	failed := make(chan struct{})
	r := job.NewRunner(s, map[string]job.Handler{"a": func(context.Context, *store.Job) error {
		if tries.Add(1) == 1 {
			close(failed)
		}
		return errors.New("not now")
	}}, slog.New(slog.DiscardHandler))
	r.Start()
	<-failed
	r.Stop()
	next, err := s.NextJob(t.Context())
	if err != nil || next.IsZero() || !next.After(time.Now()) {
		t.Errorf("the job comes again at %v, %v", next, err)
	}
	if tries.Load() != 1 {
		t.Errorf("%d tries at once", tries.Load())
	}
}

func TestALongJobHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Job{Kind: "long", Task: "slow", Due: time.Now()})
	begun, end, short := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	r := job.NewRunner(s, map[string]job.Handler{"short": func(ctx context.Context, j *store.Job) error {
		short <- j.Task
		return s.Commit(ctx, &store.Change{Finish: j.ID})
	}}, slog.New(slog.DiscardHandler))
	r.Long("long", func(ctx context.Context, j *store.Job) error {
		close(begun)
		<-end
		return s.Commit(ctx, &store.Change{Finish: j.ID})
	})
	r.Start()
	<-begun
	j := store.Job{Kind: "short", Task: "quick", Due: time.Now()}
	add(t, s, j)
	r.Due(j.Due)
	if got := <-short; got != "quick" {
		t.Errorf("got %s", got)
	}
	close(end)
	r.Stop()
}

// claims counts how often claims are held, and lets them be lost.
type claims struct {
	job.Store
	lose  atomic.Bool
	holds atomic.Int32
}

func (c *claims) HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error {
	c.holds.Add(1)
	if c.lose.Load() {
		return store.ErrConflict
	}
	return c.Store.HoldJob(ctx, id, attempt, hold)
}

func TestAClaimIsHeldUntilItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &claims{Store: &memory{}}
		ended := make(chan time.Duration, 1)
		r := job.NewRunner(s, map[string]job.Handler{}, slog.New(slog.DiscardHandler))
		r.Long("long", func(ctx context.Context, _ *store.Job) error {
			began := time.Now()
			<-ctx.Done()
			ended <- time.Since(began)
			return nil
		})
		r.Start()
		time.Sleep(time.Minute) // of the bubble
		if n := s.holds.Load(); n < 10 {
			t.Errorf("the claim was held %d times in a minute", n)
		}
		select {
		case after := <-ended:
			t.Errorf("the work ended after %v", after)
		default:
		}
		s.lose.Store(true)
		if after := <-ended; after > 70*time.Second {
			t.Errorf("the work ended after %v", after)
		}
		r.Stop()
	})
}

// memory has one job, claimed once.
type memory struct{ claimed bool }

func (m *memory) Jobs(context.Context, int, time.Duration) ([]store.Job, error) {
	if m.claimed {
		return nil, nil
	}
	m.claimed = true
	return []store.Job{{ID: 1, Kind: "long", Attempt: 1}}, nil
}

func (m *memory) NextJob(context.Context) (time.Time, error) { return time.Time{}, nil }

func (m *memory) HoldJob(context.Context, int64, int, time.Duration) error { return nil }

// A runner that pauses gives a job that it cannot do any more to the next one at
// once.
func TestAPausedRunnerGivesJobsBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Job{Kind: "a", Task: "t", Due: time.Now()})
	begun, paused := make(chan struct{}), make(chan struct{})
	first := job.NewRunner(s, map[string]job.Handler{"a": func(context.Context, *store.Job) error {
		close(begun)
		<-paused
		return errors.New("the node is stopping")
	}}, slog.New(slog.DiscardHandler))
	first.Claim(time.Hour)
	first.Start()
	defer first.Stop()
	<-begun
	first.Pause()
	close(paused)
	done := make(chan struct{})
	second := job.NewRunner(s, map[string]job.Handler{"a": func(ctx context.Context, j *store.Job) error {
		defer close(done)
		return s.Commit(ctx, &store.Change{Finish: j.ID})
	}}, slog.New(slog.DiscardHandler))
	second.Start()
	defer second.Stop()
	<-done
}
