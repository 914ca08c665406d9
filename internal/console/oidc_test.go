package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	handoff "handoff.example/handoff"
)

// provider is an issuer of accounts (OpenID Connect Core §3.1).
type provider struct {
	t      *testing.T
	server *httptest.Server
	key    *ecdsa.PrivateKey
	asked  url.Values     // of the last request for authorization
	claims map[string]any // that the next ID token has, in place of the right ones
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.server.URL, "authorization_endpoint": p.server.URL + "/authorize", "token_endpoint": p.server.URL + "/token", "jwks_uri": p.server.URL + "/keys",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		user, secret, _ := r.BasicAuth()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if r.PostFormValue("code") != "right" || user != "handoff" || secret != "s3cret" || r.PostFormValue("redirect_uri") != p.asked.Get("redirect_uri") ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != p.asked.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		answer(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": p.token()})
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

// token signs an ID token.
func (p *provider) token() string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		p.t.Error(err)
		return ""
	}
	claims := map[string]any{
		"iss": p.server.URL, "sub": "mara", "aud": "handoff", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
		"nonce": p.asked.Get("nonce"), "groups": []string{"buyers"},
	}
	maps.Copy(claims, p.claims)
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// begin lets somebody leave for the issuer, and returns the state.
func (p *provider) begin(who *person, next string) string {
	p.t.Helper()
	got := who.get("/console/login/oidc?next=" + url.QueryEscape(next))
	to, err := url.Parse(got.header.Get("Location"))
	if got.status != http.StatusSeeOther || err != nil || !strings.HasPrefix(to.String(), p.server.URL+"/authorize?") {
		p.t.Fatalf("status %d, Location %q", got.status, got.header.Get("Location"))
	}
	p.asked = to.Query()
	return p.asked.Get("state")
}

func (p *provider) fixture() *fixture {
	return startFixture(p.t, strings.Replace(configuration, "callers: {keys: true}", fmt.Sprintf(`
callers:
  keys: true
  oidc: [{issuer: %q, audience: agents, role: none, roles_claim: groups, roles: {buyers: operator}, tenant: acme}]
console:
  oidc: {issuer: %[1]q, client_id: handoff, client_secret: s3cret, name: Company account}
`, p.server.URL), 1), handoff.Options{})
}

func TestSignInAtAnIssuer(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	f := issuer.fixture()
	f.nobody().get("/console/login").ok().says("Sign in with Company account")

	p := f.nobody()
	state := issuer.begin(p, "/console/settings")
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "handoff", "redirect_uri": f.server.URL + "/console/login/callback", "code_challenge_method": "S256", "scope": "openid profile",
	} {
		if got := issuer.asked.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if len(state) < 20 || len(issuer.asked.Get("nonce")) < 20 || len(issuer.asked.Get("code_challenge")) != 43 {
		t.Errorf("asked with %v", issuer.asked)
	}
	p.get("/console/login/callback?code=right&state=" + state).leadsTo("/console/settings")
	p.get("/console/settings").ok().says("Signed in as mara", "Tenant acme", "Role operator", "at an issuer of accounts", issuer.server.URL)
	if got := f.entries("POST /console/login"); !slices.Contains(got, "console mara oidc OK") {
		t.Errorf("the audit log has %q", got)
	}
	// What came back is used up.
	if got := p.get("/console/login/callback?code=right&state=" + state); got.status != http.StatusBadRequest {
		t.Errorf("coming back twice: status %d", got.status)
	}
}

func TestWhatAnIssuerMayNotDo(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	f, n := issuer.fixture(), 0
	for name, test := range map[string]struct {
		claims map[string]any
		query  string
		status int
		says   string
	}{
		"another nonce":    {claims: map[string]any{"nonce": "x"}, status: 401, says: "not accepted"},
		"no nonce":         {claims: map[string]any{"nonce": nil}, status: 401, says: "not accepted"},
		"another client":   {claims: map[string]any{"aud": "agents"}, status: 401, says: "not accepted"},
		"two clients":      {claims: map[string]any{"aud": []string{"handoff", "other"}}, status: 401, says: "not accepted"},
		"another azp":      {claims: map[string]any{"azp": "other"}, status: 401, says: "not accepted"},
		"another issuer":   {claims: map[string]any{"iss": "https://evil.example"}, status: 401, says: "not accepted"},
		"an old token":     {claims: map[string]any{"exp": 1}, status: 401, says: "not accepted"},
		"no role":          {claims: map[string]any{"groups": []string{"others"}}, status: 403, says: "no role here"},
		"a wrong code":     {query: "code=wrong", status: 401, says: "not accepted"},
		"denied":           {query: "error=access_denied&error_description=%3Cscript%3E", status: 401, says: "access_denied"},
		"a foreign answer": {query: "code=right&iss=https%3A%2F%2Fevil.example", status: 401, says: "not accepted"},
		"no code":          {query: "x=y", status: 401, says: "The issuer has not signed you in"},
	} {
		if n++; n%8 == 0 {
			f = issuer.fixture() // wrong sign-ins are bounded
		}
		p := f.nobody()
		state := issuer.begin(p, "")
		issuer.claims = test.claims
		query := test.query
		if query == "" {
			query = "code=right"
		}
		got := p.get("/console/login/callback?" + query + "&state=" + state)
		if got.status != test.status || p.session() != "" || !strings.Contains(got.text(), test.says) || strings.Contains(got.body, "<script>") {
			t.Errorf("%s: status %d, session %q: %s", name, got.status, p.session(), got.text())
		}
	}
}

// A sign-in ends in the browser in which it began, so that nobody is signed in as
// somebody else unawares.
func TestASignInEndsWhereItBegan(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	f := issuer.fixture()
	attacker, victim := f.nobody(), f.nobody()
	state := issuer.begin(attacker, "")
	if got := victim.get("/console/login/callback?code=right&state=" + state); got.status != http.StatusBadRequest || victim.session() != "" {
		t.Errorf("without having begun: status %d", got.status)
	}
	own := issuer.begin(victim, "")
	if got := victim.get("/console/login/callback?code=right&state=" + state); got.status != http.StatusBadRequest || victim.session() != "" {
		t.Errorf("with the state of another: status %d (own %q)", got.status, own)
	}
	if got := f.nobody().get("/console/login/callback?code=right&state="+state, "Cookie", "handoff_login=AAAA"); got.status != http.StatusBadRequest {
		t.Errorf("with a forged cookie: status %d", got.status)
	}
}

func TestSessionsEndWithTheirIssuer(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	f := issuer.fixture()
	p := f.nobody()
	p.get("/console/login/callback?code=right&state=" + issuer.begin(p, "")).leadsTo("/console/")
	p.get("/console/").ok()
	f.rewrite(configuration)
	p.get("/console/").leadsTo("/console/login")
	f.nobody().get("/console/login/oidc").ended(http.StatusNotFound)
}

func TestAnIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	issuer := newProvider(t)
	f := issuer.fixture()
	issuer.server.Close()
	f.nobody().get("/console/login/oidc").ended(http.StatusBadGateway).says("cannot be reached now")
}
