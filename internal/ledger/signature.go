package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/store"
)

const (
	pushAge     = 5 * time.Minute // of a signed push
	clockSkew   = time.Minute
	keysAge     = 10 * time.Minute
	unknownKeys = 30 * time.Second // between two looks for a key that is not there
	maxKeysBody = 1 << 20
	maxKeySets  = 1000
	maxPeerKeys = 100
)

// pushAlgorithms are those that a push may be signed with.
var pushAlgorithms = []jose.SignatureAlgorithm{
	jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
}

func isJWT(text string) bool { return strings.Count(text, ".") == 2 }

// pushClaims are what a signed push says of itself.
type pushClaims struct {
	Audience jsontext.Value `json:"aud"`
	Issued   float64        `json:"iat"`
	Expires  float64        `json:"exp"`
	ID       string         `json:"jti"`
	Task     string         `json:"taskId"`
	Digest   string         `json:"request_body_sha256"`
}

// once names what of a signed push is taken only once: its id, or where the sender
// gives none, the body at the moment of its signature.
func (c *pushClaims) once(peer string) string {
	if c.ID != "" {
		return "jti " + peer + " " + c.ID
	}
	return fmt.Sprintf("body %s %s %.3f", peer, strings.ToLower(c.Digest), c.Issued)
}

// verify checks the signature of a push whose peer signs (A2A §13.2). A push
// without one is taken by its secrets.
func (l *Ledger) verify(ctx context.Context, r *http.Request, d *store.Delegation, body []byte) error {
	text := r.Header.Get(headerJWT)
	if text == "" {
		if text = bearer(r); !isJWT(text) {
			return nil
		}
	}
	if l.opts.Keys == nil {
		return nil
	}
	wrong := func(why string) error {
		return &refusal{status: http.StatusUnauthorized, text: "The signature of the push is not valid: " + why}
	}
	token, err := jose.ParseSignedCompact(text, pushAlgorithms)
	if err != nil || len(token.Signatures) != 1 {
		return wrong("it is no JWT with an algorithm that is taken here")
	}
	payload, err := l.checkedPayload(ctx, d, token)
	if err != nil {
		if no, ok := errors.AsType[*untrustedError](err); ok {
			return wrong(no.why)
		}
		return err
	}
	var c pushClaims
	if json.Unmarshal(payload, &c, jsontext.AllowDuplicateNames(true)) != nil {
		return wrong("its claims cannot be read")
	}
	now := time.Now()
	issued := time.Unix(int64(c.Issued), 0)
	sum := sha256.Sum256(body)
	switch {
	case c.Issued == 0 || now.Sub(issued) > pushAge || issued.Sub(now) > clockSkew:
		return wrong("iat is not of the last five minutes")
	case c.Expires != 0 && now.Sub(time.Unix(int64(c.Expires), 0)) > clockSkew:
		return wrong("it has expired")
	case len(c.ID) > maxElement || c.ID == "" && c.Digest == "":
		return wrong("it has neither a jti nor the digest of the body")
	case c.Task != "" && d.RemoteTask != "" && c.Task != d.RemoteTask:
		return wrong("it is for another task")
	case c.Digest != "" && !strings.EqualFold(c.Digest, hex.EncodeToString(sum[:])):
		return wrong("it is for another body")
	case !forUs(c.Audience, l.opts.BaseURL()):
		return wrong("it is for another receiver")
	case !l.seen.add(c.once(d.Peer), pushAge+2*clockSkew):
		return &refusal{status: http.StatusConflict, text: "The push was taken already: its signature has been used"}
	}
	return nil
}

// forUs reports whether an audience names the receiver, or nobody.
func forUs(audience jsontext.Value, base string) bool {
	var list []string
	var one string
	switch audience.Kind() {
	case '"':
		if json.Unmarshal(audience, &one) != nil {
			return false
		}
		list = []string{one}
	case '[':
		if json.Unmarshal(audience, &list) != nil {
			return false
		}
	default:
		return true
	}
	for _, a := range list {
		if originOf(a) != "" && originOf(a) == originOf(base) {
			return true
		}
	}
	return false
}

// originOf returns the scheme, host and port of a URL, "" when it has none.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return ""
	}
	return u.Scheme + "://" + host
}

// untrustedError says that a signature is not one of the peer's.
type untrustedError struct{ why string }

func (e *untrustedError) Error() string { return e.why }

// checkedPayload returns what a signature of the peer covers.
func (l *Ledger) checkedPayload(ctx context.Context, d *store.Delegation, token *jose.JSONWebSignature) ([]byte, error) {
	link, err := l.open(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("find keys of peer: %w", err)
	}
	origins := link.Keys
	if len(origins) == 0 {
		origins = []string{originOf(link.Client.Interface().URL)}
	}
	header := token.Signatures[0].Header
	from, _ := header.ExtraHeaders["jku"].(string)
	if from == "" {
		from = originOf(origins[0]) + "/.well-known/jwks.json"
	}
	allowed := false
	for _, o := range origins {
		allowed = allowed || o != "" && originOf(o) == originOf(from)
	}
	if !allowed {
		return nil, &untrustedError{"its keys are not at the peer's origin"}
	}
	keys, err := l.keys.find(ctx, from, header.KeyID)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if keys[i].Algorithm != "" && keys[i].Algorithm != header.Algorithm {
			continue
		}
		if payload, err := token.Verify(keys[i]); err == nil {
			return payload, nil
		}
	}
	return nil, &untrustedError{"no key of the peer has made it"}
}

// keyring fetches and keeps the keys that peers sign with.
type keyring struct {
	client *http.Client
	mu     sync.Mutex
	sets   map[string]*peerKeys
}

type peerKeys struct {
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time
}

func newKeyring(client *http.Client) *keyring {
	return &keyring{client: client, sets: map[string]*peerKeys{}}
}

// find returns the keys at a URL, or those of an id. Keys that are old, or that
// lack the id, are fetched again.
func (k *keyring) find(ctx context.Context, from, id string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	set := k.sets[from]
	if set == nil {
		if len(k.sets) >= maxKeySets {
			clear(k.sets)
		}
		set = &peerKeys{}
		k.sets[from] = set
	}
	k.mu.Unlock()
	set.mu.Lock()
	defer set.mu.Unlock()
	found := set.matching(id)
	age := time.Since(set.fetched)
	if age < keysAge && (len(found) > 0 || age < unknownKeys) {
		return found, nil
	}
	keys, err := k.fetch(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of peer: %w", err)
	}
	set.keys, set.fetched = keys, time.Now()
	return set.matching(id), nil
}

func (s *peerKeys) matching(id string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for i := range s.keys {
		if id == "" || s.keys[i].KeyID == id {
			found = append(found, s.keys[i])
		}
	}
	return found
}

func (k *keyring) fetch(ctx context.Context, from string) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	response, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status is %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeysBody+1))
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if len(body) > maxKeysBody {
		return nil, errors.New("they are too large")
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys[:min(len(set.Keys), maxPeerKeys)] {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.Valid() && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
