package console

import (
	"html/template"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/content"
)

// jsonTree returns a JSON value as a tree that can be opened and closed. A value
// that is not jsontext.Value or bytes is marshaled first.
func jsonTree(v any) (template.HTML, error) {
	switch v := v.(type) {
	case jsontext.Value:
		return content.Tree(string(v)), nil
	case []byte:
		return content.Tree(string(v)), nil
	}
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return content.Tree(string(b)), nil
}
