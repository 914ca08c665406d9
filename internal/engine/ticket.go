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
	slots []*slots // the agent's own, then the node's
	party string   // whose turn it is
	held  bool     // otherwise the turn has to wait for them
}

// errBusy says that the queue is full, or what one party may have of it.
var errBusy = &a2a.Error{
	Code:       a2a.CodeResourceExhausted,
	Message:    "Too many tasks are waiting for a free worker; try again later",
	RetryAfter: 5 * time.Second,
	Metadata:   map[string]string{a2a.MetadataLimit: LimitQueue},
}

// partyOf returns for whom the capacity of the node is shared out: tenants, and
// callers that have none.
func partyOf(tenant, owner string) string {
	if tenant != "" {
		return "tenant " + tenant
	}
	return "owner " + owner
}

// admit gives out a ticket, or refuses one when the node is stopping or too much
// is waiting already: of all, or of this party. The ticket has to be handed to a
// run, or returned.
func (e *Engine) admit(spec *Spec, tenant, owner string) (*ticket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return nil, errDraining
	}
	t := &ticket{e: e, party: partyOf(tenant, owner)}
	if quota := e.quota(spec); quota != nil {
		t.slots = append(t.slots, quota)
	}
	t.slots = append(t.slots, e.slots)
	if t.held = t.try(); !t.held {
		if e.waiting >= e.cfg.Queue || e.parties[t.party] >= e.cfg.QueueShare {
			return nil, errBusy
		}
		e.waiting++
		e.parties[t.party]++
	}
	e.turns.Add(1)
	return t, nil
}

// quota returns the slots of an agent, nil when it has no limit of its own. A
// changed limit holds for the turns that begin after it. e.mu is held.
func (e *Engine) quota(spec *Spec) *slots {
	n := spec.Limits.Concurrent
	if n == 0 {
		return nil
	}
	q := e.quotas[spec.ID]
	if q == nil || q.size != n {
		q = newSlots(n)
		e.quotas[spec.ID] = q
	}
	return q
}

// try takes the slots if all of them are free.
func (t *ticket) try() bool {
	for i, s := range t.slots {
		if !s.try() {
			giveAll(t.slots[:i])
			return false
		}
	}
	return true
}

// wait takes the slots, the agent's own first, so that its backlog holds up
// nobody else. It reports false when halted is closed before.
func (t *ticket) wait(halted <-chan struct{}) bool {
	for i, s := range t.slots {
		if !s.wait(t.party, halted) {
			giveAll(t.slots[:i])
			return false
		}
	}
	t.arrive()
	t.held = true
	return true
}

func giveAll(taken []*slots) {
	for _, s := range taken {
		s.give()
	}
}

// arrive counts a waiting turn out.
func (t *ticket) arrive() {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	t.e.waiting--
	if t.e.parties[t.party]--; t.e.parties[t.party] == 0 {
		delete(t.e.parties, t.party)
	}
}

// give returns the ticket.
func (t *ticket) give() {
	if t.held {
		giveAll(t.slots)
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
