package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/store"
)

const (
	changesEvery   = time.Second // at most one event in it
	maxChangedIDs  = 100         // tasks that one event names
	maxLookedItems = 20          // items of the inbox that are looked up for one event
	maxRoots       = 1000        // tasks whose tree a follower of one tree remembers
)

// changeEvent is what the data of an event says.
type changeEvent struct {
	Topics []string `json:"topics"`
	Tasks  []string `json:"tasks"`
	More   bool     `json:"more,omitzero"`
	// Inbox says that the inbox may have changed, of whatever task.
	Inbox bool `json:"inbox,omitzero"`
}

var topicNames = []struct {
	topic changes.Topic
	name  string
}{
	{changes.Tasks, "tasks"}, {changes.Inbox, "inbox"}, {changes.Delegations, "delegations"}, {changes.Pushes, "pushes"}, {changes.All, "all"},
}

// followChanges tells, as server-sent events, what changes that the caller may
// see, at most once a second.
func (c *call) followChanges() (any, error) {
	q := c.query("task", "inbox")
	task, withInbox := q.values.Get("task"), q.flag("inbox")
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.h.opts.Changes == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "This node does not tell of its changes; ask again now and then instead")
	}
	if c.caller.Anonymous() && !c.caller.Local {
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "Callers without credentials may not follow changes; subscribe to a task instead")
	}
	release, err := c.h.follows.follow(&c.caller)
	if err != nil {
		return nil, err
	}
	defer release()
	if c.h.opts.Engine.Draining() {
		return nil, &a2a.Error{Code: a2a.CodeUnavailable, Message: "The node is stopping", RetryAfter: time.Second}
	}
	f := &follower{call: c, listener: c.h.opts.Changes.Listen(), out: &eventWriter{c: c, control: http.NewResponseController(c.w), sse: true}, inbox: withInbox}
	defer f.listener.Close()
	if task != "" {
		if err := f.only(task); err != nil {
			return nil, err
		}
	}
	f.out.begin()
	if c.r.Method != http.MethodHead {
		f.run()
	}
	return nil, nil
}

// follower tells one caller of changes.
type follower struct {
	*call
	listener *changes.Listener
	out      *eventWriter
	tree     string          // root of the only tree that is told of; "": all
	task     string          // of that tree, that was asked for
	inTree   map[string]bool // what is known of other tasks
	inbox    bool            // changes of the inbox are told of, whatever their task is
}

// only limits what is told to a task and the tree that it is in.
func (f *follower) only(task string) error {
	if _, err := f.taskRow(task); err != nil {
		return err
	}
	f.task, f.inTree = task, map[string]bool{task: true}
	var err error
	f.tree, err = f.rootOf(task)
	return err
}

// rootOf returns the id of the task at the root of the tree that a task is in.
func (f *follower) rootOf(task string) (string, error) {
	if f.h.opts.Delegations == nil {
		return task, nil
	}
	d, err := f.h.opts.Delegations.Delegation(f.context(), f.reach(), task)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return task, nil
	case err != nil:
		return "", err
	}
	return d.Root, nil
}

// run tells of changes until the caller goes away or the node stops.
func (f *follower) run() {
	ctx, stopping := f.context(), f.h.opts.Engine.Stopping()
	f.out.buf = append(f.out.buf, "retry: 1000\nevent: ready\ndata: {\"every_ms\":1000}\n\n"...)
	var rest <-chan time.Time // nil: none is needed before the next event
	idle := time.NewTimer(keepAlive)
	defer idle.Stop()
	for {
		if len(f.out.buf) > 0 {
			if f.out.flush() != nil {
				return
			}
			idle.Reset(keepAlive)
		}
		some := f.listener.Some()
		if rest != nil {
			some = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			f.out.buf = append(f.out.buf, ": the node is stopping; reconnect\n\n"...)
			_ = f.out.flush()
			return
		case <-idle.C:
			f.out.buf = append(f.out.buf, ": keep-alive\n\n"...)
		case <-rest:
			rest = nil
		case <-some:
			e, err := f.take(ctx)
			if err != nil {
				// The store is away. What was missed is told as such.
				e = &changeEvent{Topics: []string{"all"}, Tasks: []string{}, Inbox: f.inbox}
			}
			if e == nil {
				continue
			}
			data, err := json.Marshal(e)
			if err != nil {
				return
			}
			f.out.buf = append(f.out.buf, "event: change\ndata: "...)
			f.out.buf = append(append(f.out.buf, data...), "\n\n"...)
			rest = time.After(changesEvery)
		}
	}
}

// take returns what has changed that the caller may see, nil for nothing.
func (f *follower) take(ctx context.Context) (*changeEvent, error) {
	list, topics, more := f.listener.Take()
	scope := f.reach()
	e := &changeEvent{More: more, Tasks: []string{}}
	var unknown []string
	var items []changes.Change
	byID := map[string]changes.Topic{}
	beyond := changes.Topic(0) // the tree that is told of
	for i := range list {
		c := &list[i]
		switch {
		case c.Known && !c.In(scope):
		case c.Known && f.concerns(c.Task, c.Delegated):
			topics |= c.Topics
			if c.Task != "" {
				e.Tasks = append(e.Tasks, c.Task)
			}
		case c.Known:
			beyond |= c.Topics
		case c.Task != "":
			unknown = append(unknown, c.Task)
			byID[c.Task] |= c.Topics
		default:
			items = append(items, *c)
		}
	}
	for len(unknown) > 0 {
		batch := unknown[:min(len(unknown), store.MaxTasks)]
		unknown = unknown[len(batch):]
		rows, err := f.h.opts.Store.Tasks(ctx, scope, batch)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			row := &rows[i]
			if !f.concerns(row.ID, row.Delegated) {
				beyond |= changes.Inbox
				continue
			}
			// Another node says no more than that the task has changed.
			topics |= byID[row.ID] | changes.Inbox
			if row.Delegated {
				topics |= changes.Delegations
			}
			e.Tasks = append(e.Tasks, row.ID)
		}
	}
	for i := range items {
		if topics&changes.Inbox != 0 {
			break
		}
		seen := i >= maxLookedItems
		if !seen {
			item, err := f.h.opts.Store.InboxItem(ctx, scope, items[i].Item)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
			seen = f.tree == "" || f.concerns(item.Task, true)
			beyond |= changes.Inbox
		}
		if seen {
			topics |= changes.Inbox
		}
	}
	if f.caller.Role < auth.RoleOperator {
		topics &^= changes.Pushes
	}
	e.Topics = []string{}
	e.Inbox = f.inbox && (topics|beyond)&(changes.Inbox|changes.All) != 0
	if topics == 0 && !e.Inbox {
		return nil, nil
	}
	for _, t := range topicNames {
		if topics&t.topic != 0 {
			e.Topics = append(e.Topics, t.name)
		}
	}
	slices.Sort(e.Tasks)
	if len(e.Tasks) > maxChangedIDs {
		e.Tasks, e.More = e.Tasks[:maxChangedIDs], true
	}
	return e, nil
}

// concerns reports whether a task is in the tree that is told of.
func (f *follower) concerns(task string, delegated bool) bool {
	if f.tree == "" || task == f.task || task == f.tree {
		return true
	}
	if !delegated || task == "" {
		return false
	}
	in, known := f.inTree[task]
	if !known {
		root, err := f.rootOf(task)
		if err != nil {
			return true // rather once too often
		}
		in = root == f.tree
		if len(f.inTree) >= maxRoots {
			clear(f.inTree)
		}
		f.inTree[task] = in
	}
	return in
}
