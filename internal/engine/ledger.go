package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/store"
)

// Ledger is what a turn of an agent with a Peer has besides its steps: the row of
// its delegation.
type Ledger interface {
	// Delegation returns the row as it is.
	Delegation(ctx context.Context) (*store.Delegation, error)
	// Save keeps the changed half of the row, and what goes with it, in one
	// commit, fenced like every write of the turn: store.ErrConflict says that the
	// turn is not this one's any more. A new task becomes visible first.
	Save(ctx context.Context, d *store.Delegation, with With) error
	// News has a value when a message for the task has come in since the last one
	// was taken, or somebody has called Wake. It is a hint: it may come for
	// nothing, and may be lost when another node has the news.
	News() <-chan struct{}
	// Lineage is what goes out with a message to the peer.
	Lineage() *a2a.Lineage
}

// With is what Save commits along with the row.
type With struct {
	Jobs []store.Job // of this task; Task is filled in
	// Item is put into the inbox. What is empty of it, and who asks, is filled in.
	Item *store.InboxItem
}

type ledgerKey struct{}

// LedgerOf returns the ledger of the turn whose context ctx is or comes from. Only
// turns of agents with a Peer have one.
func LedgerOf(ctx context.Context) (Ledger, bool) {
	l, ok := ctx.Value(ledgerKey{}).(*ledger)
	return l, ok
}

// ledger is the Ledger of a run.
type ledger struct{ run *run }

func (l *ledger) Delegation(ctx context.Context) (*store.Delegation, error) {
	if err := l.run.visible(ctx); err != nil {
		return nil, err
	}
	var d *store.Delegation
	err := l.run.e.endure(ctx, func() (err error) {
		d, err = l.run.e.store.Delegation(ctx, nodeScope, l.run.id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read delegation: %w", err)
	}
	return d, nil
}

func (l *ledger) Save(ctx context.Context, d *store.Delegation, with With) error {
	r := l.run
	if err := r.visible(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	row := r.row
	r.mu.Unlock()
	c := &store.Change{
		Task:       row.Key,
		Guard:      store.Guard{States: store.Live, Lease: &row.Lease, Turn: row.Turn, Attempt: row.Attempt},
		Delegation: d, Jobs: with.Jobs,
	}
	for i := range c.Jobs {
		c.Jobs[i].Task = r.id
	}
	if with.Item != nil {
		item := *with.Item
		item.Agent, item.Peer, item.Ref = r.spec.Peer, true, r.meta.Lineage.Ref
		r.e.putItem(c, &row, &item)
	}
	if err := r.store.Commit(ctx, c); err != nil {
		return fmt.Errorf("save delegation: %w", err)
	}
	r.e.jobsMade(c.Jobs)
	return nil
}

func (l *ledger) News() <-chan struct{} { return l.run.news }

func (l *ledger) Lineage() *a2a.Lineage { return l.run.e.lineageOut(l.run) }

// tell says that there is news for the turn.
func (r *run) tell() {
	if r.news == nil {
		return
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// wakeHint is the sequence number of a hint that says that somebody has called
// Wake. No event has it.
const wakeHint = 0

// Wake starts the next turn of a task that waits for a callback, or that is
// interrupted and whose agent has a Peer. The turn that runs is told by its
// Ledger, on whichever node. Tasks that wait for nothing of that kind, and those
// that do not exist, are left alone. A wake may get lost between a look and the
// end of a turn: whoever relies on it has to look now and then.
func (e *Engine) Wake(ctx context.Context, task string) error {
	for range 3 {
		row, err := e.store.Task(ctx, nodeScope, task)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return unavailable(err)
		}
		if row.State.Terminal() {
			return nil
		}
		if row.Lease != 0 {
			if r := e.run(task); r != nil {
				r.tell()
			} else if e.cfg.Bus != nil {
				e.cfg.Bus.Publish(bus.Hint{Task: task, Seq: wakeHint})
			}
			return nil
		}
		spec := e.cfg.Agents(row.Agent)
		interrupted := row.State.Interrupted() && row.Wait != store.WaitChild && spec != nil && spec.Peer != ""
		if row.Wait != store.WaitCallback && !interrupted {
			return nil
		}
		err = e.resumeParked(ctx, row, &store.Change{}, func(r *run) { r.cause = agent.CauseCallback })
		if !errors.Is(err, store.ErrConflict) {
			return unavailable(err)
		}
	}
	return nil // it changes all the time: somebody else is at it
}

// jobsMade wakes the runner for jobs that were committed.
func (e *Engine) jobsMade(jobs []store.Job) {
	for i := range jobs {
		e.cfg.JobsDue(jobs[i].Due)
	}
}

// soon is when a job is due that is to be done at once.
func soon() time.Time { return time.Now() }
