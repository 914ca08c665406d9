package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
)

// tokens checks JSON Web Tokens of several issuers (RFC 7519, RFC 9068).
type tokens struct {
	issuers map[string]*issuer
	now     func() time.Time
}

type issuer struct {
	config     config.OIDC
	algorithms []jose.SignatureAlgorithm
	keys       *keySet
}

// newTokens returns what checks the tokens of those issuers, whose keys it
// fetches with the client when they are needed.
func newTokens(list []config.OIDC, client *http.Client) (*tokens, error) {
	t := &tokens{issuers: map[string]*issuer{}, now: time.Now}
	for i, c := range list {
		if t.issuers[c.Issuer] != nil {
			return nil, fmt.Errorf("callers.oidc[%d].issuer: %q is there twice", i, c.Issuer)
		}
		is := &issuer{config: c, keys: newKeySet(c.Issuer, c.JWKSURL, client)}
		for _, name := range c.Algorithms {
			is.algorithms = append(is.algorithms, jose.SignatureAlgorithm(name))
		}
		t.issuers[c.Issuer] = is
	}
	return t, nil
}

// inherit takes over the keys of issuers that are found in the same place.
func (t *tokens) inherit(before *tokens) {
	for name, is := range t.issuers {
		if old := before.issuers[name]; old != nil && old.config.JWKSURL == is.config.JWKSURL {
			is.keys = old.keys
		}
	}
}

// tokenError is why a token is refused. Its text is for the caller, and holds
// nothing of the token that the caller could not know.
type tokenError string

func (e tokenError) Error() string { return string(e) }

// allAlgorithms are those that an issuer can be allowed to use. Those with a
// shared secret, and none, are not among them.
var allAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// authenticate returns the principal of a token for one of those audiences, or
// nil for that of its issuer. The error is a tokenError, or errIssuerAway.
func (t *tokens) authenticate(ctx context.Context, text string, audiences []string) (Principal, error) {
	is, claims, err := t.verify(ctx, text, audiences)
	if err != nil {
		return Principal{}, err
	}
	return is.principal(claims)
}

// identify returns who an issuer's ID token for a client is of (OpenID Connect
// Core §3.1.3.7). The nonce is what the client has sent with the person.
func (t *tokens) identify(ctx context.Context, issuer, text, client, nonce string) (Principal, error) {
	is, claims, err := t.verify(ctx, text, []string{client})
	if err != nil {
		return Principal{}, err
	}
	authorized, _ := claims.text("azp")
	got, _ := claims.text("nonce")
	switch {
	case is.config.Issuer != issuer:
		return Principal{}, tokenError("The token is of another issuer")
	case claims["azp"] != nil && authorized != client, len(claims.list("aud")) > 1 && authorized != client:
		return Principal{}, tokenError("The token is for another client")
	case nonce == "" || subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1:
		return Principal{}, tokenError("The token is of another login")
	}
	return is.principal(claims)
}

// verify returns the claims of a token for one of those audiences, and its issuer.
func (t *tokens) verify(ctx context.Context, text string, audiences []string) (*issuer, claims, error) {
	signed, err := jose.ParseSignedCompact(text, allAlgorithms)
	if err != nil {
		return nil, nil, tokenError("The token is malformed, or its algorithm is not allowed")
	}
	header := signed.Signatures[0].Protected
	algorithm := jose.SignatureAlgorithm(header.Algorithm)
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !isAccessTokenType(typ) {
		return nil, nil, tokenError("The token is of a type that is not for calling")
	}
	// Which issuer it is from only says with whose keys it has to be verified.
	unverified, err := parseClaims(signed.UnsafePayloadWithoutVerification())
	if err != nil {
		return nil, nil, tokenError("The claims of the token are not a JSON object")
	}
	iss, _ := unverified.text("iss")
	is := t.issuers[iss]
	switch {
	case is == nil:
		return nil, nil, tokenError("The issuer of the token is not known here")
	case !slices.Contains(is.algorithms, algorithm):
		return nil, nil, tokenError("The algorithm of the token is not allowed for its issuer")
	}
	keys, err := is.keys.find(ctx, header.KeyID, algorithm)
	if err != nil {
		return nil, nil, err
	}
	for i := range keys {
		payload, err := signed.Verify(&keys[i])
		if err != nil {
			continue
		}
		claims, err := parseClaims(payload)
		if err != nil {
			return nil, nil, tokenError("The claims of the token are not a JSON object")
		}
		if err := is.checkClaims(claims, audiences, t.now()); err != nil {
			return nil, nil, err
		}
		return is, claims, nil
	}
	if len(keys) == 0 {
		return nil, nil, tokenError("The key of the token is not one of its issuer's")
	}
	return nil, nil, tokenError("The signature of the token is wrong")
}

// isAccessTokenType reports whether a typ header may stand on a token that calls
// are made with (RFC 9068 §2.1). Others are for logging out, for proofs and the
// like.
func isAccessTokenType(typ string) bool {
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	return typ == "" || typ == "jwt" || typ == "at+jwt"
}

// checkClaims checks what the issuer says of the token as such (RFC 7519 §4.1).
func (is *issuer) checkClaims(c claims, audiences []string, now time.Time) error {
	leeway := is.config.Leeway.Std()
	expires, ok := c.time("exp")
	switch {
	case !ok:
		return tokenError("The token does not say when it expires")
	case !now.Before(expires.Add(leeway)):
		return tokenError("The token has expired")
	}
	if from, ok := c.time("nbf"); c["nbf"] != nil && (!ok || now.Before(from.Add(-leeway))) {
		return tokenError("The token is not valid yet")
	}
	if issued, ok := c.time("iat"); c["iat"] != nil && (!ok || now.Before(issued.Add(-leeway))) {
		return tokenError("The token is from the future")
	}
	if audiences == nil {
		audiences = []string{is.config.Audience}
	}
	meant := func(audience string) bool { return slices.Contains(audiences, audience) }
	if !slices.ContainsFunc(c.list("aud"), meant) {
		return tokenError("The token is for another audience")
	}
	return nil
}

// principal returns who the claims say the caller is.
func (is *issuer) principal(c claims) (Principal, error) {
	cfg := &is.config
	subject, ok := c.text(cfg.SubjectClaim)
	if !ok || subject == "" {
		// A program that acts for nobody may have no sub. It is called differently
		// from any person.
		client, _ := c.text("client_id")
		if client == "" {
			client, _ = c.text("azp")
		}
		if client == "" || cfg.SubjectClaim != "sub" || c["sub"] != nil {
			return Principal{}, tokenError("The token does not say who the caller is")
		}
		subject = "client:" + client
	}
	p := Principal{Issuer: cfg.Issuer, Subject: cfg.SubjectPrefix + subject, Tenant: cfg.Tenant, Role: roles[cfg.Role]}
	if cfg.TenantClaim != "" {
		tenants := c.list(cfg.TenantClaim)
		if len(tenants) != 1 || tenants[0] == "" {
			return Principal{}, tokenError("The token does not name the one tenant of the caller")
		}
		p.Tenant = tenants[0]
	}
	for _, name := range cfg.ScopeClaims {
		for _, scope := range c.words(name) {
			if isScope(scope) && !slices.Contains(p.Scopes, scope) {
				p.Scopes = append(p.Scopes, scope)
			}
		}
	}
	given := RoleNone
	if cfg.RolesClaim != "" {
		for _, value := range c.words(cfg.RolesClaim) {
			given = max(given, roles[cfg.Roles[value]])
		}
	}
	if given != RoleNone {
		p.Role = given
	}
	if err := checkPrincipal(p.Subject, p.Tenant, p.Scopes); err != nil {
		return Principal{}, tokenError("The token cannot be used here: " + err.Error())
	}
	if p.Role == RoleNone {
		return Principal{}, errNoRole
	}
	return p, nil
}

// errNoRole says that a credential is right, but gives its caller no role here.
var errNoRole = errors.New("the caller has no role here")

// claims are those of a token.
type claims map[string]jsontext.Value

func parseClaims(payload []byte) (claims, error) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil { // duplicate names are refused
		return nil, err
	}
	if c == nil {
		return nil, errors.New("not an object")
	}
	return c, nil
}

// value returns a claim. A name with dots is a claim of that name, or else one
// within others.
func (c claims) value(name string) jsontext.Value {
	if v, ok := c[name]; ok {
		return v
	}
	outer, inner, ok := strings.Cut(name, ".")
	if !ok || c[outer].Kind() != '{' {
		return nil
	}
	within, err := parseClaims(c[outer])
	if err != nil {
		return nil
	}
	return within.value(inner)
}

// text returns a claim that is a string.
func (c claims) text(name string) (s string, ok bool) {
	v := c.value(name)
	ok = v.Kind() == '"' && json.Unmarshal(v, &s) == nil
	return s, ok
}

// list returns a claim that is a list of strings, or a string.
func (c claims) list(name string) []string {
	if s, ok := c.text(name); ok {
		return []string{s}
	}
	var list []string
	if v := c.value(name); v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
		return nil
	}
	return list
}

// words returns a claim that is a list of strings, or a string with spaces
// between them.
func (c claims) words(name string) []string {
	if s, ok := c.text(name); ok {
		return strings.Fields(s)
	}
	return c.list(name)
}

// time returns a claim that is a NumericDate (RFC 7519 §2).
func (c claims) time(name string) (time.Time, bool) {
	v := c[name]
	if v.Kind() != '0' {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(v), 64)
	const most = 253402300799 // the year 9999
	if err != nil || seconds < 0 || seconds > most {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true
}
