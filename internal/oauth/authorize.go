package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
)

// Authorization is a login that has begun: what was recorded before the person was
// sent to the authorization server, so that the answer is checked against it. Its
// JSON form may be kept, encrypted.
type Authorization struct {
	URL      string `json:"address"` // where the person is sent; it holds the state
	Redirect string `json:"redirect"`
	Verifier string `json:"verifier"` // of PKCE
	// TokenURL, Issuer and NamesIssuer are of the server that the person was sent to:
	// the code goes to no other, whatever is configured meanwhile.
	TokenURL    string `json:"token_url"`
	Issuer      string `json:"issuer,omitempty"` // "": not known
	NamesIssuer bool   `json:"names_issuer,omitempty"`
	Resource    string `json:"resource,omitempty"`
}

// Authorize begins a login (RFC 6749 §4.1.1, with PKCE by S256). The state is what
// comes back; whoever calls it makes one that nobody can guess, and binds it to the
// browser of the person.
func (c *Client) Authorize(state, redirect string, a Access) (*Authorization, error) {
	s := c.Server
	if err := CheckURL(s.AuthorizationURL); err != nil {
		return nil, fmt.Errorf("begin login: the address of the authorization endpoint %w", err)
	}
	if err := CheckURL(s.TokenURL); err != nil {
		return nil, fmt.Errorf("begin login: the address of the token endpoint %w", err)
	}
	if s256, said := s.PKCE(); said && !s256 {
		return nil, errors.New("begin login: the authorization server does not take challenges of the method S256 (RFC 7636)")
	}
	u, err := url.Parse(s.AuthorizationURL)
	if err != nil {
		return nil, errors.New("begin login: the address of the authorization endpoint is not a URL")
	}
	begun := &Authorization{
		Redirect: redirect, Verifier: rand.Text() + rand.Text(), // 52 characters of base32: 256 bits
		TokenURL: s.TokenURL, Issuer: s.Issuer, NamesIssuer: s.NamesIssuer, Resource: a.Resource,
	}
	q := u.Query()
	a.add(q)
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.ID, "redirect_uri": redirect, "state": state,
		"code_challenge": challenge(begun.Verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	begun.URL = u.String()
	return begun, nil
}

// challenge returns the challenge of a verifier (RFC 7636 §4.2).
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// IssuerError says that an authorization response is not from the server that the
// person was sent to. Nothing of it may be shown or used (RFC 9207 §2.4).
type IssuerError struct {
	Want string // "": it was not known
	Got  string // bounded and clean; "": the response names none
}

// Error names both.
func (e *IssuerError) Error() string {
	switch {
	case e.Got == "":
		return fmt.Sprintf("the response does not say who it is from, and %s always does (RFC 9207)", e.Want)
	case e.Want == "":
		return fmt.Sprintf("the response is from the issuer %s, of which nothing is known", e.Got)
	}
	return fmt.Sprintf("the response is from the issuer %s and not from %s", e.Got, e.Want)
}

// DeniedError is what an authorization server says in place of a code (RFC 6749
// §4.1.2.1).
type DeniedError struct {
	Code string // such as access_denied, bounded and clean
	Text string // likewise
}

// Error says what the server said.
func (e *DeniedError) Error() string {
	text := "the authorization server gives no code: " + e.Code
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// CodeOf returns the code of an authorization response, that is of the query with
// which the person came back. Who it is from is looked at first: where the server
// says that it names itself, it has to; where a response names somebody, it has to
// be the server that was asked, to the letter; and where neither is so, it is taken
// (RFC 9207 §2.4, AUT-17). Of a server whose issuer is not known, the issuer has to
// be at the origin of its authorization endpoint. The state is the caller's to
// check, before.
func (a *Authorization) CodeOf(response url.Values) (string, error) {
	iss, there := response["iss"]
	switch {
	case !there:
		if a.NamesIssuer {
			return "", &IssuerError{Want: a.Issuer}
		}
	case len(iss) != 1 || a.Issuer != "" && iss[0] != a.Issuer || a.Issuer == "" && origin(iss[0]) != origin(a.URL):
		return "", &IssuerError{Want: a.Issuer, Got: clean(iss[0])}
	}
	code := response.Get("code")
	switch {
	case response.Has("error"):
		return "", &DeniedError{clean(response.Get("error")), clean(response.Get("error_description"))}
	case code == "" || len(code) > maxCode || len(response["code"]) != 1:
		return "", &DeniedError{Code: "the response has no usable code"}
	}
	return code, nil
}

// Exchange gets the token of a code (RFC 6749 §4.1.3), from the server that the
// person was sent to. What it refuses is a *TokenError.
func (c *Client) Exchange(ctx context.Context, a *Authorization, code string) (*Token, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.Redirect}, "code_verifier": {a.Verifier}}
	Access{Resource: a.Resource}.add(form)
	asked := *c
	asked.Server.TokenURL = a.TokenURL
	return asked.request(ctx, form)
}
