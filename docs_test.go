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
	invocation = regexp.MustCompile(`(?m)(?:^|\s|\$ |\()(?:\S*/)?handoff((?: [a-z][a-z-]+)+)`)
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

// Every command that a document shows is one of the program.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "handoff")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/handoff").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := map[string]bool{}
	for name, text := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			for _, m := range invocation.FindAllStringSubmatch(block[1], -1) {
				words := strings.Fields(m[1])
				if seen[words[0]] {
					continue
				}
				seen[words[0]] = true
				if out, err := exec.Command(binary, words[0], "--help").CombinedOutput(); err != nil {
					t.Errorf("%s shows handoff %s: %s", name, words[0], out)
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d commands are shown", len(seen))
	}
}
