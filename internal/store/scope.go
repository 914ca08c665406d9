package store

// Scope says for whom a store is read. Package auth builds it; the zero Scope
// matches nothing.
type Scope struct {
	reach  reach
	tenant string
	owner  string
}

type reach int8

const (
	reachNothing reach = iota
	reachOwner
	reachTenant
	reachAll
)

// ForOwner returns the scope of one caller.
func ForOwner(tenant, owner string) Scope {
	return Scope{reach: reachOwner, tenant: tenant, owner: owner}
}

// ForTenant returns the scope of everybody in a tenant.
func ForTenant(tenant string) Scope { return Scope{reach: reachTenant, tenant: tenant} }

// ForAll returns the scope of the operator and of the node itself.
func ForAll() Scope { return Scope{reach: reachAll} }

// Owner returns the tenant and the owner when the scope is that of one caller.
func (s Scope) Owner() (tenant, owner string, ok bool) {
	return s.tenant, s.owner, s.reach == reachOwner
}

// Tenant returns the tenant when the scope is limited to one.
func (s Scope) Tenant() (tenant string, ok bool) {
	return s.tenant, s.reach == reachOwner || s.reach == reachTenant
}

// All reports whether the scope reaches everything.
func (s Scope) All() bool { return s.reach == reachAll }

// Includes reports whether what belongs to that owner is in the scope.
func (s Scope) Includes(tenant, owner string) bool {
	switch s.reach {
	case reachOwner:
		return s.tenant == tenant && s.owner == owner
	case reachTenant:
		return s.tenant == tenant
	case reachAll:
		return true
	}
	return false
}
