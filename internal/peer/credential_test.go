package peer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/peer"
)

const (
	bearerScheme = `"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}`
	basicScheme  = `"u":{"httpAuthSecurityScheme":{"scheme":"Basic"}}`
	headerScheme = `"h":{"apiKeySecurityScheme":{"location":"header","name":"X-Supplier-Key"}}`
	queryScheme  = `"q":{"apiKeySecurityScheme":{"location":"query","name":"key"}}`
	cookieScheme = `"c":{"apiKeySecurityScheme":{"location":"cookie","name":"session"}}`
	digestScheme = `"d":{"httpAuthSecurityScheme":{"scheme":"Digest"}}`
	mtlsScheme   = `"m":{"mtlsSecurityScheme":{}}`
)

// asks returns the members of a card with schemes, and requirements in which each
// is one alternative, its schemes joined by +.
func asks(schemes []string, requirements ...string) string {
	text := `,"securitySchemes":{` + strings.Join(schemes, ",") + `}`
	var all []string
	for _, r := range requirements {
		var one []string
		for name := range strings.SplitSeq(r, "+") {
			if name != "" {
				one = append(one, `"`+name+`":{"list":[]}`)
			}
		}
		all = append(all, `{"schemes":{`+strings.Join(one, ",")+`}}`)
	}
	if len(all) > 0 {
		text += `,"securityRequirements":[` + strings.Join(all, ",") + `]`
	}
	return text
}

func TestCredentialsFitTheCard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, card, auth string
		want             func(r *http.Request) bool
	}{
		{"a card that says nothing gets what is there", "", `{bearer: t-1}`, bearerIs("t-1")},
		{"and an API key in the usual header", "", `{key: k-1}`, func(r *http.Request) bool { return r.Header.Get("X-API-Key") == "k-1" }},
		{"bearer", asks([]string{bearerScheme}, "b"), `{bearer: t-1, basic: {user: u, password: p}}`, bearerIs("t-1")},
		{"basic, though there is a token", asks([]string{basicScheme}, "u"), `{bearer: t-1, basic: {user: u, password: p}}`, func(r *http.Request) bool {
			user, password, ok := r.BasicAuth()
			return ok && user == "u" && password == "p"
		}},
		{"a key where the card says", asks([]string{headerScheme}, "h"), `{key: k-1}`, func(r *http.Request) bool {
			return r.Header.Get("X-Supplier-Key") == "k-1" && r.Header.Get("X-API-Key") == ""
		}},
		{"in the query", asks([]string{queryScheme}, "q"), `{key: k-1}`, func(r *http.Request) bool { return r.URL.Query().Get("key") == "k-1" }},
		{"in a cookie", asks([]string{cookieScheme}, "c"), `{key: k-1}`, func(r *http.Request) bool {
			c, err := r.Cookie("session")
			return err == nil && c.Value == "k-1"
		}},
		{"the first alternative that can be met", asks([]string{digestScheme, bearerScheme, headerScheme}, "d", "b+h", "b"), `{bearer: t-1}`, bearerIs("t-1")},
		{"two at once", asks([]string{bearerScheme, headerScheme}, "b+h"), `{bearer: t-1, key: k-1}`, func(r *http.Request) bool {
			return bearerIs("t-1")(r) && r.Header.Get("X-Supplier-Key") == "k-1"
		}},
		{"a scheme that nothing requires", asks([]string{headerScheme, digestScheme}), `{key: k-1, bearer: t-1}`, func(r *http.Request) bool {
			return r.Header.Get("X-Supplier-Key") == "k-1" && r.Header.Get("Authorization") == ""
		}},
		{"none where none will do", asks([]string{digestScheme}, "d", ""), `{bearer: t-1}`, func(r *http.Request) bool { return r.Header.Get("Authorization") == "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, cardWith(test.card))
			d := directory(t, `supplier: {card: "`+a.URL+`", auth: `+test.auth+`}`)
			if err := ask(t.Context(), dial(t, d, "supplier", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
				t.Fatal(err)
			}
			if calls := a.calls(); len(calls) != 1 || !test.want(calls[0]) {
				t.Errorf("sent %v", calls[0].Header)
			}
		})
	}
}

func bearerIs(token string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+token }
}

func TestCredentialsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ card, auth, want string }{
		{asks([]string{bearerScheme}, "b"), `{}`, `the peer "supplier" asks for credentials that are not configured: b: a token (auth.bearer or auth.oauth2); none is configured, in peers.supplier.auth`},
		{asks([]string{headerScheme, mtlsScheme, digestScheme}, "h+m", "d"), `{basic: {user: u, password: p}}`, "h: an API key (auth.key) in the header X-Supplier-Key and m: a client certificate (auth.mtls), or d: the HTTP scheme Digest; configured is basic"},
		{asks([]string{headerScheme}, "h"), `{key: {value: k, name: X-Other}}`, "X-Supplier-Key"},
		{asks([]string{bearerScheme}, "missing"), `{bearer: t}`, "missing: a scheme that is not known"},
	} {
		a := newAgent(t, cardWith(test.card))
		d := directory(t, `supplier: {card: "`+a.URL+`", auth: `+test.auth+`}`)
		_, _, err := d.Client(t.Context(), "supplier", peer.User{})
		if _, ok := errors.AsType[*peer.CredentialsError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, not %q", err, test.want)
		}
		if len(a.calls()) > 0 {
			t.Error("the peer was asked without them")
		}
	}
}

// Row 139: a card for those only who authenticate.
func TestTheCardOfAClosedPeer(t *testing.T) {
	t.Parallel()
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept, a.closed = bearerIs("t-1"), true
	d := directory(t, `supplier: {card: "`+a.URL+`", auth: {bearer: t-1}}, other: {card: "`+a.URL+`", auth: {bearer: t-2}}`)
	if err := ask(t.Context(), dial(t, d, "supplier", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Fatal(err)
	}
	if _, _, err := d.Client(t.Context(), "other", peer.User{}); !errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) {
		t.Fatal(err)
	}
}
