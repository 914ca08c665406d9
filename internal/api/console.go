package api

import (
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
)

// createConsoleLink makes a link that signs its reader in to the console as an
// admin, once. It is for whoever can open the admin socket.
func (c *call) createConsoleLink() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	switch {
	case c.caller.Issuer != auth.IssuerSocket || c.caller.Session != "":
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "Links that sign in are made over the admin socket only")
	case c.h.opts.ConsoleLink == nil:
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "This node has no console")
	}
	link, expires, err := c.h.opts.ConsoleLink(c.context())
	if err != nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "There is no link: %w", err)
	}
	return struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires"`
	}{link, expires}, nil
}
