package ledger

import (
	"context"
	"errors"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// JobPoll is the kind of the jobs that look at a peer whose delegation is
// parked.
const JobPoll = "ledger.poll"

// pushKey is the key of a poll job that a push or a person has made.
const pushKey = "push"

// retryJob is after how long a job is done again that came too early.
const retryJob = 500 * time.Millisecond

// pollJob returns the nth look at the peer while the delegation is parked.
func (w *work) pollJob(n int, wait time.Duration) store.Job {
	return store.Job{
		Kind: JobPoll, Task: w.d.Task, Turn: w.t.Number, Key: strconv.Itoa(n), Due: time.Now().Add(jitter(wait)),
	}
}

// Poll does a job of the kind JobPoll: it looks at the task of the peer, and
// starts the next turn only when that has moved.
func (l *Ledger) Poll(ctx context.Context, job *store.Job) error {
	row, err := l.opts.Store.Task(ctx, l.opts.Scope, job.Task)
	if errors.Is(err, store.ErrNotFound) {
		return l.finish(ctx, job)
	}
	if err != nil {
		return err
	}
	switch {
	case row.State.Terminal():
		return l.finish(ctx, job)
	case row.Lease != 0 && job.Key == pushKey:
		return l.pushedInTurn(ctx, job)
	case row.Turn != job.Turn && job.Key != pushKey:
		return l.finish(ctx, job)
	case row.Lease != 0: // it is about to be parked
		return l.again(ctx, job, nil, job.Key, retryJob)
	}
	d, err := l.opts.Store.Delegation(ctx, l.opts.Scope, job.Task)
	if errors.Is(err, store.ErrNotFound) {
		return l.finish(ctx, job)
	}
	if err != nil {
		return err
	}
	if d.RemoteTask == "" || d.Send != store.SendAccepted {
		return l.wake(ctx, job)
	}
	free, err := l.line(ctx, d.Peer)
	if err != nil {
		return err
	}
	defer free()
	return l.poll(ctx, job, d, row.State.Interrupted())
}

// Look lets a delegation look at its peer now, and not when it would have. It
// goes on when the peer has moved; one that is over, or is not of a peer, is left
// alone.
func (l *Ledger) Look(ctx context.Context, task string) error {
	d, err := l.opts.Store.Delegation(ctx, l.opts.Scope, task)
	if errors.Is(err, store.ErrNotFound) || err == nil && (d.Peer == "" || d.State.Terminal()) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.lookAt(ctx, &store.Change{Task: d.TaskKey, Guard: store.Guard{States: store.Live}}, task, time.Now())
}

// lookAt commits a change with a look at the peer.
func (l *Ledger) lookAt(ctx context.Context, c *store.Change, task string, at time.Time) error {
	c.Jobs = []store.Job{{Kind: JobPoll, Task: task, Key: pushKey, Due: at}}
	if err := l.opts.Store.Commit(ctx, c); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	l.opts.Due(at)
	return nil
}

// pushedInTurn deals with a push that came in while a turn runs. A turn that
// follows a stream is told. Any other may have looked at the peer before that
// moved, so that it is looked at again behind the turn.
func (l *Ledger) pushedInTurn(ctx context.Context, job *store.Job) error {
	d, err := l.opts.Store.Delegation(ctx, l.opts.Scope, job.Task)
	if errors.Is(err, store.ErrNotFound) {
		return l.finish(ctx, job)
	}
	if err != nil {
		return err
	}
	if d.Channel == store.ChannelStream {
		return l.wake(ctx, job)
	}
	return l.again(ctx, job, nil, pushKey, retryJob)
}

// wake starts the next turn, and finishes the job.
func (l *Ledger) wake(ctx context.Context, job *store.Job) error {
	if err := l.opts.Engine.Wake(ctx, job.Task); err != nil {
		return err
	}
	return l.finish(ctx, job)
}

func (l *Ledger) poll(ctx context.Context, job *store.Job, d *store.Delegation, asks bool) error {
	link, err := l.open(ctx, d)
	var t *a2a.Task
	if err == nil {
		none := 0
		began := time.Now()
		t, err = link.Client.GetTask(ctx, &a2a.GetTaskRequest{ID: d.RemoteTask, HistoryLength: &none})
		if ctx.Err() != nil {
			return err
		}
		l.opts.Peers.Observe(ctx, d.Peer, Observation{Interface: d.Interface, Took: time.Since(began), Err: err})
	}
	// A request that was decided on may be followed by another in the same words.
	decided := !asks && d.RemoteState.Interrupted()
	if err == nil && !sameDigest(d.RemoteDigest, t, decided) ||
		(illegible(err) || errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound})) && d.Attempts+1 >= maxGone {
		return l.wake(ctx, job)
	}
	n, _ := strconv.Atoi(job.Key)
	var item *store.InboxItem
	var state a2a.JSON
	if err == nil {
		s, over, serr := l.polled(ctx, &link, d, t)
		switch {
		case serr != nil:
			return serr
		case over: // the turn looks again, and ends it
			return l.wake(ctx, job)
		}
		state = s
	}
	if err != nil {
		d.Attempts++
		d.Error = l.redactor(&link, d).explain(clocked(err, &link))
		limit := link.Stuck
		if forPeople(err) {
			limit, d.Attempts = atOnce, max(d.Attempts, stuckTries)
		}
		var serr error
		if item, serr = l.stuck(ctx, d, limit); serr != nil {
			return serr
		}
	} else {
		if d.Attempts >= stuckTries {
			l.unstick(ctx, d)
		}
		d.Seen, d.Attempts, d.Error = time.Now(), 0, ""
	}
	if job.Key == pushKey {
		return l.note(ctx, job, d, state) // the other job goes on
	}
	wait := max(l.interval(&link, n, asks || d.Channel == store.ChannelPush), asked(err))
	c := &store.Change{Delegation: d, Item: item, State: state}
	if item != nil {
		item.Turn = job.Turn
		item.Due, c.Jobs = l.opts.ItemDue(item)
	}
	return l.again(ctx, job, c, strconv.Itoa(n+1), wait)
}

// interval returns the time to the next look at a peer: growing, and the longest
// from the beginning where news comes by itself or a person is waited for.
func (l *Ledger) interval(link *Link, n int, slow bool) time.Duration {
	wait := link.PollMax
	if !slow {
		wait = link.PollMin
		for range min(n, 40) {
			if wait = wait * 3 / 2; wait >= link.PollMax {
				wait = link.PollMax
				break
			}
		}
	}
	return jitter(wait)
}

func (l *Ledger) open(ctx context.Context, d *store.Delegation) (Link, error) {
	link, err := l.opts.Peers.Open(ctx, d.Peer, User{Tenant: d.Tenant, Subject: d.Owner})
	if err != nil {
		failed := Link{}.withDefaults()
		if link != nil {
			failed.Stuck = link.Stuck
		}
		return failed, err
	}
	return prepared(link)
}

// finish ends a job.
func (l *Ledger) finish(ctx context.Context, job *store.Job) error {
	return l.opts.Store.Commit(ctx, &store.Change{Finish: job.ID})
}

// note ends a job and writes the private state, nil for none, unless somebody else
// was faster.
func (l *Ledger) note(ctx context.Context, job *store.Job, d *store.Delegation, state a2a.JSON) error {
	row, err := l.opts.Store.Task(ctx, l.opts.Scope, job.Task)
	if err != nil || state == nil {
		return l.finish(ctx, job)
	}
	err = l.opts.Store.Commit(ctx, &store.Change{
		Task: d.TaskKey, Guard: store.Guard{Turn: row.Turn, NoLease: true}, State: state, Finish: job.ID,
	})
	if errors.Is(err, store.ErrConflict) {
		return l.finish(ctx, job)
	}
	return err
}

// again ends a job and makes the next of its kind, with what is to be written
// along. What the task has become meanwhile is somebody else's.
func (l *Ledger) again(ctx context.Context, job *store.Job, c *store.Change, key string, wait time.Duration) error {
	next := *job
	next.ID, next.Attempt, next.Key, next.Due = 0, 0, key, time.Now().Add(wait)
	if c == nil {
		c = &store.Change{}
	}
	if c.Delegation != nil {
		c.Task, c.Guard = c.Delegation.TaskKey, store.Guard{Turn: job.Turn, NoLease: true}
	}
	c.Jobs, c.Finish = append(c.Jobs, next), job.ID
	err := l.opts.Store.Commit(ctx, c)
	if errors.Is(err, store.ErrConflict) {
		return l.finish(ctx, job)
	}
	if err == nil {
		l.opts.Due(next.Due)
	}
	return err
}
