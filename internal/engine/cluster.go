package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/store"
)

// Bus carries hints to the other nodes of the store. Publish must not block.
type Bus interface {
	Publish(h bus.Hint)
}

// The nodes of one store tell each other by hints how far a task has got, and
// ask the store now and then for what a hint would have told. So a hint that is
// lost, comes twice, or too late costs the time of a poll and nothing else.
const (
	poll      = time.Second // between questions to the store about what this node has to know
	pollBatch = 500         // tasks in one question
)

// news is what this node has to ask the store about.
type news struct {
	mu    sync.Mutex
	tasks map[string]bool // that run here and that others have written to
	all   bool            // everything that is watched or runs here
	wake  chan struct{}
}

func newNews() *news { return &news{tasks: map[string]bool{}, wake: make(chan struct{}, 1)} }

func (n *news) add(all bool, tasks ...string) {
	n.mu.Lock()
	for _, id := range tasks {
		n.tasks[id] = true
	}
	n.all = n.all || all
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() (all bool, tasks []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.tasks {
		tasks = append(tasks, id)
	}
	clear(n.tasks)
	all, n.all = n.all, false
	return all, tasks
}

// Heard takes hints of other nodes. It does not block.
func (e *Engine) Heard(hints []bus.Hint) {
	var own []string
	for i := range hints {
		h := &hints[i]
		e.hub.heard(h.Task, h.Seq)
		r := e.run(h.Task)
		switch {
		case r == nil:
		case h.Seq == wakeHint:
			r.tell()
		case r.behind(h.Seq):
			own = append(own, h.Task)
		}
	}
	if len(own) > 0 {
		e.news.add(false, own...)
	}
}

// Restored says that hints may have been lost. What they would have told is
// asked for at once.
func (e *Engine) Restored() { e.news.add(true) }

// published tells the watchers of a task, here and on other nodes, about
// committed events.
func (e *Engine) published(task string, events []store.Event) {
	if len(events) == 0 {
		return
	}
	e.hub.publish(task, events)
	if e.cfg.Bus != nil {
		e.cfg.Bus.Publish(bus.Hint{Task: task, Seq: events[len(events)-1].Seq})
	}
}

// listen asks the store about what other nodes may have changed, until ctx ends.
func (e *Engine) listen(ctx context.Context) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		var all bool
		var tasks []string
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-e.news.wake:
			all, tasks = e.news.take()
		}
		if all {
			tasks = e.concerns()
		}
		e.ask(ctx, tasks)
	}
}

// Elsewhere returns the attempt of a task's turn that another node runs, or that
// is to be taken over; 0 when the turn is over.
func (e *Engine) Elsewhere(ctx context.Context, task string, turn int) (attempt int, err error) {
	row, err := e.store.Task(ctx, nodeScope, task)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil || row.State.Terminal() || row.Lease == 0 || row.Turn != turn {
		return 0, err
	}
	return row.Attempt, nil
}

// concerns returns the tasks that run or are watched here.
func (e *Engine) concerns() []string {
	ids := e.hub.tasks()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.runs {
		if r.key() != 0 && e.hub.topic(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// ask reads the rows of tasks, and brings what they tell to watchers and runs.
func (e *Engine) ask(ctx context.Context, tasks []string) {
	for len(tasks) > 0 && ctx.Err() == nil {
		batch := tasks[:min(pollBatch, len(tasks))]
		tasks = tasks[len(batch):]
		rows, err := e.store.Tasks(ctx, nodeScope, batch)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
				e.log.WarnContext(ctx, "News of other nodes could not be read", "error", err)
			}
			return
		}
		found := make(map[string]bool, len(rows))
		for i := range rows {
			row := &rows[i]
			found[row.ID] = true
			e.hub.heard(row.ID, row.Seq)
			if r := e.run(row.ID); r != nil {
				r.compare(row)
			}
		}
		for _, id := range batch {
			if !found[id] {
				e.hub.gone(id)
			}
		}
	}
}

// behind reports whether somebody else has written to the task since.
func (r *run) behind(seq int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row.Key != 0 && seq > r.row.Seq
}

// compare stops the run when the row of its task says that another node has
// ended the task or taken it over.
func (r *run) compare(row *store.Task) {
	r.mu.Lock()
	mine := r.row
	r.mu.Unlock()
	newer := row.Turn > mine.Turn || row.Turn == mine.Turn &&
		(row.Attempt > mine.Attempt || row.Lease != 0 && row.Lease != mine.Lease)
	if row.Messages > mine.Messages {
		r.tell()
	}
	switch {
	case mine.Key == 0 || row.Lease == r.e.epoch || row.Turn < mine.Turn:
	case row.State == a2a.StateCanceled:
		r.halt(agent.ErrCanceled)
	case row.State.Terminal() || newer:
		r.halt(agent.ErrTakenOver)
	}
}
