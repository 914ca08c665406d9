// Package card makes, checks, serves and compares agent cards (A2A §4.4, §8).
package card

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// wellKnown is the path of a card below an address.
const wellKnown = ".well-known/agent-card.json"

// Address returns the address of an agent below a base URL, with its slash. A
// tenant, when it is not empty, has an address of its own.
func Address(base, id, tenant string) string {
	address := strings.TrimSuffix(base, "/") + "/agents/" + id + "/"
	if tenant != "" {
		address += "t/" + tenant + "/"
	}
	return address
}

// Paths are the paths of an agent's endpoints below the base URL.
type Paths struct {
	JSONRPC string
	REST    string // the operations are below it
	Card    string
}

// PathsOf returns the paths of an agent's endpoints. The card of a tenant has a
// path of its own; the bindings are the same, since a request carries its
// tenant.
func PathsOf(agent *config.Agent, id, tenant string) Paths {
	paths := Paths{
		JSONRPC: config.AgentPath(id, agent.Paths.JSONRPC),
		REST:    config.AgentPath(id, agent.Paths.REST),
		Card:    config.AgentPath(id, agent.Paths.Card),
	}
	if tenant != "" {
		paths.Card = Address("", id, tenant) + wellKnown
	}
	return paths
}

// URL returns the URL of the card of an agent below a base URL.
func URL(base string, agent *config.Agent, id, tenant string) string {
	return strings.TrimSuffix(base, "/") + PathsOf(agent, id, tenant).Card
}

// Build returns the card of an agent that is published below a base URL. With a
// tenant its interfaces carry that tenant, and clients send it back in every
// request (A2A §8.3.2).
func Build(agent *config.Agent, id, base, tenant string) *a2a.AgentCard {
	card := &a2a.AgentCard{
		Name:               agent.Name,
		Description:        agent.Description,
		Version:            agent.Version,
		DefaultInputModes:  slices.Clone(agent.DefaultInputModes),
		DefaultOutputModes: slices.Clone(agent.DefaultOutputModes),
		Capabilities: a2a.AgentCapabilities{
			Streaming:         new(agent.Streaming),
			PushNotifications: new(agent.PushNotifications),
			ExtendedAgentCard: new(agent.Extended != nil),
		},
	}
	base = strings.TrimSuffix(base, "/")
	paths := PathsOf(agent, id, tenant)
	for _, version := range agent.Versions {
		if version == a2a.Version03.String() {
			card.SupportedInterfaces = append(card.SupportedInterfaces, oldInterfaces(agent, id, base, tenant)...)
			continue
		}
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			a2a.AgentInterface{URL: base + paths.JSONRPC, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: version, Tenant: tenant},
			a2a.AgentInterface{URL: base + paths.REST, ProtocolBinding: a2a.BindingREST, ProtocolVersion: version, Tenant: tenant},
		)
	}
	version := a2a.Version10.String()
	if target := grpcTarget(base); agent.GRPC && target != "" && slices.Contains(agent.Versions, version) {
		card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.AgentInterface{
			URL: target, ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: version, Tenant: grpcTenant(id, tenant),
		})
	}
	if p := agent.Provider; p != nil {
		card.Provider = &a2a.AgentProvider{Organization: p.Organization, URL: p.URL}
	}
	if agent.DocumentationURL != "" {
		card.DocumentationURL = new(agent.DocumentationURL)
	}
	if agent.IconURL != "" {
		card.IconURL = new(agent.IconURL)
	}
	for _, e := range agent.Extensions {
		card.Capabilities.Extensions = append(card.Capabilities.Extensions, a2a.AgentExtension{
			URI: e.URI, Description: e.Description, Required: e.Required, Params: slices.Clone(e.Params),
		})
	}
	card.Capabilities.Extensions = append(card.Capabilities.Extensions, ownExtensions(agent)...)
	card.Skills = skillsOf(agent.Skills)
	return card
}

const idempotencyText = "Does once what a message asks for that is sent again, and gives the first answer."

// ownExtensions are the extensions that the node itself adds to an agent.
func ownExtensions(agent *config.Agent) []a2a.AgentExtension {
	var own []a2a.AgentExtension
	add := func(uri, description string) {
		if !slices.ContainsFunc(agent.Extensions, func(e config.Extension) bool { return e.URI == uri }) {
			own = append(own, a2a.AgentExtension{URI: uri, Description: description})
		}
	}
	if agent.Lineage {
		add(a2a.LineageExtension, "Reads in the metadata of a message for which task it is sent and through which agents it came, and refuses loops.")
	}
	if agent.Idempotency == config.IdempotencyOn {
		add(a2a.IdempotencyExtension, idempotencyText)
	}
	if agent.Grants == config.GrantsCaller {
		add(a2a.GrantExtension, "Takes decisions on the authorizations that it asks for in the metadata of a message.")
	}
	return own
}

// SkillsOf returns all skills of an agent: those of its card, and those that
// only its extended card has.
func SkillsOf(agent *config.Agent) []a2a.AgentSkill { return skillsOf(agent.AllSkills()) }

func skillsOf(configured []config.Skill) []a2a.AgentSkill {
	var skills []a2a.AgentSkill
	for _, s := range configured {
		skills = append(skills, a2a.AgentSkill{
			ID: s.ID, Name: s.Name, Description: s.Description, Tags: slices.Clone(s.Tags),
			Examples: slices.Clone(s.Examples), InputModes: slices.Clone(s.InputModes), OutputModes: slices.Clone(s.OutputModes),
		})
	}
	return skills
}

// oldInterfaces are those of version 0.3, whose requests carry no tenant, and
// whose paths over HTTP+JSON begin with /v1 (A2A 0.3 §3.5.3).
func oldInterfaces(agent *config.Agent, id, base, tenant string) []a2a.AgentInterface {
	version := a2a.Version03.String()
	rpc := base + PathsOf(agent, id, tenant).JSONRPC
	if tenant != "" {
		rpc += "/" + tenant
	}
	return []a2a.AgentInterface{
		{URL: rpc, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: version},
		{URL: Address(base, id, tenant), ProtocolBinding: a2a.BindingREST, ProtocolVersion: version},
	}
}

// offerOldGRPC adds gRPC of version 0.3, which reaches the default agent alone:
// nothing in its requests would tell another, or a tenant.
func offerOldGRPC(card *a2a.AgentCard, c *config.Config, agent *config.Agent, id, base, tenant string) {
	version := a2a.Version03.String()
	target := grpcTarget(strings.TrimSuffix(base, "/"))
	if !agent.GRPC || target == "" || tenant != "" || id != c.DefaultAgentID() || !slices.Contains(agent.Versions, version) {
		return
	}
	card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.AgentInterface{URL: target, ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: version})
}

// grpcTarget returns the host and port at which a base URL is reached over gRPC
// (a2a.proto, AgentInterface.url); "" for a URL with a path, which gRPC cannot
// have.
func grpcTarget(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return ""
	}
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// grpcTenant returns what leads to an agent over gRPC, where all agents of a node
// have one address.
func grpcTenant(id, tenant string) string {
	if tenant == "" {
		return id
	}
	return id + "/" + tenant
}
