package config_test

import (
	"fmt"
	"strings"
	"testing"

	"handoff.example/handoff/config"
)

const llmHead = `
mcp: {servers: {erp: {url: "http://127.0.0.1:9/mcp"}}}
peers: {supplier: {card: "https://supplier.example/"}}
agents:
  other: {name: O, description: O., version: "1", skills: [{id: s, name: S, description: S., tags: [t]}], run: {exec: [x]}}
  buyer:
    name: B
    description: B.
    version: "1"
    skills: [{id: s, name: S, description: S., tags: [t]}]
`

func TestModels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ llm, more, problem, warning string }{
		{llm: `base_url: "https://m.example/v1", model: m, tools: [erp/*, erp.stock], peers: [supplier], agents: [other]`},
		{llm: `model: m`, problem: "agents.buyer.run.llm.base_url: is missing"},
		{llm: `base_url: "https://m.example/v1"`, problem: "agents.buyer.run.llm.model: is missing"},
		{llm: `base_url: m.example, model: m`, problem: "agents.buyer.run.llm.base_url: is not an http or https URL"},
		{llm: `base_url: "https://u:p@m.example/v1", model: m`, problem: "agents.buyer.run.llm.base_url: holds credentials"},
		{llm: `base_url: "https://m.example/v1?key=x", model: m`, problem: "agents.buyer.run.llm.base_url: has a query"},
		{llm: `base_url: "http://m.example/v1", key: k, model: m`, warning: "agents.buyer.run.llm.base_url: sends the key where others may read it"},
		{llm: `base_url: "http://127.0.0.1:9/v1", key: k, model: m`},
		{llm: `base_url: "https://m.example/v1", model: m, tools: [epr/*]`, problem: `agents.buyer.run.llm.tools[0]: there is no tool server "epr" in mcp.servers; did you mean "erp"?`},
		{llm: `base_url: "https://m.example/v1", model: m, tools: [erp/get_*]`, problem: "agents.buyer.run.llm.tools[0]: has a * within the name"},
		{llm: `base_url: "https://m.example/v1", model: m, tools: ["*"]`, problem: "agents.buyer.run.llm.tools[0]: names no tool"},
		{llm: `base_url: "https://m.example/v1", model: m, tools: [erp/]`, problem: "agents.buyer.run.llm.tools[0]: names no tool"},
		{llm: `base_url: "https://m.example/v1", model: m, tools: [a, a]`, problem: "agents.buyer.run.llm.tools[1]: stands twice"},
		{llm: `base_url: "https://m.example/v1", model: m, peers: [nobody]`, warning: "agents.buyer.run.llm.peers[0]: names no peer"},
		{llm: `base_url: "https://m.example/v1", model: m, agents: [nobody]`, warning: "agents.buyer.run.llm.agents[0]: names no agent"},
		{llm: `base_url: "https://m.example/v1", model: m, agents: [buyer]`, problem: "agents.buyer.run.llm.agents[0]: is the agent itself"},
		{llm: `base_url: "https://m.example/v1", model: m, extra: {seed: 1}`},
		{llm: `base_url: "https://m.example/v1", model: m, extra: {messages: []}`, problem: "agents.buyer.run.llm.extra.messages: is written by the node itself"},
		{llm: `base_url: "https://m.example/v1", model: m, extra: [1]`, problem: "agents.buyer.run.llm.extra: expects keys and values"},
		{llm: `base_url: "https://m.example/v1", model: m, headers: {"a b": c}`, problem: "is not the name of a header"},
		{llm: `base_url: "https://m.example/v1", model: m, limits: {cost: 1}`, problem: "agents.buyer.run.llm.limits.cost: bounds the cost, but nothing says what the model costs"},
		{llm: `base_url: "https://m.example/v1", model: m, limits: {model_call: 1}`, problem: `agents.buyer.run.llm.limits.model_call: unknown key; did you mean "model_calls"?`},
		{llm: `base_url: "https://m.example/v1", model: m, temperature: 3`, problem: "agents.buyer.run.llm.temperature: is more than 2"},
		{llm: `base_url: "https://m.example/v1", model: m`, more: "    answers: message\n", problem: "agents.buyer.answers: is message, but a model answers with a task"},
		{llm: `base_url: "https://m.example/v1", model: m`, more: "    limits: {state_bytes: 10KiB}\n", warning: "agents.buyer.run.llm.limits.context: lets the conversation grow"},
	} {
		t.Run(test.llm+test.more, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse([]byte(llmHead+test.more+"    run: {llm: {"+test.llm+"}}\n"), "")
			switch {
			case test.problem == "" && err != nil:
				t.Fatal(err)
			case test.problem != "":
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got %v, want %s", err, test.problem)
				}
				return
			}
			var said []string
			for _, w := range c.Warnings() {
				said = append(said, fmt.Sprint(w.Path, ": ", w.Message))
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, test.warning) || test.warning == "" && strings.Contains(all, "llm") {
				t.Errorf("got %q, want %s", all, test.warning)
			}
			if !c.Agents["buyer"].Resumes() {
				t.Error("a model is not resumed")
			}
		})
	}
}
