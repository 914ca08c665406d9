package oauth_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/oauth"
)

// MCP AUT-15, RFC 8414 §3.1, OpenID Connect Discovery §4.
func TestWhereMetadataIs(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]string{
		"https://as.example":      "https://as.example/.well-known/oauth-authorization-server https://as.example/.well-known/openid-configuration",
		"https://as.example/":     "https://as.example/.well-known/oauth-authorization-server https://as.example/.well-known/openid-configuration",
		"https://as.example/a%2F": "https://as.example/.well-known/oauth-authorization-server/a%2F https://as.example/.well-known/openid-configuration/a%2F https://as.example/a%2F/.well-known/openid-configuration",
		"http://localhost:1/t/1/": "http://localhost:1/.well-known/oauth-authorization-server/t/1 http://localhost:1/.well-known/openid-configuration/t/1 http://localhost:1/t/1/.well-known/openid-configuration",
	} {
		got, err := oauth.MetadataURLs(issuer)
		if diff := cmp.Diff(want, strings.Join(got, " ")); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", issuer, err, diff)
		}
	}
	for _, issuer := range []string{"", "as.example", "http://as.example", "https://u:p@as.example", "https://as.example/#x", "https://as.example/?x=1", "https://as.example/?", "ftp://as.example", "https://" + strings.Repeat("x", 4096)} {
		if got, err := oauth.MetadataURLs(issuer); err == nil {
			t.Errorf("%.40s: %v", issuer, got)
		}
	}
}

const document = `{"issuer":"%s/t","token_endpoint":"%s/token","authorization_endpoint":"%s/authorize","code_challenge_methods_supported":["plain","S256"],
"token_endpoint_auth_methods_supported":["client_secret_post"],"authorization_response_iss_parameter_supported":true,"unknown":[{}]}`

func TestDiscovery(t *testing.T) {
	t.Parallel()
	const inserted, insertedOpenID, appended = "/.well-known/oauth-authorization-server/t", "/.well-known/openid-configuration/t", "/t/.well-known/openid-configuration"
	other := strings.Replace(document, `"%s/t"`, `"https://other.example/t"`, 1)
	for name, tt := range map[string]struct {
		documents map[string]string
		err       string
		asked     int
	}{
		"first form":                {map[string]string{inserted: document}, "", 1},
		"second form":               {map[string]string{insertedOpenID: document}, "", 2},
		"third form":                {map[string]string{appended: document}, "", 3},
		"a wrong one before":        {map[string]string{inserted: other, appended: document}, "", 3},
		"a broken one before":       {map[string]string{inserted: "500", appended: document}, "", 3},
		"none":                      {nil, "there is none", 3},
		"of another issuer":         {map[string]string{insertedOpenID: other}, "it is of another issuer: https://other.example/t", 3},
		"issuer with a slash more":  {map[string]string{inserted: strings.Replace(document, "%s/t", "%s/t/", 1)}, "it is of another issuer", 3},
		"no JSON":                   {map[string]string{inserted: "<html>"}, "not the JSON", 3},
		"another type":              {map[string]string{inserted: `{"issuer":1}`}, "not the JSON", 3},
		"too large":                 {map[string]string{inserted: `{"issuer":"` + strings.Repeat("x", 300<<10) + `"}`}, "too large", 3},
		"a list that is too long":   {map[string]string{inserted: `{"issuer":"%s/t","scopes_supported":["a"` + strings.Repeat(`,"a"`, 300) + `]}`}, "more than 200", 3},
		"token endpoint in clear":   {map[string]string{inserted: strings.Replace(document, "%s/token", "http://as.example/token", 1)}, "token_endpoint is not https", 3},
		"a redirect":                {map[string]string{inserted: "-> " + appended, appended: "500"}, "HTTP 302", 3},
		"credentials in an address": {map[string]string{inserted: strings.Replace(document, "%s/authorize", "https://a:b@as.example/", 1)}, "authorization_endpoint is not an absolute URL", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.documents = tt.documents
			got, err := oauth.Discover(t.Context(), s.Client(), s.URL+"/t")
			if len(s.asked) != tt.asked {
				t.Errorf("asked %v", s.asked)
			}
			if tt.err != "" {
				if e, ok := errors.AsType[*oauth.MetadataError](err); !ok || !strings.Contains(e.Error(), tt.err) {
					t.Errorf("%v and not %q", err, tt.err)
				}
				return
			}
			want := &oauth.Server{
				Issuer: s.URL + "/t", TokenURL: s.URL + "/token", AuthorizationURL: s.URL + "/authorize", Challenges: []string{"plain", "S256"},
				ClientAuth: []string{"client_secret_post"}, NamesIssuer: true,
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestMetadataAtAPlaceIsOfTheIssuerThere(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.documents = map[string]string{
		"/.well-known/openid-configuration/t":           document,
		"/t/.well-known/openid-configuration":           strings.Replace(document, "%s/t", "%s/t/", 1), // as some write it
		"/.well-known/oauth-authorization-server/other": document,
		"/metadata.json":                    document,
		"/.well-known/openid-configuration": `{"token_endpoint":"%s/token"}`,
	}
	for place, want := range map[string]string{
		"/.well-known/openid-configuration/t":           "",
		"/t/.well-known/openid-configuration":           "",
		"/.well-known/oauth-authorization-server/other": "of another issuer: " + s.URL + "/t",
		"/metadata.json":                    "of another issuer: " + s.URL + "/t",
		"/.well-known/openid-configuration": "the issuer is not an absolute URL",
		"/nowhere":                          "HTTP 404",
	} {
		got, err := oauth.DiscoverAt(t.Context(), s.Client(), s.URL+place)
		if want == "" && (err != nil || got.TokenURL != s.URL+"/token") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", place, got, err)
		}
	}
	if _, err := oauth.DiscoverAt(t.Context(), s.Client(), "http://as.example/.well-known/openid-configuration"); err == nil || !strings.Contains(err.Error(), "is not https") {
		t.Error(err)
	}
}

func TestPKCEOfAServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		methods []string
		want    string
	}{{nil, "false false"}, {[]string{"plain"}, "false true"}, {[]string{"plain", "S256"}, "true true"}} {
		s256, said := (&oauth.Server{Challenges: tt.methods}).PKCE()
		if got := fmt.Sprint(s256, said); got != tt.want {
			t.Errorf("%v: %s", tt.methods, got)
		}
	}
}
