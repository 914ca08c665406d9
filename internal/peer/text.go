package peer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"handoff.example/handoff/a2a"
)

// Bounds of what a peer says of itself, in bytes. People and models read it.
const (
	maxName        = 200
	maxDescription = 2000
	maxSkills      = 200
	maxExamples    = 20
	maxTags        = 50
)

// Clean bounds a text that comes from a peer and takes control characters out of
// it, and what turns the direction of text. Line breaks and tabs become spaces
// unless lines is true. What is left is text: nobody may take it for HTML or for
// an instruction.
func Clean(text string, limit int, lines bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case lines && r == '\n':
		case r == '\n', r == '\t', r == '\r':
			r = ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Noncharacter_Code_Point, r),
			r == '\u2028', r == '\u2029', r == '\ufeff', r >= 0xe0000 && r <= 0xe007f: // tags: text that nobody sees
			continue
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// cleanCard returns a card whose texts for people are bounded and clean (row
// S20). What programs compare, such as ids and URLs, is as it was.
func cleanCard(card *a2a.AgentCard) *a2a.AgentCard {
	c := *card
	c.Name = Clean(c.Name, maxName, false)
	c.Description = Clean(c.Description, maxDescription, true)
	c.Version = Clean(c.Version, maxName, false)
	if c.Provider != nil {
		c.Provider = &a2a.AgentProvider{URL: Clean(c.Provider.URL, maxDescription, false), Organization: Clean(c.Provider.Organization, maxName, false)}
	}
	c.Skills = make([]a2a.AgentSkill, min(len(card.Skills), maxSkills))
	for i := range c.Skills {
		s := card.Skills[i]
		s.Name = Clean(s.Name, maxName, false)
		s.Description = Clean(s.Description, maxDescription, true)
		s.Tags = cleanAll(s.Tags, maxTags, maxName)
		s.Examples = cleanAll(s.Examples, maxExamples, maxDescription)
		c.Skills[i] = s
	}
	return &c
}

func cleanAll(texts []string, count, limit int) []string {
	clean := make([]string, min(len(texts), count))
	for i := range clean {
		clean[i] = Clean(texts[i], limit, false)
	}
	return clean
}
