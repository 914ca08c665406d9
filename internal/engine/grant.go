package engine

import (
	"context"
	"errors"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// Decision settles a grant request (A2A §7.6). It authorizes the operation of
// that request and nothing else.
type Decision struct {
	Grant    string // id of the request
	Approved bool
	Note     string   // for the agent and the record
	Data     a2a.JSON // such as a credential; kept sealed, never an event
	By       string   // who decides
	// Item is the inbox item that is settled with it, which has to be open; "": the
	// one that asks for it, if there is one.
	Item string
}

// Grants returns the requests that wait for a decision, oldest first.
func (e *Engine) Grants(ctx context.Context, scope store.Scope, limit int) ([]store.Grant, error) {
	grants, err := e.store.Grants(ctx, scope, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	return grants, nil
}

// maxDecideTries bounds how often a decision is tried whose task changes meanwhile.
const maxDecideTries = 5

// Decide settles a grant request, and so starts the next turn of its task. A
// request is settled once; later decisions are refused.
func (e *Engine) Decide(ctx context.Context, scope store.Scope, d *Decision) (*store.Task, error) {
	for range maxDecideTries {
		row, err := e.decide(ctx, scope, d)
		if !errors.Is(err, store.ErrConflict) {
			return row, err
		}
		// Somebody else has decided, which the next look tells, or the task has
		// changed in another way, such as by a message that waits in it.
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "The task changes all the time; try again")
}

// decide is Decide, once. A task that has changed meanwhile is store.ErrConflict.
func (e *Engine) decide(ctx context.Context, scope store.Scope, d *Decision) (*store.Task, error) {
	g, err := e.store.Grant(ctx, scope, d.Grant)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &a2a.Error{Code: a2a.CodeTaskNotFound, Message: "There is no such grant request", Metadata: map[string]string{"grantId": d.Grant}}
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if !g.Decided.IsZero() {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The request was settled already, by %s", g.By)
	}
	decided := *g
	decided.Approved, decided.Note, decided.By = d.Approved, d.Note, d.By
	if d.Data != nil {
		if e.cfg.Sealer == nil {
			return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "A grant with data needs the secret_key of the configuration")
		}
		if decided.Data, err = e.cfg.Sealer.Seal(d.Data); err != nil {
			return nil, err
		}
	}
	if d.Item != "" {
		if err := e.checkItem(ctx, scope, d.Item, ""); err != nil {
			return nil, err
		}
	}
	row, err := e.store.Task(ctx, scope, g.Task)
	if err != nil {
		return nil, unavailable(err)
	}
	if e.cfg.Agents(row.Agent) == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent %q of the task does not exist any more; cancel the task", row.Agent)
	}
	if row.State != a2a.StateAuthRequired || row.Turn != g.Turn {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The task has gone on without the grant")
	}
	given := &agent.Grant{ID: g.ID, Operation: g.Operation, Approved: d.Approved, Note: d.Note, Data: d.Data}
	settles, err := e.decided(ctx, row, d)
	if err != nil {
		return nil, unavailable(err)
	}
	err = e.resumeParked(ctx, row, &store.Change{Decide: &decided, Settles: settles}, func(r *run) {
		r.cause, r.grant = agent.CauseGrant, given
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, err
	}
	if err != nil {
		return nil, unavailable(err)
	}
	e.tellAbove(ctx, row)
	return row, nil
}

// decided says which item of the inbox a decision settles: it is that of the task
// at the root, to which the request went up.
func (e *Engine) decided(ctx context.Context, row *store.Task, d *Decision) (*store.InboxSettle, error) {
	s := &store.InboxSettle{ID: d.Item, By: d.By, Decision: itemDenied, Words: shortened(d.Note)}
	switch {
	case d.Approved:
		s.Decision = itemApproved
	case d.By == byExpiry:
		s.Decision = itemExpired
	}
	l := decodeMeta(row.Meta).Lineage
	if s.ID != "" || !l.child() {
		return s, nil
	}
	var err error
	if s.ID, err = e.itemOf(ctx, l.Root, d.Grant); err != nil {
		return nil, err
	}
	return s, nil
}

// byExpiry decides on requests whose time is over.
const byExpiry = "expiry"

// isRefusal reports whether an error of Decide is final.
func isRefusal(err error) bool {
	code := a2a.CodeOf(err)
	return code == a2a.CodeUnsupportedOperation || code == a2a.CodeTaskNotFound
}

// grantOf returns the decision on the request of a turn, nil when there is none.
func (e *Engine) grantOf(ctx context.Context, task string, turn int) (*agent.Grant, error) {
	g, err := e.store.Grant(ctx, nodeScope, grantID(task, turn))
	if errors.Is(err, store.ErrNotFound) || err == nil && g.Decided.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	given := &agent.Grant{ID: g.ID, Operation: g.Operation, Approved: g.Approved, Note: g.Note}
	if g.Data != nil {
		if e.cfg.Sealer == nil {
			return nil, store.ErrUnknownKey
		}
		if given.Data, err = e.cfg.Sealer.Open(g.Data); err != nil {
			return nil, err
		}
	}
	return given, nil
}

// Granted returns the decision on the request that a turn of a task has made, with its
// data; nil when there is none.
func (e *Engine) Granted(ctx context.Context, task string, turn int) (*agent.Grant, error) {
	return e.grantOf(ctx, task, turn)
}

// resumeParked starts the next turn of a task that nobody runs.
func (e *Engine) resumeParked(ctx context.Context, row *store.Task, c *store.Change, prepare func(*run)) error {
	spec := e.cfg.Agents(row.Agent)
	if spec == nil {
		return e.fail(ctx, row, "The agent of this task does not exist any more.", c.Finish)
	}
	ticket, err := e.admit(spec, row.Tenant, row.Owner)
	if err != nil {
		return err
	}
	c.Task = row.Key
	c.Guard = store.Guard{States: store.States(row.State), NoLease: true, Turn: row.Turn}
	c.Set = e.nextTurn(row.Turn, ticket.held)
	if row.State != a2a.StateWorking || row.Wait == store.WaitTime {
		c.Events = []store.Event{statusEvent(row.ID, row.Context, a2a.StateWorking, nil, nil)}
	}
	if settles := c.Settles; settles != nil {
		e.leave(c, row, *settles)
	} else {
		e.leave(c, row, store.InboxSettle{By: row.Agent, Decision: itemGoneOn})
	}
	if err := e.store.Commit(ctx, c); err != nil {
		ticket.give()
		return err
	}
	e.published(row.ID, c.Events)
	e.jobsMade(c.Jobs)
	e.cfg.Observer.StateChanged(row.Agent, a2a.StateWorking.String())
	links := e.waited(ctx, row)
	e.goOn(ticket, c.After, spec, func(r *run) {
		r.links = links
		prepare(r)
	})
	return nil
}
