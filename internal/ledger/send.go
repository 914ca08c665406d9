package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// How long a send that is under way when its turn ends is waited for, so that it
// is known what became of the message.
const (
	graceCanceled = 5 * time.Second
	graceStopping = time.Second
	saveTime      = 10 * time.Second // for what is written when the turn has ended
)

// deliver sends a message, once, and follows what comes of it; with another
// message to come after it, only to the peer's answer. It reports whether the
// turn goes on.
func (w *work) deliver(ctx context.Context, o *outgoing, last bool) (more bool, err error) {
	push, asked := w.inlinePush(ctx), saidPart(w.d.RemoteDigest)
	again, hints := w.uncertain() && w.d.Message == o.id, []string(nil)
	if again {
		hints = w.l.hints(ctx, w.d)
	}
	w.d.Message, w.d.Send = o.id, store.SendSending
	if o.number > 0 {
		w.d.Number = o.number
	}
	if err := w.save(ctx, nil); err != nil {
		return false, err
	}
	end := w.l.begin(w.d.Task)
	began := time.Now()
	f := newFeed(context.WithoutCancel(ctx), w.sender(o, push))
	defer f.close(nil)
	first, err := w.answer(ctx, f)
	if errors.Is(err, errAnswer) && !w.link.Deduplicates {
		var found bool
		if first, found, err = w.holdOn(ctx, f); found {
			end()
			return true, nil
		}
	}
	if err == nil {
		err = w.accepted(ctx, first)
	}
	end()
	w.observe(time.Since(began), err)
	if err != nil {
		f.close(nil)
		return w.unanswered(ctx, o, push, err)
	}
	if err := w.streamed(first, true); err != nil {
		return false, err
	}
	if again {
		if err := w.repeated(ctx, hints); err != nil {
			return false, err
		}
	}
	if first.Message == nil && !last && !w.settledBy(first) {
		return true, w.artifactsOf(first)
	}
	if o.message.TaskID != "" && repeats(first, asked) {
		return w.beyond(ctx, f, first)
	}
	switch how, err := w.takes(ctx, first); {
	case err != nil || how == passOver:
		return false, err
	case how == passLie || !last:
		return true, nil
	}
	how, _, err := w.follows(ctx, f)
	f.close(nil)
	return w.after(ctx, how, err)
}

// repeats reports whether the first answer to a message is the task as it was
// before: with the question that the message answers.
func repeats(first *a2a.StreamResponse, asked string) bool {
	return first.Task != nil && first.Task.Status.State.Interrupted() && saidPart(statusDigest(&first.Task.Status)) == asked
}

// beyond passes over the task as it was before the message, and follows what comes
// of it. A peer that asks the same again is believed when it is looked at.
func (w *work) beyond(ctx context.Context, f *feed, first *a2a.StreamResponse) (more bool, err error) {
	if err := w.artifactsOf(first); err != nil {
		return false, err
	}
	if !w.canStream() {
		return true, pause(ctx, w.link.PollMin)
	}
	how, _, err := w.follows(ctx, f)
	f.close(nil)
	return w.after(ctx, how, err)
}

// sender opens the stream that a message goes out with: one of the peer's, or
// the single answer of a peer that does not stream.
func (w *work) sender(o *outgoing, push *a2a.TaskPushNotificationConfig) func(context.Context) (stream, error) {
	req := &a2a.SendMessageRequest{Message: &o.message, Configuration: w.configuration(push)}
	if w.canStream() {
		req.Configuration.ReturnImmediately = false
		return func(ctx context.Context) (stream, error) {
			return w.link.Client.SendStreamingMessage(ctx, req)
		}
	}
	return func(ctx context.Context) (stream, error) {
		r, err := w.link.Client.SendMessage(ctx, req)
		if err != nil {
			return nil, err
		}
		return &single{&a2a.StreamResponse{Task: r.Task, Message: r.Message}}, nil
	}
}

// answer waits for the first answer to a message. When the turn ends meanwhile,
// it waits on for a moment, so that it is known what became of the message.
func (w *work) answer(ctx context.Context, f *feed) (*a2a.StreamResponse, error) {
	clock := time.NewTimer(w.link.Answer)
	defer clock.Stop()
	done := ctx.Done()
	for {
		select {
		case e := <-f.events:
			if e.err != nil {
				return nil, e.err
			}
			return e.event, nil
		case <-clock.C:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, errAnswer
		case <-done:
			done = nil
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, agent.ErrTakenOver):
				return nil, cause
			case errors.Is(cause, agent.ErrHandedOver), errors.Is(cause, agent.ErrStopping):
				clock.Reset(min(graceStopping, w.link.Answer))
			default:
				clock.Reset(min(graceCanceled, w.link.Answer))
			}
		}
	}
}

// holdOn waits for an answer that is late, without giving up its connection: some
// peers answer when they are done. Meanwhile the message is looked for, and found
// says that it was.
func (w *work) holdOn(ctx context.Context, f *feed) (first *a2a.StreamResponse, found bool, err error) {
	if err := w.inDoubt(errAnswer); err != nil {
		return nil, false, err
	}
	for n := 1; ; n++ {
		item, err := w.stuck(ctx)
		if err == nil {
			err = w.save(ctx, item)
		}
		if err != nil {
			return nil, false, err
		}
		found, lerr := w.look(ctx)
		if found || ended(ctx, lerr) {
			return nil, found, lerr
		}
		again := time.NewTimer(w.l.backoff(n))
		select {
		case e := <-f.events:
			again.Stop()
			return e.event, false, e.err
		case <-ctx.Done():
			again.Stop()
			return nil, false, context.Cause(ctx)
		case <-w.book.News(): // such as a push
		case <-again.C:
		}
		again.Stop()
		w.d.Attempts++
	}
}

// accepted takes down that the peer has answered, and with which ids. When the
// task was canceled meanwhile, it is taken down beside the turn, for whoever
// cancels it at the peer.
func (w *work) accepted(ctx context.Context, e *a2a.StreamResponse) error {
	task, contextID, state := "", "", w.d.RemoteState
	switch {
	case e.Task != nil:
		task, contextID, state = e.Task.ID, e.Task.ContextID, e.Task.Status.State
	case e.StatusUpdate != nil:
		task, contextID, state = e.StatusUpdate.TaskID, e.StatusUpdate.ContextID, e.StatusUpdate.Status.State
	case e.ArtifactUpdate != nil:
		task, contextID = e.ArtifactUpdate.TaskID, e.ArtifactUpdate.ContextID
	case e.Message != nil:
		if w.d.RemoteContext == "" && len(e.Message.ContextID) <= a2a.MaxIDLength {
			w.d.RemoteContext = e.Message.ContextID
		}
		state = a2a.StateCompleted
		if err := w.keepReply(e.Message); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if e.Message == nil {
		if err := w.identify(task, contextID); err != nil {
			return err
		}
	}
	w.d.Send, w.d.RemoteState = store.SendAccepted, state
	w.heard(ctx)
	if w.canStream() {
		w.d.Channel = store.ChannelStream
	}
	// Also when the turn has just ended: it may be handed over, and still be ours.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	err := w.book.Save(keep, w.d, engine.With{})
	if errors.Is(err, store.ErrConflict) { // canceled in this very moment
		err = errors.Join(err, w.l.leave(w.d))
	}
	w.saved, w.savedState = time.Now(), state
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// keepReply keeps a message that the peer has answered with: nobody could be asked
// for it again.
func (w *work) keepReply(m *a2a.Message) error {
	const most = 512 << 10
	body := m.AppendJSON(nil)
	if len(body) > most {
		return nil
	}
	w.mem.Reply = body
	if err := w.remember(); err != nil {
		return err
	}
	return w.t.Flush()
}

// replied reports whether the peer has answered with a message, which an attempt
// that died has not told any more.
func (w *work) replied() bool {
	return w.d.Send == store.SendAccepted && w.d.RemoteTask == "" && w.d.RemoteState == a2a.StateCompleted
}

// reply tells what the peer has answered.
func (w *work) reply(ctx context.Context) error {
	m := &a2a.Message{}
	if w.mem.Reply == nil || a2a.Unmarshal(w.mem.Reply, m) != nil {
		return w.end(ctx, agent.Step{Fail: agent.Say("The peer " + w.d.Peer + " has answered with a message, which was lost when the process ended.")})
	}
	return w.end(ctx, agent.Step{Complete: w.contentOf(m)})
}

// leave writes what is known of the peer's side when the turn is over already.
func (l *Ledger) leave(d *store.Delegation) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	return l.opts.Store.Commit(ctx, &store.Change{
		Task: d.TaskKey, Delegation: d,
		Guard: store.Guard{States: store.States(a2a.StateCanceled, a2a.StateFailed), NoLease: true},
	})
}

// settledBy reports whether an answer is the end of the task, so that no message
// can follow.
func (w *work) settledBy(e *a2a.StreamResponse) bool {
	return e.Task != nil && e.Task.Status.State.Terminal() ||
		e.StatusUpdate != nil && e.StatusUpdate.Status.State.Terminal()
}

// artifactsOf takes over the artifacts of an answer, and nothing else.
func (w *work) artifactsOf(e *a2a.StreamResponse) error {
	if e.Task == nil {
		return nil
	}
	return w.reconcile(e.Task.Artifacts)
}

// unanswered deals with a send that brought no usable answer. It reports whether
// the turn goes on.
func (w *work) unanswered(ctx context.Context, o *outgoing, push *a2a.TaskPushNotificationConfig, err error) (more bool, _ error) {
	if w.d.Send == store.SendAccepted {
		return false, err // of our own: it has arrived
	}
	if ctx.Err() != nil {
		return false, err // what runs next finds that it was being sent
	}
	if illegible(err) {
		return w.unreadable(ctx, err)
	}
	switch fateOf(err) {
	case fateUnsent:
		w.d.Send = store.SendUnsent
		return false, w.later(ctx, err)
	case fateRefused:
		return w.refused(ctx, o, push, err)
	}
	if err := w.inDoubt(err); err != nil {
		return false, err
	}
	if err := w.save(ctx, nil); err != nil {
		return false, err
	}
	found, lerr := w.look(ctx)
	switch {
	case ended(ctx, lerr):
		return false, lerr
	case found:
		return true, nil
	case errors.Is(err, &a2a.Error{Code: a2a.CodeInternal}) && !w.link.Deduplicates:
		return false, w.end(ctx, agent.Step{Fail: agent.Say(fmt.Sprintf(
			"The peer %s failed on the message: %s. Whether it has begun is not known.", w.d.Peer, w.redactor().explain(err)))})
	}
	// The trouble was told and counted.
	if err := w.save(ctx, nil); err != nil {
		return false, err
	}
	return false, w.end(ctx, waitFor(w.l.backoff(w.d.Attempts)))
}

// unreadable deals with an answer that cannot be read. The peer has the message,
// and its task is looked for.
func (w *work) unreadable(ctx context.Context, err error) (more bool, _ error) {
	w.heard(ctx)
	w.d.Send = store.SendAccepted
	known := w.d.RemoteTask != "" && !w.d.RemoteState.Terminal()
	if !known {
		found, lerr := w.look(ctx)
		if ended(ctx, lerr) {
			return false, lerr
		}
		known = found
	}
	if known {
		if terr := w.trouble(err); terr != nil {
			return false, terr
		}
		return true, w.save(ctx, nil)
	}
	w.d.Error, w.d.Channel = w.redactor().explain(err), store.ChannelNone
	if err := w.save(ctx, nil); err != nil {
		return false, err
	}
	return false, w.end(ctx, w.noTask())
}

// noTask is the end of a delegation whose message was answered without a task.
func (w *work) noTask() agent.Step {
	return agent.Step{Fail: agent.Say(fmt.Sprintf(
		"The peer %s has answered, and no task of it is known: %s. If it works on the message, it is told to cancel as soon as its task is found.", w.d.Peer, w.d.Error))}
}

// refused deals with a message that the peer has not taken and never will.
func (w *work) refused(ctx context.Context, o *outgoing, push *a2a.TaskPushNotificationConfig, err error) (more bool, _ error) {
	if push != nil && aboutPush(err) {
		// It says for certain that nothing has happened.
		w.d.Push, w.d.Send = pushRefused, store.SendUnsent
		if err := w.save(ctx, nil); err != nil {
			return false, err
		}
		return w.deliver(ctx, o, true)
	}
	text, not := w.redactor().explain(err), "taken"
	if !left(err) {
		not = "sent"
	}
	if w.d.RemoteTask == "" {
		if not == "taken" {
			w.mem.RefusedOf, w.mem.Refused = w.d.Message, text
			if err := w.remember(); err != nil {
				return false, err
			}
		}
		return false, w.endUndone(ctx, not, text)
	}
	if serr := w.undone(ctx, not, text); serr != nil {
		return false, serr
	}
	// The task of the peer is what counts: it may be over, or still ask.
	task, gerr := w.get(ctx)
	if gerr != nil {
		return true, nil
	}
	if state := task.Status.State; state.Interrupted() {
		said := agent.Say("The answer was not " + not + ": " + text + ".")
		if c := w.contentOf(task.Status.Message); len(c.Parts) > 0 {
			said.Parts = append(said.Parts, c.Parts...)
		}
		w.d.RemoteState, w.d.RemoteDigest = state, digestOf(task)
		w.d.Channel = store.ChannelPoll
		if err := w.save(ctx, nil, w.pollJob(0, w.link.PollMax)); err != nil {
			return false, err
		}
		return false, w.end(ctx, w.ending(state, task.Status.Message, said))
	}
	if err := w.emit(agent.Step{Working: agent.Say("The message was not " + not + ": " + text + ".")}); err != nil {
		return false, err
	}
	return true, nil
}

// undone writes down that a message was not sent, or not taken.
func (w *work) undone(ctx context.Context, not, text string) error {
	w.d.Send, w.d.Error = store.SendAccepted, text
	if not == "sent" {
		w.d.Send = store.SendUnsent
	}
	return w.save(ctx, nil)
}

// endUndone ends a delegation whose message was not sent, or not taken.
func (w *work) endUndone(ctx context.Context, not, text string) error {
	if err := w.undone(ctx, not, text); err != nil {
		return err
	}
	return w.end(ctx, agent.Step{Fail: agent.Say("The message was not " + not + ": " + text + ".")})
}

// hasRefused reports whether the peer has refused the message that would have
// begun its task, which an attempt that died has not told any more.
func (w *work) hasRefused() bool {
	return w.d.RemoteTask == "" && w.mem.RefusedOf != "" && w.mem.RefusedOf == w.d.Message
}

// aboutPush reports whether a peer has refused a message for the webhook that
// came with it.
func aboutPush(err error) bool {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return false
	}
	about := func(text string) bool { return strings.Contains(strings.ToLower(text), "push") }
	return e.Code == a2a.CodePushNotificationNotSupported || e.Code == a2a.CodeInvalidParams &&
		(about(e.Message) || slices.ContainsFunc(e.Violations, func(v a2a.Violation) bool { return about(v.Field) }))
}
