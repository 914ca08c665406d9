package wire

import (
	"fmt"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
)

// checkSkill returns the skill that a message names, nil when it names none. An
// unknown one is an error.
func (a *Agent) checkSkill(m *a2a.Message) (*a2a.AgentSkill, error) {
	if m.Metadata == nil {
		return nil, nil
	}
	id := engine.SkillOf(m)
	if id == "" {
		return nil, nil
	}
	skill := a.skill(id)
	if skill == nil {
		return nil, a2a.Invalid("message.metadata.skillId", "%q is not a skill of this agent", clip(id, 64))
	}
	return skill, nil
}

// checkModes refuses a message with a part of a media type that the agent does
// not take (A2A §3.1.1). A named skill may have its own types; without one, a
// type is taken if any skill takes it.
func (a *Agent) checkModes(m *a2a.Message, skill *a2a.AgentSkill) error {
	for i := range m.Parts {
		mediaType := typeOf(&m.Parts[i])
		if mediaType == "" || a.takes(mediaType, skill) {
			continue
		}
		field := fmt.Sprintf("message.parts[%d].mediaType", i)
		return &a2a.Error{
			Code:       a2a.CodeContentTypeNotSupported,
			Message:    fmt.Sprintf("The media type %q of part %d is not supported; the agent takes %s", clip(mediaType, 128), i, strings.Join(a.modes(skill), ", ")),
			Violations: []a2a.Violation{{Field: field, Description: "is not supported"}},
			Metadata:   map[string]string{"mediaType": clip(mediaType, 128)},
		}
	}
	return nil
}

// typeOf returns the media type of a part without its parameters; "" when any
// agent takes it: text, and a link of which nothing is known.
func typeOf(p *a2a.Part) string {
	if p.MediaType != "" {
		mediaType, _, _ := strings.Cut(p.MediaType, ";")
		return strings.TrimSpace(mediaType)
	}
	switch p.Kind {
	case a2a.PartData:
		return "application/json"
	case a2a.PartRaw:
		return "application/octet-stream"
	}
	return ""
}

// modes returns the media types that are taken.
func (a *Agent) modes(skill *a2a.AgentSkill) []string {
	if skill != nil {
		if len(skill.InputModes) > 0 {
			return skill.InputModes
		}
		return a.InputModes
	}
	modes := a.InputModes
	for i := range a.Spec.Skills {
		modes = append(modes[:len(modes):len(modes)], a.Spec.Skills[i].InputModes...)
	}
	return modes
}

func (a *Agent) takes(mediaType string, skill *a2a.AgentSkill) bool {
	if skill != nil && len(skill.InputModes) > 0 {
		return matchesAny(skill.InputModes, mediaType)
	}
	if matchesAny(a.InputModes, mediaType) {
		return true
	}
	if skill == nil {
		for i := range a.Spec.Skills {
			if matchesAny(a.Spec.Skills[i].InputModes, mediaType) {
				return true
			}
		}
	}
	return false
}

func matchesAny(modes []string, mediaType string) bool {
	for _, mode := range modes {
		if matches(mode, mediaType) {
			return true
		}
	}
	return false
}

// matches reports whether a media type is of a mode, which may end in /*.
func matches(mode, mediaType string) bool {
	mode, _, _ = strings.Cut(mode, ";")
	mode = strings.TrimSpace(mode)
	if mode == "*/*" || mode == "*" {
		return true
	}
	if kind, ok := strings.CutSuffix(mode, "/*"); ok {
		return len(mediaType) > len(kind) && mediaType[len(kind)] == '/' && strings.EqualFold(kind, mediaType[:len(kind)])
	}
	return strings.EqualFold(mode, mediaType)
}

// clip cuts a text that comes from a client to at most n bytes, at a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}
