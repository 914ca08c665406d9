package handoff

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw"
)

// toTools returns the agent whose skills are tools of a server.
func (n *Node) toTools(id string, of *config.ToolAgent) agent.Agent {
	return agent.Func(func(ctx context.Context, t *agent.Turn) error {
		return bridge.NewToolAgent(bridge.ToolAgentOptions{
			Calls: n.gateway.calls, Gate: &serverGate{n, of.Server, id}, Tools: of.Tools, Version: n.opts.Version,
		}).Run(ctx, t)
	})
}

// withTools lets an agent that is written in Go call tools, by the same policy as
// whoever it works for would at the gateway.
func (n *Node) withTools(id string, g goAgent) agent.Agent {
	return bridge.NewGoTools(g.agent, bridge.GoToolsOptions{
		Calls:        func() *bridge.Calls { return n.gateway.calls },
		Gate:         func(server string) bridge.Gate { return &serverGate{n, server, id} },
		Servers:      func() []string { return slices.Collect(maps.Keys(n.Config().MCP.Servers)) },
		Granted:      n.engine.Granted,
		MessagesOnly: g.card.Answers == config.AnswersMessage, Version: n.opts.Version,
	})
}

// serverGate is the way of an agent to the tools of a server, or of all with the name
// "": by the same policy as at the endpoint, for whoever the agent works.
type serverGate struct {
	node   *Node
	server string
	agent  string
}

func (g *serverGate) view(p *auth.Principal) mcpgw.View {
	return mcpgw.View{Endpoint: mcpgw.Endpoint{Server: g.server}, Caller: p}
}

// Tools returns the definitions of the tools that a caller may know.
func (g *serverGate) Tools(ctx context.Context, p *auth.Principal) ([]jsontext.Value, error) {
	var tools []jsontext.Value
	for cursor := ""; ; {
		text, err := g.node.gateway.directory.List(ctx, g.view(p), mcp.MethodListTools, cursor)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []jsontext.Value `json:"tools"`
			Next  string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		if tools = append(tools, page.Tools...); page.Next == "" {
			return tools, nil
		}
		cursor = page.Next
	}
}

// Admit lets a call through, or refuses it.
func (g *serverGate) Admit(ctx context.Context, p *auth.Principal, tool string, arguments jsontext.Value, key string) (*bridge.Admitted, error) {
	a, err := g.admit(ctx, p, tool, arguments, key)
	server, result := g.server, "begun"
	if err != nil {
		result = "refused"
	} else {
		server = a.Server
	}
	entry := &audit.Entry{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Role: p.Role.String(), Operation: mcp.MethodCallTool,
		Binding: "mcp", Agent: bridge.AgentPrefix + server, Target: tool, Result: result, Request: "agent " + g.agent,
	}
	if g.node.audit.Wants(true) {
		if cerr := g.node.audit.Commit(ctx, entry); cerr != nil && err == nil {
			a.Release()
			return nil, mcp.Errorf(mcp.CodeUnavailable, "The call cannot be recorded now; it was not made")
		}
	}
	return a, err
}

func (g *serverGate) admit(ctx context.Context, p *auth.Principal, tool string, arguments jsontext.Value, key string) (*bridge.Admitted, error) {
	target, err := g.node.gateway.directory.Find(ctx, g.view(p), mcp.MethodCallTool, tool)
	if err != nil {
		if mcp.AsError(err).Code == mcp.CodeInvalidParams {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: mcp.AsError(err).Message, Err: bridge.ErrNoTool}
		}
		return nil, err
	}
	if target.Server == nil || target.Local != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The tool %s is not one of the server", tool)
	}
	a := &bridge.Admitted{Server: target.Server.Name(), Tool: target.Name, Release: func() {}}
	if target.Rules == nil {
		return a, nil
	}
	if a.Release, err = target.Rules.Admit(ctx); err != nil {
		return nil, plainly(err)
	}
	terms, err := target.Rules.Terms(ctx, arguments, key)
	if err != nil {
		a.Release()
		return nil, misfit(plainly(err), target.Definition, arguments)
	}
	a.Key, a.Approve, a.Idempotent, a.Timeout = terms.Key, terms.Approve, terms.Idempotent, terms.Timeout
	return a, nil
}

// misfit adds to an error which of the arguments does not fit a tool, where it is one of
// them.
func misfit(err error, definition, arguments jsontext.Value) error {
	result, ok := errors.AsType[*mcpgw.Result](err)
	if !ok {
		return err
	}
	wrong := &bridge.ArgumentsError{Reason: result.Message}
	var tool struct {
		Input jsontext.Value `json:"inputSchema"`
	}
	if json.Unmarshal(definition, &tool) == nil && tool.Input != nil {
		if f, err := form.New(tool.Input); err == nil {
			if field, ok := errors.AsType[*form.FieldError](f.Check(arguments)); ok {
				wrong.Field = field.Field
			}
		}
	}
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: result.Message, Err: wrong}
}

// plainly makes an error of JSON-RPC of what policy refuses otherwise.
func plainly(err error) error {
	if e, ok := errors.AsType[*mcpgw.ScopeError](err); ok {
		return &mcp.Error{Code: mcp.CodeDenied, Message: e.Message, Err: err}
	}
	if e, ok := errors.AsType[*mcpgw.Result](err); ok {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: e.Message, Err: err}
	}
	return err
}

// toolSkills are the skills of agents that have the tools of a server, as far as
// the lists of servers are known. Without a node's own list an agent has one skill
// that stands for all.
type toolSkills struct {
	node *Node
	wake chan struct{}
	end  context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	known map[string][]config.Skill // by agent
}

func newToolSkills(n *Node) *toolSkills {
	return &toolSkills{node: n, wake: make(chan struct{}, 1), known: map[string][]config.Skill{}}
}

// fill gives those agents skills that have none of their own.
func (s *toolSkills) fill(agents map[string]*config.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, of := range agents {
		if of == nil || of.Run.MCP == nil || len(of.Skills) > 0 {
			continue
		}
		filled := *of
		if filled.Skills = s.known[id]; len(filled.Skills) == 0 {
			filled.Skills = []config.Skill{{
				ID: bridge.AnyTool, Name: "Tools of " + of.Run.MCP.Server, Description: "Calls a tool of " + of.Run.MCP.Server + ", which is asked for.",
				Tags: []string{"mcp", of.Run.MCP.Server},
			}}
		}
		agents[id] = &filled
	}
}

// start looks at the lists of servers from now on.
func (s *toolSkills) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.done.Go(func() {
		for {
			s.refresh(ctx)
			timer := time.NewTimer(max(s.node.Config().MCP.ListTTL.Std(), time.Second))
			select {
			case <-timer.C:
			case <-s.wake:
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				return
			}
		}
	})
}

func (s *toolSkills) stop() {
	if s.end != nil {
		s.end()
		s.done.Wait()
	}
}

// look looks at the lists now.
func (s *toolSkills) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refresh looks what the tools are, and builds the agents anew when they have
// changed.
func (s *toolSkills) refresh(ctx context.Context) {
	n := s.node
	n.mu.Lock()
	configured := n.base.Agents
	n.mu.Unlock()
	changed := false
	for id, of := range configured {
		if of == nil || of.Run.MCP == nil || len(of.Skills) > 0 {
			continue
		}
		skills, err := s.list(ctx, id, of.Run.MCP)
		if err != nil || len(skills) == 0 {
			if err != nil && ctx.Err() == nil {
				n.log.Warn("The tools of an agent could not be listed", "agent", id, "server", of.Run.MCP.Server, "error", err)
			}
			continue // what was known stays
		}
		s.mu.Lock()
		if !reflect.DeepEqual(s.known[id], skills) {
			s.known[id], changed = skills, true
		}
		s.mu.Unlock()
	}
	if !changed {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	built, err := n.newAgents(n.base, n.own, n.current.Load())
	if err != nil {
		n.log.Error("The tools of a server cannot be skills", "error", err)
		return
	}
	n.current.Store(built)
	n.gateway.agentsChanged()
}

// list returns the tools of an agent as skills. Named ones are shown whoever may
// call them, and otherwise those that everybody may know.
func (s *toolSkills) list(ctx context.Context, id string, of *config.ToolAgent) ([]config.Skill, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p := &auth.Principal{Role: auth.RoleCaller}
	if of.Tools != nil {
		p = &auth.Principal{Role: auth.RoleAdmin, Subject: "agent " + id, Issuer: "node"}
	}
	tools, err := (&serverGate{s.node, of.Server, id}).Tools(ctx, p)
	if err != nil {
		return nil, err
	}
	found, inputs := bridge.SkillsOf(tools, of.Tools, of.Server)
	skills := make([]config.Skill, len(found))
	for i, f := range found {
		skills[i] = config.Skill{
			ID: f.ID, Name: f.Name, Description: f.Description, Tags: f.Tags,
			InputModes: f.InputModes, OutputModes: f.OutputModes, InputSchema: inputs[f.ID],
		}
	}
	return skills, nil
}
