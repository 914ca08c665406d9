package card

import (
	"regexp"
	"strings"

	"handoff.example/handoff/config"
)

// Check lints the card of every agent of a configuration and returns what it
// finds at the keys of the file that the card's fields came from. Problems
// break the specification, and nothing may be served with them.
func Check(c *config.Config) (problems, warnings []config.Problem) {
	base := c.PublicURL
	if base == "" {
		base = "http://localhost" // the request will say
	}
	for _, id := range c.AgentIDs() {
		for _, f := range Lint(For(c, id, base, "")) {
			if f.Field == "skills" && c.Agents[id].Run.MCP != nil {
				continue // they are the tools of a server, which are not known yet
			}
			text := f.Text
			if f.Paragraph != "" {
				text += " (" + f.Paragraph + ")"
			}
			p := c.Problem(pathOf(id, f.Field), "%s", text)
			if f.Level == LevelError {
				problems = append(problems, p)
			} else if !strings.HasPrefix(f.Field, "supportedInterfaces") || c.PublicURL == "" {
				// What is wrong with public_url is reported once, as that.
				warnings = append(warnings, p)
			}
		}
	}
	return problems, warnings
}

var capital = regexp.MustCompile(`[A-Z]+`)

// pathOf returns the key of the configuration that a field of an agent's card
// comes from.
func pathOf(id, field string) string {
	path := "agents." + id
	if field == "" {
		return path
	}
	if strings.HasPrefix(field, "supportedInterfaces") {
		return "public_url"
	}
	field = strings.TrimPrefix(field, "capabilities.")
	return path + "." + capital.ReplaceAllStringFunc(field, func(s string) string { return "_" + strings.ToLower(s) })
}
