package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// keptPrefix begins the keys of what the engine keeps with a task among the
// results of its agent.
const keptPrefix = "handoff:"

// Keys of what is kept with a task that delegates, by its turn.
func delegateKey(turn int) string { return keptPrefix + "delegate:" + strconv.Itoa(turn) } // the step
func refusedKey(turn int) string  { return keptPrefix + "refused:" + strconv.Itoa(turn) }  // why nothing came of it
func heardKey(turn int) string    { return keptPrefix + "heard:" + strconv.Itoa(turn) }    // the last status of the child that was passed up

// forwardKey is the key of a message that goes down, which has a name of its own.
func forwardKey(name string) string { return keptPrefix + "forward:" + name }

// childID is the id of the task that a turn of a task makes. It follows from the
// two, so that there is one however often it is made.
func childID(parent string, turn int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "handoff child\x00%s\x00%d", parent, turn))
	id, err := uuid.FromBytes(sum[:16])
	if err != nil {
		panic(err) // of 16 bytes
	}
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8
	return id.String()
}

// delegate parks the task for a child that a job makes. The step is kept with the
// commit: it is all that the job needs.
func (b *builder) delegate(o *outcome, s *agent.Step) {
	o.parked, o.wait = true, store.WaitChild
	o.kept = &store.Result{Key: delegateKey(b.turn), Value: s.AppendJSON(nil)}
	o.job = &store.Job{Kind: JobDelegate, Task: b.task, Turn: b.turn, Key: strconv.Itoa(b.turn), Due: soon()}
}

// waits reports whether a task waits for the child of a turn.
func waits(row *store.Task, turn int) bool {
	return !row.State.Terminal() && row.Wait == store.WaitChild && row.Turn == turn && row.Lease == 0
}

// delegate makes the task below a task that waits for it. What cannot be made is
// an outcome too.
func (e *Engine) delegate(ctx context.Context, row *store.Task, job *store.Job) error {
	id := childID(row.ID, job.Turn)
	_, err := e.store.Task(ctx, nodeScope, id)
	switch {
	case errors.Is(err, store.ErrNotFound) && !waits(row, job.Turn):
		return e.finishJob(ctx, job)
	case errors.Is(err, store.ErrNotFound):
		if err := e.makeChild(ctx, row, id); err != nil {
			if text, final := refusalText(err); final {
				return e.refuseChild(ctx, row, job, text)
			}
			return err
		}
	case err != nil:
		return err
	}
	// The parent may have ended while its child was made, and have looked for it
	// in vain.
	switch row, err = e.store.Task(ctx, nodeScope, row.ID); {
	case errors.Is(err, store.ErrNotFound) || err == nil && row.State.Terminal():
		if err := e.cancelChild(ctx, id); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return e.finishJob(ctx, job)
}

// makeChild makes the task that a waiting task has delegated.
func (e *Engine) makeChild(ctx context.Context, row *store.Task, id string) error {
	d, err := e.delegated(ctx, row.Key, row.Turn)
	if err != nil {
		return err
	}
	if d == nil {
		return a2a.Errorf(a2a.CodeInternal, "What was delegated cannot be read any more")
	}
	spec := e.cfg.Agents(PeerPrefix + d.To)
	if spec == nil {
		spec = e.cfg.Agents(d.To)
	}
	if spec == nil {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "There is no peer and no agent %q", d.To)
	}
	m := decodeMeta(row.Meta)
	l := e.lineageBelow(row, m)
	if err := e.mayDelegate(l.Path, l.Depth, spec); err != nil {
		return err
	}
	if err := l.checkBudget(ctx, e, ownerScope(row)); err != nil {
		return err
	}
	if err := e.boundTree(ctx, l, d, spec); err != nil {
		return err
	}
	q := &Request{
		Spec: spec, Scope: ownerScope(row), Caller: m.Caller,
		Message: &a2a.Message{
			MessageID: id, ContextID: row.Context, Role: a2a.RoleUser,
			Parts: d.Parts, Metadata: d.Metadata,
		},
		Config:     a2a.SendMessageConfiguration{ReturnImmediately: true},
		Delegation: &Delegating{ID: id, Ref: d.Ref, Again: d.Again, Deadline: l.Deadline, Asked: "agent " + row.Agent, lineage: l},
	}
	if d.Skill != "" {
		q.Message.Metadata = a2a.WithMember(d.Metadata, "skillId", quote(nil, d.Skill))
	}
	a, err := e.create(e.below(ctx, m, row), q, nil, false)
	if err != nil {
		return err
	}
	a.close()
	return nil
}

// boundTree sets the deadline of a child: as the step or the peer has it, but
// within that of its parent and of the whole tree.
func (e *Engine) boundTree(ctx context.Context, l *lineage, d *agent.Delegate, spec *Spec) error {
	now := time.Now()
	switch {
	case d.Within > 0:
		l.Deadline = earlier(l.Deadline, now.Add(d.Within))
	case spec.Deadline > 0:
		l.Deadline = earlier(l.Deadline, now.Add(spec.Deadline))
	}
	if limit := e.cfg.Delegations().Time; limit > 0 {
		root, err := e.store.Task(ctx, nodeScope, l.Root)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			l.Deadline = earlier(l.Deadline, root.Created.Add(limit))
		}
	}
	if !l.Deadline.IsZero() && now.After(l.Deadline) {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The deadline of the delegation, %s, has passed already", l.Deadline.UTC().Format(time.RFC3339))
	}
	return nil
}

// delegated returns what a turn of a task has delegated; nil when it has not.
func (e *Engine) delegated(ctx context.Context, task int64, turn int) (*agent.Delegate, error) {
	kept, err := e.store.Result(ctx, task, delegateKey(turn))
	if kept == nil || err != nil {
		return nil, err
	}
	s, err := agent.ParseStep(kept)
	if err != nil {
		return nil, fmt.Errorf("read delegation of turn %d: %w", turn, err)
	}
	return s.Delegate, nil
}

// refusalText returns the text with which a delegation was refused for good; the
// others are tried again.
func refusalText(err error) (text string, final bool) {
	refused, ok := errors.AsType[*a2a.Error](err)
	if !ok || refused.Code == a2a.CodeUnavailable || refused.Metadata[a2a.MetadataLimit] == LimitQueue {
		return "", false
	}
	return refused.Message, true
}

// refuseChild starts the turn after a delegation of which nothing came.
func (e *Engine) refuseChild(ctx context.Context, row *store.Task, job *store.Job, text string) error {
	e.log.InfoContext(ctx, "A delegation was refused", "task", row.ID, "agent", row.Agent, "turn", row.Turn, "reason", text)
	d, err := e.delegated(ctx, row.Key, row.Turn)
	if err != nil {
		return err
	}
	value, _ := jsontext.AppendQuote(nil, text)
	outcome := refusedOutcome(row, job.Turn, d, text)
	c := &store.Change{Finish: job.ID, Result: &store.Result{Key: refusedKey(job.Turn), Value: value}}
	return e.resumeParked(ctx, row, c, func(r *run) { r.cause, r.outcome = agent.CauseOutcome, outcome })
}

func refusedOutcome(row *store.Task, turn int, d *agent.Delegate, text string) *agent.Outcome {
	id := childID(row.ID, turn)
	o := &agent.Outcome{State: a2a.StateFailed, Task: &a2a.Task{
		ID: id, ContextID: row.Context, Artifacts: []a2a.Artifact{},
		Status: a2a.TaskStatus{State: a2a.StateFailed, Message: agentMessage(id, row.Context, id+"-refused", agent.Say(text))},
	}}
	if d != nil {
		o.To = d.To
	}
	return o
}

// outcomeBytes is how much of the artifacts of a delegated task is given to the
// turn that it was made for.
const outcomeBytes = 4 << 20

// outcomeOf returns what came of the task that a turn has delegated; nil when the
// turn has not.
func (e *Engine) outcomeOf(ctx context.Context, row *store.Task, turn int) (*agent.Outcome, error) {
	d, err := e.delegated(ctx, row.Key, turn)
	if d == nil || err != nil {
		return nil, err
	}
	refused, err := e.store.Result(ctx, row.Key, refusedKey(turn))
	if err != nil {
		return nil, err
	}
	if refused != nil {
		var text string
		if err := json.Unmarshal(refused, &text); err != nil {
			return nil, fmt.Errorf("read refusal of turn %d: %w", turn, err)
		}
		return refusedOutcome(row, turn, d, text), nil
	}
	id := childID(row.ID, turn)
	item, err := e.store.Read(ctx, nodeScope, id, store.Want{Artifacts: true})
	if errors.Is(err, store.ErrNotFound) {
		return refusedOutcome(row, turn, d, "The task does not exist any more."), nil
	}
	if err != nil {
		return nil, err
	}
	t, err := taskOf(item)
	if err != nil {
		e.log.ErrorContext(ctx, "The outcome of a delegation cannot be read", "task", id, "error", err)
		return refusedOutcome(row, turn, d, "The task cannot be read any more."), nil
	}
	t.History = nil
	boundArtifacts(t)
	return &agent.Outcome{Delegation: id, To: d.To, State: t.Status.State, Task: t}, nil
}

// boundArtifacts leaves out the artifacts of a task that are too much for a turn,
// and says so in its metadata.
func boundArtifacts(t *a2a.Task) {
	kept, size := t.Artifacts[:0], 0
	left := 0
	for _, a := range t.Artifacts {
		if n := partsSize(a.Parts) + len(a.Metadata); size+n <= outcomeBytes {
			size += n
			kept = append(kept, a)
			continue
		}
		left++
	}
	t.Artifacts = kept
	if left > 0 {
		t.Metadata = a2a.WithMember(t.Metadata, "artifactsLeftOut", strconv.AppendInt(nil, int64(left), 10))
	}
}

// refusedDelegation turns an error of the first commit of a task into what its
// sender is told.
func refusedDelegation(err error, d *store.Delegation) error {
	taken, ok := errors.AsType[*store.RefTakenError](err)
	switch {
	case d != nil && ok:
		refused := refusal(ReasonRef, "The open delegation %s to %s has the reference %q already", taken.Task, d.Peer, taken.Ref)
		refused.Metadata["taskId"] = taken.Task
		return refused
	case d != nil && errors.Is(err, store.ErrConflict):
		return errTaskExists
	}
	return unavailable(err)
}

// errTaskExists says that a task that is to be made exists. Whoever makes it with
// an id that it chose looks for it then.
var errTaskExists = &a2a.Error{Code: a2a.CodeUnavailable, Message: "A task of this id exists already", RetryAfter: time.Second}
