package a2a

func (c *AgentCard) decode(d *decoder) {
	*c = AgentCard{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "name":
			m.field(d, 0, "name")
			c.Name = d.text()
		case "description":
			m.field(d, 1, "description")
			c.Description = d.text()
		case "supportedInterfaces", "supported_interfaces":
			m.field(d, 2, "supportedInterfaces")
			c.SupportedInterfaces = decodeList[AgentInterface](d)
		case "provider":
			m.field(d, 3, "provider")
			c.Provider = decodePointer[AgentProvider](d)
		case "version":
			m.field(d, 4, "version")
			c.Version = d.text()
		case "documentationUrl", "documentation_url":
			m.field(d, 5, "documentationUrl")
			c.DocumentationURL = d.textPointer()
		case "capabilities":
			m.field(d, 6, "capabilities")
			c.Capabilities.decode(d)
		case "securitySchemes", "security_schemes":
			m.field(d, 7, "securitySchemes")
			c.SecuritySchemes = d.securitySchemes()
		case "securityRequirements", "security_requirements":
			m.field(d, 8, "securityRequirements")
			c.SecurityRequirements = decodeList[SecurityRequirement](d)
		case "defaultInputModes", "default_input_modes":
			m.field(d, 9, "defaultInputModes")
			c.DefaultInputModes = d.texts()
		case "defaultOutputModes", "default_output_modes":
			m.field(d, 10, "defaultOutputModes")
			c.DefaultOutputModes = d.texts()
		case "skills":
			m.field(d, 11, "skills")
			c.Skills = decodeList[AgentSkill](d)
		case "signatures":
			m.field(d, 12, "signatures")
			c.Signatures = decodeList[AgentCardSignature](d)
		case "iconUrl", "icon_url":
			m.field(d, 13, "iconUrl")
			c.IconURL = d.textPointer()
		default:
			d.skip()
		}
	}
}

func (i *AgentInterface) decode(d *decoder) {
	*i = AgentInterface{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "url":
			m.field(d, 0, "url")
			i.URL = d.text()
		case "protocolBinding", "protocol_binding":
			m.field(d, 1, "protocolBinding")
			i.ProtocolBinding = d.text()
		case "tenant":
			m.field(d, 2, "tenant")
			i.Tenant = d.text()
		case "protocolVersion", "protocol_version":
			m.field(d, 3, "protocolVersion")
			i.ProtocolVersion = d.text()
		default:
			d.skip()
		}
	}
}

func (p *AgentProvider) decode(d *decoder) {
	*p = AgentProvider{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "url":
			m.field(d, 0, "url")
			p.URL = d.text()
		case "organization":
			m.field(d, 1, "organization")
			p.Organization = d.text()
		default:
			d.skip()
		}
	}
}

func (c *AgentCapabilities) decode(d *decoder) {
	*c = AgentCapabilities{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "streaming":
			m.field(d, 0, "streaming")
			c.Streaming = d.booleanPointer()
		case "pushNotifications", "push_notifications":
			m.field(d, 1, "pushNotifications")
			c.PushNotifications = d.booleanPointer()
		case "extensions":
			m.field(d, 2, "extensions")
			c.Extensions = decodeList[AgentExtension](d)
		case "extendedAgentCard", "extended_agent_card":
			m.field(d, 3, "extendedAgentCard")
			c.ExtendedAgentCard = d.booleanPointer()
		default:
			d.skip()
		}
	}
}

func (e *AgentExtension) decode(d *decoder) {
	*e = AgentExtension{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "uri":
			m.field(d, 0, "uri")
			e.URI = d.text()
		case "description":
			m.field(d, 1, "description")
			e.Description = d.text()
		case "required":
			m.field(d, 2, "required")
			e.Required = d.boolean()
		case "params":
			m.field(d, 3, "params")
			e.Params = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (s *AgentSkill) decode(d *decoder) {
	*s = AgentSkill{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "id":
			m.field(d, 0, "id")
			s.ID = d.text()
		case "name":
			m.field(d, 1, "name")
			s.Name = d.text()
		case "description":
			m.field(d, 2, "description")
			s.Description = d.text()
		case "tags":
			m.field(d, 3, "tags")
			s.Tags = d.texts()
		case "examples":
			m.field(d, 4, "examples")
			s.Examples = d.texts()
		case "inputModes", "input_modes":
			m.field(d, 5, "inputModes")
			s.InputModes = d.texts()
		case "outputModes", "output_modes":
			m.field(d, 6, "outputModes")
			s.OutputModes = d.texts()
		case "securityRequirements", "security_requirements":
			m.field(d, 7, "securityRequirements")
			s.SecurityRequirements = decodeList[SecurityRequirement](d)
		default:
			d.skip()
		}
	}
}

func (s *AgentCardSignature) decode(d *decoder) {
	*s = AgentCardSignature{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "protected":
			m.field(d, 0, "protected")
			s.Protected = d.text()
		case "signature":
			m.field(d, 1, "signature")
			s.Signature = d.text()
		case "header":
			m.field(d, 2, "header")
			s.Header = d.rawObject()
		default:
			d.skip()
		}
	}
}
