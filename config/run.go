package config

import (
	"errors"
	"fmt"
	"slices"

	"handoff.example/handoff/a2a"
)

// Run says what runs an agent. Exactly one of its backends is set.
type Run struct {
	// Rules that answer messages without a program, for examples, mocks and tests. The first rule that matches a turn is carried out.
	Script []Rule `yaml:"script"`

	// A program that is started for each turn. A list is its command.
	Exec *Exec `yaml:"exec"`

	// A web service that each turn is posted to. A text is its URL.
	HTTP *HTTP `yaml:"http"`

	// Tools of a tool server as skills. A text is the name of the server. Without skills of its own (skills: []), the skills of the agent are the tools.
	MCP *ToolAgent `yaml:"mcp"`

	// The name of a peer, another A2A agent to which every message is handed on.
	Relay string `yaml:"relay"`

	// A model that plans, calls tools and hands work to other agents. Any with the API of OpenAI's chat completions.
	LLM *LLM `yaml:"llm"`
}

// resumes reports whether a turn that a crash interrupted can safely run again:
// a script passes over the steps that it has done, a relay looks what its peer has
// got, and an agent that calls tools knows whether it has called one, while a
// program or a web service may have had effects elsewhere.
func (r Run) resumes() bool {
	return len(r.Script) > 0 || r.Relay != "" || r.MCP != nil || r.LLM != nil
}

// ToolAgent makes skills of tools.
type ToolAgent struct {
	// The name of the tool server, one of mcp.servers.
	Server string `yaml:"server" required:"true"`

	// The tools that are skills, by the names that they have at /mcp/SERVER. Without them, all that an anonymous caller may know.
	Tools []string `yaml:"tools"`
}

// UnmarshalYAML reads the short form, which is the name of the server, and the long
// one.
func (t *ToolAgent) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	if kind == shapeScalar {
		return unmarshal(&t.Server)
	}
	type long ToolAgent
	return unmarshal((*long)(t))
}

// Rule is a rule of a script.
type Rule struct {
	// Which turns the rule is for. All conditions have to hold; without one it is for all turns.
	When When `yaml:"when"`

	// What is done, in order. The end of the list completes the task.
	Do []ScriptStep `yaml:"do"`
}

// When are the conditions of a rule.
type When struct {
	// A regular expression that the first text part of the newest message matches, anywhere unless ^ and $ say otherwise. Its groups are {{.Match 1}} and so on.
	Text string `yaml:"text"`

	// A regular expression that the id of the newest message matches.
	MessageID string `yaml:"message_id"`

	// The id of the skill that the message names.
	Skill string `yaml:"skill"`

	// A kind of part that the newest message has.
	Part string `yaml:"part" enum:"text,raw,url,data"`

	// The number of the turn within its task, from 1.
	Turn int `yaml:"turn" min:"0"`

	// What was decided on the grant request that started the turn.
	Grant string `yaml:"grant" enum:"approve,deny"`

	// What became of the delegation that the turn before has made: completed, or one of the other ends, or over for any.
	Outcome string `yaml:"outcome" enum:"over,completed,failed,canceled,rejected"`
}

// ScriptStep is one step of a script: one of the keys that say what it does, and
// the keys that belong to it. Every text in it may be a template.
type ScriptStep struct {
	// The task is WORKING, with a message or without ({}).
	Working *ScriptContent `yaml:"working"`

	// An artifact, or a chunk of one.
	Artifact *ScriptArtifact `yaml:"artifact"`

	// The task is INPUT_REQUIRED and waits for an answer. Ends the turn.
	Ask *ScriptContent `yaml:"ask"`

	// With ask: the JSON Schema of the answer.
	Schema a2a.JSON `yaml:"schema"`

	// The task is AUTH_REQUIRED and waits for a grant. Ends the turn.
	Authorize *ScriptContent `yaml:"authorize"`

	// With authorize: what would be authorized.
	Operation string `yaml:"operation"`

	// With authorize: where a person goes to decide.
	URL string `yaml:"url"`

	// With authorize: when an undecided request counts as denied, a time (RFC 3339) or a duration from now.
	Expires string `yaml:"expires"`

	// Hands work to a peer, or to another agent of the node, and waits for it. Its outcome starts the next turn. Ends the turn.
	Delegate *ScriptDelegate `yaml:"delegate"`

	// The task stays WORKING without running until the time is over or a message comes. Ends the turn.
	Wait *ScriptWait `yaml:"wait"`

	// Replaces the private state of the task.
	State a2a.JSON `yaml:"state"`

	// Answers with a message and makes no task. The first and only step.
	Message *ScriptContent `yaml:"message"`

	// The task is COMPLETED. Ends the task.
	Complete *ScriptContent `yaml:"complete"`

	// The task is FAILED. Ends the task.
	Fail *ScriptContent `yaml:"fail"`

	// The task is REJECTED. Ends the task.
	Reject *ScriptContent `yaml:"reject"`

	// Waits that long, such as 2s. A cancel ends it at once.
	Sleep string `yaml:"sleep"`

	// Does steps several times.
	Repeat *ScriptRepeat `yaml:"repeat"`

	// Waits that long and ignores a cancel meanwhile, for tests.
	Deaf string `yaml:"deaf"`
}

// ScriptRepeat does steps several times.
type ScriptRepeat struct {
	// How many times: a number, or a template that gives one. At most a million.
	Times string `yaml:"times" required:"true"`

	// The time from one round to the next, such as 100ms; also before the first.
	Every string `yaml:"every"`

	// The steps. {{.I}} is the number of the round, from 1.
	Do []ScriptStep `yaml:"do" required:"true"`
}

// ScriptDelegate hands work to another agent.
type ScriptDelegate struct {
	// The name of a peer, or the id of an agent of the node.
	To string `yaml:"to" required:"true"`

	// What it is told.
	Message *ScriptContent `yaml:"message" required:"true"`

	// A business key, such as an order number, to find the delegation by. A second open one with the same key to the same peer is refused.
	Ref string `yaml:"ref"`

	// Whether it is made although one with the same ref is open.
	Again bool `yaml:"again" default:"false"`

	// The id of the skill that it is for.
	Skill string `yaml:"skill"`

	// How long it may take, such as 2h.
	Deadline string `yaml:"deadline"`
}

// ScriptWait parks the task.
type ScriptWait struct {
	// How long, such as 30m.
	For string `yaml:"for" required:"true"`
}

// ScriptArtifact is an artifact, or a chunk of one.
type ScriptArtifact struct {
	// Names the artifact within the task. Without it a new one, or with append the one that came last.
	ID string `yaml:"id"`

	// The name for people.
	Name string `yaml:"name"`

	// A description for people.
	Description string `yaml:"description"`

	// The parts. The word rest stands for the other parts of the newest message, and outcome for those of the artifacts of the delegation that is over, or else of its status message.
	Parts ScriptParts `yaml:"parts" required:"true"`

	// Whether the parts follow those that the artifact has.
	Append bool `yaml:"append" default:"false"`

	// Whether no more chunks follow.
	Last bool `yaml:"last" default:"false"`

	// Free metadata.
	Metadata a2a.JSON `yaml:"metadata"`
}

// ScriptContent is what a step says: a text, a list of parts, or an object.
type ScriptContent struct {
	// One text part.
	Text string `yaml:"text"`

	// The parts. The word rest stands for the other parts of the newest message, and outcome for those of the artifacts of the delegation that is over, or else of its status message.
	Parts ScriptParts `yaml:"parts"`

	// Free metadata.
	Metadata a2a.JSON `yaml:"metadata"`

	// Whether the parts are written as a list, without the key.
	List bool `yaml:"-"`
}

// UnmarshalYAML reads all three forms.
func (c *ScriptContent) UnmarshalYAML(unmarshal func(any) error) error {
	switch kind, err := shapeOf(unmarshal); {
	case err != nil:
		return err
	case kind == shapeScalar:
		return unmarshal(&c.Text)
	case kind == shapeList:
		c.List = true
		return unmarshal(&c.Parts)
	}
	type long ScriptContent
	return unmarshal((*long)(c))
}

// ScriptParts is a list of parts, or the word rest.
type ScriptParts []ScriptPart

// Words that stand in a list of parts for other parts.
const (
	restOfMessage  = "rest"    // of the newest message but its first text
	partsOfOutcome = "outcome" // of the artifacts of a delegation
)

// UnmarshalYAML reads both forms.
func (p *ScriptParts) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	if kind == shapeScalar {
		part := ScriptPart{}
		if err := unmarshal(&part); err != nil {
			return err
		}
		*p = ScriptParts{part}
		return nil
	}
	return unmarshal((*[]ScriptPart)(p))
}

// ScriptPart is a part with exactly one of text, raw, url and data, or the word
// rest: all parts of the newest message but its first text, unchanged, or the word
// outcome: all parts of the artifacts of a delegation, or else of its status message.
type ScriptPart struct {
	// Whether this is the word rest.
	Rest bool `yaml:"-"`

	// Whether this is the word outcome.
	Outcome bool `yaml:"-"`

	// A text.
	Text *string `yaml:"text"`

	// The bytes of a file, in base64.
	Raw *string `yaml:"raw"`

	// The address of a file.
	URL *string `yaml:"url"`

	// Any value.
	Data a2a.JSON `yaml:"data"`

	// The media type, such as text/plain.
	MediaType string `yaml:"mediaType"`

	// The name of the file.
	Filename string `yaml:"filename"`

	// Free metadata.
	Metadata a2a.JSON `yaml:"metadata"`
}

// UnmarshalYAML reads a part or the word rest.
func (p *ScriptPart) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	if kind == shapeScalar {
		var word string
		if err := unmarshal(&word); err != nil {
			return err
		}
		switch word {
		case restOfMessage:
			p.Rest = true
		case partsOfOutcome:
			p.Outcome = true
		default:
			return fmt.Errorf("a part is an object such as {text: …}, or the word %s or %s", restOfMessage, partsOfOutcome)
		}
		return nil
	}
	type long ScriptPart
	return unmarshal((*long)(p))
}

// Exec is a program that is started for each turn.
type Exec struct {
	// The program and its arguments. A path with a slash begins at the directory of the configuration file, a plain name is looked for in PATH.
	Command []string `yaml:"command" required:"true"`

	// What the program prints: steps, one JSON object a line, or text, which becomes the chunks of an artifact.
	Output ExecOutput `yaml:"output" default:"steps" enum:"steps,text"`

	// Environment variables. Besides them the program has PATH, HOME, LANG, TZ and HANDOFF_TASK_ID, HANDOFF_CONTEXT_ID, HANDOFF_TURN, HANDOFF_ATTEMPT.
	Env map[string]Secret `yaml:"env"`

	// The working directory, which begins at the directory of the configuration file. By default that one.
	Dir string `yaml:"dir"`

	// How long the program may run. 0 is no limit but those of the agent.
	Timeout Duration `yaml:"timeout" default:"0s" min:"0s"`

	// How long the program has to end by itself, after a cancel (SIGTERM) or after the step that ended its turn, before it is killed.
	KillAfter Duration `yaml:"kill_after" default:"5s" min:"10ms" max:"10m"`
}

// ExecOutput is what a program prints.
type ExecOutput string

// What a program prints.
const (
	ExecSteps ExecOutput = "steps"
	ExecText  ExecOutput = "text"
)

// UnmarshalYAML reads the short form, which is the command, and the long one.
func (e *Exec) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	switch kind {
	case shapeList:
		return unmarshal(&e.Command)
	case shapeScalar:
		return errors.New("write the command as a list, such as [./agent, --fast]")
	}
	type long Exec
	return unmarshal((*long)(e))
}

// HTTP is a web service that each turn is posted to.
type HTTP struct {
	// The URL.
	URL string `yaml:"url" required:"true"`

	// Headers of the request, such as Authorization.
	Headers map[string]Secret `yaml:"headers"`

	// How long the service may be silent before it has answered in full. 0 is no limit but those of the agent. Waiting for callbacks is not silence.
	Timeout Duration `yaml:"timeout" default:"0s" min:"0s"`
}

// UnmarshalYAML reads the short form, which is the URL, and the long one.
func (h *HTTP) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	if kind == shapeScalar {
		return unmarshal(&h.URL)
	}
	type long HTTP
	return unmarshal((*long)(h))
}

// shape is the form in which a value is written that has several.
type shape int

const (
	shapeMap shape = iota
	shapeList
	shapeScalar
)

func shapeOf(unmarshal func(any) error) (shape, error) {
	var v any
	if err := unmarshal(&v); err != nil {
		return 0, err
	}
	switch v.(type) {
	case string, bool, int64, uint64, float64, int:
		return shapeScalar, nil
	case []any:
		return shapeList, nil
	}
	return shapeMap, nil
}

// Backends returns the keys of run that are set.
func (r *Run) Backends() []string {
	var names []string
	for name, set := range map[string]bool{
		"script": r.Script != nil, "exec": r.Exec != nil, "http": r.HTTP != nil,
		"mcp": r.MCP != nil, "relay": r.Relay != "", "llm": r.LLM != nil,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
