package handoff_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	handoff "handoff.example/handoff"
)

// Credentials that development servers accept open nothing here, and a node does
// not listen to everybody by accident.
func TestRowS18_NoDevelopmentCredentials(t *testing.T) {
	t.Parallel()
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), configuration), handoff.Options{})
	g := &guarded{url: server.URL}
	if status, _, body := g.send(t, "rpc", "echo", ""); status != 200 {
		t.Fatalf("the defaults accept a caller here: %d %s", status, body)
	}
	for _, headers := range [][]string{
		{"Authorization", "Bearer valid-token"},
		{"Authorization", basicOf("admin", "password")},
		{"Authorization", "Bearer "},
		{"Authorization", ""},
		{"Authorization", "Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhZG1pbiJ9."},
		{"X-API-Key", "test"},
		{"X-API-Key", ""},
	} {
		for _, binding := range []string{"rpc", "rest", "connect"} {
			if status, header, body := g.send(t, binding, "echo", "", headers...); status != http.StatusUnauthorized || header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q, %s: %d %s", headers, binding, status, body)
			}
		}
	}
	for _, text := range []string{"listen: 0.0.0.0:0\n", "listen: ':0'\n", "listen: '[::]:0'\ncallers: {anonymous: loopback}\n"} {
		file := filepath.Join(t.TempDir(), "handoff.yaml")
		write(t, file, text+configuration)
		if _, err := handoff.LoadConfig(file); err == nil || !strings.Contains(err.Error(), "beyond loopback") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A token says whose it is, for whom, by whom, and until when.
func TestRowS27_TokensSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	other := newIssuer(t)
	soon := time.Now().Add(time.Hour).Unix()
	for name, tt := range map[string]struct {
		by     *issuer
		claims map[string]any
		status int
	}{
		"right":             {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "agents", "sub": "alice", "exp": soon}, 200},
		"a program's":       {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "agents", "client_id": "erp", "exp": soon}, 200},
		"nobody's":          {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "agents", "exp": soon}, 401},
		"for somebody else": {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "others", "sub": "alice", "exp": soon}, 401},
		"over":              {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "agents", "sub": "alice", "exp": time.Now().Add(-time.Minute).Unix()}, 401},
		"without an end":    {g.issuer, map[string]any{"iss": g.issuer.URL, "aud": "agents", "sub": "alice"}, 401},
		"of a stranger":     {other, map[string]any{"iss": other.URL, "aud": "agents", "sub": "alice", "exp": soon}, 401},
		"in another's name": {other, map[string]any{"iss": g.issuer.URL, "aud": "agents", "sub": "alice", "exp": soon}, 401},
	} {
		token := tt.by.sign(t, tt.claims)
		for _, binding := range []string{"rpc", "rest", "connect"} {
			if status, _, body := g.send(t, binding, "open", "", "Authorization", "Bearer "+token); status != tt.status {
				t.Errorf("%s, %s: %d %s", name, binding, status, body)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	write(t, file, `callers: {oidc: [{issuer: "https://sso.example", audience: a, oauth2: {token_url: "http://sso.example/token"}}]}`+"\n"+configuration)
	if _, err := handoff.LoadConfig(file); err == nil || !strings.Contains(err.Error(), "oauth2.token_url: is not https") {
		t.Errorf("a token endpoint over http: %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
