package engine

import (
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// outcome is what steps make of a task.
type outcome struct {
	events  []store.Event
	updates []a2a.StreamResponse // the same, for the view
	state   a2a.TaskState        // unspecified: unchanged
	wait    store.Wait
	parked  bool // nobody runs the task any more
	private a2a.JSON
	grant   *store.Grant
	job     *store.Job
	kept    *store.Result
	steps   int
}

// then is what the steps of o and then those of next make of a task.
func (o outcome) then(next outcome) outcome {
	o.events = append(o.events, next.events...)
	o.updates = append(o.updates, next.updates...)
	if next.state != a2a.StateUnspecified {
		o.state = next.state
	}
	if next.private != nil {
		o.private = next.private
	}
	if next.grant != nil {
		o.grant = next.grant
	}
	if next.job != nil {
		o.job = next.job
	}
	if next.kept != nil {
		o.kept = next.kept
	}
	o.wait, o.parked = next.wait, next.parked
	o.steps += next.steps
	return o
}

// builder turns the steps of a turn into events. It makes ids that another
// attempt of the same turn makes again.
type builder struct {
	task, context string
	turn, attempt int
	messages      int             // agent messages so far
	artifacts     int             // new artifacts without an id of their own so far
	last          string          // id of the artifact that was emitted last
	seen          map[string]bool // artifacts that this attempt has emitted or skipped
	redo          map[string]bool // artifacts that a dead attempt of this turn may have begun
}

func (b *builder) build(steps []agent.Step) outcome {
	var o outcome
	for i := range steps {
		b.step(&o, &steps[i])
	}
	o.steps = len(steps)
	return o
}

func (b *builder) step(o *outcome, s *agent.Step) {
	switch {
	case s.Working != nil:
		b.status(o, a2a.StateWorking, s.Working)
	case s.Artifact != nil:
		b.artifact(o, s.Artifact)
	case s.Ask != nil:
		b.status(o, a2a.StateInputRequired, askContent(s.Ask))
		o.parked = true
	case s.Authorize != nil:
		b.authorize(o, s.Authorize)
	case s.Delegate != nil:
		b.delegate(o, s)
	case s.Wait != nil:
		o.parked, o.wait = true, store.WaitTime
		if s.Wait.Callback {
			o.wait = store.WaitCallback
		}
		if s.Wait.For > 0 {
			o.job = &store.Job{Kind: JobWake, Task: b.task, Turn: b.turn, Due: time.Now().Add(s.Wait.For)}
		}
	case s.State != nil:
		o.private = s.State
	case s.Complete != nil:
		b.status(o, a2a.StateCompleted, s.Complete)
		o.parked = true
	case s.Fail != nil:
		b.status(o, a2a.StateFailed, s.Fail)
		o.parked = true
	case s.Reject != nil:
		b.status(o, a2a.StateRejected, s.Reject)
		o.parked = true
	}
}

func (b *builder) status(o *outcome, state a2a.TaskState, c *agent.Content) {
	b.messages++
	id := fmt.Sprintf("%s-%d.%d.%d", b.task, b.turn, b.attempt, b.messages)
	message := agentMessage(b.task, b.context, id, c)
	o.state = state
	o.events = append(o.events, statusEvent(b.task, b.context, state, message, nil))
	o.updates = append(o.updates, a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{
		TaskID: b.task, ContextID: b.context, Status: a2a.TaskStatus{State: state, Message: message},
	}})
}

func (b *builder) authorize(o *outcome, a *agent.Authorize) {
	id := grantID(b.task, b.turn)
	c := authorizeContent(a, id)
	b.status(o, a2a.StateAuthRequired, c)
	o.parked = true
	text := ""
	if len(c.Parts) > 0 {
		text = c.Parts[0].Text
	}
	o.grant = &store.Grant{
		ID: id, Task: b.task, Turn: b.turn, Operation: a.Operation,
		Text: text, URL: a.URL, Created: time.Now(), Expires: a.Expires,
	}
	if !a.Expires.IsZero() {
		o.job = &store.Job{Kind: JobGrantExpiry, Task: b.task, Turn: b.turn, Due: a.Expires}
	}
}

func (b *builder) artifact(o *outcome, a *agent.Artifact) {
	id := b.artifactID(a)
	add := a.Append
	if b.redo[id] && !b.seen[id] {
		add = false // what the dead attempt had begun is replaced
	}
	if b.turn == 1 && !b.seen[id] {
		add = false // a chunk of an artifact that is not there begins it
	}
	b.see(id)
	update := &a2a.TaskArtifactUpdateEvent{
		TaskID: b.task, ContextID: b.context, Append: add, LastChunk: a.Last,
		Artifact: a2a.Artifact{
			ArtifactID: id, Name: a.Name, Description: a.Description, Parts: a.Parts, Metadata: a.Metadata, Extensions: a.Extensions,
		},
	}
	o.events = append(o.events, artifactEvent(update))
	o.updates = append(o.updates, a2a.StreamResponse{ArtifactUpdate: update})
}

func (b *builder) artifactID(a *agent.Artifact) string {
	switch {
	case a.ID != "":
		return a.ID
	case a.Append && b.last != "":
		return b.last
	}
	b.artifacts++
	return fmt.Sprintf("artifact-%d.%d", b.turn, b.artifacts)
}

func (b *builder) see(id string) {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[id] = true
	b.last = id
}

// skip passes over a step that another attempt has committed.
func (b *builder) skip(s *agent.Step) {
	if s.Artifact != nil {
		b.see(b.artifactID(s.Artifact))
	}
}
