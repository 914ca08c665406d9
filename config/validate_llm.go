package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/netguard"
)

// llmOwn are the members of a request to a model that the node writes itself.
var llmOwn = []string{"messages", "model", "tools", "tool_choice", "stream", "stream_options", "n", "temperature", "max_completion_tokens"}

// llm checks an agent that is a model.
func (v *validator) llm(id string, a *Agent, path string) {
	m := a.Run.LLM
	if m == nil {
		return
	}
	path += ".run.llm"
	u, message := webURL(m.BaseURL)
	switch {
	case message != "":
		v.problem(path+".base_url", "write it like https://api.openai.com/v1", "%s", message)
	case u.RawQuery != "" || u.Fragment != "":
		v.problem(path+".base_url", "", "has a query or a fragment")
	case u.Scheme == "http" && !m.Key.IsZero() && !netguard.IsLoopback(u.Hostname()):
		v.warn(path+".base_url", "use https", "sends the key where others may read it")
	}
	if strings.TrimSpace(m.Model) == "" {
		v.problem(path+".model", "", "is empty")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if !header.MatchString(name) {
			v.problem(join(path+".headers", name), "", "is not the name of a header")
		}
	}
	if a.Answers == AnswersMessage {
		v.problem(join("agents", id)+".answers", "use task or either", "is message, but a model answers with a task")
	}
	v.llmTools(m, path)
	v.llmOthers(id, m, path)
	if m.Extra != nil {
		var extra map[string]jsontext.Value
		if jsontext.Value(m.Extra).Kind() != '{' || json.Unmarshal(m.Extra, &extra) != nil {
			v.problem(path+".extra", "", "expects keys and values")
		}
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			if slices.Contains(llmOwn, name) {
				v.problem(join(path+".extra", name), "", "is written by the node itself")
			}
		}
	}
	if m.Limits.Cost > 0 && m.Price.Input == 0 && m.Price.Output == 0 {
		v.problem(path+".limits.cost", "add price: {input: …, output: …}", "bounds the cost, but nothing says what the model costs")
	}
	if state := int(a.Limits.StateBytes); state > 0 && m.Limits.Context > state/3 {
		v.warn(path+".limits.context", "raise limits.state_bytes of the agent", "lets the conversation grow to more than its private state may have (%d bytes)", state)
	}
}

func (v *validator) llmTools(m *LLM, path string) {
	for i, name := range m.Tools {
		at := fmt.Sprintf("%s.tools[%d]", path, i)
		server, tool, of := strings.Cut(name, "/")
		switch {
		case slices.Contains(m.Tools[:i], name):
			v.problem(at, "", "stands twice")
		case strings.TrimSpace(name) == "" || of && tool == "" || !of && strings.Contains(name, "*"):
			v.problem(at, "write it like SERVER/TOOL or SERVER/*", "names no tool")
		case of && strings.Contains(tool, "*") && tool != "*":
			v.problem(at, "write SERVER/*, or each tool", "has a * within the name of a tool")
		case of && v.config.MCP.Servers[server] == nil:
			hint := ""
			if best := closest(server, v.config.MCPServerNames()); best != "" {
				hint = fmt.Sprintf("did you mean %q?", best)
			}
			v.problem(at, hint, "there is no tool server %q in mcp.servers", shorten(server))
		case !of && len(v.config.MCP.Servers) == 0:
			v.problem(at, "", "there are no tool servers in mcp.servers")
		}
	}
}

func (v *validator) llmOthers(id string, m *LLM, path string) {
	for i, name := range m.Peers {
		at := fmt.Sprintf("%s.peers[%d]", path, i)
		switch {
		case slices.Contains(m.Peers[:i], name):
			v.problem(at, "", "stands twice")
		case v.config.Peers[name] == nil:
			v.warn(at, "", "names no peer of the configuration: what is handed to it is refused until one of that name is added")
		}
	}
	for i, name := range m.Agents {
		at := fmt.Sprintf("%s.agents[%d]", path, i)
		switch {
		case slices.Contains(m.Agents[:i], name):
			v.problem(at, "", "stands twice")
		case name == id:
			v.problem(at, "", "is the agent itself")
		case v.config.Agents[name] == nil && v.config.source != nil:
			v.warn(at, "", "names no agent of the configuration: what is handed to it is refused until a program adds it")
		case v.config.Peers[name] != nil:
			v.problem(at, "give one of them another name", "is the name of a peer too")
		}
	}
}
