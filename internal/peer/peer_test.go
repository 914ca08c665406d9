package peer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

func TestAddedPeers(t *testing.T) {
	t.Parallel()
	a, kept, sealer := newAgent(t, cardWith(asks([]string{bearerScheme}, "b"))), openStore(t), withSealer(t)
	options := func(o *peer.Options) { o.Store = kept }
	d := directory(t, `configured: {card: "`+a.URL+`"}`, options, sealer)
	if _, err := d.Add(t.Context(), "added", fmt.Appendf(nil, `{"card":%q,"auth":{"bearer":"a-secret"}}`, a.URL)); err != nil {
		t.Fatal(err)
	}
	row, err := kept.Peer(t.Context(), "added")
	if err != nil || strings.Contains(string(row.Added), "a-secret") {
		t.Fatalf("%q, %v", row.Added, err)
	}
	// Another node knows it too.
	other := directory(t, `configured: {card: "`+a.URL+`"}`, options, sealer)
	if diff := cmp.Diff([]string{"added", "configured"}, other.Names()); diff != "" {
		t.Error(diff)
	}
	if p, err := other.Get("added"); err != nil || !p.Added || p.Config.Auth.Bearer.Reveal() != "a-secret" {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := ask(t.Context(), dial(t, other, "added", peer.User{})); err == nil || !bearerIs("a-secret")(a.calls()[0]) {
		t.Error(err)
	}
	for _, name := range []string{"configured", "Not A Name"} {
		if _, err := d.Add(t.Context(), name, fmt.Appendf(nil, `{"card":%q}`, a.URL)); err == nil {
			t.Errorf("%s was added", name)
		}
	}
	if err := d.Remove(t.Context(), "configured"); err == nil {
		t.Error("a peer of the configuration was removed")
	}
	if err := d.Remove(t.Context(), "added"); err != nil {
		t.Fatal(err)
	}
	_, err = d.Get("added")
	if e, ok := errors.AsType[*peer.UnknownError](err); !ok || !errors.Is(err, store.ErrNotFound) || !strings.Contains(e.Error(), "there are configured") {
		t.Error(err)
	}
	without := directory(t, ``)
	if _, err := without.Add(t.Context(), "added", fmt.Appendf(nil, `{"card":%q}`, a.URL)); !errors.Is(err, peer.ErrNoKey) {
		t.Error(err)
	}
}

func TestWhatIsObserved(t *testing.T) {
	t.Parallel()
	a, kept, at := newAgent(t, cardWith("")), openStore(t), &clock{time.Now().UTC().Truncate(time.Millisecond)}
	d := directory(t, `p: {card: "`+a.URL+`"}, sure: {card: "`+a.URL+`", deduplicates: true}`, func(o *peer.Options) { o.Store, o.Now = kept, at.now })
	yes := true
	d.Observe(t.Context(), "p", peer.Observation{Interface: "JSONRPC 1.0 https://x", Version: "1.0", Latency: 100 * time.Millisecond, Deduplicates: &yes})
	d.Observe(t.Context(), "p", peer.Observation{Interface: "HTTP+JSON 1.0 https://x", Err: errors.New("no\x1b[31m answer\n")})
	d.Observe(t.Context(), "nobody", peer.Observation{})
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := d.Get("p")
	if err != nil {
		t.Fatal(err)
	}
	want := peer.Facts{
		Bindings: []peer.Binding{{Interface: "JSONRPC 1.0 https://x", Worked: at.at}, {Interface: "HTTP+JSON 1.0 https://x", Failed: at.at}},
		Version:  "1.0", Deduplicates: config.Yes, Latency: 100, Error: "no[31m answer", ErrorAt: at.at,
	}
	if diff := cmp.Diff(want, p.Facts); diff != "" || !p.Seen.Equal(at.at) {
		t.Errorf("%s%v", diff, p.Seen)
	}
	if yes, why := p.Deduplicates(); !yes || why != "observed" {
		t.Error(yes, why)
	}
	at.at = at.at.Add(time.Minute)
	no := false
	for range 100 {
		d.Observe(t.Context(), "p", peer.Observation{Interface: "JSONRPC 1.0 https://x", Version: "0.3", Latency: 200 * time.Millisecond, Deduplicates: &no})
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err = d.Get("p"); err != nil || p.Facts.Error != "" || p.Facts.Version != "0.3" || p.Facts.Latency < 199 || len(p.Facts.Bindings) != 2 {
		t.Errorf("%+v, %v", p.Facts, err)
	}
	if yes, why := p.Deduplicates(); yes || why != "observed" {
		t.Error(yes, why)
	}
	if p, err = d.Get("sure"); err != nil {
		t.Fatal(err)
	}
	if yes, why := p.Deduplicates(); !yes || why != "configured" {
		t.Error(yes, why)
	}
}

func TestAPeerDeclaresThatItDeduplicates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		params, schemes, auth string
		want                  bool
	}{
		{"", "", "", true},
		{`,"params":{}`, "", "", true},
		{`,"params":{"callers":"authenticated"}`, "", "", false},
		{`,"params":{"callers":"authenticated"}`, "", `, auth: {bearer: t}`, true},
		{`,"params":{"callers":"authenticated"}`, asks([]string{bearerScheme}), `, auth: {bearer: t}`, true},
		{`,"params":{"callers":"authenticated"}`, asks([]string{bearerScheme}), `, auth: {basic: {user: u, password: p}}`, false}, // calls without
		{`,"params":{"callers":"friends"}`, "", `, auth: {bearer: t}`, false},
	} {
		a := newAgent(t, strings.Replace(cardWith(tt.schemes), `"streaming":true`, `"extensions":[{"uri":"`+a2a.IdempotencyExtension+`"`+tt.params+`}]`, 1))
		d := directory(t, `p: {card: "`+a.URL+`"`+tt.auth+`}`)
		_, p, err := d.Client(t.Context(), "p", peer.User{})
		if err != nil {
			t.Fatal(err)
		}
		if yes, why := p.Deduplicates(); yes != tt.want || yes && why != "declared" {
			t.Errorf("%+v: %t, %q", tt, yes, why)
		}
	}
}

func TestCheckSaysWhatWorks(t *testing.T) {
	t.Parallel()
	a := newAgent(t, cardWith(asks([]string{bearerScheme}, "b")))
	a.accept = bearerIs("t-1")
	gone := newAgent(t, "")
	gone.Close()
	d := directory(t, `good: {card: "`+a.URL+`", auth: {bearer: t-1}}, wrong: {card: "`+a.URL+`", auth: {bearer: t-2}}, none: {card: "`+a.URL+`"}, gone: {card: "`+gone.URL+`"}`)
	for name, want := range map[string]string{
		"good":  "card ok, signature ok, pin ok, interface ok, credentials ok, call ok",
		"wrong": "card ok, signature ok, pin ok, interface ok, credentials failed, call skipped",
		"none":  "card ok, signature ok, pin ok, interface ok, credentials failed, call skipped",
		"gone":  "card failed, signature skipped, pin skipped, interface skipped, credentials skipped, call skipped",
	} {
		report, err := d.Check(t.Context(), name, peer.User{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range report.Steps {
			got = append(got, s.Name+" "+string(s.Result))
			if s.Result == peer.ResultFailed && s.Do == "" {
				t.Errorf("%s: nobody says what to do about %s", name, s.Detail)
			}
		}
		if text := strings.Join(got, ", "); text != want || report.OK != (name == "good") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if p, err := d.Get("good"); err != nil || p.Facts.Version != "1.0" || p.Seen.IsZero() || len(p.Facts.Bindings) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := d.Check(t.Context(), "nobody", peer.User{}); err == nil {
		t.Error("a peer that there is not was checked")
	}
}

// A reload keeps what has not changed, and drops what is gone.
func TestUseOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	a := newAgent(t, cardWith(""))
	d := directory(t, `same: {card: "`+a.URL+`"}, gone: {card: "`+a.URL+`"}`)
	c := dial(t, d, "gone", peer.User{})
	use(t, d, `same: {card: "`+a.URL+`"}, fresh: {card: "`+a.URL+`"}`)
	if diff := cmp.Diff([]string{"fresh", "same"}, d.Names()); diff != "" {
		t.Error(diff)
	}
	if _, _, err := d.Client(t.Context(), "gone", peer.User{}); err == nil {
		t.Error("a peer that is gone is called")
	}
	if err := ask(t.Context(), c); err == nil || len(a.calls()) != 1 {
		t.Error("a call under way does not end as it began")
	}
}
