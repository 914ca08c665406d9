package config_test

import (
	"strings"
	"testing"

	"handoff.example/handoff/config"
)

const agentsOfConsole = `
secret_key: 0123456789abcdef0123456789abcdef
callers: {oidc: [{issuer: https://sso.example.com, audience: agents}]}
agents:
  a: {name: A, description: D, version: 1.0.0, skills: [{id: s, name: S, description: D, tags: [t]}], run: {script: [{do: [{complete: done}]}]}}
`

func TestConsole(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(agentsOfConsole), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !c.Console.Enabled || c.Console.Title != "Handoff" || c.Console.OIDC != nil {
		t.Errorf("the defaults are %+v", c.Console)
	}
	c, err = config.Parse([]byte("console: {oidc: {issuer: https://sso.example.com, client_id: handoff, client_secret: s3cret}}"+agentsOfConsole), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Console.OIDC; strings.Join(o.Scopes, " ") != "openid profile" || o.ClientSecret.Reveal() != "s3cret" {
		t.Errorf("got %+v", o)
	}
	for text, want := range map[string]string{
		"console: {title: '" + strings.Repeat("x", 61) + "'}":                                               "console.title: is longer than 60 characters",
		"console: {oidc: {issuer: https://other.example.com, client_id: a}}":                                "console.oidc.issuer: is not an issuer of callers.oidc",
		"console: {oidc: {issuer: https://sso.example.com}}":                                                "console.oidc.client_id: is missing",
		"console: {oidc: {issuer: https://sso.example.com, client_id: a, scopes: [profile]}}":               "console.oidc.scopes: has no openid",
		"console: {oidc: {issuer: https://sso.example.com, client_id: a, name: \"a\\nb\"}}":                 "console.oidc.name: is longer",
		"console: {oidc: {issuer: https://sso.example.com, client_id: a, scopes: [openid, 'not a scope']}}": "console.oidc.scopes",
	} {
		if _, err := config.Parse([]byte(text+agentsOfConsole), t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	without := strings.Replace(agentsOfConsole, "secret_key", "# secret_key", 1)
	if _, err := config.Parse([]byte("console: {oidc: {issuer: https://sso.example.com, client_id: a}}"+without), t.TempDir()); err == nil || !strings.Contains(err.Error(), "console.oidc: needs secret_key") {
		t.Errorf("without a secret key: %v", err)
	}
}
