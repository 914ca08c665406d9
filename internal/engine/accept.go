package engine

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// Request is a message that was received for an agent, checked as far as that
// is possible without the store.
type Request struct {
	Spec          *Spec
	Scope         store.Scope // of one caller
	Caller        agent.Caller
	Authenticated bool
	Message       *a2a.Message
	Config        a2a.SendMessageConfiguration
	Metadata      a2a.JSON // of the request
	Extensions    []string // that are active
	// ID is that of the task that the message makes, chosen by who keeps it; "": a
	// new one. It has to be unguessable.
	ID string
	// Webhook is hung on the task that the message makes or belongs to, which
	// may have MaxWebhooks; nil: none. One without an id gets that of its task.
	// When the answer is a message, there is no task and no event for it.
	Webhook     *store.Webhook
	MaxWebhooks int
	// Delegation is set when the message is to make a delegation, and says what is
	// known of it.
	Delegation *Delegating
	// Item is the id of the inbox item that the message answers, which has to be
	// open; "": any that the task has.
	Item string
	// By names who answers, for the record; "": the caller.
	By string

	finish int64 // a job that is done with the message
}

// meta is what the engine keeps with a task from its first message.
type meta struct {
	Caller      agent.Caller `json:"caller,omitzero"`
	Accept      []string     `json:"accept,omitempty"`
	Extensions  []string     `json:"extensions,omitempty"`
	Traceparent string       `json:"traceparent,omitempty"`
	Metadata    a2a.JSON     `json:"metadata,omitempty"` // of the request
	Lineage     *lineage     `json:"lineage,omitempty"`  // of a task below another one
}

// MetadataOf returns the metadata of the request that started a task, nil when it
// had none.
func MetadataOf(row *store.Task) a2a.JSON { return decodeMeta(row.Meta).Metadata }

// CallerOf returns who started a task.
func CallerOf(row *store.Task) agent.Caller { return decodeMeta(row.Meta).Caller }

func (m *meta) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // of strings and valid JSON only
	}
	return b
}

func decodeMeta(b []byte) *meta {
	m := &meta{}
	_ = json.Unmarshal(b, m) // it is our own; a task without it can still be run
	return m
}

// accepted is what became of a message.
type accepted struct {
	run     *run     // that handles a new task; nil otherwise
	watcher *watcher // of the task, from before the message was committed on
	id      string
	number  int64 // of the message within the task
	seq     int64 // of the event after which everything is news to the sender
	settled int64 // of the event with which the task settled; 0: not waited for
	reply   *a2a.Message
}

func (a *accepted) close() { a.watcher.close() }

// Send accepts a message and returns the task when it is terminal or
// interrupted, or at once where that was asked for; or the message that the
// agent answered (A2A §3.1.1). When ctx ends first, the task goes on.
func (e *Engine) Send(ctx context.Context, q *Request) (*a2a.SendMessageResponse, error) {
	if !q.Config.ReturnImmediately {
		if !e.enter() {
			return nil, errDraining
		}
		defer e.senders.Done()
	}
	a, err := e.accept(ctx, q, false)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if a.reply != nil {
		return &a2a.SendMessageResponse{Message: a.reply}, nil
	}
	if !q.Config.ReturnImmediately {
		if err := e.settled(ctx, a); err != nil {
			return nil, err
		}
	}
	t, err := e.answer(ctx, q, a)
	if err != nil {
		return nil, err
	}
	return &a2a.SendMessageResponse{Task: t}, nil
}

// enter counts a blocking call, unless the node is stopping.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return false
	}
	e.senders.Add(1)
	return true
}

// answer returns the task as a sender gets to see it: as it was when it settled,
// since other messages may have set it going again.
func (e *Engine) answer(ctx context.Context, q *Request, a *accepted) (*a2a.Task, error) {
	limit := historyLimit(q.Spec, q.Config.HistoryLength)
	if a.run != nil {
		if t := a.run.seen(a.settled); t != nil {
			t.History = newest(t.History, limit)
			return t, nil
		}
	}
	item, err := e.read(ctx, q.Scope, q.Spec, a.id, store.Want{Messages: limit, Artifacts: true, UpTo: a.settled})
	if err != nil {
		return nil, err
	}
	return taskOf(item)
}

// settled waits until the task is terminal or interrupted, and in the latter
// case until the message itself has been given to a turn.
func (e *Engine) settled(ctx context.Context, a *accepted) error {
	row, err := e.rowOf(ctx, a)
	if err != nil {
		return err
	}
	if a.settled = row.Seq; isSettled(row, a) {
		return nil
	}
	if a.watcher == nil {
		a.watcher = e.watch(a.id)
		// The store and not the run: somebody else may have ended the task.
		if row, err = e.store.Task(ctx, nodeScope, a.id); err != nil {
			return unavailable(err)
		}
		if a.settled = row.Seq; isSettled(row, a) {
			return nil
		}
		a.watcher.from(row, row.Seq)
	}
	a.watcher.cut = e.stopped
	for {
		event, err := a.watcher.next(ctx)
		if errors.Is(err, ErrDraining) {
			return errLeft(a.id)
		}
		if err != nil {
			return err
		}
		a.settled = event.Seq
		if event.Kind != store.KindStatus {
			continue
		}
		if end, err := e.ends(ctx, a, stateOf(event.Body)); err != nil || end {
			return err
		}
	}
}

func isSettled(row *store.Task, a *accepted) bool {
	return row.State.Terminal() || row.State.Interrupted() && row.Read >= a.number
}

// rowOf returns the row of an accepted task without a read where that can be.
func (e *Engine) rowOf(ctx context.Context, a *accepted) (*store.Task, error) {
	if a.run != nil {
		a.run.mu.Lock()
		row := a.run.row
		a.run.mu.Unlock()
		return &row, nil
	}
	row, err := e.store.Task(ctx, nodeScope, a.id)
	if err != nil {
		return nil, unavailable(err)
	}
	return row, nil
}

// ends says whether a sender is done with the task when it gets into a state.
func (e *Engine) ends(ctx context.Context, a *accepted, state a2a.TaskState) (bool, error) {
	if state.Terminal() {
		return true, nil
	}
	if !state.Interrupted() {
		return false, nil
	}
	if a.number <= 1 {
		return true, nil // the first message is read by the first turn
	}
	var row *store.Task
	err := e.patiently(ctx, e.stopped, func() (err error) {
		row, err = e.store.Task(ctx, nodeScope, a.id)
		return err
	})
	if err != nil {
		return false, unavailable(err)
	}
	return row.Read >= a.number, nil
}

// Stream accepts a message and returns the task and its events, or the message
// that the agent answered (A2A §3.1.2). The stream ends when the task is
// terminal or asks for input; it stays open when it asks for authorization,
// since a grant comes without a message (A2A §7.6.1).
func (e *Engine) Stream(ctx context.Context, q *Request) (*Stream, error) {
	a, err := e.accept(ctx, q, true)
	if err != nil {
		return nil, err
	}
	if a.reply != nil {
		a.close()
		response := a2a.StreamResponse{Message: a.reply}
		return &Stream{first: &Frame{Body: response.AppendJSON(nil)}, ended: true}, nil
	}
	s := &Stream{watcher: a.watcher}
	s.until = func(ctx context.Context, state a2a.TaskState) (bool, error) {
		if state == a2a.StateAuthRequired {
			return false, nil
		}
		return e.ends(ctx, a, state)
	}
	t, row, err := e.opening(ctx, q, a)
	if err != nil {
		a.close()
		return nil, err
	}
	s.ended = t.Status.State.Terminal() || t.Status.State == a2a.StateInputRequired && row.Read >= a.number
	response := a2a.StreamResponse{Task: t}
	s.first = &Frame{Seq: a.watcher.seq, Body: response.AppendJSON(nil)}
	return s, nil
}

// opening returns the task that a stream begins with, and sets the watcher to
// it. It is the task as the message left it, as submitted when it is new, so that
// every stream tells the whole story of what follows from its message.
func (e *Engine) opening(ctx context.Context, q *Request, a *accepted) (*a2a.Task, *store.Task, error) {
	limit := historyLimit(q.Spec, q.Config.HistoryLength)
	if a.run != nil {
		row, err := e.rowOf(ctx, a)
		return a.run.submitted(limit), row, err
	}
	item, err := e.store.Read(ctx, nodeScope, a.id, store.Want{Messages: limit, Artifacts: true, UpTo: a.seq})
	if err != nil {
		return nil, nil, unavailable(err)
	}
	t, err := taskOf(item)
	if err != nil {
		return nil, nil, err
	}
	a.watcher.from(&item.Task, a.seq)
	return t, &item.Task, nil
}

// submitted returns a new task as it was submitted.
func (r *run) submitted(history int) *a2a.Task {
	return &a2a.Task{
		ID: r.id, ContextID: r.message.ContextID, Artifacts: []a2a.Artifact{},
		Status:  a2a.TaskStatus{State: a2a.StateSubmitted, Timestamp: r.born},
		History: newest([]a2a.Message{r.message}, history),
	}
}

// accept finds what a message belongs to, and commits it there. With watched, a
// new task is followed from its first event on; otherwise it need not be.
func (e *Engine) accept(ctx context.Context, q *Request, watched bool) (*accepted, error) {
	if e.Draining() {
		return nil, errDraining
	}
	claim, err := e.claimFor(q)
	if err != nil {
		return nil, err
	}
	if claim != nil {
		if a, err := e.duplicate(ctx, q, claim); a != nil || err != nil {
			return a, err
		}
	}
	if err := e.checkReferences(ctx, q); err != nil {
		return nil, err
	}
	if q.Message.TaskID == "" {
		return e.create(ctx, q, claim, watched)
	}
	return e.follow(ctx, q, claim)
}

// checkReferences refuses references to tasks that are not the caller's, with
// the error for tasks that do not exist.
func (e *Engine) checkReferences(ctx context.Context, q *Request) error {
	for _, id := range q.Message.ReferenceTaskIDs {
		if _, err := e.store.Task(ctx, q.Scope, id); err != nil {
			if errors.Is(err, store.ErrNotFound) {
				return a2a.TaskNotFound(id)
			}
			return unavailable(err)
		}
	}
	return nil
}

// newTask returns the run of a new task, which is not committed yet.
func (e *Engine) newTask(ctx context.Context, q *Request, claim *store.Claim) (_ *run, err error) {
	tenant, owner, ok := q.Scope.Owner()
	if !ok {
		return nil, a2a.Errorf(a2a.CodeInternal, "a message needs the scope of one caller")
	}
	contextID := q.Message.ContextID
	if contextID == "" {
		contextID = newID()
	}
	m := &meta{Caller: q.Caller, Accept: q.Config.AcceptedOutputModes, Metadata: q.Metadata, Extensions: q.Extensions}
	message := *q.Message
	id := q.ID
	if id == "" {
		id = newID()
	}
	if q.Delegation != nil && q.Delegation.ID != "" {
		id = q.Delegation.ID
	}
	m.Traceparent = e.started(ctx, id, q.Spec.ID)
	if m.Lineage, err = e.lineageIn(q); err != nil {
		return nil, err
	}
	message.TaskID, message.ContextID = id, contextID
	row := store.Task{
		ID: id, Tenant: tenant, Owner: owner, Agent: q.Spec.ID, Context: contextID,
		State: a2a.StateWorking, Turn: 1, Attempt: 1, Messages: 1, Read: 1,
		Created: time.Now(),
	}
	delegation := e.delegationOf(q, &row, m)
	r := e.newRun(q.Spec, row, m)
	r.delegation, r.again = delegation, q.Delegation != nil && q.Delegation.Again
	r.cause, r.input, r.claim, r.message = agent.CauseMessage, []a2a.Message{message}, claim, message
	if q.Webhook != nil {
		hook := *q.Webhook
		if hook.ID == "" {
			hook.ID = id
		}
		r.webhook = &hook
	}
	return r, nil
}

// create starts a new task.
func (e *Engine) create(ctx context.Context, q *Request, claim *store.Claim, watched bool) (*accepted, error) {
	r, err := e.newTask(ctx, q, claim)
	if err != nil {
		return nil, err
	}
	if !r.meta.Lineage.child() { // what is below a task is bounded with it
		made, err := e.allow(ctx, q.Spec, r.row.Tenant, r.row.Owner)
		if err != nil {
			return nil, err
		}
		defer made()
	}
	ticket, err := e.admit(q.Spec, r.row.Tenant, r.row.Owner)
	if err != nil {
		return nil, err
	}
	abandoned := false
	if claim != nil {
		var a *accepted
		if a, abandoned, err = e.makeClaim(ctx, q, r, claim); a != nil || err != nil {
			ticket.give()
			return a, err
		}
	}
	var watcher *watcher
	if watched {
		watcher = e.watch(r.id)
	}
	if abandoned && q.Spec.OnInterrupt == InterruptFail {
		go r.interrupted(ticket)
	} else {
		r.start(ticket)
	}
	return e.await(ctx, r, watcher)
}

// newEvents is how many events a new task has before its turn begins: the
// message and SUBMITTED.
const newEvents = 2

// await waits until it is known what a new message came to.
func (e *Engine) await(ctx context.Context, r *run, watcher *watcher) (*accepted, error) {
	select {
	case <-r.known:
	case <-ctx.Done():
		watcher.close()
		return nil, ctx.Err()
	}
	switch {
	case r.err != nil:
		watcher.close()
		return nil, r.err
	case r.reply != nil:
		watcher.close()
		return &accepted{run: r, id: r.id, reply: r.reply}, nil
	}
	if watcher != nil {
		watcher.key, watcher.seq = r.key(), newEvents
	}
	return &accepted{run: r, watcher: watcher, id: r.id, number: 1, seq: newEvents}, nil
}

// follow gives a message to an existing task: to its next turn, which begins at
// once when none is running.
func (e *Engine) follow(ctx context.Context, q *Request, claim *store.Claim) (*accepted, error) {
	id := q.Message.TaskID
	watcher := e.watch(id)
	for {
		row, err := e.findTask(ctx, q.Scope, q.Spec, id)
		if err == nil {
			err = checkFollow(q, row)
		}
		if err == nil {
			err = e.checkAnswer(ctx, q, row)
		}
		if err != nil {
			watcher.close()
			return nil, err
		}
		watcher.key = row.Key
		a, err := e.append(ctx, q, row, claim)
		if errors.Is(err, store.ErrConflict) {
			continue // the task has changed since; look again
		}
		if duplicate, ok := errors.AsType[*store.DuplicateError](err); ok {
			watcher.close()
			return e.joinClaim(ctx, q, &duplicate.Claim, claim)
		}
		if errors.Is(err, store.ErrLimit) {
			err = errWebhooks(id)
		}
		if err != nil {
			watcher.close()
			return nil, unavailable(err)
		}
		watcher.seq = a.seq
		a.watcher = watcher
		return a, nil
	}
}

func checkFollow(q *Request, row *store.Task) error {
	switch {
	case q.Message.ContextID != "" && q.Message.ContextID != row.Context:
		return a2a.Invalid("message.contextId", "is not the context of task %s", row.ID)
	case row.State.Terminal():
		return &a2a.Error{
			Code:     a2a.CodeUnsupportedOperation,
			Message:  "The task is " + row.State.String() + " and takes no more messages; send a new one in its context, with the task in referenceTaskIds",
			Metadata: map[string]string{"taskId": row.ID},
		}
	case q.Spec.Limits.Unread > 0 && row.Unread() >= int64(q.Spec.Limits.Unread):
		return &a2a.Error{
			Code: a2a.CodeResourceExhausted, Message: "Too many messages of this task are waiting for the agent",
			RetryAfter: time.Second, Metadata: map[string]string{"taskId": row.ID, a2a.MetadataLimit: LimitUnread},
		}
	}
	return nil
}

// checkAnswer refuses an answer to an item of the inbox that is not open, and a
// decision that is not the caller's to make.
func (e *Engine) checkAnswer(ctx context.Context, q *Request, row *store.Task) error {
	if q.Item != "" {
		if err := e.checkItem(ctx, q.Scope, q.Item, row.ID); err != nil {
			return err
		}
	}
	if q.Message.Metadata == nil || row.State != a2a.StateAuthRequired {
		return nil
	}
	decision, err := a2a.GrantDecisionOf(q.Message.Metadata)
	if decision == nil || err != nil {
		return err
	}
	return e.mayDecide(ctx, q, row)
}

// append commits a message to a task as it was read.
func (e *Engine) append(ctx context.Context, q *Request, row *store.Task, claim *store.Claim) (*accepted, error) {
	message := *q.Message
	message.ContextID = row.Context
	c := &store.Change{
		Task:   row.Key,
		Guard:  store.Guard{States: store.Live, Lease: &row.Lease, Turn: row.Turn},
		Events: []store.Event{messageEvent(&message)},
		Claim:  claim, Webhook: q.Webhook, MaxWebhooks: q.MaxWebhooks, Finish: q.finish,
	}
	if row.State.Interrupted() {
		settles, err := settled(q, row)
		if err != nil {
			return nil, err
		}
		e.leave(c, row, settles)
	}
	if claim != nil {
		claim.Task = row.ID
	}
	var ticket *ticket
	var given *agent.Grant
	switch {
	case row.Wait == store.WaitChild:
		e.passOn(c, row, &message)
	case row.Lease == 0:
		var err error
		if given, err = e.decision(ctx, q, row, c); err != nil {
			return nil, err
		}
		if ticket, err = e.admit(q.Spec, row.Tenant, row.Owner); err != nil {
			return nil, err
		}
		c.Set = e.nextTurn(row.Turn, ticket.held)
		c.Events = append(c.Events, statusEvent(row.ID, row.Context, a2a.StateWorking, nil, nil))
	}
	r := e.run(row.ID)
	if r != nil {
		r.blur()
	}
	if err := e.store.Commit(ctx, c); err != nil {
		if ticket != nil {
			ticket.give()
		}
		return nil, err
	}
	e.published(row.ID, c.Events)
	e.jobsMade(c.Jobs)
	if r != nil {
		r.tell()
	}
	a := &accepted{id: row.ID, number: c.After.Messages, seq: c.Events[len(c.Events)-1].Seq}
	if ticket != nil {
		e.cfg.Observer.StateChanged(q.Spec.ID, a2a.StateWorking.String())
		links := e.waited(ctx, row)
		e.goOn(ticket, c.After, q.Spec, func(r *run) {
			r.links = links
			if r.cause = agent.CauseMessage; given != nil {
				r.cause, r.grant = agent.CauseGrant, given
			}
			if c.After.Read-c.After.Since == 1 {
				r.input = []a2a.Message{message}
			}
		})
	}
	return a, nil
}

// nextTurn are the values of a row whose next turn this node runs: at once, or
// when it gets to it, with no attempt made until then.
func (e *Engine) nextTurn(turn int, atOnce bool) store.Set {
	working, none, lease := a2a.StateWorking, store.WaitNone, e.epoch
	next, attempt, zero := turn+1, 0, 0
	if atOnce {
		attempt = 1
	}
	return store.Set{
		State: &working, Wait: &none, Lease: &lease,
		Turn: &next, Attempt: &attempt, Done: &zero, ReadAll: true,
	}
}

// goOn runs the turn of a task whose row says that this node does. When the
// store fails here, the turn begins later.
func (e *Engine) goOn(t *ticket, row store.Task, spec *Spec, prepare func(*run)) {
	r := e.newRun(spec, row, decodeMeta(row.Meta))
	close(r.known)
	prepare(r)
	err := e.load(r)
	if err != nil {
		e.log.Error("A turn could not begin; it is tried again", "task", row.ID, "agent", row.Agent, "error", err)
		t.give()
		e.orphan(row.ID)
		return
	}
	r.start(t)
}

// load reads what a run needs to know of its task.
func (e *Engine) load(r *run) (err error) {
	if r.private, err = e.store.Private(context.Background(), r.row.Key); err != nil {
		return err
	}
	if r.input == nil {
		r.input, err = e.inputOf(&r.row)
	}
	return err
}

// inputOf returns the messages that the current turn of a task was given, and
// not those that came after: they are the next turn's.
func (e *Engine) inputOf(row *store.Task) ([]a2a.Message, error) {
	given := int(row.Read - row.Since)
	if given == 0 {
		return nil, nil
	}
	messages, err := e.messages(context.Background(), row.Key, row.Since+1)
	if err != nil {
		return nil, err
	}
	return messages[:min(len(messages), given)], nil
}

// messages returns the user messages of a task from a number on.
func (e *Engine) messages(ctx context.Context, key, from int64) ([]a2a.Message, error) {
	events, err := enduring{e}.Messages(ctx, key, from)
	if err != nil {
		return nil, err
	}
	messages := make([]a2a.Message, len(events))
	for i := range events {
		if err := a2a.Unmarshal(events[i].Body, &messages[i]); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// skillOf returns the skill that a message names, or "".
func skillOf(m *a2a.Message) string {
	var named struct {
		SkillID string `json:"skillId"`
	}
	if m.Metadata == nil || json.Unmarshal(m.Metadata, &named) != nil {
		return ""
	}
	return named.SkillID
}

// SkillOf returns the id of the skill that a message names in its
// metadata.skillId, or "".
func SkillOf(m *a2a.Message) string { return skillOf(m) }

func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the operating system has no randomness
	}
	return id.String()
}

func (e *Engine) expiry(spec *Spec) time.Time { return time.Now().Add(spec.Retention) }
