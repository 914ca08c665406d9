package card

// presence says when a field is a part of the canonical form (A2A §8.4.1).
type presence uint8

const (
	implicit presence = iota // unless it has its default value
	explicit                 // when it is there, whatever its value
	required                 // always, and a card without it is not signed
)

// kind is what the values of a field are.
type kind uint8

const (
	scalar   kind = iota
	list          // of messages, or of scalars when there is no message
	mapping       // to messages, or to scalars when there is no message
	nested        // a message
	freeform      // any JSON object
)

type field struct {
	kind     kind
	presence presence
	message  message
}

// message has the fields of a message of a2a.proto by their JSON names.
type message map[string]field

// The messages that an agent card is made of (A2A §4.4, §4.5).
var (
	cardMessage = message{
		"name":                 {scalar, required, nil},
		"description":          {scalar, required, nil},
		"supportedInterfaces":  {list, required, interfaceMessage},
		"provider":             {nested, explicit, providerMessage},
		"version":              {scalar, required, nil},
		"documentationUrl":     {scalar, explicit, nil},
		"capabilities":         {nested, required, capabilitiesMessage},
		"securitySchemes":      {mapping, implicit, schemeMessage},
		"securityRequirements": {list, implicit, requirementMessage},
		"defaultInputModes":    {list, required, nil},
		"defaultOutputModes":   {list, required, nil},
		"skills":               {list, required, skillMessage},
		"signatures":           {list, implicit, signatureMessage},
		"iconUrl":              {scalar, explicit, nil},
	}
	interfaceMessage = message{
		"url":             {scalar, required, nil},
		"protocolBinding": {scalar, required, nil},
		"tenant":          {scalar, implicit, nil},
		"protocolVersion": {scalar, required, nil},
	}
	providerMessage = message{
		"url":          {scalar, required, nil},
		"organization": {scalar, required, nil},
	}
	capabilitiesMessage = message{
		"streaming":         {scalar, explicit, nil},
		"pushNotifications": {scalar, explicit, nil},
		"extensions":        {list, implicit, extensionMessage},
		"extendedAgentCard": {scalar, explicit, nil},
	}
	extensionMessage = message{
		"uri":         {scalar, implicit, nil},
		"description": {scalar, implicit, nil},
		"required":    {scalar, implicit, nil},
		"params":      {freeform, explicit, nil},
	}
	skillMessage = message{
		"id":                   {scalar, required, nil},
		"name":                 {scalar, required, nil},
		"description":          {scalar, required, nil},
		"tags":                 {list, required, nil},
		"examples":             {list, implicit, nil},
		"inputModes":           {list, implicit, nil},
		"outputModes":          {list, implicit, nil},
		"securityRequirements": {list, implicit, requirementMessage},
	}
	signatureMessage = message{
		"protected": {scalar, required, nil},
		"signature": {scalar, required, nil},
		"header":    {freeform, explicit, nil},
	}
	requirementMessage = message{
		"schemes": {mapping, implicit, stringListMessage},
	}
	stringListMessage = message{
		"list": {list, implicit, nil},
	}
	schemeMessage = message{
		"apiKeySecurityScheme":        {nested, explicit, apiKeyMessage},
		"httpAuthSecurityScheme":      {nested, explicit, httpAuthMessage},
		"oauth2SecurityScheme":        {nested, explicit, oauth2Message},
		"openIdConnectSecurityScheme": {nested, explicit, openIDConnectMessage},
		"mtlsSecurityScheme":          {nested, explicit, mutualTLSMessage},
	}
	apiKeyMessage = message{
		"description": {scalar, implicit, nil},
		"location":    {scalar, required, nil},
		"name":        {scalar, required, nil},
	}
	httpAuthMessage = message{
		"description":  {scalar, implicit, nil},
		"scheme":       {scalar, required, nil},
		"bearerFormat": {scalar, implicit, nil},
	}
	oauth2Message = message{
		"description":       {scalar, implicit, nil},
		"flows":             {nested, required, flowsMessage},
		"oauth2MetadataUrl": {scalar, implicit, nil},
	}
	openIDConnectMessage = message{
		"description":      {scalar, implicit, nil},
		"openIdConnectUrl": {scalar, required, nil},
	}
	mutualTLSMessage = message{
		"description": {scalar, implicit, nil},
	}
	flowsMessage = message{
		"authorizationCode": {nested, explicit, authorizationCodeMessage},
		"clientCredentials": {nested, explicit, clientCredentialsMessage},
		"implicit":          {nested, explicit, implicitFlowMessage},
		"password":          {nested, explicit, passwordMessage},
		"deviceCode":        {nested, explicit, deviceCodeMessage},
	}
	authorizationCodeMessage = message{
		"authorizationUrl": {scalar, required, nil},
		"tokenUrl":         {scalar, required, nil},
		"refreshUrl":       {scalar, implicit, nil},
		"scopes":           {mapping, required, nil},
		"pkceRequired":     {scalar, implicit, nil},
	}
	clientCredentialsMessage = message{
		"tokenUrl":   {scalar, required, nil},
		"refreshUrl": {scalar, implicit, nil},
		"scopes":     {mapping, required, nil},
	}
	implicitFlowMessage = message{
		"authorizationUrl": {scalar, implicit, nil},
		"refreshUrl":       {scalar, implicit, nil},
		"scopes":           {mapping, implicit, nil},
	}
	passwordMessage = message{
		"tokenUrl":   {scalar, implicit, nil},
		"refreshUrl": {scalar, implicit, nil},
		"scopes":     {mapping, implicit, nil},
	}
	deviceCodeMessage = message{
		"deviceAuthorizationUrl": {scalar, required, nil},
		"tokenUrl":               {scalar, required, nil},
		"refreshUrl":             {scalar, implicit, nil},
		"scopes":                 {mapping, required, nil},
	}
)
