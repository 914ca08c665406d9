package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/oauth"
)

// RFC 9207 §2.4 and the table of MCP AUT-17.
func TestWhoAnswersALogin(t *testing.T) {
	t.Parallel()
	const issuer = "https://as.example/t"
	for name, tt := range map[string]struct {
		issuer string
		names  bool // the server says that it names itself
		query  string
		want   string // the code, or a part of the error
	}{
		"said and there":               {issuer, true, "code=c&iss=https%3A%2F%2Fas.example%2Ft", "c"},
		"said and not there":           {issuer, true, "code=c", "does not say who it is from"},
		"said and empty":               {issuer, true, "code=c&iss=", "does not say who"},
		"said and another":             {issuer, true, "code=c&iss=https://evil.example", "from the issuer https://evil.example and not"},
		"not said and there":           {issuer, false, "code=c&iss=https://as.example/t", "c"},
		"not said and another":         {issuer, false, "code=c&iss=https://evil.example", "from the issuer https://evil.example and not"},
		"not said and not there":       {issuer, false, "code=c", "c"},
		"a slash more":                 {issuer, false, "code=c&iss=https://as.example/t/", "and not from"},
		"another case":                 {issuer, false, "code=c&iss=https://AS.example/t", "and not from"},
		"twice":                        {issuer, false, "code=c&iss=https://as.example/t&iss=https://evil.example", "from the issuer"},
		"not known and there":          {"", false, "code=c&iss=https://login.example/t", "c"},
		"not known and elsewhere":      {"", false, "code=c&iss=https://evil.example", "of which nothing is known"},
		"not known and not there":      {"", false, "code=c", "c"},
		"an error of another":          {issuer, true, "error=secret_text&iss=https://evil.example", "and not from"},
		"an error that names nobody":   {issuer, true, "error=secret_text", "does not say who"},
		"an error":                     {issuer, false, "error=access_denied&error_description=a%07b&code=c", "access_denied: ab"},
		"no code":                      {issuer, false, "", "no usable code"},
		"two codes":                    {issuer, false, "code=a&code=b", "no usable code"},
		"a code that is longer than 4": {issuer, false, "code=" + strings.Repeat("x", 5000), "no usable code"},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		a := &oauth.Authorization{URL: "https://login.example/authorize?x", Issuer: tt.issuer, NamesIssuer: tt.names}
		got, err := a.CodeOf(q)
		if err == nil && got != tt.want || err != nil && (!strings.Contains(err.Error(), tt.want) || got != "" || tt.want == "c") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if e, ok := errors.AsType[*oauth.IssuerError](err); ok && strings.Contains(e.Error(), "secret_text") {
			t.Errorf("%s shows the error of another: %v", name, e)
		}
	}
}

func TestALoginByCode(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(nil)
	access := oauth.Access{Scopes: []string{"a", "b"}, Audience: "them", Resource: "https://mcp.example/mcp"}
	a, err := c.Authorize("state", "https://node.example/back", access)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(a.Verifier))
	want := url.Values{
		"kept": {"1"}, "response_type": {"code"}, "client_id": {"me"}, "redirect_uri": {"https://node.example/back"}, "state": {"state"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "scope": {"a b"}, "audience": {"them"}, "resource": {"https://mcp.example/mcp"},
	}
	if diff := cmp.Diff(want, u.Query()); diff != "" || len(a.Verifier) < 43 { // RFC 7636 §4.1
		t.Errorf("%d\n%s", len(a.Verifier), diff)
	}
	c.Server.TokenURL = s.URL + "/elsewhere" // configured meanwhile
	if _, err := c.Exchange(t.Context(), a, "code"); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {"code"}, "redirect_uri": {"https://node.example/back"}, "code_verifier": {a.Verifier}, "resource": {"https://mcp.example/mcp"}}
	if diff := cmp.Diff(form, s.forms[0]); diff != "" || s.basic[0] != "me:a+secret" {
		t.Errorf("%s %s", s.basic[0], diff)
	}
	again, err := c.Authorize("state", "https://node.example/back", access)
	if err != nil || again.Verifier == a.Verifier {
		t.Errorf("%v: two logins have one verifier", err)
	}
	c.Server.Challenges = []string{"plain"}
	if _, err := c.Authorize("state", "https://node.example/back", access); err == nil || !strings.Contains(err.Error(), "S256") {
		t.Error(err)
	}
}

func TestTokensOfAClient(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*oauth.Client)
		basic  string
		form   url.Values
	}{
		"in the header": {nil, "me:a+secret", url.Values{}},
		"in the form": {func(c *oauth.Client) { c.Auth = oauth.AuthBody }, ":", url.Values{
			"client_id": {"me"}, "client_secret": {"a secret"},
		}},
		"as the server wants it":      {func(c *oauth.Client) { c.Server.ClientAuth = []string{"client_secret_post"} }, ":", url.Values{"client_id": {"me"}, "client_secret": {"a secret"}}},
		"the server takes the header": {func(c *oauth.Client) { c.Server.ClientAuth = []string{"client_secret_post", "client_secret_basic"} }, "me:a+secret", url.Values{}},
		"configured":                  {func(c *oauth.Client) { c.Auth, c.Server.ClientAuth = oauth.AuthBasic, []string{"client_secret_post"} }, "me:a+secret", url.Values{}},
		"without a secret":            {func(c *oauth.Client) { c.Secret = "" }, ":", url.Values{"client_id": {"me"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
			c := s.client(tt.change)
			c.Now = func() time.Time { return at }
			got, err := c.ClientCredentials(t.Context(), oauth.Access{Scopes: []string{"a"}, Resource: "https://r.example"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&oauth.Token{Access: "a", Got: at, Expires: at.Add(time.Minute)}, got); diff != "" {
				t.Error(diff)
			}
			for key, value := range map[string]string{"grant_type": "client_credentials", "scope": "a", "resource": "https://r.example"} {
				tt.form.Set(key, value)
			}
			if diff := cmp.Diff(tt.form, s.forms[0]); diff != "" || s.basic[0] != tt.basic {
				t.Errorf("%s\n%s", s.basic[0], diff)
			}
		})
	}
}

// RFC 6749 §6.
func TestRefreshKeepsWhatTheServerDoesNotSay(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	old := &oauth.Token{Access: "x", Refresh: "r1", Scope: "a"}
	got, err := s.client(nil).Refresh(t.Context(), old, oauth.Access{Scopes: []string{"more"}, Resource: "https://r.example"})
	if err != nil || got.Refresh != "r1" || got.Scope != "a" || got.Access != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"r1"}, "resource": {"https://r.example"}}, s.forms[0]); diff != "" {
		t.Error(diff)
	}
	s.answer = `{"access_token":"b","refresh_token":"r2","scope":"b","expires_in":"7"}`
	got, err = s.client(nil).Refresh(t.Context(), old, oauth.Access{})
	if err != nil || got.Refresh != "r2" || got.Scope != "b" || got.Expires.Sub(got.Got) != 7*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHowLongATokenIsGood(t *testing.T) {
	t.Parallel()
	got := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		answer string
		good   time.Duration
	}{
		{`"expires_in":3600`, 59 * time.Minute},
		{`"expires_in":100`, 90 * time.Second},
		{`"expires_in":"100"`, 90 * time.Second},
		{`"x":1`, 9 * time.Minute},
		{`"expires_in":-5`, 9 * time.Minute},
		{`"expires_in":"NaN"`, 9 * time.Minute},
		{`"expires_in":1e300`, 365*24*time.Hour - time.Minute},
	} {
		s := newServer(t)
		s.answer = `{"access_token":"a",` + tt.answer + `}`
		c := s.client(func(c *oauth.Client) { c.Now = func() time.Time { return got } })
		token, err := c.ClientCredentials(t.Context(), oauth.Access{})
		if err != nil || !token.Good(got.Add(tt.good-time.Second)) || token.Good(got.Add(tt.good)) {
			t.Errorf("%s: %+v, %v", tt.answer, token, err)
		}
	}
	if (*oauth.Token)(nil).Good(got) || (&oauth.Token{Expires: got.Add(time.Hour)}).Good(got) {
		t.Error("no token is good")
	}
}

// Rows S8 and S27: the secret stays where it is sent.
func TestTheSecretFollowsNoRedirectAndGoesToNoPlainAddress(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(trap.Close)
	away := httptest.NewServer(http.RedirectHandler(trap.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	c := &oauth.Client{ID: "me", Secret: "s", HTTP: away.Client(), Server: oauth.Server{TokenURL: away.URL}}
	if _, err := c.ClientCredentials(t.Context(), oauth.Access{}); err == nil || !strings.Contains(err.Error(), "HTTP 307") || hits.Load() != 0 {
		t.Errorf("%v after %d requests", err, hits.Load())
	}
	for _, address := range []string{"http://as.example/token", "", "https://as.example/token#x", "file:///etc/passwd"} {
		c.Server.TokenURL = address
		if _, err := c.ClientCredentials(t.Context(), oauth.Access{}); err == nil || !strings.Contains(err.Error(), "token endpoint is not") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
