package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// keyTable is a KeyStore in memory.
type keyTable struct {
	mu    sync.Mutex
	rows  map[string]store.APIKey
	reads int
	down  bool
}

func (s *keyTable) CreateKey(_ context.Context, k *store.APIKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.rows[k.ID]; ok {
		return store.ErrConflict
	}
	s.rows[k.ID] = *k
	return nil
}

func (s *keyTable) Key(_ context.Context, id string) (*store.APIKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.down {
		return nil, store.ErrUnavailable
	}
	k, ok := s.rows[id]
	if !ok {
		return nil, store.ErrNotFound
	}
	return &k, nil
}

func (s *keyTable) Keys(context.Context) ([]store.APIKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.APIKey
	for _, k := range s.rows {
		list = append(list, k)
	}
	return list, nil
}

func (s *keyTable) RevokeKey(_ context.Context, id string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.rows[id]
	if !ok {
		return store.ErrNotFound
	}
	k.Revoked = at
	s.rows[id] = k
	return nil
}

func (s *keyTable) UseKey(_ context.Context, id string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.rows[id]
	k.Used = at
	s.rows[id] = k
	return nil
}

func newTestKeys(c *clock) (*Keys, *keyTable) {
	table := &keyTable{rows: map[string]store.APIKey{}}
	k := NewKeys(table, slog.New(slog.DiscardHandler))
	k.now = c.now
	return k, table
}

// signer makes tokens.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newSigner(t *testing.T, id string, algorithm jose.SignatureAlgorithm) signer {
	t.Helper()
	s := signer{id: id, algorithm: algorithm}
	var err error
	switch algorithm {
	case jose.ES256:
		s.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		s.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.EdDSA:
		_, s.private, err = ed25519.GenerateKey(rand.Reader)
	default:
		s.private = rsaKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.private.Public(), KeyID: s.id, Use: "sig"}
}

// token signs claims; typ "" leaves the header out.
func (s signer) token(t *testing.T, typ string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return s.sign(t, typ, payload)
}

func (s signer) sign(t *testing.T, typ string, payload []byte) string {
	t.Helper()
	o := &jose.SignerOptions{}
	if typ != "" {
		o.WithType(jose.ContentType(typ))
	}
	signing, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: jose.JSONWebKey{Key: s.private, KeyID: s.id}}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signing.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// idp is an issuer of tokens as a real server.
type idp struct {
	*httptest.Server
	mu       sync.Mutex
	keys     []any // JSON Web Keys, or what is to stand among them
	age      string
	called   string // what it calls itself; "": its URL
	down     atomic.Bool
	fetches  atomic.Int32 // of keys
	discover atomic.Int32
}

func newIDP(t *testing.T, keys ...signer) *idp {
	t.Helper()
	i := &idp{}
	i.rotate(keys...)
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *idp) rotate(keys ...signer) {
	list := make([]any, len(keys))
	for n, k := range keys {
		list[n] = k.public()
	}
	i.publish(list...)
}

func (i *idp) publish(keys ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

func (i *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.down.Load() {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.discover.Add(1)
		name := i.called
		if name == "" {
			name = i.URL
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": i.URL + "/keys"})
	case "/keys":
		i.fetches.Add(1)
		if i.age != "" {
			w.Header().Set("Cache-Control", i.age)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	default:
		http.NotFound(w, r)
	}
}

// oidc returns the configuration of the issuer.
func (i *idp) oidc() config.OIDC {
	return config.OIDC{
		Issuer: i.URL, Audience: "agents", Algorithms: []string{"RS256", "PS256", "ES256", "EdDSA"}, Leeway: config.Duration(30 * time.Second),
		SubjectClaim: "sub", ScopeClaims: []string{"scope", "scp"}, Role: config.RoleCaller, Scheme: "oidc",
	}
}

// claims returns good claims with changes; a nil value removes a claim.
func (i *idp) claims(c *clock, changes map[string]any) map[string]any {
	at := c.now().Unix()
	all := map[string]any{"iss": i.URL, "aud": "agents", "sub": "alice", "iat": at, "nbf": at, "exp": at + 300}
	for name, value := range changes {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	return maps.Clone(all)
}

func newTestTokens(t *testing.T, c *clock, list ...config.OIDC) *tokens {
	t.Helper()
	tokens, err := newTokens(list, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	tokens.now = c.now
	for _, is := range tokens.issuers {
		is.keys.now = c.now
	}
	return tokens
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
