package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	c := newClock()
	key := newSigner(t, "one", jose.ES256)
	i := newIDP(t, key)
	oidc := i.oidc()
	oidc.RolesClaim, oidc.Roles = "realm_access.roles", map[string]config.Role{"ops": config.RoleOperator, "readers": config.RoleViewer}
	checked := newTestTokens(t, c, oidc)
	at := c.now().Unix()
	caller := func(change func(p *Principal)) Principal {
		p := Principal{Issuer: i.URL, Subject: "alice", Role: RoleCaller}
		if change != nil {
			change(&p)
		}
		return p
	}
	for name, tt := range map[string]struct {
		typ     string
		changes map[string]any
		want    Principal
		err     string
	}{
		"plain":                {"JWT", nil, caller(nil), ""},
		"without a type":       {"", nil, caller(nil), ""},
		"access token":         {"at+jwt", nil, caller(nil), ""},
		"access token, long":   {"application/at+jwt", nil, caller(nil), ""},
		"audience in a list":   {"JWT", map[string]any{"aud": []string{"other", "agents"}}, caller(nil), ""},
		"scope":                {"JWT", map[string]any{"scope": "quotes orders"}, caller(func(p *Principal) { p.Scopes = []string{"quotes", "orders"} }), ""},
		"scp":                  {"JWT", map[string]any{"scp": []string{"quotes"}}, caller(func(p *Principal) { p.Scopes = []string{"quotes"} }), ""},
		"roles":                {"JWT", map[string]any{"realm_access": map[string]any{"roles": []string{"readers", "ops"}}}, caller(func(p *Principal) { p.Role = RoleOperator }), ""},
		"a lower role":         {"JWT", map[string]any{"realm_access": map[string]any{"roles": []string{"readers"}}}, caller(func(p *Principal) { p.Role = RoleViewer }), ""},
		"just expired":         {"JWT", map[string]any{"exp": at - 29}, caller(nil), ""},
		"a little early":       {"JWT", map[string]any{"nbf": at + 29, "iat": at + 29}, caller(nil), ""},
		"fractions of seconds": {"JWT", map[string]any{"exp": float64(at) + 0.5}, caller(nil), ""},
		"a program":            {"JWT", map[string]any{"sub": nil, "client_id": "erp"}, caller(func(p *Principal) { p.Subject = "client:erp" }), ""},
		"a program, azp":       {"JWT", map[string]any{"sub": nil, "azp": "erp"}, caller(func(p *Principal) { p.Subject = "client:erp" }), ""},

		"for nobody":          {"JWT", map[string]any{"sub": nil}, Principal{}, "who the caller is"},
		"an empty subject":    {"JWT", map[string]any{"sub": "", "client_id": "erp"}, Principal{}, "who the caller is"},
		"a subject of spaces": {"JWT", map[string]any{"sub": "  "}, Principal{}, "cannot be shown"},
		"a number as subject": {"JWT", map[string]any{"sub": 7, "azp": "x"}, Principal{}, "who the caller is"},
		"expired":             {"JWT", map[string]any{"exp": at - 30}, Principal{}, "has expired"},
		"without an end":      {"JWT", map[string]any{"exp": nil}, Principal{}, "when it expires"},
		"an end in words":     {"JWT", map[string]any{"exp": "never"}, Principal{}, "when it expires"},
		"early":               {"JWT", map[string]any{"nbf": at + 31}, Principal{}, "not valid yet"},
		"from the future":     {"JWT", map[string]any{"iat": at + 31}, Principal{}, "from the future"},
		"an nbf in words":     {"JWT", map[string]any{"nbf": "soon"}, Principal{}, "not valid yet"},
		"another audience":    {"JWT", map[string]any{"aud": "agent"}, Principal{}, "another audience"},
		"without an audience": {"JWT", map[string]any{"aud": nil}, Principal{}, "another audience"},
		"another issuer":      {"JWT", map[string]any{"iss": i.URL + "/"}, Principal{}, "issuer of the token is not known"},
		"without an issuer":   {"JWT", map[string]any{"iss": nil}, Principal{}, "issuer of the token is not known"},
		"for logging out":     {"logout+jwt", nil, Principal{}, "type that is not for calling"},
		"a proof":             {"dpop+jwt", nil, Principal{}, "type that is not for calling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := checked.authenticate(t.Context(), key.token(t, tt.typ, i.claims(c, tt.changes)), nil)
			if tt.err != "" {
				if !isTokenError(err) || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("claims that are no object", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{`[]`, `null`, `7`, ``, `{"iss":"a","iss":"b"}`, `{`} {
			if _, err := checked.authenticate(t.Context(), key.sign(t, "JWT", []byte(payload)), nil); !isTokenError(err) {
				t.Errorf("%q: %v", payload, err)
			}
		}
	})
}

// A token for one resource is none for another (RFC 8707, MCP AUT-06).
func TestTokenAudiences(t *testing.T) {
	t.Parallel()
	c, key, i := newClock(), newSigner(t, "k", jose.ES256), newIDP(t)
	i.publish(key.public())
	checked := newTestTokens(t, c, i.oidc())
	resource := []string{"https://agents.example/mcp", "tools"}
	for _, tt := range []struct {
		aud       any
		audiences []string
		ok        bool
	}{
		{"agents", nil, true},
		{"agents", resource, false},
		{"agents", []string{}, false},
		{"https://agents.example/mcp", nil, false},
		{"https://agents.example/mcp", resource, true},
		{[]string{"other", "tools"}, resource, true},
		{"https://agents.example/mcp/erp", resource, false},
		{"https://agents.example/MCP", resource, false},
		{nil, resource, false},
	} {
		_, err := checked.authenticate(t.Context(), key.token(t, "JWT", i.claims(c, map[string]any{"aud": tt.aud})), tt.audiences)
		if tt.ok != (err == nil) {
			t.Errorf("aud %v for %v: %v", tt.aud, tt.audiences, err)
		}
	}
}

func isTokenError(err error) bool { _, ok := errors.AsType[tokenError](err); return ok }

func TestTokenAlgorithms(t *testing.T) {
	t.Parallel()
	c := newClock()
	signers := map[jose.SignatureAlgorithm]signer{}
	i := newIDP(t)
	var published []any
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA, jose.ES384, jose.RS512} {
		s := newSigner(t, string(algorithm), algorithm)
		signers[algorithm] = s
		published = append(published, s.public())
	}
	// A secret among the keys: everybody could sign with it.
	published = append(published, map[string]string{"kty": "oct", "kid": "secret", "k": base64.RawURLEncoding.EncodeToString(make([]byte, 32))})
	published = append(published, map[string]string{"kty": "future", "kid": "x"})
	i.publish(published...)
	checked := newTestTokens(t, c, i.oidc())
	claims := i.claims(c, nil)
	for algorithm, s := range signers {
		_, err := checked.authenticate(t.Context(), s.token(t, "JWT", claims), nil)
		allowed := algorithm != jose.ES384 && algorithm != jose.RS512
		if allowed != (err == nil) {
			t.Errorf("%s: %v", algorithm, err)
		}
	}

	encode := base64.RawURLEncoding.EncodeToString
	payload := strings.Split(signers[jose.ES256].token(t, "JWT", claims), ".")[1]
	unsigned := encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + payload + "."
	// A public key as the secret of an HMAC is the classic confusion.
	public, err := x509.MarshalPKIXPublicKey(signers[jose.RS256].private.Public())
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]byte{
		"the public key, PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"the public key, DER": public,
		"a published secret":  make([]byte, 32),
		"nothing":             {},
	}
	forged := map[string]string{"none": unsigned, "none with a signature": unsigned + "AAAA"}
	for name, secret := range secrets {
		for _, kid := range []string{"RS256", "secret", ""} {
			head := encode([]byte(`{"alg":"HS256","typ":"JWT","kid":"`+kid+`"}`)) + "." + payload
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(head))
			forged[name+" as a secret, kid "+kid] = head + "." + encode(mac.Sum(nil))
		}
	}
	// The signature of one key under the algorithm or the id of another.
	parts := strings.Split(signers[jose.RS256].token(t, "JWT", claims), ".")
	for _, header := range []string{`{"alg":"PS256","kid":"RS256"}`, `{"alg":"ES256","kid":"RS256"}`, `{"alg":"RS256","kid":"ES256"}`, `{"alg":"EdDSA","kid":"RS256"}`, `{"alg":"rs256","kid":"RS256"}`} {
		forged["RS256 as "+header] = encode([]byte(header)) + "." + parts[1] + "." + parts[2]
	}
	// A key of the forger's in the header.
	own := newSigner(t, "RS256", jose.ES256)
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: own.private}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := base64.RawURLEncoding.DecodeString(payload)
	signed, err := embedded.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	forged["a key in the header"], _ = signed.CompactSerialize()
	forged["a key of the forger's"] = own.token(t, "JWT", claims)
	whole := signers[jose.ES256].token(t, "JWT", claims)
	other := strings.Split(signers[jose.ES256].token(t, "JWT", i.claims(c, map[string]any{"sub": "root"})), ".")
	mine := strings.Split(whole, ".")
	forged["another payload"] = mine[0] + "." + other[1] + "." + mine[2]
	forged["without a signature"] = mine[0] + "." + mine[1] + "."
	for name, text := range forged {
		if p, err := checked.authenticate(t.Context(), text, nil); !isTokenError(err) || p.Role != RoleNone {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// Keys rotate: a new one is found at once, made-up ones do not make us ask, and
// one that is gone is not accepted any more once the keys are fetched again.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	c := newClock()
	before, after := newSigner(t, "before", jose.ES256), newSigner(t, "after", jose.EdDSA)
	i := newIDP(t, before)
	i.age = "public, max-age=300"
	checked := newTestTokens(t, c, i.oidc())
	accepts := func(s signer) bool {
		t.Helper()
		_, err := checked.authenticate(t.Context(), s.token(t, "JWT", i.claims(c, nil)), nil)
		if err != nil && !isTokenError(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	fetched := func(want int32) {
		t.Helper()
		if got := i.fetches.Load(); got != want {
			t.Fatalf("the keys were fetched %d times, not %d", got, want)
		}
	}
	for range 2 {
		if !accepts(before) {
			t.Fatal("the first key is not accepted")
		}
	}
	fetched(1)
	i.rotate(before, after)
	if !accepts(after) {
		t.Fatal("a new key is not looked for")
	}
	fetched(2)
	for range 50 {
		if accepts(newSigner(t, "made up", jose.ES256)) {
			t.Fatal("a made-up key is accepted")
		}
	}
	fetched(2)
	c.add(unknownKey)
	if accepts(newSigner(t, "made up", jose.ES256)) {
		t.Fatal("a made-up key is accepted")
	}
	fetched(3)
	i.rotate(after)
	c.add(299 * time.Second)
	if !accepts(before) {
		t.Error("the keys are not kept for as long as the issuer says")
	}
	fetched(3)
	c.add(time.Second)
	if accepts(before) || !accepts(after) {
		t.Error("a key that is gone is still accepted, or the new one is not")
	}
}

// An issuer that is away stops nobody who has a token already, for a time.
func TestIssuerAway(t *testing.T) {
	t.Parallel()
	c := newClock()
	key := newSigner(t, "one", jose.ES256)
	i := newIDP(t, key)
	i.down.Store(true)
	checked := newTestTokens(t, c, i.oidc())
	ask := func() error {
		t.Helper()
		_, err := checked.authenticate(t.Context(), key.token(t, "JWT", i.claims(c, nil)), nil)
		return err
	}
	if err := ask(); !errors.Is(err, errIssuerAway) {
		t.Fatalf("without keys: %v", err)
	}
	i.down.Store(false)
	if err := ask(); !errors.Is(err, errIssuerAway) {
		t.Errorf("asked again at once: %v", err)
	}
	c.add(firstRetry)
	if err := ask(); err != nil {
		t.Fatalf("the issuer is back: %v", err)
	}
	i.down.Store(true)
	c.add(keysAge + time.Hour)
	if err := ask(); err != nil {
		t.Errorf("with old keys: %v", err)
	}
	c.add(keysStale)
	if err := ask(); !errors.Is(err, errIssuerAway) {
		t.Errorf("with keys that are too old: %v", err)
	}
	i.down.Store(false)
	c.add(lastRetry)
	if err := ask(); err != nil {
		t.Errorf("the issuer is back: %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	c := newClock()
	key := newSigner(t, "one", jose.ES256)
	i := newIDP(t, key)
	i.called = "https://somebody.else.example"
	token := key.token(t, "JWT", i.claims(c, nil))
	if _, err := newTestTokens(t, c, i.oidc()).authenticate(t.Context(), token, nil); !errors.Is(err, errIssuerAway) {
		t.Errorf("an issuer that calls itself differently: %v", err)
	}
	fixed := i.oidc()
	fixed.JWKSURL = i.URL + "/keys"
	before := i.discover.Load()
	if _, err := newTestTokens(t, c, fixed).authenticate(t.Context(), token, nil); err != nil || i.discover.Load() != before {
		t.Errorf("with jwks_url: %v, discovered %d times", err, i.discover.Load()-before)
	}
	i.publish()
	if _, err := newTestTokens(t, c, fixed).authenticate(t.Context(), token, nil); !errors.Is(err, errIssuerAway) {
		t.Errorf("no keys: %v", err)
	}
	if DiscoveryURL("https://sso.example/realm/") != "https://sso.example/realm/.well-known/openid-configuration" {
		t.Error(DiscoveryURL("https://sso.example/realm/"))
	}
}

// Tokens of one issuer say nothing about the callers of another.
func TestSeveralIssuers(t *testing.T) {
	t.Parallel()
	c := newClock()
	ours, theirs := newSigner(t, "k", jose.ES256), newSigner(t, "k", jose.ES256)
	a, b := newIDP(t, ours), newIDP(t, theirs)
	partner := b.oidc()
	partner.SubjectPrefix, partner.TenantClaim = "partner:", "org"
	checked := newTestTokens(t, c, a.oidc(), partner)
	p, err := checked.authenticate(t.Context(), theirs.token(t, "JWT", b.claims(c, map[string]any{"org": "acme"})), nil)
	if err != nil || p.Subject != "partner:alice" || p.Tenant != "acme" {
		t.Errorf("%+v, %v", p, err)
	}
	for name, org := range map[string]any{"none": nil, "two": []string{"a", "b"}, "no name": "Ac me", "empty": "", "a number": 1} {
		if _, err := checked.authenticate(t.Context(), theirs.token(t, "JWT", b.claims(c, map[string]any{"org": org})), nil); !isTokenError(err) {
			t.Errorf("tenant %s: %v", name, err)
		}
	}
	if _, err := checked.authenticate(t.Context(), theirs.token(t, "JWT", a.claims(c, nil)), nil); !isTokenError(err) {
		t.Errorf("a token in another issuer's name: %v", err)
	}
	none := a.oidc()
	none.Role = config.RoleNone
	if _, err := newTestTokens(t, c, none).authenticate(t.Context(), ours.token(t, "JWT", a.claims(c, nil)), nil); !errors.Is(err, errNoRole) {
		t.Errorf("a caller without a role: %v", err)
	}
}

func TestAgeOfKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": keysAge, "max-age=120": 2 * time.Minute, "public, MAX-AGE=\"120\"": 2 * time.Minute,
		"max-age=1": minKeysAge, "max-age=99999999": maxKeysAge, "max-age=-5": keysAge, "max-age=x": keysAge, "no-store": minKeysAge,
	} {
		if got := ageOf(map[string][]string{"Cache-Control": {text}}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
