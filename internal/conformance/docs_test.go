package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff.example/handoff/internal/conformance"
)

// TestDocs holds the table of checks against the checks.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- checks")
	table, _, found := strings.Cut(rest, "<!-- end of checks -->")
	if !found {
		t.Fatal("there is no table of checks")
	}
	checks := conformance.Checks()
	seen := map[string]bool{}
	for _, c := range checks {
		if seen[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		seen[c.ID] = true
		line := "| `" + c.ID + "` | " + string(c.Severity) + " | " + c.Title + " | " + c.Paragraph + " |"
		if !strings.Contains(table, line) {
			t.Errorf("docs/conformance.md has no line %s", line)
		}
		if c.Title == "" || !strings.HasPrefix(c.Paragraph, "A2A §") && !strings.HasPrefix(c.Paragraph, "A2A 0.3 §") || c.Group == "" {
			t.Errorf("%+v", c)
		}
	}
	if lines := strings.Count(table, "\n| `"); lines != len(checks) {
		t.Errorf("%d lines and %d checks", lines, len(checks))
	}
}
