package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// tellParent adds to a change of a task what the one that waits for it has to
// hear of it.
func (e *Engine) tellParent(c *store.Change, l *lineage) {
	if l.child() {
		c.Jobs = append(c.Jobs, store.Job{Kind: JobOutcome, Task: l.Parent, Turn: l.Turn, Key: strconv.Itoa(l.Turn), Due: soon()})
	}
}

// hearOfChild brings what a task is now to the one that waits for it. It looks
// again until nothing has changed since: whatever else looks at the same time,
// the last one has seen the last change.
func (e *Engine) hearOfChild(ctx context.Context, row *store.Task, job *store.Job) error {
	for {
		if !waits(row, job.Turn) {
			return e.finishJob(ctx, job)
		}
		child, err := e.store.Read(ctx, nodeScope, childID(row.ID, job.Turn), store.Want{})
		if errors.Is(err, store.ErrNotFound) {
			return e.finishJob(ctx, job)
		}
		if err != nil {
			return err
		}
		again := false
		if child.State.Terminal() {
			err = e.goOnAfter(ctx, row, job)
		} else {
			again, err = e.mirror(ctx, row, child)
		}
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return err
		case !again:
			return e.finishJob(ctx, job)
		}
		row, err = e.store.Task(ctx, nodeScope, job.Task)
		if errors.Is(err, store.ErrNotFound) {
			return e.finishJob(ctx, job)
		}
		if err != nil {
			return err
		}
	}
}

// goOnAfter starts the turn after the one that delegated.
func (e *Engine) goOnAfter(ctx context.Context, row *store.Task, job *store.Job) error {
	outcome, err := e.outcomeOf(ctx, row, job.Turn)
	if err != nil {
		return err
	}
	return e.resumeParked(ctx, row, &store.Change{Finish: job.ID}, func(r *run) {
		r.cause, r.outcome = agent.CauseOutcome, outcome
	})
}

// mirror lets a task that waits for another one ask what that one asks, and work
// when it works. It reports whether it has changed something.
func (e *Engine) mirror(ctx context.Context, row *store.Task, child *store.Item) (bool, error) {
	kept, err := e.store.Result(ctx, row.Key, heardKey(row.Turn))
	if err != nil {
		return false, err
	}
	heard, _ := strconv.ParseInt(string(kept), 10, 64)
	if child.Status.Seq <= heard || !child.State.Interrupted() && !row.State.Interrupted() {
		return false, nil
	}
	state := a2a.StateWorking
	var message *a2a.Message
	m := decodeMeta(row.Meta)
	c := &store.Change{
		Task:   row.Key,
		Guard:  store.Guard{States: store.States(row.State), NoLease: true, Turn: row.Turn},
		Result: &store.Result{Key: heardKey(row.Turn), Value: strconv.AppendInt(nil, child.Status.Seq, 10)},
	}
	if row.State.Interrupted() {
		c.Settles = &store.InboxSettle{By: row.Agent, Decision: itemGoneOn}
	}
	if child.State.Interrupted() {
		state = child.State
		if message, err = questionOf(row, child); err != nil {
			return false, err
		}
		if !m.Lineage.child() {
			q, err := e.questionBelow(ctx, &child.Task)
			if err != nil {
				return false, err
			}
			q.state, q.message = state, message
			e.putQuestion(c, row, q)
		}
	}
	c.Set.State = &state
	c.Events = []store.Event{statusEvent(row.ID, row.Context, state, message, nil)}
	e.tellParent(c, m.Lineage)
	if err := e.store.Commit(ctx, c); err != nil {
		return false, err
	}
	e.published(row.ID, c.Events)
	e.jobsMade(c.Jobs)
	e.cfg.Observer.StateChanged(row.Agent, state.String())
	return true, nil
}

// tellAbove lets those that wait for a task hear at once that it has gone on, up to
// the root, so that whoever has decided finds none of them asking still. The jobs
// that were committed do it too, whatever becomes of this.
func (e *Engine) tellAbove(ctx context.Context, row *store.Task) {
	for l := decodeMeta(row.Meta).Lineage; l.child(); l = decodeMeta(row.Meta).Lineage {
		child, err := e.store.Read(ctx, nodeScope, row.ID, store.Want{})
		if err != nil {
			return
		}
		if row, err = e.store.Task(ctx, nodeScope, l.Parent); err != nil || !waits(row, l.Turn) {
			return
		}
		if _, err = e.mirror(ctx, row, child); err != nil && !errors.Is(err, store.ErrConflict) {
			return
		}
	}
}

// metaDelegation is the key in the metadata of a question that says for which
// task it is asked.
const metaDelegation = "delegation"

// questionOf is the message with which a task asks what one that it waits for
// asks.
func questionOf(row *store.Task, child *store.Item) (*a2a.Message, error) {
	t, err := taskOf(child)
	if err != nil {
		return nil, err
	}
	asked := t.Status.Message
	if asked == nil {
		asked = &a2a.Message{Parts: []a2a.Part{a2a.Text("An answer is required to go on.")}}
	}
	return &a2a.Message{
		MessageID: fmt.Sprintf("%s-%d.c%d", row.ID, row.Turn, child.Status.Seq), TaskID: row.ID, ContextID: row.Context,
		Role: a2a.RoleAgent, Parts: asked.Parts, Metadata: a2a.WithMember(asked.Metadata, metaDelegation, quote(nil, child.ID)),
	}, nil
}

// leafOf follows a task down to the one that nothing below keeps waiting.
func (e *Engine) leafOf(ctx context.Context, row *store.Task) (*store.Task, error) {
	for row.Wait == store.WaitChild {
		below, err := e.store.Task(ctx, nodeScope, childID(row.ID, row.Turn))
		if err != nil {
			return nil, err
		}
		row = below
	}
	return row, nil
}

// questionBelow says who asks when a task that waits for others asks, and for which
// grant it stands still, if for any.
func (e *Engine) questionBelow(ctx context.Context, row *store.Task) (question, error) {
	leaf, err := e.leafOf(ctx, row)
	if errors.Is(err, store.ErrNotFound) {
		leaf, err = row, nil
	}
	if err != nil {
		return question{}, err
	}
	q := question{asker: leaf, spec: e.cfg.Agents(leaf.Agent), lineage: decodeMeta(leaf.Meta).Lineage}
	if leaf.State != a2a.StateAuthRequired {
		return q, nil
	}
	if q.grant, err = e.store.Grant(ctx, nodeScope, grantID(leaf.ID, leaf.Turn)); errors.Is(err, store.ErrNotFound) {
		return q, nil
	}
	return q, err
}

// passOn gives a message to a task that waits for another one. While that one asks
// something, the message is its answer and goes down; otherwise it waits for the
// next turn.
func (e *Engine) passOn(c *store.Change, row *store.Task, message *a2a.Message) {
	c.Guard.States = store.States(row.State)
	if !row.State.Interrupted() {
		return
	}
	working := a2a.StateWorking
	c.Set.State = &working
	if row.Unread() == 0 {
		// It has gone down, and no turn here need read it.
		c.Guard.AllRead, c.Set.ReadAll = true, true
	}
	key := rand.Text()
	c.Result = &store.Result{Key: forwardKey(key), Value: message.AppendJSON(nil)}
	c.Jobs = append(c.Jobs, store.Job{Kind: JobForward, Task: row.ID, Turn: row.Turn, Key: key, Due: soon()})
	c.Events = append(c.Events, statusEvent(row.ID, row.Context, working, nil, nil))
}

// forwarded is how long it is remembered that a message has gone down.
const forwarded = 30 * 24 * time.Hour

// forward sends a message down to the task that asked for it, once.
func (e *Engine) forward(ctx context.Context, row *store.Task, job *store.Job) error {
	kept, err := e.store.Result(ctx, row.Key, forwardKey(job.Key))
	if err != nil {
		return err
	}
	message := &a2a.Message{}
	if kept == nil || a2a.Unmarshal(kept, message) != nil {
		return e.finishJob(ctx, job)
	}
	m := decodeMeta(row.Meta)
	for {
		child, err := e.store.Task(ctx, nodeScope, childID(row.ID, job.Turn))
		if errors.Is(err, store.ErrNotFound) {
			return e.finishJob(ctx, job)
		}
		if err != nil {
			return err
		}
		spec := e.cfg.Agents(child.Agent)
		if child.State.Terminal() || spec == nil {
			return e.finishJob(ctx, job)
		}
		down := *message
		down.TaskID, down.ContextID, down.ReferenceTaskIDs = child.ID, child.Context, nil
		hash := hashOf(&down)
		q := &Request{
			Spec: spec, Scope: ownerScope(child), Caller: m.Caller, Message: &down,
			By: m.Caller.Subject, finish: job.ID,
		}
		_, err = e.append(ctx, q, child, &store.Claim{
			Tenant: child.Tenant, Owner: child.Owner, Agent: child.Agent, Key: "forward:" + job.Key,
			Hash: hash[:], Lease: e.epoch, Expires: time.Now().Add(forwarded),
		})
		if _, done := errors.AsType[*store.DuplicateError](err); done {
			return e.finishJob(ctx, job)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// mayDecide refuses the decision of a caller on a grant request, of the task or of
// one that it waits for, unless every agent of this node on the way down lets
// callers decide. A peer decides itself whether it takes it.
func (e *Engine) mayDecide(ctx context.Context, q *Request, row *store.Task) error {
	for spec := q.Spec; ; {
		if spec == nil || !spec.CallerGrants && !strings.HasPrefix(spec.ID, PeerPrefix) {
			return notByMessage(row)
		}
		if row.Wait != store.WaitChild {
			return e.mayDecideCall(ctx, spec, row)
		}
		below, err := e.store.Task(ctx, nodeScope, childID(row.ID, row.Turn))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return unavailable(err)
		}
		row, spec = below, e.cfg.Agents(below.Agent)
	}
}

// callPrefix begins the operation of a request that holds a call of a tool.
const callPrefix = "tools/call "

// CallOperation names the operation of a request that holds a call of a tool until a
// person has approved it. Whoever has the task done does not decide on it, also where
// the agent lets callers decide on what it asks for itself.
func CallOperation(server, tool string) string { return callPrefix + server + "." + tool }

func holdsCall(operation string) bool { return strings.HasPrefix(operation, callPrefix) }

// mayDecideCall refuses a decision by a message on a call of a tool.
func (e *Engine) mayDecideCall(ctx context.Context, spec *Spec, row *store.Task) error {
	if strings.HasPrefix(spec.ID, PeerPrefix) {
		return nil // the peer decides who may
	}
	g, err := e.store.Grant(ctx, nodeScope, grantID(row.ID, row.Turn))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return unavailable(err)
	case holdsCall(g.Operation):
		return notByMessage(row)
	}
	return nil
}

func notByMessage(row *store.Task) error {
	return &a2a.Error{
		Code:     a2a.CodePermissionDenied,
		Message:  "A message cannot authorize this: it is decided where the url of the request says, by an operator of this node",
		Metadata: map[string]string{"taskId": row.ID},
	}
}

// decision adds to a change the decision that a message carries on the grant
// request of its task, and returns it for the turn that it starts.
func (e *Engine) decision(ctx context.Context, q *Request, row *store.Task, c *store.Change) (*agent.Grant, error) {
	if row.State != a2a.StateAuthRequired || q.Message.Metadata == nil {
		return nil, nil
	}
	d, err := a2a.GrantDecisionOf(q.Message.Metadata)
	if d == nil || err != nil {
		return nil, err
	}
	g, err := e.store.Grant(ctx, nodeScope, grantID(row.ID, row.Turn))
	if errors.Is(err, store.ErrNotFound) || err == nil && !g.Decided.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	decided := *g
	decided.Approved, decided.Note, decided.By = d.Approved, d.Note, c.Settles.By
	c.Decide = &decided
	return &agent.Grant{ID: g.ID, Operation: g.Operation, Approved: d.Approved, Note: d.Note}, nil
}

// cancelChildren cancels what a task that is over has waited for.
func (e *Engine) cancelChildren(ctx context.Context, row *store.Task, job *store.Job) error {
	if !row.State.Terminal() {
		return e.finishJob(ctx, job)
	}
	ids, err := e.store.Children(ctx, row.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := e.cancelChild(ctx, id); err != nil {
			return err
		}
	}
	return e.finishJob(ctx, job)
}

func (e *Engine) cancelChild(ctx context.Context, id string) error {
	_, err := e.Cancel(ctx, nodeScope, nil, id, ByParent)
	switch a2a.CodeOf(err) {
	case a2a.CodeTaskNotFound, a2a.CodeTaskNotCancelable:
		return nil
	}
	return err
}

// known says what is known of the peer of a delegation that is over: "" when it is
// none to a peer.
func (e *Engine) known(ctx context.Context, task string) string {
	d, err := e.store.Delegation(ctx, nodeScope, task)
	if err != nil || d.Peer == "" {
		return ""
	}
	var text string
	switch {
	case d.RemoteTask != "" && !d.RemoteState.Terminal():
		text = " The peer " + d.Peer + " has the work and may still be at it; it is told to cancel."
	case d.Send == store.SendSending, d.Send == store.SendUnknown:
		text = " Whether the peer " + d.Peer + " has got the message is not known; it may be working on it."
	case d.Send == store.SendUnsent:
		text = " The message was not sent to the peer " + d.Peer + "."
	}
	if d.Error != "" {
		text += " What went wrong last: " + d.Error + "."
	}
	return text
}

// deadlinePassed ends a delegation whose time is over.
func (e *Engine) deadlinePassed(ctx context.Context, row *store.Task, job *store.Job) error {
	for !row.State.Terminal() {
		text := "The deadline of the task, " + job.Due.UTC().Format(time.RFC3339) + ", has passed."
		if l := decodeMeta(row.Meta).Lineage; l != nil && !l.Deadline.IsZero() {
			text = "The deadline of the task, " + l.Deadline.UTC().Format(time.RFC3339) + ", has passed."
		}
		err := e.fail(ctx, row, text+e.known(ctx, row.ID), job.ID)
		if err == nil {
			if r := e.run(row.ID); r != nil {
				r.halt(agent.ErrCanceled)
			}
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if row, err = e.store.Task(ctx, nodeScope, row.ID); err != nil {
			return err
		}
	}
	return e.finishJob(ctx, job)
}
