package a2a

import "github.com/go-json-experiment/json/jsontext"

// MarshalJSON returns the canonical JSON of AppendJSON.
func (c AgentCard) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (c AgentCard) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(c.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (c *AgentCard) UnmarshalJSON(data []byte) error { return Unmarshal(data, c) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (c *AgentCard) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, c) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (i AgentInterface) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (i AgentInterface) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(i.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (i *AgentInterface) UnmarshalJSON(data []byte) error { return Unmarshal(data, i) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (i *AgentInterface) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, i) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (p AgentProvider) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (p AgentProvider) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(p.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (p *AgentProvider) UnmarshalJSON(data []byte) error { return Unmarshal(data, p) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (p *AgentProvider) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, p) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (c AgentCapabilities) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (c AgentCapabilities) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(c.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (c *AgentCapabilities) UnmarshalJSON(data []byte) error { return Unmarshal(data, c) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (c *AgentCapabilities) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, c)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (e AgentExtension) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (e AgentExtension) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(e.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (e *AgentExtension) UnmarshalJSON(data []byte) error { return Unmarshal(data, e) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (e *AgentExtension) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, e) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s AgentSkill) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s AgentSkill) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *AgentSkill) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *AgentSkill) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, s) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s AgentCardSignature) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s AgentCardSignature) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *AgentCardSignature) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *AgentCardSignature) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r SecurityRequirement) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r SecurityRequirement) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *SecurityRequirement) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *SecurityRequirement) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s SecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s SecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *SecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *SecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, s) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s APIKeySecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s APIKeySecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *APIKeySecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *APIKeySecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s HTTPAuthSecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s HTTPAuthSecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *HTTPAuthSecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *HTTPAuthSecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s OAuth2SecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s OAuth2SecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *OAuth2SecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *OAuth2SecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s OpenIDConnectSecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s OpenIDConnectSecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *OpenIDConnectSecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *OpenIDConnectSecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s MutualTLSSecurityScheme) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s MutualTLSSecurityScheme) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *MutualTLSSecurityScheme) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *MutualTLSSecurityScheme) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, s)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f OAuthFlows) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f OAuthFlows) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *OAuthFlows) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *OAuthFlows) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, f) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f AuthorizationCodeOAuthFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f AuthorizationCodeOAuthFlow) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *AuthorizationCodeOAuthFlow) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *AuthorizationCodeOAuthFlow) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, f)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f ClientCredentialsOAuthFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f ClientCredentialsOAuthFlow) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *ClientCredentialsOAuthFlow) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *ClientCredentialsOAuthFlow) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, f)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f ImplicitOAuthFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f ImplicitOAuthFlow) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *ImplicitOAuthFlow) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *ImplicitOAuthFlow) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, f)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f PasswordOAuthFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f PasswordOAuthFlow) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *PasswordOAuthFlow) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *PasswordOAuthFlow) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, f)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (f DeviceCodeOAuthFlow) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (f DeviceCodeOAuthFlow) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(f.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (f *DeviceCodeOAuthFlow) UnmarshalJSON(data []byte) error { return Unmarshal(data, f) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (f *DeviceCodeOAuthFlow) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, f)
}
