package card

import (
	"fmt"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/config"
)

// SignerOf loads the signing keys of a configuration, nil for none.
func SignerOf(c *config.Config) (*Signer, error) {
	signer, problems := loadSigner(c)
	return signer, c.Refuse(problems...)
}

func loadSigner(c *config.Config) (*Signer, []config.Problem) {
	if c.Signing == nil {
		return nil, nil
	}
	var keys []*SigningKey
	var problems []config.Problem
	for i, k := range c.SigningKeys() {
		key, err := LoadSigningKey(k.File, k.ID, k.Alg)
		if err != nil {
			problems = append(problems, c.Problem(fmt.Sprintf("signing.keys[%d]", i), "%v", err))
			continue
		}
		keys = append(keys, key)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	signer, err := NewSigner(keys, c.SigningJKU())
	if err != nil {
		return nil, []config.Problem{c.Problem("signing", "%v", err)}
	}
	return signer, nil
}

// CheckSigning returns what keeps the cards of a configuration from being
// signed: keys that cannot be used, and what a signed card cannot have.
func CheckSigning(c *config.Config) []config.Problem {
	if c.Signing == nil || c.PublicURL == "" {
		return nil // what is missing was found before
	}
	_, problems := loadSigner(c)
	for _, id := range c.AgentIDs() {
		found := unsignable(c, id, For(c, id, c.PublicURL, ""), "")
		if agent := c.Agents[id]; agent.Extended != nil && len(found) == 0 {
			found = unsignable(c, id, ForExtended(c, id, c.PublicURL, "", allScopes(agent)), ".extended")
		}
		problems = append(problems, found...)
	}
	return problems
}

// unsignable returns what a card has that cannot be signed, each at its key.
func unsignable(c *config.Config, id string, card *a2a.AgentCard, at string) []config.Problem {
	data := v03.AppendCard(nil, card)
	root, err := parseCard(data)
	if err != nil {
		return []config.Problem{c.Problem("agents."+id+at, "the card cannot be signed: %v", err)}
	}
	place := func(field string) string {
		if at != "" {
			return "agents." + id + at // its skills are counted otherwise
		}
		return pathOf(id, strings.TrimPrefix(field, "."))
	}
	var problems []config.Problem
	for _, field := range root.missing(cardMessage, "") {
		problems = append(problems, c.Problem(place(field), "the card cannot be signed, since %s is required and is empty (A2A §8.4.1)", field))
	}
	if where, number := root.inexact(""); number != "" {
		problems = append(problems, c.Problem(place(where), "the card cannot be signed, since %s of %s changes when it is read as a double; write it as a text", number, where))
	}
	if len(problems) > 0 {
		return problems
	}
	if err := root.signable(data); err != nil {
		return []config.Problem{c.Problem("agents."+id+at, "the card cannot be signed: %v", err)}
	}
	return nil
}
