package ledger

import (
	"context"
	"errors"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/store"
)

// Recall does a job of the kind store.JobRecall: a delegation is over, and its
// peer may still be at work. It is told to cancel until it has answered.
func (l *Ledger) Recall(ctx context.Context, job *store.Job) error {
	wait, cancel := context.WithTimeout(ctx, graceCanceled+time.Second)
	l.sent(wait, job.Task)
	cancel()
	d, err := l.opts.Store.Delegation(ctx, l.opts.Scope, job.Task)
	if errors.Is(err, store.ErrNotFound) {
		return l.finish(ctx, job)
	}
	if err != nil {
		return err
	}
	switch {
	case d.Recalled || d.RemoteState.Terminal():
		if d.Channel != store.ChannelNone {
			return l.commitOver(ctx, job, d, nil)
		}
		return l.finish(ctx, job)
	case d.RemoteTask == "" && (d.Message == "" || d.Send == store.SendUnsent):
		return l.recalled(ctx, job, d) // the peer never had it
	}
	free, err := l.line(ctx, d.Peer)
	if err != nil {
		return err
	}
	err = l.recall(ctx, d)
	free()
	if ctx.Err() != nil {
		return err
	}
	if err == nil {
		return l.recalled(ctx, job, d)
	}
	row, terr := l.opts.Store.Task(ctx, l.opts.Scope, job.Task)
	if terr != nil {
		return terr
	}
	if row.State == a2a.StateFailed && d.RemoteTask == "" && (d.Send == store.SendUnknown || d.Send == store.SendSending) {
		d.Send = store.SendLost // until it is found after all
	}
	d.Attempts++
	d.Error = l.redactor(&Link{}, d).explain(err)
	if lasting(err) || time.Since(row.StatusAt) > l.opts.Recall {
		l.log.WarnContext(ctx, "A peer could not be told to cancel", "task", d.Task, "peer", d.Peer, "error", err)
		return l.commitOver(ctx, job, d, nil)
	}
	n, _ := strconv.Atoi(job.Key)
	next := *job
	next.ID, next.Attempt, next.Key = 0, 0, strconv.Itoa(n+1)
	next.Due = time.Now().Add(max(l.backoff(n+1), asked(err)))
	return l.commitOver(ctx, job, d, &next)
}

// errNotFound says that a peer tells of no task for a message that it may have.
var errNotFound = errors.New("the peer tells of no task that has the message")

// recall tells a peer to cancel what it does for a delegation.
func (l *Ledger) recall(ctx context.Context, d *store.Delegation) error {
	link, err := l.open(ctx, d)
	if err != nil {
		return err
	}
	if d.RemoteTask == "" {
		t, err := l.find(ctx, &link, d)
		// What the peer has answered already, it is not asked again.
		if t == nil && link.Deduplicates && doubtful(d) && d.Message == messageID(d.Task, d.Number) && ctx.Err() == nil {
			var done bool
			if t, done, err = l.sendAgain(ctx, &link, d); done {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if t == nil {
			return errNotFound
		}
		d.RemoteTask, d.RemoteContext, d.RemoteState = t.ID, t.ContextID, t.Status.State
		d.Send, d.Seen = store.SendAccepted, time.Now()
		if t.Status.State.Terminal() {
			return nil
		}
	}
	began := time.Now()
	t, err := link.Client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: d.RemoteTask})
	if ctx.Err() == nil {
		l.opts.Peers.Observe(ctx, d.Peer, Observation{Interface: d.Interface, Took: time.Since(began), Err: err})
	}
	if err != nil && (!isAnswer(err) || !nothingToCancel(err)) {
		return err
	}
	d.Seen = time.Now()
	if err != nil {
		d.Error = l.redactor(&link, d).explain(err)
	}
	if err != nil || doubtful(d) && !holds(t, d.Message) {
		// It has answered; how the task is, and what it has got, it may tell too.
		if now, gerr := getWithHistory(ctx, link.Client, d.RemoteTask); gerr == nil {
			t = now
		}
	}
	if t == nil {
		return nil
	}
	d.RemoteState = t.Status.State
	// As in find: a task that was over by itself can take no message any more.
	if doubtful(d) && (holds(t, d.Message) || err != nil && t.Status.State.Terminal()) {
		d.Send = store.SendAccepted
	}
	return nil
}

// doubtful reports whether it is not known that the peer has the last message.
func doubtful(d *store.Delegation) bool {
	return d.Send == store.SendSending || d.Send == store.SendUnknown || d.Send == store.SendLost
}

// nothingToCancel reports whether a peer has said that there is nothing to cancel,
// or that it cannot.
func nothingToCancel(err error) bool {
	switch a2a.CodeOf(err) {
	case a2a.CodeTaskNotCancelable, a2a.CodeTaskNotFound, a2a.CodeUnsupportedOperation, a2a.CodeMethodNotFound:
		return true
	}
	return false
}

// sendAgain finds the task of a message by sending it again, to a peer that is
// known to take it for one. Done means that there is nothing to cancel: the peer has
// answered with a message, or refuses it.
func (l *Ledger) sendAgain(ctx context.Context, link *Link, d *store.Delegation) (t *a2a.Task, done bool, err error) {
	list, err := l.messages(ctx, d, d.Number)
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	lineage, err := l.opts.Engine.LineageOf(ctx, d.Task)
	if err != nil {
		return nil, false, err
	}
	o := &list[0]
	l.address(ctx, d, link.Client.Card(), lineage, o)
	none := 0
	began := time.Now()
	r, err := link.Client.SendMessage(ctx, &a2a.SendMessageRequest{
		Message: &o.message, Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true, HistoryLength: &none},
	})
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	l.opts.Peers.Observe(ctx, d.Peer, Observation{Interface: d.Interface, Took: time.Since(began), Err: err})
	switch {
	case err != nil && fateOf(err) == fateRefused && isAnswer(err):
		d.Send, d.Seen, d.Error = store.SendAccepted, time.Now(), l.redactor(link, d).explain(err)
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case r.Task == nil:
		d.Send, d.Seen, d.RemoteState = store.SendAccepted, time.Now(), a2a.StateCompleted
		return nil, true, nil
	case r.Task.ID == "" || len(r.Task.ID) > a2a.MaxIDLength || len(r.Task.ContextID) > a2a.MaxIDLength:
		return nil, false, &IdentityError{What: "task", Got: r.Task.ID}
	}
	return r.Task, false, nil
}

func isAnswer(err error) bool {
	_, ok := errors.AsType[*a2a.Error](err)
	_, transport := errors.AsType[*client.TransportError](err)
	return ok && !transport
}

// recalled ends a recall that has reached the peer, or had nothing to do.
func (l *Ledger) recalled(ctx context.Context, job *store.Job, d *store.Delegation) error {
	d.Recalled = true
	return l.commitOver(ctx, job, d, nil)
}

// commitOver writes the row of a delegation that is over. A message that nobody
// has answered is not under way any more, and lost when the peer is told no more.
func (l *Ledger) commitOver(ctx context.Context, job *store.Job, d *store.Delegation, next *store.Job) error {
	switch {
	case d.Send == store.SendSending && next != nil:
		d.Send = store.SendUnknown
	case next == nil && (d.Send == store.SendUnknown || d.Send == store.SendSending):
		d.Send = store.SendLost
	}
	d.Channel = store.ChannelNone // nobody follows it any more
	c := &store.Change{Task: d.TaskKey, Delegation: d, Finish: job.ID, Guard: store.Guard{NoLease: true}}
	if next != nil {
		c.Jobs = []store.Job{*next}
	}
	if err := l.opts.Store.Commit(ctx, c); err != nil {
		return err
	}
	if next != nil {
		l.opts.Due(next.Due)
	}
	return nil
}
