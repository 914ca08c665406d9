package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of a schema (JSS-04).
const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 64
	maxSchemaNodes = 20_000
	// maxVisits bounds how often parts of a schema are held against parts of a
	// value, by an estimate from above.
	maxVisits = 2_000_000
	maxReason = 500 // bytes of what does not fit
)

// Schema is a JSON Schema, of 2020-12 where it does not say, or of draft-07. It
// fetches nothing (JSS-03), and refuses values on which it might take long. It is
// immutable and safe for concurrent use.
type Schema struct {
	resolved *jsonschema.Resolved
	cost     *cost
	flat     *flat // nil: the schema says more
}

// CompileSchema compiles a schema. It refuses one of another dialect (JSS-01), one
// that refers to what it does not contain (JSS-03), one that refers to itself
// without end, and one that is too large.
func CompileSchema(text []byte) (*Schema, error) {
	switch {
	case len(text) > maxSchemaBytes:
		return nil, fmt.Errorf("the schema is larger than %d bytes", maxSchemaBytes)
	case !utf8.Valid(text):
		return nil, errors.New("the schema is not UTF-8")
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	nodes := 0
	if deep := measure(tree, 0, &nodes); deep > maxSchemaDepth || nodes > maxSchemaNodes {
		return nil, fmt.Errorf("the schema is nested deeper than %d levels, or has more than %d parts", maxSchemaDepth, maxSchemaNodes)
	}
	if root, ok := tree.(map[string]any); ok {
		if dialect, said := root["$schema"]; said && !known(dialect) {
			return nil, fmt.Errorf("the dialect %.100q is not supported; 2020-12 and draft-07 are", fmt.Sprint(dialect))
		}
	}
	c := newCost(tree)
	if err := c.check(); err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := s.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve schema: %w", err)
	}
	return &Schema{resolved, c, newFlat(tree)}, nil
}

func known(dialect any) bool {
	switch text, _ := dialect.(string); strings.TrimSuffix(text, "#") {
	case "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema":
		return true
	}
	return false
}

// measure returns how deep a value is nested, and counts its parts.
func measure(v any, depth int, nodes *int) int {
	*nodes++
	deepest := depth
	if depth > maxSchemaDepth {
		return depth
	}
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			deepest = max(deepest, measure(one, depth+1, nodes))
		}
	case []any:
		for _, one := range v {
			deepest = max(deepest, measure(one, depth+1, nodes))
		}
	}
	return deepest
}

// Check reports how a value does not fit; nil is an empty object. An error is a
// text for who has made the value, or says that the value cannot be checked.
func (s *Schema) Check(value jsontext.Value) error {
	v, err := decode(value)
	if err != nil {
		return err
	}
	return s.check(v)
}

// decode decodes arguments once for all schemas.
func decode(value jsontext.Value) (any, error) {
	if len(bytes.TrimSpace(value)) == 0 {
		return map[string]any{}, nil
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, errors.New("they are not JSON")
	}
	return v, nil
}

// errTooMuch says that a value might take too long.
var errTooMuch = errors.New("they are too large to be held against the schema")

func (s *Schema) check(v any) error {
	nodes := 0
	depth := measure(v, 0, &nodes)
	if visits := s.cost.visits(depth); nodes > maxVisits || visits > int64(maxVisits/max(nodes, 1)) {
		return errTooMuch
	}
	if err := s.resolved.Validate(v); err != nil {
		return errors.New(reasonOf(err))
	}
	return nil
}

// checkInput is check for the arguments of a tool. One that is null and not required
// is as if it were not there (XMH-05): clients write it where they have nothing to
// say, and servers take it.
func (s *Schema) checkInput(arguments map[string]any) error {
	err := s.check(arguments)
	if err == nil || errors.Is(err, errTooMuch) {
		return err
	}
	root, _ := s.cost.root.(map[string]any)
	required, _ := root["required"].([]any)
	said := make(map[string]any, len(arguments))
	for name, value := range arguments {
		if value != nil || slices.Contains(required, any(name)) {
			said[name] = value
		}
	}
	if len(said) == len(arguments) || s.check(said) != nil {
		return err
	}
	return nil
}

// reasonOf makes the text of a failure fit for people and models: without the
// words that lead to the place, and not long.
func reasonOf(err error) string {
	text := strings.ReplaceAll(err.Error(), "validating root: ", "")
	text = strings.ReplaceAll(text, "validating ", "")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
