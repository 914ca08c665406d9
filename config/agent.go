package config

import "handoff.example/handoff/a2a"

// Agent is a published agent: what its card says, how it behaves and what runs
// it.
type Agent struct {
	// The name for people.
	Name string `yaml:"name" required:"true"`

	// What the agent is for, for people and for other agents.
	Description string `yaml:"description" required:"true"`

	// The version of the agent, such as 1.4.0.
	Version string `yaml:"version" required:"true"`

	// Who provides the agent.
	Provider *Provider `yaml:"provider"`

	// The URL of documentation for people.
	DocumentationURL string `yaml:"documentation_url"`

	// The URL of an icon.
	IconURL string `yaml:"icon_url"`

	// What the agent can do. At least one.
	Skills []Skill `yaml:"skills" required:"true"`

	// The media types that the agent takes. A type may end in /*.
	DefaultInputModes []string `yaml:"default_input_modes" default:"text/plain,application/json"`

	// The media types that the agent answers with.
	DefaultOutputModes []string `yaml:"default_output_modes" default:"text/plain,application/json"`

	// Whether SendStreamingMessage and SubscribeToTask are answered.
	Streaming bool `yaml:"streaming" default:"true"`

	// Whether callers may hang webhooks on their tasks, as capabilities.pushNotifications of the card says. It takes webhooks.enabled too.
	PushNotifications bool `yaml:"push_notifications" default:"true"`

	// Whether what is sent to webhooks is signed, as with webhooks.sign for all agents.
	SignPushNotifications bool `yaml:"sign_push_notifications" default:"false"`

	// Whether the agent is reached over gRPC too, at the address of the node. Its card says so unless the public URL has a path, which gRPC cannot have.
	GRPC bool `yaml:"grpc" default:"true"`

	// The card that callers with a credential get (GetExtendedAgentCard). Without the key there is none; {} is the public card as the caller may use it.
	Extended *Extended `yaml:"extended"`

	// Protocol extensions that the agent supports.
	Extensions []Extension `yaml:"extensions"`

	// Whether the agent reads from messages how they came about (the lineage extension), and its card says so: loops of agents and chains that are too long are refused, and deadlines are kept.
	Lineage bool `yaml:"lineage" default:"true"`

	// Who decides on the grant requests of the agent's tasks: operator is who may do so on this node, caller is also who sent the task, by a message (the grant extension, which the card names then).
	Grants Grants `yaml:"grants" default:"operator" enum:"operator,caller"`

	// The versions of the protocol that the agent speaks.
	Versions []string `yaml:"versions" default:"1.0" enum:"1.0,0.3"`

	// The version of a request that names none. Without it that is 0.3, as the protocol has it; 1.0 serves clients that forget the A2A-Version header.
	AssumeVersion string `yaml:"assume_version" enum:"1.0,0.3"`

	// Tenants, [a-z0-9-]+. Each has a card of its own at {address}t/{tenant}/.
	Tenants []string `yaml:"tenants"`

	// What callers need for this agent, beyond a credential.
	Callers AgentCallers `yaml:"callers"`

	// Other places for the agent's endpoints. A path that begins with a slash begins at the public URL, any other one at the agent's address.
	Paths Paths `yaml:"paths"`

	// What the agent may answer a message with.
	Answers Answers `yaml:"answers" default:"either" enum:"task,message,either"`

	// Whether a message that is sent again (same caller, same messageId) gets the first answer: on always, off never, auto for callers that are authenticated.
	Idempotency Idempotency `yaml:"idempotency" default:"auto" enum:"auto,on,off"`

	// How long an answer waits for the agent's first step before the task becomes visible.
	FirstStepWait Duration `yaml:"first_step_wait" default:"200ms" min:"0s" max:"1m"`

	// What becomes of a turn that a crash interrupted: resume runs it again, fail ends its task as FAILED. By default a script resumes and everything else fails, since a side effect done twice is worse than a failure.
	OnInterrupt OnInterrupt `yaml:"on_interrupt" enum:"resume,fail"`

	// Limits of the agent's work.
	Limits AgentLimits `yaml:"limits"`

	// How long the agent's finished tasks are kept, instead of the node's retention.tasks. 0 keeps them for ever.
	Retention *Duration `yaml:"retention" min:"0s"`

	// The newest messages of the history that are shown to a client that asks for no number. -1 shows all.
	History int `yaml:"history" default:"100" min:"-1"`

	// Whether a client that subscribes with Last-Event-ID gets the events after that one instead of the task first.
	LastEventID bool `yaml:"last_event_id" default:"true"`

	// The page on which people talk to the agent, at {public_url}/chat/{id}.
	Chat Chat `yaml:"chat"`

	// What runs the agent. Exactly one of the backends.
	Run Run `yaml:"run" required:"true"`
}

// Provider is the organization behind an agent (A2A §4.4.2).
type Provider struct {
	// The name of the organization.
	Organization string `yaml:"organization" required:"true"`

	// The URL of its web site.
	URL string `yaml:"url" required:"true"`
}

// Skill is something an agent can do (A2A §4.4.5).
type Skill struct {
	// What a client names the skill by, in metadata.skillId of a message.
	ID string `yaml:"id" required:"true"`

	// The name for people.
	Name string `yaml:"name" required:"true"`

	// What the skill does, for people and for other agents.
	Description string `yaml:"description" required:"true"`

	// Keywords. At least one.
	Tags []string `yaml:"tags" required:"true"`

	// Examples of messages for it.
	Examples []string `yaml:"examples"`

	// The media types that it takes, instead of the agent's.
	InputModes []string `yaml:"input_modes"`

	// The media types that it answers with, instead of the agent's.
	OutputModes []string `yaml:"output_modes"`

	// The scopes that a caller needs for the skill, besides those of the agent.
	Scopes []string `yaml:"scopes"`

	// The JSON Schema of the data part that it takes.
	InputSchema a2a.JSON `yaml:"input_schema"`
}

// Extension is a protocol extension that an agent supports (A2A §4.4.4).
type Extension struct {
	// The URI that identifies the extension.
	URI string `yaml:"uri" required:"true"`

	// How the agent uses it, for people.
	Description string `yaml:"description"`

	// Whether clients that do not opt in are refused.
	Required bool `yaml:"required" default:"false"`

	// Parameters, as the extension defines them.
	Params a2a.JSON `yaml:"params"`
}

// Paths moves the endpoints of an agent.
type Paths struct {
	// JSON-RPC.
	JSONRPC string `yaml:"jsonrpc" default:"rpc"`

	// HTTP+JSON; the paths of the operations follow.
	REST string `yaml:"rest" default:"v1"`

	// The agent card.
	Card string `yaml:"card" default:".well-known/agent-card.json"`
}

// Answers says what an agent may answer a message with.
type Answers string

// What an agent may answer a message with.
const (
	AnswersTask    Answers = "task"
	AnswersMessage Answers = "message"
	AnswersEither  Answers = "either"
)

// Grants says who decides on the grant requests of an agent's tasks.
type Grants string

// Who decides on grant requests.
const (
	GrantsOperator Grants = "operator"
	GrantsCaller   Grants = "caller"
)

// Idempotency says whether a message that is sent again gets the first answer.
type Idempotency string

// Whether a message that is sent again gets the first answer.
const (
	IdempotencyAuto Idempotency = "auto" // for callers that are authenticated
	IdempotencyOn   Idempotency = "on"
	IdempotencyOff  Idempotency = "off"
)

// OnInterrupt says what becomes of a turn that a crash interrupted.
type OnInterrupt string

// What becomes of a turn that a crash interrupted.
const (
	OnInterruptResume OnInterrupt = "resume" // it runs again
	OnInterruptFail   OnInterrupt = "fail"   // its task is FAILED
)

// AgentLimits bounds an agent's work. The status message of a task says which
// limit ended it.
type AgentLimits struct {
	// How long a turn may go without a step. 0 is no limit.
	Inactivity Duration `yaml:"inactivity" default:"10m" min:"0s"`

	// How long a turn may take; the time between turns, in which the task waits for an answer, does not count. 0 is no limit.
	Total Duration `yaml:"total" default:"1h" min:"0s"`

	// How long a task may wait for a time or a callback without a turn. 0 is no limit.
	MaxWait Duration `yaml:"max_wait" default:"30d" min:"0s"`

	// The steps of a turn. 0 is no limit.
	Steps int `yaml:"steps" default:"100000" min:"0"`

	// The bytes of artifacts that a turn emits. 0 is no limit.
	ArtifactBytes Size `yaml:"artifact_bytes" default:"256MiB" min:"0"`

	// The bytes of a task's private state. 0 is no limit.
	StateBytes Size `yaml:"state_bytes" default:"1MiB" min:"0"`

	// The turns of this agent that run at once. 0 is the node's limit.
	Turns int `yaml:"turns" default:"0" min:"0"`

	// The messages that may wait for the running turn of their task. Messages beyond are refused with 429.
	MessageQueue int `yaml:"message_queue" default:"100" min:"0"`

	// The tasks that one caller may have with this agent that are not finished. Messages that would begin further ones are refused with 429. 0 is the node's limit alone.
	OpenTasks int `yaml:"open_tasks" default:"0" min:"0"`

	// The tasks that one caller may have with this agent that wait for it: for input or an authorization. As long as there are so many, messages that would begin a task are refused with 429. 0 is the node's limit alone.
	ParkedTasks int `yaml:"parked_tasks" default:"0" min:"0"`
}

// NewAgent returns an agent with every default.
func NewAgent() *Agent {
	a := &Agent{}
	setDefaults(a)
	return a
}

// Resumes reports whether a turn that a crash interrupted runs again.
func (a *Agent) Resumes() bool {
	if a.OnInterrupt != "" {
		return a.OnInterrupt == OnInterruptResume
	}
	return a.Run.resumes()
}

// KeptFor returns how long a finished task of the agent is kept, with the
// node's retention for an agent that has none; 0 is for ever.
func (a *Agent) KeptFor(node Retention) Duration {
	if a.Retention != nil {
		return *a.Retention
	}
	return node.Tasks
}
