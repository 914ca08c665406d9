package peer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
)

// usualKey is the header of an API key where nobody says another.
const usualKey = "X-API-Key"

// kind is a kind of credential, in the words of the configuration.
type kind string

const (
	kindBearer kind = "bearer"
	kindKey    kind = "key"
	kindBasic  kind = "basic"
	kindOAuth2 kind = "oauth2"
	kindMTLS   kind = "mtls"
)

// chosen is a credential with the scheme of the card that it is for.
type chosen struct {
	kind   kind
	name   string             // of the scheme; "" when no card asks for it
	scheme a2a.SecurityScheme // zero likewise
	scopes []string           // that the card requires
}

// String names the credential and the scheme.
func (c chosen) String() string {
	if c.name == "" {
		return string(c.kind)
	}
	return string(c.kind) + ", for the scheme " + Clean(c.name, maxName, false)
}

// CredentialsError says that none of the credentials that are configured is what
// the card of a peer asks for.
type CredentialsError struct {
	Peer  string
	Wants []string // alternatives
	Has   []string
}

// Error names what is asked for and what there is.
func (e *CredentialsError) Error() string {
	has := "none is configured"
	if len(e.Has) > 0 {
		has = "configured is " + strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("the peer %q asks for credentials that are not configured: %s; %s, in peers.%s.auth", e.Peer, strings.Join(e.Wants, ", or "), has, e.Peer)
}

// choose returns the credentials that fit what a card asks for (A2A §4.5): those
// of the first requirement that all can be met of. A card that requires nothing
// gets those that one of its schemes names, and one without schemes all that are
// configured, as does one that is not known yet (nil).
func choose(peer string, card *a2a.AgentCard, auth *config.PeerAuth) ([]chosen, error) {
	if card == nil || len(card.SecuritySchemes) == 0 && len(card.SecurityRequirements) == 0 {
		var all []chosen
		for _, name := range auth.Kinds() {
			all = append(all, chosen{kind: kind(name)})
		}
		return all, nil
	}
	optional := len(card.SecurityRequirements) == 0
	for _, r := range card.SecurityRequirements {
		if len(r.Schemes) == 0 {
			optional = true
			continue
		}
		if set, ok := meet(card, r, auth); ok {
			return set, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(card.SecuritySchemes)) {
		if k, ok := fits(card.SecuritySchemes[name], auth); ok && optional {
			return []chosen{{kind: k, name: name, scheme: card.SecuritySchemes[name]}}, nil
		}
	}
	if optional {
		return nil, nil
	}
	return nil, &CredentialsError{Peer: peer, Wants: wants(card), Has: auth.Kinds()}
}

// meet returns what meets all schemes of a requirement.
func meet(card *a2a.AgentCard, r a2a.SecurityRequirement, auth *config.PeerAuth) ([]chosen, bool) {
	var set []chosen
	for _, name := range slices.Sorted(maps.Keys(r.Schemes)) {
		scheme, declared := card.SecuritySchemes[name]
		k, ok := fits(scheme, auth)
		if !declared || !ok {
			return nil, false
		}
		set = append(set, chosen{kind: k, name: name, scheme: scheme, scopes: r.Schemes[name]})
	}
	return set, true
}

// fits returns the kind of credential that a scheme asks for, if there is one.
func fits(s a2a.SecurityScheme, auth *config.PeerAuth) (kind, bool) {
	switch {
	case s.APIKey != nil:
		k := auth.Key
		return kindKey, k != nil && (k.In == "" || string(k.In) == s.APIKey.Location) && (k.Name == "" || strings.EqualFold(k.Name, s.APIKey.Name))
	case s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "basic"):
		return kindBasic, auth.Basic != nil
	case s.HTTPAuth != nil && !strings.EqualFold(s.HTTPAuth.Scheme, "bearer"):
		return "", false
	case s.HTTPAuth != nil, s.OAuth2 != nil, s.OpenIDConnect != nil:
		if auth.OAuth2 != nil {
			return kindOAuth2, true
		}
		return kindBearer, !auth.Bearer.IsZero()
	case s.MutualTLS != nil:
		return kindMTLS, auth.MTLS != nil
	}
	return "", false
}

// wants says in words what a card asks for.
func wants(card *a2a.AgentCard) []string {
	var all []string
	for _, r := range card.SecurityRequirements {
		var one []string
		for _, name := range slices.Sorted(maps.Keys(r.Schemes)) {
			one = append(one, describe(name, card.SecuritySchemes[name]))
		}
		all = append(all, strings.Join(one, " and "))
		if len(all) == maxExamples {
			break
		}
	}
	return all
}

// describe says in few words what a scheme asks for.
func describe(name string, s a2a.SecurityScheme) string {
	text := "a scheme that is not known"
	switch {
	case s.APIKey != nil:
		text = fmt.Sprintf("an API key (auth.key) in the %s %s", s.APIKey.Location, s.APIKey.Name)
	case s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "basic"):
		text = "a name and a password (auth.basic)"
	case s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "bearer"):
		text = "a token (auth.bearer or auth.oauth2)"
	case s.HTTPAuth != nil:
		text = "the HTTP scheme " + s.HTTPAuth.Scheme
	case s.OAuth2 != nil, s.OpenIDConnect != nil:
		text = "a token of an authorization server (auth.oauth2 or auth.bearer)"
	case s.MutualTLS != nil:
		text = "a client certificate (auth.mtls)"
	}
	return Clean(name+": "+text, maxName, false)
}

// credentials are those of one user for one peer.
type credentials struct {
	entry *entry
	user  User
	set   []chosen
	last  *lastToken
}

// newCredentials returns what authenticates requests, or nil when nothing does:
// a client certificate belongs to the connection.
func newCredentials(e *entry, user User, set []chosen) client.Credentials {
	set = slices.DeleteFunc(slices.Clone(set), func(c chosen) bool { return c.kind == kindMTLS })
	if len(set) == 0 {
		return nil
	}
	c := &credentials{entry: e, user: user, set: set}
	if slices.ContainsFunc(set, func(c chosen) bool { return c.kind == kindOAuth2 }) {
		c.last = &lastToken{}
		return &refreshed{c}
	}
	return c
}

// Apply adds the credentials to a request.
func (c *credentials) Apply(ctx context.Context, r *http.Request) error {
	for _, one := range c.set {
		if err := c.applyOne(ctx, r, one); err != nil {
			return err
		}
	}
	return nil
}

func (c *credentials) applyOne(ctx context.Context, r *http.Request, one chosen) error {
	auth := &c.entry.config.Auth
	switch one.kind {
	case kindBearer:
		return client.Bearer(auth.Bearer.Reveal()).Apply(ctx, r)
	case kindBasic:
		return client.Basic(auth.Basic.User, auth.Basic.Password.Reveal()).Apply(ctx, r)
	case kindKey:
		location, name := string(auth.Key.In), auth.Key.Name
		if s := one.scheme.APIKey; s != nil {
			location, name = s.Location, s.Name
		}
		if location == "" {
			location = string(config.KeyInHeader)
		}
		if name == "" {
			name = usualKey
		}
		return client.APIKey(location, name, auth.Key.Value.Reveal()).Apply(ctx, r)
	case kindOAuth2:
		token, err := c.entry.tokens.get(ctx, userOf(ctx, c.user), one)
		if err != nil {
			return err
		}
		c.entry.way.secrets.Add(token)
		c.last.set(userOf(ctx, c.user), token)
		return client.Bearer(token).Apply(ctx, r)
	}
	return nil
}

// refreshed are credentials with a token that can be got anew.
type refreshed struct{ *credentials }

// Refresh gets a new token, unless the one that was refused has been replaced
// meanwhile.
func (c *refreshed) Refresh(ctx context.Context, _ []string) error {
	for _, one := range c.set {
		if one.kind == kindOAuth2 {
			user := userOf(ctx, c.user)
			return c.entry.tokens.renew(ctx, user, one, c.last.get(user))
		}
	}
	return nil
}
