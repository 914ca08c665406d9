// Package oauth is the client of OAuth 2.0 authorization servers: it finds out what
// a server offers (RFC 8414, OpenID Connect Discovery), gets tokens by client
// credentials (RFC 6749 §4.4), by authorization code with PKCE (§4.1, RFC 7636) and
// by refresh (§6), for one resource (RFC 8707), and checks who answers (RFC 9207).
//
// It keeps nothing. Whoever uses it stores the tokens and the logins under way, and
// says by the HTTP client which addresses may be reached. Answers are bounded, and
// no redirect is followed: a secret goes to the address that was asked for.
package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"handoff.example/handoff/internal/netguard"
)

const (
	answerTime  = 30 * time.Second // of an authorization server
	maxAnswer   = 256 << 10        // bytes of its answer
	maxToken    = 32 << 10         // bytes of a token
	maxCode     = 4 << 10          // bytes of an authorization code
	maxAddress  = 2 << 10          // bytes of a URL that a server names
	maxList     = 200              // entries of a list in metadata
	maxErrorLen = 500              // bytes of a text of the server's in an error
)

// Server is an authorization server: what it says of itself, or what the
// configuration says of it. A field that is not known is empty.
type Server struct {
	Issuer           string   // its identifier, exactly as it writes it
	AuthorizationURL string   // where people log in
	TokenURL         string   // where tokens are
	RegistrationURL  string   // where clients register themselves (RFC 7591)
	Scopes           []string // scopes_supported
	GrantTypes       []string // grant_types_supported
	ClientAuth       []string // token_endpoint_auth_methods_supported
	Challenges       []string // code_challenge_methods_supported
	// NamesIssuer: it puts its identifier into authorization responses (RFC 9207 §3).
	NamesIssuer bool
	// ClientDocuments: it takes the URL of a client's metadata document for the id of
	// the client.
	ClientDocuments bool
}

// PKCE reports whether the server says that it takes challenges of the method S256,
// and whether it says anything of challenges at all (RFC 8414 §2). MCP refuses a
// server that says nothing (AUT-16); many OpenID providers that take them do not
// say so.
func (s *Server) PKCE() (s256, said bool) {
	for _, method := range s.Challenges {
		if method == "S256" {
			return true, true
		}
	}
	return false, len(s.Challenges) > 0
}

// ClientAuth is how a client authenticates at the token endpoint (RFC 6749 §2.3.1).
type ClientAuth string

// How a client can authenticate.
const (
	// AuthAny is in the header, unless the server says that it takes a form only. A
	// client without a secret names itself in the form.
	AuthAny   ClientAuth = ""
	AuthBasic ClientAuth = "basic" // in the header, by HTTP Basic
	AuthBody  ClientAuth = "body"  // in the form
)

// Client is a client at an authorization server. It may be used by many at once,
// and is made anew where its parts change.
type Client struct {
	ID     string
	Secret string // "": a public client
	Auth   ClientAuth
	Server Server
	// HTTP is the way to the server. It should be one of netguard's.
	HTTP *http.Client
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Access says what a token is to be for. An empty field is not sent.
type Access struct {
	Scopes   []string
	Audience string // of servers that ask for it; no part of a standard
	Resource string // URI of what the token is shown to (RFC 8707)
}

// TokenError is an error of a token endpoint (RFC 6749 §5.2), or an answer of it
// that is of no use.
type TokenError struct {
	Endpoint string // its origin
	Status   int    // of HTTP
	Code     string // such as invalid_grant; "" when the server has not said one
	Text     string // of the server, bounded and without control characters
}

// Error says what the server said.
func (e *TokenError) Error() string {
	text := fmt.Sprintf("the authorization server %s gives no token: HTTP %d", e.Endpoint, e.Status)
	for _, s := range []string{e.Code, e.Text} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// CheckURL checks the address of an authorization server: https, or http of the
// machine itself, with a host and without credentials or a fragment. A secret over
// plain HTTP is one of everybody on the way (RFC 6749 §3.2).
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case len(text) > maxAddress:
		return errors.New("is too long")
	case u.Host == "" || u.User != nil || strings.Contains(text, "#"):
		return errors.New("is not an absolute URL without credentials and fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !netguard.IsLoopback(u.Hostname())):
		return errors.New("is not https")
	}
	return nil
}

// origin returns scheme, host and port of a URL, or "".
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// clean bounds a text of a server's and drops what cannot be seen.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text[:min(len(text), maxErrorLen)])
	return strings.TrimSpace(text)
}

// bounded returns a client that follows no redirect and does not wait for ever.
func bounded(c *http.Client) *http.Client {
	b := *c
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if b.Timeout <= 0 || b.Timeout > answerTime {
		b.Timeout = answerTime
	}
	return &b
}

// withoutURL returns an error of net/http without the address, which may hold more
// than an address.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
