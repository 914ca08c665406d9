package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// How long the keys of an issuer are good.
const (
	keysAge       = 10 * time.Minute // without a max-age of the issuer
	minKeysAge    = time.Minute
	maxKeysAge    = 24 * time.Hour
	keysStale     = 24 * time.Hour   // how long they serve beyond that, while the issuer is away
	unknownKey    = 30 * time.Second // how often an unknown key may make us look again
	firstRetry    = 2 * time.Second  // after a failure, doubled with each
	lastRetry     = 2 * time.Minute
	discoveryAge  = time.Hour
	fetchTimeout  = 10 * time.Second
	maxFetched    = 1 << 20 // bytes
	maxIssuerKeys = 100
	minRSA        = 2048 // bits
)

// errIssuerAway says that the keys of an issuer are not at hand and cannot be
// fetched now.
var errIssuerAway = errors.New("the keys of the issuer cannot be fetched")

// keySet are the keys of an issuer, fetched when they are needed. It is safe for
// concurrent use.
type keySet struct {
	issuer string
	fixed  string // the URL of the keys; "": found by discovery
	client *http.Client
	now    func() time.Time

	fetching chan struct{} // held by who fetches

	mu         sync.Mutex
	keys       []jose.JSONWebKey
	fresh      time.Time // until then they are good
	stale      time.Time // until then they are better than none
	retry      time.Time // not before, after a failure
	wait       time.Duration
	looked     time.Time // when an unknown key last made us look
	failed     error     // of the last fetch
	url        string    // found by discovery
	discovered time.Time
}

func newKeySet(issuer, fixed string, client *http.Client) *keySet {
	return &keySet{issuer: issuer, fixed: fixed, client: client, now: time.Now, fetching: make(chan struct{}, 1)}
}

// find returns the keys that may have made a signature: those with that id, or
// all when a token names none. It returns none for an id that the issuer does
// not have.
func (s *keySet) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]jose.JSONWebKey, error) {
	if err := s.refresh(ctx, false); err != nil {
		return nil, err
	}
	if keys := s.matching(id, algorithm); len(keys) > 0 {
		return keys, nil
	}
	// The issuer may have a new key. Whoever makes ids up must not make us ask it
	// for each.
	s.mu.Lock()
	now := s.now()
	look := now.Sub(s.looked) >= unknownKey
	if look {
		s.looked = now
	}
	s.mu.Unlock()
	if look {
		// What is at hand stays good when this fails.
		if err := s.refresh(ctx, true); err != nil && !errors.Is(err, errIssuerAway) {
			return nil, err
		}
	}
	return s.matching(id, algorithm), nil
}

func (s *keySet) matching(id string, algorithm jose.SignatureAlgorithm) []jose.JSONWebKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []jose.JSONWebKey
	for _, k := range s.keys {
		if (id == "" || k.KeyID == id) && fits(&k, algorithm) {
			found = append(found, k)
		}
	}
	return found
}

// fits reports whether a key can have made a signature of an algorithm. A key
// that names an algorithm is for that one alone (RFC 7517 §4.4).
func fits(k *jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if k.Algorithm != "" && k.Algorithm != string(algorithm) {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(algorithm), "RS") || strings.HasPrefix(string(algorithm), "PS")
	case *ecdsa.PublicKey:
		// The curve belongs to the algorithm (RFC 7518 §3.4).
		return string(algorithm) == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	}
	return false
}

// refresh fetches the keys when they are not good any more, or in any case when
// forced. While the issuer is away the old ones serve, for a time.
func (s *keySet) refresh(ctx context.Context, forced bool) error {
	s.mu.Lock()
	now := s.now()
	fresh, usable, wait := now.Before(s.fresh), now.Before(s.stale), now.Before(s.retry)
	last := s.failed
	s.mu.Unlock()
	switch {
	case fresh && !forced:
		return nil
	case wait && usable:
		return nil
	case wait:
		return fmt.Errorf("%w: %w", errIssuerAway, last)
	}
	before := s.version()
	select {
	case s.fetching <- struct{}{}:
	default:
		if usable && !forced {
			return nil // somebody fetches them
		}
		select {
		case s.fetching <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-s.fetching }()
	if s.version() != before {
		return s.refresh(ctx, false) // somebody has fetched them meanwhile
	}
	// The keys are for everybody, and not for this request alone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, age, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.now()
	s.failed = err
	if err != nil {
		s.wait = min(max(2*s.wait, firstRetry), lastRetry)
		s.retry = now.Add(s.wait)
		if now.Before(s.stale) {
			return nil
		}
		s.keys = nil
		return fmt.Errorf("%w: %w", errIssuerAway, err)
	}
	s.keys, s.wait, s.retry = keys, 0, time.Time{}
	s.fresh = now.Add(age)
	s.stale = s.fresh.Add(keysStale)
	return nil
}

// version tells whether the keys were fetched, or not, since.
func (s *keySet) version() [2]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]time.Time{s.fresh, s.retry}
}

// fetch gets the keys, and for how long they are good.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	from, err := s.keysURL(ctx)
	if err != nil {
		return nil, 0, err
	}
	body, header, err := s.get(ctx, from)
	if err != nil {
		s.mu.Lock()
		s.discovered = time.Time{} // they may have moved
		s.mu.Unlock()
		return nil, 0, fmt.Errorf("fetch keys: %w", err)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return nil, 0, fmt.Errorf("read keys of %s: %w", s.issuer, err)
	}
	return keys, ageOf(header), nil
}

// keysURL returns where the keys are.
func (s *keySet) keysURL(ctx context.Context) (string, error) {
	if s.fixed != "" {
		return s.fixed, nil
	}
	s.mu.Lock()
	known, at := s.url, s.discovered
	s.mu.Unlock()
	if known != "" && s.now().Sub(at) < discoveryAge {
		return known, nil
	}
	body, _, err := s.get(ctx, DiscoveryURL(s.issuer))
	if err != nil {
		return "", fmt.Errorf("discover issuer: %w", err)
	}
	var metadata struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &metadata); err != nil {
		return "", fmt.Errorf("discover issuer: the answer is not JSON: %w", err)
	}
	if metadata.Issuer != s.issuer {
		return "", fmt.Errorf("discover issuer: it calls itself %.200q and not %q", metadata.Issuer, s.issuer)
	}
	u, err := url.Parse(metadata.JWKSURI)
	own, _ := url.Parse(s.issuer) // the configuration has checked it
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || own.Scheme != "http") {
		return "", errors.New("discover issuer: jwks_uri is not an https URL")
	}
	s.mu.Lock()
	s.url, s.discovered = metadata.JWKSURI, s.now()
	s.mu.Unlock()
	return metadata.JWKSURI, nil
}

// DiscoveryURL returns where an issuer describes itself (OpenID Connect
// Discovery 1.0 §4).
func DiscoveryURL(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

// get reads a document of the issuer's.
func (s *keySet) get(ctx context.Context, from string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	response, err := s.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answers with the status %d", r.URL.Redacted(), response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxFetched+1))
	if err != nil {
		return nil, nil, err
	}
	if len(body) > maxFetched {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", r.URL.Redacted(), maxFetched)
	}
	return body, response.Header, nil
}

// parseKeys returns the keys of a set that signatures can be verified with.
// Others, such as those of a kind that we do not know, are passed over (RFC 7517
// §5).
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("they are no set of keys: %w", err)
	}
	if len(set.Keys) > maxIssuerKeys {
		return nil, fmt.Errorf("there are more than %d", maxIssuerKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var use struct {
			Operations []string `json:"key_ops"`
		}
		var k jose.JSONWebKey
		if json.Unmarshal(text, &use) != nil || k.UnmarshalJSON(text) != nil || !verifies(&k, use.Operations) {
			continue
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is none that signatures can be verified with")
	}
	return keys, nil
}

// verifies reports whether signatures may be verified with a key. One that is
// secret is none: everybody can read it here, and sign with it.
func verifies(k *jose.JSONWebKey, operations []string) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if key, ok := k.Key.(*rsa.PublicKey); ok && key.N.BitLen() < minRSA {
		return false
	}
	for _, operation := range operations {
		if operation == "verify" {
			return true
		}
	}
	return len(operations) == 0
}

// ageOf returns for how long an answer is good (RFC 9111 §5.2.2).
func ageOf(header http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return minKeysAge
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err == nil {
				return min(max(time.Duration(seconds)*time.Second, minKeysAge), maxKeysAge)
			}
		}
	}
	return keysAge
}
