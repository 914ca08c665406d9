package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// nodeScope is the scope of the node itself, for tasks that a caller was
// already found to own.
var nodeScope = store.ForAll()

// ownerScope is the scope of the owner of a task, for what is made or found for the
// task.
func ownerScope(row *store.Task) store.Scope { return store.ForOwner(row.Tenant, row.Owner) }

const (
	defaultPage = 50  // tasks on a page of ListTasks (A2A §3.1.4)
	allHistory  = 100 // messages of the history when neither client nor agent says
)

// historyLimit is how many messages are returned: what the client asks for, and
// the agent's default when it does not say (A2A §3.2.4).
func historyLimit(spec *Spec, asked *int) int {
	switch {
	case asked != nil:
		return *asked
	case spec != nil && spec.History > 0:
		return spec.History
	}
	return allHistory
}

func newest(history []a2a.Message, limit int) []a2a.Message {
	if limit <= 0 {
		return nil
	}
	if len(history) > limit {
		return history[len(history)-limit:]
	}
	return history
}

// findTask returns the row of a task of that agent in the scope. A nil spec
// finds the tasks of every agent.
func (e *Engine) findTask(ctx context.Context, scope store.Scope, spec *Spec, id string) (*store.Task, error) {
	row, err := e.store.Task(ctx, scope, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && hidden(row, spec) {
		return nil, a2a.TaskNotFound(id)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return row, nil
}

// hidden reports whether a task is another agent's, or has expired.
func hidden(row *store.Task, spec *Spec) bool {
	return spec != nil && row.Agent != spec.ID || !row.Expires.IsZero() && time.Now().After(row.Expires)
}

// Get returns a task (A2A §3.1.3). With a nil spec it may be of any agent.
func (e *Engine) Get(ctx context.Context, scope store.Scope, spec *Spec, id string, history *int) (*a2a.Task, error) {
	item, err := e.read(ctx, scope, spec, id, store.Want{Messages: historyLimit(spec, history), Artifacts: true})
	if err != nil {
		return nil, err
	}
	return taskOf(item)
}

func (e *Engine) read(ctx context.Context, scope store.Scope, spec *Spec, id string, want store.Want) (*store.Item, error) {
	item, err := e.store.Read(ctx, scope, id, want)
	if errors.Is(err, store.ErrNotFound) || err == nil && hidden(&item.Task, spec) {
		return nil, a2a.TaskNotFound(id)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return item, nil
}

// List returns a page of tasks, newest status first (A2A §3.1.4). With a nil
// spec they are of all agents.
func (e *Engine) List(ctx context.Context, scope store.Scope, spec *Spec, q *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	query := store.ListQuery{
		Context: q.ContextID, State: q.Status, After: q.StatusTimestampAfter, Cursor: q.PageToken, PageSize: defaultPage,
		Want: store.Want{Messages: historyLimit(spec, q.HistoryLength), Artifacts: q.IncludeArtifacts},
	}
	if spec != nil {
		query.Agent = spec.ID
	}
	if q.PageSize != nil {
		query.PageSize = *q.PageSize
	}
	page, err := e.store.List(ctx, scope, query)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, a2a.Invalid("pageToken", "is not one that this query returned")
	}
	if err != nil {
		return nil, unavailable(err)
	}
	response := &a2a.ListTasksResponse{
		Tasks: make([]a2a.Task, 0, len(page.Items)), NextPageToken: page.Next, PageSize: query.PageSize, TotalSize: page.Total,
	}
	for i := range page.Items {
		t, err := taskOf(&page.Items[i])
		if err != nil {
			// One task that cannot be read must not hide the others.
			e.log.ErrorContext(ctx, "A task cannot be read", "task", page.Items[i].ID, "error", err)
			t = bareTask(&page.Items[i].Task)
		}
		if !q.IncludeArtifacts {
			t.Artifacts = nil
		}
		response.Tasks = append(response.Tasks, *t)
	}
	return response, nil
}

// unreadable is the error for what the store has of a task and nobody can read.
func unreadable(id string, err error) error {
	if err == nil {
		return nil
	}
	return &a2a.Error{
		Code: a2a.CodeInternal, Message: "The task cannot be read", Metadata: map[string]string{"taskId": id},
		Err: fmt.Errorf("read task %s: %w", id, err),
	}
}

// bareTask is a task as its row has it.
func bareTask(row *store.Task) *a2a.Task {
	return &a2a.Task{
		ID: row.ID, ContextID: row.Context, Artifacts: []a2a.Artifact{},
		Status: a2a.TaskStatus{State: row.State, Timestamp: row.StatusAt},
	}
}

// taskOf rebuilds a task from its events.
func taskOf(item *store.Item) (*a2a.Task, error) {
	t := &a2a.Task{ID: item.ID, ContextID: item.Context, Artifacts: []a2a.Artifact{}}
	var response a2a.StreamResponse
	decode := func(body []byte) error {
		response = a2a.StreamResponse{}
		return unreadable(item.ID, a2a.Unmarshal(body, &response))
	}
	for i := range item.Artifacts {
		if err := decode(item.Artifacts[i].Body); err != nil {
			return nil, err
		}
		t.Apply(&response)
	}
	for i := range item.Messages {
		if item.Messages[i].Kind == store.KindMessage {
			var m a2a.Message
			if err := a2a.Unmarshal(item.Messages[i].Body, &m); err != nil {
				return nil, unreadable(item.ID, err)
			}
			t.History = append(t.History, m)
			continue
		}
		if err := decode(item.Messages[i].Body); err != nil {
			return nil, err
		}
		if u := response.StatusUpdate; u != nil && u.Status.Message != nil {
			t.History = append(t.History, *u.Status.Message)
		}
	}
	if err := decode(item.Status.Body); err != nil {
		return nil, err
	}
	if response.StatusUpdate != nil {
		t.Status = response.StatusUpdate.Status
	}
	if t.Status.State.Terminal() && item.Unread() > 0 {
		// Messages that came too late for the agent to see them.
		t.Metadata = a2a.JSON(`{"unread":` + strconv.FormatInt(item.Unread(), 10) + `}`)
	}
	t.History = slices.Clip(t.History)
	return t, nil
}

// Subscribe returns a task as it is and then its events (A2A §3.1.6). It stays
// open until the task is terminal. With the id of the last event that a client
// has seen, it goes on after that one, without the task; that departs from the
// specification and has to be asked for.
func (e *Engine) Subscribe(ctx context.Context, scope store.Scope, spec *Spec, id, lastEventID string) (*Stream, error) {
	if e.Draining() {
		return nil, errDraining
	}
	watcher := e.watch(id)
	s, err := e.subscribe(ctx, watcher, scope, spec, id, lastEventID)
	if err != nil {
		watcher.close()
		return nil, err
	}
	return s, nil
}

func (e *Engine) subscribe(ctx context.Context, w *watcher, scope store.Scope, spec *Spec, id, lastEventID string) (*Stream, error) {
	s := &Stream{watcher: w, until: func(_ context.Context, state a2a.TaskState) (bool, error) {
		return state.Terminal(), nil
	}}
	if lastEventID != "" {
		row, err := e.findTask(ctx, scope, spec, id)
		if err != nil {
			return nil, err
		}
		seq, err := strconv.ParseInt(lastEventID, 10, 64)
		if err != nil || seq < 0 || seq > row.Seq {
			return nil, a2a.Invalid("Last-Event-ID", "%q is not the id of an event of this task", lastEventID)
		}
		w.from(row, seq)
		s.ended = row.State.Terminal() && seq == row.Seq
		return s, nil
	}
	item, err := e.read(ctx, scope, spec, id, store.Want{Messages: historyLimit(spec, nil), Artifacts: true})
	if err != nil {
		return nil, err
	}
	if item.State.Terminal() {
		return nil, &a2a.Error{
			Code:     a2a.CodeUnsupportedOperation,
			Message:  "The task is " + item.State.String() + " and has no more events; get it instead",
			Metadata: map[string]string{"taskId": id},
		}
	}
	t, err := taskOf(item)
	if err != nil {
		return nil, err
	}
	w.from(&item.Task, item.Seq)
	response := a2a.StreamResponse{Task: t}
	s.first = &Frame{Seq: item.Seq, Body: response.AppendJSON(nil)}
	return s, nil
}
