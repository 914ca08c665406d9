package engine

import (
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// ticket is the right to run a turn on this node. It is taken before the turn is
// committed, so that nothing is promised that the node cannot do.
type ticket struct {
	e     *Engine
	slots []chan struct{} // the agent's own, then the node's
	held  bool            // otherwise the turn has to wait for them
}

var errBusy = &a2a.Error{
	Code:       a2a.CodeResourceExhausted,
	Message:    "Too many tasks are waiting for a free worker; try again later",
	RetryAfter: 5 * time.Second,
}

// admit gives out a ticket, or refuses one when the node is stopping or too much
// is waiting already. The ticket has to be handed to a run, or returned.
func (e *Engine) admit(spec *Spec) (*ticket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return nil, errDraining
	}
	t := &ticket{e: e}
	if quota := e.quota(spec); quota != nil {
		t.slots = append(t.slots, quota)
	}
	t.slots = append(t.slots, e.slots)
	if t.held = t.try(); !t.held {
		if e.waiting >= e.cfg.Queue {
			return nil, errBusy
		}
		e.waiting++
	}
	e.turns.Add(1)
	return t, nil
}

// quota returns the slots of an agent, nil when it has no limit of its own. A
// changed limit holds for the turns that begin after it. e.mu is held.
func (e *Engine) quota(spec *Spec) chan struct{} {
	n := spec.Limits.Concurrent
	if n == 0 {
		return nil
	}
	q := e.quotas[spec.ID]
	if cap(q) != n {
		q = make(chan struct{}, n)
		e.quotas[spec.ID] = q
	}
	return q
}

// try takes the slots if all of them are free.
func (t *ticket) try() bool {
	for i, slot := range t.slots {
		select {
		case slot <- struct{}{}:
		default:
			for _, taken := range t.slots[:i] {
				<-taken
			}
			return false
		}
	}
	return true
}

// wait takes the slots, the agent's own first, so that its backlog holds up
// nobody else. It reports false when halted is closed before.
func (t *ticket) wait(halted <-chan struct{}) bool {
	for i, slot := range t.slots {
		select {
		case slot <- struct{}{}:
		case <-halted:
			for _, taken := range t.slots[:i] {
				<-taken
			}
			return false
		}
	}
	t.arrive()
	t.held = true
	return true
}

// arrive counts a waiting turn out.
func (t *ticket) arrive() {
	t.e.mu.Lock()
	t.e.waiting--
	t.e.mu.Unlock()
}

// give returns the ticket.
func (t *ticket) give() {
	if t.held {
		for _, slot := range t.slots {
			<-slot
		}
	} else {
		t.arrive()
	}
	t.e.turns.Done()
}

// register makes a run known by its task. One that comes while the node is
// stopping is treated like those that were there before.
func (e *Engine) register(r *run) {
	e.mu.Lock()
	e.runs[r.id] = r
	draining, closing := e.draining, e.closing
	e.mu.Unlock()
	switch {
	case closing:
		r.halt(agent.ErrStopping)
	case draining && r.spec.OnInterrupt == InterruptResume:
		r.halt(agent.ErrHandedOver)
	}
}

func (e *Engine) unregister(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, r.id)
}
