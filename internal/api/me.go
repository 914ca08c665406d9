package api

import (
	"strings"

	"handoff.example/handoff/internal/auth"
)

// self is who is calling, as the node sees it.
type self struct {
	Subject   string `json:"subject"`
	Tenant    string `json:"tenant"`
	Issuer    string `json:"issuer,omitempty"`
	Role      string `json:"role"`
	Local     bool   `json:"local"`
	Anonymous bool   `json:"anonymous"`
	How       string `json:"how"`
	Key       string `json:"key,omitempty"`
	Sees      string `json:"sees"` // own, tenant or all
}

// me says who the caller is, and what it sees.
func (c *call) me() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	p := &c.caller
	s := &self{
		Subject: p.Subject, Tenant: p.Tenant, Issuer: p.Issuer, Role: p.Role.String(), Local: p.Local, Anonymous: p.Anonymous(),
		How: howOf(p), Key: p.Key, Sees: "own",
	}
	switch {
	case p.Role < auth.RoleOperator:
	case p.Tenant != "":
		s.Sees = "tenant"
	default:
		s.Sees = "all"
	}
	return s, nil
}

// howOf says by what a caller has shown who it is.
func howOf(p *auth.Principal) string {
	switch {
	case p.Anonymous():
		return "anonymous"
	case p.Session != "":
		return "session"
	case p.Key != "":
		return "key"
	case p.Issuer == auth.IssuerSocket:
		return "socket"
	case p.Issuer == "basic":
		return "password"
	case p.Issuer == "mtls":
		return "certificate"
	case strings.HasPrefix(p.Issuer, "https://"), strings.HasPrefix(p.Issuer, "http://"):
		return "token"
	}
	return "other"
}
