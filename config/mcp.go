package config

import (
	"errors"
	"slices"

	"handoff.example/handoff/a2a"
)

// MCP is the gateway in front of tool servers: one endpoint of the Model Context
// Protocol, at /mcp, for all of them.
type MCP struct {
	// The tool servers, by name. A name ([a-z0-9][a-z0-9-]*, up to 63 characters) is part of the server's own endpoint, /mcp/NAME.
	Servers map[string]*MCPServer `yaml:"servers"`

	// Named choices of tools with an endpoint of their own, /mcp/s/NAME.
	Sets map[string]*MCPSet `yaml:"sets"`

	// Policies by callers. That of each rule that is for the caller and the tool counts on top of what the server says, in this order. What a list of tools does not name stays hidden.
	Rules []MCPRule `yaml:"rules"`

	// Agents and peers that are tools at /mcp, and at /mcp/agents by themselves.
	Agents MCPAgents `yaml:"agents"`

	// What tools are called: auto keeps a name as it is unless two servers have it, always puts the server's name and a dot before it, and never leaves conflicts to conflicts.
	Names MCPNames `yaml:"names" default:"auto" enum:"auto,always,never"`

	// What happens to two tools of one name where the names are not prefixed: prefix prefixes both, priority takes that of the server with the highest priority, fail hides both.
	Conflicts MCPConflicts `yaml:"conflicts" default:"prefix" enum:"prefix,priority,fail"`

	// The revisions of the protocol that clients may speak.
	Revisions []string `yaml:"revisions" default:"2026-07-28,2025-11-25,2025-06-18,2025-03-26" enum:"2026-07-28,2025-11-25,2025-06-18,2025-03-26"`

	// Origins of web pages, such as https://app.example.com, whose scripts may call. Those of this machine may on a listener that only this machine reaches.
	Origins []string `yaml:"origins"`

	// What aud of a token has to name for the endpoints, besides the URL of the endpoint. Without it, and without public_url, it is that of the issuer.
	Audiences []string `yaml:"audiences"`

	// The scopes that every call needs.
	Scopes []string `yaml:"scopes"`

	// How long a call may block for a client that knows no tasks, when a person has to decide or the work is long. After that it is answered with a handle, or an error that says to ask again.
	Wait Duration `yaml:"wait" default:"50s" min:"1s" max:"1h"`

	// How often clients are told to ask for a task.
	Poll Duration `yaml:"poll" default:"1s" min:"100ms" max:"10m"`

	// How long a task stays readable after its beginning.
	TaskTTL Duration `yaml:"task_ttl" default:"24h" min:"1m"`

	// How long a list counts as fresh whose server does not say.
	ListTTL Duration `yaml:"list_ttl" default:"1m" min:"0s" max:"24h"`

	// How long a session of a client of an old revision lasts without a request.
	SessionTTL Duration `yaml:"session_ttl" default:"1h" min:"1m" max:"30d"`

	// Whether tasks of servers are waited for in place of clients that know no tasks.
	CarryTasks bool `yaml:"carry_tasks" default:"false"`
}

// MCPNames says what tools are called.
type MCPNames string

// What tools can be called.
const (
	MCPNamesAuto   MCPNames = "auto"
	MCPNamesAlways MCPNames = "always"
	MCPNamesNever  MCPNames = "never"
)

// MCPConflicts says what happens to tools of one name.
type MCPConflicts string

// What can happen to tools of one name.
const (
	MCPConflictsPrefix   MCPConflicts = "prefix"
	MCPConflictsPriority MCPConflicts = "priority"
	MCPConflictsFail     MCPConflicts = "fail"
)

// MCPServer is a tool server: url or command.
type MCPServer struct {
	// Where the server is, for one that speaks Streamable HTTP.
	URL string `yaml:"url"`

	// The program that is the server, with its arguments, for one that speaks on standard input and output.
	Command []string `yaml:"command"`

	// The environment of the program, besides PATH, HOME, LANG and TMPDIR.
	Env map[string]Secret `yaml:"env"`

	// The directory in which the program runs. Relative to the configuration file.
	Dir string `yaml:"dir"`

	// The revision of the protocol that the server speaks: auto finds out, modern is 2026-07-28, legacy one with sessions, or a revision.
	Revision MCPRevision `yaml:"revision" default:"auto" enum:"auto,modern,legacy,2026-07-28,2025-11-25,2025-06-18,2025-03-26"`

	// Headers of each request to the server, by name.
	Headers map[string]Secret `yaml:"headers"`

	// What the node authenticates with at the server. What the callers of the node show never reaches it.
	Auth MCPAuth `yaml:"auth"`

	// The certificates (PEM) that the server's own is verified with, in place of the system's. Relative to the configuration file.
	CA string `yaml:"ca"`

	// Whether what the server says of its tools in annotations is believed, such as that one can be called again.
	Trusted bool `yaml:"trusted" default:"false"`

	// How callers share a program, or a session of an old revision: shared for all, without questions to the client, principal for one each, auto by the revision that the server speaks.
	Sharing MCPSharing `yaml:"sharing" default:"auto" enum:"auto,shared,principal"`

	// The programs or sessions of the server at once.
	Processes int `yaml:"processes" default:"16" min:"1" max:"1000"`

	// How long a program or session stays that nobody uses.
	Idle Duration `yaml:"idle" default:"10m" min:"1s" max:"24h"`

	// How long connecting to the server, or starting it, may take.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"10s" min:"100ms" max:"5m"`

	// How long the server may be silent before it answers. Progress begins it anew.
	Timeout Duration `yaml:"timeout" default:"1m" min:"100ms" max:"24h"`

	// How long a request may take at most, whatever progress the server tells.
	MaxTimeout Duration `yaml:"max_timeout" default:"1h" min:"100ms" max:"7d"`

	// When a server that fails is left alone.
	Breaker MCPBreaker `yaml:"breaker"`

	// The bytes of an answer of the server.
	ResultBytes Size `yaml:"result_bytes" default:"16MiB" min:"1KiB" max:"256MiB"`

	// Which server's tool is taken of two of one name, with conflicts: priority. The higher wins.
	Priority int `yaml:"priority" default:"0" min:"-1000" max:"1000"`

	// What happens to a tool whose definition has changed since it was first seen or approved: hold hides it until `handoff mcp approve`, allow takes it.
	Changed MCPChanged `yaml:"changed" default:"allow" enum:"hold,allow"`

	// The tools, by the names that the server has for them, each with its policy; a * stands for anything. A list names those that are shown. What is not listed is hidden, also what comes later; without tools, all are shown.
	Tools MCPTools `yaml:"tools"`

	// The prompts that are shown, as for tools.
	Prompts MCPTools `yaml:"prompts"`

	// The resources that are shown, by URI or URI template; a * stands for anything.
	Resources MCPTools `yaml:"resources"`

	// The policy of all tools of the server, and who may see and call its prompts and resources, and how often. What a tool says itself counts on top.
	Default *MCPPolicy `yaml:"default"`
}

// MCPRevision is a revision of the protocol, or a word for several.
type MCPRevision string

// Words for revisions.
const (
	MCPRevisionAuto   MCPRevision = "auto"
	MCPRevisionModern MCPRevision = "modern"
	MCPRevisionLegacy MCPRevision = "legacy"
)

// MCPSharing says how callers share a program.
type MCPSharing string

// How callers can share a program.
const (
	MCPSharingAuto      MCPSharing = "auto"
	MCPSharingShared    MCPSharing = "shared"
	MCPSharingPrincipal MCPSharing = "principal"
)

// MCPChanged says what happens to a tool whose definition has changed.
type MCPChanged string

// What can happen to a tool whose definition has changed.
const (
	MCPChangedHold  MCPChanged = "hold"
	MCPChangedAllow MCPChanged = "allow"
)

// MCPBreaker says when a server that fails is left alone.
type MCPBreaker struct {
	// The failures in a row after which the server is not asked any more. 0 turns it off.
	Failures int `yaml:"failures" default:"5" min:"0" max:"1000"`

	// How long it is left alone. Then one request is tried.
	For Duration `yaml:"for" default:"30s" min:"1s" max:"1h"`
}

// MCPAuth is what a tool server is shown.
type MCPAuth struct {
	// A token, sent as Authorization: Bearer.
	Bearer Secret `yaml:"bearer"`

	// A name and a password (HTTP Basic).
	Basic *PeerBasic `yaml:"basic"`

	// Tokens of an authorization server (OAuth 2.1), found through what the server says of itself where it is not written here.
	OAuth *MCPOAuth `yaml:"oauth"`

	// A client certificate.
	MTLS *PeerCertificate `yaml:"mtls"`
}

// MCPOAuth is how the node gets tokens for a tool server.
type MCPOAuth struct {
	// The flow: client_credentials for the node itself, authorization_code (with PKCE) for people who log in, by a link that their client shows them.
	Flow PeerFlow `yaml:"flow" default:"authorization_code" enum:"client_credentials,authorization_code"`

	// The id of the node at the authorization server. Without it, the URL of a document of the node (CIMD), or a registration.
	ClientID string `yaml:"client_id"`

	// Its secret. A public client has none.
	ClientSecret Secret `yaml:"client_secret"`

	// The authorization server, exactly as it writes itself. Without it, what the tool server names.
	Issuer string `yaml:"issuer"`

	// The scopes to ask for. Without them, those that the server asks for.
	Scopes []string `yaml:"scopes"`

	// How the node shows its id and secret: basic in the header (HTTP Basic), body in the form.
	ClientAuth OAuthClientAuth `yaml:"client_auth" default:"basic" enum:"basic,body"`

	// Whether one login counts for all callers. Otherwise each logs in.
	Shared bool `yaml:"shared" default:"false"`
}

// MCPTools are policies by the names of tools. A list has names alone.
type MCPTools map[string]*MCPPolicy

// UnmarshalYAML reads a list of names, or an object.
func (t *MCPTools) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	*t = MCPTools{}
	switch kind {
	case shapeScalar:
		return errors.New("is a list of names, or an object")
	case shapeList:
		var names []string
		if err := unmarshal(&names); err != nil {
			return err
		}
		for _, name := range names {
			(*t)[name] = nil
		}
		return nil
	}
	type long map[string]*MCPPolicy
	return unmarshal((*long)(t))
}

// MCPPolicy says who may call a tool, and how. What is not said is left as it is.
type MCPPolicy struct {
	// Hides the tool: for callers it is as if it were not there.
	Hide *bool `yaml:"hide"`

	// Refuses calls, and says why. The tool is seen.
	Deny MCPReason `yaml:"deny"`

	// The subjects who may see the tool; a * stands for anything. For others it is hidden.
	Callers []string `yaml:"callers"`

	// The least role that sees the tool.
	Role Role `yaml:"role" enum:"none,viewer,caller,operator,admin"`

	// The scopes that a call needs. Callers without them are told which.
	Scopes []string `yaml:"scopes"`

	// How often one caller may call.
	Rate *MCPRate `yaml:"rate"`

	// The calls of all callers at once, on each node.
	Concurrency int `yaml:"concurrency" min:"0" max:"100000"`

	// A JSON Schema that the arguments have to fit, besides that of the tool.
	Require a2a.JSON `yaml:"require"`

	// Why a person has to approve each call, in the inbox.
	Approve MCPReason `yaml:"approve"`

	// A JSON Schema: a call whose arguments fit it has to be approved.
	ApproveIf a2a.JSON `yaml:"approve_if"`

	// Idempotency keys: off takes none, accepted takes those that come, required refuses calls without.
	Idempotency MCPIdempotency `yaml:"idempotency" enum:"off,accepted,required"`

	// Whether a call may be made again when it is not known whether it was made.
	Idempotent *bool `yaml:"idempotent"`

	// What one caller may spend on a day (UTC).
	Budget *MCPBudget `yaml:"budget"`

	// How long the tool may be silent before it answers.
	Timeout Duration `yaml:"timeout" min:"0s" max:"24h"`

	// Makes calls tasks that survive a crash: after is how long a call may take before its client gets the task, 0s at once. For clients that know no tasks the call blocks.
	Task *MCPTask `yaml:"task"`

	// After how long a client that knows no tasks is answered with a handle, for check_task, answer_task and cancel_task. 0 is never. Not for tools with an outputSchema.
	HandleAfter Duration `yaml:"handle_after" min:"0s" max:"1h"`

	// What the tool is called here.
	Name string `yaml:"name"`

	// What the tool is for, in place of what its server says.
	Description string `yaml:"description"`
}

// MCPReason is why something is so: a text, or true for no reason in particular.
// false undoes what counted before.
type MCPReason string

// UnmarshalYAML reads a text, true or false.
func (r *MCPReason) UnmarshalYAML(unmarshal func(any) error) error {
	text, err := wordOrBool(unmarshal)
	*r = MCPReason(text)
	return err
}

// IsSet reports whether anything is said, such as that it is not so.
func (r MCPReason) IsSet() bool { return r != "" }

// On reports whether it is so.
func (r MCPReason) On() bool { return r != "" && r != "false" }

// Text returns the reason for people, "" for none in particular.
func (r MCPReason) Text() string {
	if r == "true" || r == "false" {
		return ""
	}
	return string(r)
}

// MCPRate is how often a caller may call.
type MCPRate struct {
	// Calls a second.
	PerSecond float64 `yaml:"per_second" required:"true"`

	// Calls at once.
	Burst int `yaml:"burst" default:"1" min:"1" max:"100000"`
}

// MCPIdempotency says what is done with idempotency keys.
type MCPIdempotency string

// What can be done with idempotency keys.
const (
	MCPIdempotencyOff      MCPIdempotency = "off"
	MCPIdempotencyAccepted MCPIdempotency = "accepted"
	MCPIdempotencyRequired MCPIdempotency = "required"
)

// MCPBudget is what one caller may spend on a day.
type MCPBudget struct {
	// The calls.
	Calls int64 `yaml:"calls" min:"0"`

	// A number among the arguments whose sum is bounded.
	Sum *MCPSum `yaml:"sum"`
}

// MCPSum bounds the sum of an argument.
type MCPSum struct {
	// Where the number is in the arguments, as a JSON Pointer such as /total.
	Argument string `yaml:"argument" required:"true"`

	// The most that the sum may be.
	Max float64 `yaml:"max" required:"true"`
}

// MCPTask says when a call becomes a task.
type MCPTask struct {
	// How long a call may take before its client gets the task.
	After Duration `yaml:"after" default:"0s" min:"0s" max:"1h"`
}

// MCPRule gives callers a policy.
type MCPRule struct {
	// The subjects that the rule is for; a * stands for anything. Without them it is for all.
	Callers []string `yaml:"callers"`

	// The tenants of the callers.
	Tenants []string `yaml:"tenants"`

	// The roles of the callers.
	Roles []Role `yaml:"roles" enum:"viewer,caller,operator,admin"`

	// The servers; a * stands for anything. Without them, all.
	Servers []string `yaml:"servers"`

	// The tools, by the names that their servers have for them; a * stands for anything. Without them, all.
	Tools []string `yaml:"tools"`

	// The policy.
	Policy MCPPolicy `yaml:"policy" required:"true"`
}

// MCPSet is a choice of tools with an endpoint of its own.
type MCPSet struct {
	// The tools, as SERVER.TOOL with the names that the servers have for them; a * stands for anything.
	Tools []string `yaml:"tools"`

	// The prompts, likewise.
	Prompts []string `yaml:"prompts"`

	// The resources, as SERVER and a URI, with a space between; a * stands for anything.
	Resources []string `yaml:"resources"`

	// How clients see the tools: list lists them, search lists find_tools and call_tool in their place, for large sets.
	Mode MCPSetMode `yaml:"mode" default:"list" enum:"list,search"`

	// The subjects who may use the set; a * stands for anything. For others it is not there.
	Callers []string `yaml:"callers"`

	// What clients are told about the set as a whole.
	Instructions string `yaml:"instructions"`
}

// MCPSetMode says how clients see the tools of a set.
type MCPSetMode string

// How clients can see the tools of a set.
const (
	MCPSetList   MCPSetMode = "list"
	MCPSetSearch MCPSetMode = "search"
)

// MCPAgents says which agents and peers are tools: true, false, or a list of their
// names.
type MCPAgents struct {
	all   bool
	names []string
}

// MCPAgentsAll exposes all agents and peers.
func MCPAgentsAll() MCPAgents { return MCPAgents{all: true} }

// MCPAgentsNamed exposes those.
func MCPAgentsNamed(names ...string) MCPAgents { return MCPAgents{names: names} }

// Any reports whether there are any.
func (a MCPAgents) Any() bool { return a.all || len(a.names) > 0 }

// Exposes reports whether an agent or a peer is a tool.
func (a MCPAgents) Exposes(name string) bool { return a.all || slices.Contains(a.names, name) }

// Names are those that are listed.
func (a MCPAgents) Names() []string { return a.names }

// UnmarshalYAML reads both forms.
func (a *MCPAgents) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	switch {
	case err != nil:
		return err
	case kind == shapeList:
		return unmarshal(&a.names)
	}
	text, err := wordOrBool(unmarshal)
	switch {
	case err != nil || text != "true" && text != "false":
		return errors.New("is true, false, or a list of agents and peers")
	}
	a.all = text == "true"
	return nil
}

// MCPServerNames returns the names of the tool servers in order.
func (c *Config) MCPServerNames() []string {
	names := make([]string, 0, len(c.MCP.Servers))
	for name := range c.MCP.Servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// MCPEnabled reports whether the node has endpoints for tools.
func (c *Config) MCPEnabled() bool { return len(c.MCP.Servers) > 0 || c.MCP.Agents.Any() }

// NewMCPServer returns a server at a URL with every default.
func NewMCPServer(url string) *MCPServer {
	s := &MCPServer{}
	setDefaults(s)
	s.URL = url
	return s
}
