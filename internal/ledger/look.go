package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/store"
)

// Bounds of a look.
const (
	lookPages   = 5
	lookSize    = 50
	lookHistory = 20
	lookSingle  = 20 // tasks that are asked for one by one
)

// atOnce is the limit of silence when only people can mend what hinders it.
const atOnce = time.Nanosecond

// stuckTries is how many tries have to fail before a peer counts as silent.
const stuckTries = 2

// hintKey is the kept result in which the receiver leaves the ids of tasks that
// were pushed while none was known, and maxHints how many of them, so that a push
// about another task does not displace the right one.
const (
	hintKey  = "ledger.hint"
	maxHints = 4
)

// look finds out whether the message under way has arrived, without sending
// anything, and takes it down when it has. An error says only that it could not
// be found out.
func (w *work) look(ctx context.Context) (found bool, err error) {
	t, err := w.l.find(ctx, &w.link, w.d)
	if err != nil || t == nil {
		return false, err
	}
	if err := w.identify(t.ID, t.ContextID); err != nil {
		return false, err
	}
	w.d.Send, w.d.RemoteState = store.SendAccepted, t.Status.State
	w.heard(ctx)
	if err := w.save(ctx, nil); err != nil {
		return false, err
	}
	return true, nil
}

// find returns the task of the peer that has the message of a delegation, nil
// when the peer tells of none. A task that is over can take no message any more:
// it is returned whether it has the message or not.
func (l *Ledger) find(ctx context.Context, link *Link, d *store.Delegation) (*a2a.Task, error) {
	c := link.Client
	if d.RemoteTask != "" && !d.RemoteState.Terminal() {
		t, err := getWithHistory(ctx, c, d.RemoteTask)
		if err != nil {
			return nil, err
		}
		if holds(t, d.Message) || t.Status.State.Terminal() || !link.Deduplicates && wentOn(d, t) {
			return t, nil
		}
		return nil, nil
	}
	if t := l.hinted(ctx, c, d); t != nil {
		return t, nil
	}
	return listed(ctx, c, d)
}

func getWithHistory(ctx context.Context, c *client.Client, id string) (*a2a.Task, error) {
	n := lookHistory
	return c.GetTask(ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: &n})
}

// holds reports whether a task has a message in its history.
func holds(t *a2a.Task, id string) bool {
	for i := range t.History {
		m := &t.History[i]
		if m.MessageID == id {
			return true
		}
		var key string
		if value := member(m.Metadata, metaIdempotency); value != nil && json.Unmarshal(value, &key) == nil && key == "handoff:"+id {
			return true
		}
	}
	return false
}

// wentOn reports whether a task that asked for input must have got the message,
// although the peer does not show it: it works again, or asks something else. A
// peer to which the message can be sent again is not judged by that.
func wentOn(d *store.Delegation, t *a2a.Task) bool {
	state := t.Status.State
	switch {
	case !d.RemoteState.Interrupted() || remembers(d, t):
		return false
	case d.RemoteState == a2a.StateAuthRequired && !state.Interrupted():
		return d.Message != messageID(d.Task, d.Number) // an approval at the peer does this too
	}
	return saidPart(d.RemoteDigest) != saidPart(statusDigest(&t.Status))
}

// remembers reports whether a task shows an earlier message of ours, so that it
// would show the last one too.
func remembers(d *store.Delegation, t *a2a.Task) bool {
	for n := d.Number; n > max(0, d.Number-lookHistory); n-- {
		if id := messageID(d.Task, n); id != d.Message && holds(t, id) {
			return true
		}
	}
	return false
}

// hints returns the ids of the tasks that the peer has pushed to the receiver of a
// delegation while none was known, the last one first. One of them may be right.
func (l *Ledger) hints(ctx context.Context, d *store.Delegation) []string {
	value, err := l.opts.Store.Result(ctx, d.TaskKey, hintKey)
	if err != nil || value == nil {
		return nil
	}
	return readHints(value)
}

// readHints reads what the receiver has left: ids, or the only one.
func readHints(value a2a.JSON) (ids []string) {
	if json.Unmarshal(value, &ids) == nil {
		return ids[:min(len(ids), maxHints)]
	}
	var one string
	if json.Unmarshal(value, &one) != nil || one == "" {
		return nil
	}
	return []string{one}
}

// hinted returns the task that the peer has pushed to the receiver of this
// delegation, which nobody else knows: the one that shows the message, or else the
// only one that shows no messages at all.
func (l *Ledger) hinted(ctx context.Context, c *client.Client, d *store.Delegation) *a2a.Task {
	var maybe []*a2a.Task
	for _, id := range l.hints(ctx, d) {
		if id == d.RemoteTask {
			continue
		}
		t, err := getWithHistory(ctx, c, id)
		switch {
		case err != nil:
		case holds(t, d.Message):
			return t
		case len(t.History) == 0:
			maybe = append(maybe, t)
		}
	}
	if len(maybe) == 1 {
		return maybe[0]
	}
	return nil
}

// listed looks for the message among the recent tasks of the peer.
func listed(ctx context.Context, c *client.Client, d *store.Delegation) (*a2a.Task, error) {
	return eachListed(ctx, c, d, func(t *a2a.Task) bool { return t.ID != "" && holds(t, d.Message) })
}

// eachListed returns the first of the recent tasks of the peer that is meant.
func eachListed(ctx context.Context, c *client.Client, d *store.Delegation, is func(*a2a.Task) bool) (*a2a.Task, error) {
	size, history, single := lookSize, lookHistory, 0
	req := &a2a.ListTasksRequest{
		ContextID: d.RemoteContext, PageSize: &size, HistoryLength: &history, StatusTimestampAfter: since(d),
	}
	for range lookPages {
		page, err := c.ListTasks(ctx, req)
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			t := &page.Tasks[i]
			if len(t.History) == 0 && single < lookSingle && t.ID != "" {
				single++ // some peers list tasks without their history
				if whole, err := getWithHistory(ctx, c, t.ID); err == nil {
					t = whole
				}
			}
			if is(t) {
				return t, nil
			}
		}
		if page.NextPageToken == "" || page.NextPageToken == req.PageToken {
			return nil, nil
		}
		req.PageToken = page.NextPageToken
	}
	return nil, nil
}

// stuck returns the item that tells people that a peer has been silent for too
// long; nil when it has not, or when there was one already.
func (l *Ledger) stuck(ctx context.Context, d *store.Delegation, limit time.Duration) (*store.InboxItem, error) {
	last := d.Seen
	if last.IsZero() {
		last = d.Created
	}
	limit = cmp.Or(limit, l.opts.Stuck)
	if !d.Deadline.IsZero() {
		limit = min(limit, d.Deadline.Sub(last)/2) // while there is time to do something
	}
	if d.Attempts < stuckTries || time.Since(last) < limit {
		return nil, nil
	}
	for _, settled := range [...]bool{false, true} {
		page, err := l.opts.Store.InboxItems(ctx, l.opts.Scope, store.InboxQuery{Task: d.Task, Kind: store.InboxStuck, Settled: settled, PageSize: 20})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if !settled || page.Items[i].Created.After(last) {
				return nil, nil
			}
		}
	}
	text := "The peer " + d.Peer + " has been silent since " + last.UTC().Format(time.RFC3339) + ": " + d.Error + "."
	if limit == atOnce {
		text = "Work for the peer " + d.Peer + " waits until somebody has mended this: " + d.Error + "."
	}
	return &store.InboxItem{
		ID: rand.Text(), Kind: store.InboxStuck, Created: time.Now(), Task: d.Task, Tenant: d.Tenant, Owner: d.Owner,
		Agent: d.Peer, Peer: true, Ref: d.Ref, Text: text,
	}, nil
}

// unstick settles what told people that a peer was silent.
func (l *Ledger) unstick(ctx context.Context, d *store.Delegation) {
	page, err := l.opts.Store.InboxItems(ctx, l.opts.Scope, store.InboxQuery{Task: d.Task, Kind: store.InboxStuck, PageSize: 20})
	if err != nil {
		l.log.WarnContext(ctx, "The inbox could not be read", "task", d.Task, "error", err)
		return
	}
	for i := range page.Items {
		err := l.opts.Store.UpdateInbox(ctx, l.opts.Scope, &store.InboxUpdate{
			ID: page.Items[i].ID, Settle: &store.InboxSettle{ID: page.Items[i].ID, By: "peer " + d.Peer, Decision: "gone on"},
			Entry: store.InboxEntry{By: "peer " + d.Peer, What: "gone on"},
		})
		if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			l.log.WarnContext(ctx, "An item of the inbox could not be settled", "task", d.Task, "error", err)
		}
	}
}
