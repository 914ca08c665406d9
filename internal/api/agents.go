package api

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// agentDetail is an agent with its card.
type agentDetail struct {
	publishedAgent
	Run        string          `json:"run,omitempty"`
	Document   jsontext.Value  `json:"document,omitzero"`
	Lint       []lintFinding   `json:"lint"`
	Signature  *cardSignature  `json:"signature,omitzero"`
	Interfaces []cardInterface `json:"interfaces"`
	Skills     []cardSkill     `json:"skills"`
	Limits     []agentLimit    `json:"limits"`
	Tasks      []stateCount    `json:"tasks"`
}

type lintFinding struct {
	Level     string `json:"level"`
	Field     string `json:"field,omitempty"`
	Message   string `json:"message"`
	Paragraph string `json:"paragraph,omitempty"`
}

type cardSignature struct {
	Signed bool      `json:"signed"`
	Keys   []cardKey `json:"keys"`
}

type cardKey struct {
	ID  string `json:"kid"`
	Alg string `json:"alg"`
}

type cardInterface struct {
	Binding string `json:"binding"`
	Version string `json:"version"`
	URL     string `json:"url"`
	Tenant  string `json:"tenant,omitempty"`
}

type cardSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples"`
	InputModes  []string `json:"input_modes"`
	OutputModes []string `json:"output_modes"`
}

type agentLimit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// getAgent returns an agent with its card as it is served.
func (c *call) getAgent() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	id, cfg := c.r.PathValue("id"), c.h.opts.Config()
	a, tenant := cfg.Agents[id], c.caller.Tenant
	if a != nil && (tenant == "" || len(a.Tenants) == 0) {
		tenant = ""
	} else if a != nil && !slices.Contains(a.Tenants, tenant) {
		a = nil // to its callers there is no such agent
	}
	stats, err := c.h.opts.Store.Counts(c.context(), c.reach())
	if err != nil {
		return nil, err
	}
	counted := states{}
	for _, s := range stats {
		if s.Agent == id {
			counted.add(s.State, s.Count, s.Oldest)
		}
	}
	d := &agentDetail{publishedAgent: publishedAgent{ID: id}, Lint: []lintFinding{}, Interfaces: []cardInterface{}, Skills: []cardSkill{}, Limits: []agentLimit{}, Tasks: counted.list()}
	if a == nil {
		if c.caller.Role < auth.RoleOperator || len(counted) == 0 {
			return nil, a2a.Errorf(a2a.CodeTaskNotFound, "There is no agent %q; GET /agents lists those that there are", clip(id, 100))
		}
		d.Retired = true
		return d, nil
	}
	base := c.base(cfg)
	d.Name, d.Description, d.Version = a.Name, a.Description, a.Version
	d.Address, d.Card = card.Address(base, id, tenant), card.URL(base, a, id, tenant)
	if c.caller.Tenant == "" && c.caller.Role >= auth.RoleOperator {
		d.Tenants, d.Run = a.Tenants, runOf(&a.Run)
		d.Limits = limitsOf(&a.Limits)
	}
	served := card.For(cfg, id, base, tenant)
	d.Document = served.AppendJSON(nil)
	if c.h.opts.Card != nil {
		body, ok, err := c.h.opts.Card(id, tenant, base)
		if err != nil {
			return nil, err
		}
		if ok {
			d.Document = body
		}
	}
	d.Interfaces, d.Skills, d.Lint = interfacesOf(served), skillsOf(served), lintOf(served)
	d.Signature = signatureOf(d.Document)
	return d, nil
}

// runOf says how an agent runs; "go" for one that a program has handed over.
func runOf(r *config.Run) string {
	switch {
	case len(r.Script) > 0:
		return "script"
	case r.Exec != nil:
		return "exec"
	case r.HTTP != nil:
		return "http"
	case r.MCP != nil:
		return "mcp"
	case r.Relay != "":
		return "relay"
	case r.LLM != nil:
		return "llm"
	}
	return "go"
}

func limitsOf(l *config.AgentLimits) []agentLimit {
	limits := []agentLimit{}
	add := func(name, value string) {
		if value != "0" && value != "0s" && value != "" {
			limits = append(limits, agentLimit{name, value})
		}
	}
	add("inactivity", l.Inactivity.String())
	add("total", l.Total.String())
	add("max_wait", l.MaxWait.String())
	add("steps", strconv.Itoa(l.Steps))
	add("artifact_bytes", l.ArtifactBytes.String())
	add("state_bytes", l.StateBytes.String())
	add("turns", strconv.Itoa(l.Turns))
	add("message_queue", strconv.Itoa(l.MessageQueue))
	add("open_tasks", strconv.Itoa(l.OpenTasks))
	add("parked_tasks", strconv.Itoa(l.ParkedTasks))
	return limits
}

func lintOf(served *a2a.AgentCard) []lintFinding {
	list := []lintFinding{}
	for _, f := range card.Lint(served) {
		list = append(list, lintFinding{string(f.Level), f.Field, f.Text, f.Paragraph})
	}
	return list
}

// interfacesOf returns the interfaces of a card, cleaned: a peer may have written
// it.
func interfacesOf(served *a2a.AgentCard) []cardInterface {
	list := []cardInterface{}
	for _, i := range served.SupportedInterfaces {
		list = append(list, cardInterface{
			peer.Clean(i.ProtocolBinding, 100, false), peer.Clean(i.ProtocolVersion, 20, false), peer.Clean(i.URL, maxNote, false), peer.Clean(i.Tenant, 100, false),
		})
	}
	return list
}

func skillsOf(served *a2a.AgentCard) []cardSkill {
	clean := func(texts []string) []string {
		list := make([]string, len(texts))
		for i, text := range texts {
			list[i] = peer.Clean(text, maxNote, true)
		}
		return list
	}
	list := []cardSkill{}
	for i := range served.Skills {
		s := &served.Skills[i]
		list = append(list, cardSkill{
			peer.Clean(s.ID, 200, false), peer.Clean(s.Name, 200, false), peer.Clean(s.Description, maxNote, true), clean(s.Tags), clean(s.Examples), clean(s.InputModes), clean(s.OutputModes),
		})
	}
	return list
}

// signatureOf says with which keys a card is signed.
func signatureOf(document jsontext.Value) *cardSignature {
	s := &cardSignature{Keys: []cardKey{}}
	var signed struct {
		Signatures []struct {
			Protected string `json:"protected"`
		} `json:"signatures"`
	}
	if json.Unmarshal(document, &signed) != nil {
		return s
	}
	for _, one := range signed.Signatures {
		header, err := decodeSegment(one.Protected)
		if err != nil {
			continue
		}
		var key cardKey
		if json.Unmarshal(header, &key) == nil && !slices.Contains(s.Keys, key) {
			s.Keys = append(s.Keys, key)
		}
	}
	s.Signed = len(s.Keys) > 0
	return s
}

// decodeSegment decodes a part of a signature, which may have padding.
func decodeSegment(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
}

// peerDetail is a peer with its card.
type peerDetail struct {
	*peerView
	Document    jsontext.Value  `json:"document,omitzero"`
	Lint        []lintFinding   `json:"lint"`
	Interfaces  []cardInterface `json:"interfaces"`
	Skills      []cardSkill     `json:"skills"`
	Delegations []stateCount    `json:"delegations"`
}

// peerDetail returns a peer with what its card says.
func (c *call) peerDetail(p *peer.Peer) (any, error) {
	d := &peerDetail{peerView: peerViewOf(p), Lint: []lintFinding{}, Interfaces: []cardInterface{}, Skills: []cardSkill{}, Delegations: []stateCount{}}
	if p.Card != nil {
		d.Document, d.Lint, d.Interfaces, d.Skills = p.Card.AppendJSON(nil), lintOf(p.Card), interfacesOf(p.Card), skillsOf(p.Card)
	}
	if c.h.opts.Delegations == nil {
		return d, nil
	}
	counted := states{}
	_, err := c.eachDelegation(store.DelegationQuery{Peer: p.Name, Open: true}, overviewHandedOn, func(one *store.Delegation) {
		counted.add(one.State, 1, one.Created)
	})
	if err != nil {
		return nil, err
	}
	d.Delegations = counted.list()
	return d, nil
}
