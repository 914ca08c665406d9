package agent

import (
	"time"

	"handoff.example/handoff/a2a"
)

// Step is one thing that a turn does. Exactly one field is set.
type Step struct {
	Working   *Content   // status WORKING, with a message or without
	Artifact  *Artifact  // an artifact, or a chunk of one
	Ask       *Ask       // INPUT_REQUIRED; ends the turn
	Authorize *Authorize // AUTH_REQUIRED; ends the turn
	Delegate  *Delegate  // hand work to another agent and wait for it; ends the turn
	Wait      *Wait      // stay WORKING without running; ends the turn
	State     a2a.JSON   // replaces the task's private state; makes no event
	Message   *Content   // answers with a Message and makes no task; the first and only step
	Complete  *Content   // COMPLETED; ends the task
	Fail      *Content   // FAILED; ends the task
	Reject    *Content   // REJECTED; ends the task
}

// Content is what a step says. Without parts it says nothing, and the status
// has no message.
type Content struct {
	Parts    []a2a.Part
	Metadata a2a.JSON // an object, or nil
}

// Say returns content of those texts, one part each.
func Say(texts ...string) *Content {
	c := &Content{Parts: make([]a2a.Part, len(texts))}
	for i, text := range texts {
		c.Parts[i] = a2a.Text(text)
	}
	return c
}

// Artifact is an artifact, or a chunk of one (A2A §4.2.2).
type Artifact struct {
	// ID names the artifact within the task. Empty means a new one, or with
	// Append the one that the turn emitted last.
	ID          string
	Name        string
	Description string
	Parts       []a2a.Part
	Append      bool
	Last        bool     // no more chunks follow
	Metadata    a2a.JSON // an object, or nil
	Extensions  []string // URIs of extensions that contributed to it (A2A §4.6.2)
}

// Ask is a question to the client.
type Ask struct {
	Content
	// Schema describes the answer as JSON Schema, for forms. It travels as a
	// data part of media type SchemaMediaType after the other parts.
	Schema a2a.JSON
}

// SchemaMediaType marks the data part of a question that holds the JSON Schema
// of its answer.
const SchemaMediaType = "application/schema+json"

// Authorize asks for a grant (A2A §7.6). It is settled once, by a decision that
// comes out of band.
type Authorize struct {
	Content
	Operation string    // what would be authorized, such as post-invoice
	URL       string    // where a person goes to decide
	Expires   time.Time // when an undecided request counts as denied; zero: never
}

// Delegate hands a message to another agent, as a task of its own below this one.
// The task waits for it: its outcome, also that it was refused, starts the next
// turn. What it asks meanwhile is asked of the client of this task. Messages that
// come in are given to the next turn.
type Delegate struct {
	Content               // the message
	To      string        // name of a peer, or id of an agent of this node
	Ref     string        // a business key, such as an order number, to find it by
	Again   bool          // although one with the same Ref is open
	Within  time.Duration // until it has to be over; 0: as long as the peer, and this task, may take
	Skill   string        // that it is for; "": none is named
}

// Wait parks the task in WORKING. The next turn starts after For, or when a
// message comes.
type Wait struct {
	For time.Duration
	// Callback says that somebody outside may start the next turn earlier. For is
	// how long that is waited for at most, and 0 is without end.
	Callback bool
}

// Working says WORKING, with texts or without.
func (t *Turn) Working(texts ...string) error { return t.Emit(Step{Working: Say(texts...)}) }

// Artifact emits a complete artifact of those parts.
func (t *Turn) Artifact(parts ...a2a.Part) error {
	return t.Emit(Step{Artifact: &Artifact{Parts: parts, Last: true}})
}

// Ask asks the client and ends the turn. The schema of the answer may be nil.
func (t *Turn) Ask(question string, schema a2a.JSON) error {
	return t.Emit(Step{Ask: &Ask{Content: *Say(question), Schema: schema}})
}

// Authorize asks for a grant for an operation and ends the turn.
func (t *Turn) Authorize(explanation, operation string) error {
	return t.Emit(Step{Authorize: &Authorize{Content: *Say(explanation), Operation: operation}})
}

// Wait parks the task for that long and ends the turn.
func (t *Turn) Wait(d time.Duration) error { return t.Emit(Step{Wait: &Wait{For: d}}) }

// Delegate hands a message of those parts to another agent and ends the turn.
func (t *Turn) Delegate(to string, parts ...a2a.Part) error {
	return t.Emit(Step{Delegate: &Delegate{To: to, Content: Content{Parts: parts}}})
}

// SetState replaces the private state of the task.
func (t *Turn) SetState(state a2a.JSON) error { return t.Emit(Step{State: state}) }

// Message answers with a message instead of a task.
func (t *Turn) Message(parts ...a2a.Part) error {
	return t.Emit(Step{Message: &Content{Parts: parts}})
}

// Complete ends the task as COMPLETED, with texts or without.
func (t *Turn) Complete(texts ...string) error { return t.Emit(Step{Complete: Say(texts...)}) }

// Fail ends the task as FAILED and says why.
func (t *Turn) Fail(reason string) error { return t.Emit(Step{Fail: Say(reason)}) }

// Reject ends the task as REJECTED and says why.
func (t *Turn) Reject(reason string) error { return t.Emit(Step{Reject: Say(reason)}) }

// Ends reports whether no step can follow this one in its turn.
func (s Step) Ends() bool {
	return s.Ask != nil || s.Authorize != nil || s.Delegate != nil || s.Wait != nil || s.Message != nil || s.Terminal()
}

// Terminal reports whether the step ends its task.
func (s Step) Terminal() bool { return s.Complete != nil || s.Fail != nil || s.Reject != nil }
