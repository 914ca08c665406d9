package a2a

// SecurityRequirement names schemes that have to be satisfied together, with
// the scopes that each needs (A2A §4.4.1).
type SecurityRequirement struct {
	Schemes map[string][]string
}

// SecurityScheme is one way to authenticate (A2A §4.5.1). Exactly one field is
// set.
type SecurityScheme struct {
	APIKey        *APIKeySecurityScheme
	HTTPAuth      *HTTPAuthSecurityScheme
	OAuth2        *OAuth2SecurityScheme
	OpenIDConnect *OpenIDConnectSecurityScheme
	MutualTLS     *MutualTLSSecurityScheme
}

// APIKeySecurityScheme is an API key in a query parameter, header or cookie
// (A2A §4.5.2).
type APIKeySecurityScheme struct {
	Description string
	Location    string // query, header or cookie
	Name        string
}

// HTTPAuthSecurityScheme is an HTTP authentication scheme (A2A §4.5.3).
type HTTPAuthSecurityScheme struct {
	Description  string
	Scheme       string // such as Bearer
	BearerFormat string // such as JWT; a hint for people
}

// OAuth2SecurityScheme is OAuth 2.0 (A2A §4.5.4).
type OAuth2SecurityScheme struct {
	Description       string
	Flows             OAuthFlows
	OAuth2MetadataURL string // RFC 8414
}

// OpenIDConnectSecurityScheme is OpenID Connect (A2A §4.5.5).
type OpenIDConnectSecurityScheme struct {
	Description      string
	OpenIDConnectURL string // the provider's discovery document
}

// MutualTLSSecurityScheme is mutual TLS (A2A §4.5.6).
type MutualTLSSecurityScheme struct {
	Description string
}

// OAuthFlows holds one OAuth 2.0 flow (A2A §4.5.7). Exactly one field is set.
type OAuthFlows struct {
	AuthorizationCode *AuthorizationCodeOAuthFlow
	ClientCredentials *ClientCredentialsOAuthFlow
	Implicit          *ImplicitOAuthFlow // deprecated by the protocol
	Password          *PasswordOAuthFlow // deprecated by the protocol
	DeviceCode        *DeviceCodeOAuthFlow
}

// AuthorizationCodeOAuthFlow is the authorization code flow (A2A §4.5.8).
type AuthorizationCodeOAuthFlow struct {
	AuthorizationURL string
	TokenURL         string
	RefreshURL       string
	Scopes           map[string]string // scope to description
	PKCERequired     bool
}

// ClientCredentialsOAuthFlow is the client credentials flow (A2A §4.5.9).
type ClientCredentialsOAuthFlow struct {
	TokenURL   string
	RefreshURL string
	Scopes     map[string]string // scope to description
}

// ImplicitOAuthFlow is the implicit flow, deprecated by the protocol.
type ImplicitOAuthFlow struct {
	AuthorizationURL string
	RefreshURL       string
	Scopes           map[string]string // scope to description
}

// PasswordOAuthFlow is the password flow, deprecated by the protocol.
type PasswordOAuthFlow struct {
	TokenURL   string
	RefreshURL string
	Scopes     map[string]string // scope to description
}

// DeviceCodeOAuthFlow is the device code flow of RFC 8628 (A2A §4.5.10).
type DeviceCodeOAuthFlow struct {
	DeviceAuthorizationURL string
	TokenURL               string
	RefreshURL             string
	Scopes                 map[string]string // scope to description
}
