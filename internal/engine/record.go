package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Record is a task with its row, for operators.
type Record struct {
	Row  store.Task
	Task *a2a.Task
}

// RecordPage is a page of records.
type RecordPage struct {
	Records []Record
	Next    string // cursor of the next page; "": none
	Total   int    // over all pages
}

// Record returns a task with its row and its newest messages.
func (e *Engine) Record(ctx context.Context, scope store.Scope, id string, want store.Want) (*Record, error) {
	item, err := e.read(ctx, scope, nil, id, want)
	if err != nil {
		return nil, err
	}
	task, err := taskOf(item)
	if err != nil {
		return nil, err
	}
	return &Record{Row: item.Task, Task: task}, nil
}

// Records returns a page of tasks with their rows, newest status first. A
// cursor that does not belong to the query is an invalid page_token.
func (e *Engine) Records(ctx context.Context, scope store.Scope, q store.ListQuery) (*RecordPage, error) {
	page, err := e.store.List(ctx, scope, q)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, a2a.Invalid("page_token", "is not one that this query returned")
	}
	if err != nil {
		return nil, unavailable(err)
	}
	records := &RecordPage{Records: make([]Record, 0, len(page.Items)), Next: page.Next, Total: page.Total}
	for i := range page.Items {
		task, err := taskOf(&page.Items[i])
		if err != nil {
			return nil, err
		}
		if !q.Want.Artifacts {
			task.Artifacts = nil
		}
		records.Records = append(records.Records, Record{Row: page.Items[i].Task, Task: task})
	}
	return records, nil
}

// Log delivers every event of a task, messages included, in order.
type Log struct {
	watcher *watcher
	follow  bool
	until   int64 // the last event, when the log does not follow
	over    bool
}

// OpenLog returns the events of a task after a sequence number. A log that
// follows stays open until the task is terminal; another one ends with the
// newest event of now. Close it when done.
func (e *Engine) OpenLog(ctx context.Context, scope store.Scope, id string, after int64, follow bool) (*Log, error) {
	if follow && e.Draining() {
		return nil, errDraining
	}
	w := e.watch(id)
	row, err := e.findTask(ctx, scope, nil, id)
	switch {
	case err != nil:
	case after < 0 || after > row.Seq:
		err = a2a.Invalid("after", "%d is not the number of an event of this task", after)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	w.key, w.seq = row.Key, after
	w.topic.heard(row.Seq)
	l := &Log{watcher: w, follow: follow && !row.State.Terminal(), until: row.Seq}
	return l, nil
}

// StopAfter lets a log that does not follow end with the event of a number, and
// reports whether there are events after that.
func (l *Log) StopAfter(seq int64) (more bool) {
	if l.follow || l.until <= seq {
		return false
	}
	l.until = seq
	return true
}

// Next returns the next event, and io.EOF after the last one. ErrDraining says
// that the node is stopping. When ctx ends, its error is returned, and the log
// can be used again with another. The event must not be modified.
func (l *Log) Next(ctx context.Context) (*store.Event, error) {
	if l.over || !l.follow && l.watcher.seq >= l.until {
		return nil, io.EOF
	}
	event, err := l.watcher.next(ctx)
	if err != nil {
		return nil, err
	}
	l.over = l.follow && event.Kind == store.KindStatus && stateOf(event.Body).Terminal()
	return event, nil
}

// Ready reports whether Next has something to return without looking for it.
func (l *Log) Ready() bool { return len(l.watcher.ready) > 0 || l.over }

// Close frees what the log holds. It may be called more than once.
func (l *Log) Close() { l.watcher.close() }

// Stats counts the tasks of the node by agent and state.
func (e *Engine) Stats(ctx context.Context) ([]store.Stat, error) {
	stats, err := e.store.Stats(ctx, time.Time{})
	return stats, unavailable(err)
}

// Epoch returns the number under which the node is entered in its store, and
// since when. They are zero before Start.
func (e *Engine) Epoch() (int64, time.Time) { return e.epoch, e.since }
