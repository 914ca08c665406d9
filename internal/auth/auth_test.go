package auth

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

var _ engine.Sealer = (*Sealer)(nil)

func TestScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p          Principal
		own, reach store.Scope
	}{
		{Principal{}, store.Scope{}, store.Scope{}},
		{Principal{Subject: "alice"}, store.Scope{}, store.Scope{}},
		{Principal{Role: RoleCaller}, store.ForOwner("", ""), store.ForOwner("", "")},
		{Principal{Role: RoleViewer, Tenant: "acme", Subject: "alice"}, store.ForOwner("acme", "alice"), store.ForOwner("acme", "alice")},
		{Principal{Role: RoleOperator, Tenant: "acme", Subject: "op"}, store.ForOwner("acme", "op"), store.ForTenant("acme")},
		{Principal{Role: RoleAdmin, Subject: "root"}, store.ForOwner("", "root"), store.ForAll()},
	} {
		if got := Scope(&c.p); got != c.own {
			t.Errorf("Scope(%+v) = %+v", c.p, got)
		}
		if got := Reach(&c.p); got != c.reach {
			t.Errorf("Reach(%+v) = %+v", c.p, got)
		}
	}
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies([]string{"10.0.0.0/8", "127.0.0.2", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	const here, ok, refused = "127.0.0.1:5", true, false
	for name, c := range map[string]struct {
		policy  Policy
		remote  string
		host    string
		headers http.Header
		want    bool
		local   bool
		address string
	}{
		"off":                         {PolicyOff, here, "localhost", nil, refused, false, ""},
		"unset":                       {"", here, "localhost", nil, refused, false, ""},
		"loopback":                    {PolicyLoopback, here, "localhost:8080", nil, ok, true, "127.0.0.1"},
		"loopback 6":                  {PolicyLoopback, "[::ffff:127.0.0.1]:5", "[::1]:8080", nil, ok, true, "127.0.0.1"},
		"another machine":             {PolicyLoopback, "192.168.1.5:5", "localhost", nil, refused, false, ""},
		"no address":                  {PolicyLoopback, "@", "localhost", nil, refused, false, ""},
		"through a proxy here":        {PolicyLoopback, here, "localhost", http.Header{"X-Forwarded-For": {"127.0.0.1"}}, refused, false, ""},
		"through a quiet proxy":       {PolicyLoopback, here, "localhost", http.Header{"Via": {"1.1 x"}}, refused, false, ""},
		"forwarded":                   {PolicyLoopback, here, "localhost", http.Header{"Forwarded": {"for=127.0.0.1"}}, refused, false, ""},
		"trusted proxy, far client":   {PolicyLoopback, "127.0.0.2:5", "localhost", http.Header{"X-Forwarded-For": {"203.0.113.7"}}, refused, false, ""},
		"trusted proxy, local client": {PolicyLoopback, "127.0.0.2:5", "localhost", http.Header{"X-Forwarded-For": {"203.0.113.7, 127.0.0.1"}}, ok, true, "127.0.0.1"},
		"trusted proxy, junk":         {PolicyLoopback, "127.0.0.2:5", "localhost", http.Header{"X-Forwarded-For": {"unknown"}}, refused, false, ""},
		"trusted proxy, no client":    {PolicyLoopback, "127.0.0.2:5", "localhost", http.Header{"X-Forwarded-Proto": {"https"}}, refused, false, ""},
		"a name that leads here":      {PolicyLoopback, here, "evil.example:8080", nil, refused, false, ""},
		"our public name":             {PolicyLoopback, here, "agents.example", nil, ok, true, "127.0.0.1"},
		"a page elsewhere":            {PolicyLoopback, here, "localhost", http.Header{"Origin": {"https://evil.example"}}, refused, false, ""},
		"a page here":                 {PolicyLoopback, here, "localhost", http.Header{"Origin": {"http://localhost:3000"}}, ok, true, "127.0.0.1"},
		"a file":                      {PolicyLoopback, here, "localhost", http.Header{"Origin": {"null"}}, refused, false, ""},
		"everywhere":                  {PolicyEverywhere, "192.168.1.5:5", "agents.example", nil, ok, false, "192.168.1.5"},
		"everywhere, two proxies":     {PolicyEverywhere, "10.1.1.1:5", "agents.example", http.Header{"X-Forwarded-For": {"1.2.3.4, 203.0.113.7:99, 10.2.2.2"}}, ok, false, "203.0.113.7"},
		"everywhere, here":            {PolicyEverywhere, here, "localhost", nil, ok, true, "127.0.0.1"},
		"credentials":                 {PolicyEverywhere, here, "localhost", http.Header{"Authorization": {"Bearer valid-token"}}, refused, false, ""},
		"no credentials":              {PolicyLoopback, here, "localhost", http.Header{"Authorization": {""}}, refused, false, ""},
	} {
		a := &Anonymous{Policy: c.policy, Proxies: proxies, Hosts: []string{"agents.example"}}
		r := &http.Request{RemoteAddr: c.remote, Host: c.host, Header: c.headers}
		p, err := a.Authenticate(r)
		if (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			if a2a.CodeOf(err) != a2a.CodeUnauthenticated || len(Challenges(err)) != 1 {
				t.Errorf("%s: %v, challenges %v", name, err, Challenges(err))
			}
			if p.Role != RoleNone {
				t.Errorf("%s: refused with the role %v", name, p.Role)
			}
			continue
		}
		if !p.Anonymous() || p.Role != RoleCaller || p.Local != c.local || p.Address != c.address {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := ParseProxies([]string{"10.0.0.0/8", "proxy.example"}); err == nil {
		t.Error("a name was taken as a network")
	}
}

func TestSealer(t *testing.T) {
	t.Parallel()
	old, key := GenerateKey(), GenerateKey()
	before, err := NewSealer(old)
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewSealer(key, old)
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range [][]byte{nil, []byte("secret"), bytes.Repeat([]byte("x"), 1<<20)} {
		sealed, err := before.Seal(plain)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := before.Seal(plain); bytes.Equal(sealed, again) {
			t.Error("the same value was sealed to the same bytes")
		}
		for _, s := range []*Sealer{before, after} {
			if got, err := s.Open(sealed); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("opened %q: %v", got, err)
			}
		}
		fresh, _ := after.Seal(plain)
		ids := after.KeyIDs()
		if len(ids) != 2 || string(fresh[:keyIDSize]) != ids[0] || string(sealed[:keyIDSize]) != ids[1] {
			t.Error("sealed values do not begin with the ids of their keys")
		}
		if _, err := before.Open(fresh); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("a newer key: %v", err)
		}
		for _, i := range []int{keyIDSize, len(sealed) - 1} {
			damaged := bytes.Clone(sealed)
			damaged[i] ^= 1
			if _, err := before.Open(damaged); !errors.Is(err, ErrTampered) {
				t.Errorf("byte %d changed: %v", i, err)
			}
		}
		for n := range min(len(sealed), 40) {
			if _, err := before.Open(sealed[:n]); n < len(sealed) && err == nil {
				t.Errorf("opened the first %d bytes", n)
			}
		}
	}
	for _, bad := range [][]byte{nil, key[:31], append(bytes.Clone(key), 0)} {
		if _, err := NewSealer(bad); err == nil {
			t.Errorf("a key of %d bytes was taken", len(bad))
		}
	}
}

// A caller has to learn that it is the page that is refused, and not the address.
func TestForeignPagesAreNamed(t *testing.T) {
	t.Parallel()
	a := &Anonymous{Policy: PolicyLoopback}
	for origin, want := range map[string]string{
		"https://evil.example": `Origin is "https://evil.example"`,
		"null":                 `Origin is "null"`,
	} {
		_, err := a.Authenticate(&http.Request{RemoteAddr: "127.0.0.1:5", Host: "localhost", Header: http.Header{"Origin": {origin}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cors.origins") {
			t.Errorf("%s: %v", origin, err)
		}
	}
}
