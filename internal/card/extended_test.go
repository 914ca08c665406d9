package card_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
)

const extendedFile = `public_url: https://agents.example
callers:
  anonymous: off
  oidc: [{issuer: "https://sso.example", audience: a, oauth2: {token_url: "https://sso.example/token"}}]
agents:
  quote:
    name: Quote
    description: Quotes.
    version: 1.0.0
    skills:
      - {id: open, name: Open, description: D., tags: [t]}
      - {id: quotes, name: Quotes, description: D., tags: [t], scopes: [quotes]}
    extended:
      name: Quote for partners
      version: 1.1.0
      documentation_url: https://docs.example
      skills:
        - {id: contracts, name: Contracts, description: D., tags: [t], scopes: [quotes, contracts]}
    run: {exec: [./x]}
`

// The extended card has what its caller may use, and names no scope that is
// neither public nor its caller's.
func TestForExtended(t *testing.T) {
	t.Parallel()
	c := load(t, extendedFile)
	describe := func(built *a2a.AgentCard) map[string][]string {
		skills := map[string][]string{"scopes": slices.Sorted(maps.Keys(built.SecuritySchemes["oidc"].OAuth2.Flows.ClientCredentials.Scopes))}
		for _, s := range built.Skills {
			skills[s.ID] = nil
			for _, r := range s.SecurityRequirements {
				skills[s.ID] = r.Schemes["oidc"]
			}
		}
		return skills
	}
	public := card.For(c, "quote", "https://agents.example", "")
	if diff := cmp.Diff(map[string][]string{"scopes": {"quotes"}, "open": nil, "quotes": {"quotes"}}, describe(public)); diff != "" || public.Name != "Quote" || !*public.Capabilities.ExtendedAgentCard {
		t.Errorf("public: %s %s", public.Name, diff)
	}
	for _, tt := range []struct {
		scopes []string
		want   map[string][]string
	}{
		{nil, map[string][]string{"scopes": {"quotes"}, "open": nil}},
		{[]string{"contracts"}, map[string][]string{"scopes": {"quotes"}, "open": nil}},
		{[]string{"quotes"}, map[string][]string{"scopes": {"quotes"}, "open": nil, "quotes": {"quotes"}}},
		{[]string{"contracts", "quotes"}, map[string][]string{"scopes": {"contracts", "quotes"}, "open": nil, "quotes": {"quotes"}, "contracts": {"quotes", "contracts"}}},
	} {
		built := card.ForExtended(c, "quote", "https://agents.example", "", tt.scopes)
		if diff := cmp.Diff(tt.want, describe(built)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.scopes, diff)
		}
		if built.Name != "Quote for partners" || built.Description != "Quotes." || built.Version != "1.1.0" || built.DocumentationURL == nil {
			t.Errorf("%+v", built)
		}
	}
}

// A publisher builds one extended card for all callers who may use the same.
func TestPublisherExtended(t *testing.T) {
	t.Parallel()
	p := card.NewPublisher(load(t, extendedFile), nil)
	get := func(scopes ...string) string {
		document, ok, err := p.Extended("quote", "", "https://agents.example", scopes, false)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return document.ETag()
	}
	if get("quotes") != get("quotes", "other") || get("quotes") == get() || p.Len() != 2 {
		t.Errorf("%d documents", p.Len())
	}
	if _, ok, _ := p.Extended("quote", "acme", "https://agents.example", nil, false); ok {
		t.Error("there is a card of a tenant that there is not")
	}
	if _, ok, _ := card.NewPublisher(load(t, file), nil).Extended("delivery", "", "https://a.example", nil, false); ok {
		t.Error("there is an extended card of an agent that has none")
	}
}
