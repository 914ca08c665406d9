package ledger

import (
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// prepared returns a link with its defaults, whose client keeps to its clocks
// and opts into the extensions that are used.
func prepared(link *Link) (Link, error) {
	l := link.withDefaults()
	c, err := l.Client.With(func(o *client.Options) {
		// Sends and streams have clocks of the ledger's own.
		o.ResponseTimeout, o.IdleTimeout, o.CallTimeout = 0, -1, l.Answer
		for _, uri := range [...]string{a2a.LineageExtension, a2a.GrantExtension} {
			if declares(l.Client.Card(), uri) {
				o.Extensions = append(o.Extensions[:len(o.Extensions):len(o.Extensions)], uri)
			}
		}
	})
	if err != nil {
		return l, err
	}
	l.Client = c
	return l, nil
}
