package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"handoff.example/handoff/internal/netguard"
)

var (
	scopeName  = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,255}$`) // scope-token of RFC 6749 §3.3
	tenantForm = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	schemeName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	// takenSchemes are the names of the other schemes in the cards.
	takenSchemes = []string{SchemeKey, SchemeBearer, SchemeBasic, SchemeMTLS}
)

// Names of security schemes in the cards.
const (
	SchemeKey    = "apiKey"
	SchemeBearer = "bearer"
	SchemeBasic  = "basic"
	SchemeMTLS   = "mtls"
)

func (v *validator) callers() {
	c := &v.config.Callers
	schemes, issuers := map[string]int{}, map[string]int{}
	for i := range c.OIDC {
		path := fmt.Sprintf("callers.oidc[%d]", i)
		v.oidc(path, &c.OIDC[i])
		if first, twice := issuers[c.OIDC[i].Issuer]; twice {
			v.problem(path+".issuer", "", "is the issuer of callers.oidc[%d] too", first)
		}
		issuers[c.OIDC[i].Issuer] = i
		name := c.OIDC[i].Scheme
		first, twice := schemes[name]
		switch {
		case twice:
			v.problem(path+".scheme", "give each issuer a name of its own", "is the name of callers.oidc[%d] too", first)
		case slices.Contains(takenSchemes, name):
			v.problem(path+".scheme", "", "is the name of another security scheme")
		case !schemeName.MatchString(name):
			v.problem(path+".scheme", "", "is not a name of letters, digits, dots and dashes")
		}
		schemes[name] = i
	}
	v.issuersApart()
	users := map[string]bool{}
	for i, u := range c.Basic {
		path := fmt.Sprintf("callers.basic[%d]", i)
		if users[u.User] {
			v.problem(path+".user", "", "is there twice")
		}
		users[u.User] = true
		if u.User == "" || len(u.User) > 255 || strings.Contains(u.User, ":") || strings.TrimSpace(u.User) != u.User {
			v.problem(path+".user", "", "is not a name: it cannot be empty, have a colon, or begin or end with a space")
		}
		v.tenant(path+".tenant", u.Tenant)
		v.scopes(path+".scopes", u.Scopes)
	}
	if m := c.MTLS; m != nil {
		if t := v.config.TLS; t == nil || t.ClientAuth == "" || t.ClientAuth == ClientAuthNone {
			v.problem("callers.mtls", "set tls.client_auth to optional or required, and tls.client_ca", "needs client certificates, and the node asks for none")
		}
		v.tenant("callers.mtls.tenant", m.Tenant)
		v.scopes("callers.mtls.scopes", m.Scopes)
		for i, r := range m.Rules {
			path := fmt.Sprintf("callers.mtls.rules[%d]", i)
			if at := strings.IndexByte(r.Match, '*'); at >= 0 && at != len(r.Match)-1 {
				v.problem(path+".match", "", "has a * that is not at its end")
			}
			v.tenant(path+".tenant", r.Tenant)
			v.scopes(path+".scopes", r.Scopes)
		}
	}
	if len(c.Basic) > 0 && v.config.TLS == nil && v.config.PublicURL != "" && strings.HasPrefix(v.config.PublicURL, "http://") {
		v.warn("callers.basic", "publish the node with https", "sends passwords in clear")
	}
}

func (v *validator) oidc(path string, o *OIDC) {
	v.secureURL(path+".issuer", o.Issuer)
	if o.Audience == "" {
		v.problem(path+".audience", "write what aud of the tokens for this node is", "is empty, so that tokens for anybody would do")
	}
	if o.JWKSURL != "" {
		v.secureURL(path+".jwks_url", o.JWKSURL)
	}
	if len(o.Algorithms) == 0 {
		v.problem(path+".algorithms", "", "is empty, so that no token would do")
	}
	if o.SubjectClaim == "" {
		v.problem(path+".subject_claim", "", "is empty")
	}
	v.tenant(path+".tenant", o.Tenant)
	if o.Tenant != "" && o.TenantClaim != "" {
		v.problem(path+".tenant_claim", "", "cannot be set beside tenant")
	}
	switch {
	case len(o.Roles) > 0 && o.RolesClaim == "":
		v.problem(path+".roles", "name the claim in roles_claim", "is for the values of a claim, and no claim is named")
	case len(o.Roles) == 0 && o.RolesClaim != "":
		v.problem(path+".roles_claim", "say in roles what its values mean", "names a claim whose values mean nothing")
	}
	for _, value := range slices.Sorted(maps.Keys(o.Roles)) {
		if !slices.Contains([]Role{RoleNone, RoleViewer, RoleCaller, RoleOperator, RoleAdmin}, o.Roles[value]) {
			v.problem(join(path+".roles", value), "", "is not one of none, viewer, caller, operator, admin")
		}
	}
	if a := o.OAuth2; a != nil {
		at := path + ".oauth2"
		v.secureURL(at+".token_url", a.TokenURL)
		for name, text := range map[string]string{"refresh_url": a.RefreshURL, "metadata_url": a.MetadataURL} {
			if text != "" {
				v.secureURL(at+"."+name, text)
			}
		}
		if a.Flow == FlowAuthorizationCode || a.AuthorizationURL != "" {
			v.secureURL(at+".authorization_url", a.AuthorizationURL)
		}
		if a.Flow == FlowDeviceCode || a.DeviceAuthorizationURL != "" {
			v.secureURL(at+".device_authorization_url", a.DeviceAuthorizationURL)
		}
		v.scopes(at+".scopes", slices.Sorted(maps.Keys(a.Scopes)))
	}
}

// issuersApart sees that no issuer can give a token for the callers of another.
func (v *validator) issuersApart() {
	list := v.config.Callers.OIDC
	for i := range list {
		for j := range i {
			a, b := &list[i], &list[j]
			if !tenantsApart(a, b) && (strings.HasPrefix(a.SubjectPrefix, b.SubjectPrefix) || strings.HasPrefix(b.SubjectPrefix, a.SubjectPrefix)) {
				v.problem(fmt.Sprintf("callers.oidc[%d].subject_prefix", i), "give each of the two a subject_prefix of its own such as partner:, or each a tenant",
					"lets this issuer and callers.oidc[%d] name each other's callers: %s", j, alike(a.SubjectPrefix, b.SubjectPrefix))
			}
		}
	}
}

// tenantsApart reports whether no tenant has callers of both issuers.
func tenantsApart(a, b *OIDC) bool {
	switch {
	case a.TenantClaim != "" && b.TenantClaim != "":
		return false
	case a.TenantClaim != "": // whose callers have one
		return b.Tenant == ""
	case b.TenantClaim != "":
		return a.Tenant == ""
	default:
		return a.Tenant != b.Tenant
	}
}

// alike says how a name of one of two issuers can be one of the other.
func alike(prefix, other string) string {
	switch {
	case prefix == other:
		return "both call them by the same names"
	case prefix == "" || other == "":
		return fmt.Sprintf("one has no prefix, so that its names can begin with %q too", prefix+other)
	case len(prefix) < len(other):
		return fmt.Sprintf("%q begins with %q", other, prefix)
	default:
		return fmt.Sprintf("%q begins with %q", prefix, other)
	}
}

// secureURL checks a URL that secrets or keys come from.
func (v *validator) secureURL(path, text string) {
	u, message := webURL(text)
	switch {
	case message != "":
		v.problem(path, "write it like https://sso.example.com", "%s", message)
	case u.Scheme != "https" && !netguard.IsLoopback(u.Hostname()):
		v.problem(path, "", "is not https, so that anybody on the way could change what comes from it")
	case hasQuery(u):
		v.problem(path, "", "has a query or a fragment")
	}
}

func hasQuery(u *url.URL) bool { return u.RawQuery != "" || u.Fragment != "" || u.ForceQuery }

func (v *validator) tenant(path, tenant string) {
	if tenant != "" && !tenantForm.MatchString(tenant) {
		v.problem(path, "", "is not a tenant: a to z, 0 to 9 and -, at most 63")
	}
}

func (v *validator) scopes(path string, scopes []string) {
	for i, scope := range scopes {
		if !scopeName.MatchString(scope) {
			v.problem(fmt.Sprintf("%s[%d]", path, i), "", "is not a scope: it has no spaces, quotes and backslashes")
		}
	}
}

func (v *validator) tls() {
	t := v.config.TLS
	if t == nil {
		return
	}
	if t.Cert == "" || t.Key == "" {
		v.problem("tls", "", "needs cert and key")
	}
	asks := t.ClientAuth == ClientAuthOptional || t.ClientAuth == ClientAuthRequired
	switch {
	case asks && t.ClientCA == "":
		v.problem("tls.client_auth", "name the certificates in tls.client_ca", "needs something to verify client certificates with")
	case !asks && t.ClientCA != "":
		v.problem("tls.client_ca", "set tls.client_auth to optional or required", "is for client certificates, and the node asks for none")
	}
	if asks && v.config.Callers.MTLS == nil && t.ClientAuth == ClientAuthOptional {
		v.warn("tls.client_auth", "add callers.mtls", "asks for certificates that nobody looks at")
	}
}

// agentCallers checks what callers of an agent need.
func (v *validator) agentCallers(path string, a *Agent) {
	v.scopes(path+".callers.scopes", a.Callers.Scopes)
	needs := len(a.Callers.Scopes) > 0 || a.Callers.Role == RoleOperator || a.Callers.Role == RoleAdmin
	for i := range a.Skills {
		v.scopes(fmt.Sprintf("%s.skills[%d].scopes", path, i), a.Skills[i].Scopes)
	}
	if needs && v.config.source != nil && v.config.source.dir != "" && !v.config.Callers.Credentials() {
		v.warn(path+".callers", "let callers authenticate: callers.keys: true, say", "asks for what no caller can have")
	}
}
