package a2a

// AppendJSON appends the canonical JSON of the card, with the fields that are
// part of its signed form (A2A §8.4.1).
func (c *AgentCard) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "name", c.Name)
	dst = appendText(dst, "description", c.Description)
	dst = appendList(dst, "supportedInterfaces", c.SupportedInterfaces)
	dst = optObject(dst, "provider", c.Provider)
	dst = appendText(dst, "version", c.Version)
	dst = optTextPointer(dst, "documentationUrl", c.DocumentationURL)
	dst = c.Capabilities.AppendJSON(appendKey(dst, "capabilities"))
	if len(c.SecuritySchemes) > 0 {
		dst = appendSecuritySchemes(appendKey(dst, "securitySchemes"), c.SecuritySchemes)
	}
	dst = optList(dst, "securityRequirements", c.SecurityRequirements)
	dst = appendTexts(dst, "defaultInputModes", c.DefaultInputModes)
	dst = appendTexts(dst, "defaultOutputModes", c.DefaultOutputModes)
	dst = appendList(dst, "skills", c.Skills)
	dst = optList(dst, "signatures", c.Signatures)
	dst = optTextPointer(dst, "iconUrl", c.IconURL)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the interface.
func (i *AgentInterface) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "url", i.URL)
	dst = appendText(dst, "protocolBinding", i.ProtocolBinding)
	dst = optText(dst, "tenant", i.Tenant)
	dst = appendText(dst, "protocolVersion", i.ProtocolVersion)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the provider.
func (p *AgentProvider) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "url", p.URL)
	dst = appendText(dst, "organization", p.Organization)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the capabilities.
func (c *AgentCapabilities) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optBoolPointer(dst, "streaming", c.Streaming)
	dst = optBoolPointer(dst, "pushNotifications", c.PushNotifications)
	dst = optList(dst, "extensions", c.Extensions)
	dst = optBoolPointer(dst, "extendedAgentCard", c.ExtendedAgentCard)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the extension.
func (e *AgentExtension) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "uri", e.URI)
	dst = optText(dst, "description", e.Description)
	dst = optBool(dst, "required", e.Required)
	dst = optRaw(dst, "params", e.Params)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the skill.
func (s *AgentSkill) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "id", s.ID)
	dst = appendText(dst, "name", s.Name)
	dst = appendText(dst, "description", s.Description)
	dst = appendTexts(dst, "tags", s.Tags)
	dst = optTexts(dst, "examples", s.Examples)
	dst = optTexts(dst, "inputModes", s.InputModes)
	dst = optTexts(dst, "outputModes", s.OutputModes)
	dst = optList(dst, "securityRequirements", s.SecurityRequirements)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the signature.
func (s *AgentCardSignature) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "protected", s.Protected)
	dst = appendText(dst, "signature", s.Signature)
	dst = optRaw(dst, "header", s.Header)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the requirement.
func (r *SecurityRequirement) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if len(r.Schemes) == 0 {
		return append(dst, '}')
	}
	dst = append(appendKey(dst, "schemes"), '{')
	for i, name := range sortedKeys(r.Schemes) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, name), ':', '{')
		dst = optTexts(dst, "list", r.Schemes[name])
		dst = append(dst, '}')
	}
	return append(dst, '}', '}')
}

func appendSecuritySchemes(dst []byte, schemes map[string]SecurityScheme) []byte {
	dst = append(dst, '{')
	for i, name := range sortedKeys(schemes) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, name), ':')
		scheme := schemes[name]
		dst = scheme.AppendJSON(dst)
	}
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *SecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optObject(dst, "apiKeySecurityScheme", s.APIKey)
	dst = optObject(dst, "httpAuthSecurityScheme", s.HTTPAuth)
	dst = optObject(dst, "oauth2SecurityScheme", s.OAuth2)
	dst = optObject(dst, "openIdConnectSecurityScheme", s.OpenIDConnect)
	dst = optObject(dst, "mtlsSecurityScheme", s.MutualTLS)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *APIKeySecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "description", s.Description)
	dst = appendText(dst, "location", s.Location)
	dst = appendText(dst, "name", s.Name)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *HTTPAuthSecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "description", s.Description)
	dst = appendText(dst, "scheme", s.Scheme)
	dst = optText(dst, "bearerFormat", s.BearerFormat)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *OAuth2SecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "description", s.Description)
	dst = s.Flows.AppendJSON(appendKey(dst, "flows"))
	dst = optText(dst, "oauth2MetadataUrl", s.OAuth2MetadataURL)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *OpenIDConnectSecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "description", s.Description)
	dst = appendText(dst, "openIdConnectUrl", s.OpenIDConnectURL)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the scheme.
func (s *MutualTLSSecurityScheme) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "description", s.Description)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *OAuthFlows) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optObject(dst, "authorizationCode", f.AuthorizationCode)
	dst = optObject(dst, "clientCredentials", f.ClientCredentials)
	dst = optObject(dst, "implicit", f.Implicit)
	dst = optObject(dst, "password", f.Password)
	dst = optObject(dst, "deviceCode", f.DeviceCode)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *AuthorizationCodeOAuthFlow) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "authorizationUrl", f.AuthorizationURL)
	dst = appendText(dst, "tokenUrl", f.TokenURL)
	dst = optText(dst, "refreshUrl", f.RefreshURL)
	dst = appendTextMap(dst, "scopes", f.Scopes)
	dst = optBool(dst, "pkceRequired", f.PKCERequired)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *ClientCredentialsOAuthFlow) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "tokenUrl", f.TokenURL)
	dst = optText(dst, "refreshUrl", f.RefreshURL)
	dst = appendTextMap(dst, "scopes", f.Scopes)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *ImplicitOAuthFlow) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "authorizationUrl", f.AuthorizationURL)
	dst = optText(dst, "refreshUrl", f.RefreshURL)
	dst = optTextMap(dst, "scopes", f.Scopes)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *PasswordOAuthFlow) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tokenUrl", f.TokenURL)
	dst = optText(dst, "refreshUrl", f.RefreshURL)
	dst = optTextMap(dst, "scopes", f.Scopes)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the flow.
func (f *DeviceCodeOAuthFlow) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "deviceAuthorizationUrl", f.DeviceAuthorizationURL)
	dst = appendText(dst, "tokenUrl", f.TokenURL)
	dst = optText(dst, "refreshUrl", f.RefreshURL)
	dst = appendTextMap(dst, "scopes", f.Scopes)
	return append(dst, '}')
}
