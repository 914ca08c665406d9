package card_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/card"
)

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// rfc7638 is the key of RFC 7638 §3.1.
const rfc7638 = `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB"}`

func TestThumbprint(t *testing.T) {
	t.Parallel()
	keys, err := card.ParseJWKS([]byte(`{"keys":[` + rfc7638 + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 || keys[0].ID != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" || keys[0].Algorithm != "RS256" {
		t.Errorf("keys %+v", keys)
	}
}

func TestJWKS(t *testing.T) {
	t.Parallel()
	signer := newSigner(t, "", newKey(t, "ES256", ""), newKey(t, "RS256", "next"))
	data, err := signer.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 2 {
		t.Fatalf("keys: %s", data)
	}
	for _, k := range set.Keys {
		if k["use"] != "sig" || k["alg"] == "" || k["kid"] == "" {
			t.Errorf("key %v", k)
		}
		for _, name := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
			if _, ok := k[name]; ok {
				t.Errorf("it shows %s", name)
			}
		}
	}
	handler := card.JWKSHandler(data, time.Hour)
	answer := func(method, condition string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/.well-known/jwks.json", http.NoBody)
		r.Header.Set("If-None-Match", condition)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	first := answer("GET", "")
	if first.Code != 200 || first.Body.String() != string(data) || first.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("GET: %d %v", first.Code, first.Header())
	}
	if w := answer("GET", first.Header().Get("ETag")); w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("conditional GET: %d", w.Code)
	}
	if w := answer("HEAD", ""); w.Code != 200 || w.Body.Len() > 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d", w.Code)
	}
	if w := answer("POST", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestParseJWKS(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is to be left out
	if err != nil {
		t.Fatal(err)
	}
	weak, err := (&jose.JSONWebKey{Key: small.Public(), KeyID: "weak"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	with := func(members string) string { return strings.TrimSuffix(rfc7638, "}") + members + "}" }
	for _, tt := range []struct {
		name, set string
		want      int // -1 is an error
	}{
		{"none", `{"keys":[]}`, 0},
		{"for signatures", `{"keys":[` + with(`,"use":"sig","alg":"RS256","kid":"a"`) + `]}`, 1},
		{"for encryption", `{"keys":[` + with(`,"use":"enc"`) + `]}`, 0},
		{"for another algorithm", `{"keys":[` + with(`,"alg":"PS256"`) + `]}`, 0},
		{"weak", `{"keys":[` + string(weak) + `]}`, 0},
		{"of an unknown kind", `{"keys":[{"kty":"NEW","x":"AA"},` + rfc7638 + `]}`, 1},
		{"another curve", `{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}`, 0},
		{"not on the curve", `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`, 0},
		{"short Ed25519", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, 0},
		{"symmetric", `{"keys":[{"kty":"oct","k":"AAAA"}]}`, -1},
		{"private", `{"keys":[` + with(`,"d":"AAAA"`) + `]}`, -1},
		{"no keys", `{}`, -1},
		{"keys twice", `{"keys":[],"keys":[]}`, -1},
		{"no object", `[]`, -1},
		{"key that is none", `{"keys":[1]}`, -1},
		{"large", `{"keys":[],"x":"` + strings.Repeat("x", 300<<10) + `"}`, -1},
		{"many", `{"keys":[` + strings.Repeat(`{},`, 1000) + `{}]}`, -1},
	} {
		keys, err := card.ParseJWKS([]byte(tt.set))
		if (err != nil) != (tt.want < 0) || err == nil && len(keys) != tt.want {
			t.Errorf("%s: %d keys, %v, want %d", tt.name, len(keys), err, tt.want)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(private)
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}, Bytes: sec1})
	for _, tt := range []struct {
		name string
		data []byte
		alg  string
		want string // of the error
	}{
		{"SEC 1", append(encode("EC PARAMETERS", []byte{6, 0}), encode("EC PRIVATE KEY", sec1)...), "ES256", ""},
		{"PKCS #1", encode("RSA PRIVATE KEY", pkcs1), "RS256", ""},
		{"encrypted", encrypted, "", "encrypted"},
		{"encrypted PKCS #8", encode("ENCRYPTED PRIVATE KEY", sec1), "", "encrypted"},
		{"public", encode("PUBLIC KEY", pkcs1), "", "no private key"},
		{"nothing", nil, "", "no private key"},
		{"nonsense", encode("PRIVATE KEY", []byte("x")), "", "asn1"},
		{"large", make([]byte, 300<<10), "", "more than"},
	} {
		file := filepath.Join(t.TempDir(), "key.pem")
		write(t, file, tt.data)
		key, err := card.LoadSigningKey(file, "", "")
		switch {
		case tt.want != "":
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case key.Algorithm() != tt.alg:
			t.Errorf("%s: %s", tt.name, key.Algorithm())
		}
	}
}

func TestTrustStore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := card.NewSigningKey(ec, "partner-2026", "")
	if err != nil {
		t.Fatal(err)
	}
	byThumbprint, err := card.NewSigningKey(ec, "", "")
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(until time.Time) []byte {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "partner"}, NotBefore: now.Add(-time.Hour), NotAfter: until,
		}, &x509.Certificate{}, ec.Public(), ec)
		if err != nil {
			t.Fatal(err)
		}
		return encode("CERTIFICATE", der)
	}
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		key   *card.SigningKey
		want  string // of the error
	}{
		{"PEM by its name", map[string][]byte{"partner-2026.pem": encode("PUBLIC KEY", spki), "README.md": []byte("x")}, key, ""},
		{"PEM by its thumbprint", map[string][]byte{"a.pem": encode("PUBLIC KEY", spki)}, byThumbprint, ""},
		{"certificate", map[string][]byte{"partner-2026.crt": certificate(now.Add(time.Hour))}, key, ""},
		{"JWKS", map[string][]byte{"partner.json": jwks}, key, ""},
		{"expired", map[string][]byte{"a.crt": certificate(now.Add(-time.Minute))}, nil, "valid from"},
		{"private", map[string][]byte{"a.pem": encode("EC PRIVATE KEY", sec1)}, nil, "private key"},
		{"no key", map[string][]byte{"a.pem": []byte("x")}, nil, "no public key"},
		{"no usable key", map[string][]byte{"a.json": []byte(`{"keys":[]}`)}, nil, "no key is for"},
		{"empty folder", map[string][]byte{"README.md": []byte("x")}, nil, "no file of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, data := range tt.files {
				write(t, filepath.Join(dir, name), data)
			}
			store := &card.TrustStore{}
			err := store.Load(dir, now)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v := &card.Verifier{Policy: card.PolicyRequire, Trusted: store}
			if _, err := v.Verify(t.Context(), signed(t, plainCard, tt.key)); err != nil {
				t.Errorf("%v with %d keys", err, store.Len())
			}
		})
	}
	if err := (&card.TrustStore{}).Load(filepath.Join(t.TempDir(), "absent"), now); err == nil {
		t.Error("a store that is not there is loaded")
	}
}

func TestLoadPublicKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := newKey(t, "EdDSA", "")
	private, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"private.pem": private, "public.pem": encode("PUBLIC KEY", spki), "two.pem": append(encode("PUBLIC KEY", spki), encode("PUBLIC KEY", spki)...), "none.pem": nil,
	} {
		write(t, filepath.Join(dir, name), data)
	}
	if got, err := card.LoadPublicKey(filepath.Join(dir, "private.pem"), "", time.Now()); err != nil || got.ID != key.ID() || got.Algorithm != "EdDSA" {
		t.Errorf("private: %+v, %v", got, err)
	}
	if got, err := card.LoadPublicKey(filepath.Join(dir, "public.pem"), "mine", time.Now()); err != nil || got.ID != "mine" || got.Algorithm != "ES256" {
		t.Errorf("public: %+v, %v", got, err)
	}
	for _, name := range []string{"two.pem", "none.pem", "absent.pem"} {
		if got, err := card.LoadPublicKey(filepath.Join(dir, name), "", time.Now()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A JWS that is no card's is made of the same parts.
func TestSignOtherPayloads(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ES256", "k")
	protected, signature, err := key.Sign([]byte(`{"iss":"x"}`), "JWT", map[string]string{"x": "y"})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jose.ParseSignedCompact(protected+".eyJpc3MiOiJ4In0."+signature, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(jwks, &set); err != nil {
		t.Fatal(err)
	}
	if payload, err := parsed.Verify(set.Keys[0]); err != nil || string(payload) != `{"iss":"x"}` || parsed.Signatures[0].Protected.KeyID != "k" {
		t.Errorf("%s, %v", payload, err)
	}
}
