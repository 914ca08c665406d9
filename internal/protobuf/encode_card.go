package protobuf

import (
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"handoff.example/handoff/a2a"
)

// protoOfCard returns an agent card as a message of protobuf, which is how the
// extended card is answered over gRPC.
func protoOfCard(v *a2a.AgentCard) (*pb.AgentCard, error) {
	m := &pb.AgentCard{
		Name: v.Name, Description: v.Description, Version: v.Version,
		DocumentationUrl: v.DocumentationURL, IconUrl: v.IconURL,
		DefaultInputModes: v.DefaultInputModes, DefaultOutputModes: v.DefaultOutputModes,
		SecurityRequirements: protoOfRequirements(v.SecurityRequirements),
	}
	for _, i := range v.SupportedInterfaces {
		m.SupportedInterfaces = append(m.SupportedInterfaces, &pb.AgentInterface{
			Url: i.URL, ProtocolBinding: i.ProtocolBinding, Tenant: i.Tenant, ProtocolVersion: i.ProtocolVersion,
		})
	}
	if p := v.Provider; p != nil {
		m.Provider = &pb.AgentProvider{Url: p.URL, Organization: p.Organization}
	}
	for name, scheme := range v.SecuritySchemes {
		if m.SecuritySchemes == nil {
			m.SecuritySchemes = map[string]*pb.SecurityScheme{}
		}
		m.SecuritySchemes[name] = protoOfScheme(&scheme)
	}
	for i := range v.Skills {
		m.Skills = append(m.Skills, protoOfSkill(&v.Skills[i]))
	}
	var err error
	if m.Capabilities, err = protoOfCapabilities(&v.Capabilities); err != nil {
		return nil, err
	}
	m.Signatures, err = protoList(v.Signatures, protoOfSignature)
	return m, err
}

func protoOfCapabilities(v *a2a.AgentCapabilities) (*pb.AgentCapabilities, error) {
	m := &pb.AgentCapabilities{
		Streaming: v.Streaming, PushNotifications: v.PushNotifications, ExtendedAgentCard: v.ExtendedAgentCard,
	}
	var err error
	m.Extensions, err = protoList(v.Extensions, func(e *a2a.AgentExtension) (*pb.AgentExtension, error) {
		params, err := structOfJSON(e.Params)
		return &pb.AgentExtension{Uri: e.URI, Description: e.Description, Required: e.Required, Params: params}, err
	})
	return m, err
}

func protoOfSignature(v *a2a.AgentCardSignature) (*pb.AgentCardSignature, error) {
	header, err := structOfJSON(v.Header)
	return &pb.AgentCardSignature{Protected: v.Protected, Signature: v.Signature, Header: header}, err
}

func protoOfSkill(v *a2a.AgentSkill) *pb.AgentSkill {
	return &pb.AgentSkill{
		Id: v.ID, Name: v.Name, Description: v.Description, Tags: v.Tags, Examples: v.Examples,
		InputModes: v.InputModes, OutputModes: v.OutputModes,
		SecurityRequirements: protoOfRequirements(v.SecurityRequirements),
	}
}

func protoOfRequirements(list []a2a.SecurityRequirement) []*pb.SecurityRequirement {
	var encoded []*pb.SecurityRequirement
	for _, r := range list {
		m := &pb.SecurityRequirement{Schemes: map[string]*pb.StringList{}}
		for name, scopes := range r.Schemes {
			m.Schemes[name] = &pb.StringList{List: scopes}
		}
		encoded = append(encoded, m)
	}
	return encoded
}

func protoOfScheme(v *a2a.SecurityScheme) *pb.SecurityScheme {
	m := &pb.SecurityScheme{}
	switch {
	case v.APIKey != nil:
		m.Scheme = &pb.SecurityScheme_ApiKeySecurityScheme{ApiKeySecurityScheme: &pb.APIKeySecurityScheme{
			Description: v.APIKey.Description, Location: v.APIKey.Location, Name: v.APIKey.Name,
		}}
	case v.HTTPAuth != nil:
		m.Scheme = &pb.SecurityScheme_HttpAuthSecurityScheme{HttpAuthSecurityScheme: &pb.HTTPAuthSecurityScheme{
			Description: v.HTTPAuth.Description, Scheme: v.HTTPAuth.Scheme, BearerFormat: v.HTTPAuth.BearerFormat,
		}}
	case v.OAuth2 != nil:
		m.Scheme = &pb.SecurityScheme_Oauth2SecurityScheme{Oauth2SecurityScheme: &pb.OAuth2SecurityScheme{
			Description: v.OAuth2.Description, Flows: protoOfFlows(&v.OAuth2.Flows), Oauth2MetadataUrl: v.OAuth2.OAuth2MetadataURL,
		}}
	case v.OpenIDConnect != nil:
		m.Scheme = &pb.SecurityScheme_OpenIdConnectSecurityScheme{OpenIdConnectSecurityScheme: &pb.OpenIdConnectSecurityScheme{
			Description: v.OpenIDConnect.Description, OpenIdConnectUrl: v.OpenIDConnect.OpenIDConnectURL,
		}}
	case v.MutualTLS != nil:
		m.Scheme = &pb.SecurityScheme_MtlsSecurityScheme{MtlsSecurityScheme: &pb.MutualTlsSecurityScheme{
			Description: v.MutualTLS.Description,
		}}
	}
	return m
}

func protoOfFlows(v *a2a.OAuthFlows) *pb.OAuthFlows {
	m := &pb.OAuthFlows{}
	switch {
	case v.AuthorizationCode != nil:
		f := v.AuthorizationCode
		m.Flow = &pb.OAuthFlows_AuthorizationCode{AuthorizationCode: &pb.AuthorizationCodeOAuthFlow{
			AuthorizationUrl: f.AuthorizationURL, TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes, PkceRequired: f.PKCERequired,
		}}
	case v.ClientCredentials != nil:
		f := v.ClientCredentials
		m.Flow = &pb.OAuthFlows_ClientCredentials{ClientCredentials: &pb.ClientCredentialsOAuthFlow{
			TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case v.Implicit != nil:
		f := v.Implicit
		//lint:ignore SA1019 cards may still have this flow (A2A §4.5)
		m.Flow = &pb.OAuthFlows_Implicit{Implicit: &pb.ImplicitOAuthFlow{
			AuthorizationUrl: f.AuthorizationURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case v.Password != nil:
		f := v.Password
		//lint:ignore SA1019 cards may still have this flow (A2A §4.5)
		m.Flow = &pb.OAuthFlows_Password{Password: &pb.PasswordOAuthFlow{
			TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case v.DeviceCode != nil:
		f := v.DeviceCode
		m.Flow = &pb.OAuthFlows_DeviceCode{DeviceCode: &pb.DeviceCodeOAuthFlow{
			DeviceAuthorizationUrl: f.DeviceAuthorizationURL, TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	}
	return m
}
