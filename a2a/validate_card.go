package a2a

import "slices"

// Validate checks that the card has all fields that the protocol requires
// (A2A §4.4) and names every one that is missing in one CodeInvalidParams error.
// The list of skills may be empty.
func (c *AgentCard) Validate() error {
	var k checker
	k.required("name", c.Name)
	k.required("description", c.Description)
	k.required("version", c.Version)
	k.atLeastOne("supportedInterfaces", len(c.SupportedInterfaces))
	for i, f := range c.SupportedInterfaces {
		path := element("supportedInterfaces", i)
		k.required(path+".url", f.URL)
		k.required(path+".protocolBinding", f.ProtocolBinding)
		k.required(path+".protocolVersion", f.ProtocolVersion)
	}
	if c.Provider != nil {
		k.required("provider.url", c.Provider.URL)
		k.required("provider.organization", c.Provider.Organization)
	}
	k.atLeastOne("defaultInputModes", len(c.DefaultInputModes))
	k.atLeastOne("defaultOutputModes", len(c.DefaultOutputModes))
	for i, e := range c.Capabilities.Extensions {
		path := element("capabilities.extensions", i)
		k.required(path+".uri", e.URI)
		k.object(path+".params", e.Params)
	}
	for i, s := range c.Skills {
		path := element("skills", i)
		k.required(path+".id", s.ID)
		k.required(path+".name", s.Name)
		k.required(path+".description", s.Description)
		k.atLeastOne(path+".tags", len(s.Tags))
	}
	for i, s := range c.Signatures {
		path := element("signatures", i)
		k.required(path+".protected", s.Protected)
		k.required(path+".signature", s.Signature)
		k.object(path+".header", s.Header)
	}
	for _, name := range sortedKeys(c.SecuritySchemes) {
		scheme := c.SecuritySchemes[name]
		scheme.check(&k, "securitySchemes."+truncate(name, maxPathName))
	}
	return k.err()
}

func (s *SecurityScheme) check(k *checker, path string) {
	k.exactlyOne(path, s.APIKey != nil, s.HTTPAuth != nil, s.OAuth2 != nil, s.OpenIDConnect != nil, s.MutualTLS != nil)
	if a := s.APIKey; a != nil {
		path := path + ".apiKeySecurityScheme"
		if !slices.Contains([]string{"query", "header", "cookie"}, a.Location) {
			k.add(path+".location", "must be query, header or cookie")
		}
		k.required(path+".name", a.Name)
	}
	if h := s.HTTPAuth; h != nil {
		k.required(path+".httpAuthSecurityScheme.scheme", h.Scheme)
	}
	if o := s.OAuth2; o != nil {
		o.Flows.check(k, path+".oauth2SecurityScheme.flows")
	}
	if o := s.OpenIDConnect; o != nil {
		k.required(path+".openIdConnectSecurityScheme.openIdConnectUrl", o.OpenIDConnectURL)
	}
}

func (f *OAuthFlows) check(k *checker, path string) {
	k.exactlyOne(path, f.AuthorizationCode != nil, f.ClientCredentials != nil, f.Implicit != nil, f.Password != nil, f.DeviceCode != nil)
	if a := f.AuthorizationCode; a != nil {
		k.required(path+".authorizationCode.authorizationUrl", a.AuthorizationURL)
		k.required(path+".authorizationCode.tokenUrl", a.TokenURL)
	}
	if c := f.ClientCredentials; c != nil {
		k.required(path+".clientCredentials.tokenUrl", c.TokenURL)
	}
	if d := f.DeviceCode; d != nil {
		k.required(path+".deviceCode.deviceAuthorizationUrl", d.DeviceAuthorizationURL)
		k.required(path+".deviceCode.tokenUrl", d.TokenURL)
	}
}

// exactlyOne checks a oneof of which those fields are set.
func (k *checker) exactlyOne(path string, set ...bool) {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	if n != 1 {
		k.add(path, "needs exactly one of its fields")
	}
}
