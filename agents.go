package handoff

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/backend"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/wire"
)

// cardAge is how long clients may keep a card without asking again.
const cardAge = 5 * time.Minute

// agents are the agents of a node as of one configuration. They are immutable:
// a reload makes new ones and swaps the pointer.
type agents struct {
	config *config.Config // with the Go agents among its agents
	set    *wire.Set
	specs  map[string]*engine.Spec
	signer *card.Signer // nil: cards are not signed
	jwks   http.Handler // of the signer

	publisher *card.Publisher // of their cards
}

// goAgent is an agent that a program has handed to a node.
type goAgent struct {
	card  *config.Agent
	agent agent.Agent
}

// newAgents builds the agents of a configuration and those of the program. The
// ones of before that are gone refuse messages, but keep their tasks readable.
func (n *Node) newAgents(c *config.Config, own map[string]goAgent, before *agents) (*agents, error) {
	merged := *c
	merged.Agents = maps.Clone(c.Agents)
	for id, g := range own {
		if merged.Agents[id] != nil {
			return nil, fmt.Errorf("agent %q is both in the configuration and in the program", id)
		}
		merged.Agents[id] = g.card
	}
	n.skills.fill(merged.Agents)
	if !merged.Webhooks.Enabled {
		quiet(merged.Agents)
	}
	warnings, err := Check(&merged)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		if w.Path == "agents" && c.File() == "" {
			continue // a program that has its agents to itself adds them later
		}
		n.log.Warn("The configuration is probably not meant so", "path", w.Path, "problem", w.Message)
	}
	a := &agents{config: &merged, specs: map[string]*engine.Spec{}}
	if err := a.sign(&merged); err != nil {
		return nil, err
	}
	publisher := card.NewPublisher(&merged, a.signer)
	a.publisher = publisher
	var served []*wire.Agent
	for _, id := range merged.AgentIDs() {
		run, err := n.runnerOf(c, id, own)
		if err != nil {
			return nil, err
		}
		spec := newSpec(id, merged.Agents[id], merged.Retention, run)
		if _, ok := own[id]; ok {
			spec.Recall = bridge.JobRecall
		}
		if p := merged.Peers[spec.Peer]; p != nil {
			spec.Deadline = p.Deadline.Std()
		}
		a.specs[id] = spec
		served = append(served, n.newServed(&merged, spec, publisher))
	}
	if before != nil {
		for id, spec := range before.specs {
			if a.specs[id] == nil {
				retired := *before.set.Agent(id)
				retired.Spec, retired.Retired = spec, true
				served = append(served, &retired)
			}
		}
	}
	a.set, err = wire.NewSet(served, merged.DefaultAgentID())
	return a, err
}

// sign loads the keys that cards are signed with.
func (a *agents) sign(c *config.Config) (err error) {
	if a.signer, err = card.SignerOf(c); err != nil || a.signer == nil {
		return err
	}
	jwks, err := a.signer.JWKS()
	if err != nil {
		return err
	}
	a.jwks = card.JWKSHandler(jwks, cardAge)
	return nil
}

// signer signs the cards of the configuration in force, nil for none. Its first
// key is for what else the node signs: receivers find it in the same JWKS.
func (n *Node) signer() *card.Signer { return n.current.Load().signer }

// Check says whether a node can run a configuration: its cards keep to the
// specification, and what runs its agents can be built, programs included. The error has every
// problem with its line; the warnings are what is probably not meant. A node
// checks its configuration itself.
func Check(c *Config) (warnings []config.Problem, err error) {
	problems, warnings := card.Check(c)
	problems = append(problems, checkCallers(c)...)
	problems = append(problems, card.CheckSigning(c)...)
	problems = append(problems, peer.Check(c)...)
	problems = append(problems, checkRelays(c)...)
	for _, id := range c.AgentIDs() {
		if to := c.Agents[id].Run.Relay; to != "" && c.Peers[to] == nil {
			warnings = append(warnings, c.Problem("agents."+id+".run.relay", "names no peer of the configuration: its tasks fail until one of that name is added"))
		}
		if len(c.Agents[id].Run.Backends()) == 0 {
			continue // written in Go; the configuration refuses one without a backend itself
		}
		for _, p := range backend.Check(c.Agents[id].Run) {
			problems = append(problems, c.Problem("agents."+id+"."+p.Path, "%v", p.Err))
		}
		if e := c.Agents[id].Run.Exec; e != nil && len(e.Command) > 0 && e.Command[0] != "" {
			if err := findProgram(c.Dir(), e.Command[0]); err != nil {
				problems = append(problems, c.Problem("agents."+id+".run.exec", "the program %s cannot be run: %v", e.Command[0], err))
			}
		}
	}
	return append(c.Warnings(), warnings...), c.Refuse(problems...)
}

// findProgram looks for a program as the exec backend does.
func findProgram(dir, name string) error {
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	_, err := exec.LookPath(name)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return err
}

// runnerOf returns what runs an agent.
func (n *Node) runnerOf(c *config.Config, id string, own map[string]goAgent) (agent.Agent, error) {
	if g, ok := own[id]; ok {
		return n.withTools(id, g), nil
	}
	run, err := backend.New(c.Agents[id].Run, backend.Options{
		Dir: c.Dir(), Logger: n.log.With("agent", id), HTTP: n.outbound, Callbacks: n.callbacks,
		Relay: func(peer string) (agent.Agent, error) { return n.toPeer(peer), nil },
		Tools: func(of *config.ToolAgent) (agent.Agent, error) { return n.toTools(id, of), nil },
		Model: func(of *config.LLM) (agent.Agent, error) { return n.toModel(c, id, of) },
	})
	if err != nil {
		return nil, fmt.Errorf("agents.%s.%w", id, err)
	}
	return run, nil
}

func newSpec(id string, c *config.Agent, node config.Retention, run agent.Agent) *engine.Spec {
	spec := &engine.Spec{
		ID: id, Run: run, FirstStepWait: c.FirstStepWait.Std(), History: c.History,
		Retention: c.KeptFor(node).Std(), Claims: node.Claims.Std(),
		Limits: engine.Limits{
			Inactivity: c.Limits.Inactivity.Std(), Total: c.Limits.Total.Std(), MaxWait: c.Limits.MaxWait.Std(),
			Steps: c.Limits.Steps, ArtifactBytes: int64(c.Limits.ArtifactBytes), StateBytes: int(c.Limits.StateBytes),
			Unread: c.Limits.MessageQueue, Concurrent: c.Limits.Turns, Open: c.Limits.OpenTasks, Parked: c.Limits.ParkedTasks,
		},
	}
	switch c.Answers {
	case config.AnswersTask:
		spec.Answers = engine.AnswersTask
	case config.AnswersMessage:
		spec.Answers = engine.AnswersMessage
	}
	switch c.Idempotency {
	case config.IdempotencyOn:
		spec.Idempotency = engine.IdempotencyOn
	case config.IdempotencyOff:
		spec.Idempotency = engine.IdempotencyOff
	}
	if c.Resumes() {
		spec.OnInterrupt = engine.InterruptResume
	}
	spec.NoLineage, spec.CallerGrants = !c.Lineage, c.Grants == config.GrantsCaller
	if c.Run.MCP != nil || c.Run.LLM != nil {
		spec.Recall = bridge.JobRecall
	}
	if c.Run.LLM != nil {
		spec.Answers = engine.AnswersTask
	}
	if peer := c.Run.Relay; peer != "" {
		spec.Peer, spec.Answers, spec.FirstStepWait = peer, engine.AnswersTask, 0
		spec.Limits.Inactivity, spec.Limits.Total = 0, 0 // a turn follows the peer for as long as that works
	}
	return spec
}

// newServed is an agent as the bindings see it.
func (n *Node) newServed(c *config.Config, spec *engine.Spec, publisher *card.Publisher) *wire.Agent {
	id, of := spec.ID, c.Agents[spec.ID]
	built := card.For(c, id, "http://localhost", "")
	spec.Skills, spec.SkillScopes = card.SkillsOf(of), skillScopes(of)
	for _, s := range of.ExtendedSkills() {
		spec.ExtendedSkills = append(spec.ExtendedSkills, s.ID)
	}
	served := &wire.Agent{
		Spec: spec, InputModes: built.DefaultInputModes, Extensions: built.Capabilities.Extensions,
		Streaming: of.Streaming, Pushes: of.PushNotifications, GRPC: of.GRPC, Tenants: slices.Clone(of.Tenants), Requires: requirement(of), LastEventID: of.LastEventID,
		Paths: wire.Paths{JSONRPC: of.Paths.JSONRPC, REST: of.Paths.REST, Card: of.Paths.Card},
		Card: func(w http.ResponseWriter, r *http.Request, tenant string) {
			document, ok, err := publisher.Document(id, tenant, card.BaseURL(r, c.PublicURL, c.TrustedPrefixes()))
			switch {
			case err != nil:
				n.log.Error("A card could not be signed", "error", err)
				http.Error(w, "the card is not available", http.StatusInternalServerError)
			case !ok:
				http.NotFound(w, r)
			default:
				document.Serve(w, r, cardAge)
			}
		},
	}
	for _, text := range of.Versions {
		if len(of.Versions) == 1 && text == a2a.Version10.String() {
			break // that is what no versions mean
		}
		version, _ := a2a.ParseVersion(text) // the configuration has checked it
		served.Versions = append(served.Versions, version)
	}
	if of.Extended != nil {
		served.ExtendedCard, served.Extended = true, extended(c, id, publisher)
	}
	if of.AssumeVersion != "" {
		served.Assume, _ = a2a.ParseVersion(of.AssumeVersion) // the configuration has checked it
	}
	return served
}

// extended returns what hands out the extended card of an agent. A caller who
// may use none of its skills is told the scopes that one takes.
func extended(c *config.Config, id string, publisher *card.Publisher) wire.Extended {
	skills := c.Agents[id].AllSkills()
	return func(r *http.Request, tenant string, caller *auth.Principal, old bool) (card.Document, bool, error) {
		var refused error
		for i := range skills {
			needs := auth.Requirement{Scopes: skills[i].Scopes}
			if refused = needs.Check(r, caller, "any skill of the extended card", nil); refused == nil {
				break
			}
		}
		if refused != nil {
			return card.Document{}, false, refused
		}
		return publisher.Extended(id, tenant, card.BaseURL(r, c.PublicURL, c.TrustedPrefixes()), caller.Scopes, old)
	}
}
