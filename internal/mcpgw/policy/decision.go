package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

// Decision is what the policy says of one tool for callers of one class. It is
// immutable.
type Decision struct {
	On     Subject
	Hidden bool // as if it were not there
	Denied bool
	Reason string   // of Denied; "": none in particular
	Scopes []string // that a call needs

	Rate        *config.MCPRate // nil: no limit
	Concurrency int             // 0: no limit
	Timeout     time.Duration   // 0: as the server has it
	Idempotency config.MCPIdempotency
	Idempotent  *bool // nil: not said
	Budget      *config.MCPBudget
	Task        bool
	TaskAfter   time.Duration
	HandleAfter time.Duration
	Name        string // "": as the server calls it
	Description string // "": as the server has it

	approve   config.MCPReason
	require   []condition
	approveIf []condition
}

// condition is a schema, and the key that it is written at.
type condition struct {
	at     string
	schema *Schema
}

// Decide decides on something of a server. The policies of the server, of what is
// asked about, and of the rules that are for the caller count in this order. What
// restricts who may see or call adds up: callers, role, scopes, require and
// approve_if. Of everything else the last that says something counts. What a list
// does not name is hidden whatever the rules say.
func (p *Policy) Decide(caller *auth.Principal, on Subject) *Decision {
	return p.decide(caller, on, nil)
}

// Explain is Decide, and says why.
func (p *Policy) Explain(caller *auth.Principal, on Subject) (*Decision, []Step) {
	var steps []Step
	d := p.decide(caller, on, func(key, says, effect string) {
		steps = append(steps, Step{key, says, effect})
	})
	return d, steps
}

// noted is told of each thing that counts; nil: nobody listens.
type noted func(key, says, effect string)

func (n noted) add(key, says, effect string) {
	if n != nil {
		n(key, says, effect)
	}
}

func (p *Policy) decide(caller *auth.Principal, on Subject, note noted) *Decision {
	d := &Decision{On: on, Scopes: slices.Clone(p.scopes)}
	if len(p.scopes) > 0 {
		note.add("mcp.scopes", strings.Join(p.scopes, " "), "a call needs these scopes")
	}
	sealed := false // hidden for good
	if s := p.servers[on.Server]; s != nil {
		l := s.kinds[on.Kind]
		found := l.find(on.Name, on.Also)
		switch {
		case found == nil && !l.all:
			sealed = true
			note.add(l.at, "a list", "hidden: it is not in the list")
		case found == nil:
			note.add(l.at, "not set", "shown: without a list everything is")
		default:
			note.add(found.at, "listed", "shown")
		}
		if s.base != nil {
			d.merge(s.base, caller, &sealed, note)
		}
		if found != nil {
			d.merge(found, caller, &sealed, note)
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		switch {
		case len(r.servers) > 0 && !matchesAny(r.servers, on.Server):
			note.add(r.at, "servers: "+strings.Join(r.servers, ", "), "is not for this server")
		case len(r.tools) > 0 && (on.Kind != Tools || !matchesAny(r.tools, on.Name)):
			note.add(r.at, "tools: "+strings.Join(r.tools, ", "), "is not for this")
		case !r.who.holds(caller):
			note.add(r.at, "callers, tenants, roles", "is not for this caller")
		default:
			note.add(r.at, "fits", "counts on top")
			d.merge(&r.layer, caller, &sealed, note)
		}
	}
	if on.Set != "" {
		switch s := p.sets[on.Set]; {
		case s == nil || !s.who.holds(caller):
			sealed = true
			note.add("mcp.sets."+on.Set+".callers", "", "hidden: the set is not there for this caller")
		case !s.has(&on):
			sealed = true
			note.add(s.at+"."+string(on.Kind), "", "hidden: it is not in the set")
		default:
			note.add(s.at+"."+string(on.Kind), "fits", "it is in the set")
		}
	}
	d.Hidden = d.Hidden || sealed
	if on.Kind != Tools {
		d.onlyForTools()
	}
	return d
}

// onlyForTools leaves out what has no meaning for prompts and resources.
func (d *Decision) onlyForTools() {
	d.approve, d.approveIf, d.require, d.Budget = "", nil, nil, nil
	d.Idempotency, d.Idempotent, d.Task, d.TaskAfter, d.HandleAfter = "", nil, false, 0, 0
}

// merge adds a policy.
func (d *Decision) merge(l *layer, caller *auth.Principal, sealed *bool, note noted) {
	c := l.policy
	if c.Hide != nil {
		d.Hidden = *c.Hide
		note.add(l.at+".hide", fmt.Sprint(*c.Hide), map[bool]string{true: "hidden", false: "shown"}[*c.Hide])
	}
	if who := l.who(); !who.everybody() {
		key, says := l.at+".callers", strings.Join(c.Callers, ", ")
		if len(c.Callers) == 0 {
			key, says = l.at+".role", string(c.Role)
		}
		if who.holds(caller) {
			note.add(key, says, "this caller may see it")
		} else {
			*sealed = true
			note.add(key, says, "hidden: this caller may not see it")
		}
	}
	if c.Deny.IsSet() {
		d.Denied, d.Reason = c.Deny.On(), c.Deny.Text()
		note.add(l.at+".deny", string(c.Deny), map[bool]string{true: "calls are refused", false: "calls are not refused"}[d.Denied])
	}
	for _, scope := range c.Scopes {
		if !slices.Contains(d.Scopes, scope) {
			d.Scopes = append(d.Scopes, scope)
		}
	}
	if len(c.Scopes) > 0 {
		note.add(l.at+".scopes", strings.Join(c.Scopes, " "), "a call needs these scopes")
	}
	if c.Rate != nil {
		d.Rate = c.Rate
		note.add(l.at+".rate", fmt.Sprintf("%v a second, %d at once", c.Rate.PerSecond, c.Rate.Burst), "counts")
	}
	if c.Concurrency > 0 {
		d.Concurrency = c.Concurrency
		note.add(l.at+".concurrency", fmt.Sprint(c.Concurrency), "counts")
	}
	if l.require != nil {
		d.require = append(d.require, condition{l.at + ".require", l.require})
		note.add(l.at+".require", "a schema", "the arguments have to fit it")
	}
	if c.Approve.IsSet() {
		d.approve = c.Approve
		note.add(l.at+".approve", string(c.Approve), map[bool]string{true: "a person has to approve each call", false: "nobody has to approve"}[c.Approve.On()])
	}
	if l.approveIf != nil {
		d.approveIf = append(d.approveIf, condition{l.at + ".approve_if", l.approveIf})
		note.add(l.at+".approve_if", "a schema", "a person has to approve calls whose arguments fit it")
	}
	if c.Idempotency != "" {
		d.Idempotency = c.Idempotency
		note.add(l.at+".idempotency", string(c.Idempotency), "counts")
	}
	if c.Idempotent != nil {
		d.Idempotent = c.Idempotent
		note.add(l.at+".idempotent", fmt.Sprint(*c.Idempotent), "counts")
	}
	if c.Budget != nil {
		d.Budget = c.Budget
		note.add(l.at+".budget", budgetText(c.Budget), "counts, by caller and day (UTC)")
	}
	d.mergeTimes(l, note)
	if c.Name != "" {
		d.Name = c.Name
		note.add(l.at+".name", c.Name, "is what it is called")
	}
	if c.Description != "" {
		d.Description = c.Description
		note.add(l.at+".description", c.Description, "is what it is for")
	}
}

func (d *Decision) mergeTimes(l *layer, note noted) {
	c := l.policy
	if c.Timeout > 0 {
		d.Timeout = time.Duration(c.Timeout)
		note.add(l.at+".timeout", d.Timeout.String(), "counts")
	}
	if c.Task != nil {
		d.Task, d.TaskAfter = true, time.Duration(c.Task.After)
		note.add(l.at+".task.after", d.TaskAfter.String(), "the call becomes a task")
	}
	if c.HandleAfter > 0 {
		d.HandleAfter = time.Duration(c.HandleAfter)
		note.add(l.at+".handle_after", d.HandleAfter.String(), "counts, for clients that know no tasks")
	}
}

func budgetText(b *config.MCPBudget) string {
	var parts []string
	if b.Calls > 0 {
		parts = append(parts, fmt.Sprintf("%d calls", b.Calls))
	}
	if b.Sum != nil {
		parts = append(parts, fmt.Sprintf("%s up to %v", b.Sum.Argument, b.Sum.Max))
	}
	return strings.Join(parts, ", ")
}

// Recorded reports whether the audit row of a call is committed before it is made.
func (d *Decision) Recorded(approve, key string) bool {
	return approve != "" || key != "" || d.Budget != nil
}

// Missing reports whether a caller lacks a scope that a call needs.
func (d *Decision) Missing(caller *auth.Principal) bool {
	for _, scope := range d.Scopes {
		if !granted(caller.Scopes, scope) {
			return true
		}
	}
	return false
}

// granted reports whether scopes contain one, or one above it: erp:* is above
// erp:read (AUT-11). erp by itself is not: what it means is known to nobody here.
func granted(scopes []string, need string) bool {
	for _, have := range scopes {
		if have == need || strings.HasSuffix(have, ":*") && strings.HasPrefix(need, have[:len(have)-1]) {
			return true
		}
	}
	return false
}
