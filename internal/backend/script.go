package backend

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// script is an agent that does what the first matching rule says.
type script struct{ rules []rule }

type rule struct {
	text      *regexp.Regexp
	messageID *regexp.Regexp
	skill     string
	part      a2a.PartKind // PartNone: any
	turn      int          // 0: any
	grant     string       // "": any
	outcome   string       // "": any
	do        []action
}

// Run carries out the first rule that matches the turn.
func (s *script) Run(ctx context.Context, t *agent.Turn) error {
	r := scriptTurn{ctx: ctx, turn: t, done: t.Done, scope: scope{
		Agent: t.Agent, TaskID: t.TaskID, ContextID: t.ContextID,
		Skill: t.Skill, Caller: t.Caller.Subject, Turn: t.Number, Attempt: t.Attempt,
	}}
	if t.Outcome != nil {
		r.scope.OutcomeState, r.scope.outcome = stateWord(t.Outcome.State), t.Outcome
	}
	if n := len(t.Messages); n > 0 {
		m := &t.Messages[n-1]
		r.scope.message, r.scope.MessageID, r.scope.Text = m, m.MessageID, m.Text()
	}
	for i := range s.rules {
		if s.rules[i].matches(&r) {
			return r.do(s.rules[i].do)
		}
	}
	return agent.Errorf("No rule of the agent's script matches this turn.")
}

// anyOutcome is the condition that a delegation is over, however it ended.
const anyOutcome = "over"

// stateWord is a state as scripts write it, such as completed.
func stateWord(s a2a.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

// matches reports whether all conditions hold, and keeps the groups of the text.
func (r *rule) matches(t *scriptTurn) bool {
	if r.turn != 0 && r.turn != t.turn.Number || r.skill != "" && r.skill != t.turn.Skill {
		return false
	}
	if r.grant != "" && (t.turn.Grant == nil || t.turn.Grant.Decision() != r.grant) {
		return false
	}
	if r.outcome != "" && (t.turn.Outcome == nil || r.outcome != anyOutcome && r.outcome != t.scope.OutcomeState) {
		return false
	}
	m := t.scope.message
	if m == nil {
		return r.part == a2a.PartNone && r.messageID == nil && r.text == nil
	}
	if r.part != a2a.PartNone && !slices.ContainsFunc(m.Parts, func(p a2a.Part) bool { return p.Kind == r.part }) {
		return false
	}
	if r.messageID != nil && !r.messageID.MatchString(m.MessageID) {
		return false
	}
	if r.text == nil {
		return true
	}
	t.scope.match = r.text.FindStringSubmatch(t.scope.Text)
	return t.scope.match != nil
}

// scriptTurn is a turn on its way through a rule.
type scriptTurn struct {
	ctx   context.Context
	turn  *agent.Turn
	scope scope
	done  int // steps that an earlier attempt has committed and this one has not met yet
}

// action is one entry of a rule's list.
type action interface{ run(t *scriptTurn) error }

func (t *scriptTurn) do(actions []action) error {
	for _, a := range actions {
		if err := a.run(t); err != nil {
			return err
		}
	}
	return nil
}

// emit is a step that is the same in every turn.
type emit struct{ step agent.Step }

func (e *emit) run(t *scriptTurn) error { return t.emit(ownStep(e.step)) }

// errLeftOut says that there is nothing to make a step of.
var errLeftOut = errors.New("there is nothing to say")

// emitTemplate is a step that has templates, or parts of the message.
type emitTemplate struct {
	build func(*scope) (agent.Step, error)
}

func (e *emitTemplate) run(t *scriptTurn) error {
	step, err := e.build(&t.scope)
	if errors.Is(err, errLeftOut) {
		return nil
	}
	if err == nil {
		err = step.Validate()
	}
	if err != nil {
		return agent.Errorf("The agent's script made a step that is not valid: %w", err)
	}
	return t.emit(step)
}

func (t *scriptTurn) emit(s agent.Step) error {
	if t.done > 0 {
		t.done--
		t.turn.Skip(s)
		return nil
	}
	return t.turn.Emit(s)
}

// ownStep copies what whoever gets the step may fill in, such as the id of an
// artifact, so that a step can serve many turns. Parts are shared: nobody
// changes them.
func ownStep(s agent.Step) agent.Step {
	switch {
	case s.Artifact != nil:
		s.Artifact = new(*s.Artifact)
	case s.Ask != nil:
		s.Ask = new(*s.Ask)
	case s.Authorize != nil:
		s.Authorize = new(*s.Authorize)
	case s.Delegate != nil:
		s.Delegate = new(*s.Delegate)
	}
	return s
}

// sleep waits, unless the context ends.
type sleep struct{ duration scalar }

func (s *sleep) run(t *scriptTurn) error {
	d, err := expandDuration(&s.duration, &t.scope)
	if err != nil {
		return err
	}
	return t.sleepUntil(time.Now().Add(d))
}

// sleepUntil waits, but not on the way to a step that has happened already.
func (t *scriptTurn) sleepUntil(moment time.Time) error {
	if t.done > 0 {
		return nil
	}
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

// deaf waits and does not hear a cancel.
type deaf struct{ duration scalar }

func (d *deaf) run(t *scriptTurn) error {
	duration, err := expandDuration(&d.duration, &t.scope)
	if err != nil || t.done > 0 {
		return err
	}
	time.Sleep(duration)
	return nil
}

// repeat does actions several times.
type repeat struct {
	times scalar
	every scalar
	do    []action
}

// maxTimes bounds a repeat whose times come from a message.
const maxTimes = 1_000_000

func (r *repeat) run(t *scriptTurn) error {
	times, err := expandTimes(&r.times, &t.scope)
	if err != nil {
		return err
	}
	every, err := expandDuration(&r.every, &t.scope)
	if err != nil {
		return err
	}
	outer := t.scope.I
	defer func() { t.scope.I = outer }()
	next := time.Now()
	for i := range times {
		switch {
		case every == 0:
		case t.done > 0:
			next = time.Now()
		default:
			next = next.Add(every)
			if err := t.sleepUntil(next); err != nil {
				return err
			}
		}
		t.scope.I = i + 1
		if err := t.do(r.do); err != nil {
			return err
		}
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
	}
	return nil
}

func expandTimes(s *scalar, sc *scope) (int, error) {
	text, err := s.expand(sc)
	if err != nil {
		return 0, agent.Errorf("times: %w", err)
	}
	return parseTimes(text)
}

func parseTimes(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > maxTimes {
		return 0, agent.Errorf("times: %q is not a number from 0 to %d", shorten(text, 40), maxTimes)
	}
	return n, nil
}

func expandDuration(s *scalar, sc *scope) (time.Duration, error) {
	text, err := s.expand(sc)
	if err != nil {
		return 0, agent.Errorf("duration: %w", err)
	}
	return parseDuration(text)
}
