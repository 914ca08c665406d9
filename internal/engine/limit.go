package engine

import (
	"fmt"
	"time"

	"handoff.example/handoff/agent"
)

// limitError says which limit ended a turn.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// overLimit counts a step against the limits of the turn.
func (r *run) overLimit(s *agent.Step, size int) error {
	limits := &r.spec.Limits
	if limits.Steps > 0 && r.emitted > limits.Steps && !s.Terminal() {
		return &limitError{fmt.Sprintf("The limit of %d steps in a turn was reached.", limits.Steps)}
	}
	if s.Wait != nil && limits.MaxWait > 0 && s.Wait.For > limits.MaxWait {
		return &limitError{fmt.Sprintf("The limit of %v of waiting was exceeded: the agent wanted to wait for %v.", limits.MaxWait, s.Wait.For)}
	}
	if limits.StateBytes > 0 && len(s.State) > limits.StateBytes {
		return &limitError{fmt.Sprintf("The limit of %d bytes of private state was exceeded.", limits.StateBytes)}
	}
	if s.Artifact != nil {
		r.artifactBytes += int64(size)
		if limits.ArtifactBytes > 0 && r.artifactBytes > limits.ArtifactBytes {
			return &limitError{fmt.Sprintf("The limit of %d bytes of artifacts in a turn was reached.", limits.ArtifactBytes)}
		}
	}
	return nil
}

// startTimers starts the clocks of a turn: how long a new task may stay
// invisible, and how long the agent may stay silent.
func (r *run) startTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.artifactBytes, r.skipped = 0, nil
	if r.row.Key == 0 {
		r.firstStep = time.AfterFunc(r.spec.FirstStepWait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.late = true
			r.change.Broadcast()
		})
	}
	if limit := r.spec.Limits.Total; limit > 0 {
		r.total = time.AfterFunc(limit, func() {
			r.halt(&limitError{fmt.Sprintf("The limit of %v on the time of a turn was reached.", limit)})
		})
	}
	if limit := r.spec.Limits.Inactivity; limit > 0 {
		r.inactivity = time.AfterFunc(limit, func() {
			r.halt(&limitError{fmt.Sprintf("The limit of %v without a sign of progress was reached.", limit)})
		})
	}
}

// touch says that the agent is alive.
func (r *run) touch() {
	if r.inactivity != nil {
		r.inactivity.Reset(r.spec.Limits.Inactivity)
	}
}

func (r *run) stopTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstStep != nil {
		r.firstStep.Stop()
	}
	if r.total != nil {
		r.total.Stop()
	}
	if r.inactivity != nil {
		r.inactivity.Stop()
		r.inactivity = nil
	}
}
