package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// annotation is the keyword of a schema that has an argument sent as a header
// (MCP basic/transports/streamable-http §Custom Headers from Tool Parameters).
const annotation = "x-mcp-header"

// param is an argument that goes into a header.
type param struct {
	path    []string // of names, from the arguments
	header  string   // Mcp-Param- and the name
	integer bool
}

const (
	maxParams      = 100
	maxSchemaDepth = 64
)

// paramsOf returns the arguments of a tool that go into headers. A schema with an
// annotation that is not allowed is an error, which makes the tool one that is not
// listed (XMH-02, XMH-03, XMH-04).
func paramsOf(schema jsontext.Value) ([]param, error) {
	if schema == nil || !strings.Contains(string(schema), annotation) {
		// An escape in its name would hide it from this and not from the walk;
		// names of keywords are not written so.
		if !strings.Contains(string(schema), `\u`) {
			return nil, nil
		}
	}
	w := &schemaWalk{}
	if err := w.object(schema, nil, true, 0); err != nil {
		return nil, err
	}
	return w.found, nil
}

type schemaWalk struct{ found []param }

// object walks a schema. reachable says that only properties lead to it.
func (w *schemaWalk) object(schema jsontext.Value, path []string, reachable bool, depth int) error {
	if depth > maxSchemaDepth {
		return errors.New("the schema is nested too deeply")
	}
	if schema.Kind() != '{' {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(schema, &members); err != nil {
		return errors.New("the schema is not an object")
	}
	if name, ok := members[annotation]; ok {
		if err := w.annotated(name, members, path, reachable); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		value := members[key]
		switch key {
		case annotation, "default", "const", "enum", "examples":
			continue // values, not schemas
		case "properties":
			if err := w.properties(value, path, reachable, depth); err != nil {
				return err
			}
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			if err := w.properties(value, nil, false, depth); err != nil {
				return err
			}
		default:
			if err := w.elsewhere(value, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// properties walks schemas by name.
func (w *schemaWalk) properties(value jsontext.Value, path []string, reachable bool, depth int) error {
	if value.Kind() != '{' {
		return nil
	}
	var named map[string]jsontext.Value
	if err := json.Unmarshal(value, &named); err != nil {
		return errors.New("the properties are not an object")
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if err := w.object(named[name], append(slices.Clip(path), name), reachable, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere walks what may hold schemas that are not reached by properties alone.
func (w *schemaWalk) elsewhere(value jsontext.Value, depth int) error {
	switch value.Kind() {
	case '{':
		return w.object(value, nil, false, depth+1)
	case '[':
		var list []jsontext.Value
		if err := json.Unmarshal(value, &list); err != nil {
			return errors.New("the schema cannot be read")
		}
		for _, one := range list {
			if err := w.elsewhere(one, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *schemaWalk) annotated(name jsontext.Value, members map[string]jsontext.Value, path []string, reachable bool) error {
	if name.Kind() != '"' {
		return fmt.Errorf("%s is not a text", annotation)
	}
	var text, kind string
	if err := json.Unmarshal(name, &text); err != nil {
		return fmt.Errorf("%s cannot be read", annotation)
	}
	if err := json.Unmarshal(members["type"], &kind); err != nil {
		kind = ""
	}
	switch {
	case !reachable || len(path) == 0:
		return fmt.Errorf("%s stands where properties alone do not lead", annotation)
	case !isToken(text):
		return fmt.Errorf("%s %q is not the name of a header", annotation, clip(text, 60))
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s is on an argument that is not a string, an integer or a boolean", annotation)
	case len(w.found) >= maxParams:
		return fmt.Errorf("%s is on more than %d arguments", annotation, maxParams)
	}
	header := mcp.HeaderParamPrefix + text
	if slices.ContainsFunc(w.found, func(p param) bool { return strings.EqualFold(p.header, header) }) {
		return fmt.Errorf("%s %q stands twice", annotation, clip(text, 60))
	}
	w.found = append(w.found, param{path: path, header: header, integer: kind == "integer"})
	return nil
}

// isToken reports whether a text is a token (RFC 9110 §5.6.2).
func isToken(text string) bool {
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != "" && len(text) <= 200
}

// headersOf adds the headers that arguments go into (XMH-05). Those that the
// client has sent by these names are replaced.
func headersOf(params []param, args jsontext.Value, header http.Header) {
	for _, p := range params {
		header.Del(p.header)
		if text, ok := argument(p, args); ok {
			header.Set(p.header, mcp.EscapeHeader(text))
		}
	}
}

// maxSafe is the largest integer that every reader of JSON keeps (XMH-02).
const maxSafe = 1<<53 - 1

// argument returns the text of the argument, if there is one that has a text.
func argument(p param, value jsontext.Value) (string, bool) {
	for _, name := range p.path {
		if value.Kind() != '{' {
			return "", false
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return "", false
		}
		value = members[name]
		if value == nil {
			return "", false
		}
	}
	switch value.Kind() {
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return "", false
		}
		return text, true
	case 't', 'f':
		return string(value), true
	case '0':
		if n, err := strconv.ParseFloat(string(value), 64); err == nil && p.integer && n == float64(int64(n)) && n >= -maxSafe && n <= maxSafe {
			return strconv.FormatInt(int64(n), 10), true
		}
		return string(value), true // not what the schema says; the server judges it
	}
	return "", false
}

// toolbox remembers which arguments of which tools go into headers.
type toolbox struct {
	mu    sync.Mutex
	tools map[string][]param // only tools that have some
}

const maxTools = 10_000

func (b *toolbox) params(tool string) []param {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools[tool]
}

func (b *toolbox) set(tool string, params []param) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(params) == 0 {
		delete(b.tools, tool)
		return
	}
	if b.tools == nil || len(b.tools) >= maxTools {
		b.tools = map[string][]param{}
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
		params, err := paramsOf(known.Schema)
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
