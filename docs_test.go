package handoff_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the Markdown files of the project by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	if len(texts) < 20 {
		t.Fatalf("only %d documents", len(texts))
	}
	return texts
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)

func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}

var (
	shellBlock = regexp.MustCompile("(?s)```(?:sh|bash|console)\n(.*?)```")
	makeTarget = regexp.MustCompile(`(?m)\bmake ([a-z][a-z-]+)\b`)
)

func TestDocumentsNameTargetsThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			for _, m := range makeTarget.FindAllStringSubmatch(block[1], -1) {
				if !strings.Contains(string(makefile), "\n"+m[1]+":") {
					t.Errorf("%s says make %s, which is no target", name, m[1])
				}
			}
		}
	}
}
