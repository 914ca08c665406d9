package a2a

func (s *SecurityScheme) decode(d *decoder) {
	*s = SecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "apiKeySecurityScheme", "api_key_security_scheme":
			m.field(d, 0, "apiKeySecurityScheme")
			s.APIKey = decodePointer[APIKeySecurityScheme](d)
		case "httpAuthSecurityScheme", "http_auth_security_scheme":
			m.field(d, 1, "httpAuthSecurityScheme")
			s.HTTPAuth = decodePointer[HTTPAuthSecurityScheme](d)
		case "oauth2SecurityScheme", "oauth2_security_scheme":
			m.field(d, 2, "oauth2SecurityScheme")
			s.OAuth2 = decodePointer[OAuth2SecurityScheme](d)
		case "openIdConnectSecurityScheme", "open_id_connect_security_scheme":
			m.field(d, 3, "openIdConnectSecurityScheme")
			s.OpenIDConnect = decodePointer[OpenIDConnectSecurityScheme](d)
		case "mtlsSecurityScheme", "mtls_security_scheme":
			m.field(d, 4, "mtlsSecurityScheme")
			s.MutualTLS = decodePointer[MutualTLSSecurityScheme](d)
		default:
			d.skip()
		}
	}
	d.atMostOne(s.APIKey != nil, s.HTTPAuth != nil, s.OAuth2 != nil, s.OpenIDConnect != nil, s.MutualTLS != nil)
}

func (s *APIKeySecurityScheme) decode(d *decoder) {
	*s = APIKeySecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "description":
			m.field(d, 0, "description")
			s.Description = d.text()
		case "location":
			m.field(d, 1, "location")
			s.Location = d.text()
		case "name":
			m.field(d, 2, "name")
			s.Name = d.text()
		default:
			d.skip()
		}
	}
}

func (s *HTTPAuthSecurityScheme) decode(d *decoder) {
	*s = HTTPAuthSecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "description":
			m.field(d, 0, "description")
			s.Description = d.text()
		case "scheme":
			m.field(d, 1, "scheme")
			s.Scheme = d.text()
		case "bearerFormat", "bearer_format":
			m.field(d, 2, "bearerFormat")
			s.BearerFormat = d.text()
		default:
			d.skip()
		}
	}
}

func (s *OAuth2SecurityScheme) decode(d *decoder) {
	*s = OAuth2SecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "description":
			m.field(d, 0, "description")
			s.Description = d.text()
		case "flows":
			m.field(d, 1, "flows")
			s.Flows.decode(d)
		case "oauth2MetadataUrl", "oauth2_metadata_url":
			m.field(d, 2, "oauth2MetadataUrl")
			s.OAuth2MetadataURL = d.text()
		default:
			d.skip()
		}
	}
}

func (s *OpenIDConnectSecurityScheme) decode(d *decoder) {
	*s = OpenIDConnectSecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "description":
			m.field(d, 0, "description")
			s.Description = d.text()
		case "openIdConnectUrl", "open_id_connect_url":
			m.field(d, 1, "openIdConnectUrl")
			s.OpenIDConnectURL = d.text()
		default:
			d.skip()
		}
	}
}

func (s *MutualTLSSecurityScheme) decode(d *decoder) {
	*s = MutualTLSSecurityScheme{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "description":
			m.field(d, 0, "description")
			s.Description = d.text()
		default:
			d.skip()
		}
	}
}

func (f *OAuthFlows) decode(d *decoder) {
	*f = OAuthFlows{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "authorizationCode", "authorization_code":
			m.field(d, 0, "authorizationCode")
			f.AuthorizationCode = decodePointer[AuthorizationCodeOAuthFlow](d)
		case "clientCredentials", "client_credentials":
			m.field(d, 1, "clientCredentials")
			f.ClientCredentials = decodePointer[ClientCredentialsOAuthFlow](d)
		case "implicit":
			m.field(d, 2, "implicit")
			f.Implicit = decodePointer[ImplicitOAuthFlow](d)
		case "password":
			m.field(d, 3, "password")
			f.Password = decodePointer[PasswordOAuthFlow](d)
		case "deviceCode", "device_code":
			m.field(d, 4, "deviceCode")
			f.DeviceCode = decodePointer[DeviceCodeOAuthFlow](d)
		default:
			d.skip()
		}
	}
	d.atMostOne(f.AuthorizationCode != nil, f.ClientCredentials != nil, f.Implicit != nil, f.Password != nil, f.DeviceCode != nil)
}

func (f *AuthorizationCodeOAuthFlow) decode(d *decoder) {
	*f = AuthorizationCodeOAuthFlow{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "authorizationUrl", "authorization_url":
			m.field(d, 0, "authorizationUrl")
			f.AuthorizationURL = d.text()
		case "tokenUrl", "token_url":
			m.field(d, 1, "tokenUrl")
			f.TokenURL = d.text()
		case "refreshUrl", "refresh_url":
			m.field(d, 2, "refreshUrl")
			f.RefreshURL = d.text()
		case "scopes":
			m.field(d, 3, "scopes")
			f.Scopes = d.textMap()
		case "pkceRequired", "pkce_required":
			m.field(d, 4, "pkceRequired")
			f.PKCERequired = d.boolean()
		default:
			d.skip()
		}
	}
}

func (f *ClientCredentialsOAuthFlow) decode(d *decoder) {
	*f = ClientCredentialsOAuthFlow{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tokenUrl", "token_url":
			m.field(d, 0, "tokenUrl")
			f.TokenURL = d.text()
		case "refreshUrl", "refresh_url":
			m.field(d, 1, "refreshUrl")
			f.RefreshURL = d.text()
		case "scopes":
			m.field(d, 2, "scopes")
			f.Scopes = d.textMap()
		default:
			d.skip()
		}
	}
}

func (f *ImplicitOAuthFlow) decode(d *decoder) {
	*f = ImplicitOAuthFlow{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "authorizationUrl", "authorization_url":
			m.field(d, 0, "authorizationUrl")
			f.AuthorizationURL = d.text()
		case "refreshUrl", "refresh_url":
			m.field(d, 1, "refreshUrl")
			f.RefreshURL = d.text()
		case "scopes":
			m.field(d, 2, "scopes")
			f.Scopes = d.textMap()
		default:
			d.skip()
		}
	}
}

func (f *PasswordOAuthFlow) decode(d *decoder) {
	*f = PasswordOAuthFlow{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tokenUrl", "token_url":
			m.field(d, 0, "tokenUrl")
			f.TokenURL = d.text()
		case "refreshUrl", "refresh_url":
			m.field(d, 1, "refreshUrl")
			f.RefreshURL = d.text()
		case "scopes":
			m.field(d, 2, "scopes")
			f.Scopes = d.textMap()
		default:
			d.skip()
		}
	}
}

func (f *DeviceCodeOAuthFlow) decode(d *decoder) {
	*f = DeviceCodeOAuthFlow{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "deviceAuthorizationUrl", "device_authorization_url":
			m.field(d, 0, "deviceAuthorizationUrl")
			f.DeviceAuthorizationURL = d.text()
		case "tokenUrl", "token_url":
			m.field(d, 1, "tokenUrl")
			f.TokenURL = d.text()
		case "refreshUrl", "refresh_url":
			m.field(d, 2, "refreshUrl")
			f.RefreshURL = d.text()
		case "scopes":
			m.field(d, 3, "scopes")
			f.Scopes = d.textMap()
		default:
			d.skip()
		}
	}
}

// securitySchemes reads a map of security schemes; nil when it is null.
func (d *decoder) securitySchemes() map[string]SecurityScheme {
	if d.null() {
		return nil
	}
	schemes := map[string]SecurityScheme{}
	for m := d.object(); m.next(d); {
		name := string(d.key)
		m.entry(d, name)
		var s SecurityScheme
		s.decode(d)
		schemes[name] = s
	}
	return schemes
}

func (r *SecurityRequirement) decode(d *decoder) {
	*r = SecurityRequirement{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "schemes":
			m.field(d, 0, "schemes")
			r.Schemes = d.scopeLists()
		default:
			d.skip()
		}
	}
}

// scopeLists reads a map of StringList objects; nil when it is null.
func (d *decoder) scopeLists() map[string][]string {
	if d.null() {
		return nil
	}
	lists := map[string][]string{}
	for m := d.object(); m.next(d); {
		name := string(d.key)
		m.entry(d, name)
		lists[name] = d.stringList()
	}
	return lists
}

// stringList reads the object that the protocol wraps a list of strings in.
func (d *decoder) stringList() []string {
	list := []string{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "list":
			m.field(d, 0, "list")
			if texts := d.texts(); texts != nil {
				list = texts
			}
		default:
			d.skip()
		}
	}
	return list
}
