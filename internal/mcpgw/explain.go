package mcpgw

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/upstream"
)

// candidate is a tool that a question may be about.
type candidate struct{ server, tool string }

// Explain says what becomes of calls of a tool: of each that has the name, since
// several servers may.
func (d *Directory) Explain(ctx context.Context, q policy.Question) ([]policy.Explanation, error) {
	s := d.current.Load()
	v := View{Endpoint{Server: q.Server, Set: q.Set}, q.Caller}
	if q.Server != "" && s.sources[q.Server] == nil || q.Set != "" && s.Config.Sets[q.Set] == nil {
		return nil, policy.ErrNoEndpoint
	}
	shown := d.view(ctx, s, v, groupTools, asFresh)
	list := []policy.Explanation{}
	if d.localTool(s, v, q.Tool) != nil {
		list = append(list, policy.Explanation{
			Tool: q.Tool, Name: q.Tool, Outcome: "allowed",
			Steps: []policy.Step{{Key: "mcp.sets." + q.Set + ".mode", Says: "search", Effect: "it is a tool of the gateway's own; what it calls is asked about by itself"}},
		})
	}
	for _, c := range s.candidates(shown, q.Tool) {
		list = append(list, d.explain(s, shown, v, c))
	}
	return list, nil
}

// candidates are the tools that a name may mean, in order.
func (s *shelf) candidates(shown *view, name string) []candidate {
	found := map[candidate]bool{}
	if it := shown.names[listTools][name]; it != nil {
		found[candidate{it.server, it.entry.name}] = true
	}
	consider := func(server, tool, exposed string) {
		if tool == name || server+"."+tool == name || exposed == name {
			found[candidate{server, tool}] = true
		}
	}
	for _, snap := range shown.snaps {
		for _, e := range snap.items {
			consider(snap.server, e.name, "")
		}
		for _, one := range snap.dropped {
			consider(snap.server, one.name, "")
		}
		if tool, named := strings.CutPrefix(name, snap.server+"."); named && tool != "" {
			consider(snap.server, tool, "")
		}
		if c := s.Config.Servers[snap.server]; c != nil {
			for tool, p := range c.Tools {
				exposed := ""
				if p != nil {
					exposed = p.Name
				}
				if !strings.Contains(tool, "*") {
					consider(snap.server, tool, exposed)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b candidate) int {
		return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.tool, b.tool))
	})
}

// explain explains one.
func (d *Directory) explain(s *shelf, shown *view, v View, c candidate) policy.Explanation {
	decision, steps := s.Policy.Explain(v.Caller, policy.Subject{Server: c.server, Kind: policy.Tools, Name: c.tool, Set: v.Endpoint.Set})
	x := policy.Explanation{Server: c.server, Tool: c.tool, Outcome: decision.String(), Reason: decision.Reason, Scopes: decision.Scopes, Missing: decision.Missing(v.Caller), Steps: steps}
	note := func(key, says, effect string) {
		x.Steps = append(x.Steps, policy.Step{Key: key, Says: says, Effect: effect})
	}
	var listed *entry
	for _, snap := range shown.snaps {
		if snap.server != c.server {
			continue
		}
		for _, e := range snap.items {
			if e.name == c.tool {
				listed = e
			}
		}
		for _, one := range snap.dropped {
			if one.name == c.tool && listed == nil {
				x.Outcome, x.Reason = "left out", one.reason
				note("the server's list", c.tool, "left out: "+one.reason)
				return x
			}
		}
		if listed == nil {
			x.Outcome = "not listed"
			effect := "the server does not list it"
			if snap.failed {
				effect = "the server cannot be reached, and did not list it before"
			}
			note("the server's list", "", effect)
			return x
		}
	}
	switch {
	case listed != nil && listed.held:
		x.Outcome, x.Reason = "held", "its definition has changed"
		note("mcp.servers."+c.server+".changed", "hold", fmt.Sprintf("hidden: its definition has changed; approve it with: handoff mcp approve %s %s", c.server, c.tool))
	case decision.Hidden:
		return x
	}
	for _, it := range shown.lists[listTools] {
		if it.server == c.server && it.entry.name == c.tool {
			x.Name = it.exposed
			note("mcp.names", string(s.Config.Names), "it is called "+it.exposed)
		}
	}
	for _, one := range shown.dropped {
		if one.server == c.server && one.name == c.tool {
			x.Outcome, x.Reason = "left out", one.reason
			note("mcp.conflicts", string(s.Config.Conflicts), "left out: "+one.reason)
		}
	}
	return x
}

// Seen returns the tools that a caller sees at an endpoint, or those of a name.
func (d *Directory) Seen(ctx context.Context, q policy.Question) ([]policy.SeenTool, error) {
	v := View{Endpoint{Server: q.Server, Set: q.Set}, q.Caller}
	if !d.Known(v) {
		return nil, policy.ErrNoEndpoint
	}
	s := d.current.Load()
	list := []policy.SeenTool{}
	for _, it := range d.view(ctx, s, v, groupTools, asFresh).lists[listTools] {
		if q.Tool != "" && q.Tool != it.exposed && q.Tool != it.entry.name {
			continue
		}
		seen := policy.SeenTool{Name: it.exposed, Server: it.server, Tool: it.entry.name, Description: it.description, Outcome: it.decision.String()}
		if q.Tool != "" {
			seen.Definition = it.text
		}
		list = append(list, seen)
	}
	return list, nil
}

// Reports returns what is known of the servers, by name, without asking them.
func (d *Directory) Reports() []policy.ServerReport {
	s := d.current.Load()
	list := []policy.ServerReport{}
	for _, name := range s.names {
		if name == AgentsServer && !s.shown(name) {
			continue
		}
		r := policy.ServerReport{Name: name, LeftOut: []policy.LeftOut{}}
		if d.opts.State != nil {
			if state, ok := d.opts.State(name); ok {
				r.State = stateOf(&state)
			}
		}
		src := s.sources[name]
		for _, count := range []struct {
			kind listKind
			n    *int
		}{{listTools, &r.Tools}, {listPrompts, &r.Prompts}, {listResources, &r.Resources}, {listTemplates, &r.Templates}} {
			snap := src.latest(count.kind)
			if snap == nil {
				continue
			}
			*count.n, r.Failing = len(snap.items), r.Failing || snap.failed
			if snap.received.After(r.Fetched) {
				r.Fetched = snap.received
			}
			for _, one := range snap.dropped {
				r.LeftOut = append(r.LeftOut, policy.LeftOut{Name: clean(one.name, maxTitle, false), Reason: one.reason})
			}
		}
		list = append(list, r)
	}
	return list
}

// latest returns what is known of a list: that for all, or that of some caller.
func (s *source) latest(kind listKind) (latest *snapshot) {
	s.mu.Lock()
	all := []*shelved{s.shared[kind]}
	for _, own := range s.private {
		all = append(all, own[kind])
	}
	s.mu.Unlock()
	for _, one := range all {
		if one == nil {
			continue
		}
		one.mu.Lock()
		if snap := one.snap; snap != nil && (latest == nil || snap.received.After(latest.received)) {
			latest = snap
		}
		one.mu.Unlock()
	}
	return latest
}

func stateOf(s *upstream.State) *policy.ServerState {
	state := &policy.ServerState{
		Transport: s.Transport, Era: s.Era, Revision: s.Revision, Up: s.Up, Since: s.Since, Circuit: string(s.Circuit),
		Calls: s.Calls, Failures: s.Failures, Sessions: s.Sessions, LastError: clean(s.LastError, maxError, false), ErrorAt: s.ErrorAt, Processes: []policy.ServerProcess{},
	}
	for _, p := range s.Processes {
		state.Processes = append(state.Processes, policy.ServerProcess(p))
	}
	return state
}

// maxError is how much of the text of a failure is told, in bytes.
const maxError = 1_000

// Held returns the definitions that wait for approval.
func (d *Directory) Held(ctx context.Context) ([]policy.Held, error) {
	if d.opts.Definitions == nil {
		return nil, nil
	}
	return d.opts.Definitions.Held(ctx)
}

// Approve takes the definition of a tool that waits. With a digest it has to be the
// one that does.
func (d *Directory) Approve(ctx context.Context, server, tool, digest, by string) error {
	if d.opts.Definitions == nil {
		return policy.ErrNotHeld
	}
	if err := d.opts.Definitions.Approve(ctx, server, tool, digest, by); err != nil {
		return err
	}
	d.Changed(server, mcp.NotifyTools)
	return nil
}
