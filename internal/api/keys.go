package api

import (
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store"
)

// apiKey is an API key without what is secret.
type apiKey struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Tenant  string    `json:"tenant,omitempty"`
	Role    string    `json:"role"`
	Scopes  []string  `json:"scopes,omitempty"`
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero"`
}

func apiKeyOf(k *store.APIKey) *apiKey {
	return &apiKey{k.ID, k.Subject, k.Tenant, k.Role, k.Scopes, k.Created, k.By, k.Expires, k.Revoked, k.Used}
}

var errNoKeys = a2a.Errorf(a2a.CodeUnsupportedOperation, "This node has no API keys")

// listKeys returns all API keys, newest first.
func (c *call) listKeys() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	if c.h.opts.Keys == nil {
		return nil, errNoKeys
	}
	rows, err := c.h.opts.Keys.List(c.context())
	if err != nil {
		return nil, err
	}
	answer := struct {
		Keys []*apiKey `json:"keys"`
	}{make([]*apiKey, len(rows))}
	for i := range rows {
		answer.Keys[i] = apiKeyOf(&rows[i])
	}
	return answer, nil
}

// createKey makes an API key and returns it, once.
func (c *call) createKey() (any, error) {
	var q struct {
		Subject string    `json:"subject"`
		Tenant  string    `json:"tenant"`
		Role    string    `json:"role"`
		Scopes  []string  `json:"scopes"`
		Expires time.Time `json:"expires"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	switch {
	case c.h.opts.Keys == nil:
		return nil, errNoKeys
	case !c.h.opts.Config().Callers.Keys:
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The node accepts no API keys; set callers.keys to true in its configuration first")
	case q.Role == "":
		q.Role = auth.RoleCaller.String()
	}
	role, ok := auth.ParseRole(q.Role)
	if !ok || role == auth.RoleNone {
		return nil, a2a.Invalid("role", "is none of viewer, caller, operator and admin")
	}
	text, row, err := c.h.opts.Keys.Create(c.context(), &auth.KeyRequest{
		Subject: q.Subject, Tenant: q.Tenant, Role: role, Scopes: q.Scopes, Expires: q.Expires, By: c.caller.Subject,
	})
	if err != nil {
		return nil, err
	}
	c.target = row.ID
	c.h.log.InfoContext(c.context(), "An API key was made", "key", row.ID, "subject", row.Subject, "tenant", row.Tenant, "role", row.Role, "by", row.By)
	return struct {
		apiKey `json:",inline"`

		Key string `json:"key"`
	}{*apiKeyOf(row), text}, nil
}

// revokeKey ends an API key.
func (c *call) revokeKey() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	if c.h.opts.Keys == nil {
		return nil, errNoKeys
	}
	id := c.r.PathValue("id")
	err := c.h.opts.Keys.Revoke(c.context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.Errorf(a2a.CodeTaskNotFound, "There is no such API key")
	}
	if err != nil {
		return nil, err
	}
	c.h.log.InfoContext(c.context(), "An API key was revoked", "key", id, "by", c.caller.Subject)
	return nil, nil
}
