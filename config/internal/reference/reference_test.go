package reference_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/config"
	"handoff.example/handoff/config/internal/reference"
)

const (
	sources  = "../.."
	document = "../../../docs/configuration.md"
	examples = "../../../examples/*/handoff.yaml"
)

func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := reference.Schema(sources)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(config.Schema(), want) {
		t.Error("config/handoff.schema.json is not current: run go generate ./config")
	}
}

func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.Document(sources, old)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(old, want) {
		t.Error("docs/configuration.md is not current: run go generate ./config")
	}
}

// validate checks a file against the schema.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(asJSON, &value); err != nil {
		t.Fatal(err)
	}
	return resolved.Validate(value)
}

func TestTemplateAndExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(examples)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{"template": config.Template()}
	dirs := map[string]string{"template": t.TempDir()}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file], dirs[file] = text, filepath.Dir(file)
	}
	for name, text := range texts {
		if !bytes.HasPrefix(text, []byte("# yaml-language-server: $schema=")) {
			t.Errorf("%s does not begin by naming its schema", name)
		}
		if err := validate(t, text); err != nil {
			t.Errorf("%s does not fit the schema: %v", name, err)
		}
		if _, err := config.Parse(text, dirs[name]); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
}

// What Parse refuses as a whole class, the schema refuses too.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	agent := "agents: {a: {name: A, description: D, version: 1, skills: [{id: s, name: S, description: D, tags: [t]}], run: "
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{agent + "{exec: [./x]}}}", true},
		{agent + "{exec: {command: [./x], output: text}}}}", true},
		{agent + "{http: 'http://x'}}}", true},
		{agent + "{script: [{do: [{ask: Why?}, {complete: {parts: rest}}, {artifact: {parts: [rest, {text: x}]}}]}]}}}", true},
		{agent + "{script: [{do: [{repeat: {times: 3, every: 10ms, do: [{working: {}}]}}]}]}}}", true},
		{"x-any: {thing: 1}\nlimits:\n", true},
		{"limits: {body: 16MiB, header_bytes: 65536, streams: '${N}'}", true},
		{"stale_after: 0", true},
		{agent + "{exec: ./x}}}", false},
		{agent + "{script: [{doo: []}]}}}", false},
		{agent + "{relay: {}}}}", false},
		{"listne: x", false},
		{"limits: {body: lots}", false},
		{"limits: {streams: -1}", false},
		{"shutdown_grace: 10", false},
		{"callers: {anonymous: maybe}", false},
		{"agents: {a: {name: A}}", false},
	} {
		if err := validate(t, []byte(tt.text)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.text, err)
		}
		_, err := config.Parse([]byte(tt.text), "")
		if tt.ok && err != nil && tt.text[0] == 'a' || !tt.ok && err == nil {
			t.Errorf("%s: Parse says %v", tt.text, err)
		}
	}
}
