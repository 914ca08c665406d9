// Package policy says who may call which tool, and how: it makes one decision of
// what the configuration says of a tool, its server and its callers.
//
// A Policy is made of a configuration once and does not change. What counts, such
// as how often somebody has called, is in a Guard, which outlives it.
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

// Kind is what a policy is for.
type Kind string

// What a policy can be for. The words are the keys of the configuration.
const (
	Tools     Kind = "tools"
	Prompts   Kind = "prompts"
	Resources Kind = "resources"
)

// Subject is what is decided on.
type Subject struct {
	Server string
	Kind   Kind
	Name   string // as the server has it; of a resource the URI
	// Also is another name of the same: the template that a URI fits.
	Also string
	// Set is the set whose endpoint is called; "": none.
	Set string
}

// Policy is what a configuration says. It is immutable.
type Policy struct {
	servers map[string]*server
	rules   []rule
	sets    map[string]*set
	scopes  []string
	conds   []cond
}

type server struct {
	base  *layer // of default; nil: none
	kinds map[Kind]*listed
}

// listed are the policies by names. With all, names that are not listed are shown.
type listed struct {
	at    string
	all   bool
	exact map[string]*layer
	globs []globLayer // longest pattern first
}

type globLayer struct {
	pattern string
	layer   *layer
}

// layer is one policy of the configuration.
type layer struct {
	at        string // key
	policy    *config.MCPPolicy
	require   *Schema
	approveIf *Schema
}

type rule struct {
	layer
	who     cond
	servers []string
	tools   []string
}

type set struct {
	at    string
	who   cond
	names map[Kind][]string
}

// cond is a condition on callers.
type cond struct {
	callers []string
	tenants []string
	roles   []config.Role
	least   auth.Role
	// known says that patterns of callers are for those who have a name only.
	known bool
}

// New compiles a configuration. Its errors name a key; validation has found them
// before.
func New(m *config.MCP) (*Policy, error) {
	p := &Policy{servers: map[string]*server{}, sets: map[string]*set{}, scopes: m.Scopes}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		s, err := p.server(m.Servers[name], "mcp.servers."+name)
		if err != nil {
			return nil, err
		}
		p.servers[name] = s
	}
	for i := range m.Rules {
		r := &m.Rules[i]
		l, err := p.layer(&r.Policy, fmt.Sprintf("mcp.rules[%d]", i))
		if err != nil {
			return nil, err
		}
		who := cond{callers: r.Callers, tenants: r.Tenants, roles: r.Roles}
		p.conds = append(p.conds, who)
		p.rules = append(p.rules, rule{layer: *l, who: who, servers: r.Servers, tools: r.Tools})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Sets)) {
		s := m.Sets[name]
		who := cond{callers: s.Callers, known: true}
		p.conds = append(p.conds, who)
		p.sets[name] = &set{at: "mcp.sets." + name, who: who, names: map[Kind][]string{Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources}}
	}
	return p, nil
}

func (p *Policy) server(c *config.MCPServer, at string) (*server, error) {
	s := &server{kinds: map[Kind]*listed{}}
	if c.Default != nil {
		var err error
		if s.base, err = p.layer(c.Default, at+".default"); err != nil {
			return nil, err
		}
	}
	for kind, list := range map[Kind]config.MCPTools{Tools: c.Tools, Prompts: c.Prompts, Resources: c.Resources} {
		l := &listed{at: at + "." + string(kind), all: list == nil, exact: map[string]*layer{}}
		for name, policy := range list {
			if policy == nil {
				policy = &config.MCPPolicy{}
			}
			compiled, err := p.layer(policy, l.at+"."+name)
			if err != nil {
				return nil, err
			}
			if strings.Contains(name, "*") {
				l.globs = append(l.globs, globLayer{name, compiled})
			} else {
				l.exact[name] = compiled
			}
		}
		slices.SortFunc(l.globs, func(a, b globLayer) int {
			return cmp.Or(cmp.Compare(len(b.pattern), len(a.pattern)), cmp.Compare(a.pattern, b.pattern))
		})
		s.kinds[kind] = l
	}
	return s, nil
}

func (p *Policy) layer(c *config.MCPPolicy, at string) (*layer, error) {
	l := &layer{at: at, policy: c}
	var err error
	if len(c.Require) > 0 {
		if l.require, err = CompileSchema([]byte(c.Require)); err != nil {
			return nil, fmt.Errorf("compile %s.require: %w", at, err)
		}
	}
	if len(c.ApproveIf) > 0 {
		if l.approveIf, err = CompileSchema([]byte(c.ApproveIf)); err != nil {
			return nil, fmt.Errorf("compile %s.approve_if: %w", at, err)
		}
	}
	if who := l.who(); !who.everybody() {
		p.conds = append(p.conds, who)
	}
	return l, nil
}

// who returns the condition of a policy on those who may see.
func (l *layer) who() cond {
	least, _ := auth.ParseRole(string(l.policy.Role)) // "" is none
	return cond{callers: l.policy.Callers, least: least, known: true}
}

func (c *cond) everybody() bool {
	return len(c.callers)+len(c.tenants)+len(c.roles) == 0 && c.least == auth.RoleNone
}

// holds reports whether a caller fulfils the condition.
func (c *cond) holds(p *auth.Principal) bool {
	switch {
	case len(c.callers) > 0 && (c.known && !p.Named() || !matchesAny(c.callers, p.Subject)):
		return false
	case len(c.tenants) > 0 && !matchesAny(c.tenants, p.Tenant):
		return false
	case len(c.roles) > 0 && !slices.Contains(c.roles, config.Role(p.Role.String())):
		return false
	}
	return p.Role >= c.least
}

// find returns the policy of a name; nil: it is not listed.
func (l *listed) find(names ...string) *layer {
	for _, name := range names {
		if found := l.exact[name]; found != nil {
			return found
		}
	}
	for _, name := range names {
		for i := range l.globs {
			if name != "" && matches(l.globs[i].pattern, name) {
				return l.globs[i].layer
			}
		}
	}
	return nil
}

// Class returns what distinguishes callers: two of one class see the same.
func (p *Policy) Class(caller *auth.Principal) string {
	bits := make([]byte, (len(p.conds)+7)/8)
	for i := range p.conds {
		if p.conds[i].holds(caller) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return string(bits)
}

// HasSet reports whether a set is there for a caller.
func (p *Policy) HasSet(name string, caller *auth.Principal) bool {
	s := p.sets[name]
	return s != nil && s.who.holds(caller)
}

// SetHas reports whether a set may have something of a kind of a server.
func (p *Policy) SetHas(name, server string, kind Kind) bool {
	s := p.sets[name]
	if s == nil {
		return false
	}
	for _, pattern := range s.names[kind] {
		of, _, _ := strings.Cut(pattern, separatorOf(kind))
		if matches(of, server) {
			return true
		}
	}
	return false
}

// TellsCallersApart reports whether anything depends on who calls.
func (p *Policy) TellsCallersApart() bool { return len(p.conds) > 0 }

func separatorOf(kind Kind) string {
	if kind == Resources {
		return " "
	}
	return "."
}

// ShowsAny reports whether a server may have something of a kind that is not
// hidden from everybody.
func (p *Policy) ShowsAny(name string, kind Kind) bool {
	s := p.servers[name]
	if s == nil {
		return true
	}
	l := s.kinds[kind]
	return l.all || len(l.exact)+len(l.globs) > 0
}

// has reports whether a set has something in it.
func (s *set) has(on *Subject) bool {
	for _, pattern := range s.names[on.Kind] {
		server, name, _ := strings.Cut(pattern, separatorOf(on.Kind))
		if matches(server, on.Server) && (matches(name, on.Name) || on.Also != "" && matches(name, on.Also)) {
			return true
		}
	}
	return false
}
