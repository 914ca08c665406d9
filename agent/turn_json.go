package agent

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// TurnVersion is the version of the JSON form of a turn. It rises when the
// meaning of a key changes; new keys may appear without that.
const TurnVersion = 1

// TurnHistory is how many messages of the history the JSON of a turn holds, the
// newest ones.
const TurnHistory = 100

// TurnData is what the JSON of a turn says, as ParseTurn reads it.
type TurnData struct {
	Info
	History   []a2a.Message // oldest first, the newest TurnHistory
	Artifacts []a2a.Artifact
}

// AppendTurnJSON appends the turn as programs and webhooks get it. Of a longer
// history only the newest TurnHistory messages go out. TurnSchema describes the
// result; empty values are absent.
func AppendTurnJSON(dst []byte, t *Turn, history []a2a.Message, artifacts []a2a.Artifact) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.number("version", TurnVersion)
	w.key("agent")
	w.dst = appendString(w.dst, t.Agent)
	w.key("task")
	w.dst = appendString(w.dst, t.TaskID)
	w.key("context")
	w.dst = appendString(w.dst, t.ContextID)
	w.number("turn", t.Number)
	w.number("attempt", t.Attempt)
	w.number("done", t.Done)
	w.key("cause")
	w.dst = appendString(w.dst, string(t.Cause))
	w.messages("messages", t.Messages)
	if t.Grant != nil {
		w.key("grant")
		w.dst = t.Grant.appendJSON(w.dst)
	}
	if t.Outcome != nil {
		w.key("outcome")
		w.dst = t.Outcome.appendJSON(w.dst)
	}
	w.messages("history", history[max(0, len(history)-TurnHistory):])
	if len(artifacts) > 0 {
		w.key("artifacts")
		w.dst = appendList(w.dst, artifacts, func(dst []byte, a *a2a.Artifact) []byte { return a.AppendJSON(dst) })
	}
	w.raw("state", t.State)
	if c := &t.Caller; c.Tenant != "" || c.Subject != "" || c.Issuer != "" || len(c.Scopes) > 0 {
		w.key("caller")
		w.dst = c.appendJSON(w.dst)
	}
	w.texts("accept", t.Accept)
	w.text("skill", t.Skill)
	if len(t.Skills) > 0 {
		w.key("skills")
		w.dst = appendList(w.dst, t.Skills, func(dst []byte, s *a2a.AgentSkill) []byte { return s.AppendJSON(dst) })
	}
	w.texts("extensions", t.Extensions)
	w.raw("metadata", t.Metadata)
	w.texts("references", t.References)
	w.time("deadline", t.Deadline)
	w.text("traceparent", t.Traceparent)
	return append(w.dst, '}')
}

func (w *objectWriter) number(name string, n int) {
	w.key(name)
	w.dst = strconv.AppendInt(w.dst, int64(n), 10)
}

func (w *objectWriter) messages(name string, list []a2a.Message) {
	if len(list) > 0 {
		w.key(name)
		w.dst = appendList(w.dst, list, func(dst []byte, m *a2a.Message) []byte { return m.AppendJSON(dst) })
	}
}

// Decisions on a grant request, as JSON and scripts name them.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// Decision returns DecisionApprove or DecisionDeny.
func (g *Grant) Decision() string {
	if g.Approved {
		return DecisionApprove
	}
	return DecisionDeny
}

func (g *Grant) appendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.text("id", g.ID)
	w.text("operation", g.Operation)
	w.text("decision", g.Decision())
	w.text("note", g.Note)
	w.raw("data", g.Data)
	return append(w.dst, '}')
}

func (o *Outcome) appendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.text("delegation", o.Delegation)
	w.text("to", o.To)
	w.text("state", o.State.String())
	if o.Task != nil {
		w.key("task")
		w.dst = o.Task.AppendJSON(w.dst)
	}
	return append(w.dst, '}')
}

func (c *Caller) appendJSON(dst []byte) []byte {
	w := objectWriter{dst: append(dst, '{'), start: true}
	w.text("tenant", c.Tenant)
	w.text("subject", c.Subject)
	w.text("issuer", c.Issuer)
	w.texts("scopes", c.Scopes)
	return append(w.dst, '}')
}

// ParseTurn reads the JSON of a turn, for agents that are programs or webhooks
// written in Go. Keys that it does not know are skipped, as every reader of a
// turn has to do. Another version than TurnVersion is an error.
func ParseTurn(data []byte) (*TurnData, error) {
	o, err := parseObject("", data)
	if err != nil {
		return nil, fmt.Errorf("parse turn: %w", err)
	}
	if v := o.number("version"); v != TurnVersion {
		return nil, fmt.Errorf("parse turn: version is %d, want %d", v, TurnVersion)
	}
	t := &TurnData{Info: Info{
		Agent:       o.string("agent"),
		TaskID:      o.string("task"),
		ContextID:   o.string("context"),
		Number:      o.number("turn"),
		Attempt:     o.number("attempt"),
		Done:        o.number("done"),
		Cause:       Cause(o.string("cause")),
		State:       o.take("state"),
		Accept:      o.strings("accept"),
		Skill:       o.string("skill"),
		Extensions:  o.strings("extensions"),
		Metadata:    o.optional("metadata"),
		References:  o.strings("references"),
		Deadline:    o.time("deadline"),
		Traceparent: o.string("traceparent"),
	}}
	t.Messages = parseObjects[a2a.Message](o, "messages")
	t.History = parseObjects[a2a.Message](o, "history")
	t.Artifacts = parseObjects[a2a.Artifact](o, "artifacts")
	t.Skills = parseObjects[a2a.AgentSkill](o, "skills")
	t.Grant = parseGrant(o)
	t.Outcome = parseOutcome(o)
	t.Caller = parseCaller(o)
	if o.err != nil {
		return nil, fmt.Errorf("parse turn: %w", o.err)
	}
	return t, nil
}

func parseGrant(o *object) *Grant {
	value := o.optional("grant")
	if value == nil {
		return nil
	}
	inner, err := parseObject("grant", value)
	if err != nil {
		o.fail("grant", err)
		return nil
	}
	decision := inner.string("decision")
	g := &Grant{
		ID:        inner.string("id"),
		Operation: inner.string("operation"),
		Approved:  decision == DecisionApprove,
		Note:      inner.string("note"),
		Data:      inner.take("data"),
	}
	if !g.Approved && decision != DecisionDeny {
		inner.fail("decision", errors.New("want approve or deny"))
	}
	if inner.err != nil && o.err == nil {
		o.err = inner.err
	}
	return g
}

func parseOutcome(o *object) *Outcome {
	value := o.optional("outcome")
	if value == nil {
		return nil
	}
	inner, err := parseObject("outcome", value)
	if err != nil {
		o.fail("outcome", err)
		return nil
	}
	out := &Outcome{Delegation: inner.string("delegation"), To: inner.string("to")}
	state, known := a2a.ParseTaskState(inner.string("state"))
	if !known {
		inner.fail("state", errors.New("want a state such as TASK_STATE_COMPLETED"))
	}
	out.State = state
	if task := inner.optional("task"); task != nil {
		out.Task = &a2a.Task{}
		if err := a2a.Unmarshal(task, out.Task); err != nil {
			inner.fail("task", fieldError(err))
		}
	}
	if inner.err != nil && o.err == nil {
		o.err = inner.err
	}
	return out
}

func parseCaller(o *object) Caller {
	value := o.optional("caller")
	if value == nil {
		return Caller{}
	}
	inner, err := parseObject("caller", value)
	if err != nil {
		o.fail("caller", err)
		return Caller{}
	}
	c := Caller{
		Tenant:  inner.string("tenant"),
		Subject: inner.string("subject"),
		Issuer:  inner.string("issuer"),
		Scopes:  inner.strings("scopes"),
	}
	if inner.err != nil && o.err == nil {
		o.err = inner.err
	}
	return c
}

func parseObjects[T any, P interface {
	*T
	a2a.Decodable
}](o *object, name string) []T {
	value := o.optional(name)
	if value == nil {
		return nil
	}
	values, err := parseArray(o.field(name), value)
	if err != nil {
		o.err = err
		return nil
	}
	list := make([]T, len(values))
	for i, v := range values {
		if err := a2a.Unmarshal(v, P(&list[i])); err != nil {
			o.fail(fmt.Sprintf("%s[%d]", name, i), fieldError(err))
			return nil
		}
	}
	return list
}

func (o *object) number(name string) int {
	v := o.optional(name)
	if v == nil {
		return 0
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || v.Kind() != jsontext.Kind('0') {
		o.fail(name, errors.New("want a whole number"))
	}
	return n
}
