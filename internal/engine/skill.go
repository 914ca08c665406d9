package engine

import (
	"slices"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// skillsOf returns the skills that a caller may use.
func (s *Spec) skillsOf(c *agent.Caller) []a2a.AgentSkill {
	if len(s.SkillScopes) == 0 && len(s.ExtendedSkills) == 0 {
		return s.Skills
	}
	skills := make([]a2a.AgentSkill, 0, len(s.Skills))
	for _, skill := range s.Skills {
		if c.Subject == "" && slices.Contains(s.ExtendedSkills, skill.ID) {
			continue
		}
		if !slices.ContainsFunc(s.SkillScopes[skill.ID], func(scope string) bool { return !slices.Contains(c.Scopes, scope) }) {
			skills = append(skills, skill)
		}
	}
	return skills
}
