package config

import (
	"fmt"
	"net/url"
	"strings"

	"handoff.example/handoff/internal/netguard"
)

// Signing says what agent cards are signed with (A2A §8.4).
type Signing struct {
	// The private keys: one, or two while the second takes the place of the first. Cards are signed with both.
	Keys []SigningKey `yaml:"keys" required:"true"`

	// The URL of the public keys (JWKS) that signatures name. Without it {public_url}/.well-known/jwks.json, where the node has them.
	JKU string `yaml:"jku"`
}

// SigningKey is a private key that cards are signed with.
type SigningKey struct {
	// The key, PEM, readable by its owner only. `handoff card key new` makes one. Relative to the configuration file.
	File string `yaml:"file" required:"true"`

	// The id of the key in signatures (kid). Without it, the key's thumbprint (RFC 7638).
	ID string `yaml:"id"`

	// The algorithm, to be sure of it. The key is for one only.
	Alg string `yaml:"alg" enum:"ES256,EdDSA,RS256"`
}

// Extended is the card for callers with a credential (A2A §3.1.11). It has what
// the public card has, but for what stands here.
type Extended struct {
	// The name, instead of that of the public card.
	Name string `yaml:"name"`

	// The description, instead of that of the public card.
	Description string `yaml:"description"`

	// The version, instead of that of the public card.
	Version string `yaml:"version"`

	// The URL of documentation, instead of that of the public card.
	DocumentationURL string `yaml:"documentation_url"`

	// Skills that only this card has. Callers without a credential may not use them.
	Skills []Skill `yaml:"skills"`
}

// JWKSPath is where a node that signs has its public keys, below the public URL.
const JWKSPath = "/.well-known/jwks.json"

// SigningKeys returns the keys with paths that are not relative.
func (c *Config) SigningKeys() []SigningKey {
	if c.Signing == nil {
		return nil
	}
	keys := make([]SigningKey, len(c.Signing.Keys))
	for i, k := range c.Signing.Keys {
		k.File = c.path(k.File)
		keys[i] = k
	}
	return keys
}

// SigningJKU returns the URL of the public keys that signatures name, "" for
// none: verifiers take no keys over http, but for loopback.
func (c *Config) SigningJKU() string {
	if c.Signing == nil {
		return ""
	}
	if c.Signing.JKU != "" {
		return c.Signing.JKU
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && !netguard.IsLoopback(u.Hostname()) {
		return ""
	}
	return strings.TrimRight(c.PublicURL, "/") + JWKSPath
}

// ExtendedSkills returns the skills that only the extended card has.
func (a *Agent) ExtendedSkills() []Skill {
	if a.Extended == nil {
		return nil
	}
	return a.Extended.Skills
}

// AllSkills returns the skills of the public and of the extended card.
func (a *Agent) AllSkills() []Skill {
	return append(a.Skills[:len(a.Skills):len(a.Skills)], a.ExtendedSkills()...)
}

func (v *validator) signing() {
	s := v.config.Signing
	if s == nil {
		return
	}
	if v.config.PublicURL == "" {
		v.problem("signing", "set public_url to where clients reach the node",
			"needs public_url: without it the URLs of a card follow the Host header of the request, and the node would sign whatever a caller writes there")
	}
	switch n := len(s.Keys); {
	case n == 0:
		v.problem("signing.keys", "`handoff card key new` makes one", "is empty")
	case n > 2:
		v.problem("signing.keys", "", "has %d keys; cards are signed with one, or with two while one replaces the other", n)
	}
	for i, k := range s.Keys {
		if k.File == "" {
			v.problem(fmt.Sprintf("signing.keys[%d].file", i), "", "is empty")
		}
	}
	if s.JKU != "" {
		v.secureURL("signing.jku", s.JKU)
	}
}

// extended checks the card for callers with a credential.
func (v *validator) extended(a *Agent, path string) {
	e := a.Extended
	if e == nil {
		return
	}
	path += ".extended"
	if e.DocumentationURL != "" {
		v.url(path+".documentation_url", e.DocumentationURL)
	}
	if len(e.Skills) > 0 {
		v.skills(e.Skills, path+".skills")
	}
	for i := range e.Skills {
		at := fmt.Sprintf("%s.skills[%d]", path, i)
		v.scopes(at+".scopes", e.Skills[i].Scopes)
		for j := range a.Skills {
			if a.Skills[j].ID == e.Skills[i].ID {
				v.problem(at+".id", "", "is the id of skills[%d] of the public card already", j)
			}
		}
	}
	if v.config.source != nil && v.config.source.dir != "" && !v.config.Callers.Credentials() {
		v.warn(path, "let callers authenticate: callers.keys: true, say", "is a card that nobody can get, since no credentials are accepted")
	}
}
