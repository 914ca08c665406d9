package card

import (
	"maps"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// For builds the card of an agent of a configuration as Build does, with how
// callers authenticate (A2A §4.5, §7.3).
func For(c *config.Config, id, base, tenant string) *a2a.AgentCard {
	agent := c.Agents[id]
	card := Build(agent, id, base, tenant)
	offerOldGRPC(card, c, agent, id, base, tenant)
	secure(card, c, agent, scopesOf(agent))
	return card
}

// scopesOf are the scopes that callers may need for what a card has.
func scopesOf(agent *config.Agent) []string {
	scopes := agent.Callers.Scopes
	for i := range agent.Skills {
		scopes = union(scopes, agent.Skills[i].Scopes)
	}
	return scopes
}

// secure writes into a card what the configuration says of callers, so that the
// two cannot disagree: a scheme for each kind of credential that is accepted and
// none besides, and a requirement for each, of which one has to be met. Where
// anybody may call, nothing is required. Skills that ask for scopes of their own
// have requirements of their own. The scopes are those that can be asked for.
func secure(card *a2a.AgentCard, c *config.Config, agent *config.Agent, scopes []string) {
	s := schemesOf(c, scopes)
	card.SecuritySchemes, card.SecurityRequirements = nil, nil
	if len(s.names) == 0 {
		return
	}
	card.SecuritySchemes = s.schemes
	declareIdempotency(card, agent)
	restricted := len(agent.Callers.Scopes) > 0 || agent.Callers.Role != "" && agent.Callers.Role != config.RoleCaller
	if c.Callers.Anonymous != config.AnonymousEverywhere || restricted {
		card.SecurityRequirements = s.requirements(agent.Callers.Scopes)
	}
	for i := range card.Skills {
		own := skillScopes(agent, card.Skills[i].ID)
		if len(own) > 0 {
			card.Skills[i].SecurityRequirements = s.requirements(union(agent.Callers.Scopes, own))
		}
	}
}

// declareIdempotency says of an agent that recognizes the messages of callers
// with credentials, and not those of others, that it does.
func declareIdempotency(card *a2a.AgentCard, agent *config.Agent) {
	declared := func(e a2a.AgentExtension) bool { return e.URI == a2a.IdempotencyExtension }
	if agent.Idempotency != config.IdempotencyAuto || slices.ContainsFunc(card.Capabilities.Extensions, declared) {
		return
	}
	card.Capabilities.Extensions = append(card.Capabilities.Extensions, a2a.AgentExtension{
		URI: a2a.IdempotencyExtension, Description: idempotencyText, Params: a2a.JSON(`{"callers":"authenticated"}`),
	})
}

func skillScopes(agent *config.Agent, id string) []string {
	for i := range agent.Skills {
		if agent.Skills[i].ID == id {
			return agent.Skills[i].Scopes
		}
	}
	return nil
}

// schemes are the ways to authenticate, in the order in which they are offered.
type schemes struct {
	schemes map[string]a2a.SecurityScheme
	names   []string
	scoped  map[string]bool // those whose requirements name scopes
}

func (s *schemes) add(name string, scoped bool, scheme a2a.SecurityScheme) {
	s.schemes[name] = scheme
	s.names = append(s.names, name)
	s.scoped[name] = scoped
}

// requirements returns one requirement for each scheme. Only where a client asks
// for scopes when it gets its credential are they named (OpenAPI 3.0, Security
// Requirement Object, which A2A §4.5 follows).
func (s *schemes) requirements(scopes []string) []a2a.SecurityRequirement {
	list := make([]a2a.SecurityRequirement, len(s.names))
	for i, name := range s.names {
		needs := []string{}
		if s.scoped[name] {
			needs = append(needs, scopes...)
		}
		list[i] = a2a.SecurityRequirement{Schemes: map[string][]string{name: needs}}
	}
	return list
}

func schemesOf(c *config.Config, scopes []string) *schemes {
	s := &schemes{schemes: map[string]a2a.SecurityScheme{}, scoped: map[string]bool{}}
	for i := range c.Callers.OIDC {
		o := &c.Callers.OIDC[i]
		s.add(o.Scheme, o.OAuth2 != nil || o.JWKSURL == "", issuerScheme(o, scopes))
	}
	if c.Callers.Keys {
		s.add(config.SchemeBearer, false, a2a.SecurityScheme{HTTPAuth: &a2a.HTTPAuthSecurityScheme{
			Description: "An API key of this node", Scheme: "Bearer",
		}})
		s.add(config.SchemeKey, false, a2a.SecurityScheme{APIKey: &a2a.APIKeySecurityScheme{
			Description: "An API key of this node", Location: "header", Name: "X-API-Key",
		}})
	}
	if len(c.Callers.Basic) > 0 {
		s.add(config.SchemeBasic, false, a2a.SecurityScheme{HTTPAuth: &a2a.HTTPAuthSecurityScheme{Scheme: "Basic"}})
	}
	if c.Callers.MTLS != nil {
		s.add(config.SchemeMTLS, false, a2a.SecurityScheme{MutualTLS: &a2a.MutualTLSSecurityScheme{
			Description: "A client certificate",
		}})
	}
	return s
}

// issuerScheme is the scheme of an issuer: OAuth 2.0 where the configuration says
// how to get a token, OpenID Connect where the issuer itself does, else a bearer
// token that clients get in their own way.
func issuerScheme(o *config.OIDC, scopes []string) a2a.SecurityScheme {
	switch {
	case o.OAuth2 != nil:
		return a2a.SecurityScheme{OAuth2: oauth2Scheme(o.OAuth2, scopes)}
	case o.JWKSURL == "":
		return a2a.SecurityScheme{OpenIDConnect: &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: discoveryURL(o.Issuer)}}
	}
	return a2a.SecurityScheme{HTTPAuth: &a2a.HTTPAuthSecurityScheme{
		Description: "A token of " + o.Issuer, Scheme: "Bearer", BearerFormat: "JWT",
	}}
}

// discoveryURL returns where an issuer describes itself (OpenID Connect
// Discovery 1.0 §4).
func discoveryURL(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

func oauth2Scheme(o *config.OAuth2, needed []string) *a2a.OAuth2SecurityScheme {
	scopes := maps.Clone(o.Scopes)
	if scopes == nil {
		scopes = map[string]string{}
	}
	for _, scope := range needed {
		if _, ok := scopes[scope]; !ok {
			scopes[scope] = "Needed for this agent"
		}
	}
	scheme := &a2a.OAuth2SecurityScheme{OAuth2MetadataURL: o.MetadataURL}
	switch o.Flow {
	case config.FlowAuthorizationCode:
		scheme.Flows.AuthorizationCode = &a2a.AuthorizationCodeOAuthFlow{
			AuthorizationURL: o.AuthorizationURL, TokenURL: o.TokenURL, RefreshURL: o.RefreshURL, Scopes: scopes, PKCERequired: o.PKCE,
		}
	case config.FlowDeviceCode:
		scheme.Flows.DeviceCode = &a2a.DeviceCodeOAuthFlow{
			DeviceAuthorizationURL: o.DeviceAuthorizationURL, TokenURL: o.TokenURL, RefreshURL: o.RefreshURL, Scopes: scopes,
		}
	default:
		scheme.Flows.ClientCredentials = &a2a.ClientCredentialsOAuthFlow{TokenURL: o.TokenURL, RefreshURL: o.RefreshURL, Scopes: scopes}
	}
	return scheme
}

// union returns the scopes of both lists, each once.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}
