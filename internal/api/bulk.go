package api

import (
	"strconv"
	"sync"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// Bounds of changes of many tasks.
const (
	maxBulk  = 200
	bulkWide = 8 // at once
)

// bulkResult is what became of many tasks.
type bulkResult struct {
	Done    int           `json:"done"`
	Failed  int           `json:"failed"`
	Results []bulkOutcome `json:"results"`
}

// bulkOutcome is what became of one of them.
type bulkOutcome struct {
	ID    string     `json:"id"`
	OK    bool       `json:"ok"`
	State string     `json:"state,omitempty"`
	Task  string     `json:"task,omitempty"` // that does the work again
	Error *bulkError `json:"error,omitzero"`
}

type bulkError struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// bulk does something to each of the tasks that the body names.
func (c *call) bulk(do func(id string) (*a2a.Task, error)) (*bulkResult, error) {
	var q struct {
		IDs []string `json:"ids"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	if len(q.IDs) == 0 || len(q.IDs) > maxBulk {
		return nil, a2a.Invalid("ids", "has to name 1 to %d tasks; send the others in another request", maxBulk)
	}
	answer := &bulkResult{Results: make([]bulkOutcome, len(q.IDs))}
	errs := make([]error, len(q.IDs))
	first := map[string]int{}
	var running sync.WaitGroup
	places := make(chan struct{}, bulkWide)
	for i, id := range q.IDs {
		r := &answer.Results[i]
		r.ID = clip(id, a2a.MaxIDLength)
		if len(id) > a2a.MaxIDLength || id == "" {
			errs[i] = a2a.TaskNotFound(r.ID)
			continue
		}
		if at, twice := first[id]; twice {
			errs[i] = a2a.Invalid("ids", "names this task twice; it is number %d already", at+1)
			continue
		}
		first[id] = i
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			t, err := do(id)
			if err != nil {
				errs[i] = err
				return
			}
			r.OK = true
			if t != nil {
				r.State = t.Status.State.String()
				if t.ID != id {
					r.Task = t.ID
				}
			}
		})
	}
	running.Wait()
	for i, err := range errs {
		c.auditTask(answer.Results[i].ID, err)
		if err == nil {
			answer.Done++
			continue
		}
		answer.Failed++
		e := c.protocolError(err)
		answer.Results[i].Error = &bulkError{e.Code.Status(), e.Message}
	}
	c.target = strconv.Itoa(answer.Done) + " of " + strconv.Itoa(len(q.IDs)) + " tasks"
	return answer, nil
}

// cancelTasks ends many tasks.
func (c *call) cancelTasks() (any, error) {
	by := engine.ByCaller
	if c.caller.Role >= auth.RoleOperator {
		by = engine.ByOperator
	}
	scope := c.reach()
	return c.bulk(func(id string) (*a2a.Task, error) { return c.h.opts.Engine.Cancel(c.context(), scope, nil, id, by) })
}

// retryTasks does the work of many terminal tasks again, in new ones.
func (c *call) retryTasks() (any, error) {
	scope := c.reach()
	return c.bulk(func(id string) (*a2a.Task, error) { return c.h.opts.Engine.Retry(c.context(), scope, id) })
}

// deleteTasks removes many terminal tasks.
func (c *call) deleteTasks() (any, error) {
	scope := c.reach()
	return c.bulk(func(id string) (*a2a.Task, error) { return nil, c.h.opts.Engine.Delete(c.context(), scope, id) })
}
