package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff.example/handoff/internal/auth"
)

// docs/console.md says which role sees which page, as it is here.
func TestDocsSayWhichRoleSeesWhichPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "console.md"))
	if err != nil {
		t.Fatal(err)
	}
	type who struct {
		role string
		node bool
	}
	said := map[string]who{}
	_, table, ok := strings.Cut(string(text), "| page | role, at least | of a tenant too |\n")
	if !ok {
		t.Fatal("docs/console.md has no table of roles")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		if _, ok := auth.ParseRole(strings.TrimSpace(cells[2])); !ok {
			continue // below the head
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			name = strings.NewReplacer("the ", "", "a ", "").Replace(strings.ToLower(strings.TrimSpace(name)))
			said[name] = who{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3]) == "no"}
		}
	}
	names := map[string]string{
		"agents and peers": "agents", "agent": "agents", "item": "inbox", "task": "tasks", "events": "tasks", "delegation": "delegations", "tool": "tools",
	}
	found := map[string]bool{}
	for _, p := range pages() {
		name := strings.ToLower(p.title)
		if other := names[name]; other != "" {
			name = other
		}
		found[name] = true
		if want := (who{p.role.String(), p.node}); said[name] != want {
			t.Errorf("the page %s is for %+v; docs/console.md says %+v", p.path, want, said[name])
		}
	}
	for name := range said {
		if !found[name] {
			t.Errorf("docs/console.md has a page %q that there is not", name)
		}
	}
}
