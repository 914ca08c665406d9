package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// annotation is the keyword of a schema that has an argument sent as a header
// (MCP basic/transports/streamable-http §Custom Headers from Tool Parameters).
const annotation = "x-mcp-header"

// Param is an argument that goes into a header.
type Param struct {
	path    []string // of names, from the arguments
	header  string   // Mcp-Param- and the name
	integer bool
}

// Header is the name of the header.
func (p *Param) Header() string { return p.header }

const (
	maxParams      = 100
	maxSchemaDepth = 64
)

// ParamsOf returns the arguments of a tool that go into headers. A schema with an
// annotation that is not allowed is an error, which makes the tool one that is not
// listed (XMH-02, XMH-03, XMH-04).
func ParamsOf(schema jsontext.Value) ([]Param, error) {
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

type schemaWalk struct{ found []Param }

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
		return fmt.Errorf("%s %q is not the name of a header", annotation, clipped(text, 60))
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s is on an argument that is not a string, an integer or a boolean", annotation)
	case len(w.found) >= maxParams:
		return fmt.Errorf("%s is on more than %d arguments", annotation, maxParams)
	}
	header := HeaderParamPrefix + text
	if slices.ContainsFunc(w.found, func(p Param) bool { return strings.EqualFold(p.header, header) }) {
		return fmt.Errorf("%s %q stands twice", annotation, clipped(text, 60))
	}
	w.found = append(w.found, Param{path: path, header: header, integer: kind == "integer"})
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

// SetParamHeaders adds the headers that arguments go into (XMH-05). Those that
// stand there by these names are replaced.
func SetParamHeaders(params []Param, args jsontext.Value, header http.Header) {
	for _, p := range params {
		header.Del(p.header)
		if text, ok := p.Argument(args); ok {
			header.Set(p.header, EscapeHeader(text))
		}
	}
}

// maxSafe is the largest integer that every reader of JSON keeps (XMH-02).
const maxSafe = 1<<53 - 1

// Argument returns the text of the argument among those of a call, if there is one
// that has a text.
func (p *Param) Argument(args jsontext.Value) (string, bool) {
	value := args
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

func clipped(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}
