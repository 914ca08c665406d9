// Package a2ago runs an agent that was written for the SDK a2a-go v2, an
// a2asrv.AgentExecutor, as an agent of a node, unchanged. The SDK's server, task
// store and queues are not used: tasks are the node's, and so survive a crash.
//
//	err := node.HandleAgent("quote", card, a2ago.New(executor))
//
// What the executor sees and what becomes of its events:
//
//   - Each turn is one call of Execute. Its Message is the turn's newest one.
//     From a task's second turn or attempt on, StoredTask has the artifacts and
//     the history, with every message that came.
//   - A *a2a.Message answers without a task when it is the first event of a new
//     one. Later it is an invalid agent response.
//   - Of a *a2a.Task, the artifacts and the status count. Its history and
//     metadata are the node's business.
//   - SUBMITTED is no step, since the node has written it. Execution ends with an
//     event that is terminal or INPUT_REQUIRED, as in the SDK, and here also with
//     AUTH_REQUIRED: waiting holds no goroutine. An approval starts a turn whose
//     Message is the newest of the user, with StoredTask in AUTH_REQUIRED and the
//     grant in TurnFrom(ctx); a denial fails the task without asking the executor.
//   - CANCELED from Execute is FAILED, because only a caller cancels.
//   - Cancel is called when a turn that runs is canceled; its events tell nothing
//     new and are dropped. A task that waits is canceled without it.
//   - An error before the first event of a new task refuses the message, with the
//     SDK's errors as those of the protocol; any other error fails the task.
//   - A Cleanup method is called after each turn.
//
// Data and metadata are Go values in the SDK, numbers float64: integers beyond
// 2^53 lose digits, and keys their order. Extensions of an artifact and the
// metadata of an artifact event have no place in a step and are dropped, as are
// the metadata of requests; ExecutorContext.RelatedTasks stays empty.
package a2ago

import (
	"context"
	"errors"
	"fmt"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// New returns an agent that runs an executor.
func New(executor a2asrv.AgentExecutor) agent.Agent { return &runner{executor: executor} }

type runner struct{ executor a2asrv.AgentExecutor }

type turnKey struct{}

// TurnFrom returns the turn that an executor runs in, for what the SDK has no
// word for: a grant, private state, agent.Once.
func TurnFrom(ctx context.Context) (*agent.Turn, bool) {
	t, ok := ctx.Value(turnKey{}).(*agent.Turn)
	return t, ok
}

// Run is one turn.
func (r *runner) Run(ctx context.Context, t *agent.Turn) error {
	if t.Grant != nil && !t.Grant.Approved {
		return t.Fail("The authorization was denied.")
	}
	exec, err := executorContext(t)
	if err != nil {
		return err
	}
	inner, call := a2asrv.NewCallContext(context.WithValue(ctx, turnKey{}, t), exec.ServiceParams)
	call.User = exec.User
	x := &execution{turn: t, task: taskOf(t, exec)}
	err = x.run(r.executor.Execute(inner, exec))
	if !x.ended && ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(err, agent.ErrCanceled) {
			err = errors.Join(err, r.cancel(inner, exec, x.task))
		}
	}
	if cleaner, ok := r.executor.(a2asrv.AgentExecutionCleaner); ok {
		cleaner.Cleanup(context.WithoutCancel(inner), exec, x.result(), err)
	}
	return err
}

// cancel tells the executor that its task was canceled.
func (r *runner) cancel(ctx context.Context, exec *a2asrv.ExecutorContext, task *sdk.Task) error {
	told := *exec
	told.Message, told.StoredTask = nil, task
	for _, err := range r.executor.Cancel(context.WithoutCancel(ctx), &told) {
		if err != nil {
			return fmt.Errorf("cancel executor: %w", err)
		}
	}
	return nil
}

// execution is a call of Execute on its way.
type execution struct {
	turn    *agent.Turn
	task    *sdk.Task    // as the executor has made it
	message *sdk.Message // the answer, when there is no task
	events  int
	ended   bool // a step has ended the turn
}

// run emits what the executor yields, until an event ends the turn.
func (x *execution) run(events iter.Seq2[sdk.Event, error]) error {
	for event, err := range events {
		if err != nil {
			return x.failure(err)
		}
		x.events++
		steps, err := x.steps(event)
		if err != nil {
			return fmt.Errorf("convert event %d of the executor: %w", x.events, err)
		}
		for _, s := range steps {
			if err := x.turn.Emit(s); err != nil {
				return err
			}
			if x.ended = s.Ends(); x.ended {
				return nil
			}
		}
	}
	return nil
}

// result is what the executor made, for its Cleanup.
func (x *execution) result() sdk.SendMessageResult {
	if x.message != nil {
		return x.message
	}
	return x.task
}

// protocolErrors are the SDK's errors that say something to a client.
var protocolErrors = []struct {
	sdk  error
	code a2a.Code
}{
	{sdk.ErrInvalidParams, a2a.CodeInvalidParams},
	{sdk.ErrInvalidRequest, a2a.CodeInvalidRequest},
	{sdk.ErrTaskNotFound, a2a.CodeTaskNotFound},
	{sdk.ErrUnsupportedOperation, a2a.CodeUnsupportedOperation},
	{sdk.ErrUnsupportedContentType, a2a.CodeContentTypeNotSupported},
	{sdk.ErrExtensionSupportRequired, a2a.CodeExtensionSupportRequired},
	{sdk.ErrUnauthenticated, a2a.CodeUnauthenticated},
	{sdk.ErrUnauthorized, a2a.CodePermissionDenied},
}

// failure is an error of Execute as the node takes it.
func (x *execution) failure(err error) error {
	for _, p := range protocolErrors {
		if !errors.Is(err, p.sdk) {
			continue
		}
		message := err.Error()
		if e, ok := errors.AsType[*sdk.Error](err); ok && e.Message != "" {
			message = e.Message
		}
		return a2a.Errorf(p.code, "%s", message)
	}
	return fmt.Errorf("execute: %w", err)
}
