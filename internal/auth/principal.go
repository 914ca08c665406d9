// Package auth says who is calling and what they may do, and seals what is kept
// but not to be read. It alone builds the scopes under which callers reach the
// store.
package auth

import "handoff.example/handoff/internal/store"

// Principal is who is calling. The zero Principal may do nothing.
type Principal struct {
	Tenant  string
	Issuer  string   // of the credential; "" for an anonymous caller
	Subject string   // "" for an anonymous caller
	Scopes  []string // OAuth scopes
	Role    Role
	// Local says that the caller is on this machine.
	Local bool
	// Address is the network address of the caller, for limits and the record.
	Address string
}

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
