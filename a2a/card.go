package a2a

// AgentCard describes an agent: who it is, where and how it is reached, and
// what it can do (A2A §4.4.1).
type AgentCard struct {
	Name                 string
	Description          string
	SupportedInterfaces  []AgentInterface // in order of preference
	Provider             *AgentProvider
	Version              string // of the agent
	DocumentationURL     *string
	Capabilities         AgentCapabilities
	SecuritySchemes      map[string]SecurityScheme
	SecurityRequirements []SecurityRequirement
	DefaultInputModes    []string // media types
	DefaultOutputModes   []string // media types
	Skills               []AgentSkill
	Signatures           []AgentCardSignature
	IconURL              *string
}

// AgentInterface is one address at which an agent speaks one binding of one
// protocol version (A2A §4.4.6).
type AgentInterface struct {
	URL             string
	ProtocolBinding string // BindingJSONRPC, BindingREST, BindingGRPC or a URI
	Tenant          string // echoed by the client in every request, when set
	ProtocolVersion string // Major.Minor
}

// AgentProvider is the organization behind an agent (A2A §4.4.2).
type AgentProvider struct {
	URL          string
	Organization string
}

// AgentCapabilities says which optional parts of the protocol an agent supports
// (A2A §4.4.3). A nil pointer is an undeclared capability, which counts as
// false.
type AgentCapabilities struct {
	Streaming         *bool
	PushNotifications *bool
	Extensions        []AgentExtension
	ExtendedAgentCard *bool
}

// AgentExtension declares a protocol extension (A2A §4.4.4, §4.6).
type AgentExtension struct {
	URI         string
	Description string
	Required    bool // clients must opt in
	Params      JSON // an object, or nil
}

// AgentSkill is something an agent can do (A2A §4.4.5).
type AgentSkill struct {
	ID                   string
	Name                 string
	Description          string
	Tags                 []string
	Examples             []string
	InputModes           []string // media types; empty means the agent's defaults
	OutputModes          []string // media types; empty means the agent's defaults
	SecurityRequirements []SecurityRequirement
}

// AgentCardSignature is a JSON Web Signature over a card (A2A §4.4.7, §8.4).
type AgentCardSignature struct {
	Protected string // base64url of the protected header
	Signature string // base64url
	Header    JSON   // an object, or nil
}
