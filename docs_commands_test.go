package handoff_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// program is the command line, asked for the help of its commands.
type program struct {
	t      *testing.T
	binary string
	helps  map[string]string
}

func builtProgram(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, binary: filepath.Join(t.TempDir(), "handoff"), helps: map[string]string{}}
	if out, err := exec.Command("go", "build", "-o", p.binary, "./cmd/handoff").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// help returns the help of a command, "" when there is no such command.
func (p *program) help(path []string) string {
	name := strings.Join(path, " ")
	if text, ok := p.helps[name]; ok {
		return text
	}
	out, _ := exec.Command(p.binary, append([]string{"help"}, path...)...).Output()
	text := string(out)
	if !strings.Contains(text, "  handoff "+name) {
		text = ""
	}
	p.helps[name] = text
	return text
}

var (
	commandWord = regexp.MustCompile(`^[a-z][a-z-]*$`)
	commandFlag = regexp.MustCompile(`^--?([a-zA-Z][a-z-]*)`)
)

// problem says what is wrong with a command line, "" when it could be typed.
func (p *program) problem(words []string) string {
	path := words[:1]
	text := p.help(path)
	if text == "" {
		return "there is no command " + words[0]
	}
	rest := words[1:]
	for len(rest) > 0 && commandWord.MatchString(rest[0]) && strings.Contains(text, "Available Commands:") {
		below := p.help(append(slices.Clone(path), rest[0]))
		if below == "" {
			return "there is no command " + strings.Join(append(slices.Clone(path), rest[0]), " ")
		}
		path, text, rest = append(slices.Clone(path), rest[0]), below, rest[1:]
	}
	for _, w := range rest {
		m := commandFlag.FindStringSubmatch(w)
		if m == nil {
			continue
		}
		flag := "--" + m[1] + " "
		if len(m[1]) == 1 {
			flag = "-" + m[1] + ","
		}
		if !strings.Contains(text, flag) {
			return strings.Join(path, " ") + " has no flag " + strings.TrimSuffix(strings.TrimSpace(flag), ",")
		}
	}
	return ""
}

// Every command that a document shows, and that alerts say is to be done, can be typed as
// it stands there.
func TestCommandsOfDocumentsCanBeTyped(t *testing.T) {
	t.Parallel()
	p := builtProgram(t)
	for _, wrong := range [][]string{{"nonsense"}, {"admin", "nonsense"}, {"admin", "task", "list", "--nonsense"}, {"inbox", "list", "-z"}} {
		if p.problem(wrong) == "" {
			t.Errorf("handoff %s passes", strings.Join(wrong, " "))
		}
	}
	count := 0
	for name, text := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			for _, words := range invocations(block[1]) {
				count++
				if problem := p.problem(words); problem != "" {
					t.Errorf("%s shows handoff %s: %s", name, strings.Join(words, " "), problem)
				}
			}
		}
	}
	if count < 200 {
		t.Errorf("only %d commands are shown", count)
	}
	said := runbooks(t)
	if len(said) < 10 {
		t.Errorf("only %d commands are said by alerts", len(said))
	}
	for _, line := range said {
		if problem := p.problem(strings.Fields(line)); problem != "" {
			t.Errorf("an alert says handoff %s: %s", line, problem)
		}
	}
}

// What is read of a block are its commands, and not what is quoted, commented or shown.
func TestInvocations(t *testing.T) {
	t.Parallel()
	block := `$ handoff check   # handoff nonsense
handoff.yaml: ok
X=1 bin/handoff serve -c a.yaml & sleep 1
ITEM=$(handoff inbox list | sed -n 's/^handoff x//p')
handoff send URL "handoff y; handoff z" \
  --stream && (cd x; ../../bin/handoff version)
cat handoff.yaml
`
	want := [][]string{{"check"}, {"serve", "-c", "a.yaml"}, {"inbox", "list"}, {"send", "URL", "handoff y; handoff z", "--stream"}, {"version"}}
	if got := invocations(block); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("%q", got)
	}
}

var (
	heredoc    = regexp.MustCompile(`(?s)<<'END'\n.*?\nEND\n`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

// invocations returns what handoff is called with in a block of shell commands.
func invocations(block string) (calls [][]string) {
	block = heredoc.ReplaceAllString(strings.ReplaceAll(block, "\\\n", " "), "\n")
	for line := range strings.SplitSeq(block, "\n") {
		for _, words := range simpleCommands(strings.TrimPrefix(line, "$ ")) {
			for len(words) > 0 && assignment.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 1 && filepath.Base(words[0]) == "handoff" && !strings.HasPrefix(words[1], "-") {
				calls = append(calls, words[1:])
			}
		}
	}
	return calls
}

// simpleCommands takes a line of the shell apart: into commands, and these into words.
func simpleCommands(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	endWord := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == '#' && !begun:
			endCommand()
			return commands
		case r == ' ' || r == '\t':
			endWord()
		case strings.ContainsRune("|&;()<>", r):
			endCommand()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	endCommand()
	return commands
}

var inRunbook = regexp.MustCompile(`\bhandoff ((?:[a-z][a-z-]*)(?: (?:--?[a-z-]+|[a-z][a-z-]*|[A-Z]+|[0-9]+[a-z]|\{\{[^}]*\}\}))*)`)

// runbooks returns the commands that alerts say.
func runbooks(t *testing.T) (commands []string) {
	t.Helper()
	text, err := os.ReadFile("deploy/observability/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			for _, m := range inRunbook.FindAllStringSubmatch(strings.ReplaceAll(r.Annotations["runbook"], "systemctl status handoff", ""), -1) {
				commands = append(commands, m[1])
			}
		}
	}
	return commands
}

// Alerts that documents name are alerts of the file.
func TestDocumentsNameAlertsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("deploy/observability/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bHandoff[A-Z][A-Za-z]+\b`).FindAllString(string(page), -1)
	if len(named) < 15 {
		t.Errorf("only %d alerts are named", len(named))
	}
	for _, name := range named {
		if !strings.Contains(string(text), "alert: "+name+"\n") {
			t.Errorf("docs/production.md names %s, which is no alert", name)
		}
	}
}

// Keys of the configuration that the checklist names are in the reference.
func TestTheChecklistNamesKeysThatExist(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile("`([a-z_]+(?:\\.(?:<name>|[a-z_]+))+)`").FindAllStringSubmatch(string(page), -1)
	if len(keys) < 20 {
		t.Errorf("only %d keys are named", len(keys))
	}
	for _, m := range keys {
		parts := strings.Split(m[1], ".")
		at, key := strings.Join(parts[:len(parts)-1], "."), parts[len(parts)-1]
		if at == "mcp" || at == "agent" || m[1] == "handoff.link" {
			continue
		}
		_, section, ok := strings.Cut(string(reference), "\n### `"+at+"`\n")
		section, _, _ = strings.Cut(section, "\n### ")
		if !ok || !strings.Contains(section, "| `"+key+"` |") {
			t.Errorf("there is no key %s", m[1])
		}
	}
}
