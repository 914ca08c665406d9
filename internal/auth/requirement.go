package auth

import (
	"net/http"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
)

// Requirement is what a caller has to have beyond a credential. The zero
// Requirement asks for nothing.
type Requirement struct {
	Role   Role     // the least
	Scopes []string // all of them
}

// Missing returns the scopes that the caller does not have.
func (q *Requirement) Missing(held []string) []string {
	var missing []string
	for _, scope := range q.Scopes {
		if !slices.Contains(held, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// Challenger tells callers how to authenticate. Chain is one.
type Challenger interface {
	Challenge(r *http.Request) []string
	ScopeChallenge(r *http.Request, scopes []string, message string) []string
}

// Check refuses a caller that does not have what is required for something, such
// as "this agent": one without a credential as unauthenticated, and one that has
// shown one as not permitted, with the scopes that are missing. How is who tells
// callers how to authenticate; nil: nobody.
func (q *Requirement) Check(r *http.Request, p *Principal, what string, how Challenger) error {
	missing := q.Missing(p.Scopes)
	lacks := p.Role < q.Role
	if len(missing) == 0 && !lacks {
		return nil
	}
	if p.Anonymous() {
		refusal := &Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required for %s", what)}
		if how != nil {
			refusal.Challenges = how.Challenge(r)
		}
		return refusal
	}
	if len(missing) == 0 {
		return a2a.Errorf(a2a.CodePermissionDenied, "The role %s may not use %s; it takes the role %s", p.Role, what, q.Role)
	}
	noun := "scope"
	if len(missing) > 1 {
		noun = "scopes"
	}
	refusal := &Refusal{Err: a2a.Errorf(a2a.CodePermissionDenied, "The credential lacks the %s %s for %s", noun, strings.Join(missing, ", "), what)}
	refusal.Err.Metadata = map[string]string{"scope": strings.Join(missing, " ")}
	if how != nil {
		refusal.Challenges = how.ScopeChallenge(r, q.Scopes, refusal.Err.Message)
	}
	return refusal
}
