package card

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/internal/netguard"
)

// Policy says what is done with the signatures of another agent's card.
type Policy string

// Policies.
const (
	// PolicyIgnore does not look at signatures.
	PolicyIgnore Policy = "ignore"
	// PolicyPrefer verifies what can be verified: a card without a signature of
	// a key that is known passes, a wrong signature does not.
	PolicyPrefer Policy = "prefer"
	// PolicyRequire takes no card without a good signature of a trusted key.
	PolicyRequire Policy = "require"
)

// Policies are all policies.
var Policies = []Policy{PolicyIgnore, PolicyPrefer, PolicyRequire}

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	if !slices.Contains(Policies, Policy(name)) {
		return "", fmt.Errorf("policy %q is not ignore, prefer or require", shorten(name))
	}
	return Policy(name), nil
}

// Bounds of keys that are fetched.
const (
	maxFetched   = 4 // JWKS per card
	fetchTimeout = 10 * time.Second
)

// ParseOrigin returns an origin, such as https://keys.example.com, in the form
// that origins are compared in. It is one of https; http is for loopback.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	if err == nil && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		err = errors.New("it has more than a scheme, a host and a port")
	}
	if err == nil {
		err = checkKeyURL(u)
	}
	if err != nil {
		return "", fmt.Errorf("origin %q: %w", shorten(text), err)
	}
	return originOf(u), nil
}

func checkKeyURL(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("it does not begin with https://")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("it has no host")
	case u.User != nil:
		return errors.New("it holds credentials")
	case u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()):
		return errors.New("keys come over https")
	}
	return nil
}

func originOf(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := u.Port()
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return u.Scheme + "://" + host
	}
	return u.Scheme + "://" + host + ":" + port
}

// keySource finds the keys of one card's signatures.
type keySource struct {
	verifier *Verifier
	fetched  map[string]fetchedKeys
}

type fetchedKeys struct {
	store *TrustStore
	err   error
}

// named returns the keys of the jku of a signature and where they are from, or
// why there are none.
func (s *keySource) named(ctx context.Context, h header) (keys []PublicKey, source, reason string) {
	if h.JKU == "" {
		return nil, "", "the key is not trusted"
	}
	u, err := url.Parse(h.JKU)
	if err == nil {
		err = checkKeyURL(u)
	}
	switch {
	case err != nil:
		return nil, "", "the key is not trusted, and its jku is none to fetch"
	case !s.verifier.allows(originOf(u)):
		return nil, "", "the key is not trusted, and keys of " + originOf(u) + " are not allowed"
	}
	result, known := s.fetched[h.JKU]
	if !known {
		if len(s.fetched) >= maxFetched {
			return nil, "", "the signatures name too many key sets"
		}
		result.store, result.err = s.verifier.fetch(ctx, u)
		s.fetched[h.JKU] = result
	}
	if result.err != nil {
		return nil, "", result.err.Error()
	}
	if keys := result.store.find(h.KeyID); len(keys) > 0 {
		return keys, originOf(u), ""
	}
	return nil, "", "the keys of " + originOf(u) + " have none of that id"
}

func (v *Verifier) allows(origin string) bool {
	return slices.ContainsFunc(v.JKUOrigins, func(text string) bool {
		allowed, err := ParseOrigin(text)
		return err == nil && allowed == origin
	})
}

// fetch gets a JWKS. Redirects are not followed: the origin is what was allowed.
func (v *Verifier) fetch(ctx context.Context, u *url.URL) (*TrustStore, error) {
	if v.HTTPClient == nil {
		return nil, errors.New("keys are not fetched here")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client := *v.HTTPClient
	client.Jar = nil
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of %s: %w", originOf(u), err)
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of %s: %w", originOf(u), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch keys of %s: status %d", originOf(u), response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("fetch keys of %s: %w", originOf(u), err)
	}
	keys, err := ParseJWKS(data)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of %s: %w", originOf(u), err)
	}
	store := &TrustStore{}
	store.Add(keys...)
	return store, nil
}
