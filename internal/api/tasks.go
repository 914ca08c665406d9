package api

import (
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// task is a task as an operator sees it: the A2A task, and what the protocol
// does not say of it.
type task struct {
	Agent   string    `json:"agent"`
	Tenant  string    `json:"tenant"`
	Owner   string    `json:"owner"` // "" for anonymous callers
	Turn    int       `json:"turn"`
	Attempt int       `json:"attempt"`
	Unread  int64     `json:"unread"`
	Events  int64     `json:"events"`
	Running bool      `json:"running"`
	Stale   bool      `json:"stale"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Task    *a2a.Task `json:"task"`

	Ref      string    `json:"ref,omitempty"`
	Peer     string    `json:"peer,omitempty"`
	Root     string    `json:"root,omitempty"`
	Parent   string    `json:"parent,omitempty"`
	WaitsFor *waitsFor `json:"waits_for,omitzero"`
}

func (c *call) taskOf(r *engine.Record) *task {
	row := &r.Row
	t := &task{
		Agent: row.Agent, Tenant: row.Tenant, Owner: row.Owner, Turn: row.Turn, Attempt: row.Attempt,
		Unread: row.Unread(), Events: row.Seq, Running: row.Lease != 0, Created: row.Created.UTC(), Task: r.Task,
	}
	if !row.Expires.IsZero() {
		t.Expires = row.Expires.UTC()
	}
	if limit := c.h.opts.Config().StaleAfter.Std(); limit > 0 && !row.State.Terminal() {
		t.Stale = time.Since(row.StatusAt) > limit
	}
	return t
}

type taskList struct {
	Tasks         []*task   `json:"tasks"`
	NextPageToken string    `json:"next_page_token,omitempty"`
	PageSize      int       `json:"page_size"`
	TotalSize     *int      `json:"total_size,omitempty"` // nil for a search
	Search        *searched `json:"search,omitzero"`
}

// searched says how far a search has looked.
type searched struct {
	Scanned  int       `json:"scanned"`
	Complete bool      `json:"complete"` // there is nothing more to look at
	BackTo   time.Time `json:"back_to,omitzero"`
}

// filters are the parameters that select tasks.
var filters = []string{
	"agent", "context", "state", "after", "owner", "q", "ref", "peer", "root", "stalled", "min_age", "max_age", "since", "until",
}

// listTasks returns the tasks that the caller may see, newest status first.
func (c *call) listTasks() (any, error) {
	q := c.query(append([]string{"page_size", "page_token", "history", "artifacts", "part_bytes"}, filters...)...)
	c.partBytes = int(q.number("part_bytes", 0, 0, maxPartBytes))
	states := q.states("state")
	list := store.ListQuery{
		Agent: q.values.Get("agent"), Context: q.values.Get("context"), After: q.time("after"),
		PageSize: int(q.number("page_size", defaultPage, 1, a2a.MaxPageSize)), Cursor: q.values.Get("page_token"),
		Want: store.Want{Messages: int(q.number("history", 0, 0, maxHistory)), Artifacts: q.flag("artifacts")},
	}
	s := c.searchOf(q, states, &list)
	if err := q.err(); err != nil {
		return nil, err
	}
	if c.caller.Anonymous() && !c.caller.Local && list.Context == "" {
		// All anonymous callers are one owner; a context is what they cannot
		// guess of each other.
		return nil, a2a.Invalid("context", "is required of callers without credentials")
	}
	if s != nil {
		return s.page()
	}
	if len(states) > 0 {
		list.State = states[0]
	}
	page, err := c.h.opts.Engine.Records(c.context(), c.reach(), list)
	if err != nil {
		return nil, err
	}
	answer := &taskList{Tasks: make([]*task, len(page.Records)), NextPageToken: page.Next, PageSize: list.PageSize, TotalSize: &page.Total}
	for i := range page.Records {
		if answer.Tasks[i], err = c.fullTaskOf(&page.Records[i]); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// getTask returns a task with its history and its artifacts.
func (c *call) getTask() (any, error) {
	q := c.query("history", "part_bytes")
	history := int(q.number("history", 100, 0, maxHistory))
	c.partBytes = int(q.number("part_bytes", 0, 0, maxPartBytes))
	if err := q.err(); err != nil {
		return nil, err
	}
	return c.record(c.r.PathValue("id"), history)
}

func (c *call) record(id string, history int) (any, error) {
	if len(id) > a2a.MaxIDLength {
		return nil, a2a.TaskNotFound(clip(id, a2a.MaxIDLength))
	}
	record, err := c.h.opts.Engine.Record(c.context(), c.reach(), id, store.Want{Messages: history, Artifacts: true})
	if err != nil {
		return nil, err
	}
	return c.fullTaskOf(record)
}

// fullTaskOf is taskOf with what stands beside the task.
func (c *call) fullTaskOf(r *engine.Record) (*task, error) {
	t := c.taskOf(r)
	t.Task = cutTask(t.Task, c.partBytes)
	d, err := c.delegationBeside(&r.Row)
	if err != nil {
		return nil, err
	}
	if d != nil {
		t.Ref, t.Peer, t.Root, t.Parent = d.Ref, d.Peer, d.Root, d.Parent
	}
	if !r.Row.State.Terminal() {
		if t.WaitsFor, err = c.waitOf(&r.Row, d, r.Task.Status.Message); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// nothing is the body of a request that has nothing to say.
type nothing struct{}

// cancelTask ends a task.
func (c *call) cancelTask() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	by := engine.ByCaller
	if c.caller.Role >= auth.RoleOperator {
		by = engine.ByOperator
	}
	task, err := c.h.opts.Engine.Cancel(c.context(), c.reach(), nil, c.r.PathValue("id"), by)
	if err != nil {
		return nil, err
	}
	return c.record(task.ID, 100)
}

// retryTask does the work of a terminal task again, in a new one.
func (c *call) retryTask() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	task, err := c.h.opts.Engine.Retry(c.context(), c.reach(), c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return c.record(task.ID, 100)
}

// deleteTask removes a terminal task.
func (c *call) deleteTask() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	return nil, c.h.opts.Engine.Delete(c.context(), c.reach(), c.r.PathValue("id"))
}

// taskRow returns the row of a task that the caller may see.
func (c *call) taskRow(id string) (*store.Task, error) {
	if len(id) > a2a.MaxIDLength {
		return nil, a2a.TaskNotFound(clip(id, a2a.MaxIDLength))
	}
	row, err := c.h.opts.Store.Task(c.context(), c.reach(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.TaskNotFound(id)
	}
	return row, err
}
