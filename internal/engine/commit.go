package engine

import (
	"context"
	"slices"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// viewBytes is how large a task may grow before its view is dropped.
const viewBytes = 256 << 10

// commit makes the outcome of steps durable and visible. The first commit of a
// new task makes the task.
func (r *run) commit(c *store.Change, o outcome) error {
	r.fill(c, o)
	if r.row.Key == 0 {
		return r.insert(c, o)
	}
	return r.write(c, o)
}

// fill puts what the outcome changes beside the events into the change.
func (r *run) fill(c *store.Change, o outcome) {
	c.State, c.Grant = o.private, o.grant
	if o.job != nil {
		c.Jobs = append(c.Jobs, *o.job)
	}
	if o.kept != nil {
		c.Result = o.kept
	}
	done := r.row.Done + o.steps
	c.Set.Done = &done
	if o.state != a2a.StateUnspecified {
		c.Set.State = &o.state
		if o.state.Terminal() && r.spec.Retention > 0 {
			c.Set.Expires = r.e.expiry(r.spec)
		}
		if o.state != a2a.StateWorking {
			r.tellOthers(c, o)
		}
	}
	if o.parked {
		none := int64(0)
		c.Set.Lease, c.Set.Wait = &none, &o.wait
	}
}

// insert makes the task: the message and SUBMITTED, WORKING when the turn has
// begun, and what the steps made.
func (r *run) insert(c *store.Change, o outcome) error {
	row := r.row
	row.Lease, row.Done, row.Meta = r.e.epoch, *c.Set.Done, r.meta.encode()
	events := make([]store.Event, 0, newEvents+1+len(o.events))
	events = append(events, messageEvent(&r.message), statusEvent(r.id, row.Context, a2a.StateSubmitted, nil, nil))
	r.openView()
	updates := o.updates
	if row.State == a2a.StateWorking {
		events = append(events, statusEvent(r.id, row.Context, a2a.StateWorking, nil, nil))
		updates = slices.Insert(updates, 0, a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{
			TaskID: r.id, ContextID: row.Context, Status: a2a.TaskStatus{State: a2a.StateWorking},
		}})
	}
	if o.state != a2a.StateUnspecified {
		row.State = o.state
	}
	if o.parked {
		row.Lease, row.Wait = 0, o.wait
	}
	row.Expires = c.Set.Expires
	c.Insert, c.Set = &row, store.Set{}
	c.Events = append(events, o.events...)
	if r.delegation != nil {
		c.Delegation, c.Again = r.delegation, r.again
	}
	if l := r.meta.Lineage; l != nil && !l.Deadline.IsZero() {
		c.Jobs = append(c.Jobs, store.Job{Kind: JobDeadline, Task: r.id, Due: l.Deadline})
	}
	if r.webhook != nil {
		hook := *r.webhook
		hook.Seq = newEvents // what is news to the sender
		c.Webhook = &hook
	}
	if r.claim != nil {
		settled := *r.claim
		settled.Task = r.id
		c.Settle = &settled
	}
	commit := r.e.store.Commit
	if r.patient {
		commit = r.store.Commit
	}
	if err := commit(context.Background(), c); err != nil {
		return err
	}
	r.born = c.At
	r.setRow(row)
	r.parked(c, o)
	r.show(c, updates)
	r.e.cfg.Observer.TaskCreated(r.spec.ID)
	r.settle()
	return nil
}

// openView begins the view of a new task.
func (r *run) openView() {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	r.view = &a2a.Task{
		ID: r.id, ContextID: r.row.Context, Status: a2a.TaskStatus{State: a2a.StateSubmitted},
		Artifacts: []a2a.Artifact{}, History: []a2a.Message{r.message},
	}
}

// write changes the committed task. It is fenced: only the run that holds the
// lease of this attempt of this turn gets through.
func (r *run) write(c *store.Change, o outcome) error {
	lease := r.row.Lease
	c.Task = r.row.Key
	c.Guard.States = store.Live
	c.Guard.Lease, c.Guard.Turn, c.Guard.Attempt = &lease, r.row.Turn, r.row.Attempt
	c.Events = o.events
	if err := r.store.Commit(context.Background(), c); err != nil {
		return err
	}
	if c.After.Seq != r.row.Seq+int64(len(c.Events)) {
		r.blur() // another node has written to the task in between
	}
	r.setRow(c.After)
	r.parked(c, o)
	r.show(c, o.updates)
	return nil
}

func (r *run) setRow(row store.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row = row
}

// show brings what was committed to the view, the watchers and the agent.
func (r *run) show(c *store.Change, updates []a2a.StreamResponse) {
	r.look(c, updates)
	r.e.published(r.id, c.Events)
	for i := range c.Jobs {
		r.e.cfg.JobsDue(c.Jobs[i].Due)
	}
	if c.Insert != nil || c.Set.State != nil {
		r.e.cfg.Observer.StateChanged(r.spec.ID, r.row.State.String())
		if r.row.State.Terminal() {
			r.e.cfg.Observer.TaskEnded(r.spec.ID, r.row.State.String(), time.Since(r.row.Created))
		}
	}
	r.mu.Lock()
	n := r.row.Done - r.doneBefore
	r.doneBefore = r.row.Done
	r.settled = r.emitted - len(r.queue)
	r.change.Broadcast()
	r.mu.Unlock()
	if n > 0 {
		r.e.cfg.Observer.Steps(r.spec.ID, n)
	}
}

// look keeps the view of the task up to date.
func (r *run) look(c *store.Change, updates []a2a.StreamResponse) {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	if r.view == nil || len(c.Events) == 0 {
		return
	}
	for i := range c.Events {
		r.viewSize += len(c.Events[i].Body)
	}
	if r.viewSize > viewBytes {
		r.view = nil
		return
	}
	r.view.Status.Timestamp = c.At
	for i := range updates {
		if s := updates[i].StatusUpdate; s != nil {
			s.Status.Timestamp = c.At
		}
		r.view.Apply(&updates[i])
	}
	r.viewSeq = c.Events[len(c.Events)-1].Seq
}

// seen returns a copy of the view of the task as of that event, or as it is with
// 0; nil when there is none.
func (r *run) seen(seq int64) *a2a.Task {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	if r.view == nil || seq != 0 && r.viewSeq != seq {
		return nil
	}
	t := *r.view
	t.History = slices.Clone(t.History)
	t.Artifacts = slices.Clone(t.Artifacts)
	return &t
}

// blur drops the view, when somebody else has written to the task.
func (r *run) blur() {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	r.view = nil
}
