// Package auth says who is calling and what they may do, and seals what is kept
// but not to be read. It alone builds the scopes under which callers reach the
// store.
package auth

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
)

// Principal is who is calling. The zero Principal may do nothing.
type Principal struct {
	Tenant  string
	Issuer  string   // of the credential; "" for an anonymous caller
	Subject string   // "" for an anonymous caller
	Scopes  []string // OAuth scopes
	Role    Role
	// Key is the id of the API key that the caller has shown; "" for none.
	Key string
	// Session is how the session began that the caller uses: ByKey, ByOIDC or
	// ByLink; "" without one.
	Session string
	// Local says that the caller is on this machine.
	Local bool
	// Address is the network address of the caller, for limits and the record.
	Address string
}

// IssuerSocket is the issuer of whoever can open the admin socket.
const IssuerSocket = "socket"

// Anonymous reports whether the caller has shown no credential.
func (p *Principal) Anonymous() bool { return p.Subject == "" }

// Role says what a principal may do; each may do what the ones before it may.
type Role uint8

// The roles of a principal.
const (
	RoleNone     Role = iota
	RoleViewer        // reads its own tasks
	RoleCaller        // sends messages and cancels its own tasks
	RoleOperator      // sees and cancels the tasks of its tenant, of all when it has none
	RoleAdmin         // changes the node
)

// String returns the name of the role as the configuration has it.
func (r Role) String() string {
	switch r {
	case RoleViewer:
		return "viewer"
	case RoleCaller:
		return "caller"
	case RoleOperator:
		return "operator"
	case RoleAdmin:
		return "admin"
	}
	return "none"
}

// Scope returns the scope of the caller's own tasks, under which every operation
// of the protocol runs (A2A §13.1). Nothing in a request can widen it.
func Scope(p *Principal) store.Scope {
	if p.Role == RoleNone {
		return store.Scope{}
	}
	return store.ForOwner(p.Tenant, p.Subject)
}

// Reach returns the scope of everything that the principal may see in the node's
// own interface: all for an operator, or its tenant when it has one, and its own
// tasks for everybody else.
func Reach(p *Principal) store.Scope {
	switch {
	case p.Role < RoleOperator:
		return Scope(p)
	case p.Tenant != "":
		return store.ForTenant(p.Tenant)
	}
	return store.ForAll()
}

// roles are the roles by their names.
var roles = map[config.Role]Role{
	config.RoleNone: RoleNone, config.RoleViewer: RoleViewer, config.RoleCaller: RoleCaller,
	config.RoleOperator: RoleOperator, config.RoleAdmin: RoleAdmin,
}

// ParseRole returns the role of that name, and false when there is none.
func ParseRole(name string) (Role, bool) {
	r, ok := roles[config.Role(name)]
	return r, ok
}

// Bounds of what a credential says of its principal, in bytes.
const (
	maxSubject = 255
	maxTenant  = 63
	maxScopes  = 200 // of one principal
	maxScope   = 255
)

var tenantName = regexp.MustCompile(`^[a-z0-9-]+$`)

// checkPrincipal refuses what cannot be a principal: nobody may become the
// anonymous caller, or somebody else, by a subject that is empty or that cannot
// be told from another.
func checkPrincipal(subject, tenant string, scopes []string) error {
	switch {
	case subject == "":
		return errors.New("the subject is empty")
	case len(subject) > maxSubject:
		return fmt.Errorf("the subject is longer than %d bytes", maxSubject)
	case !printable(subject) || strings.TrimSpace(subject) != subject:
		return errors.New("the subject has characters that cannot be shown")
	case tenant != "" && (len(tenant) > maxTenant || !tenantName.MatchString(tenant)):
		return errors.New("the tenant is not one: a to z, 0 to 9 and -, at most 63")
	case len(scopes) > maxScopes:
		return fmt.Errorf("there are more than %d scopes", maxScopes)
	}
	for _, scope := range scopes {
		if !isScope(scope) {
			return fmt.Errorf("%.40q is not a scope", scope)
		}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// isScope reports whether a text is a scope-token (RFC 6749 §3.3).
func isScope(s string) bool {
	if s == "" || len(s) > maxScope {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
