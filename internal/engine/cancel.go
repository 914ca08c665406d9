package engine

import (
	"context"
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// By says who canceled a task. It is kept in the metadata of the event.
type By string

// Who can cancel a task.
const (
	ByCaller   By = "caller"
	ByOperator By = "operator"
	ByParent   By = "parent" // the task that has delegated it is over
)

// Cancel ends a task as CANCELED and stops its turn (A2A §3.1.5). Canceling a
// canceled task returns it. With a nil spec the task may be of any agent.
func (e *Engine) Cancel(ctx context.Context, scope store.Scope, spec *Spec, id string, by By) (*a2a.Task, error) {
	for {
		row, err := e.findTask(ctx, scope, spec, id)
		if err != nil {
			return nil, err
		}
		if row.State.Terminal() {
			if row.State == a2a.StateCanceled {
				break
			}
			return nil, &a2a.Error{
				Code:     a2a.CodeTaskNotCancelable,
				Message:  "The task is " + row.State.String() + " already",
				Metadata: map[string]string{"taskId": id},
			}
		}
		err = e.end(ctx, row, a2a.StateCanceled, ending{metadata: a2a.JSON(`{"canceledBy":"` + by + `"}`), by: by, decision: itemCanceled})
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, unavailable(err)
		}
	}
	if r := e.run(id); r != nil {
		r.halt(agent.ErrCanceled)
	}
	return e.Get(ctx, scope, spec, id, nil)
}

// end writes a terminal state from outside of a turn.
func (e *Engine) end(ctx context.Context, row *store.Task, state a2a.TaskState, end ending) error {
	none, wait := int64(0), store.WaitNone
	c := &store.Change{
		Task:   row.Key,
		Guard:  store.Guard{States: store.Live, Lease: &row.Lease, Turn: row.Turn, Attempt: row.Attempt},
		Set:    store.Set{State: &state, Lease: &none, Wait: &wait},
		Events: []store.Event{statusEvent(row.ID, row.Context, state, end.message, end.metadata)},
		Finish: end.job,
	}
	spec := e.cfg.Agents(row.Agent)
	if spec != nil && spec.Retention > 0 {
		c.Set.Expires = e.expiry(spec)
	}
	e.tellOfEnd(c, row, spec, end)
	if r := e.run(row.ID); r != nil {
		r.blur()
	}
	if err := e.store.Commit(ctx, c); err != nil {
		return err
	}
	e.published(row.ID, c.Events)
	e.jobsMade(c.Jobs)
	e.cfg.Observer.StateChanged(row.Agent, state.String())
	e.cfg.Observer.TaskEnded(row.Agent, state.String(), time.Since(row.Created))
	if row.Lease == 0 {
		e.waited(ctx, row)
	}
	return nil
}

// tellOfEnd adds to the end of a task from outside what others have to hear of
// it: the task that waits for it, those that it waits for, its peer, and people.
func (e *Engine) tellOfEnd(c *store.Change, row *store.Task, spec *Spec, end ending) {
	if end.by != ByParent {
		e.tellParent(c, decodeMeta(row.Meta).Lineage)
	}
	if row.Wait == store.WaitChild {
		c.Jobs = append(c.Jobs, store.Job{Kind: JobCancel, Task: row.ID, Turn: row.Turn, Due: soon()})
	}
	if row.State.Interrupted() {
		c.Settles = &store.InboxSettle{By: string(end.by), Decision: end.decision}
	}
	if spec != nil && spec.Peer != "" {
		e.recallPeer(c, row)
	}
	if spec != nil && spec.Recall != "" {
		c.Jobs = append(c.Jobs, store.Job{Kind: spec.Recall, Task: row.ID, Turn: row.Turn, Due: soon()})
	}
}

// ending says how a task is ended from outside.
type ending struct {
	message  *a2a.Message
	metadata a2a.JSON
	by       By
	decision string // with which its items in the inbox are settled
	job      int64  // that is done with it
}

// Delete removes a terminal task and everything that belongs to it.
func (e *Engine) Delete(ctx context.Context, scope store.Scope, id string) error {
	err := e.store.Delete(ctx, scope, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return a2a.TaskNotFound(id)
	case errors.Is(err, store.ErrConflict):
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is not terminal; cancel it first")
	}
	return unavailable(err)
}

// Retry sends the first message of a terminal task again, as a new task of the
// same owner in the same context that refers to the old one.
func (e *Engine) Retry(ctx context.Context, scope store.Scope, id string) (*a2a.Task, error) {
	row, err := e.findTask(ctx, scope, nil, id)
	if err != nil {
		return nil, err
	}
	if !row.State.Terminal() {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is %s; only a terminal task can be retried", row.State)
	}
	spec := e.cfg.Agents(row.Agent)
	if spec == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent %q of the task does not exist any more", row.Agent)
	}
	messages, err := e.messages(ctx, row.Key, 1)
	if err != nil {
		return nil, unavailable(err)
	}
	if len(messages) == 0 {
		return nil, a2a.Errorf(a2a.CodeInternal, "The task has no message")
	}
	message := messages[0]
	message.MessageID, message.TaskID = newID(), ""
	message.ContextID, message.ReferenceTaskIDs = row.Context, []string{row.ID}
	m := decodeMeta(row.Meta)
	response, err := e.Send(ctx, &Request{
		Spec: spec, Scope: store.ForOwner(row.Tenant, row.Owner), Caller: m.Caller, Authenticated: row.Owner != "",
		Message: &message, Extensions: m.Extensions,
		Config: a2a.SendMessageConfiguration{ReturnImmediately: true, AcceptedOutputModes: m.Accept},
	})
	if err != nil {
		return nil, err
	}
	if response.Task == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent answered with a message; there is no task")
	}
	return response.Task, nil
}
