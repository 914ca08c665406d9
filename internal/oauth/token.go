package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// early is how long before its end a token is replaced, at most; short-lived
	// ones are when a tenth of their life is left.
	early = time.Minute
	// unknownLife is how long a token counts as good of which the server does not
	// say it (RFC 6749 §5.1).
	unknownLife = 10 * time.Minute
	longestLife = 365 * 24 * time.Hour
)

// Token is an access token with what belongs to it. Its JSON form may be kept,
// encrypted.
type Token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"` // "": it cannot be refreshed
	Got     time.Time `json:"got"`
	Expires time.Time `json:"expires"`
	Scope   string    `json:"scope,omitempty"` // as the server says; "": what was asked for
	// ID is the ID token of a login with OpenID Connect, as the server has sent it;
	// "": none. It is of use only at once, and not kept.
	ID string `json:"-"`
}

// Good reports whether the token will do for a while. A nil token does not.
func (t *Token) Good(now time.Time) bool {
	if t == nil || t.Access == "" {
		return false
	}
	return now.Before(t.Expires.Add(-min(early, t.Expires.Sub(t.Got)/10)))
}

// ClientCredentials gets a token for the client itself (RFC 6749 §4.4). What the
// server refuses is a *TokenError.
func (c *Client) ClientCredentials(ctx context.Context, a Access) (*Token, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	a.add(form)
	return c.request(ctx, form)
}

// Refresh gets a new token in the place of one (RFC 6749 §6). The server may leave
// the refresh token as it is, or give another, after which the old one is of no
// use. A *TokenError with the code invalid_grant says that the person has to log in
// again, or that somebody else was faster.
func (c *Client) Refresh(ctx context.Context, old *Token, a Access) (*Token, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}}
	Access{Resource: a.Resource}.add(form) // the scopes stay those of the token
	t, err := c.request(ctx, form)
	if err != nil {
		return nil, err
	}
	if t.Refresh == "" {
		t.Refresh = old.Refresh
	}
	if t.Scope == "" {
		t.Scope = old.Scope
	}
	return t, nil
}

// add adds what a token is to be for to a form.
func (a Access) add(form url.Values) {
	for name, value := range map[string]string{"scope": strings.Join(a.Scopes, " "), "audience": a.Audience, "resource": a.Resource} {
		if value != "" {
			form.Set(name, value)
		}
	}
}

// inBody reports whether the client shows itself in the form.
func (c *Client) inBody() bool {
	switch {
	case c.Secret == "", c.Auth == AuthBody:
		return true
	case c.Auth == AuthBasic:
		return false
	}
	return !slices.Contains(c.Server.ClientAuth, "client_secret_basic") && slices.Contains(c.Server.ClientAuth, "client_secret_post")
}

func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// request asks the token endpoint.
func (c *Client) request(ctx context.Context, form url.Values) (*Token, error) {
	endpoint := c.Server.TokenURL
	if err := CheckURL(endpoint); err != nil {
		return nil, fmt.Errorf("get token: the address of the token endpoint %w", err)
	}
	if c.inBody() {
		form.Set("client_id", c.ID)
		if c.Secret != "" {
			form.Set("client_secret", c.Secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("get token: the address is not valid")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if !c.inBody() {
		r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret)) // RFC 6749 §2.3.1
	}
	began := c.now()
	response, err := bounded(c.HTTP).Do(r)
	if err != nil {
		return nil, fmt.Errorf("get token of %s: %w", origin(endpoint), withoutURL(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("get token of %s: %w", origin(endpoint), err)
	}
	return readToken(response, body, origin(endpoint), began)
}

// readToken reads the answer of a token endpoint (RFC 6749 §5).
func readToken(response *http.Response, body []byte, endpoint string, began time.Time) (*Token, error) {
	var answer struct {
		Access  string `json:"access_token"`
		Type    string `json:"token_type"`
		Refresh string `json:"refresh_token"`
		Life    any    `json:"expires_in"` // a number, and of some servers a text
		Scope   any    `json:"scope"`
		ID      any    `json:"id_token"` // a text
		Error   string `json:"error"`
		Text    string `json:"error_description"`
	}
	err := json.Unmarshal(body, &answer)
	e := &TokenError{Endpoint: endpoint, Status: response.StatusCode}
	switch {
	case len(body) > maxAnswer:
		e.Text = "the answer is too large"
		return nil, e
	case response.StatusCode != http.StatusOK || answer.Error != "":
		if err == nil {
			e.Code, e.Text = clean(answer.Error), clean(answer.Text)
		}
		return nil, e
	case err != nil || !isJSON(response):
		e.Text = "the answer is not JSON"
		return nil, e
	case answer.Access == "" || len(answer.Access) > maxToken || len(answer.Refresh) > maxToken || strings.ContainsFunc(answer.Access, notInHeader):
		e.Text = "the answer has no usable access_token"
		return nil, e
	case answer.Type != "" && !strings.EqualFold(answer.Type, "bearer"):
		e.Text = "the token is of a type that is not known here: " + clean(answer.Type)
		return nil, e
	}
	t := &Token{Access: answer.Access, Refresh: answer.Refresh, Got: began, Expires: began.Add(life(answer.Life))}
	t.Scope, _ = answer.Scope.(string)
	if id, _ := answer.ID.(string); len(id) <= maxToken {
		t.ID = id
	}
	return t, nil
}

func isJSON(r *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

func notInHeader(r rune) bool { return r <= ' ' || r > '~' }

// life returns how long a token is good.
func life(expires any) time.Duration {
	seconds := 0.0
	switch v := expires.(type) {
	case float64:
		seconds = v
	case string:
		seconds, _ = strconv.ParseFloat(v, 64)
	}
	if !(seconds > 0) { // not a number is none
		return unknownLife
	}
	return time.Duration(min(seconds, longestLife.Seconds()) * float64(time.Second))
}
