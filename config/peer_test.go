package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal+`
peers:
  supplier: {card: "https://agents.supplier.example/", auth: {bearer: a-token}}
  finance:
    card: {name: Finance, supportedInterfaces: [{url: "https://finance.example/rpc", protocolBinding: JSONRPC, protocolVersion: "1.0"}]}
    auth:
      key: k-1
      oauth2: {client_id: node, client_secret: s, token_url: "https://sso.example/token", scopes: [work]}
    pin: true
    changed: keep
    deduplicates: true
    channels: [poll]
    poll: {min: 1s}
  auditor: {card: file:auditor.json, auth: {key: {value: k-2, in: query, name: token}}, pin: 47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU}
`)
	if diff := cmp.Diff([]string{"auditor", "finance", "supplier"}, c.PeerNames()); diff != "" {
		t.Fatal(diff)
	}
	supplier, finance, auditor := c.Peers["supplier"], c.Peers["finance"], c.Peers["auditor"]
	if got := supplier.Card.Ref(); got != "https://agents.supplier.example/" || supplier.Card.Inline() != nil {
		t.Errorf("card of the supplier: %q", got)
	}
	if supplier.Auth.Bearer.Reveal() != "a-token" || supplier.Pin.On() || supplier.Deduplicates != config.Auto ||
		supplier.Deadline.Std() != 7*24*time.Hour || supplier.Quiet.Std() != time.Minute || len(supplier.Channels) != 3 || supplier.Poll.Max.Std() != 5*time.Minute {
		t.Errorf("the supplier has other defaults: %+v", supplier)
	}
	if !strings.Contains(string(finance.Card.Inline()), `"name":"Finance"`) || finance.Card.Ref() != "" {
		t.Errorf("card of finance: %s", finance.Card.Inline())
	}
	if finance.Pin != config.PinFirst || finance.Pin.Digest() != "" || finance.Deduplicates != config.Yes || finance.Auth.Key.Value.Reveal() != "k-1" {
		t.Errorf("finance: %+v", finance)
	}
	if diff := cmp.Diff([]string{"key", "oauth2"}, finance.Auth.Kinds()); diff != "" {
		t.Error(diff)
	}
	if file, ok := auditor.Card.File(); !ok || file != "auditor.json" {
		t.Errorf("file of the auditor: %q", file)
	}
	if auditor.Pin.Digest() == "" || auditor.Auth.Key.In != config.KeyInQuery {
		t.Errorf("auditor: %+v", auditor)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Text, "a-token") || strings.Contains(v.Text, "k-1") {
			t.Errorf("%s is shown as %s", v.Path, v.Text)
		}
	}
}

func TestPeersThatCannotWork(t *testing.T) {
	t.Parallel()
	const at = "https://a.example/"
	for _, test := range []struct{ peer, want string }{
		{`{card: ""}`, "card: is empty"},
		{`{auth: {}}`, "card: is missing"},
		{`{card: a.example}`, "card: is not an http or https URL"},
		{`{card: "https://u:p@a.example/"}`, "holds credentials"},
		{`{card: "` + at + `", pin: abc}`, "pin: is neither true"},
		{`{card: "` + at + `", deduplicates: maybe}`, "deduplicates: is not one of"},
		{`{card: "` + at + `", origins: ["https://a.example/path"]}`, "origins[0]: is more than an origin"},
		{`{card: "` + at + `", signatures: {policy: require}}`, "signatures.policy: takes no card"},
		{`{card: "` + at + `", channels: []}`, "channels: is empty"},
		{`{card: "` + at + `", poll: {min: 10m}}`, "poll.min: is more than poll.max"},
		{`{card: "` + at + `", auth: {basic: {user: "a:b", password: p}}}`, "basic.user: is not a name"},
		// Row S27: a secret goes to no token endpoint over plain HTTP.
		{`{card: "` + at + `", auth: {oauth2: {client_id: n, client_secret: s, token_url: "http://sso.example/token"}}}`, "token_url: is not https"},
		{`{card: "` + at + `", auth: {oauth2: {client_id: n, token_url: "https://sso.example/token"}}}`, "client_secret: is missing"},
		{`{card: "` + at + `", auth: {oauth2: {client_id: n, client_secret: s, per_user: true}}}`, "per_user: is for people"},
		{`{card: "` + at + `", auth: {oauth2: {flow: authorization_code, client_id: n, authorization_url: "http://sso.example/"}}}`, "authorization_url: is not https"},
	} {
		got := strings.Join(problems(t, minimal+"peers:\n  p: "+test.peer+"\n"), "\n")
		if !strings.Contains(got, "peers.p") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, not %q", test.peer, got, test.want)
		}
	}
	if got := strings.Join(problems(t, minimal+"peers:\n  delivery: {card: \""+at+"\"}\n"), "\n"); !strings.Contains(got, "is the id of an agent too") {
		t.Error(got)
	}
	mustParse(t, minimal+`peers: {p: {card: "http://127.0.0.1:9/", auth: {oauth2: {client_id: n, client_secret: s, token_url: "http://127.0.0.1:9/token"}}}}`)
}

func TestAPeerOverTheNetworkNamesNothingOfTheMachine(t *testing.T) {
	t.Parallel()
	p, err := config.ParsePeer("supplier", []byte(`{"card": "https://a.example/", "auth": {"bearer": "t\u00f6\ud83d\ude00"}, "pin": true}`))
	if err != nil || p.Auth.Bearer.Reveal() != "tö😀" || p.Pin != config.PinFirst || p.Quiet.Std() != time.Minute {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, body := range []string{
		`{"card": "file:/etc/passwd"}`,
		`{"card": "https://a.example/", "auth": {"bearer": "file:/etc/hostname"}}`,
		`{"card": "https://a.example/", "auth": {"bearer": "${HOME}"}}`,
		`{"card": {"name": "file:x"}, "auth": {"key": {"value": "file:/etc/hostname"}}}`,
		`{"card": "https://a.example/", "ca": "/etc/hostname"}`,
		`{"card": "https://a.example/", "auth": {"mtls": {"cert": "a", "key": "b"}}}`,
		`{"card": "https://a.example/", "signatures": {"trust": ["/etc"]}}`,
		`{"card": "https://a.example/", "more": 1}`,
		`{"card": "https://a.example/", "card": "https://b.example/"}`,
		`[]`, `{`, ``,
	} {
		_, err := config.ParsePeer("supplier", []byte(body))
		if _, ok := errors.AsType[*config.Error](err); !ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := config.ParsePeer("Not A Name", []byte(`{"card": "https://a.example/"}`)); err == nil {
		t.Error("any name will do")
	}
	_, err = config.ParsePeer("supplier", []byte(`{"card": "https://a.example/", "auth": {"bearer": "a secret\nof two lines"}}`))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestDiffOfPeers(t *testing.T) {
	t.Parallel()
	before := mustParse(t, minimal+`peers: {a: {card: "https://a.example/"}, b: {card: "https://b.example/", auth: {bearer: one}}}`)
	after := mustParse(t, minimal+`peers: {b: {card: "https://b.example/2", auth: {bearer: two}}, c: {card: "https://c.example/"}}`)
	var got []string
	for _, change := range config.Diff(before, after) {
		got = append(got, change.String())
	}
	want := []string{
		"peers.b.card: https://b.example/ -> https://b.example/2", "peers.b.auth.bearer: changed", "peers.c: added", "peers.a: removed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
