package engine

import (
	"context"
	"errors"

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
	for ctx.Err() == nil && !e.Draining() && e.away.over(e.cfg.Lease) {
		rows, err := e.store.Orphans(ctx, batch)
		if err != nil {
			if ctx.Err() == nil {
				e.log.WarnContext(ctx, "Interrupted tasks could not be looked up", "error", err)
			}
			return
		}
		e.takeOverAll(ctx, rows)
		if len(rows) < batch {
			return
		}
	}
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
// transaction.
func (e *Engine) takeOverAll(ctx context.Context, rows []store.Task) {
	const side = 64
	work := make(chan *store.Task)
	done := make(chan struct{})
	for range side {
		go func() {
			for row := range work {
				if row.Lease == e.epoch {
					continue // ours; the renewal is late
				}
				if err := e.takeOver(ctx, row); err != nil && !errors.Is(err, store.ErrConflict) {
					e.log.WarnContext(ctx, "An interrupted task could not be taken over", "task", row.ID, "error", err)
				}
			}
			done <- struct{}{}
		}()
	}
	for i := range rows {
		work <- &rows[i]
	}
	close(work)
	for range side {
		<-done
	}
}

func (e *Engine) takeOver(ctx context.Context, row *store.Task) error {
	spec := e.cfg.Agents(row.Agent)
	begun := row.State != a2a.StateSubmitted && row.Attempt > 0
	switch {
	case spec == nil:
		return e.fail(ctx, row, "The agent of this task does not exist any more.", 0)
	case begun && spec.OnInterrupt == InterruptFail:
		return e.fail(ctx, row, "The turn was interrupted: its process ended, or could not reach the task store any more. This agent is not resumed.", 0)
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
	e.log.InfoContext(ctx, "An interrupted turn goes on", "task", row.ID, "agent", row.Agent, "turn", row.Turn, "attempt", attempt)
	e.goOn(ticket, c.After, spec, func(r *run) {
		r.redo = redo
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
