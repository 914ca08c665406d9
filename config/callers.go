package config

// OIDC is an issuer of tokens (JWT) that callers show, found by OpenID Connect
// discovery or by the URL of its keys.
type OIDC struct {
	// The issuer, exactly as the iss of its tokens has it. Its keys are found through {issuer}/.well-known/openid-configuration.
	Issuer string `yaml:"issuer" required:"true"`

	// What aud of a token has to be, or to contain.
	Audience string `yaml:"audience" required:"true"`

	// Where the issuer's keys (JWKS) are, for one without discovery.
	JWKSURL string `yaml:"jwks_url"`

	// The algorithms that signatures may have.
	Algorithms []string `yaml:"algorithms" default:"RS256,PS256,ES256,EdDSA" enum:"RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA"`

	// How much the clocks of issuer and node may differ.
	Leeway Duration `yaml:"leeway" default:"30s" min:"0s" max:"5m"`

	// The claim that says who the caller is. It has to be one that the issuer never gives to somebody else. A claim within a claim is written with a dot.
	SubjectClaim string `yaml:"subject_claim" default:"sub"`

	// Is put before the subject. Of several issuers in one tenant each needs one, none of which another one begins with: they may call different people the same.
	SubjectPrefix string `yaml:"subject_prefix"`

	// The tenant of all callers of this issuer.
	Tenant string `yaml:"tenant"`

	// The claim that names the caller's tenant. A token without it is refused.
	TenantClaim string `yaml:"tenant_claim"`

	// The claims that hold the scopes of the caller: a list, or a text with spaces between. All of them count.
	ScopeClaims []string `yaml:"scope_claims" default:"scope,scp"`

	// The role of callers to whom roles gives none. none refuses them.
	Role Role `yaml:"role" default:"caller" enum:"none,viewer,caller,operator,admin"`

	// The claim whose values roles translates, such as groups or realm_access.roles.
	RolesClaim string `yaml:"roles_claim"`

	// What role a value of roles_claim gives. The highest counts.
	Roles map[string]Role `yaml:"roles"`

	// The name of the security scheme in the agent cards.
	Scheme string `yaml:"scheme" default:"oidc"`

	// How clients get a token from this issuer. With it the scheme of the card is OAuth 2.0; without it OpenID Connect, or with jwks_url plain bearer tokens.
	OAuth2 *OAuth2 `yaml:"oauth2"`
}

// OAuth2 says how clients get a token, for the agent cards (A2A §4.5.7).
type OAuth2 struct {
	// The flow.
	Flow OAuthFlow `yaml:"flow" default:"client_credentials" enum:"client_credentials,authorization_code,device_code"`

	// Where tokens are.
	TokenURL string `yaml:"token_url" required:"true"`

	// Where people authorize a client, for authorization_code.
	AuthorizationURL string `yaml:"authorization_url"`

	// Where a device asks for a code, for device_code.
	DeviceAuthorizationURL string `yaml:"device_authorization_url"`

	// Where tokens are refreshed, if not at token_url.
	RefreshURL string `yaml:"refresh_url"`

	// Where the issuer describes itself (RFC 8414).
	MetadataURL string `yaml:"metadata_url"`

	// Whether clients have to use PKCE, for authorization_code.
	PKCE bool `yaml:"pkce" default:"true"`

	// The scopes with what they are for. Scopes that agents require are added.
	Scopes map[string]string `yaml:"scopes"`
}

// OAuthFlow is how a client gets a token (RFC 6749, RFC 8628).
type OAuthFlow string

// The flows.
const (
	FlowClientCredentials OAuthFlow = "client_credentials"
	FlowAuthorizationCode OAuthFlow = "authorization_code"
	FlowDeviceCode        OAuthFlow = "device_code"
)

// Role is what a caller may do; each may do what the ones before it may: viewer
// reads its own tasks, caller sends messages and cancels its own tasks, operator
// sees and cancels the tasks of its tenant, admin changes the node.
type Role string

// The roles.
const (
	RoleNone     Role = "none"
	RoleViewer   Role = "viewer"
	RoleCaller   Role = "caller"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// BasicUser is a caller with a name and a password.
type BasicUser struct {
	// The name, which is the subject.
	User string `yaml:"user" required:"true"`

	// The bcrypt hash of the password, or file: and a path. `handoff keys hash-password` makes it.
	PasswordHash Secret `yaml:"password_hash" required:"true"`

	// The tenant of the caller.
	Tenant string `yaml:"tenant"`

	// The role of the caller.
	Role Role `yaml:"role" default:"caller" enum:"viewer,caller,operator,admin"`

	// The scopes of the caller.
	Scopes []string `yaml:"scopes"`
}

// MTLS accepts client certificates as credentials.
type MTLS struct {
	// What the subject is taken from: uri, dns or cn of the certificate, or auto for the first of these that it has.
	Subject CertificateName `yaml:"subject" default:"auto" enum:"auto,uri,dns,cn"`

	// Is put before the subject.
	SubjectPrefix string `yaml:"subject_prefix"`

	// The tenant of these callers.
	Tenant string `yaml:"tenant"`

	// The role of certificates that match none of rules. none refuses them.
	Role Role `yaml:"role" default:"caller" enum:"none,viewer,caller,operator,admin"`

	// The scopes of certificates that match none of rules.
	Scopes []string `yaml:"scopes"`

	// Tenant, role and scopes of some certificates, by their subject. The first rule that matches counts.
	Rules []CertificateRule `yaml:"rules"`
}

// CertificateName is a name in a certificate.
type CertificateName string

// What the subject of a caller with a certificate is taken from.
const (
	CertificateAuto CertificateName = "auto"
	CertificateURI  CertificateName = "uri"
	CertificateDNS  CertificateName = "dns"
	CertificateCN   CertificateName = "cn"
)

// CertificateRule says what certificates of some subjects may do.
type CertificateRule struct {
	// The subject without the prefix; a * at its end stands for anything.
	Match string `yaml:"match" required:"true"`

	// The tenant.
	Tenant string `yaml:"tenant"`

	// The role.
	Role Role `yaml:"role" default:"caller" enum:"none,viewer,caller,operator,admin"`

	// The scopes.
	Scopes []string `yaml:"scopes"`
}

// TLS makes the node speak TLS itself.
type TLS struct {
	// The certificate with its chain, PEM. It is loaded again when the file changes. Relative to the configuration file.
	Cert string `yaml:"cert" required:"true"`

	// The private key, PEM. Relative to the configuration file.
	Key string `yaml:"key" required:"true"`

	// The certificates (PEM) that client certificates are verified with. Relative to the configuration file.
	ClientCA string `yaml:"client_ca"`

	// Whether clients have to show a certificate.
	ClientAuth ClientAuth `yaml:"client_auth" default:"none" enum:"none,optional,required"`

	// The oldest version that is spoken.
	MinVersion string `yaml:"min_version" default:"1.3" enum:"1.3,1.2"`

	// How long browsers are to insist on TLS (HSTS). 0 sends no such header.
	HSTS Duration `yaml:"hsts" default:"365d" min:"0s"`
}

// ClientAuth says whether clients have to show a certificate.
type ClientAuth string

// Whether clients have to show a certificate.
const (
	ClientAuthNone     ClientAuth = "none"
	ClientAuthOptional ClientAuth = "optional"
	ClientAuthRequired ClientAuth = "required"
)

// AgentCallers says what the callers of an agent have to have beyond a
// credential.
type AgentCallers struct {
	// The least role of callers that send messages.
	Role Role `yaml:"role" enum:"caller,operator,admin"`

	// The scopes that every caller needs, all of them.
	Scopes []string `yaml:"scopes"`
}

// Credentials reports whether any kind of credential is accepted.
func (c *Callers) Credentials() bool {
	return c.Keys || len(c.OIDC) > 0 || len(c.Basic) > 0 || c.MTLS != nil
}

// TLSFiles returns the configuration of TLS with paths that are not relative,
// and false when the node speaks none.
func (c *Config) TLSFiles() (TLS, bool) {
	if c.TLS == nil {
		return TLS{}, false
	}
	t := *c.TLS
	for _, file := range []*string{&t.Cert, &t.Key, &t.ClientCA} {
		if *file != "" {
			*file = c.path(*file)
		}
	}
	return t, true
}
