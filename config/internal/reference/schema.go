package reference

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
)

// builder makes schemas. A named struct below the root becomes a definition.
type builder struct {
	comments comments
	defs     map[string]*jsonschema.Schema
}

// environment is a value that comes from the environment.
const environment = `\$\{`

// object returns the schema of a struct's own form.
func (b *builder) object(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, k := range b.comments.keys(t) {
		property := b.value(k.field.Type, k.field.Tag)
		if property.Ref != "" {
			property = &jsonschema.Schema{Ref: property.Ref}
		}
		property.Description = k.description
		if text, ok := k.field.Tag.Lookup("default"); ok {
			property.Default = defaultOf(k.field.Type, text)
		}
		s.Properties[k.name] = property
		s.PropertyOrder = append(s.PropertyOrder, k.name)
		if k.field.Tag.Get("required") == "true" {
			s.Required = append(s.Required, k.name)
		}
	}
	if t == reflect.TypeFor[config.Config]() {
		s.PatternProperties = map[string]*jsonschema.Schema{"^x-": {}}
	}
	return s
}

// value returns the schema of a value.
func (b *builder) value(t reflect.Type, tag reflect.StructTag) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[a2a.JSON]():
		return &jsonschema.Schema{}
	case reflect.TypeFor[config.Duration]():
		return &jsonschema.Schema{
			AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: `^-?[0-9.]+(ns|us|µs|ms|s|m|h|d)([0-9.]+(ns|us|µs|ms|s|m|h))*$|^0$|` + environment}, {Const: jsonschema.Ptr[any](0)}},
		}
	case reflect.TypeFor[config.Size]():
		return &jsonschema.Schema{
			AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: `^[0-9]+ ?([KMG]i?B|kB|B)?$|` + environment}, {Type: "integer", Minimum: jsonschema.Ptr(0.0)}},
		}
	case reflect.TypeFor[config.Secret](), reflect.TypeFor[config.Prefix](), reflect.TypeFor[netguard.Destination]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[config.CardSource]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "object"}}}
	case reflect.TypeFor[config.MCPAgents]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "boolean"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}}}
	case reflect.TypeFor[config.MCPTools]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "array", Items: &jsonschema.Schema{Type: "string"}}, {Type: "object", AdditionalProperties: b.value(t.Elem(), tag)}}}
	case reflect.TypeFor[config.Pin](), reflect.TypeFor[config.MCPReason](), reflect.TypeFor[config.Tristate]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "boolean"}}}
	}
	if t.Kind() == reflect.Pointer {
		return b.value(t.Elem(), tag)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.definition(t)
	case reflect.Map:
		return nullable(&jsonschema.Schema{Type: "object", AdditionalProperties: b.value(t.Elem(), tag)})
	case reflect.Slice:
		if t == reflect.TypeFor[config.ScriptParts]() {
			return b.definition(t)
		}
		return nullable(&jsonschema.Schema{Type: "array", Items: b.value(t.Elem(), tag)})
	case reflect.Bool:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "boolean"}, {Type: "string", Pattern: environment}}}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return number("integer", tag)
	case reflect.Float64:
		return number("number", tag)
	}
	s := &jsonschema.Schema{Type: "string"}
	if t.Kind() == reflect.String && tag.Get("enum") == "" {
		s = &jsonschema.Schema{Types: []string{"string", "number"}}
	}
	for one := range strings.SplitSeq(tag.Get("enum"), ",") {
		if one != "" {
			s.Enum = append(s.Enum, one)
		}
	}
	if len(s.Enum) > 0 {
		s = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: environment}}}
	}
	return s
}

// nullable allows a key whose values are all commented out.
func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	s.Types, s.Type = []string{s.Type, "null"}, ""
	return s
}

func number(kind string, tag reflect.StructTag) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: kind}
	if limit, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil {
		s.Minimum = &limit
	}
	if limit, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil {
		s.Maximum = &limit
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: environment}}}
}

// definition returns a reference to the schema of a named type, with the short
// forms that the type can be written in.
func (b *builder) definition(t reflect.Type) *jsonschema.Schema {
	ref := &jsonschema.Schema{Ref: "#/$defs/" + t.Name()}
	if _, ok := b.defs[t.Name()]; ok {
		return ref
	}
	if b.defs == nil {
		b.defs = map[string]*jsonschema.Schema{}
	}
	s := &jsonschema.Schema{}
	b.defs[t.Name()] = s // before its content, which may refer to it
	switch text := (&jsonschema.Schema{Types: []string{"string", "number"}}); t {
	case reflect.TypeFor[config.ScriptParts]():
		s.AnyOf = []*jsonschema.Schema{{Enum: []any{"rest", "outcome"}}, {Type: "array", Items: b.value(t.Elem(), "")}}
	case reflect.TypeFor[config.ScriptPart]():
		s.AnyOf = []*jsonschema.Schema{{Enum: []any{"rest", "outcome"}}, b.object(t)}
	case reflect.TypeFor[config.ScriptContent]():
		s.AnyOf = []*jsonschema.Schema{text, b.value(reflect.TypeFor[config.ScriptParts](), ""), b.object(t)}
		s.AnyOf[1] = &jsonschema.Schema{Type: "array", Items: b.value(reflect.TypeFor[config.ScriptPart](), "")}
	case reflect.TypeFor[config.Exec]():
		s.AnyOf = []*jsonschema.Schema{{Type: "array", Items: text}, b.object(t)}
	case reflect.TypeFor[config.HTTP](), reflect.TypeFor[config.PeerKey](), reflect.TypeFor[config.ToolAgent]():
		s.AnyOf = []*jsonschema.Schema{{Type: "string"}, b.object(t)}
	default:
		*s = *nullable(b.object(t))
	}
	return ref
}

// defaultOf returns a default as JSON.
func defaultOf(t reflect.Type, text string) []byte {
	var value any = text
	switch t.Kind() {
	case reflect.Bool:
		value = text == "true"
	case reflect.Int, reflect.Float64:
		value, _ = strconv.ParseFloat(text, 64)
	case reflect.Slice:
		value = strings.Split(text, ",")
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return encoded
}
