package backend_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/backend"
)

var codeBlock = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// blocks returns the code blocks of docs/agents.md in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range codeBlock.FindAllStringSubmatch(string(page), -1) {
		if m[1] == language {
			found = append(found, m[2])
		}
	}
	if len(found) == 0 {
		t.Fatalf("the page has no block of %s", language)
	}
	return found
}

func TestDocumentedConfigurations(t *testing.T) {
	t.Parallel()
	for _, text := range blocks(t, "yaml") {
		if problems := backend.Check(configured(t, text)); len(problems) > 0 {
			t.Errorf("%s\n%v", text, problems)
		}
	}
}

func TestDocumentedSteps(t *testing.T) {
	t.Parallel()
	for _, text := range blocks(t, "jsonl") {
		for line := range strings.Lines(text) {
			if _, err := agent.ParseStep([]byte(line)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestDocumentedTurn(t *testing.T) {
	t.Parallel()
	var schema jsonschema.Schema
	if err := json.Unmarshal(agent.TurnSchema, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range blocks(t, "json") {
		if _, err := agent.ParseTurn([]byte(text)); err != nil {
			t.Error(err)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); err != nil {
			t.Error(err)
		}
		for key := range v {
			if schema.Properties[key] == nil {
				t.Errorf("the schema does not know %q", key)
			}
		}
	}
}

func TestDocumentedProgram(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		return // a system without a shell
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "book-slot"), []byte(blocks(t, "sh")[0]), 0o700); err != nil {
		t.Fatal(err)
	}
	a := build(t, "exec: [./book-slot, --site, west]", backend.Options{Dir: dir})
	next := said("yes")
	next.Number = 2
	for want, info := range map[string]agent.Info{
		`{"ask":"Shall I book dock 4?"}`:                              said("PO-2026-0184, two pallets"),
		`{"artifact":{"name":"Booking","parts":[{"text":"dock 4"}]}}`: next,
	} {
		r, err := run(t.Context(), a, info)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.lines(); got != "{\"working\":\"looking for a dock\"}\n"+want+"\n" {
			t.Errorf("steps are %s, want %s", got, want)
		}
	}
}
