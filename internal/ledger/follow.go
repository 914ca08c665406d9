package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/store"
)

// maxGone is how many times in a row a peer has to say that it does not know a
// task that it had before that is believed.
const maxGone = 3

// maxCuts is how many streams in a row may break without an event before the
// peer is polled instead.
const maxCuts = 3

// get returns the task at the peer as it is now.
func (w *work) get(ctx context.Context) (*a2a.Task, error) {
	none := 0
	began := time.Now()
	t, err := w.link.Client.GetTask(ctx, &a2a.GetTaskRequest{ID: w.d.RemoteTask, HistoryLength: &none})
	if !ended(ctx, err) {
		w.observe(time.Since(began), err)
	}
	if err == nil {
		w.counted = false
		err = w.received(taskBytes(t))
	}
	return t, err
}

// follow follows the task of the peer until the turn ends: by a stream where
// that can be, or else by parking it. With truth, the task is looked at first.
func (w *work) follow(ctx context.Context, truth bool) error {
	if w.d.RemoteTask == "" {
		if w.d.Message != "" && w.d.Send == store.SendAccepted {
			return w.end(ctx, w.noTask()) // what the turn before has not told any more
		}
		return w.park(ctx) // nothing has been sent yet: a turn without a message
	}
	for cuts := 0; ; {
		if truth || !w.canStream() || cuts >= maxCuts {
			if err := w.see(ctx); err != nil || w.over {
				return err
			}
			if !w.canStream() || cuts >= maxCuts {
				return w.park(ctx)
			}
		}
		how, events, err := w.subscribe(ctx)
		if ended(ctx, err) {
			return err
		}
		if more, err := w.after(ctx, how, err); err != nil || !more {
			return err
		}
		// A stream that brings the task and nothing more is no better than a poll.
		if cuts++; events > 1 {
			cuts = 1
		}
		truth = true
		if how == passLie {
			cuts = maxCuts
		}
		if err := pause(ctx, w.l.backoff(cuts)/4); err != nil {
			return err
		}
	}
}

// see takes over the task as it is now.
func (w *work) see(ctx context.Context) error {
	task, err := w.get(ctx)
	if err == nil {
		w.heard(ctx)
		err = w.snapshot(ctx, task)
	}
	if lie, ok := errors.AsType[*IdentityError](err); ok {
		err = lie
		return w.silent(ctx, err)
	}
	if _, ok := errors.AsType[*client.TransportError](err); ok && !ended(ctx, err) {
		return w.silent(ctx, err)
	}
	if _, ok := errors.AsType[*a2a.Error](err); ok {
		return w.silent(ctx, err)
	}
	return err
}

// silent ends a turn whose peer does not tell how its task is.
func (w *work) silent(ctx context.Context, err error) error {
	if limit, ok := errors.AsType[*ReceivedError](err); ok {
		return limit
	}
	if errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) && w.d.Attempts+1 >= maxGone {
		w.d.Attempts++
		w.d.Channel = store.ChannelNone
		w.d.Error = w.redactor().explain(err)
		if err := w.save(ctx, nil); err != nil {
			return err
		}
		return w.end(ctx, agent.Step{Fail: agent.Say(fmt.Sprintf(
			"The peer %s does not know its task any more. What became of the work is not known.", w.d.Peer))})
	}
	if illegible(err) && w.d.Attempts+1 >= maxGone {
		w.d.Attempts++
		w.d.Channel = store.ChannelNone
		w.d.Error = w.redactor().explain(err)
		if err := w.save(ctx, nil); err != nil {
			return err
		}
		return w.end(ctx, agent.Step{Fail: agent.Say(fmt.Sprintf(
			"What the peer %s answers about its task cannot be read: %s. It is told to cancel.", w.d.Peer, w.d.Error))})
	}
	return w.later(ctx, err)
}

// subscribe follows the task by SubscribeToTask.
func (w *work) subscribe(ctx context.Context) (how pass, events int, err error) {
	w.d.Channel, w.resumed = store.ChannelStream, true
	f := newFeed(ctx, func(ctx context.Context) (stream, error) {
		return w.link.Client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: w.d.RemoteTask})
	})
	defer f.close(nil)
	return w.follows(ctx, f)
}

// after deals with the end of a stream. It reports whether the turn goes on.
func (w *work) after(ctx context.Context, how pass, err error) (more bool, _ error) {
	switch how {
	case passOver:
		return false, err
	case passNews:
		if err != nil {
			return false, err
		}
		// The engine starts the next turn at once: with the message.
		if err := w.save(ctx, nil, w.pollJob(0, w.link.PollMin)); err != nil {
			return false, err
		}
		return false, w.end(ctx, parked())
	case passQuiet:
		if err := w.see(ctx); err != nil || w.over {
			return false, err
		}
		return false, w.park(ctx)
	case passLie:
		return err == nil, err
	}
	_, ours := errors.AsType[*client.TransportError](err)
	_, theirs := errors.AsType[*a2a.Error](err)
	if err == nil || ours || theirs || errors.Is(err, client.ErrStreamCut) {
		return ctx.Err() == nil, context.Cause(ctx)
	}
	return false, err
}

// park ends the turn: the peer pushes, or is polled.
func (w *work) park(ctx context.Context) error {
	if w.d.RemoteTask == "" {
		if err := w.save(ctx, nil); err != nil {
			return err
		}
		return w.end(ctx, parked())
	}
	w.d.Channel = store.ChannelPoll
	wait := w.link.PollMin
	if !w.hasten && w.push(ctx) {
		w.d.Channel, wait = store.ChannelPush, w.link.PollMax
	}
	if err := w.save(ctx, nil, w.pollJob(0, wait)); err != nil {
		return err
	}
	return w.end(ctx, parked())
}

// pause waits, unless the turn ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
