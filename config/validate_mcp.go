package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/a2a"
)

// MCPReserved are the names that tool servers cannot have: they are parts of
// endpoints, or tools of the node.
var MCPReserved = []string{"s", "agents", "ask_agent", "list_agents", "check_task", "answer_task", "cancel_task", "find_tools", "call_tool"}

// maxToolName is how long the name of a tool may be (MCP server/tools §Tool Names).
const maxToolName = 128

func (v *validator) mcp() {
	m := &v.config.MCP
	for _, name := range v.config.MCPServerNames() {
		at := join("mcp.servers", name)
		switch s := m.Servers[name]; {
		case !agentID.MatchString(name):
			v.problem(at, "", "is not a name: use a-z, 0-9 and -, begin with a letter or a digit, and up to 63 characters")
		case slices.Contains(MCPReserved, name):
			v.problem(at, "give it another name", "is a name that the node needs itself")
		case s == nil:
			v.problem(at, "write url: or command:", "has no value")
		default:
			v.mcpServer(s, at)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Sets)) {
		at := join("mcp.sets", name)
		if !agentID.MatchString(name) {
			v.problem(at, "", "is not a name: use a-z, 0-9 and -, begin with a letter or a digit, and up to 63 characters")
		}
		if s := m.Sets[name]; s == nil || len(s.Tools)+len(s.Prompts)+len(s.Resources) == 0 {
			v.problem(at, "list tools as SERVER.TOOL", "has nothing in it")
		} else {
			v.mcpSet(s, at)
		}
	}
	for i := range m.Rules {
		r, at := &m.Rules[i], fmt.Sprintf("mcp.rules[%d]", i)
		v.globs(at+".callers", r.Callers)
		v.globs(at+".tenants", r.Tenants)
		v.globs(at+".servers", r.Servers)
		v.globs(at+".tools", r.Tools)
		if r.Policy.Name != "" || r.Policy.Description != "" {
			v.problem(at+".policy", "write it at the tool", "renames a tool for some callers only")
		}
		v.mcpPolicy(&r.Policy, at+".policy")
		for _, server := range r.Servers {
			if !strings.Contains(server, "*") && m.Servers[server] == nil && server != "agents" {
				v.problem(at+".servers", "", "names %q, which is no tool server", server)
			}
		}
	}
	for i, origin := range m.Origins {
		v.origin(fmt.Sprintf("mcp.origins[%d]", i), origin)
	}
	for _, name := range m.Agents.Names() {
		if v.config.Agents[name] == nil && v.config.Peers[name] == nil && v.config.source != nil {
			v.problem("mcp.agents", "", "names %q, which is neither an agent nor a peer", name)
		}
	}
	if len(m.Revisions) == 0 {
		v.problem("mcp.revisions", "", "is empty, so that no client could call")
	}
	v.scopes("mcp.scopes", m.Scopes)
}

func (v *validator) mcpServer(s *MCPServer, at string) {
	switch {
	case s.URL == "" && len(s.Command) == 0:
		v.problem(at, "write url: https://… or command: [program]", "says neither where the server is nor which program it is")
	case s.URL != "" && len(s.Command) > 0:
		v.problem(at, "", "has a url and a command; it is one of them")
	case s.URL != "":
		v.url(at+".url", s.URL)
		for key, set := range map[string]bool{"env": len(s.Env) > 0, "dir": s.Dir != ""} {
			if set {
				v.problem(join(at, key), "", "is for a command")
			}
		}
	default:
		if s.Command[0] == "" {
			v.problem(at+".command", "", "names no program")
		}
		if s.Dir != "" {
			v.readable(at+".dir", s.Dir)
		}
		for key, set := range map[string]bool{"headers": len(s.Headers) > 0, "ca": s.CA != "", "auth": s.Auth.any()} {
			if set {
				v.problem(join(at, key), "give a program its credentials in env", "is for a url")
			}
		}
	}
	for name, value := range s.Headers {
		if !header.MatchString(name) || mcpOwnHeader(name) {
			v.problem(join(at+".headers", name), "", "is not a header that can be set")
		}
		if strings.ContainsAny(value.text, "\r\n\x00") {
			v.problem(join(at+".headers", name), "", "has characters that a header cannot have")
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			v.problem(at+".env", "", "has %q, which is no name of a variable", name)
		}
	}
	if s.CA != "" {
		v.readable(at+".ca", s.CA)
	}
	v.mcpAuth(&s.Auth, at+".auth")
	renamed := map[string]string{}
	for kind, tools := range map[string]MCPTools{"tools": s.Tools, "prompts": s.Prompts, "resources": s.Resources} {
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			p := tools[name]
			if p == nil {
				continue
			}
			where := join(at+"."+kind, name)
			v.mcpPolicy(p, where)
			if p.Name != "" && kind == "resources" {
				v.problem(where+".name", "", "is for tools and prompts")
			}
			if other, twice := renamed[kind+p.Name]; p.Name != "" && twice {
				v.problem(where+".name", "", "is the name of %s too", other)
			}
			renamed[kind+p.Name] = name
		}
	}
	if s.Default != nil {
		if s.Default.Name != "" || s.Default.Description != "" {
			v.problem(at+".default", "write it at the tool", "gives all tools one name or description")
		}
		v.mcpPolicy(s.Default, at+".default")
	}
}

// mcpOwnHeader reports whether a header belongs to the protocol or the transport.
func mcpOwnHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "mcp-") ||
		slices.Contains([]string{"host", "content-type", "content-length", "transfer-encoding", "connection", "accept", "te", "trailer", "upgrade"}, name)
}

func (a *MCPAuth) any() bool {
	return !a.Bearer.IsZero() || a.Basic != nil || a.OAuth != nil || a.MTLS != nil
}

func (v *validator) mcpAuth(a *MCPAuth, at string) {
	v.peerAuth(&PeerAuth{Bearer: a.Bearer, Basic: a.Basic, MTLS: a.MTLS}, at)
	ways := 0
	for _, set := range []bool{!a.Bearer.IsZero(), a.Basic != nil, a.OAuth != nil} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		v.problem(at, "", "has several credentials for one header")
	}
	o := a.OAuth
	if o == nil {
		return
	}
	at += ".oauth"
	if o.Issuer != "" {
		v.secureURL(at+".issuer", o.Issuer)
	}
	v.scopes(at+".scopes", o.Scopes)
	if o.Flow == PeerFlowClientCredentials && (o.ClientID == "" || o.ClientSecret.IsZero()) {
		v.problem(at, "", "needs client_id and client_secret for the flow client_credentials")
	}
	if v.config.SecretKey.IsZero() && v.config.source != nil {
		v.problem(at, "set secret_key; `handoff init` makes one", "keeps tokens, which are sealed with secret_key")
	}
}

func (v *validator) mcpSet(s *MCPSet, at string) {
	v.globs(at+".callers", s.Callers)
	for kind, names := range map[string][]string{"tools": s.Tools, "prompts": s.Prompts} {
		v.globs(at+"."+kind, names)
		for i, name := range names {
			server, _, ok := strings.Cut(name, ".")
			where := fmt.Sprintf("%s.%s[%d]", at, kind, i)
			switch {
			case !ok:
				v.problem(where, "write it like SERVER.TOOL, or SERVER.*", "names no server")
			case !strings.Contains(server, "*") && v.config.MCP.Servers[server] == nil && server != "agents":
				v.problem(where, "", "names %q, which is no tool server", server)
			}
		}
	}
	for i, name := range s.Resources {
		if server, _, ok := strings.Cut(name, " "); !ok || server == "" {
			v.problem(fmt.Sprintf("%s.resources[%d]", at, i), "write it like SERVER URI", "names no server")
		}
	}
}

func (v *validator) mcpPolicy(p *MCPPolicy, at string) {
	v.globs(at+".callers", p.Callers)
	v.scopes(at+".scopes", p.Scopes)
	v.schema(at+".require", p.Require)
	v.schema(at+".approve_if", p.ApproveIf)
	if p.Name != "" && (len(p.Name) > maxToolName || strings.Trim(p.Name, toolNameLetters) != "") {
		v.problem(at+".name", "", "is not a name of a tool: use letters, digits and _ - . and up to %d of them", maxToolName)
	}
	if slices.Contains(MCPReserved, p.Name) {
		v.problem(at+".name", "", "is a name that the node needs itself")
	}
	if r := p.Rate; r != nil && r.PerSecond <= 0 {
		v.problem(at+".rate.per_second", "use hide or deny", "lets nobody call")
	}
	if b := p.Budget; b != nil && b.Sum != nil && !strings.HasPrefix(b.Sum.Argument, "/") {
		v.problem(at+".budget.sum.argument", "write it like /total", "is not a JSON Pointer")
	}
}

const toolNameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

// globs checks patterns with a *.
func (v *validator) globs(at string, list []string) {
	for i, pattern := range list {
		if pattern == "" {
			v.problem(fmt.Sprintf("%s[%d]", at, i), "a * stands for anything", "is empty")
		}
	}
}

// schema checks that a JSON Schema can be used.
func (v *validator) schema(at string, text a2a.JSON) {
	if len(text) == 0 {
		return
	}
	var s jsonschema.Schema
	if err := s.UnmarshalJSON(text); err != nil {
		v.problem(at, "", "is not a JSON Schema: %v", err)
		return
	}
	if _, err := s.Resolve(nil); err != nil {
		v.problem(at, "", "is not a JSON Schema that can be used: %v", err)
	}
}
