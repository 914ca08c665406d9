package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/oauth"
)

const (
	// metadataAge is how long what an authorization server says of itself is used
	// before it is asked again.
	metadataAge = time.Hour
	// metadataGrace is how long what it said before is used when it does not answer,
	// or answers with nonsense, before it is asked again.
	metadataGrace = time.Minute
)

// discovered is what an authorization server said of itself last.
type discovered struct {
	mu     sync.Mutex
	place  string // issuer or URL
	server *oauth.Server
	until  time.Time
}

// get returns what there is of a place, or asks. Where there is no answer what was
// said before is still used: tokens have to be refreshed.
func (f *discovered) get(place string, now time.Time, ask func() (*oauth.Server, error)) (*oauth.Server, error) {
	f.mu.Lock()
	known, until := f.server, f.until
	if f.place != place {
		known = nil
	}
	f.mu.Unlock()
	if known != nil && now.Before(until) {
		return known, nil
	}
	s, err := ask()
	age := metadataAge
	if err != nil {
		if known == nil {
			return nil, err
		}
		s, age = known, metadataGrace
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.place, f.server, f.until = place, s, now.Add(age)
	return s, nil
}

// client returns the client at the authorization server that a credential is from.
func (t *tokens) client(ctx context.Context, c chosen) (*oauth.Client, error) {
	s, err := t.server(ctx, c)
	if err != nil {
		return nil, err
	}
	return t.at(*s), nil
}

// at returns the client at an authorization server.
func (t *tokens) at(s oauth.Server) *oauth.Client {
	o := t.entry.config.Auth.OAuth2
	return &oauth.Client{
		ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Auth: oauth.ClientAuth(o.ClientAuth), Server: s,
		HTTP: t.wayTo(s.TokenURL), Now: t.directory.now,
	}
}

// server returns the authorization server. What the configuration says goes before
// all else: the addresses, then the issuer, whose own word is taken for the rest.
// What the card says, by itself or by the metadata that it names, counts only at
// origins of the peer: another could have the node send its secret there.
func (t *tokens) server(ctx context.Context, c chosen) (*oauth.Server, error) {
	o := t.entry.config.Auth.OAuth2
	s := &oauth.Server{TokenURL: o.TokenURL, AuthorizationURL: o.AuthorizationURL}
	people := o.Flow == config.PeerFlowAuthorizationCode
	if o.Issuer != "" {
		said, err := t.found.get(o.Issuer, t.directory.now(), func() (*oauth.Server, error) {
			return oauth.Discover(ctx, t.wayTo(o.Issuer), o.Issuer)
		})
		if err != nil {
			return nil, err
		}
		return t.complete(s, *said, people)
	}
	named := flowOf(c.scheme.OAuth2, people)
	missing := s.TokenURL == "" && named.TokenURL == "" || people && s.AuthorizationURL == "" && named.AuthorizationURL == ""
	if place := metadataOf(c.scheme); missing && place != "" {
		if err := t.entry.trusted(place, "issuer"); err != nil {
			return nil, err
		}
		said, err := t.found.get(place, t.directory.now(), func() (*oauth.Server, error) {
			return oauth.DiscoverAt(ctx, t.wayTo(place), place)
		})
		if err != nil {
			return nil, err
		}
		named = *said
	}
	if s.TokenURL == "" {
		if err := t.entry.trusted(named.TokenURL, "token_url"); err != nil {
			return nil, err
		}
	}
	if people && s.AuthorizationURL == "" {
		if err := t.entry.trusted(named.AuthorizationURL, "authorization_url"); err != nil {
			return nil, err
		}
	}
	return t.complete(s, named, people)
}

// complete adds what the configuration does not say of a server.
func (t *tokens) complete(s *oauth.Server, said oauth.Server, people bool) (*oauth.Server, error) {
	if s.TokenURL != "" {
		said.TokenURL = s.TokenURL
	}
	if s.AuthorizationURL != "" {
		said.AuthorizationURL = s.AuthorizationURL
	}
	switch {
	case said.TokenURL == "":
		return nil, &oauth.MetadataError{Place: said.Issuer, Err: errors.New("it names no token_endpoint")}
	case people && said.AuthorizationURL == "":
		return nil, &oauth.MetadataError{Place: said.Issuer, Err: errors.New("it names no authorization_endpoint")}
	}
	return &said, nil
}

// flowOf returns the addresses of a flow in a card.
func flowOf(s *a2a.OAuth2SecurityScheme, people bool) (named oauth.Server) {
	switch {
	case s == nil:
	case people && s.Flows.AuthorizationCode != nil:
		named.TokenURL, named.AuthorizationURL = s.Flows.AuthorizationCode.TokenURL, s.Flows.AuthorizationCode.AuthorizationURL
	case !people && s.Flows.ClientCredentials != nil:
		named.TokenURL = s.Flows.ClientCredentials.TokenURL
	}
	return named
}

// metadataOf returns the URL of the metadata that a scheme names, or "" (A2A
// §4.5.4, §4.5.5).
func metadataOf(s a2a.SecurityScheme) string {
	switch {
	case s.OAuth2 != nil:
		return s.OAuth2.OAuth2MetadataURL
	case s.OpenIDConnect != nil:
		return s.OpenIDConnect.OpenIDConnectURL
	}
	return ""
}

// trusted refuses an address of an authorization server that the card names, unless
// it is at an origin of the peer. The key is the one that would do instead.
func (e *entry) trusted(named, key string) error {
	refuse := func(format string, args ...any) error {
		return &FieldError{"auth.oauth2." + key, fmt.Errorf("set peers.%s.auth.oauth2.%s: "+format, append([]any{e.name, key}, args...)...)}
	}
	if named == "" {
		return refuse("the card does not say where tokens come from")
	}
	if err := oauth.CheckURL(named); err != nil {
		return refuse("the address for tokens in the card %w", err)
	}
	if u, err := url.Parse(named); err != nil || !e.way.owns(u) {
		return refuse("the card has tokens come from %s: origin not allowed, unless it is listed in origins", Clean(originOf(named), maxName, false))
	}
	return nil
}

// wayTo returns the way to an address of an authorization server: that of the peer
// where it is at one of the peer's origins; where the operator has named the origin,
// one that may be private; and else, for what an issuer has named, one that must be
// public.
func (t *tokens) wayTo(address string) *http.Client {
	u, err := url.Parse(address)
	if err != nil {
		return t.directory.named // and its address is refused
	}
	if t.entry.way.owns(u) {
		return t.entry.http
	}
	o := t.entry.config.Auth.OAuth2
	for _, own := range []string{o.TokenURL, o.AuthorizationURL, o.Issuer} {
		if v, err := url.Parse(own); own != "" && err == nil && netguard.SameOrigin(u, v) {
			return t.directory.auth
		}
	}
	return t.directory.named
}
