package config

import "handoff.example/handoff/a2a"

// LLM is a model that plans a task, calls tools and hands work to other agents.
type LLM struct {
	// The address of the model's API, up to and with its version, such as https://api.openai.com/v1. Any that has POST chat/completions as OpenAI has it.
	BaseURL string `yaml:"base_url" required:"true"`

	// The key for the API, sent as a bearer token. Without it none is sent.
	Key Secret `yaml:"key"`

	// Headers of each request, such as api-key.
	Headers map[string]Secret `yaml:"headers"`

	// The name of the model, as the API knows it.
	Model string `yaml:"model" required:"true"`

	// What the model is told before the conversation: who it is, what it is for, and what it must not do.
	Instructions string `yaml:"instructions"`

	// The tools that the model may call, by the policy for whoever has sent the message: SERVER/TOOL or SERVER/* of a server of mcp.servers, or the name of a tool at /mcp.
	Tools []string `yaml:"tools"`

	// The peers that the model may hand work to.
	Peers []string `yaml:"peers"`

	// The agents of this node that the model may hand work to.
	Agents []string `yaml:"agents"`

	// Whether the model may ask whoever has sent the message (INPUT_REQUIRED), with a form if it wants one.
	AskUser bool `yaml:"ask_user" default:"true"`

	// How many earlier tasks of the same context the model is told of, with what was said and answered: so that a conversation goes on although each answer completes a task.
	Earlier int `yaml:"earlier" default:"10" min:"0" max:"100"`

	// Whether the answer is streamed, as chunks of the artifact answer.
	Stream bool `yaml:"stream" default:"true"`

	// Whether the model takes images. Those of messages (PNG, JPEG, GIF, WebP) are sent with them, the newest 20 and 20 MiB at most. Otherwise the task says that an image was not shown.
	Vision bool `yaml:"vision" default:"false"`

	// The tokens of one answer of the model at most, sent as max_completion_tokens. 0 leaves it to the model.
	MaxOutput int `yaml:"max_output" default:"0" min:"0"`

	// How freely the model chooses its words. Without it, as the model has it.
	Temperature *float64 `yaml:"temperature" min:"0" max:"2"`

	// More members of the request, such as {reasoning_effort: low}, as this model's API has them.
	Extra a2a.JSON `yaml:"extra"`

	// How long the model may be silent, before its answer begins and within it. 0 is no limit but those of the agent.
	Timeout Duration `yaml:"timeout" default:"2m" min:"0s"`

	// What the model costs.
	Price LLMPrice `yaml:"price"`

	// Whether the events of a task tell its caller of each call of the model and of tools, by their names. Without that the timeline does not have them either.
	ShowCalls bool `yaml:"show_calls" default:"true"`

	// Whether the events of a task tell its caller the tokens and the cost of each call of the model.
	ShowUsage bool `yaml:"show_usage" default:"true"`

	// What a task may use. What is used up ends the task as FAILED, saying which limit it was.
	Limits LLMLimits `yaml:"limits"`
}

// LLMPrice is what a model costs, in a currency for a million tokens.
type LLMPrice struct {
	// A million tokens that the model is given.
	Input float64 `yaml:"input" default:"0" min:"0"`

	// A million of those that it has from an earlier call (cached tokens). Without it, as input.
	CachedInput *float64 `yaml:"cached_input" min:"0"`

	// A million tokens of answers.
	Output float64 `yaml:"output" default:"0" min:"0"`

	// The currency, which is a name and nothing else.
	Currency string `yaml:"currency" default:"USD"`
}

// LLMLimits bounds what one task of a model may use.
type LLMLimits struct {
	// Steps: calls of the model, calls of tools, delegations and questions together. 0 is no limit.
	Steps int `yaml:"steps" default:"200" min:"0"`

	// Calls of the model. Those made again because the answer was cut count too. 0 is no limit.
	ModelCalls int `yaml:"model_calls" default:"60" min:"0"`

	// Calls of tools. 0 is no limit.
	ToolCalls int `yaml:"tool_calls" default:"120" min:"0"`

	// Pieces of work that are handed to peers and agents. 0 is no limit.
	Delegations int `yaml:"delegations" default:"20" min:"0"`

	// Tokens that the model is given and answers with, together. 0 is no limit.
	Tokens int `yaml:"tokens" default:"1000000" min:"0"`

	// What the calls of the model may cost, in the currency of price. 0 is no limit.
	Cost float64 `yaml:"cost" default:"0" min:"0"`

	// Tokens of the conversation that the model is given. Beyond it the oldest results of tools are left out, with a note; when that is not enough, the task fails.
	Context int `yaml:"context" default:"100000" min:"1000" max:"250000"`

	// Bytes of the answers' text. 0 is no limit.
	ArtifactBytes Size `yaml:"artifact_bytes" default:"4MiB" min:"0"`

	// How long one answer of the model may take, from the request to its end, whatever keeps the connection open meanwhile. It is cut then. 0 is no limit but those of the agent.
	AnswerTime Duration `yaml:"answer_time" default:"30m" min:"0s"`

	// How long a streamed answer may bring nothing of its own, whatever keeps the connection open meanwhile: comments and empty events are no part of it. It is cut then. 0 is no limit but answer_time.
	AnswerIdle Duration `yaml:"answer_idle" default:"10m" min:"0s"`

	// Bytes of one result of a tool or a delegation that the model is given. What is longer is cut, with a note.
	ToolResult Size `yaml:"tool_result" default:"32KiB" min:"256"`

	// How often in a row the model may call a tool that it does not have, or with arguments that are no JSON, or answer nothing.
	Mistakes int `yaml:"mistakes" default:"5" min:"1" max:"100"`

	// How often in a row the model is asked again when it is busy (429), fails (5xx) or its answer is cut.
	Retries int `yaml:"retries" default:"6" min:"0" max:"100"`

	// How long to wait at most before the model is asked again. What it names in Retry-After beyond that ends the task.
	RetryWait Duration `yaml:"retry_wait" default:"10m" min:"1s" max:"7d"`
}
