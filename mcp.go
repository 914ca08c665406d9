package handoff

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/upstream"
)

// gateway is what a node has for clients of MCP.
type gateway struct {
	node      *Node
	servers   *upstream.Servers
	login     *upstream.Login // of callers at servers
	calls     *bridge.Calls
	agents    *bridge.Server // agents and peers as tools
	directory *mcpgw.Directory
	held      *mcpgw.Definitions
	handler   *mcpgw.Handler                // of the newest configuration
	inside    atomic.Pointer[mcpgw.Handler] // the same, for the node itself

	mu      sync.Mutex
	changed chan struct{} // closed when the agents change
}

// newGateway makes the gateway of a node, with the servers of a configuration.
func (n *Node) newGateway(c *config.Config, guard *netguard.Guard, keys *keys) (*gateway, error) {
	g := &gateway{node: n, changed: make(chan struct{})}
	var err error
	login := upstream.LoginOptions{Docs: n.store, BaseURL: n.URL, Identify: n.signedIn, Inbox: loginInbox{n}, Log: n.log}
	switch {
	case keys.sealer != nil:
		login.Sealer = keys.sealer
	case c.StorePath() == ":memory:":
		// What is kept ends with the process, and so may its key.
		if login.Sealer, err = auth.NewSealer(auth.GenerateKey()); err != nil {
			return nil, err
		}
	}
	g.login = upstream.NewLogin(login)
	servers := upstream.Options{Guard: guard, Path: c.Path, Log: n.log, Login: g.login}
	if c.UsesPostgres() {
		servers.Docs = n.store
	}
	if g.servers, err = upstream.New(&c.MCP, servers); err != nil {
		return nil, err
	}
	g.calls = bridge.NewCalls(bridge.CallsOptions{
		Engine: n.engine, Store: n.store, Scope: auth.Reach(&Principal{Role: RoleAdmin}), Agents: n.spec, Server: g.servers.Get,
		Poll:   func() time.Duration { return n.Config().MCP.Poll.Std() },
		TTL:    func() time.Duration { return n.Config().MCP.TaskTTL.Std() },
		Logger: n.log,
	})
	g.agents = bridge.NewServer(bridge.ServerOptions{
		Calls: g.calls, Agents: g.exposed, Changed: g.news, Version: n.opts.Version, Logger: n.log,
		Wait:    func() time.Duration { return n.Config().MCP.Wait.Std() },
		ListTTL: func() time.Duration { return n.Config().MCP.ListTTL.Std() },
	})
	g.held = mcpgw.NewDefinitions(n.store, cardInbox{n}, n.log, func(server string) { g.directory.Changed(server, mcp.NotifyTools) })
	g.directory = mcpgw.NewDirectory(mcpgw.DirectoryOptions{
		Guard: policy.NewGuard(n.store, nil), Definitions: g.held, State: g.servers.State, Key: keys.cursor, Logger: n.log,
	})
	return g, g.use(c)
}

// use puts the servers and policies of a configuration into effect.
func (g *gateway) use(c *config.Config) error {
	rules, err := policy.New(&c.MCP)
	if err != nil {
		return err
	}
	servers := map[string]upstream.Server{}
	for _, name := range g.servers.Names() {
		servers[name], _ = g.servers.Get(name)
	}
	servers[mcpgw.AgentsServer] = g.agents
	g.directory.Use(mcpgw.Settings{Config: &c.MCP, Policy: rules, Servers: servers})
	return nil
}

// reload takes another configuration.
func (g *gateway) reload(c *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownGrace.Std())
	defer cancel()
	if err := g.servers.Reload(ctx, &c.MCP); err != nil {
		return err
	}
	return g.use(c)
}

// serve returns what serves the endpoints for callers that the authenticator knows.
func (g *gateway) serve(c *config.Config, a auth.Authenticator, trusts func(*http.Request) bool) http.Handler {
	challenger, _ := a.(auth.Challenger)
	if limited, ok := a.(*auth.Limited); ok {
		challenger, _ = limited.Authenticator.(auth.Challenger)
	}
	o := mcpgw.Options{
		Catalog: g.directory, Calls: keptCalls{g.calls}, Docs: g.node.store, Auth: auth.Inside{Authenticator: a}, Challenger: challenger, Scopes: c.MCP.Scopes, Trusts: trusts,
		Revisions: c.MCP.Revisions, Version: g.node.opts.Version, BodyBytes: int64(c.Limits.Body), BodyTimeout: c.Limits.BodyTimeout.Std(), Depth: c.Limits.JSONDepth,
		Wait: c.MCP.Wait.Std(), CarryTasks: c.MCP.CarryTasks, TaskTTL: c.MCP.TaskTTL.Std(), SessionTTL: c.MCP.SessionTTL.Std(),
		Logger: g.node.log, Tracer: g.node.tracing.Tracer, Audit: g.node.audit, Observe: g.node.metrics.ToolCall, Limited: g.node.metrics.Limited,
	}
	if g.handler == nil {
		g.handler = mcpgw.New(o)
	} else {
		g.handler = g.handler.With(o)
	}
	g.inside.Store(g.handler)
	return g.handler
}

// trusts decides about Origin and Host of requests to the public listener.
func trusts(c *config.Config) func(*http.Request) bool {
	proxies := auth.Proxies(c.TrustedPrefixes())
	return mcpgw.TrustsOf(c.MCP.Origins, hostsOf(c.PublicURL), proxies.Trusts)
}

// close ends what the gateway has open.
func (g *gateway) close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	if g.handler != nil {
		g.handler.Close()
	}
	return g.servers.Close(ctx)
}

// news returns what is closed when the agents change.
func (g *gateway) news() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// reloaded tells clients that what there is may have changed.
func (g *gateway) reloaded() {
	g.handler.Changed()
	g.agentsChanged()
}

// agentsChanged says that the agents have changed.
func (g *gateway) agentsChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// exposed returns the agents and peers that are tools for a caller.
func (g *gateway) exposed(p *auth.Principal) []*bridge.Exposed {
	current := g.node.current.Load()
	c := current.config
	var list []*bridge.Exposed
	for _, id := range c.AgentIDs() {
		spec := current.specs[id]
		if !c.MCP.Agents.Exposes(id) || spec == nil || !mayCall(c.Agents[id], p) {
			continue
		}
		of := c.Agents[id]
		e := &bridge.Exposed{Name: id, Spec: spec, Title: of.Name, Description: of.Description, Skills: usable(spec, p), Inputs: map[string]a2a.JSON{}}
		for _, s := range of.AllSkills() {
			if len(s.InputSchema) > 0 {
				e.Inputs[s.ID] = s.InputSchema
			}
		}
		list = append(list, e)
	}
	for _, name := range g.node.catalog.Names() {
		if c.MCP.Agents.Exposes(name) {
			if e := g.exposedPeer(name); e != nil {
				list = append(list, e)
			}
		}
	}
	return list
}

// exposedPeer returns a peer as a tool. One whose card is not known has no skills.
func (g *gateway) exposedPeer(name string) *bridge.Exposed {
	spec := g.node.peerSpec(name)
	if spec == nil {
		return nil
	}
	e := &bridge.Exposed{Name: name, Spec: spec, Title: name}
	if p, err := g.node.catalog.Get(name); err == nil && p.Card != nil {
		e.Title, e.Description, e.Skills = p.Card.Name, p.Card.Description, p.Card.Skills
	}
	return e
}

// mayCall reports whether a caller may use an agent at all.
func mayCall(of *config.Agent, p *auth.Principal) bool {
	q := requirement(of)
	if p.Role < q.Role || len(q.Missing(p.Scopes)) > 0 {
		return false
	}
	return p.Tenant == "" || len(of.Tenants) == 0 || slices.Contains(of.Tenants, p.Tenant)
}

// usable are the skills of an agent that a caller may use.
func usable(spec *engine.Spec, p *auth.Principal) []a2a.AgentSkill {
	var skills []a2a.AgentSkill
	for _, s := range spec.Skills {
		q := auth.Requirement{Scopes: spec.SkillScopes[s.ID]}
		if len(q.Missing(p.Scopes)) == 0 && (p.Named() || !slices.Contains(spec.ExtendedSkills, s.ID)) {
			skills = append(skills, s)
		}
	}
	return skills
}

// keptCalls keeps the calls of the gateway.
type keptCalls struct{ *bridge.Calls }

// Start keeps a call and begins it.
func (k keptCalls) Start(ctx context.Context, c *mcpgw.Call) (*mcp.Task, error) {
	return k.Calls.Start(ctx, &bridge.Call{
		Endpoint: c.Endpoint, Server: c.Server, Tool: c.Tool, Exposed: c.Exposed, Caller: c.Caller, Request: c.Request, Capabilities: c.Capabilities,
		Key: c.Terms.Key, Approve: c.Terms.Approve, Idempotent: c.Terms.Idempotent, TTL: c.TTL, UpstreamTask: c.UpstreamTask,
	})
}

// isMCP reports whether a path is one of the gateway's endpoints.
func isMCP(path string) bool {
	_, ok := mcpgw.EndpointOf(path)
	return ok
}

// audiences returns what a token has to be for at the resource of a request: an
// endpoint for tools is one of its own (RFC 8707, MCP AUT-06). Without public_url
// nobody knows what the endpoint is called but who sends the request, who is not
// asked.
func audiences(c *config.Config) func(r *http.Request) []string {
	return func(r *http.Request) []string {
		if !isMCP(r.URL.Path) || c.PublicURL == "" && len(c.MCP.Audiences) == 0 {
			return nil
		}
		list := slices.Clone(c.MCP.Audiences)
		if c.PublicURL != "" {
			endpoint := strings.TrimSuffix(c.PublicURL, "/") + strings.TrimSuffix(r.URL.Path, "/")
			list = append(list, endpoint, endpoint+"/")
		}
		return list
	}
}

// scopes returns what any use of the resource of a request takes: what clients are
// told to ask for first (MCP AUT-09, AUT-13).
func scopes(c *config.Config) func(r *http.Request) []string {
	return func(r *http.Request) []string {
		if isMCP(r.URL.Path) {
			return c.MCP.Scopes
		}
		return nil
	}
}

// resourceURL returns where the resource of a request is described (RFC 9728): an
// endpoint for tools has a document of its own (MCP AUT-03).
func resourceURL(c *config.Config) func(r *http.Request) string {
	return func(r *http.Request) string {
		base := card.BaseURL(r, c.PublicURL, c.TrustedPrefixes())
		if isMCP(r.URL.Path) {
			base += strings.TrimSuffix(r.URL.Path, "/")
		}
		return auth.ResourceURL(base)
	}
}
