package peer_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/internal/peer"
)

// What a peer is shown does not come back: in errors, in facts, in a card.
func TestAPeerThatEchoesItsCredentials(t *testing.T) {
	t.Parallel()
	pair := base64.StdEncoding.EncodeToString([]byte("handoff:pass-word/1"))
	for name, c := range map[string]struct {
		auth    string
		secrets []string
	}{
		"bearer": {`{bearer: "t0ken/with+signs=="}`, []string{"t0ken/with+signs=="}},
		"key":    {`{key: {value: key-0123456789, name: X-Key}}`, []string{"key-0123456789"}},
		"query":  {`{key: {value: "key 0123/456789", name: k, in: query}}`, []string{"key 0123/456789", "key+0123%2F456789"}},
		"basic":  {`{basic: {user: handoff, password: "pass-word/1"}}`, []string{"pass-word/1", pair}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, cardWith(""))
			a.says = func(r *http.Request) string {
				return "I got " + r.URL.RawQuery + " " + r.Header.Get("Authorization") + r.Header.Get("X-Key") + ", that is " + strings.Join(c.secrets, " and ")
			}
			d := directory(t, `echo: {card: "`+a.URL+`", auth: `+c.auth+`}`)
			err := ask(t.Context(), dial(t, d, "echo", peer.User{}))
			if err == nil || !strings.Contains(err.Error(), "***") {
				t.Fatalf("the peer answered %v", err)
			}
			p, perr := d.Get("echo")
			if perr != nil {
				t.Fatal(perr)
			}
			d.Observe(t.Context(), "echo", peer.Observation{Err: errors.New("it said " + strings.Join(c.secrets, " and "))})
			if cerr := d.Close(t.Context()); cerr != nil {
				t.Fatal(cerr)
			}
			after, perr := d.Get("echo")
			if perr != nil {
				t.Fatal(perr)
			}
			for _, secret := range c.secrets {
				if strings.Contains(err.Error(), secret) || strings.Contains(after.Facts.Error, secret) {
					t.Errorf("it comes back: %v; the facts say %q", err, after.Facts.Error)
				}
				if got := p.Redact("x" + secret + "y"); got != "x***y" {
					t.Errorf("a text with it is %q", got)
				}
			}
		})
	}
}

func TestATokenThatComesBack(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := newAgent(t, cardWith(""))
	var shown string
	a.says = func(r *http.Request) string {
		shown = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return "I got " + shown
	}
	d := directory(t, `echo: {card: "`+a.URL+`", auth: {oauth2: {client_id: node, client_secret: "a+secret%", client_auth: body, token_url: "`+i.URL+`/token"}}}`)
	err := ask(t.Context(), dial(t, d, "echo", peer.User{}))
	if shown == "" || err == nil || !strings.Contains(err.Error(), "***") || strings.Contains(err.Error(), shown) {
		t.Errorf("it was shown %q and answered %v", shown, err)
	}
}

// A short secret is masked where it stands alone: everywhere, nothing could be read
// any more.
func TestAShortSecret(t *testing.T) {
	t.Parallel()
	a := newAgent(t, cardWith(""))
	d := directory(t, `short: {card: "`+a.URL+`", auth: {key: {value: "k-1a", name: X-Key}}}, tiny: {card: "`+a.URL+`", auth: {bearer: abc}}`)
	for name, texts := range map[string]map[string]string{
		"short": {
			"k-1a": "***", "I got k-1a, k-1a.": "I got ***, ***.", `{"k":"k-1a"}`: `{"k":"***"}`, "sk-1a k-1ab k-1ak-1a": "sk-1a k-1ab k-1ak-1a",
			"k-1": "k-1", "": "", "xk-1a k-1a": "xk-1a ***", "k-1a k-1ax": "*** k-1ax",
		},
		"tiny": {"abc, abc": "abc, abc"},
	} {
		p, err := d.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if got := p.Redact(text); got != want {
				t.Errorf("%s: %q is %q, want %q", name, text, got, want)
			}
		}
	}
}
