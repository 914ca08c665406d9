package peer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/peer"
)

const (
	metadata       = `{"issuer":"%s","token_endpoint":"%s/token","authorization_endpoint":"%s/authorize"}`
	metadataPlace  = "/.well-known/oauth-authorization-server"
	openIDPlace    = "/.well-known/openid-configuration"
	nodeInBody     = `client_id: node, client_secret: "a+secret%", client_auth: body`
	nobodysSecrets = `client_id: node, client_secret: s`
)

// alsoIssuer has an agent serve its authorization server at its own origin.
func alsoIssuer(a *agent, i *issuer) {
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" || r.URL.Path == "/authorize" || i.metadata[r.URL.Path] != "" {
			i.ServeHTTP(w, r)
			return
		}
		a.ServeHTTP(w, r)
	})
}

func scheme(of string) string {
	return cardWith(asks([]string{of}, "o"))
}

// A2A §4.5.4 and §4.5.5: a card that says only where the authorization server says
// the rest.
func TestTokensOfAServerThatTheCardNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scheme, place, document string
	}{
		"oauth2MetadataUrl": {`"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"","scopes":{}}},"oauth2MetadataUrl":"%[1]s` + metadataPlace + `"}}`, metadataPlace, metadata},
		"openIdConnectUrl":  {`"o":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"%[1]s` + openIDPlace + `"}}`, openIDPlace, metadata},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			a := newAgent(t, scheme(tt.scheme))
			i.metadata = map[string]string{tt.place: strings.ReplaceAll(tt.document, "%s", a.URL)}
			alsoIssuer(a, i)
			a.accept = i.accepts
			d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nodeInBody+`}}}`)
			if err := ask(t.Context(), dial(t, d, "p", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || len(i.grants) != 1 {
				t.Errorf("%v, %v", err, i.grants)
			}
		})
	}
}

// Rows S8, S9 and S27: neither metadata elsewhere nor a token endpoint elsewhere
// that metadata names gets the secret, and no metadata of another issuer counts.
func TestTheSecretGoesToNoServerOfMetadataElsewhere(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	const named = `"o":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"","scopes":{}}},"oauth2MetadataUrl":"%[1]s` + metadataPlace + `"}}`
	for name, tt := range map[string]struct {
		card, document, err string
	}{
		"metadata elsewhere":       {strings.Replace(scheme(named), "%[1]s"+metadataPlace, trap+metadataPlace, 1), "", "origin not allowed"},
		"metadata in clear":        {strings.Replace(scheme(named), "%[1]s"+metadataPlace, "http://as.example"+metadataPlace, 1), "", "not https"},
		"token endpoint elsewhere": {scheme(named), strings.Replace(metadata, "%s/token", trap+"/token", 1), "origin not allowed"},
		"of another issuer":        {scheme(named), strings.Replace(metadata, `"%s"`, `"`+trap+`"`, 1), "another issuer"},
		"no token endpoint":        {scheme(named), `{"issuer":"%s"}`, "set peers.p.auth.oauth2.token_url"},
	} {
		i := newIssuer(t)
		a := newAgent(t, tt.card)
		i.metadata = map[string]string{metadataPlace: strings.ReplaceAll(tt.document, "%s", a.URL)}
		alsoIssuer(a, i)
		d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nobodysSecrets+`}}}`)
		if err := ask(t.Context(), dial(t, d, "p", peer.User{})); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if hits.Load() != 0 {
		t.Error("the canary was asked")
	}
}

func TestTokensOfTheIssuerOfTheConfiguration(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.metadata = map[string]string{openIDPlace: metadata}
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept = i.accepts
	d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nodeInBody+`, issuer: "`+i.URL+`"}}}`)
	for range 2 {
		if err := ask(t.Context(), dial(t, d, "p", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Fatal(err)
		}
	}
	if len(i.grants) != 1 {
		t.Errorf("%v", i.grants)
	}
	i.mu.Lock()
	i.metadata[openIDPlace] = strings.Replace(metadata, `"%s"`, `"%s/"`, 1)
	i.mu.Unlock()
	d = directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nodeInBody+`, issuer: "`+i.URL+`"}}}`)
	err := ask(t.Context(), dial(t, d, "p", peer.User{}))
	if _, ok := errors.AsType[*oauth.MetadataError](err); !ok || !strings.Contains(err.Error(), "another issuer") {
		t.Error(err)
	}
}

// Tokens are got while the server does not say any more where they are, and where it
// says another place that counts after an hour.
func TestMetadataIsKeptAndReplaced(t *testing.T) {
	t.Parallel()
	i, at := newIssuer(t), &clock{time.Now()}
	i.metadata = map[string]string{openIDPlace: metadata}
	i.life = 60
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept = i.accepts
	d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nodeInBody+`, issuer: "`+i.URL+`"}}}`, func(o *peer.Options) { o.Now = at.now })
	for step, tt := range []struct {
		metadata string
		after    time.Duration
		grants   int
	}{
		{metadata, 0, 1},
		{"gone", 50 * time.Minute, 2},
		{"gone", 3 * time.Hour, 3},
		{strings.Replace(metadata, "%s/token", "%s/moved", 1), 30 * time.Second, 3}, // the token is good
		{strings.Replace(metadata, "%s/token", "%s/moved", 1), 2 * time.Minute, 4},
	} {
		at.at = at.at.Add(tt.after)
		i.mu.Lock()
		i.metadata[openIDPlace] = tt.metadata
		i.mu.Unlock()
		if err := ask(t.Context(), dial(t, d, "p", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Fatalf("%d: %v", step, err)
		}
		if len(i.grants) != tt.grants {
			t.Errorf("%d: %d grants", step, len(i.grants))
		}
	}
	if i.last != "/moved" {
		t.Errorf("the last token is from %s", i.last)
	}
}

// What an issuer names elsewhere has to be public, whatever the operator named.
func TestAnIssuerNamesNoPrivateEndpoint(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	i := newIssuer(t)
	i.metadata = map[string]string{openIDPlace: strings.Replace(metadata, "%s/token", trap+"/token", 1)}
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	d := directory(t, `p: {card: "`+a.URL+`", auth: {oauth2: {`+nodeInBody+`, issuer: "`+i.URL+`"}}}`)
	if err := ask(t.Context(), dial(t, d, "p", peer.User{})); err == nil || !strings.Contains(err.Error(), "loopback") || hits.Load() != 0 {
		t.Errorf("%v after %d requests", err, hits.Load())
	}
}

// RFC 9207: the server that a person was sent to is the one that answers.
func TestALoginIsAnsweredByWhomItWentTo(t *testing.T) {
	t.Parallel()
	naming := strings.Replace(metadata, "{", `{"authorization_response_iss_parameter_supported":true,`, 1)
	for name, tt := range map[string]struct {
		metadata string // "": the configuration names the addresses
		iss      string
		ok       bool
	}{
		"it says so, and does":               {naming, "%s", true},
		"it says so, and does not":           {naming, "", false},
		"it says so, and it is another":      {naming, "https://evil.example", false},
		"it does not say so, and does":       {metadata, "%s", true},
		"it does not say so, and is another": {metadata, "https://evil.example", false},
		"it does not say so, and does not":   {metadata, "", true},
		"nothing is known, and it does":      {"", "%s/realm", true},
		"nothing is known, and is another":   {"", "https://evil.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.metadata, i.iss = map[string]string{metadataPlace: tt.metadata}, strings.ReplaceAll(tt.iss, "%s", i.URL)
			a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
			more := ""
			if tt.metadata != "" {
				more = `, issuer: "` + i.URL + `"`
			}
			d, browser := people(t, i, a, more)
			login, err := d.Login(t.Context(), "p", peer.User{})
			if err != nil {
				t.Fatal(err)
			}
			status, page := confirm(t, browser, login.URL)
			if ok := status == http.StatusOK; ok != tt.ok || !ok && !strings.Contains(page, "not from the authorization server") || strings.Contains(page, "evil") {
				t.Errorf("%d %s", status, page)
			}
			if want := map[bool]int{true: 1}[tt.ok]; len(i.grants) != want {
				t.Errorf("the code went to the token endpoint %d times", len(i.grants))
			}
		})
	}
}
