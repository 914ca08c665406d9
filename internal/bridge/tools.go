package bridge

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// ServerName is the name of the server whose tools are agents.
const ServerName = "agents"

// Names of the tools that the server has beside those of skills. No server and no
// agent may be called so.
const (
	ToolAsk    = "ask_agent"
	ToolList   = "list_agents"
	ToolCheck  = "check_task"
	ToolAnswer = "answer_task"
	ToolCancel = "cancel_task"
)

// Exposed is an agent or a peer whose skills are tools.
type Exposed struct {
	Name string // id of the agent, or name of the peer
	// Spec is what tasks of it run on: that of the agent, or of the agent that
	// stands for the peer.
	Spec        *engine.Spec
	Title       string
	Description string
	Skills      []a2a.AgentSkill
	// Inputs are the JSON Schemas of the data that skills take, by the ids of the
	// skills; the others take a message.
	Inputs map[string]a2a.JSON
}

// tool is a tool of the server.
type tool struct {
	name  string
	agent *Exposed        // nil for the tools that the server has of its own
	skill *a2a.AgentSkill // nil: none is named
	input jsontext.Value  // inputSchema
	json  jsontext.Value
}

// maxName bounds names of tools (TOL-01).
const maxName = 128

// toolName is the name of a skill as a tool: agent.skill with the characters that
// names may have.
func toolName(agent, skill string) string {
	clean := func(text string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
				return r
			}
			return '_'
		}, text)
	}
	name := clean(agent) + "." + clean(skill)
	return name[:min(len(name), maxName)]
}

// messageInput is the schema of tools that take a message.
var messageInput = jsontext.Value(`{"type":"object","properties":{` +
	`"message":{"type":"string","description":"What the agent is asked, in words."},` +
	`"data":{"type":"object","description":"Structured data for the agent, if it needs any."},` +
	`"files":{"type":"array","description":"Files for the agent.","items":{"type":"object","properties":{"name":{"type":"string"},"mimeType":{"type":"string"},"data":{"type":"string","description":"The content in base64."},"uri":{"type":"string","description":"Where the file is, instead of its content."}}}}` +
	`},"required":["message"],"additionalProperties":false}`)

// askInput is the schema of ask_agent.
var askInput = jsontext.Value(`{"type":"object","properties":{` +
	`"agent":{"type":"string","description":"The agent, as list_agents names it."},` +
	`"message":{"type":"string","description":"What the agent is asked, in words."},` +
	`"data":{"type":"object","description":"Structured data for the agent, if it needs any."},` +
	`"skill":{"type":"string","description":"The skill that is asked for, as list_agents names it."},` +
	`"task":{"type":"string","description":"The task to go on with, instead of a new one."}` +
	`},"required":["agent","message"],"additionalProperties":false}`)

var taskInput = jsontext.Value(`{"type":"object","properties":{"taskId":{"type":"string","description":"The id of the task, as it was given."}},"required":["taskId"],"additionalProperties":false}`)

var answerInput = jsontext.Value(`{"type":"object","properties":{` +
	`"taskId":{"type":"string","description":"The id of the task, as it was given."},` +
	`"answer":{"description":"The answer: a text, or an object whose members are what the question asks for.","type":["string","object","number","boolean"]}` +
	`},"required":["taskId","answer"],"additionalProperties":false}`)

var noInput = jsontext.Value(`{"type":"object","additionalProperties":false}`)

// define writes the definition of a tool.
func (t *tool) define(title, description string) {
	t.json = object([]member{
		{"name", quoted(t.name)}, {"title", quoted(clean(title, 200))}, {"description", quoted(clean(description, maxShown))}, {"inputSchema", t.input},
	})
}

// clean removes what a text of others should not have where people or models read
// it: control characters, and those that are not seen.
func clean(text string, limit int) string {
	return short(strings.Map(func(r rune) rune {
		if r == '\n' || !unicode.Is(unicode.C, r) {
			return r
		}
		return -1
	}, text), limit)
}

// exposed returns the agents of a caller by their names.
func (s *Server) exposed(p *auth.Principal) []*Exposed {
	list := slices.Clone(s.opts.Agents(p))
	slices.SortFunc(list, func(a, b *Exposed) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// tools returns the tools that a caller has, in an order that does not change
// (CCH-01): those of skills by agent and skill, then the server's own.
func (s *Server) tools(p *auth.Principal) []tool {
	exposed := s.exposed(p)
	var list []tool
	names := map[string]bool{ToolAsk: true, ToolList: true, ToolCheck: true, ToolAnswer: true, ToolCancel: true}
	for _, e := range exposed {
		for i := range e.Skills {
			skill := &e.Skills[i]
			t := tool{agent: e, skill: skill, input: messageInput, name: toolName(e.Name, skill.ID)}
			for n := 2; names[t.name]; n++ {
				suffix := "-" + strconv.Itoa(n)
				base := toolName(e.Name, skill.ID)
				t.name = base[:min(len(base), maxName-len(suffix))] + suffix
			}
			names[t.name] = true
			if schema := jsontext.Value(e.Inputs[skill.ID]); textOf(schema, "type") == "object" { // JSS-02
				t.input = schema
			}
			description := skill.Description
			if e.Description != "" {
				description += "\n\nBy " + e.Title + ": " + e.Description
			}
			if len(skill.Examples) > 0 {
				description += "\n\nFor example: " + strings.Join(skill.Examples, "; ")
			}
			t.define(skill.Name, description)
			list = append(list, t)
		}
	}
	own := []struct {
		name, title, description string
		input                    jsontext.Value
	}{
		{ToolAsk, "Ask an agent", "Sends a message to an agent, or goes on with a task of it. " + agentNames(exposed), askInput},
		{ToolList, "List agents", "Lists the agents that can be asked, with their skills.", noInput},
		{ToolCheck, "Check a task", "Says how a task is that was not over when its tool answered, and gives its result when there is one.", taskInput},
		{ToolAnswer, "Answer a task", "Answers what a task asks.", answerInput},
		{ToolCancel, "Cancel a task", "Cancels a task.", taskInput},
	}
	for _, o := range own {
		t := tool{name: o.name, input: o.input}
		t.define(o.title, o.description)
		list = append(list, t)
	}
	return list
}

// agentNames names the agents, so that a model takes one of them (row 140).
func agentNames(list []*Exposed) string {
	if len(list) == 0 {
		return "There are no agents that can be asked."
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name
	}
	return "The agents are: " + short(strings.Join(names, ", "), maxShown) + "."
}
