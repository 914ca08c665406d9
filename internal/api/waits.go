package api

import (
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// waitsFor says whom or what a task waits for.
type waitsFor struct {
	Kind  string    `json:"kind"`
	Who   string    `json:"who,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Text  string    `json:"text,omitempty"`
	Task  string    `json:"task,omitempty"` // that it waits for
	Item  string    `json:"item,omitempty"` // of the inbox
}

// The kinds of waits.
const (
	waitAnswer   = "answer"
	waitGrant    = "grant"
	waitTask     = "task"
	waitPeer     = "peer"
	waitCallback = "callback"
	waitTime     = "time"
	waitWorker   = "worker"
)

const maxShownText = 500 // bytes of what somebody has said, in lists

// textOf returns what a message says, shortened.
func textOf(m *a2a.Message) string {
	if m == nil {
		return ""
	}
	return clip(m.Text(), maxShownText)
}

// delegationBeside returns the delegation that a task is, nil when it is none.
func (c *call) delegationBeside(row *store.Task) (*store.Delegation, error) {
	if !row.Delegated || c.h.opts.Delegations == nil {
		return nil, nil
	}
	d, err := c.h.opts.Delegations.Delegation(c.context(), c.reach(), row.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return d, err
}

// waitOf returns what a task waits for, nil when it waits for nothing. D is the
// delegation that it is, if it is one.
func (c *call) waitOf(row *store.Task, d *store.Delegation, status *a2a.Message) (*waitsFor, error) {
	w := &waitsFor{Since: row.StatusAt.UTC()}
	switch row.State {
	case a2a.StateInputRequired, a2a.StateAuthRequired:
		w.Kind, w.Text, w.Who = waitAnswer, textOf(status), row.Owner
		if row.State == a2a.StateAuthRequired {
			w.Kind = waitGrant
		}
		return w, c.asked(w, row, d)
	case a2a.StateSubmitted:
		if d == nil || d.Peer == "" {
			w.Kind = waitWorker
			return w, nil
		}
	case a2a.StateWorking:
	default:
		return nil, nil
	}
	switch {
	case d != nil && d.Peer != "":
		w.Kind, w.Who, w.Since = waitPeer, d.Peer, d.Created.UTC()
	case row.Wait == store.WaitChild:
		return c.waitOfChild(w, row)
	case row.Wait == store.WaitCallback:
		w.Kind = waitCallback
	case row.Wait == store.WaitTime:
		w.Kind = waitTime
	default:
		return nil, nil
	}
	return w, nil
}

// waitOfChild says for which of its delegations a task waits.
func (c *call) waitOfChild(w *waitsFor, row *store.Task) (*waitsFor, error) {
	w.Kind = waitTask
	if c.h.opts.Delegations == nil {
		return w, nil
	}
	children, err := c.h.opts.Delegations.Children(c.context(), row.ID)
	if err != nil || len(children) == 0 {
		return w, err
	}
	w.Task = children[0]
	d, err := c.h.opts.Delegations.Delegation(c.context(), c.reach(), w.Task)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return w, nil
	case err != nil:
		return nil, err
	}
	w.Who, w.Since = d.Agent, d.Created.UTC()
	if d.Peer != "" {
		w.Kind, w.Who = waitPeer, d.Peer
	}
	return w, nil
}

// asked fills in who is to answer, as the inbox has it. What a delegation asks
// goes up to the root of its tree.
func (c *call) asked(w *waitsFor, row *store.Task, d *store.Delegation) error {
	if c.h.opts.Inbox == nil || c.inboxAllowed() != nil {
		return nil
	}
	tasks := []string{row.ID}
	if d != nil && d.Root != row.ID && d.Root != "" {
		tasks = append(tasks, d.Root)
	}
	for _, id := range tasks {
		page, err := c.h.opts.Inbox.List(c.context(), c.reach(), store.InboxQuery{Task: id, PageSize: 1})
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			item := &page.Items[0]
			w.Item = item.ID
			if item.Assignee != "" {
				w.Who = item.Assignee
			}
			if w.Text == "" {
				w.Text = clip(item.Text, maxShownText)
			}
			return nil
		}
	}
	return nil
}
