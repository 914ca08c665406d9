package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

const allCallers = `listen: 0.0.0.0:8443
public_url: https://agents.example
tls: {cert: c.pem, key: /etc/k.pem, client_ca: ca.pem, client_auth: optional}
callers:
  anonymous: off
  keys: true
  oidc:
    - issuer: https://sso.example.com
      audience: agents
      roles_claim: realm_access.roles
      roles: {ops: operator, root: admin}
    - {issuer: "https://sso.partner.example", audience: agents, scheme: partner, subject_prefix: "partner:", tenant_claim: org}
  basic: [{user: carol, password_hash: "$2a$10$hash"}]
  mtls: {rules: [{match: "spiffe://corp/*", role: operator, scopes: [quotes]}]}
`

func TestCallers(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(allCallers+minimal), "")
	if err != nil {
		t.Fatal(err)
	}
	first, second := c.Callers.OIDC[0], c.Callers.OIDC[1]
	if diff := cmp.Diff([]string{"RS256", "PS256", "ES256", "EdDSA"}, first.Algorithms); diff != "" {
		t.Error(diff)
	}
	if first.Leeway.Std() != 30*time.Second || first.SubjectClaim != "sub" || first.Role != config.RoleCaller || first.Scheme != "oidc" || first.Roles["root"] != config.RoleAdmin {
		t.Errorf("%+v", first)
	}
	if second.TenantClaim != "org" || second.SubjectPrefix != "partner:" || !cmp.Equal(second.ScopeClaims, []string{"scope", "scp"}) {
		t.Errorf("%+v", second)
	}
	if m := c.Callers.MTLS; m.Subject != config.CertificateAuto || m.Role != config.RoleCaller || m.Rules[0].Role != config.RoleOperator {
		t.Errorf("%+v", m)
	}
	tls, ok := c.TLSFiles()
	if !ok || tls.MinVersion != "1.3" || tls.Key != "/etc/k.pem" || tls.HSTS.Std() != 365*24*time.Hour {
		t.Errorf("%+v", tls)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Text, "$2a$10$hash") {
			t.Errorf("%s is shown", v.Path)
		}
	}
	if problems := c.Warnings(); len(problems) > 0 {
		t.Errorf("warnings: %v", problems)
	}
}

func TestCallersAreChecked(t *testing.T) {
	t.Parallel()
	const issuer = `{issuer: "https://a.example", audience: x}`
	for name, tt := range map[string]struct{ text, want string }{
		"plain http":           {`callers: {oidc: [{issuer: "http://sso.example", audience: a}]}`, "callers.oidc[0].issuer: is not https"},
		"credentials in a URL": {`callers: {oidc: [{issuer: "https://u:p@sso.example", audience: a}]}`, "callers.oidc[0].issuer: holds credentials"},
		"keys over http":       {`callers: {oidc: [{issuer: "https://sso.example", audience: a, jwks_url: "http://sso.example/keys"}]}`, "callers.oidc[0].jwks_url: is not https"},
		"no audience":          {`callers: {oidc: [{issuer: "https://sso.example"}]}`, "callers.oidc[0].audience: is missing"},
		"an empty audience":    {`callers: {oidc: [{issuer: "https://sso.example", audience: ""}]}`, "callers.oidc[0].audience"},
		"none":                 {`callers: {oidc: [{issuer: "https://sso.example", audience: a, algorithms: [none]}]}`, "callers.oidc[0].algorithms[0]: is not one of"},
		"a shared secret":      {`callers: {oidc: [{issuer: "https://sso.example", audience: a, algorithms: [HS256]}]}`, "callers.oidc[0].algorithms[0]: is not one of"},
		"no algorithms":        {`callers: {oidc: [{issuer: "https://sso.example", audience: a, algorithms: []}]}`, "callers.oidc[0].algorithms: is empty"},
		"an unknown role":      {`callers: {oidc: [{issuer: "https://sso.example", audience: a, roles_claim: r, roles: {x: boss}}]}`, "callers.oidc[0].roles.x: is not one of"},
		"roles of no claim":    {`callers: {oidc: [{issuer: "https://sso.example", audience: a, roles: {x: admin}}]}`, "callers.oidc[0].roles: is for the values of a claim"},
		"a claim of no role":   {`callers: {oidc: [{issuer: "https://sso.example", audience: a, roles_claim: x}]}`, "callers.oidc[0].roles_claim: names a claim"},
		"two tenants":          {`callers: {oidc: [{issuer: "https://sso.example", audience: a, tenant: a, tenant_claim: b}]}`, "callers.oidc[0].tenant_claim: cannot be set"},
		"one issuer twice":     {`callers: {oidc: [` + issuer + `, {issuer: "https://a.example", audience: x, scheme: b, subject_prefix: "b:"}]}`, "callers.oidc[1].issuer: is the issuer of callers.oidc[0]"},
		"issuers of one name":  {`callers: {oidc: [` + issuer + `, {issuer: "https://b.example", audience: x, scheme: b}]}`, "callers.oidc[1].subject_prefix: lets this issuer and callers.oidc[0] name each other's callers: both"},
		"a name in a prefix":   {`callers: {oidc: [` + issuer + `, {issuer: "https://b.example", audience: x, scheme: b, subject_prefix: "b:"}]}`, `callers.oidc[1].subject_prefix: lets this issuer and callers.oidc[0] name each other's callers: one has no prefix, so that its names can begin with "b:" too`},
		"a prefix in a name":   {`callers: {oidc: [{issuer: "https://a.example", audience: x, subject_prefix: "a:"}, {issuer: "https://b.example", audience: x, scheme: b}]}`, "callers.oidc[1].subject_prefix"},
		"a tenant of a claim":  {`callers: {oidc: [{issuer: "https://a.example", audience: x, tenant: t}, {issuer: "https://b.example", audience: x, scheme: b, subject_prefix: "b:", tenant_claim: org}]}`, "callers.oidc[1].subject_prefix"},
		"nested prefixes":      {`callers: {oidc: [{issuer: "https://a.example", audience: x, subject_prefix: "a:"}, {issuer: "https://b.example", audience: x, scheme: b, subject_prefix: "a:b:"}]}`, `callers.oidc[1].subject_prefix: lets this issuer and callers.oidc[0] name each other's callers: "a:b:" begins with "a:"`},
		"schemes of one name":  {`callers: {oidc: [` + issuer + `, {issuer: "https://b.example", audience: x, tenant: b}]}`, "callers.oidc[1].scheme: is the name of callers.oidc[0]"},
		"a taken scheme":       {`callers: {oidc: [{issuer: "https://a.example", audience: x, scheme: bearer}]}`, "callers.oidc[0].scheme: is the name of another"},
		"a token endpoint":     {`callers: {oidc: [{issuer: "https://a.example", audience: x, oauth2: {token_url: "http://a.example/token"}}]}`, "callers.oidc[0].oauth2.token_url: is not https"},
		"a flow without a URL": {`callers: {oidc: [{issuer: "https://a.example", audience: x, oauth2: {flow: authorization_code, token_url: "https://a.example/token"}}]}`, "callers.oidc[0].oauth2.authorization_url"},
		"a user twice":         {`callers: {basic: [{user: a, password_hash: x}, {user: a, password_hash: x}]}`, "callers.basic[1].user: is there twice"},
		"a colon":              {`callers: {basic: [{user: "a:b", password_hash: x}]}`, "callers.basic[0].user: is not a name"},
		"mtls without TLS":     {`callers: {mtls: {}}`, "callers.mtls: needs client certificates"},
		"mtls, none asked":     {"tls: {cert: c, key: k}\ncallers: {mtls: {}}", "callers.mtls: needs client certificates"},
		"a star within":        {"tls: {cert: c, key: k, client_ca: a, client_auth: optional}\ncallers: {mtls: {rules: [{match: 'a*b'}]}}", "callers.mtls.rules[0].match: has a *"},
		"no CA":                {`tls: {cert: c, key: k, client_auth: required}`, "tls.client_auth: needs something"},
		"a CA for nothing":     {`tls: {cert: c, key: k, client_ca: a}`, "tls.client_ca: is for client certificates"},
		"no key":               {`tls: {cert: c}`, "tls.key: is missing"},
		"an old version":       {`tls: {cert: c, key: k, min_version: "1.1"}`, "tls.min_version: is not one of"},
		"a bad tenant":         {`callers: {basic: [{user: a, password_hash: x, tenant: A B}]}`, "callers.basic[0].tenant: is not a tenant"},
		"a bad scope":          {`callers: {basic: [{user: a, password_hash: x, scopes: ["a b"]}]}`, "callers.basic[0].scopes[0]: is not a scope"},
		"a public listener":    {"listen: 0.0.0.0:80\ncallers: {keys: false}", "listen: the node would listen beyond loopback"},
	} {
		_, err := config.Parse([]byte(tt.text+"\n"+minimal), "")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A credential of any kind is enough to listen beyond this machine.
	for _, text := range []string{"keys: true", "oidc: [" + issuer + "]", `basic: [{user: a, password_hash: x}]`} {
		if _, err := config.Parse([]byte("listen: 0.0.0.0:80\ncallers: {"+text+"}\n"+minimal), ""); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	agent := strings.Replace(minimal, "    name:", "    callers: {scopes: [\"a b\"]}\n    name:", 1)
	if _, err := config.Parse([]byte("callers: {keys: true}\n"+agent), ""); err == nil || !strings.Contains(err.Error(), "callers.scopes[0]: is not a scope") {
		t.Errorf("a bad scope of an agent: %v", err)
	}
}
