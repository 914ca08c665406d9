package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// orphan remembers a task that this node has the lease of but does not run,
// because the store failed in between. The recovery takes it up.
func (e *Engine) orphan(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphans[id] = true
}

// recover takes over the tasks that dead nodes, or failed commits of this one,
// have left behind: each is resumed or failed, by the rule of its agent.
func (e *Engine) recover(ctx context.Context) {
	e.mu.Lock()
	own := e.orphans
	e.orphans = map[string]bool{}
	e.mu.Unlock()
	for id := range own {
		if err := e.recoverOwn(ctx, id); err != nil {
			e.orphan(id)
		}
	}
	const batch = 500
	left := e.locked(time.Now())
	for ctx.Err() == nil && !e.Draining() && e.away.over(e.cfg.Lease) {
		// What is left is among them again, and must not hide the others.
		limit := batch + len(left)
		rows, err := e.store.Orphans(ctx, limit)
		if err != nil {
			if ctx.Err() == nil {
				e.log.WarnContext(ctx, "Interrupted tasks could not be looked up", "error", err)
			}
			return
		}
		full := len(rows) == limit
		rows = slices.DeleteFunc(rows, func(row store.Task) bool { return left[row.ID] })
		for _, id := range e.takeOverAll(ctx, rows) {
			left[id] = true
		}
		if !full || len(rows) == 0 {
			return
		}
	}
}

// locked returns the tasks that wait for a key and are not to be tried again yet.
func (e *Engine) locked(now time.Time) map[string]bool {
	left := map[string]bool{}
	maps.DeleteFunc(e.sealed, func(_ string, again time.Time) bool { return !now.Before(again) })
	for id := range e.sealed {
		left[id] = true
	}
	return left
}

// errStillRunning says that the run of a task has not ended yet.
var errStillRunning = errors.New("the turn has not returned yet")

// recoverOwn takes up a task of this node's lease that it does not run.
func (e *Engine) recoverOwn(ctx context.Context, id string) error {
	row, err := e.store.Task(ctx, nodeScope, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case row.Lease != e.epoch:
		return nil
	case e.run(id) != nil:
		return errStillRunning
	}
	if err := e.takeOver(ctx, row); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// takeOverAll takes tasks over side by side, so that their commits share a
// transaction, and returns those that it could not take. The ones whose grant was
// sealed with a key that is missing are left alone for a while.
func (e *Engine) takeOverAll(ctx context.Context, rows []store.Task) (left []string) {
	const side = 64
	type outcome struct {
		row *store.Task
		err error
	}
	work, outcomes := make(chan *store.Task), make(chan outcome, len(rows))
	var workers sync.WaitGroup
	for range min(side, len(rows)) {
		workers.Go(func() {
			for row := range work {
				err := errStillRunning // ours; the renewal is late
				if row.Lease != e.epoch {
					err = e.takeOver(ctx, row)
				}
				outcomes <- outcome{row, err}
			}
		})
	}
	for i := range rows {
		work <- &rows[i]
	}
	close(work)
	workers.Wait()
	close(outcomes)
	sealed := 0
	for o := range outcomes {
		switch {
		case o.err == nil || errors.Is(o.err, store.ErrConflict):
			continue
		case errors.Is(o.err, store.ErrUnknownKey):
			e.sealed[o.row.ID] = time.Now().Add(e.cfg.Lease)
			sealed++
		case o.row.Lease != e.epoch:
			e.log.WarnContext(ctx, "An interrupted task could not be taken over", "task", o.row.ID, "error", o.err)
		}
		left = append(left, o.row.ID)
	}
	if sealed > 0 {
		e.log.WarnContext(ctx, "Interrupted tasks wait for a key that is not configured: put it into old_secret_keys and restart", "tasks", sealed)
	}
	return left
}

func (e *Engine) takeOver(ctx context.Context, row *store.Task) error {
	spec := e.cfg.Agents(row.Agent)
	begun := row.State != a2a.StateSubmitted && row.Attempt > 0
	switch {
	case spec == nil:
		return e.fail(ctx, row, "The agent of this task does not exist any more.", 0)
	case begun && spec.OnInterrupt == InterruptFail:
		err := e.fail(ctx, row, "The turn was interrupted: its process ended, or could not reach the task store any more. This agent is not resumed.", 0)
		if err == nil {
			e.cfg.Observer.TurnInterrupted(row.Agent, false)
		}
		return err
	}
	// Everything is read before the turn is taken: what cannot be read now and
	// never will be ends the task instead of being tried for ever.
	cause, err := e.causeOf(ctx, row, spec)
	if err == nil && begun {
		var redo map[string]bool
		if redo, err = e.begun(ctx, row); err == nil {
			return e.take(ctx, row, spec, cause, redo)
		}
	}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return err
	case errors.Is(err, store.ErrUnknownKey):
		return err // with the key, a later start goes on
	case err != nil:
		e.log.ErrorContext(ctx, "An interrupted task cannot be read", "task", row.ID, "agent", row.Agent, "error", err)
		return e.fail(ctx, row, "The turn was interrupted, and what it needs to go on cannot be read any more.", 0)
	}
	return e.take(ctx, row, spec, cause, nil)
}

// cause is what started a turn.
type cause struct {
	kind    agent.Cause
	grant   *agent.Grant
	outcome *agent.Outcome
}

// causeOf finds out what has started the current turn of a task. A turn that
// follows one that delegated, or whose grant request was decided, follows from
// just that.
func (e *Engine) causeOf(ctx context.Context, row *store.Task, spec *Spec) (cause, error) {
	if row.Turn > 1 {
		outcome, err := e.outcomeOf(ctx, row, row.Turn-1)
		if err != nil || outcome != nil {
			return cause{kind: agent.CauseOutcome, outcome: outcome}, err
		}
		grant, err := e.grantOf(ctx, row.ID, row.Turn-1)
		if err != nil || grant != nil {
			return cause{kind: agent.CauseGrant, grant: grant}, err
		}
	}
	switch {
	case row.Read > row.Since:
		return cause{kind: agent.CauseMessage}, nil
	case spec.Peer != "":
		return cause{kind: agent.CauseCallback}, nil
	}
	return cause{kind: agent.CauseTime}, nil
}

// take lets this node run an interrupted turn.
func (e *Engine) take(ctx context.Context, row *store.Task, spec *Spec, cause cause, redo map[string]bool) error {
	ticket, err := e.admit(spec, row.Tenant, row.Owner)
	if err != nil {
		return err // later, then
	}
	lease, attempt := e.epoch, row.Attempt
	switch {
	case row.State == a2a.StateSubmitted || attempt == 0:
		if attempt = 0; ticket.held {
			attempt = 1
		}
	default:
		attempt++
	}
	old := row.Lease
	c := &store.Change{
		Task:  row.Key,
		Guard: store.Guard{States: store.Live, Lease: &old, Turn: row.Turn, Attempt: row.Attempt},
		Set:   store.Set{Lease: &lease, Attempt: &attempt},
	}
	if err := e.store.Commit(ctx, c); err != nil {
		ticket.give()
		return err
	}
	if begun := row.State != a2a.StateSubmitted && row.Attempt > 0; begun {
		e.cfg.Observer.TurnInterrupted(row.Agent, true)
	}
	e.log.InfoContext(ctx, "An interrupted turn goes on", "task", row.ID, "agent", row.Agent, "turn", row.Turn, "attempt", attempt)
	e.goOn(ticket, c.After, spec, func(r *run) {
		r.redo, r.links = redo, resumed(row)
		r.cause, r.grant, r.outcome = cause.kind, cause.grant, cause.outcome
	})
	return nil
}

// begun returns the artifacts of a task that has been interrupted, any of which
// its turn may have begun.
func (e *Engine) begun(ctx context.Context, row *store.Task) (map[string]bool, error) {
	if row.Done == 0 {
		return nil, nil
	}
	item, err := e.store.Read(ctx, nodeScope, row.ID, store.Want{Artifacts: true})
	if err != nil {
		return nil, err
	}
	t, err := taskOf(item)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for i := range t.Artifacts {
		ids[t.Artifacts[i].ArtifactID] = true
	}
	return ids, nil
}

// fail ends a task as FAILED from outside of a turn.
func (e *Engine) fail(ctx context.Context, row *store.Task, text string, job int64) error {
	message := agentMessage(row.ID, row.Context, newID(), agent.Say(text))
	if err := e.end(ctx, row, a2a.StateFailed, ending{message: message, by: "node", decision: itemExpired, job: job}); err != nil {
		return err
	}
	e.log.WarnContext(ctx, "A task was failed", "task", row.ID, "agent", row.Agent, "reason", text)
	return nil
}
