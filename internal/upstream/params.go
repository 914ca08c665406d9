package upstream

import (
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// toolbox remembers which arguments of which tools go into headers.
type toolbox struct {
	mu    sync.Mutex
	tools map[string][]mcp.Param // only tools that have some
}

const maxTools = 10_000

func (b *toolbox) params(tool string) []mcp.Param {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools[tool]
}

func (b *toolbox) set(tool string, params []mcp.Param) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(params) == 0 {
		delete(b.tools, tool)
		return
	}
	if b.tools == nil || len(b.tools) >= maxTools {
		b.tools = map[string][]mcp.Param{}
	}
	b.tools[tool] = params
}

// learn reads the result of tools/list: it remembers the arguments that go into
// headers, and leaves out the tools whose definition is not valid.
func (t *target) learn(b *toolbox, response *mcp.Message) *mcp.Message {
	list := response.Param("tools")
	if list.Kind() != '[' {
		return response
	}
	var tools []jsontext.Value
	if err := json.Unmarshal(list, &tools); err != nil {
		return response
	}
	kept := make([]jsontext.Value, 0, len(tools))
	for _, tool := range tools {
		var known struct {
			Name   string         `json:"name"`
			Schema jsontext.Value `json:"inputSchema"`
		}
		if err := json.Unmarshal(tool, &known); err != nil {
			t.log.Warn("leaving out a tool that cannot be read", "error", err)
			continue
		}
		params, err := mcp.ParamsOf(known.Schema)
		if err != nil {
			t.log.Warn("leaving out a tool whose schema is not valid", "tool", clip(known.Name, 200), "error", err)
			continue
		}
		b.set(known.Name, params)
		kept = append(kept, tool)
	}
	if len(kept) == len(tools) {
		return response
	}
	var out []byte
	out = append(out, '[')
	for i, tool := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, tool...)
	}
	return response.WithParam("tools", append(out, ']'))
}
