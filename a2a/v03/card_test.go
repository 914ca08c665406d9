package v03_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

func combined() *a2a.AgentCard {
	yes := true
	return &a2a.AgentCard{
		Name: "Writer", Description: "Writes.", Version: "1.2.0", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: &yes, ExtendedAgentCard: &yes},
		SupportedInterfaces: []a2a.AgentInterface{
			{URL: "https://h.example/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
			{URL: "https://h.example/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "0.3"},
			{URL: "https://h.example/", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "0.3"},
		},
		Skills: []a2a.AgentSkill{{
			ID: "s", Name: "S", Description: "D", Tags: []string{"t"},
			SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"oauth": {"write"}}}},
		}},
		SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"key": {}}}, {Schemes: map[string][]string{"oauth": {"read"}, "tls": {}}}},
		SecuritySchemes: map[string]a2a.SecurityScheme{
			"key":    {APIKey: &a2a.APIKeySecurityScheme{Location: "header", Name: "X-API-Key"}},
			"bearer": {HTTPAuth: &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: "JWT"}},
			"oidc":   {OpenIDConnect: &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://i.example/.well-known/openid-configuration"}},
			"tls":    {MutualTLS: &a2a.MutualTLSSecurityScheme{Description: "A certificate"}},
			"oauth":  {OAuth2: &a2a.OAuth2SecurityScheme{Flows: a2a.OAuthFlows{ClientCredentials: &a2a.ClientCredentialsOAuthFlow{TokenURL: "https://i.example/t", Scopes: map[string]string{"read": "r"}}}}},
		},
	}
}

// sorted returns JSON with its members in order.
func sorted(t *testing.T, b []byte) string {
	t.Helper()
	value := jsontext.Value(append([]byte(nil), b...))
	if err := value.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func TestCombinedCard(t *testing.T) {
	t.Parallel()
	want := combined()
	b := v03.AppendCard(nil, want)
	const text = `{"name":"Writer","description":"Writes.","version":"1.2.0","capabilities":{"streaming":true,"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
		`"supportedInterfaces":[{"url":"https://h.example/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"https://h.example/rpc","protocolBinding":"JSONRPC","protocolVersion":"0.3"},{"url":"https://h.example/","protocolBinding":"HTTP+JSON","protocolVersion":"0.3"}],` +
		`"protocolVersion":"0.3.0","url":"https://h.example/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"https://h.example/rpc","transport":"JSONRPC"},{"url":"https://h.example/","transport":"HTTP+JSON"}],"supportsAuthenticatedExtendedCard":true,` +
		`"security":[{"key":[]},{"oauth":["read"],"tls":[]}],"securityRequirements":[{"schemes":{"key":{}}},{"schemes":{"oauth":{"list":["read"]},"tls":{}}}],"securitySchemes":{` +
		`"bearer":{"type":"http","scheme":"Bearer","bearerFormat":"JWT","httpAuthSecurityScheme":{"scheme":"Bearer","bearerFormat":"JWT"}},` +
		`"key":{"type":"apiKey","in":"header","name":"X-API-Key","apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}},` +
		`"oauth":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://i.example/t","scopes":{"read":"r"}}},"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://i.example/t","scopes":{"read":"r"}}}}},` +
		`"oidc":{"type":"openIdConnect","openIdConnectUrl":"https://i.example/.well-known/openid-configuration","openIdConnectSecurityScheme":{"openIdConnectUrl":"https://i.example/.well-known/openid-configuration"}},` +
		`"tls":{"type":"mutualTLS","description":"A certificate","mtlsSecurityScheme":{"description":"A certificate"}}},` +
		`"skills":[{"id":"s","name":"S","description":"D","tags":["t"],"securityRequirements":[{"schemes":{"oauth":{"list":["write"]}}}],"security":[{"oauth":["write"]}]}]}`
	if diff := cmp.Diff(sorted(t, []byte(text)), sorted(t, b)); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, b)
	}
	// A client of 1.0 reads the same card as ever.
	var got a2a.AgentCard
	if err := a2a.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want.AppendJSON(nil)), string(got.AppendJSON(nil))); diff != "" {
		t.Errorf("as 1.0 (-want +got):\n%s", diff)
	}
	if v03.IsCard(b) {
		t.Error("it is no card of 0.3 only")
	}
	plain := combined()
	plain.SupportedInterfaces = plain.SupportedInterfaces[:1]
	if got := string(v03.AppendCard(nil, plain)); got != string(plain.AppendJSON(nil)) {
		t.Errorf("a card of 1.0 only: %s", got)
	}
}

func TestParseCard(t *testing.T) {
	t.Parallel()
	const in = `{"protocolVersion":"0.3.0","name":"N","description":"D","version":"1","url":"https://h.example/a2a","preferredTransport":"JSONRPC",` +
		`"additionalInterfaces":[{"url":"https://h.example/a2a","transport":"JSONRPC"},{"url":"https://h.example/rest","transport":"HTTP+JSON"}],` +
		`"capabilities":{"streaming":true,"stateTransitionHistory":false},"supportsAuthenticatedExtendedCard":true,"defaultInputModes":["text"],"defaultOutputModes":["text"],` +
		`"securitySchemes":{"g":{"type":"openIdConnect","openIdConnectUrl":"https://i.example/c"},"o":{"type":"oauth2","flows":{"implicit":{"authorizationUrl":"https://i.example/a","scopes":{}},"clientCredentials":{"tokenUrl":"https://i.example/t","scopes":{"a":"b"}}}}},` +
		`"security":[{"g":["openid"]}],"skills":[{"id":"s","name":"S","description":"D","tags":["t"],"security":[{"o":["a"]}]}],"provider":{"organization":"O","url":"https://o.example"}}`
	yes := true
	want := &a2a.AgentCard{
		Name: "N", Description: "D", Version: "1", Provider: &a2a.AgentProvider{Organization: "O", URL: "https://o.example"},
		Capabilities:      a2a.AgentCapabilities{Streaming: &yes, ExtendedAgentCard: &yes},
		DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"},
		SupportedInterfaces: []a2a.AgentInterface{
			{URL: "https://h.example/a2a", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"}, {URL: "https://h.example/rest", ProtocolBinding: "HTTP+JSON", ProtocolVersion: "0.3"},
		},
		SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"g": {"openid"}}}},
		SecuritySchemes: map[string]a2a.SecurityScheme{
			"g": {OpenIDConnect: &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://i.example/c"}},
			"o": {OAuth2: &a2a.OAuth2SecurityScheme{Flows: a2a.OAuthFlows{ClientCredentials: &a2a.ClientCredentialsOAuthFlow{TokenURL: "https://i.example/t", Scopes: map[string]string{"a": "b"}}}}},
		},
		Skills: []a2a.AgentSkill{{ID: "s", Name: "S", Description: "D", Tags: []string{"t"}, SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"o": {"a"}}}}}},
	}
	got, err := v03.ParseCard([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !v03.IsCard([]byte(in)) {
		t.Error("it is a card of 0.3")
	}
	// The card of the seed has an address and no version of the protocol.
	if seed := []byte(`{"schemaVersion":"1.0","name":"research-agent","url":"https://research.example.com/a2a","skills":[],"capabilities":{}}`); !v03.IsCard(seed) {
		t.Error("the card of the seed")
	}
}
