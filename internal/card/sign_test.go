package card_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
)

// plainCard has the same canonical form by the specification and by the SDKs.
const plainCard = `{"name":"Quote","description":"Quotes prices.","version":"1.0.0",` +
	`"supportedInterfaces":[{"url":"https://a.example/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` +
	`"capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
	`"skills":[{"id":"q","name":"Q","description":"D","tags":["t"]}]}`

// richCard has fields and empty values that the SDKs leave out.
const richCard = `{"name":"Angebot \u20ac","description":"x","version":"1","url":"https://a.example/rpc","x-rate":1.5e1,` +
	`"supportedInterfaces":[{"url":"https://a.example/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":""}],` +
	`"securitySchemes":{"key":{"apiKeySecurityScheme":{"location":"header","name":"K"}}},"securityRequirements":[{"schemes":{"key":{"list":[]}}}],` +
	`"capabilities":{"streaming":true,"extensions":[{"uri":"https://e.example","params":{"limit":5e-324,"note":"","flag":false}}]},` +
	`"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"q","name":"Q","description":"D","tags":["t"],"examples":["\ud83d\ude00"]}]}`

// generateRSA makes one RSA key for all tests; it takes its time.
var generateRSA = sync.OnceValues(func() (*card.SigningKey, error) { return card.GenerateSigningKey("RS256") })

func newKey(t testing.TB, alg, id string) *card.SigningKey {
	t.Helper()
	generate := generateRSA
	if alg != "RS256" {
		generate = func() (*card.SigningKey, error) { return card.GenerateSigningKey(alg) }
	}
	generated, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if id == "" {
		return generated
	}
	file := t.TempDir() + "/key.pem"
	data, err := generated.PEM()
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, data)
	key, err := card.LoadSigningKey(file, id, alg)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newSigner(t testing.TB, jku string, keys ...*card.SigningKey) *card.Signer {
	t.Helper()
	signer, err := card.NewSigner(keys, jku)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func signed(t testing.TB, text string, keys ...*card.SigningKey) []byte {
	t.Helper()
	out, err := newSigner(t, "", keys...).Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func trusting(keys ...*card.SigningKey) *card.Verifier {
	v := &card.Verifier{Policy: card.PolicyRequire, Trusted: &card.TrustStore{}}
	for _, k := range keys {
		v.Trusted.Add(k.Public())
	}
	return v
}

// statuses returns the statuses of the signatures.
func statuses(v *card.Verification) []card.Status {
	var list []card.Status
	for _, s := range v.Signatures {
		list = append(list, s.Status)
	}
	return list
}

// refused returns what was found of a card that is refused.
func refused(t testing.TB, v *card.Verifier, data []byte) (*card.Verification, string) {
	t.Helper()
	result, err := v.Verify(t.Context(), data)
	e, ok := errors.AsType[*card.SignatureError](err)
	if !ok {
		t.Fatalf("it is not refused: %+v, %v", result, err)
	}
	if e.Verification.Outcome != card.OutcomeRefused || e.Verification.Covered != nil {
		t.Errorf("a card that is refused has the outcome %q and %d bytes", e.Verification.Outcome, len(e.Verification.Covered))
	}
	return e.Verification, e.Reason
}

func TestRow120_SignAndVerify(t *testing.T) {
	t.Parallel()
	for _, alg := range card.Algorithms {
		for name, text := range map[string]string{"plain": plainCard, "rich": richCard} {
			t.Run(alg+" "+name, func(t *testing.T) {
				t.Parallel()
				key := newKey(t, alg, "")
				out := signed(t, text, key)
				if again := signed(t, text, key); !bytes.Equal(out, again) {
					t.Error("the same card has another signature the second time")
				}
				if !strings.HasPrefix(string(out), strings.TrimSuffix(text, "}")) {
					t.Errorf("the card was changed: %s", out)
				}
				result, err := trusting(key).Verify(t.Context(), out)
				if err != nil {
					t.Fatal(err)
				}
				want := &card.Verification{Outcome: card.OutcomeVerified, KeyID: key.ID(), Algorithm: alg, Source: card.SourceTrusted, Covered: out}
				if diff := cmp.Diff(want, result, cmpopts.IgnoreFields(card.Verification{}, "Signatures")); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				var parsed a2a.AgentCard
				if err := a2a.Unmarshal(out, &parsed); err != nil {
					t.Fatal(err)
				}
				header, err := base64.RawURLEncoding.DecodeString(parsed.Signatures[0].Protected)
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JOSE"}`, alg, key.ID()); string(header) != want {
					t.Errorf("protected header %s, want %s", header, want)
				}
			})
		}
	}
}

// A card that is the same, written otherwise, has the same signature.
func TestFormOfTheJSONDoesNotMatter(t *testing.T) {
	t.Parallel()
	key := newKey(t, "EdDSA", "")
	value := jsontext.Value(signed(t, richCard, key))
	if err := value.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if err := value.Indent(); err != nil {
		t.Fatal(err)
	}
	if _, err := trusting(key).Verify(t.Context(), value); err != nil {
		t.Error(err)
	}
}

// The SDKs leave out fields that are not of A2A 1.0 and values that are empty,
// and get a signature over what remains.
func TestSecondSignatureForTheSDKs(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ES256", "k")
	out := signed(t, richCard, key)
	result, err := trusting(key).Verify(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]card.Status{card.StatusGood, card.StatusPartial}, statuses(result)); diff != "" {
		t.Fatal(diff)
	}
	only := withSignatures(t, richCard, signaturesOf(t, out)[1])
	found, reason := refused(t, trusting(key), only)
	want := []string{"url", "x-rate", "securityRequirements", "capabilities.extensions[0].params.note"}
	if diff := cmp.Diff(want, found.Uncovered); diff != "" {
		t.Errorf("uncovered (-want +got):\n%s", diff)
	}
	if !strings.Contains(reason, "x-rate") {
		t.Errorf("reason %q", reason)
	}
	lenient := trusting(key)
	lenient.Partial = true
	result, err = lenient.Verify(t.Context(), only)
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != card.OutcomePartial || result.KeyID != "k" {
		t.Errorf("result %+v", result)
	}
	if text := string(result.Covered); strings.Contains(text, "x-rate") || strings.Contains(text, "signatures") || !strings.Contains(text, `"name":"Angebot €"`) {
		t.Errorf("covered: %s", text)
	}
	// What is covered can still not be changed.
	refused(t, lenient, bytes.Replace(only, []byte(`"https://e.example"`), []byte(`"https://f.example"`), 1))
}

func signaturesOf(t testing.TB, data []byte) []jsontext.Value {
	t.Helper()
	var c struct {
		Signatures []jsontext.Value `json:"signatures"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c.Signatures
}

func withSignatures(t testing.TB, text string, signatures ...jsontext.Value) []byte {
	t.Helper()
	list, err := json.Marshal(signatures)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.TrimSuffix(text, "}") + `,"signatures":` + string(list) + `}`)
}

func TestTwoKeys(t *testing.T) {
	t.Parallel()
	old, next := newKey(t, "RS256", "2026"), newKey(t, "ES256", "2027")
	out := signed(t, plainCard, old, next)
	for _, key := range []*card.SigningKey{old, next} {
		result, err := trusting(key).Verify(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		if result.KeyID != key.ID() || result.Algorithm != key.Algorithm() {
			t.Errorf("decided by %s %s, want %s", result.KeyID, result.Algorithm, key.ID())
		}
	}
	// A signature of the card before it changed is bad, and reported.
	stale := signaturesOf(t, signed(t, strings.Replace(plainCard, "Quotes", "Sells", 1), old))
	mixed := withSignatures(t, plainCard, stale[0], signaturesOf(t, out)[1])
	result, err := trusting(old, next).Verify(t.Context(), mixed)
	if err != nil {
		t.Fatal(err)
	}
	want := []card.CheckedSignature{
		{Status: card.StatusBad, KeyID: "2026", Algorithm: "RS256", Source: card.SourceTrusted, Reason: "it is not over this card"},
		{Status: card.StatusGood, KeyID: "2027", Algorithm: "ES256", Source: card.SourceTrusted},
	}
	if diff := cmp.Diff(want, result.Signatures); diff != "" {
		t.Errorf("signatures (-want +got):\n%s", diff)
	}
	if _, err := card.NewSigner([]*card.SigningKey{old, next, newKey(t, "ES256", "")}, ""); err == nil {
		t.Error("three keys are taken")
	}
	if _, err := card.NewSigner([]*card.SigningKey{old, newKey(t, "ES256", "2026")}, ""); err == nil {
		t.Error("two keys of one id are taken")
	}
	if _, err := card.NewSigner(nil, ""); err == nil {
		t.Error("no key is taken")
	}
}

func TestAddTo(t *testing.T) {
	t.Parallel()
	theirs, ours := newKey(t, "EdDSA", "theirs"), newKey(t, "EdDSA", "ours")
	out := signed(t, richCard, theirs)
	signer := newSigner(t, "", ours)
	for range 2 { // a second time replaces ours
		var err error
		if out, err = signer.AddTo(out); err != nil {
			t.Fatal(err)
		}
	}
	result, err := trusting(theirs, ours).Verify(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	want := []card.Status{card.StatusGood, card.StatusPartial, card.StatusGood, card.StatusPartial}
	if diff := cmp.Diff(want, statuses(result)); diff != "" {
		t.Error(diff)
	}
	if replaced, err := signer.Sign(out); err != nil || len(signaturesOf(t, replaced)) != 2 {
		t.Errorf("Sign leaves others: %s, %v", replaced, err)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	signer := newSigner(t, "", newKey(t, "EdDSA", ""))
	replace := func(old, text string) string { return strings.Replace(plainCard, old, text, 1) }
	for _, tt := range []struct{ name, in, want string }{
		{"empty name", replace(`"Quote"`, `""`), "missing: name"},
		{"null name", replace(`"Quote"`, `null`), "missing: name"},
		{"no skills", replace(`[{"id":"q","name":"Q","description":"D","tags":["t"]}]`, `[]`), "missing: skills"},
		{"no tags", replace(`["t"]`, `[]`), "missing: skills[0].tags"},
		{"empty capabilities", replace(`{"streaming":false}`, `{}`), "missing: capabilities"},
		{"no version of an interface", replace(`,"protocolVersion":"1.0"`, ``), "missing: supportedInterfaces[0].protocolVersion"},
		{"several", strings.Replace(replace(`"Quotes prices."`, `""`), `"1.0.0"`, `""`, 1), "missing: description, version"},
		{"scheme", replace(`"skills"`, `"securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header"}}},"skills"`), "missing: securitySchemes.k.apiKeySecurityScheme.name"},
		{"scopes", replace(`"skills"`, `"securitySchemes":{"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://t","scopes":{}}}}}},"skills"`), "flows.clientCredentials.scopes"},
		{"provider", replace(`"skills"`, `"provider":{"url":"https://p"},"skills"`), "missing: provider.organization"},
		{"large integer", replace(`"skills"`, `"x":{"n":[9007199254740993]},"skills"`), "x.n[0]: 9007199254740993 changes"},
		{"too small", replace(`"skills"`, `"x":1e-400,"skills"`), "x: 1e-400 changes"},
		{"many digits", replace(`"skills"`, `"x":0.10000000000000000001,"skills"`), "x: 0.10000000000000000001 changes"},
		{"duplicate", replace(`"skills"`, `"name":"Quote","skills"`), "duplicate"},
		{"wrong type", replace(`"Quote"`, `5`), "no agent card"},
		{"wrong type within", replace(`["t"]`, `[{}]`), "no agent card"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := signer.Sign([]byte(tt.in))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, %v, want an error with %q", out, err, tt.want)
			}
		})
	}
	for _, number := range []string{"1E21", "0.10", "-0.0", "100e-2", "5e-324", "9007199254740992", "1.7976931348623157e308", "0e99999", "1.10e+2"} {
		if _, err := signer.Sign([]byte(replace(`"skills"`, `"x":`+number+`,"skills"`))); err != nil {
			t.Errorf("%s: %v", number, err)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	trusted, foreign := newKey(t, "ES256", "trusted"), newKey(t, "ES256", "foreign")
	tampered := func(key *card.SigningKey) []byte {
		return bytes.Replace(signed(t, plainCard, key), []byte("https://a.example/rpc"), []byte("https://b.example/rpc"), 1)
	}
	const no card.Outcome = card.OutcomeRefused
	for _, tt := range []struct {
		name                    string
		data                    []byte
		ignore, prefer, require card.Outcome
	}{
		{"good", signed(t, plainCard, trusted), card.OutcomeIgnored, card.OutcomeVerified, card.OutcomeVerified},
		{"unsigned", []byte(plainCard), card.OutcomeIgnored, card.OutcomeUnsigned, no},
		{"empty list", withSignatures(t, plainCard), card.OutcomeIgnored, card.OutcomeUnsigned, no},
		{"foreign", signed(t, plainCard, foreign), card.OutcomeIgnored, card.OutcomeUnverified, no},
		{"foreign, tampered", tampered(foreign), card.OutcomeIgnored, card.OutcomeUnverified, no},
		{"tampered", tampered(trusted), card.OutcomeIgnored, no, no},
		{"of another card", withSignatures(t, plainCard, signaturesOf(t, signed(t, richCard, trusted))...), card.OutcomeIgnored, no, no},
		{"foreign and good", signed(t, plainCard, foreign, trusted), card.OutcomeIgnored, card.OutcomeVerified, card.OutcomeVerified},
		{"foreign and tampered", bytes.Replace(signed(t, plainCard, foreign, trusted), []byte("Quotes"), []byte("quotes"), 1), card.OutcomeIgnored, no, no},
		{"duplicate key", bytes.Replace(signed(t, plainCard, trusted), []byte(`"name":"Quote"`), []byte(`"name":"Quote","name":"Quote"`), 1), card.OutcomeIgnored, no, no},
		{"no list", []byte(strings.TrimSuffix(plainCard, "}") + `,"signatures":{}}`), card.OutcomeIgnored, no, no},
		{"too many", withSignatures(t, plainCard, slices.Repeat(signaturesOf(t, signed(t, plainCard, trusted)), 17)...), card.OutcomeIgnored, no, no},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for policy, want := range map[card.Policy]card.Outcome{card.PolicyIgnore: tt.ignore, "": tt.prefer, card.PolicyPrefer: tt.prefer, card.PolicyRequire: tt.require} {
				verifier := trusting(trusted)
				verifier.Policy = policy
				result, err := verifier.Verify(t.Context(), tt.data)
				if e, ok := errors.AsType[*card.SignatureError](err); ok {
					result = e.Verification
				}
				if result.Outcome != want {
					t.Errorf("%s: %s (%v), want %s", policy, result.Outcome, err, want)
				}
			}
		})
	}
}

func jws(t testing.TB, header string, payload []byte, sign func(input []byte) []byte) jsontext.Value {
	t.Helper()
	protected := base64.RawURLEncoding.EncodeToString([]byte(header))
	signature := sign([]byte(protected + "." + base64.RawURLEncoding.EncodeToString(payload)))
	return jsontext.Value(fmt.Sprintf(`{"protected":%q,"signature":%q}`, protected, base64.RawURLEncoding.EncodeToString(signature)))
}

// What is wrong with the signature itself is refused, or is a signature that
// nobody can verify.
func TestRowS19_HostileSignatures(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := card.NewSigningKey(private, "k", "")
	if err != nil {
		t.Fatal(err)
	}
	payload, err := card.CanonicalJSON([]byte(plainCard))
	if err != nil {
		t.Fatal(err)
	}
	es256 := func(input []byte) []byte {
		sum := sha256.Sum256(input)
		r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(input []byte) []byte { // with the public key as the secret
		mac := hmac.New(sha256.New, jwks)
		mac.Write(input)
		return mac.Sum(nil)
	}
	nothing := func([]byte) []byte { return nil }
	pad := func(v jsontext.Value, from, to string) jsontext.Value {
		return jsontext.Value(strings.Replace(string(v), from, to, 1))
	}
	good := jws(t, `{"alg":"ES256","kid":"k","typ":"JOSE"}`, payload, es256)
	for _, tt := range []struct {
		name      string
		signature jsontext.Value
		want      card.Status
	}{
		{"good", good, card.StatusGood},
		{"without typ", jws(t, `{"alg":"ES256","kid":"k"}`, payload, es256), card.StatusGood},
		{"unprotected header", pad(good, `{`, `{"header":{"alg":"none","kid":"other"},`), card.StatusGood},
		{"none", jws(t, `{"alg":"none","kid":"k"}`, payload, nothing), card.StatusBad},
		{"None", jws(t, `{"alg":"nOnE","kid":"k"}`, payload, nothing), card.StatusBad},
		{"none of a foreign key", jws(t, `{"alg":"none","kid":"x"}`, payload, nothing), card.StatusBad},
		{"HS256 with the public key", jws(t, `{"alg":"HS256","kid":"k"}`, payload, hs256), card.StatusBad},
		{"ES384 by the key", jws(t, `{"alg":"ES384","kid":"k"}`, payload, es256), card.StatusBad},
		{"RS256 by the key", jws(t, `{"alg":"RS256","kid":"k"}`, payload, es256), card.StatusBad},
		{"ES384 of a foreign key", jws(t, `{"alg":"ES384","kid":"x"}`, payload, es256), card.StatusUnknown},
		{"crit", jws(t, `{"alg":"ES256","kid":"k","crit":["exp"],"exp":1}`, payload, es256), card.StatusBad},
		{"crit, empty", jws(t, `{"alg":"ES256","kid":"k","crit":[]}`, payload, es256), card.StatusBad},
		{"b64", jws(t, `{"alg":"ES256","kid":"k","crit":["b64"],"b64":false}`, payload, es256), card.StatusBad},
		{"b64 alone", jws(t, `{"alg":"ES256","kid":"k","b64":false}`, payload, es256), card.StatusBad},
		{"no kid", jws(t, `{"alg":"ES256"}`, payload, es256), card.StatusBad},
		{"no alg", jws(t, `{"kid":"k"}`, payload, es256), card.StatusBad},
		{"kid twice", jws(t, `{"alg":"ES256","kid":"x","kid":"k"}`, payload, es256), card.StatusBad},
		{"kid is a number", jws(t, `{"alg":"ES256","kid":1}`, payload, es256), card.StatusBad},
		{"header is a list", jws(t, `[]`, payload, es256), card.StatusBad},
		{"key in the header", jws(t, `{"alg":"ES256","kid":"x","jwk":`+string(jwks)+`}`, payload, es256), card.StatusUnknown},
		{"empty signature", jws(t, `{"alg":"ES256","kid":"k"}`, payload, nothing), card.StatusBad},
		{"zeros", jws(t, `{"alg":"ES256","kid":"k"}`, payload, func([]byte) []byte { return make([]byte, 64) }), card.StatusBad},
		{"ASN.1", jws(t, `{"alg":"ES256","kid":"k"}`, payload, func(in []byte) []byte {
			sum := sha256.Sum256(in)
			out, _ := ecdsa.SignASN1(rand.Reader, private, sum[:])
			return out
		}), card.StatusBad},
		{"padding", pad(good, `"}`, `=="}`), card.StatusBad},
		{"line end", pad(good, `"signature":"`, `"signature":"\n`), card.StatusBad},
		{"dot", pad(good, `"signature":"`, `"signature":".`), card.StatusBad},
		{"no object", jsontext.Value(`"x"`), card.StatusBad},
		{"null", jsontext.Value(`null`), card.StatusBad},
		{"no protected header", jsontext.Value(`{"header":{"alg":"ES256","kid":"k"},"signature":"AA"}`), card.StatusBad},
		{"long header", jws(t, `{"alg":"ES256","kid":"`+strings.Repeat("k", 20_000)+`"}`, payload, es256), card.StatusBad},
		{"long signature", jws(t, `{"alg":"ES256","kid":"k"}`, payload, func([]byte) []byte { return make([]byte, 20_000) }), card.StatusBad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			verifier := trusting(key)
			result, err := verifier.Verify(t.Context(), withSignatures(t, plainCard, tt.signature))
			if e, ok := errors.AsType[*card.SignatureError](err); ok {
				result = e.Verification
			}
			if got := result.Signatures[0]; got.Status != tt.want || (got.Reason == "") != (got.Status == card.StatusGood) {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

func TestKeysOfAJKU(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ES256", "k")
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan string, 100)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path
		switch r.URL.Path {
		case "/jwks.json":
			w.Write(jwks)
		case "/redirect":
			http.Redirect(w, r, "/jwks.json", http.StatusFound)
		case "/large":
			w.Write(append(jwks, make([]byte, 300<<10)...))
		case "/private":
			w.Write([]byte(`{"keys":[{"kty":"oct","k":"AAAA","kid":"k"}]}`))
		case "/other":
			w.Write([]byte(`{"keys":[]}`))
		default:
			http.NotFound(w, r)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	sign := func(jku string) []byte {
		out, err := newSigner(t, jku, key).Sign([]byte(plainCard))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	verifier := &card.Verifier{Policy: card.PolicyRequire, JKUOrigins: []string{"https://keys.example", strings.ToUpper(server.URL[:7]) + server.URL[7:]}, HTTPClient: server.Client()}
	result, err := verifier.Verify(t.Context(), sign(server.URL+"/jwks.json"))
	if err != nil {
		t.Fatal(err)
	}
	if result.Source != server.URL || result.KeyID != "k" {
		t.Errorf("result %+v", result)
	}
	<-requests
	for path, want := range map[string]string{"/redirect": "status 302", "/large": "more than", "/private": "symmetric", "/other": "none of that id", "/missing": "status 404"} {
		found, reason := refused(t, verifier, sign(server.URL+path))
		if !strings.Contains(reason, want) || found.Signatures[0].Status != card.StatusUnknown {
			t.Errorf("%s: %s, want %s", path, reason, want)
		}
		<-requests
	}
	// Nobody is asked whose origin is not allowed, nor twice for one card.
	closed := &card.Verifier{Policy: card.PolicyRequire, JKUOrigins: []string{"https://keys.example"}, HTTPClient: server.Client()}
	if _, reason := refused(t, closed, sign(server.URL+"/jwks.json")); !strings.Contains(reason, "not allowed") {
		t.Errorf("reason %q", reason)
	}
	without := &card.Verifier{Policy: card.PolicyRequire, JKUOrigins: []string{server.URL}}
	refused(t, without, sign(server.URL+"/jwks.json"))
	trusted := trusting(key)
	trusted.JKUOrigins, trusted.HTTPClient = verifier.JKUOrigins, server.Client()
	if _, err := trusted.Verify(t.Context(), sign(server.URL+"/jwks.json")); err != nil {
		t.Error(err)
	}
	// A trusted key of the same id is another signer's.
	trusted.Trusted = &card.TrustStore{}
	trusted.Trusted.Add(newKey(t, "ES256", "k").Public())
	if result, err := trusted.Verify(t.Context(), sign(server.URL+"/jwks.json")); err != nil || result.Source != server.URL {
		t.Errorf("%+v, %v", result, err)
	}
	<-requests
	if found, _ := refused(t, trusted, sign(server.URL+"/other")); found.Signatures[0].Status != card.StatusBad || found.Signatures[0].Source != card.SourceTrusted {
		t.Errorf("signatures %+v", found.Signatures)
	}
	<-requests
	twice := slices.Repeat(signaturesOf(t, sign(server.URL+"/other")), 5)
	refused(t, verifier, withSignatures(t, plainCard, twice...))
	if path := <-requests; path != "/other" || len(requests) > 0 {
		t.Errorf("asked for %s and %d more", path, len(requests))
	}
	var many []jsontext.Value
	for i := range 10 {
		many = append(many, signaturesOf(t, sign(fmt.Sprintf("%s/other?%d", server.URL, i)))...)
	}
	refused(t, verifier, withSignatures(t, plainCard, many...))
	if len(requests) != 4 {
		t.Errorf("asked %d times for one card", len(requests))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verifier.Verify(ctx, sign(server.URL+"/jwks.json")); err == nil {
		t.Error("it goes on after the end")
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://Keys.example":         "https://keys.example",
		"https://keys.example:443/":    "https://keys.example",
		"https://keys.example:8443":    "https://keys.example:8443",
		"http://localhost:80":          "http://localhost",
		"http://[::1]:8080":            "http://[::1]:8080",
		"http://keys.example":          "",
		"https://user@keys.example":    "",
		"https://keys.example/path":    "",
		"https://keys.example?x":       "",
		"keys.example":                 "",
		"ftp://keys.example":           "",
		"https://":                     "",
		"https:keys.example":           "",
		"http://127.0.0.1.example.com": "",
	} {
		got, err := card.ParseOrigin(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, jku := range []string{"http://keys.example/jwks.json", "keys.json", "https://u:p@keys.example/", "file:///etc/passwd"} {
		if _, err := card.NewSigner([]*card.SigningKey{newKey(t, "EdDSA", "")}, jku); err == nil {
			t.Errorf("jku %s is taken", jku)
		}
	}
}

// Whatever value of a signed card is changed, the signature does not hold.
func TestEveryValueIsCovered(t *testing.T) {
	t.Parallel()
	key := newKey(t, "EdDSA", "k")
	for _, text := range []string{plainCard, richCard} {
		out := signed(t, text, key)
		changed := 0
		for _, other := range mutations(t, []byte(text)) {
			mutated := withSignatures(t, string(other), signaturesOf(t, out)...)
			if _, err := trusting(key).Verify(t.Context(), mutated); err == nil {
				t.Errorf("it holds for %s", other)
			}
			changed++
		}
		if changed < 50 {
			t.Errorf("only %d changes", changed)
		}
		// Nor does another signature.
		for i, s := range signaturesOf(t, out)[:1] {
			for at := range s {
				flipped := slices.Clone(s)
				flipped[at] ^= 1
				if !flipped.IsValid() {
					continue
				}
				if _, err := trusting(key).Verify(t.Context(), withSignatures(t, text, flipped)); err == nil {
					t.Errorf("signature %d: it holds with byte %d changed: %s", i, at, flipped)
				}
			}
		}
	}
}

// mutations returns a card with each byte of each of its keys and values
// changed, one at a time, where it is still JSON that says something else.
func mutations(t testing.TB, text []byte) [][]byte {
	t.Helper()
	var before any
	if err := json.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for i := range text {
		for _, bit := range []byte{1, 16} {
			other := slices.Clone(text)
			other[i] ^= bit
			var value any
			if json.Unmarshal(other, &value) == nil && !reflect.DeepEqual(before, value) {
				list = append(list, other)
			}
		}
	}
	for _, pair := range [][2]string{{"true", "false"}, {"false", "true"}, {`"K"`, `""`}, {`"t"]`, `"t","u"]`}} {
		if other := bytes.Replace(text, []byte(pair[0]), []byte(pair[1]), 1); !bytes.Equal(other, text) {
			list = append(list, other)
		}
	}
	return list
}

// FuzzVerify is best run with -fuzzminimizetime 5x: inputs are long.
func FuzzVerify(f *testing.F) {
	key := newKey(f, "ES256", "k")
	jwks, err := card.JWKS(key.Public())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed(f, plainCard, key), jwks)
	f.Add(signed(f, richCard, key), jwks)
	f.Add([]byte(plainCard), []byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":""},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, data, set []byte) {
		keys, err := card.ParseJWKS(set)
		if err != nil {
			keys = []card.PublicKey{key.Public()}
		}
		for _, partial := range []bool{false, true} {
			v := &card.Verifier{Policy: card.PolicyRequire, Trusted: &card.TrustStore{}, Partial: partial}
			v.Trusted.Add(keys...)
			result, err := v.Verify(t.Context(), data)
			if err != nil {
				continue
			}
			// Verify takes what is signed, and so does signing.
			if _, err := card.CanonicalJSON(result.Covered); err != nil {
				t.Errorf("verified, and not canonical: %v", err)
			}
		}
		_, _ = newSigner(t, "", key).Sign(data)
		_, _ = card.ParsePublicPEM(data, time.Now())
	})
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is to be refused
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key           crypto.Signer
		id, alg, want string
	}{
		{small, "", "", "1024 bits"},
		{p384, "", "", "P-384"},
		{ed, "", "ES256", "for EdDSA"},
		{ed, "", "HS256", "not ES256, EdDSA, RS256"},
		{ed, "", "none", "not ES256, EdDSA, RS256"},
		{ed, "a\nb", "", "printable"},
		{ed, strings.Repeat("x", 300), "", "at most 200"},
		{nil, "", "", "no private key"},
	} {
		if _, err := card.NewSigningKey(tt.key, tt.id, tt.alg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%T %s: %v, want %s", tt.key, tt.alg, err, tt.want)
		}
	}
	if _, err := card.GenerateSigningKey("HS256"); err == nil {
		t.Error("a key for HS256 is made")
	}
}

// The official SDKs for JavaScript (1.3.0) and Python (1.3.0) have signed these
// cards; interop/cards does it anew.
func TestCardsThatTheSDKsSigned(t *testing.T) {
	t.Parallel()
	store := &card.TrustStore{}
	if err := store.Load("testdata/sdk-jwks.json", time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"js", "python"} {
		data, err := os.ReadFile("testdata/sdk-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		verifier := &card.Verifier{Policy: card.PolicyRequire, Trusted: store}
		result, err := verifier.Verify(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]card.Status{card.StatusGood, card.StatusGood, card.StatusGood}, statuses(result)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		refused(t, verifier, bytes.Replace(data, []byte(`"version": "1.0.0"`), []byte(`"version": "1.0.1"`), 1))
	}
}
