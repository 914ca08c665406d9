package mcpgw

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
)

// Bounds of a definition, in bytes.
const (
	maxName       = 128 // of a tool or prompt (TOL-01)
	maxURI        = 8 << 10
	maxTitle      = 200 // of a name that an error repeats
	maxDefinition = 1 << 20
)

// entry is something that a server lists, as the server has it.
type entry struct {
	kind        listKind
	name        string         // or the URI, or the URI template
	text        jsontext.Value // the definition, byte for byte (JSS-05)
	title       string
	description string
	held        bool // changed, and not approved
	hasOutput   bool // an outputSchema
	// readOnly and idempotent are what the server says in annotations (TOL-04).
	readOnly, idempotent bool
	template             *uriTemplate

	params []mcp.Param                    // arguments of a tool that go into headers
	input  func() (*policy.Schema, error) // compiled when it is first needed
}

// readEntry reads a definition. A reason says why clients cannot see it.
func readEntry(kind listKind, text jsontext.Value) (e *entry, reason string) {
	e = &entry{kind: kind}
	var raw struct {
		Name        string          `json:"name"`
		URI         string          `json:"uri"`
		Template    string          `json:"uriTemplate"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Input       jsontext.Value  `json:"inputSchema"`
		Output      *jsontext.Value `json:"outputSchema"`
		Annotations struct {
			ReadOnly   bool `json:"readOnlyHint"`
			Idempotent bool `json:"idempotentHint"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return e, "its definition cannot be read: " + err.Error()
	}
	switch kind {
	case listResources:
		e.name = raw.URI
	case listTemplates:
		e.name = raw.Template
	default:
		e.name = raw.Name
	}
	if len(text) > maxDefinition {
		return e, fmt.Sprintf("its definition is larger than %d bytes", maxDefinition)
	}
	if reason := badName(kind, e.name); reason != "" {
		return e, reason
	}
	e.text = cleaned(slices.Clone(text))
	e.title, e.description, e.hasOutput = clean(raw.Title, maxDescription, false), clean(raw.Description, maxDescription, true), raw.Output != nil
	e.readOnly, e.idempotent = raw.Annotations.ReadOnly, raw.Annotations.Idempotent
	switch kind {
	case listTools:
		if reason := badInput(raw.Input); reason != "" {
			return e, reason
		}
		e.params, _ = mcp.ParamsOf(raw.Input) // servers over HTTP do not list one where they are wrong
		input := slices.Clone(raw.Input)
		e.input = sync.OnceValues(func() (*policy.Schema, error) { return policy.CompileSchema(input) })
	case listTemplates:
		var err error
		if e.template, err = parseTemplate(e.name); err != nil {
			return e, err.Error()
		}
	}
	return e, ""
}

// badName says what is wrong with a name. Names are not mended: who calls has to
// write them as they are.
func badName(kind listKind, name string) string {
	most := maxName
	if kind == listResources || kind == listTemplates {
		most = maxURI
	}
	switch {
	case name == "":
		return "it has no name"
	case len(name) > most:
		return fmt.Sprintf("its name is longer than %d bytes", most)
	case strings.ContainsFunc(name, func(r rune) bool { return isHarmful(r) || r == 0x200C || r == 0x200D }), name != strings.TrimSpace(name):
		return "its name has characters that nobody sees"
	}
	return ""
}

// isHarmful reports whether a character is one that terminals obey, or that people
// do not see and models read: controls, marks of direction, and tags.
func isHarmful(r rune) bool {
	switch {
	case unicode.IsControl(r), r == utf8.RuneError:
		return true
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C: // direction
		return true
	case r == 0x00AD, r == 0x034F, r == 0x180E, r == 0x200B, r >= 0x2060 && r <= 0x2064: // without width
		return true
	case r >= 0xE0000 && r <= 0xE007F, r == 0x2028, r == 0x2029, r == 0xFEFF:
		return true
	}
	return false
}

// clean leaves harmful characters out of a text, and what is beyond a length.
// Lines may have ends.
func clean(s string, most int, lines bool) string {
	if strings.ContainsFunc(s, func(r rune) bool { return isHarmful(r) && !(lines && isSpace(r)) }) {
		s = strings.Map(func(r rune) rune {
			if isHarmful(r) && !(lines && isSpace(r)) {
				return -1
			}
			return r
		}, s)
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func isSpace(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

// cleaned returns a definition whose titles and descriptions, wherever they are,
// have no harmful characters and are not too long. One that is clean comes back as
// it is, byte for byte.
func cleaned(text jsontext.Value) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	type cut struct {
		from, end int
		text      []byte
	}
	var cuts []cut
	var last string // the name before a value
	for {
		kind := d.PeekKind()
		if kind == 0 {
			break
		}
		if kind != '"' {
			if _, err := d.ReadToken(); err != nil {
				return text
			}
			last = ""
			continue
		}
		within, n := d.StackIndex(d.StackDepth())
		isKey := within == '{' && n%2 == 0
		value, err := d.ReadValue()
		if err != nil {
			return text
		}
		s := unquote(value)
		if isKey {
			last = s
			continue
		}
		if last == "title" || last == "description" {
			if better := clean(s, maxDescription, true); better != s {
				end := int(d.InputOffset())
				cuts = append(cuts, cut{end - len(value), end, quote(better)})
			}
		}
		last = ""
	}
	if len(cuts) == 0 {
		return text
	}
	var out []byte
	at := 0
	for _, c := range cuts {
		out = append(append(out, text[at:c.from]...), c.text...)
		at = c.end
	}
	return append(out, text[at:]...)
}

// badInput says what is wrong with an inputSchema (JSS-02, XMH-02, XMH-03).
func badInput(schema jsontext.Value) string {
	if schema.Kind() != '{' {
		return "its inputSchema is no object"
	}
	var root struct {
		Type jsontext.Value `json:"type"`
	}
	if err := json.Unmarshal(schema, &root); err != nil || string(root.Type) != `"object"` {
		return `its inputSchema is not of type "object"`
	}
	if !bytes.Contains(schema, []byte("x-mcp-header")) && !bytes.Contains(schema, []byte(`\u`)) {
		return ""
	}
	var tree map[string]any
	if err := json.Unmarshal(schema, &tree); err != nil {
		return "its inputSchema cannot be read"
	}
	h := headerCheck{seen: map[string]bool{}}
	h.walk(tree, true, false)
	return h.reason
}

// headerCheck looks for annotations x-mcp-header that are not valid.
type headerCheck struct {
	seen   map[string]bool
	reason string
}

const headerKeyword = "x-mcp-header"

// walk visits a schema. Reachable says that only properties led here from the root;
// property, that it is one.
func (h *headerCheck) walk(v any, reachable, property bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			h.walk(one, false, false)
		}
	case map[string]any:
		if name, ok := v[headerKeyword]; ok {
			h.annotation(v, name, reachable && property)
		}
		for key, one := range v {
			properties, isMap := one.(map[string]any)
			switch {
			case key == headerKeyword, key == "enum", key == "const", key == "default", key == "examples":
			case key == "properties" && isMap:
				for _, p := range properties {
					h.walk(p, reachable, true)
				}
			case isMap && (key == "$defs" || key == "definitions" || key == "patternProperties" || key == "dependentSchemas"):
				for _, p := range properties {
					h.walk(p, false, false)
				}
			default:
				h.walk(one, false, false)
			}
		}
	}
}

func (h *headerCheck) annotation(schema map[string]any, value any, reachable bool) {
	name, ok := value.(string)
	kind, _ := schema["type"].(string)
	lower := strings.ToLower(name)
	switch {
	case !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isTokenRune(r) }):
		h.reason = "its x-mcp-header is not a name of a header"
	case !reachable:
		h.reason = "its x-mcp-header is not on a property that only properties lead to"
	case kind != "string" && kind != "integer" && kind != "boolean":
		h.reason = "its x-mcp-header is on what is neither a string, an integer nor a boolean"
	case h.seen[lower]:
		h.reason = "it has an x-mcp-header twice"
	}
	h.seen[lower] = true
}

// isTokenRune reports whether a character may be in the name of a header (RFC 9110
// §5.6.2).
func isTokenRune(r rune) bool {
	return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

// withMember returns an object with a member set or replaced; all other bytes are as
// they were.
func withMember(object jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return object
	}
	for d.PeekKind() == '"' {
		key, err := d.ReadValue()
		if err != nil {
			return object
		}
		found := unquote(key) == name
		old, err := d.ReadValue()
		if err != nil {
			return object
		}
		if found {
			end := int(d.InputOffset())
			return slices.Concat(object[:end-len(old)], value, object[end:])
		}
	}
	at := bytes.IndexByte(object, '{') + 1
	member := append(append(quote(name), ':'), value...)
	if bytes.TrimSpace(object[at:])[0] != '}' {
		member = append(member, ',')
	}
	return slices.Concat(object[:at], member, object[at:])
}

// quote returns a JSON string.
func quote(s string) jsontext.Value {
	out, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD")) // which is UTF-8
	return out
}

func unquote(value jsontext.Value) string {
	out, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(out)
}

// appendMembers appends an object of names and values in turn.
func appendMembers(dst []byte, first string, value jsontext.Value) []byte {
	dst = append(append(append(dst, '{'), quote(first)...), ':')
	return append(append(dst, value...), '}')
}
