package client

import "handoff.example/handoff/a2a"

// ParseCard reads the JSON of a card, of version 1.0 or 0.3, and checks that it is
// usable, as Discover does. The reference names it in errors, which are
// *CardErrors.
func ParseCard(data []byte, ref string) (*a2a.AgentCard, error) { return parseCard(data, ref) }
