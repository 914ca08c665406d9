package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/span"
	"handoff.example/handoff/internal/store"
)

// Bounds of the steps that an agent may be ahead of their commit.
const (
	queueSteps = 512
	queueBytes = 8 << 20
)

// run is a task while this node works on it: one turn, and the ones that follow
// at once because messages are waiting. The agent emits into a queue; a single
// goroutine, loop, takes what has gathered, commits it, and publishes it.
type run struct {
	e       *Engine
	store   enduring
	spec    *Spec
	id      string
	meta    *meta
	row     store.Task // as last committed; Key is 0 while nothing is
	claim   *store.Claim
	cause   agent.Cause
	grant   *agent.Grant
	outcome *agent.Outcome
	input   []a2a.Message   // of this turn
	redo    map[string]bool // artifacts that a dead attempt of the turn may have begun
	links   []trace.Link    // of the span of the next turn

	handedOver bool // to another node, once the turn has returned

	message    a2a.Message       // that made the task, while it is new
	webhook    *store.Webhook    // that came with it
	delegation *store.Delegation // to be made with the task
	again      bool              // although another has its reference
	news       chan struct{}     // of a turn that may have to hear of messages; nil otherwise
	born       time.Time         // when the task was committed
	private    a2a.JSON          // state of the task

	// view is the task as of row, kept while it is small and all of its
	// history is known, so that an answer needs no read.
	viewMu   sync.Mutex
	view     *a2a.Task
	viewSeq  int64
	viewSize int

	// known is closed when it is known what the message came to: a visible
	// task, a reply, or an error.
	known    chan struct{}
	answered sync.Once // closes known
	patient  bool      // its commits wait for a store that is away
	reply    *a2a.Message
	err      error

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	change   *sync.Cond
	queue    []agent.Step
	bytes    int
	emitted  int // steps of this turn that were queued
	settled  int // of those, committed
	ended    bool
	dropped  bool // what is not settled never will be
	returned bool
	failure  error // that Run returned
	late     bool  // first_step_wait is over
	halted   error

	skipped       []agent.Step
	doneBefore    int
	artifactBytes int64
	clock         *time.Timer
	began         time.Time // the turn
	lastStep      time.Time

	builder builder
}

func (e *Engine) newRun(spec *Spec, row store.Task, m *meta) *run {
	r := &run{e: e, store: enduring{e}, spec: spec, id: row.ID, meta: m, row: row, known: make(chan struct{})}
	r.change = sync.NewCond(&r.mu)
	if spec.Peer != "" {
		r.news = make(chan struct{}, 1)
	}
	return r
}

// log returns a logger that names the task.
func (r *run) log() *slog.Logger {
	return r.e.log.With("task", r.id, "context", r.row.Context, "agent", r.row.Agent, "turn", r.row.Turn)
}

// start lets the run go in a goroutine of its own, with a ticket that it gives
// back.
func (r *run) start(t *ticket) {
	r.e.register(r)
	go func() {
		defer t.give()
		defer r.e.unregister(r)
		if !t.held && !r.enqueue(t) {
			return
		}
		for r.turn() {
		}
	}()
}

// resumable reports whether another node may run the turn, since nothing of it
// was done or since its agent does not mind.
func (r *run) resumable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spec.OnInterrupt == InterruptResume || r.row.Key != 0 && r.row.Attempt == 0
}

// release hands the task over to whichever node finds it. When the store fails,
// it is found when the lease of this node has ended.
func (r *run) release() {
	if r.row.Key == 0 {
		return
	}
	lease, released := r.row.Lease, store.Released
	err := r.e.store.Commit(context.Background(), &store.Change{
		Task:  r.row.Key,
		Guard: store.Guard{States: store.Live, Lease: &lease, Turn: r.row.Turn, Attempt: r.row.Attempt},
		Set:   store.Set{Lease: &released},
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		r.log().Warn("A turn could not be handed over; it goes on when this node has left", "error", err)
	}
}

// interrupted makes the task of a message that a dead node had begun to handle,
// for an agent that must not do anything twice. Nobody knows how far it got.
func (r *run) interrupted(t *ticket) {
	defer t.give()
	r.builder = builder{task: r.id, context: r.row.Context, turn: r.row.Turn, attempt: r.row.Attempt}
	text := "The message was interrupted before it had an outcome: its process ended, or could not reach the task store any more. This agent is not resumed."
	if err := r.commit(&store.Change{}, r.builder.build([]agent.Step{{Fail: agent.Say(text)}})); err != nil {
		r.err = unavailable(err)
		r.settle() // but not the claim
	}
}

// enqueue waits until the turn can run. A new task becomes visible meanwhile, as
// SUBMITTED.
func (r *run) enqueue(t *ticket) bool {
	if r.row.Key == 0 && (r.spec.Answers != AnswersMessage || r.delegation != nil) {
		r.row.State = a2a.StateSubmitted
		if err := r.commit(&store.Change{}, outcome{}); err != nil {
			r.refuse(refusedDelegation(err, r.delegation))
			return false
		}
	}
	halted := make(chan struct{})
	stop := r.onHalt(func() { close(halted) })
	defer stop()
	if !t.wait(halted) {
		r.refuse(errDraining)
		r.release()
		return false
	}
	return true
}

// onHalt calls f once when the run is halted while it has no turn.
func (r *run) onHalt(f func()) (stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r.mu.Lock()
	r.ctx, r.cancel = ctx, cancel
	if r.halted != nil {
		cancel(r.halted)
	}
	r.mu.Unlock()
	unhook := context.AfterFunc(ctx, f)
	return func() {
		unhook()
		cancel(nil)
	}
}

// halt ends the run from outside. The first reason counts.
func (r *run) halt(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halted == nil {
		r.halted = reason
	}
	if r.cancel != nil {
		r.cancel(reason)
	}
	r.change.Broadcast()
}

// turn runs one turn to its end and reports whether another follows at once.
func (r *run) turn() (again bool) {
	began := time.Now()
	ctx := r.e.traced(r)
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	r.ctx, r.cancel = ctx, cancel
	r.queue, r.bytes, r.emitted, r.settled = nil, 0, 0, 0
	r.ended, r.dropped, r.returned, r.failure, r.late = false, false, false, nil, false
	if r.halted != nil {
		cancel(r.halted)
	}
	r.builder = builder{task: r.id, context: r.row.Context, turn: r.row.Turn, attempt: r.row.Attempt, redo: r.redo}
	r.redo, r.doneBefore = nil, r.row.Done
	r.mu.Unlock()
	if r.delegation != nil && r.row.Key == 0 {
		// The row is there before anything is sent.
		if err := r.commit(&store.Change{}, outcome{}); err != nil {
			r.refuse(refusedDelegation(err, r.delegation))
			cancel(err)
			return false
		}
	}
	if r.row.State == a2a.StateSubmitted || r.row.Attempt == 0 {
		if err := r.working(); err != nil {
			r.giveUp(err)
			cancel(err)
			return false
		}
	}
	r.startTimers()
	r.e.cfg.Observer.TurnStarted(r.spec.ID, r.row.Attempt)

	finished := make(chan struct{})
	go r.execute(ctx, r.info(ctx), finished)
	again = r.loop()
	cancel(nil)
	r.stopTimers()
	<-finished // two turns of a task never run at once
	if r.handedOver {
		r.release()
	}
	r.endTurn(ctx)
	r.e.cfg.Observer.TurnEnded(r.spec.ID, time.Since(began))
	return again
}

// working says that a turn begins that has had to wait for it. Until then
// nothing of it can have been done, whatever becomes of this node.
func (r *run) working() error {
	first, working := 1, a2a.StateWorking
	c, o := &store.Change{Set: store.Set{Attempt: &first}}, outcome{}
	if r.row.State == a2a.StateSubmitted {
		c.Set.State = &working
		o.events = []store.Event{statusEvent(r.id, r.row.Context, working, nil, nil)}
		o.updates = []a2a.StreamResponse{{StatusUpdate: &a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{State: working}}}}
	}
	err := r.write(c, o)
	r.builder.attempt = r.row.Attempt
	return err
}

// execute calls the agent.
func (r *run) execute(ctx context.Context, info agent.Info, finished chan<- struct{}) {
	if r.spec.Peer != "" {
		ctx = context.WithValue(ctx, ledgerKey{}, &ledger{r})
	}
	err := errors.New("the agent ended its goroutine")
	defer func() { // of runtime.Goexit too
		r.mu.Lock()
		defer r.mu.Unlock()
		r.returned, r.failure = true, err
		r.change.Broadcast()
		close(finished)
	}()
	err = r.call(ctx, info)
}

func (r *run) call(ctx context.Context, info agent.Info) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("agent panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return r.spec.Run.Run(ctx, agent.NewTurn(ctx, info, r))
}

func (r *run) info(ctx context.Context) agent.Info {
	info := agent.Info{
		Agent: r.spec.ID, TaskID: r.id, ContextID: r.row.Context,
		Number: r.row.Turn, Attempt: r.row.Attempt, Done: r.row.Done,
		Cause: r.cause, Messages: r.input, Grant: r.grant, Outcome: r.outcome, State: r.private,
		Caller: r.meta.Caller, Accept: r.meta.Accept, Metadata: r.meta.Metadata, Extensions: r.meta.Extensions,
		Skills: r.spec.skillsOf(&r.meta.Caller), Traceparent: span.Traceparent(ctx),
	}
	if len(r.input) > 0 {
		newest := &r.input[len(r.input)-1]
		info.Skill = skillOf(newest)
		info.References = newest.ReferenceTaskIDs
	}
	if total := r.spec.Limits.Total; total > 0 {
		info.Deadline = time.Now().Add(total)
	}
	return info
}

// loop commits what the agent emits until the turn is over, and reports whether
// another turn follows at once.
func (r *run) loop() (again bool) {
	defer r.drop()
	for {
		batch := r.next()
		switch {
		case batch.halted != nil:
			r.finishHalted(batch.steps, batch.halted)
			return false
		case batch.message != nil:
			r.answer(batch.message)
			return false
		case batch.returned && !batch.ended && r.refusal(batch) != nil:
			r.refuse(r.refusal(batch))
			return false
		case batch.returned || batch.terminal:
			return r.finish(batch)
		default:
			if err := r.commit(&store.Change{}, r.builder.build(batch.steps)); err != nil {
				r.giveUp(err)
				return false
			}
		}
	}
}

// batch is what is to be committed next.
type batch struct {
	steps    []agent.Step
	message  *agent.Content // the reply, when there is to be no task
	ended    bool           // the last of the steps ends the turn
	terminal bool           // and the task
	returned bool           // Run has returned
	failure  error          // with this
	halted   error
}

// next waits for something to commit. A step that ends the turn without ending
// the task is held back until Run has returned, since with its commit the next
// turn may begin anywhere.
func (r *run) next() batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		visible := r.row.Key != 0
		if n := len(r.queue); n > 0 && (visible || n > 1) && r.queue[n-1].Message != nil {
			r.queue[n-1] = r.lateMessage(r.queue[n-1].Message)
		}
		parks := r.parks()
		ready := len(r.queue)
		if parks && !r.returned {
			ready--
		}
		reply := len(r.queue) > 0 && r.queue[0].Message != nil && !visible
		early := !visible && r.spec.Answers == AnswersMessage
		switch {
		case r.halted != nil, r.returned, reply:
		case ready > 0 && !early:
		case r.late && !visible && !early:
		default:
			r.change.Wait()
			continue
		}
		if r.halted != nil && parks {
			ready = len(r.queue) - 1
		}
		for i := range r.skipped {
			r.builder.skip(&r.skipped[i])
		}
		r.skipped = nil
		b := batch{
			steps: r.queue[:ready:ready], returned: r.returned, failure: r.failure, halted: r.halted,
		}
		if reply && r.halted == nil {
			b.message = r.queue[0].Message
		}
		if ready > 0 {
			last := b.steps[ready-1]
			b.ended, b.terminal = last.Ends(), last.Terminal()
		}
		r.queue = r.queue[ready:]
		if len(r.queue) == 0 {
			r.queue = nil
		}
		r.bytes = 0
		r.change.Broadcast()
		return b
	}
}

// lateMessage is what a message step is that comes after others. A delegated task
// exists before its agent runs; there, a message is its whole answer.
func (r *run) lateMessage(c *agent.Content) agent.Step {
	if r.emitted == 1 && r.row.Turn == 1 && r.meta.Lineage.delegated() {
		return agent.Step{Complete: c}
	}
	return agent.Step{Fail: agent.Say("Invalid agent response: it answered with a message after it had begun a task.")}
}

// parks reports whether the queue ends with a step that parks the task.
func (r *run) parks() bool {
	return r.ended && len(r.queue) > 0 && !r.queue[len(r.queue)-1].Terminal()
}

// refusal is the protocol error with which the agent refused a new task, before
// any step of it.
func (r *run) refusal(b batch) error {
	if r.row.Key != 0 || len(b.steps) > 0 {
		return nil
	}
	if e, ok := errors.AsType[*a2a.Error](b.failure); ok {
		return e
	}
	if b.failure == nil && r.spec.Answers == AnswersMessage {
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "The agent ended without the message that it has to answer with")
	}
	return nil
}

// answer replies with a message; no task has ever existed.
func (r *run) answer(c *agent.Content) {
	if r.spec.Answers == AnswersTask {
		r.finish(batch{steps: []agent.Step{{Fail: agent.Say("The agent answered with a message where it has to answer with a task.")}}, ended: true, terminal: true})
		return
	}
	reply := agentMessage("", r.row.Context, r.id, c)
	if reply == nil {
		r.refuse(a2a.Errorf(a2a.CodeInvalidAgentResponse, "The agent answered with an empty message"))
		return
	}
	if r.claim != nil {
		settled := *r.claim
		settled.Reply = reply.AppendJSON(nil)
		if err := r.store.Commit(context.Background(), &store.Change{Settle: &settled}); err != nil {
			r.err = unavailable(err)
			r.settle() // but not the claim: the agent has answered
			return
		}
	}
	r.reply = reply
	r.settle()
}

// refuse ends a run that never became visible with an error.
func (r *run) refuse(err error) {
	if r.row.Key != 0 {
		return
	}
	// A change that may have been made has settled the claim then.
	if r.claim != nil && !errors.Is(err, store.ErrUnknown) {
		if cerr := r.e.store.Commit(context.Background(), &store.Change{Settle: r.claim}); cerr != nil {
			r.log().Warn("A claim could not be given up", "error", cerr)
		}
	}
	r.err = err
	r.settle()
}

// settle says that it is known what the message came to.
func (r *run) settle() {
	if r.claim != nil {
		r.e.releaseClaim(r)
	}
	r.answered.Do(func() { close(r.known) })
}

// confess makes a FAILED task of a message whose agent had begun when the store
// went away, and must not do anything twice. Its sender is told to try again, and
// gets that task when it does.
func (r *run) confess(err error) {
	r.err = unavailable(err)
	r.answered.Do(func() { close(r.known) })
	text := "The message was interrupted by an outage of the task store before it had an outcome, and this agent is not resumed."
	r.builder = builder{task: r.id, context: r.row.Context, turn: r.row.Turn, attempt: r.row.Attempt}
	r.patient = true
	if err := r.commit(&store.Change{}, r.builder.build([]agent.Step{{Fail: agent.Say(text)}})); err != nil {
		r.log().Error("A message has no outcome; it gets one when it comes again", "error", err)
		r.e.releaseClaim(r)
	}
}

// finish commits the end of a turn and reports whether another follows at once.
func (r *run) finish(b batch) (again bool) {
	implicit := !b.ended
	var end agent.Step
	if implicit {
		end = r.ending(b.failure)
	} else {
		end, b.steps = b.steps[len(b.steps)-1], b.steps[:len(b.steps)-1]
	}
	steps, last := r.builder.build(b.steps), r.builder.build([]agent.Step{end})
	if implicit {
		last.steps = 0
	}
	// Messages may have come in that the agent has not seen. A terminal step of
	// its own wins over them; a task that waits, or that ends because Run
	// returned, goes on with them.
	c := &store.Change{}
	// A task that waits for another one goes on with them when that is over.
	c.Guard.AllRead = !end.Terminal() && end.Delegate == nil || (implicit && b.failure == nil)
	err := r.commit(c, steps.then(last))
	if !c.Guard.AllRead || !errors.Is(err, store.ErrConflict) {
		if err != nil {
			r.giveUp(err)
		}
		return false
	}
	if !implicit {
		// The question or the wait is part of the story, even though its answer
		// is there already.
		steps = steps.then(last)
		steps.parked = false
	}
	if err = r.commit(&store.Change{}, steps); err == nil {
		err = r.begin()
	}
	if err != nil {
		r.giveUp(err)
	}
	return err == nil
}

// ending is the step of a turn that ended without one.
func (r *run) ending(failure error) agent.Step {
	if failure == nil {
		return agent.Step{Complete: &agent.Content{}}
	}
	r.log().Error("The agent failed", "error", failure)
	if text, ok := agent.Public(failure); ok {
		return agent.Step{Fail: agent.Say(text)}
	}
	if e, ok := errors.AsType[*a2a.Error](failure); ok {
		return agent.Step{Fail: agent.Say(e.Message)}
	}
	return agent.Step{Fail: agent.Say("The agent failed. The reason is in the operator's log under this task.")}
}

// begin starts the next turn of the same run with the messages that wait.
func (r *run) begin() error {
	c, last := &store.Change{Set: r.e.nextTurn(r.row.Turn, true)}, before(r.meta, &r.row)
	if err := r.write(c, outcome{events: []store.Event{statusEvent(r.id, r.row.Context, a2a.StateWorking, nil, nil)}}); err != nil {
		return err
	}
	input, err := r.e.inputOf(&r.row)
	if err != nil {
		return err
	}
	r.cause, r.grant, r.outcome, r.input = agent.CauseMessage, nil, nil, input
	r.links = []trace.Link{last}
	return nil
}

// finishHalted ends a turn that was stopped from outside.
func (r *run) finishHalted(steps []agent.Step, reason error) {
	if errors.Is(reason, agent.ErrCanceled) || errors.Is(reason, agent.ErrTakenOver) {
		return // the task is somebody else's already
	}
	if errors.Is(reason, agent.ErrHandedOver) {
		if r.row.Key == 0 {
			r.refuse(errDraining)
			return
		}
		if len(steps) > 0 {
			if err := r.commit(&store.Change{}, r.builder.build(steps)); err != nil {
				r.giveUp(err)
			}
		}
		r.handedOver = true
		return
	}
	text := "The turn was interrupted: " + reason.Error() + "."
	if limit, ok := errors.AsType[*limitError](reason); ok {
		text = limit.Error()
		r.e.cfg.Observer.TurnLimited(r.spec.ID, limit.limit)
	}
	if n := len(steps); n > 0 && steps[n-1].Terminal() {
		steps = steps[:n-1]
	}
	steps = append(steps, agent.Step{Fail: agent.Say(text)})
	if err := r.commit(&store.Change{}, r.builder.build(steps)); err != nil {
		r.giveUp(err)
	}
}

// giveUp ends a run whose commit failed. A conflict means that the task was
// canceled or taken over. Otherwise the store is not writable: the run keeps
// nothing that could be lost, since nothing of it was visible, and the end of
// the lease brings the task back.
func (r *run) giveUp(err error) {
	if errors.Is(err, store.ErrConflict) {
		reason := agent.ErrTakenOver
		if row, rerr := r.e.store.Task(context.Background(), nodeScope, r.id); rerr == nil && row.State == a2a.StateCanceled {
			reason = agent.ErrCanceled
		}
		r.halt(reason)
		if r.row.Key == 0 { // the message is another node's now
			r.err = errRepeated
			r.settle()
		}
		return
	}
	r.log().Error("Steps could not be committed", "error", err)
	r.halt(err)
	if r.row.Key != 0 || errors.Is(err, store.ErrUnknown) {
		r.e.orphan(r.id)
	}
	if r.row.Key == 0 && r.claim != nil && r.spec.OnInterrupt == InterruptFail {
		r.confess(err)
		return
	}
	r.refuse(unavailable(err))
}

// drop ends the queue: what is in it will never be committed.
func (r *run) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.dropped = true, r.settled < r.emitted
	r.queue = nil
	r.change.Broadcast()
}
