package card

import (
	"cmp"
	"slices"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// ForExtended builds the extended card of an agent that has one (A2A §3.1.11):
// the public card, but for what the configuration has under extended, and
// without the skills for which the caller lacks a scope. Its security schemes
// name the scopes of the public card and those of the skills that are left.
func ForExtended(c *config.Config, id, base, tenant string, scopes []string) *a2a.AgentCard {
	agent := c.Agents[id]
	shown := extendedAgent(agent, scopes)
	card := Build(shown, id, base, tenant)
	offerOldGRPC(card, c, shown, id, base, tenant)
	secure(card, c, shown, union(scopesOf(agent), scopesOf(shown)))
	return card
}

// extendedAgent is an agent as its extended card describes it.
func extendedAgent(agent *config.Agent, scopes []string) *config.Agent {
	shown := *agent
	e := agent.Extended
	shown.Name = cmp.Or(e.Name, agent.Name)
	shown.Description = cmp.Or(e.Description, agent.Description)
	shown.Version = cmp.Or(e.Version, agent.Version)
	shown.DocumentationURL = cmp.Or(e.DocumentationURL, agent.DocumentationURL)
	shown.Skills = slices.DeleteFunc(slices.Clone(agent.AllSkills()), func(s config.Skill) bool { return !holds(scopes, s.Scopes) })
	return &shown
}

func holds(scopes, needed []string) bool {
	for _, scope := range needed {
		if !slices.Contains(scopes, scope) {
			return false
		}
	}
	return true
}

// allScopes are the scopes of somebody who may use all skills of an agent.
func allScopes(agent *config.Agent) []string {
	var scopes []string
	for _, s := range agent.AllSkills() {
		scopes = union(scopes, s.Scopes)
	}
	return scopes
}
