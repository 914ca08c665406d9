package card_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

const securedAgent = `agents:
  delivery:
    name: Delivery Scheduling Agent
    description: Reserves dock time.
    version: 1.4.0
    callers: {scopes: [%SCOPES%]}
    default_output_modes: [application/json]
    skills:
      - {id: book-delivery-slot, name: Book a delivery slot, description: Reserves a dock., tags: [logistics], scopes: [%SKILL%]}
      - {id: status, name: Status, description: Tells the status., tags: [logistics]}
    run: {exec: ["true"]}
`

func securedConfig(t interface {
	Helper()
	Fatal(...any)
}, callers, scopes, skill string,
) *config.Config {
	t.Helper()
	text := callers + "\n" + strings.NewReplacer("%SCOPES%", scopes, "%SKILL%", skill).Replace(securedAgent)
	c, err := config.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The cards of the Indonesian documents: what they ask of callers can be said in
// the configuration.
func TestCardsOfPartners(t *testing.T) {
	t.Parallel()
	delivery := securedConfig(t, `callers: {anonymous: off, oidc: [{issuer: "https://sso.contoh.co.id", audience: agents, scheme: partner-oidc}]}`, "openid, delivery.write", "")
	supplier := securedConfig(t, `callers: {anonymous: off, oidc: [{issuer: "https://sso.supplier.example", audience: agents, scheme: partnerOAuth,
  oauth2: {token_url: "https://sso.supplier.example/token", scopes: {quotes: Ask for quotes}}}]}`, "quotes", "")
	for name, tt := range map[string]struct {
		config *config.Config
		want   string
	}{
		"delivery": {delivery, `"securitySchemes":{"partner-oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://sso.contoh.co.id/.well-known/openid-configuration"}}},` +
			`"securityRequirements":[{"schemes":{"partner-oidc":{"list":["openid","delivery.write"]}}}]`},
		"supplier": {supplier, `"securitySchemes":{"partnerOAuth":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://sso.supplier.example/token","scopes":{"quotes":"Ask for quotes"}}}}}},` +
			`"securityRequirements":[{"schemes":{"partnerOAuth":{"list":["quotes"]}}}]`},
	} {
		built := card.For(tt.config, "delivery", "https://agents.example", "")
		if got := string(built.AppendJSON(nil)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s\nhas not\n%s", name, got, tt.want)
		}
		for _, f := range card.Lint(built) {
			if f.Level == card.LevelError {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
}

// kinds are the kinds of credentials with the schemes that they make.
var kinds = map[string]struct {
	text    string
	schemes []string
}{
	"keys":   {"keys: true", []string{"apiKey", "bearer"}},
	"oidc":   {"oidc: [{issuer: 'https://sso.example', audience: a}, {issuer: 'https://two.example', audience: a, scheme: two, tenant: t, jwks_url: 'https://two.example/keys'}]", []string{"oidc", "two"}},
	"oauth":  {"oidc: [{issuer: 'https://sso.example', audience: a, scheme: oauth, oauth2: {token_url: 'https://sso.example/token'}}]", []string{"oauth"}},
	"basic":  {"basic: [{user: a, password_hash: h}]", []string{"basic"}},
	"mtls":   {"mtls: {}", []string{"mtls"}},
	"nobody": {"", nil},
}

// What a card says of callers is what the configuration accepts, whatever that
// is: each kind of credential and no other, required unless anybody may call.
func TestCardsSayWhatIsConfigured(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		chosen := rapid.SliceOfDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(kinds))), rapid.ID).Draw(r, "kinds")
		if slices.Contains(chosen, "oauth") && slices.Contains(chosen, "oidc") {
			chosen = slices.DeleteFunc(chosen, func(k string) bool { return k == "oauth" })
		}
		anonymous := rapid.SampledFrom([]string{"off", "loopback", "everywhere"}).Draw(r, "anonymous")
		scopes := rapid.SampledFrom([]string{"", "quotes", "a, b"}).Draw(r, "scopes")
		skill := rapid.SampledFrom([]string{"", "quotes", "book"}).Draw(r, "skill")
		lines, want := []string{"anonymous: " + anonymous}, []string{}
		tls := ""
		for _, k := range chosen {
			if kinds[k].text != "" {
				lines = append(lines, kinds[k].text)
			}
			want = append(want, kinds[k].schemes...)
			if k == "mtls" {
				tls = "tls: {cert: c, key: k, client_ca: a, client_auth: optional}\n"
			}
		}
		slices.Sort(want)
		c := securedConfig(r, tls+"callers: {"+strings.Join(lines, ", ")+"}", scopes, skill)
		built := card.For(c, "delivery", "https://agents.example", "")
		got := slices.Sorted(maps.Keys(built.SecuritySchemes))
		if !slices.Equal(got, want) {
			r.Fatalf("schemes %v, want %v", got, want)
		}
		check := func(at string, list []a2a.SecurityRequirement, needed []string) {
			var names []string
			for _, q := range list {
				for name, has := range q.Schemes {
					names = append(names, name)
					scheme := built.SecuritySchemes[name]
					asked := scheme.OAuth2 != nil || scheme.OpenIDConnect != nil
					if asked != (len(has) > 0) && len(needed) > 0 || asked && !cmp.Equal(has, needed) && len(needed) > 0 {
						r.Fatalf("%s: %s needs %v, not %v", at, name, has, needed)
					}
				}
			}
			if slices.Sort(names); len(list) > 0 && !slices.Equal(names, want) {
				r.Fatalf("%s: requirements %v, want %v", at, names, want)
			}
		}
		needed := c.Agents["delivery"].Callers.Scopes
		if required := len(want) > 0 && (anonymous != "everywhere" || scopes != ""); required != (len(built.SecurityRequirements) > 0) {
			r.Fatalf("requirements %v", built.SecurityRequirements)
		}
		check("agent", built.SecurityRequirements, needed)
		own := c.Agents["delivery"].Skills[0].Scopes
		if (len(own) > 0 && len(want) > 0) != (len(built.Skills[0].SecurityRequirements) > 0) || built.Skills[1].SecurityRequirements != nil {
			r.Fatalf("skills %v", built.Skills)
		}
		all := slices.Clone(needed)
		for _, s := range own {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		check("skill", built.Skills[0].SecurityRequirements, all)
		for _, f := range card.Lint(built) {
			if f.Level == card.LevelError {
				r.Fatal(f)
			}
		}
		// And it is the same card after a trip over the wire.
		var back a2a.AgentCard
		if err := a2a.Unmarshal(built.AppendJSON(nil), &back); err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(built.SecuritySchemes, back.SecuritySchemes); diff != "" {
			r.Fatal(diff)
		}
	})
}
