package handoff

import (
	"context"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/backend/llm"
	"handoff.example/handoff/internal/bridge"
)

// toModel returns the agent that is a model. It calls tools by the same policy as
// whoever it works for would at the gateway.
func (n *Node) toModel(c *config.Config, id string, of *config.LLM) (agent.Agent, error) {
	return llm.New(llm.Options{
		Agent: id, Config: of, Client: n.outbound, Other: n.other,
		Calls:      func() *bridge.Calls { return n.gateway.calls },
		Gate:       func(server string) bridge.Gate { return &serverGate{n, server, id} },
		Earlier:    n.earlier,
		StateBytes: int(c.Agents[id].Limits.StateBytes), Version: n.opts.Version, Logger: n.log.With("agent", id), Observer: n.metrics,
	})
}

// earlier returns the newest tasks of an agent in the context of a turn, as the caller
// himself could list them.
func (n *Node) earlier(ctx context.Context, t *agent.Turn, most int) ([]a2a.Task, error) {
	spec := n.spec(t.Agent)
	if spec == nil || t.ContextID == "" {
		return nil, nil
	}
	p := &auth.Principal{Tenant: t.Caller.Tenant, Subject: t.Caller.Subject, Issuer: t.Caller.Issuer, Scopes: t.Caller.Scopes, Role: auth.RoleCaller}
	history := 100
	list, err := n.engine.List(ctx, auth.Scope(p), spec, &a2a.ListTasksRequest{ContextID: t.ContextID, PageSize: &most, HistoryLength: &history, IncludeArtifacts: true})
	if err != nil {
		return nil, err
	}
	return list.Tasks, nil
}

// other returns what a model is told of a peer or an agent that it may hand work to.
// A peer whose card is not known has a name alone.
func (n *Node) other(name string) *llm.Other {
	if p, err := n.catalog.Get(name); err == nil {
		if p.Card == nil {
			return &llm.Other{Name: name}
		}
		return &llm.Other{Name: name, Description: p.Card.Description, Skills: p.Card.Skills}
	}
	current := n.current.Load()
	if current == nil || current.config.Agents[name] == nil {
		return nil
	}
	other := &llm.Other{Name: name, Description: current.config.Agents[name].Description}
	if spec := current.specs[name]; spec != nil {
		other.Skills = append([]a2a.AgentSkill{}, spec.Skills...)
	}
	return other
}
