package mcpgw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
)

// item is something of a server as callers of one class see it at an endpoint.
type item struct {
	*entry
	server   string
	exposed  string
	text     jsontext.Value // the definition, with the name that it has here
	decision *policy.Decision
	trusted  bool // the server's annotations are believed
}

// view is what callers of one class see of a group at an endpoint. It is immutable.
type view struct {
	snaps []*snapshot
	lists [listKinds][]*item // in the order of their names (ORD-01)
	names [listKinds]map[string]*item
	// dropped are those that are left out for their names.
	dropped []dropped
	// private says that it is for the caller only, stale which servers are down, and
	// blind that there is one of which nothing is known.
	private bool
	stale   []string
	blind   bool
	shaped  bool // by policy, so that others may see something else
}

// due reports whether something in the view could be fetched anew.
func (v *view) due(now time.Time) bool {
	return slices.ContainsFunc(v.snaps, func(s *snapshot) bool { return s.failed || !now.Before(s.expires) })
}

// ttl returns how long the view is fresh (CCH-12).
func (v *view) ttl(now time.Time) time.Duration {
	ttl := maxTTL
	for _, s := range v.snaps {
		left := s.expires.Sub(now)
		if s.failed {
			left = staleTTL
		}
		ttl = min(ttl, left)
	}
	return max(ttl, 0)
}

// build makes a view.
func (d *Directory) build(s *shelf, v View, g group, snaps []*snapshot) *view {
	made := &view{snaps: snaps, shaped: s.Policy.TellsCallersApart()}
	var all [listKinds][]*item
	for _, snap := range snaps {
		made.private = made.private || snap.private
		if snap.failed {
			if !slices.Contains(made.stale, snap.server) {
				made.stale = append(made.stale, snap.server)
			}
			made.blind = made.blind || !snap.known
		}
		all[snap.kind] = append(all[snap.kind], d.shown(s, v, snap)...)
	}
	for kind := range all {
		made.name(s, v.Endpoint, listKind(kind), all[kind])
	}
	return made
}

// shown returns what a caller may see of a list of a server.
func (d *Directory) shown(s *shelf, v View, snap *snapshot) []*item {
	c := s.Config.Servers[snap.server]
	handlesOnly := snap.server == AgentsServer && (!s.Config.Agents.Any() || v.Endpoint.Server != "" && v.Endpoint.Server != AgentsServer)
	var list []*item
	for _, e := range snap.items {
		isHandle := snap.server == AgentsServer && slices.Contains(handleTools, e.name)
		if e.held || handlesOnly && !(isHandle && s.handled) {
			continue
		}
		on := policy.Subject{Server: snap.server, Kind: kindOf(snap.kind), Name: e.name, Set: v.Endpoint.Set}
		if isHandle && s.handled {
			on.Set = "" // they belong to every set
		}
		decision := s.Policy.Decide(v.Caller, on)
		if decision.Hidden {
			continue
		}
		list = append(list, &item{entry: e, server: snap.server, text: e.text, decision: decision, trusted: c != nil && c.Trusted})
	}
	return list
}

func kindOf(kind listKind) policy.Kind {
	switch kind {
	case listPrompts:
		return policy.Prompts
	case listResources, listTemplates:
		return policy.Resources
	}
	return policy.Tools
}

// name decides what the items of a list are called, and puts them in order.
func (v *view) name(s *shelf, e Endpoint, kind listKind, items []*item) {
	v.names[kind] = map[string]*item{}
	// Who is asked first has the name where two come to have one.
	slices.SortStableFunc(items, func(a, b *item) int { return s.byPriority(a.server, b.server) })
	if kind == listTools || kind == listPrompts {
		items = v.exposed(s, e, items)
	} else {
		items = v.addressed(s, items)
	}
	for _, it := range items {
		switch other := v.names[kind][it.exposed]; {
		case other != nil:
			v.drop(it, fmt.Sprintf("%s of %s has the name %s", other.entry.name, other.server, it.exposed))
		case len(it.exposed) > maxName && kind <= listPrompts:
			v.drop(it, fmt.Sprintf("its name here, %s, is longer than %d bytes", it.exposed, maxName))
		default:
			it.define()
			v.names[kind][it.exposed] = it
		}
	}
	v.lists[kind] = slices.SortedFunc(maps.Values(v.names[kind]), func(a, b *item) int { return cmp.Compare(a.exposed, b.exposed) })
}

func (v *view) drop(it *item, reason string) {
	v.dropped = append(v.dropped, dropped{it.server, it.entry.name, reason})
}

// exposed names tools or prompts (TOL-02).
func (v *view) exposed(s *shelf, e Endpoint, items []*item) []*item {
	count := map[string]int{}
	for _, it := range items {
		it.exposed = cmp.Or(it.decision.Name, it.entry.name)
		if it.server != AgentsServer {
			count[it.exposed]++
			continue
		}
		if !slices.Contains(config.MCPReserved, it.exposed) {
			count[it.exposed]++
		}
	}
	first := map[string]bool{}
	return slices.DeleteFunc(items, func(it *item) bool {
		bare := it.exposed
		own := it.server == AgentsServer
		reserved := slices.Contains(config.MCPReserved, bare)
		switch {
		case own && reserved:
			return false
		case reserved && e.Server == "":
			it.exposed = it.server + "." + bare
			return false
		case reserved && (slices.Contains(handleTools, bare) && s.handled):
			v.drop(it, "it has the name of a tool of the node")
			return true
		case e.Server == "" && it.decision.Name == "" && s.poses(it.server, bare):
			it.exposed = it.server + "." + bare
			return false
		case e.Server != "" || own && s.Config.Names == config.MCPNamesAlways:
			return false
		case s.Config.Names == config.MCPNamesAlways:
			it.exposed = it.server + "." + bare
			return false
		case count[bare] < 2:
			return false
		}
		switch s.Config.Conflicts {
		case config.MCPConflictsFail:
			v.drop(it, "another server has the name "+bare+" too")
			return true
		case config.MCPConflictsPriority:
			if first[bare] {
				v.drop(it, "a server that comes before has the name "+bare+" too")
				return true
			}
			first[bare] = true
		default:
			it.exposed = it.server + "." + bare
		}
		return false
	})
}

// poses reports whether a name is one that a tool of another server would have.
func (s *shelf) poses(server, name string) bool {
	of, _, dotted := strings.Cut(name, ".")
	return dotted && of != server && (s.Config.Servers[of] != nil || of == AgentsServer)
}

// addressed names resources or templates: by what they are. Of two servers with one
// URI the first is asked.
func (v *view) addressed(s *shelf, items []*item) []*item {
	servers := map[string]int{}
	for _, it := range items {
		it.exposed = it.entry.name
		servers[it.exposed]++
	}
	return slices.DeleteFunc(items, func(it *item) bool {
		if servers[it.exposed] < 2 || s.Config.Conflicts != config.MCPConflictsFail {
			return false
		}
		v.drop(it, "another server has the same one too")
		return true
	})
}

// define makes the definition with the name and the description that it has here.
func (it *item) define() {
	if it.kind > listPrompts {
		return
	}
	if it.exposed != it.entry.name {
		it.text = withMember(it.text, "name", quote(it.exposed))
	}
	if text := it.decision.Description; text != "" {
		it.text = withMember(it.text, "description", quote(text))
		it.entry = it.described(text)
	}
}

// described returns the entry with another description, for those who search.
func (it *item) described(text string) *entry {
	other := *it.entry
	other.description = text
	return &other
}

// find returns what a name stands for; nil: nothing. A URI that nobody has listed is
// that of the first template that covers it.
func (v *view) find(method, name string) *item {
	switch method {
	case mcp.MethodCallTool:
		return v.names[listTools][name]
	case mcp.MethodGetPrompt:
		return v.names[listPrompts][name]
	case mcp.MethodComplete:
		return cmp.Or(v.names[listPrompts][name], v.names[listTemplates][name], v.names[listResources][name])
	}
	if it := v.names[listResources][name]; it != nil {
		return it
	}
	return nil
}

// covering returns the templates that cover a URI, those of the server that is
// asked first before others. Policy decides on the URI, so that a template of which
// only some URIs are shown is among them too.
func (v *view) covering(s *shelf, uri string) []*item {
	var list []*item
	for _, snap := range v.snaps {
		if snap.kind != listTemplates {
			continue
		}
		for _, e := range snap.items {
			if e.template.covers(uri) {
				list = append(list, &item{entry: e, server: snap.server})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *item) int { return s.byPriority(a.server, b.server) })
	return list
}

// covered returns a resource that no server lists but a template covers. Each
// spelling of its URI has to be allowed, and none may be one that is hidden.
func (d *Directory) covered(s *shelf, shown *view, v View, uri string) *item {
	all, ok := spellings(uri)
	if !ok || !strings.Contains(uri, ":") {
		return nil
	}
	for _, of := range shown.covering(s, uri) {
		var decision *policy.Decision
		for _, spelling := range all {
			one := s.Policy.Decide(v.Caller, policy.Subject{Server: of.server, Kind: policy.Resources, Name: spelling, Also: of.entry.name, Set: v.Endpoint.Set})
			if decision == nil || one.Hidden || one.Denied && !decision.Hidden {
				decision = one
			}
		}
		if decision.Hidden {
			continue
		}
		it := *of
		e := *of.entry
		e.name, e.kind = uri, listResources
		it.entry, it.exposed, it.decision = &e, uri, decision
		return &it
	}
	return nil
}
