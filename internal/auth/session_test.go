package auth

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// newSessions returns sessions in a store, with a clock.
func newSessions(t *testing.T, sealer SessionSealer) (*Sessions, *sqlite.Store, *clock) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &clock{at: time.Now()}
	keys := NewKeys(st, nil)
	keys.now = c.now
	return NewSessions(SessionOptions{Docs: st, Sealer: sealer, Keys: keys, Issuer: func(name string) bool { return name == "https://sso.example" }, Now: c.now}), st, c
}

func newSealer(t *testing.T, keys ...byte) *Sealer {
	t.Helper()
	var list [][]byte
	for _, k := range keys {
		list = append(list, bytes.Repeat([]byte{k}, KeySize))
	}
	s, err := NewSealer(list[0], list[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, sealer := range map[string]SessionSealer{"sealed": newSealer(t, 1), "as they are": nil} {
		s, _, c := newSessions(t, sealer)
		p := Principal{Subject: "mara", Tenant: "acme", Issuer: "https://sso.example", Role: RoleOperator, Scopes: []string{"a"}, Local: true, Address: "127.0.0.1"}
		id, begun, err := s.Begin(t.Context(), &p, ByOIDC)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := Principal{Subject: "mara", Tenant: "acme", Issuer: "https://sso.example", Role: RoleOperator, Scopes: []string{"a"}, Session: ByOIDC}
		if diff := cmp.Diff(want, found.Principal); diff != "" || !found.Ends.Equal(begun.Ends) {
			t.Errorf("%s: found another (-want +got):\n%s", name, diff)
		}
		for _, other := range []string{"", id[1:], id + "x", "../" + id[3:], id[:42] + "_"} {
			if _, err := s.Find(t.Context(), other); !errors.Is(err, ErrNoSession) {
				t.Errorf("%s: %q is found: %v", name, other, err)
			}
		}
		c.add(sessionLife)
		if _, err := s.Find(t.Context(), id); !errors.Is(err, ErrNoSession) {
			t.Errorf("%s: after its time: %v", name, err)
		}
		again, _, err := s.Begin(t.Context(), &p, ByOIDC)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.End(t.Context(), again); err != nil {
			t.Error(err)
		}
		if err := s.End(t.Context(), again); !errors.Is(err, ErrNoSession) {
			t.Errorf("%s: ended twice: %v", name, err)
		}
		if _, err := s.Find(t.Context(), again); !errors.Is(err, ErrNoSession) {
			t.Errorf("%s: after its end: %v", name, err)
		}
		p.Issuer = "https://gone.example"
		gone, _, _ := s.Begin(t.Context(), &p, ByOIDC)
		if _, err := s.Find(t.Context(), gone); !errors.Is(err, ErrNoSession) {
			t.Errorf("%s: of an issuer that is not accepted: %v", name, err)
		}
	}
	s, _, _ := newSessions(t, nil)
	if _, _, err := s.Begin(t.Context(), &Principal{Role: RoleCaller}, ByKey); err == nil {
		t.Error("nobody has a session")
	}
}

// What the store has of a session is of no use to whoever reads it.
func TestSessionsAreSealed(t *testing.T) {
	t.Parallel()
	s, st, _ := newSessions(t, newSealer(t, 1))
	id, _, err := s.Begin(t.Context(), &Principal{Subject: "mara", Role: RoleAdmin}, ByLink)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := st.Docs(t.Context(), store.ForAll(), spaceSession, "", "", 10)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	for _, secret := range []string{id, "mara"} {
		if d := docs[0]; bytes.Contains([]byte(d.Key), []byte(secret)) || bytes.Contains(d.Body, []byte(secret)) || bytes.Contains(d.Secret, []byte(secret)) {
			t.Errorf("the store has %q in clear", secret)
		}
	}
	// Another key opens nothing, and a row that is not sealed is not believed.
	s.opts.Sealer = newSealer(t, 2)
	if _, err := s.Find(t.Context(), id); !errors.Is(err, ErrNoSession) {
		t.Errorf("with another key: %v", err)
	}
	s.opts.Sealer = nil
	if _, err := s.Find(t.Context(), id); !errors.Is(err, ErrNoSession) {
		t.Errorf("without a key: %v", err)
	}
	plain, _, _ := s.Begin(t.Context(), &Principal{Subject: "mara", Role: RoleAdmin}, ByLink)
	s.opts.Sealer = newSealer(t, 2, 1)
	if _, err := s.Find(t.Context(), plain); !errors.Is(err, ErrNoSession) {
		t.Errorf("what is not sealed: %v", err)
	}
	if _, err := s.Find(t.Context(), id); err != nil {
		t.Errorf("with its key among the older ones: %v", err)
	}
}

func TestSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	s, _, c := newSessions(t, newSealer(t, 1))
	begin := func(expires time.Time) (id, key string) {
		t.Helper()
		_, row, err := s.opts.Keys.Create(t.Context(), &KeyRequest{Subject: "erp", Role: RoleCaller, Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		id, _, err = s.Begin(t.Context(), &Principal{Subject: "erp", Issuer: issuerKeys, Role: RoleCaller, Key: row.ID}, ByKey)
		if err != nil {
			t.Fatal(err)
		}
		return id, row.ID
	}
	expires, _ := begin(c.now().Add(time.Hour))
	revoked, key := begin(time.Time{})
	for _, id := range []string{expires, revoked} {
		if found, err := s.Find(t.Context(), id); err != nil || found.Principal.Key == "" {
			t.Errorf("%+v, %v", found, err)
		}
	}
	if err := s.opts.Keys.Revoke(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour)
	for _, id := range []string{expires, revoked} {
		if _, err := s.Find(t.Context(), id); !errors.Is(err, ErrNoSession) {
			t.Errorf("the session goes on: %v", err)
		}
	}
}

func TestALinkIsForOne(t *testing.T) {
	t.Parallel()
	s, _, c := newSessions(t, newSealer(t, 1))
	secret, expires, err := s.Link(t.Context())
	if err != nil || expires.After(c.now().Add(linkLife)) {
		t.Fatalf("until %v, %v", expires, err)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch err := s.Redeem(context.Background(), secret); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, ErrNoLink):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d have used the link", won.Load())
	}
	late, _, _ := s.Link(t.Context())
	c.add(linkLife)
	if err := s.Redeem(t.Context(), late); !errors.Is(err, ErrNoLink) {
		t.Errorf("after its time: %v", err)
	}
	// A session is no link, and the other way round.
	session, _, _ := s.Begin(t.Context(), &Principal{Subject: "mara", Role: RoleAdmin}, ByLink)
	if err := s.Redeem(t.Context(), session); !errors.Is(err, ErrNoLink) {
		t.Errorf("a session is a link: %v", err)
	}
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	b := Browser{Proxies: mustProxies(t, "10.0.0.0/8"), PublicURL: "https://agents.example.com", Hosts: []string{"agents.example.com"}}
	for name, test := range map[string]struct {
		from, to, host string
		headers        map[string]string
		secure, local  bool
	}{
		"this machine":            {from: "127.0.0.1:9", to: "127.0.0.1:8080", host: "127.0.0.1:8080", local: true},
		"this machine, IPv6":      {from: "[::1]:9", to: "[::1]:8080", host: "localhost:8080", local: true},
		"rebound":                 {from: "127.0.0.1:9", to: "127.0.0.1:8080", host: "evil.example"},
		"another machine":         {from: "192.0.2.1:9", to: "192.0.2.2:8080", host: "127.0.0.1:8080"},
		"an open listener":        {from: "127.0.0.1:9", to: "192.0.2.2:8080", host: "127.0.0.1:8080"},
		"a proxy here":            {from: "127.0.0.1:9", to: "127.0.0.1:8080", host: "localhost", headers: map[string]string{"Via": "1.1 p"}},
		"a page elsewhere":        {from: "127.0.0.1:9", to: "127.0.0.1:8080", host: "localhost", headers: map[string]string{"Origin": "https://evil.example"}},
		"a trusted proxy":         {from: "10.0.0.1:9", to: "10.0.0.2:8080", host: "x", headers: map[string]string{"X-Forwarded-Proto": "http, https", "X-Forwarded-For": "192.0.2.1"}, secure: true},
		"somebody who says so":    {from: "192.0.2.1:9", to: "10.0.0.2:8080", host: "x", headers: map[string]string{"X-Forwarded-Proto": "https"}},
		"by the public name":      {from: "10.0.0.1:9", to: "10.0.0.2:8080", host: "agents.example.com", headers: map[string]string{"X-Forwarded-For": "192.0.2.1"}, secure: true},
		"a client behind a proxy": {from: "10.0.0.1:9", to: "10.0.0.2:8080", host: "localhost", headers: map[string]string{"X-Forwarded-For": "127.0.0.1"}},
	} {
		to, err := net.ResolveTCPAddr("tcp", test.to)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(to)), "GET", "/", nil)
		r.RemoteAddr, r.Host = test.from, test.host
		for name, value := range test.headers {
			r.Header.Set(name, value)
		}
		if got := b.Secure(r); got != test.secure {
			t.Errorf("%s: secure %v", name, got)
		}
		if got := b.Local(r); got != test.local {
			t.Errorf("%s: local %v", name, got)
		}
	}
}

func mustProxies(t *testing.T, list ...string) Proxies {
	t.Helper()
	p, err := ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
