package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// chainFixture is a chain of every kind of credential with one good one of each.
type chainFixture struct {
	*Chain
	clock *clock
	table *keyTable
	idp   *idp
	key   string // an API key
	row   string // its id
	token string // a token
	log   *logBuffer
	sign  signer
}

const password = "correct horse battery"

// passwordHash is a hash of it that is quicker than those in use.
var passwordHash = sync.OnceValue(func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 10)
	if err != nil {
		panic(err)
	}
	return string(hash)
})

// A name that nobody has is compared with a hash like any other, which no
// password has.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	p, err := newPasswords([]config.BasicUser{{User: "carol", PasswordHash: config.NewSecret(passwordHash()), Role: config.RoleCaller}})
	if err != nil {
		t.Fatal(err)
	}
	if err := bcrypt.CompareHashAndPassword(p.unknown, []byte(password)); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("compared with %s: %v", p.unknown, err)
	}
	if cost, err := bcrypt.Cost(p.unknown); err != nil || cost != 10 {
		t.Errorf("cost %d, %v", cost, err)
	}
}

func newChainFixture(t *testing.T, change func(o *ChainOptions)) *chainFixture {
	t.Helper()
	f := &chainFixture{clock: newClock(), log: &logBuffer{}, sign: newSigner(t, "one", jose.ES256)}
	f.idp = newIDP(t, f.sign)
	keys, table := newTestKeys(f.clock)
	f.table = table
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	keys.log = log
	o := ChainOptions{
		Keys: keys, OIDC: []config.OIDC{f.idp.oidc()},
		Basic:     []config.BasicUser{{User: "carol", PasswordHash: config.NewSecret(passwordHash()), Role: config.RoleViewer, Tenant: "acme"}},
		MTLS:      &config.MTLS{Subject: config.CertificateAuto, Role: config.RoleCaller},
		Anonymous: Anonymous{Policy: PolicyEverywhere}, Client: http.DefaultClient, Logger: log,
		Resource: func(*http.Request) string { return "https://agents.example" + ResourcePath },
	}
	if change != nil {
		change(&o)
	}
	chain, err := NewChain(o)
	if err != nil {
		t.Fatal(err)
	}
	f.Chain = chain
	if f.tokens != nil {
		f.tokens.now = f.clock.now
		for _, is := range f.tokens.issuers {
			is.keys.now = f.clock.now
		}
	}
	if f.passwords != nil {
		f.passwords.now = f.clock.now
	}
	f.failures.now, f.failures.atOnce = f.clock.now, 3 // each try takes its time
	text, row, err := keys.Create(t.Context(), &KeyRequest{Subject: "erp", Role: RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	f.key, f.row = text, row.ID
	f.token = f.sign.token(t, "JWT", f.idp.claims(f.clock, nil))
	return f
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://agents.example/", nil)
	r.RemoteAddr = "203.0.113.7:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func certificateFor(change func(*x509.Certificate)) *tls.ConnectionState {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "erp.partner"}}
	if change != nil {
		change(c)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
}

func TestChain(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	admin := Principal{Issuer: issuerKeys, Subject: "erp", Role: RoleAdmin, Key: f.row, Address: "203.0.113.7"}
	alice := Principal{Issuer: f.idp.URL, Subject: "alice", Role: RoleCaller, Address: "203.0.113.7"}
	carol := Principal{Issuer: issuerBasic, Subject: "carol", Role: RoleViewer, Tenant: "acme", Address: "203.0.113.7"}
	for name, tt := range map[string]struct {
		r    *http.Request
		want Principal
	}{
		"nothing":         {request(), Principal{Role: RoleCaller, Address: "203.0.113.7"}},
		"bearer key":      {request("Authorization", "Bearer "+f.key), admin},
		"bearer key, odd": {request("Authorization", "bEARER  "+f.key+" "), admin},
		"X-API-Key":       {request("X-API-Key", f.key), admin},
		"token":           {request("Authorization", "Bearer "+f.token), alice},
		"Basic":           {request("Authorization", basic("carol", password)), carol},
	} {
		got, err := f.Authenticate(tt.r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A credential that is wrong is refused, also where anybody may call without
// one, and says how to do it right.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	const (
		plain    = `Bearer realm="handoff", resource_metadata="https://agents.example/.well-known/oauth-protected-resource"`
		inBasic  = `Basic realm="handoff", charset="UTF-8"`
		wrongKey = "The API key is unknown, revoked or expired"
	)
	invalid := func(message string) []string {
		return []string{`Bearer realm="handoff", error="invalid_token", error_description="` + message +
			`", resource_metadata="https://agents.example/.well-known/oauth-protected-resource"`, inBasic}
	}
	for name, tt := range map[string]struct {
		headers    []string
		message    string
		challenges []string
	}{
		"another key":           {[]string{"Authorization", "Bearer " + newKey()}, wrongKey, invalid(wrongKey)},
		"another key, header":   {[]string{"X-API-Key", newKey()}, wrongKey, invalid(wrongKey)},
		"a broken key":          {[]string{"Authorization", "Bearer " + f.key + "x"}, "The API key is not one of this node's", invalid("The API key is not one of this node's")},
		"a strange key":         {[]string{"X-API-Key", "secret"}, "The API key is not one of this node's", invalid("The API key is not one of this node's")},
		"an empty key":          {[]string{"X-API-Key", ""}, "The API key is not one of this node's", invalid("The API key is not one of this node's")},
		"a token as a key":      {[]string{"X-API-Key", f.token}, "The API key is not one of this node's", invalid("The API key is not one of this node's")},
		"a wrong token":         {[]string{"Authorization", "Bearer " + f.token + "AAAA"}, "The signature of the token is wrong", invalid("The signature of the token is wrong")},
		"no token":              {[]string{"Authorization", "Bearer a.b.c"}, "The token is malformed, or its algorithm is not allowed", invalid("The token is malformed, or its algorithm is not allowed")},
		"an opaque token":       {[]string{"Authorization", "Bearer valid-token"}, "The bearer token is neither an API key nor a JSON Web Token", invalid("The bearer token is neither an API key nor a JSON Web Token")},
		"an empty token":        {[]string{"Authorization", "Bearer "}, "The Authorization header names no credential", invalid("The Authorization header names no credential")},
		"an empty header":       {[]string{"Authorization", ""}, "The Authorization header names no credential", invalid("The Authorization header names no credential")},
		"another scheme":        {[]string{"Authorization", "Digest username=x"}, "The authentication scheme is not supported here", invalid("The authentication scheme is not supported here")},
		"two headers":           {[]string{"Authorization", "Bearer " + f.key, "Authorization", "Bearer " + f.key}, "The request has more than one credential", invalid("The request has more than one credential")},
		"two kinds":             {[]string{"Authorization", "Bearer " + f.token, "X-API-Key", f.key}, "The request has more than one credential", invalid("The request has more than one credential")},
		"a wrong password":      {[]string{"Authorization", basic("carol", "wrong")}, "The name or the password is wrong", []string{plain, inBasic}},
		"an unknown name":       {[]string{"Authorization", basic("admin", password)}, "The name or the password is wrong", []string{plain, inBasic}},
		"Basic without a colon": {[]string{"Authorization", "Basic Y2Fyb2w="}, "The Basic credential has no colon", []string{plain, inBasic}},
		"Basic, no base64":      {[]string{"Authorization", "Basic %%%"}, "The Basic credential is not base64", []string{plain, inBasic}},
		"Basic without a name":  {[]string{"Authorization", basic("", "x")}, "The Basic credential has no name or no password", []string{plain, inBasic}},
		"a password and more":   {[]string{"Authorization", basic("carol", strings.Repeat("x", 73))}, "The name or the password is too long", []string{plain, inBasic}},
	} {
		p, err := f.Authenticate(request(tt.headers...))
		if err == nil || p.Role != RoleNone {
			t.Errorf("%s: %+v", name, p)
			continue
		}
		if a2a.CodeOf(err) != a2a.CodeUnauthenticated || err.Error() != tt.message {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.challenges, Challenges(err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, secret := range []string{f.key, f.token, password, basic("carol", password)[6:], "valid-token"} {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("the log has a secret: %.10s…", secret)
		}
	}
}

// Kinds that are off are refused whatever is sent, and only those that are on are
// offered.
func TestKindsThatAreOff(t *testing.T) {
	t.Parallel()
	all := newChainFixture(t, nil)
	credentials := map[string]string{"keys": "Bearer " + all.key, "oidc": "Bearer " + all.token, "basic": basic("carol", password)}
	for mask := range 8 {
		f := newChainFixture(t, func(o *ChainOptions) {
			if mask&1 == 0 {
				o.Keys = nil
			} else {
				o.Keys.store = all.table
			}
			o.OIDC = []config.OIDC{all.idp.oidc()}
			if mask&2 == 0 {
				o.OIDC = nil
			}
			if mask&4 == 0 {
				o.Basic = nil
			}
			o.Anonymous.Policy = PolicyOff
		})
		for i, kind := range []string{"keys", "oidc", "basic"} {
			_, err := f.Authenticate(request("Authorization", credentials[kind]))
			if on := mask&(1<<i) != 0; on != (err == nil) {
				t.Errorf("mask %d, %s: %v", mask, kind, err)
			}
		}
		_, err := f.Authenticate(request())
		challenges := strings.Join(Challenges(err), "; ")
		if a2a.CodeOf(err) != a2a.CodeUnauthenticated || challenges == "" {
			t.Fatalf("mask %d: %v", mask, err)
		}
		if got := strings.Contains(challenges, "Basic"); got != (mask&4 != 0) {
			t.Errorf("mask %d: %s", mask, challenges)
		}
		if got := strings.Contains(challenges, "Bearer"); got != (mask&3 != 0 || mask == 0) {
			t.Errorf("mask %d: %s", mask, challenges)
		}
		if got := strings.Contains(challenges, "resource_metadata"); got != (mask&2 != 0) {
			t.Errorf("mask %d: %s", mask, challenges)
		}
	}
}

func TestPasswordsAreLimited(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	try := func(address, password string) error {
		r := request("Authorization", basic("carol", password))
		r.RemoteAddr = address
		_, err := f.Authenticate(r)
		return err
	}
	const here, elsewhere = "203.0.113.7:1", "203.0.113.8:1"
	if err := try(here, password); err != nil {
		t.Fatal(err)
	}
	for i := range f.failures.atOnce {
		if err := try(here, fmt.Sprint("wrong", i)); a2a.CodeOf(err) != a2a.CodeUnauthenticated {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	err := try(here, "wrong again")
	if e := refused(err); e.Code != a2a.CodeResourceExhausted || e.Metadata[a2a.MetadataLimit] != LimitPasswords || e.RetryAfter <= 0 || e.RetryAfter > wrongEvery {
		t.Fatalf("%+v", e)
	}
	if err := try(here, password); err != nil {
		t.Errorf("who was right a moment ago: %v", err)
	}
	if err := try(elsewhere, password); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	f.clock.add(passwordCacheTime)
	if err := try(here, password); err != nil {
		t.Errorf("after a while: %v", err)
	}
	for _, pair := range [][2]string{{"2001:db8::1", "2001:db8::ffff"}, {"203.0.113.7", "203.0.113.7"}} {
		if Peer(pair[0]) != Peer(pair[1]) {
			t.Errorf("%v are counted apart", pair)
		}
	}
	if Peer("2001:db8::1") == Peer("2001:db8:0:1::1") || Peer("203.0.113.7") == Peer("203.0.113.8") {
		t.Error("different networks are counted together")
	}
	for i := range 2 * limitedPeers {
		f.failures.end(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), true)
	}
	if n := len(f.failures.peers); n > limitedPeers {
		t.Errorf("%d addresses are kept", n)
	}
}

// What cannot be checked is neither right nor wrong.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	f.table.down = true
	f.idp.down.Store(true)
	for _, credential := range []string{f.key, f.token} {
		_, err := f.Authenticate(request("Authorization", "Bearer "+credential))
		if e := refused(err); e.Code != a2a.CodeUnavailable || e.RetryAfter == 0 || Challenges(err) != nil {
			t.Errorf("%+v", e)
		}
	}
	if strings.Contains(f.log.String(), f.token) || !strings.Contains(f.log.String(), "cannot be fetched") {
		t.Errorf("logged: %s", f.log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Authenticate(request("Authorization", "Bearer "+f.key).WithContext(ctx)); err != context.Canceled {
		t.Errorf("a request that is gone: %v", err)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	spiffe, _ := url.Parse("spiffe://corp.example/erp")
	uri := func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} }
	dns := func(c *x509.Certificate) { c.DNSNames = []string{"erp.example"} }
	for name, tt := range map[string]struct {
		config config.MTLS
		change func(*x509.Certificate)
		want   Principal
		err    string
	}{
		"cn":             {config.MTLS{Subject: "auto"}, nil, Principal{Subject: "erp.partner", Role: RoleCaller}, ""},
		"dns before cn":  {config.MTLS{Subject: "auto"}, dns, Principal{Subject: "erp.example", Role: RoleCaller}, ""},
		"uri before dns": {config.MTLS{Subject: "auto"}, func(c *x509.Certificate) { uri(c); dns(c) }, Principal{Subject: spiffe.String(), Role: RoleCaller}, ""},
		"cn by choice":   {config.MTLS{Subject: "cn"}, uri, Principal{Subject: "erp.partner", Role: RoleCaller}, ""},
		"prefix":         {config.MTLS{Subject: "cn", SubjectPrefix: "mesh:", Tenant: "acme", Scopes: []string{"s"}}, nil, Principal{Subject: "mesh:erp.partner", Tenant: "acme", Scopes: []string{"s"}, Role: RoleCaller}, ""},
		"rule": {
			config.MTLS{Subject: "auto", Rules: []config.CertificateRule{{Match: "other", Role: "admin"}, {Match: "erp.*", Role: "operator", Tenant: "acme", Scopes: []string{"quotes"}}, {Match: "*", Role: "admin"}}},
			nil,
			Principal{Subject: "erp.partner", Role: RoleOperator, Tenant: "acme", Scopes: []string{"quotes"}},
			"",
		},
		"no uri":    {config.MTLS{Subject: "uri"}, nil, Principal{}, "does not say who it is for"},
		"two names": {config.MTLS{Subject: "auto"}, func(c *x509.Certificate) { c.DNSNames = []string{"a", "b"} }, Principal{}, "more than one name"},
		"no name":   {config.MTLS{Subject: "auto"}, func(c *x509.Certificate) { c.Subject.CommonName = "" }, Principal{}, "does not say who it is for"},
		"a line":    {config.MTLS{Subject: "cn"}, func(c *x509.Certificate) { c.Subject.CommonName = "a\nb" }, Principal{}, "cannot be shown"},
		"no rule":   {config.MTLS{Subject: "cn", Role: "none", Rules: []config.CertificateRule{{Match: "x", Role: "caller"}}}, nil, Principal{}, "no rule"},
	} {
		if tt.config.Role == "" {
			tt.config.Role = config.RoleCaller
		}
		f := newChainFixture(t, func(o *ChainOptions) { o.MTLS = &tt.config; o.Anonymous.Policy = PolicyEverywhere })
		r := request()
		r.TLS = certificateFor(tt.change)
		got, err := f.Authenticate(r)
		if tt.err != "" {
			if a2a.CodeOf(err) != a2a.CodeUnauthenticated || !strings.Contains(err.Error(), tt.err) || got.Role != RoleNone {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		tt.want.Issuer, tt.want.Address = issuerMTLS, "203.0.113.7"
		if err != nil || cmp.Diff(tt.want, got) != "" {
			t.Errorf("%s: %v %s", name, err, cmp.Diff(tt.want, got))
		}
		// A credential of the request decides before the certificate.
		r.Header.Set("Authorization", "Bearer "+f.key)
		if got, err := f.Authenticate(r); err != nil || got.Subject != "erp" {
			t.Errorf("%s, with a key: %+v, %v", name, got, err)
		}
		r.Header.Set("Authorization", "Bearer wrong")
		if got, err := f.Authenticate(r); err == nil {
			t.Errorf("%s, with a wrong token: %+v", name, got)
		}
	}
	// A proxy's certificate is not that of whom it forwards.
	proxies, err := ParseProxies([]string{"203.0.113.7"})
	if err != nil {
		t.Fatal(err)
	}
	behind := newChainFixture(t, func(o *ChainOptions) { o.Anonymous.Proxies = proxies })
	forwarded := request("X-Forwarded-For", "198.51.100.1")
	forwarded.TLS = certificateFor(nil)
	if p, err := behind.Authenticate(forwarded); err != nil || !p.Anonymous() || p.Address != "198.51.100.1" {
		t.Errorf("behind a proxy: %+v, %v", p, err)
	}
	// What TLS has not verified is no certificate.
	f := newChainFixture(t, nil)
	r := request()
	r.TLS = certificateFor(nil)
	r.TLS.VerifiedChains = nil
	if p, err := f.Authenticate(r); err != nil || !p.Anonymous() {
		t.Errorf("unverified: %+v, %v", p, err)
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	for name, tt := range map[string]struct {
		q         Requirement
		p         Principal
		code      a2a.Code
		message   string
		challenge string
	}{
		"nothing asked":    {Requirement{}, Principal{Role: RoleCaller}, 0, "", ""},
		"all there":        {Requirement{RoleCaller, []string{"a"}}, Principal{Subject: "x", Role: RoleAdmin, Scopes: []string{"b", "a"}}, 0, "", ""},
		"an unknown one":   {Requirement{Scopes: []string{"a"}}, Principal{Role: RoleCaller}, a2a.CodeUnauthenticated, "Authentication is required for this agent", `Bearer realm="handoff", resource_metadata=`},
		"one scope":        {Requirement{Scopes: []string{"a", "b"}}, Principal{Subject: "x", Role: RoleAdmin, Scopes: []string{"a"}}, a2a.CodePermissionDenied, "The credential lacks the scope b for this agent", `error="insufficient_scope", error_description="The credential lacks the scope b for this agent", scope="a b"`},
		"two scopes":       {Requirement{Scopes: []string{"a", "b"}}, Principal{Subject: "x", Role: RoleAdmin}, a2a.CodePermissionDenied, "The credential lacks the scopes a, b for this agent", `scope="a b"`},
		"a role":           {Requirement{Role: RoleOperator}, Principal{Subject: "x", Role: RoleCaller}, a2a.CodePermissionDenied, "The role caller may not use this agent; it takes the role operator", ""},
		"part of a scope":  {Requirement{Scopes: []string{"quotes"}}, Principal{Subject: "x", Role: RoleCaller, Scopes: []string{"quote", "quotes.read"}}, a2a.CodePermissionDenied, "The credential lacks the scope quotes for this agent", `scope="quotes"`},
		"a different case": {Requirement{Scopes: []string{"quotes"}}, Principal{Subject: "x", Role: RoleCaller, Scopes: []string{"Quotes"}}, a2a.CodePermissionDenied, "The credential lacks the scope quotes for this agent", `scope="quotes"`},
	} {
		err := tt.q.Check(request(), &tt.p, "this agent", f)
		if tt.message == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || a2a.CodeOf(err) != tt.code || err.Error() != tt.message || !strings.Contains(strings.Join(Challenges(err), "\n"), tt.challenge) {
			t.Errorf("%s: %v, %v", name, err, Challenges(err))
		}
	}
}

func TestPasswordHash(t *testing.T) {
	t.Parallel()
	hash, err := HashPassword([]byte(password))
	if err != nil || CheckPasswordHash(hash) != nil || bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil {
		t.Errorf("%s, %v", hash, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 73)} {
		if _, err := HashPassword([]byte(bad)); err == nil {
			t.Errorf("%d bytes were hashed", len(bad))
		}
	}
	quick, _ := bcrypt.GenerateFromPassword([]byte(password), 4)
	for _, bad := range []string{"", password, string(quick), hash + "x", "$2a$31$" + hash[7:]} {
		if CheckPasswordHash(bad) == nil {
			t.Errorf("%q passes for a hash", bad)
		}
	}
	for name, users := range map[string][]config.BasicUser{
		"twice":      {{User: "a", PasswordHash: config.NewSecret(hash), Role: "caller"}, {User: "a", PasswordHash: config.NewSecret(hash), Role: "caller"}},
		"in clear":   {{User: "a", PasswordHash: config.NewSecret(password), Role: "caller"}},
		"bad name":   {{User: "a\n", PasswordHash: config.NewSecret(hash), Role: "caller"}},
		"bad tenant": {{User: "a", PasswordHash: config.NewSecret(hash), Tenant: "A B", Role: "caller"}},
	} {
		if _, err := NewChain(ChainOptions{Basic: users}); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{"Bearer x", "Basic Y2Fyb2w6eA==", "bearer a.b.c", "Bearer " + newKey(), "", " ", "Basic", "Digest x", "Bearer \x00", strings.Repeat("a", 20<<10)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := parseAuthorization(text)
		switch c.kind {
		case credentialNone:
			t.Fatal("a header is no credential")
		case credentialUnknown:
			if c.problem == "" || c.secret != "" || c.user != "" {
				t.Fatalf("%+v", c)
			}
			if len(text) > 60 && strings.Contains(c.problem, text) {
				t.Fatal("the problem repeats the credential")
			}
		case credentialKey:
			if !isKey(c.secret) {
				t.Fatalf("%+v", c)
			}
		case credentialToken:
			if !isCompactJWS(c.secret) || strings.HasPrefix(c.secret, keyPrefix) {
				t.Fatalf("%+v", c)
			}
		case credentialBasic:
			if c.user == "" || strings.Contains(c.user, ":") || len(c.secret) > maxPassword || checkPrincipal("x"+c.user+"x", "", nil) != nil && len(c.user) < 250 {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	m := &Resource{Issuers: []string{"https://sso.example"}, Scopes: []string{"quotes"}, Name: "Handoff"}
	w := httptest.NewRecorder()
	m.Serve(w, httptest.NewRequest(http.MethodGet, ResourcePath+"/agents/supplier/", nil), "https://agents.example")
	const want = `{"resource":"https://agents.example/agents/supplier/","authorization_servers":["https://sso.example"],"scopes_supported":["quotes"],"bearer_methods_supported":["header"],"resource_name":"Handoff"}`
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	m.Serve(w, httptest.NewRequest(http.MethodPost, ResourcePath, nil), "https://agents.example")
	if w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
	for _, path := range []string{ResourcePath + "x", "/other"} {
		w = httptest.NewRecorder()
		m.Serve(w, httptest.NewRequest(http.MethodGet, path, nil), "https://agents.example")
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for base, want := range map[string]string{
		"https://agents.example":       "https://agents.example/.well-known/oauth-protected-resource",
		"https://agents.example/under": "https://agents.example/.well-known/oauth-protected-resource/under",
	} {
		if got := ResourceURL(base); got != want {
			t.Errorf("%s: %s", base, got)
		}
	}
}

func TestQuotable(t *testing.T) {
	t.Parallel()
	if got := quotable("a\"b\\c\r\nd\u00e9"); got != "a'b'c??d?" {
		t.Error(got)
	}
}

// Where no kind of credential is on, that is what a caller is told.
func TestNoKindIsOn(t *testing.T) {
	t.Parallel()
	c, err := NewChain(ChainOptions{Anonymous: Anonymous{Policy: PolicyEverywhere}})
	if err != nil {
		t.Fatal(err)
	}
	for _, headers := range [][]string{{"Authorization", "Bearer guess"}, {"Authorization", "Basic %"}, {"Authorization", basic("a", "b")}, {"X-API-Key", newKey()}, {"X-API-Key", "guess"}} {
		if _, err := c.Authenticate(request(headers...)); a2a.CodeOf(err) != a2a.CodeUnauthenticated || err.Error() != "This kind of credential is not accepted here" {
			t.Errorf("%v: %v", headers, err)
		}
	}
}

// Tries at once are counted like those one after the other.
func TestGuessingAtOnce(t *testing.T) {
	t.Parallel()
	f := newChainFixture(t, nil)
	var group sync.WaitGroup
	var tried, refusals atomic.Int64
	for i := range 20 {
		group.Go(func() {
			p, err := f.Authenticate(request("Authorization", basic("carol", fmt.Sprint("wrong", i))))
			if p.Address == "" || p.Subject != "" {
				t.Errorf("the log is told of %+v", p)
			}
			switch a2a.CodeOf(err) {
			case a2a.CodeUnauthenticated:
				tried.Add(1)
			case a2a.CodeResourceExhausted:
				refusals.Add(1)
			default:
				t.Errorf("try %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if most := int64(f.failures.atOnce); tried.Load() > most || refusals.Load() < 20-most {
		t.Errorf("%d were tried, %d refused", tried.Load(), refusals.Load())
	}
}

// A reload forgets neither the keys of issuers nor who guesses passwords.
func TestChainThatReplacesAnother(t *testing.T) {
	t.Parallel()
	before := newChainFixture(t, nil)
	if _, err := before.Authenticate(request("Authorization", "Bearer "+before.token)); err != nil {
		t.Fatal(err)
	}
	for range before.failures.atOnce {
		_, _ = before.Authenticate(request("Authorization", basic("carol", "wrong")))
	}
	before.idp.down.Store(true)
	after, err := NewChain(ChainOptions{
		OIDC:   []config.OIDC{before.idp.oidc()},
		Basic:  []config.BasicUser{{User: "carol", PasswordHash: config.NewSecret(passwordHash()), Role: config.RoleViewer}},
		Client: http.DefaultClient, Before: before.Chain,
	})
	if err != nil {
		t.Fatal(err)
	}
	after.tokens.now = before.clock.now
	if p, err := after.Authenticate(request("Authorization", "Bearer "+before.token)); err != nil || p.Subject != "alice" {
		t.Errorf("while the issuer is away: %+v, %v", p, err)
	}
	if _, err := after.Authenticate(request("Authorization", basic("carol", "wrong"))); a2a.CodeOf(err) != a2a.CodeResourceExhausted {
		t.Errorf("who has guessed before: %v", err)
	}
	elsewhere := before.idp.oidc()
	elsewhere.JWKSURL = before.idp.URL + "/keys"
	moved, err := NewChain(ChainOptions{OIDC: []config.OIDC{elsewhere}, Client: http.DefaultClient, Before: after})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := moved.Authenticate(request("Authorization", "Bearer "+before.token)); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("keys of another place: %v", err)
	}
}
