// Package agent is what the author of an agent writes against: an Agent runs a
// Turn of a task and answers with Steps. The same vocabulary of steps serves Go
// functions, programs, webhooks and scripts.
package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// Agent does the work of a task, one turn at a time.
//
// Run emits steps on the turn and ends the turn by returning. A turn whose last
// step neither asked, waited nor was terminal completes its task when Run
// returns nil, unless more messages came in meanwhile: those start the next
// turn. An error fails the task; its text is shown to the client only when it
// comes from Errorf. An *a2a.Error returned before the first step of a new task
// refuses the message with that error.
//
// The context ends when the task is canceled, a limit is hit, or the node gives
// the turn up; context.Cause says which. Run has to return then.
type Agent interface {
	Run(ctx context.Context, t *Turn) error
}

// Func is a function that is an Agent.
type Func func(ctx context.Context, t *Turn) error

// Run calls f.
func (f Func) Run(ctx context.Context, t *Turn) error { return f(ctx, t) }

// Cause says what started a turn.
type Cause string

// The causes of a turn.
const (
	CauseMessage Cause = "message" // one or more messages of the client
	CauseGrant   Cause = "grant"   // a grant request was settled
	CauseTime    Cause = "time"    // a wait is over
	// CauseOutcome says that a task that the turn before has delegated is over.
	CauseOutcome Cause = "outcome"
	// CauseCallback says that the turn before waited for a callback, and that it
	// came.
	CauseCallback Cause = "callback"
)

// Info is what a turn is told.
type Info struct {
	Agent     string // id of the agent
	TaskID    string
	ContextID string
	Number    int // of the turn within its task, from 1
	Attempt   int // from 1; more when a crash interrupted earlier attempts
	Done      int // steps of this turn that earlier attempts have committed
	Cause     Cause
	Messages  []a2a.Message // new since the last turn, oldest first
	Grant     *Grant        // with CauseGrant
	Outcome   *Outcome      // with CauseOutcome
	State     a2a.JSON      // the task's private state, as the last State step left it
	Caller    Caller
	Accept    []string // media types that the client takes, in order; empty: any
	// Skill is the id of the skill that the message named in
	// metadata.skillId, or "".
	Skill string
	// Skills are those of the agent that the caller may use.
	Skills     []a2a.AgentSkill
	Extensions []string  // URIs that the client activated and the agent declares
	Metadata   a2a.JSON  // of the request that started the task (A2A §3.2.5); nil when there is none
	References []string  // ids of other tasks of the caller that the message refers to
	Deadline   time.Time // when the limit on the time of the turn hits; zero: none
	// Traceparent is the W3C trace context of the message that started the
	// task.
	Traceparent string
}

// Caller is who sent the message.
type Caller struct {
	Tenant  string
	Subject string // "" for an anonymous caller
	Issuer  string
	Scopes  []string
}

// Grant is a settled grant request (A2A §7.6). It authorizes its operation and
// nothing else.
type Grant struct {
	ID        string
	Operation string // as the Authorize step named it
	Approved  bool
	Note      string   // of whoever decided
	Data      a2a.JSON // such as a credential; nil when there is none
}

// Outcome is what became of a task that the turn before has delegated.
type Outcome struct {
	Delegation string // id of the task
	To         string // as the Delegate step named it
	State      a2a.TaskState
	// Task has the status and the artifacts, up to a bound of bytes, and no
	// history. Of a task that was refused and never made it has the status alone.
	Task *a2a.Task
}

// Completed reports whether the task was completed.
func (o *Outcome) Completed() bool { return o.State == a2a.StateCompleted }

// Text returns what the task says in text: the texts of its artifacts, and without
// any that of its status.
func (o *Outcome) Text() string {
	if o.Task == nil {
		return ""
	}
	var texts []string
	for _, p := range o.Parts() {
		if p.Kind == a2a.PartText {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == 0 && o.Task.Status.Message != nil {
		return o.Task.Status.Message.Text()
	}
	return strings.Join(texts, "\n")
}

// Parts returns the parts of all artifacts of the task.
func (o *Outcome) Parts() []a2a.Part {
	if o.Task == nil {
		return nil
	}
	var parts []a2a.Part
	for i := range o.Task.Artifacts {
		parts = append(parts, o.Task.Artifacts[i].Parts...)
	}
	return parts
}

// Runtime is what a turn needs of whoever runs it.
type Runtime interface {
	Emit(ctx context.Context, s Step) error
	Skip(s Step)
	Flush(ctx context.Context) error
	Pending(ctx context.Context) ([]a2a.Message, error)
	History(ctx context.Context) ([]a2a.Message, error)
	Artifacts(ctx context.Context) ([]a2a.Artifact, error)
	Result(ctx context.Context, key string) (a2a.JSON, error)
	SaveResult(ctx context.Context, key string, value a2a.JSON) error
}

// Turn is one run of an agent on a task. Its methods may be called from several
// goroutines of the agent.
type Turn struct {
	Info
	ctx context.Context
	rt  Runtime
}

// NewTurn returns a turn that runs on rt. Steps are emitted under ctx. Engines
// and tests of agents call it.
func NewTurn(ctx context.Context, info Info, rt Runtime) *Turn {
	return &Turn{Info: info, ctx: ctx, rt: rt}
}

// Errors of Emit.
var (
	// ErrEnded says that the turn has ended already: by a terminal step, by one
	// that waits, or because the task is no longer its own.
	ErrEnded = errors.New("the turn has ended")
	// ErrMessageFirst says that a message step came after other steps. The
	// task has failed with an invalid agent response.
	ErrMessageFirst = errors.New("a message step has to be the first and only one")
)

// Why the context of a turn ended, as context.Cause says it. A limit is another
// reason, whose text names it.
var (
	// ErrCanceled says that the task was canceled.
	ErrCanceled = errors.New("the task was canceled")
	// ErrTakenOver says that another node runs the task now.
	ErrTakenOver = errors.New("the task was taken over by another node")
	// ErrHandedOver says that the node is stopping, and that the turn goes on
	// as another attempt.
	ErrHandedOver = errors.New("the node is stopping and hands the turn over")
	// ErrStopping says that the node is stopping, and that the grace period of
	// a turn that cannot be handed over has passed.
	ErrStopping = errors.New("the node is stopping and its grace period is over")
)

// Text returns the text of the newest message, or "".
func (t *Turn) Text() string {
	if len(t.Messages) == 0 {
		return ""
	}
	return t.Messages[len(t.Messages)-1].Text()
}

// Emit queues a step. It returns when the step is in the queue, which is
// bounded, and not when it is committed: see Flush. An error means that the
// step will not happen and that the turn should end.
func (t *Turn) Emit(s Step) error { return t.rt.Emit(t.ctx, s) }

// Skip says that the agent passes over a step because Done says that it has
// happened already. An agent that resumes within its steps calls it for each,
// so that chunks of artifacts go on where they were; what an agent emits again
// without Skip replaces what the dead attempt had emitted.
func (t *Turn) Skip(s Step) { t.rt.Skip(s) }

// Flush returns when everything emitted so far is committed and so visible. Ask,
// Authorize and Wait are not waited for: they are committed when Run has
// returned.
func (t *Turn) Flush() error { return t.rt.Flush(t.ctx) }

// Pending returns the messages that came in since the turn began. They are
// handed to the next turn, unless a terminal step comes first.
func (t *Turn) Pending() ([]a2a.Message, error) { return t.rt.Pending(t.ctx) }

// History returns the committed history of the task, oldest first, at most the
// newest 1000 messages.
func (t *Turn) History() ([]a2a.Message, error) { return t.rt.History(t.ctx) }

// Artifacts returns the committed artifacts of the task.
func (t *Turn) Artifacts() ([]a2a.Artifact, error) { return t.rt.Artifacts(t.ctx) }

// failure is an error whose text is for the client.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Errorf returns an error whose text the client of the task may read, for Run
// to return. Other errors of Run are logged, and the client is told only that
// the agent failed.
func Errorf(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...)}
}

// Public returns the text that the client may read of an error of Run, and
// false when there is none.
func Public(err error) (string, bool) {
	if f, ok := errors.AsType[failure](err); ok {
		return f.Error(), true
	}
	return "", false
}
