package config

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// Console configures the web pages for the people of the node.
type Console struct {
	// Whether there are such pages.
	Enabled bool `yaml:"enabled" default:"true"`

	// What the pages call the node, such as Procurement (test).
	Title string `yaml:"title" default:"Handoff"`

	// Lets people sign in at an issuer of callers.oidc. What they may do follows from the roles that are configured there.
	OIDC *ConsoleOIDC `yaml:"oidc"`
}

// ConsoleOIDC is the console as a client of an issuer: people sign in there with
// the authorization code flow and PKCE. The redirect URI to register is
// {public_url}/console/login/callback.
type ConsoleOIDC struct {
	// The issuer, one of callers.oidc.
	Issuer string `yaml:"issuer" required:"true"`

	// The id of the client.
	ClientID string `yaml:"client_id" required:"true"`

	// The secret of the client. Without one it is a public client.
	ClientSecret Secret `yaml:"client_secret"`

	// The scopes that are asked for.
	Scopes []string `yaml:"scopes" default:"openid,profile"`

	// What the way to sign in is called, such as Company account. Without it, the host of the issuer.
	Name string `yaml:"name"`
}

const maxConsoleTitle = 60 // characters

func (v *validator) console() {
	c := &v.config.Console
	if n := utf8.RuneCountInString(c.Title); n > maxConsoleTitle || !graphic(c.Title) {
		v.problem("console.title", "", "is longer than %d characters, or has some that cannot be shown", maxConsoleTitle)
	}
	o := c.OIDC
	if o == nil {
		return
	}
	known := func(i OIDC) bool { return i.Issuer == o.Issuer }
	switch {
	case o.Issuer != "" && !slices.ContainsFunc(v.config.Callers.OIDC, known):
		v.problem("console.oidc.issuer", "name it below callers.oidc, with the roles that it gives", "is not an issuer of callers.oidc")
	case v.config.SecretKey.IsZero():
		v.problem("console.oidc", "set secret_key; `handoff init` makes one", "needs secret_key")
	}
	if !slices.Contains(o.Scopes, "openid") {
		v.problem("console.oidc.scopes", "add openid", "has no openid, without which the issuer does not say who signs in")
	}
	v.scopes("console.oidc.scopes", o.Scopes)
	if !graphic(o.Name) || utf8.RuneCountInString(o.Name) > maxConsoleTitle {
		v.problem("console.oidc.name", "", "is longer than %d characters, or has some that cannot be shown", maxConsoleTitle)
	}
}

// graphic reports whether all of a text can be shown on one line.
func graphic(text string) bool {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
