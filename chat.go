package handoff

import (
	"net/http"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/chat"
	"handoff.example/handoff/internal/console"
	"handoff.example/handoff/internal/wire"
)

// newChat returns the pages on which people talk to the agents. The authenticator
// knows who is signed in.
func (n *Node) newChat(c *config.Config, authenticator auth.Authenticator) http.Handler {
	protocol := wire.NewHandler(wire.Options{
		Engine: n.engine, Agents: func() *wire.Set { return n.current.Load().set },
		Auth: auth.Known{}, Logger: n.log, Tracer: n.tracing.Tracer, Observe: n.metrics.Request, Limited: n.metrics.Limited, Audit: n.audit,
		BodyBytes: int64(c.Limits.Body), BodyTimeout: c.Limits.BodyTimeout.Std(),
		Depth: c.Limits.JSONDepth, Streams: c.Limits.Streams, OpenStreams: n.streams,
	})
	n.wires = append(n.wires, protocol)
	return chat.New(chat.Options{
		Auth: authenticator, Browser: browser(c), Surface: n.surface, Protocol: protocol, Tasks: n.engine,
		Base:   func(r *http.Request) string { return card.BaseURL(r, c.PublicURL, c.TrustedPrefixes()) },
		Meters: n.visitors, Logger: n.log,
	})
}

// surface returns the page of an agent, nil when it has none.
func (n *Node) surface(id string) *chat.Surface {
	now := n.current.Load()
	of, served := now.config.Agents[id], now.set.Agent(id)
	if of == nil || served == nil || !of.Chat.Enabled {
		return nil
	}
	a := *served
	// The page speaks the newest version, and needs nothing but tasks.
	a.Versions, a.Assume, a.Pushes, a.GRPC, a.ExtendedCard, a.Extended = nil, 0, false, false, false, nil
	signIn := ""
	if now.config.Console.Enabled {
		signIn = console.Prefix + "login"
	}
	return &chat.Surface{
		SignIn: signIn,
		Config: of.Chat, Name: of.Name, Description: of.Description, Examples: examplesOf(of), Agent: &a,
		CallerDecides: of.Grants == config.GrantsCaller, Idempotent: of.Idempotency != config.IdempotencyOff,
		Requests: auth.Rate{PerSecond: float64(now.config.Limits.RequestsPerSecond), Burst: now.config.Limits.RequestBurst},
	}
}

// examplesOf returns messages for the skills that everybody is shown: one of each,
// and then the others.
func examplesOf(of *config.Agent) []string {
	var first, others []string
	for i := range of.Skills {
		for k, example := range of.Skills[i].Examples {
			switch {
			case k == 0:
				first = append(first, example)
			default:
				others = append(others, example)
			}
		}
	}
	return append(first, others...)
}
