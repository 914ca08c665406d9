package engine

import (
	"fmt"
	"time"

	"handoff.example/handoff/agent"
)

// limitError says which limit ended a turn.
type limitError struct {
	limit string // its name, for metrics
	text  string
}

func (e *limitError) Error() string { return e.text }

// overLimit counts a step against the limits of the turn.
func (r *run) overLimit(s *agent.Step, size int) error {
	limits := &r.spec.Limits
	if limits.Steps > 0 && r.emitted > limits.Steps && !s.Terminal() {
		return &limitError{"steps", fmt.Sprintf("The limit of %d steps in a turn was reached.", limits.Steps)}
	}
	if s.Wait != nil && limits.MaxWait > 0 && s.Wait.For > limits.MaxWait {
		return &limitError{"wait", fmt.Sprintf("The limit of %v of waiting was exceeded: the agent wanted to wait for %v.", limits.MaxWait, s.Wait.For)}
	}
	if limits.StateBytes > 0 && len(s.State) > limits.StateBytes {
		return &limitError{"state", fmt.Sprintf("The limit of %d bytes of private state was exceeded.", limits.StateBytes)}
	}
	if s.Artifact != nil {
		r.artifactBytes += int64(size)
		if limits.ArtifactBytes > 0 && r.artifactBytes > limits.ArtifactBytes {
			return &limitError{"artifacts", fmt.Sprintf("The limit of %d bytes of artifacts in a turn was reached.", limits.ArtifactBytes)}
		}
	}
	return nil
}

// startTimers starts the clocks of a turn: how long a new task may stay
// invisible, how long the agent may stay silent, and how long it may take. Most
// turns are over before any of them matters, so there is one timer for the
// first of them, and the others follow when it fires.
func (r *run) startTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.artifactBytes, r.skipped = 0, nil
	r.began = time.Now()
	if wait := r.nextClock(); wait > 0 {
		r.clock = time.AfterFunc(wait, r.tick)
	}
}

// nextClock returns how long it is until the next of the clocks; 0 is never.
func (r *run) nextClock() time.Duration {
	now, next := time.Now(), time.Duration(0)
	sooner := func(at time.Time) {
		if d := max(at.Sub(now), 1); next == 0 || d < next {
			next = d
		}
	}
	if r.row.Key == 0 && !r.late {
		sooner(r.began.Add(r.spec.FirstStepWait))
	}
	if limit := r.spec.Limits.Total; limit > 0 {
		sooner(r.began.Add(limit))
	}
	if limit := r.spec.Limits.Inactivity; limit > 0 {
		sooner(r.alive().Add(limit))
	}
	return next
}

// tick does what the clocks say.
func (r *run) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clock == nil {
		return // stopped
	}
	now, limits := time.Now(), &r.spec.Limits
	if r.row.Key == 0 && !r.late && now.Sub(r.began) >= r.spec.FirstStepWait {
		r.late = true
		r.change.Broadcast()
	}
	switch {
	case limits.Total > 0 && now.Sub(r.began) >= limits.Total:
		r.stopFor(&limitError{"total", fmt.Sprintf("The limit of %v on the time of a turn was reached.", limits.Total)})
		return
	case limits.Inactivity > 0 && now.Sub(r.alive()) >= limits.Inactivity:
		r.stopFor(&limitError{"inactivity", fmt.Sprintf("The limit of %v without a sign of progress was reached.", limits.Inactivity)})
		return
	}
	if wait := r.nextClock(); wait > 0 {
		r.clock.Reset(wait)
	}
}

// stopFor halts the turn; r.mu is held.
func (r *run) stopFor(reason error) {
	if r.halted == nil {
		r.halted = reason
	}
	r.cancel(reason)
	r.change.Broadcast()
}

// alive returns when the agent last gave a sign of progress.
func (r *run) alive() time.Time {
	if r.lastStep.After(r.began) {
		return r.lastStep
	}
	return r.began
}

// touch says that the agent is alive.
func (r *run) touch() {
	if r.spec.Limits.Inactivity > 0 {
		r.lastStep = time.Now()
	}
}

func (r *run) stopTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clock != nil {
		r.clock.Stop()
		r.clock = nil
	}
}
