// Package form makes forms of the JSON Schemas that questions come with, reads
// what people fill in, and checks answers. Schemas come from agents and peers
// and are not trusted: what is not understood is no form, and nothing is fetched.
package form

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of schemas and answers.
const (
	MaxSchema = 64 << 10  // bytes
	MaxAnswer = 256 << 10 // bytes
	maxFields = 200
	maxNodes  = 20_000 // schemas that a check goes through, references followed
	maxDepth  = 64
	maxReason = 300 // bytes
)

// Kind is the kind of a field.
type Kind string

// The kinds of fields.
const (
	Text     Kind = "text"
	Number   Kind = "number"
	Integer  Kind = "integer"
	Boolean  Kind = "boolean"
	Choice   Kind = "choice" // one of Options
	Date     Kind = "date"
	DateTime Kind = "date-time"
	List     Kind = "list" // of Items
	JSON     Kind = "json" // whatever else the schema has
)

// Field is one thing that a form asks for.
type Field struct {
	Name        string // of the property; "" when the answer is this one value
	Title       string
	Description string
	Kind        Kind
	Items       Kind // of a List: Text, Number, Integer, Boolean, Choice, Date or DateTime
	Required    bool
	Long        bool     // of a Text: that it may have many lines
	Options     []Option // of a Choice, or of a List of choices
	Default     string   // as a person would write it; "": none
}

// Option is one of the values that can be chosen.
type Option struct {
	Label string
	value jsontext.Value
}

// Form is a form that was made of a schema.
type Form struct {
	Title       string
	Description string
	Fields      []Field

	schema *jsonschema.Resolved
	source *jsonschema.Schema // of schema
	size   int                // of the text of the schema
	single bool               // the answer is the one field's value
}

// FieldError says which field of an answer does not fit, and why.
type FieldError struct {
	Field  string // such as lines[].sku; "": the answer as a whole
	Reason string
}

// Error names the field.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "the answer " + e.Reason
	}
	return e.Field + " " + e.Reason
}

// New makes a form of a schema. The error says why there can be none.
func New(schema []byte) (*Form, error) {
	if len(schema) > MaxSchema {
		return nil, fmt.Errorf("the schema is larger than %d bytes", MaxSchema)
	}
	if d := depth(schema); d > maxDepth {
		return nil, fmt.Errorf("the schema is nested more than %d deep", maxDepth)
	}
	var s jsonschema.Schema
	if err := s.UnmarshalJSON(schema); err != nil {
		return nil, errors.New("the schema is not a JSON Schema")
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, errors.New("the schema is not understood: it refers to something that is not in it, or has a pattern or a value that is not valid")
	}
	if err := bound(&s); err != nil {
		return nil, err
	}
	f := &Form{Title: s.Title, Description: s.Description, schema: resolved, source: &s, size: len(schema)}
	root := follow(&s, &s)
	if len(root.Properties) == 0 {
		f.single = true
		field := fieldOf(&s, root, "")
		field.Required = true
		f.Fields = []Field{field}
		return f, nil
	}
	if len(root.Properties) > maxFields {
		return nil, fmt.Errorf("the schema has more than %d fields", maxFields)
	}
	for _, name := range order(schema, root) {
		field := fieldOf(&s, root.Properties[name], name)
		field.Required = slices.Contains(root.Required, name)
		f.Fields = append(f.Fields, field)
	}
	return f, nil
}

// depth returns how deep a JSON value is nested.
func depth(value []byte) (deepest int) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		if deepest = max(deepest, d.StackDepth()); deepest > maxDepth {
			return deepest
		}
	}
}

// bound refuses schemas that could keep a check busy: those with references that
// lead back to themselves, and those that are large when references are followed.
func bound(root *jsonschema.Schema) error {
	sizes := map[*jsonschema.Schema]int{}
	var size func(s *jsonschema.Schema) (int, error)
	size = func(s *jsonschema.Schema) (int, error) {
		switch n, known := sizes[s]; {
		case known && n < 0:
			return 0, errors.New("the schema refers to itself")
		case known:
			return n, nil
		case s.DynamicRef != "":
			return 0, errors.New("the schema has references that are not understood here")
		}
		sizes[s] = -1
		n := 1
		children := childrenOf(s)
		if s.Ref != "" {
			target := lookUp(root, s.Ref)
			if target == nil {
				return 0, fmt.Errorf("the schema refers to %q, which is not among its definitions", clip(s.Ref))
			}
			children = append(children, target)
		}
		for _, child := range children {
			m, err := size(child)
			if err != nil {
				return 0, err
			}
			if n += m; n > maxNodes {
				return 0, errors.New("the schema is too large")
			}
		}
		sizes[s] = n
		return n, nil
	}
	_, err := size(root)
	return err
}

// childrenOf returns the schemas that a check of s goes through next.
func childrenOf(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	for _, list := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray, s.AllOf, s.AnyOf, s.OneOf} {
		all = append(all, list...)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.DependentSchemas, s.DependencySchemas} {
		for _, child := range m {
			all = append(all, child)
		}
	}
	for _, child := range []*jsonschema.Schema{
		s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.PropertyNames, s.UnevaluatedProperties,
		s.Not, s.If, s.Then, s.Else, s.ContentSchema,
	} {
		if child != nil {
			all = append(all, child)
		}
	}
	return all
}

// lookUp returns the definition that a reference names, nil when it is none.
func lookUp(root *jsonschema.Schema, ref string) *jsonschema.Schema {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	if ref == "#" {
		return root
	}
	if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
		return root.Defs[unescape.Replace(name)]
	}
	if name, ok := strings.CutPrefix(ref, "#/definitions/"); ok {
		return root.Definitions[unescape.Replace(name)]
	}
	return nil
}

// follow follows the references of a schema to the one that says something. They
// do not lead in circles, see bound.
func follow(root, s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != "" {
		s = lookUp(root, s.Ref)
	}
	return s
}

// order returns the names of properties in the order in which the schema has
// them, as far as it is found, and the others behind.
func order(schema []byte, root *jsonschema.Schema) []string {
	var top struct {
		Properties jsontext.Value `json:"properties"`
	}
	var names []string
	add := func(name string) {
		if root.Properties[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if json.Unmarshal(schema, &top) == nil && top.Properties.Kind() == '{' {
		d := jsontext.NewDecoder(bytes.NewReader(top.Properties))
		_, _ = d.ReadToken()
		for d.PeekKind() == '"' {
			token, err := d.ReadToken()
			if err != nil {
				break
			}
			name := token.String()
			if d.SkipValue() != nil {
				break
			}
			add(name)
		}
	}
	var rest []string
	for name := range root.Properties {
		if !slices.Contains(names, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}

// fieldOf makes a field of the schema of a property.
func fieldOf(root, property *jsonschema.Schema, name string) Field {
	s := follow(root, property)
	f := Field{Name: name, Title: s.Title, Description: s.Description}
	if property.Title != "" {
		f.Title = property.Title
	}
	if property.Description != "" {
		f.Description = property.Description
	}
	f.Kind, f.Options = kindOf(s)
	switch {
	case f.Kind == Text:
		f.Long = s.Format == "" && s.Pattern == "" && (s.MaxLength == nil || *s.MaxLength > 200)
	case typeOf(s) == "array" && s.Items != nil && len(s.PrefixItems) == 0:
		if items, options := kindOf(follow(root, s.Items)); items != JSON {
			f.Kind, f.Items, f.Options = List, items, options
		}
	}
	given := property.Default
	if given == nil {
		given = s.Default
	}
	f.Default = f.write(jsontext.Value(given))
	for _, o := range f.Options {
		if f.Kind == Choice && f.Default == plain(o.value) {
			f.Default = o.Label
		}
	}
	return f
}

// typeOf returns the type of the values of a schema, "" when there are several.
// That they may be null too counts for nothing: such a field is left empty.
func typeOf(s *jsonschema.Schema) string {
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	switch {
	case s.Type != "":
		return s.Type
	case len(types) == 1:
		return types[0]
	}
	return ""
}

// kindOf returns the kind of field for one value of a schema.
func kindOf(s *jsonschema.Schema) (Kind, []Option) {
	values := s.Enum
	labels := map[int]string{}
	if values == nil {
		for i, one := range append(slices.Clone(s.OneOf), s.AnyOf...) {
			if one.Const == nil {
				values = nil
				break
			}
			values, labels[i] = append(values, *one.Const), one.Title
		}
	}
	if len(values) > 0 {
		var options []Option
		for i, v := range values {
			value, err := json.Marshal(v)
			if err != nil {
				continue
			}
			label := labels[i]
			if label == "" {
				label = plain(value)
			}
			options = append(options, Option{Label: label, value: value})
		}
		return Choice, options
	}
	if len(s.OneOf)+len(s.AnyOf) > 0 {
		return JSON, nil
	}
	switch typeOf(s) {
	case "string":
		switch s.Format {
		case "date":
			return Date, nil
		case "date-time":
			return DateTime, nil
		}
		return Text, nil
	case "number":
		return Number, nil
	case "integer":
		return Integer, nil
	case "boolean":
		return Boolean, nil
	}
	return JSON, nil
}

// plain writes a JSON value as a person would: a string without quotes.
func plain(value jsontext.Value) string {
	if value.Kind() == '"' {
		var text string
		if json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return string(value)
}

// clip bounds what is quoted of others.
func clip(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "…"
}
