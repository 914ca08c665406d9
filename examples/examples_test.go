package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

// names are the examples: every folder but that of the demo.
func names(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "demo" {
			list = append(list, e.Name())
		}
	}
	if len(list) < 7 {
		t.Fatalf("only these examples are here: %v", list)
	}
	return list
}

// inProgram are the examples whose agent is in their program and not in their
// configuration.
var inProgram = []string{"a2a-go-executor", "go-agent"}

func configurations(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(name, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, filepath.Join(name, "handoff.yaml")) {
		t.Fatalf("%s has no handoff.yaml", name)
	}
	return files
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	for _, name := range names(t) {
		for _, file := range configurations(t, name) {
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if first, _, _ := strings.Cut(string(text), "\n"); first != "# yaml-language-server: $schema=../../config/handoff.schema.json" {
					t.Errorf("the first line names no schema: %s", first)
				}
				var value any
				document, err := yaml.YAMLToJSON(text)
				if err == nil {
					err = json.Unmarshal(document, &value)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(value); err != nil {
					t.Errorf("schema: %v", err)
				}
				c, err := config.Load(file)
				if err != nil {
					t.Fatal(err)
				}
				problems, warnings := card.Check(c)
				for _, p := range append(problems, warnings...) {
					t.Errorf("card: %s: %s", p.Path, p.Message)
				}
				want := []string{name}
				if slices.Contains(inProgram, name) {
					want = nil
				}
				if diff := cmp.Diff(want, c.AgentIDs(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("agents (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func compiled(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// The fixture's other configurations are the same agent but for what they are
// there for.
func TestFixtureConfigurationsAgree(t *testing.T) {
	t.Parallel()
	load := func(file string) *config.Agent {
		c, err := config.Load(filepath.Join("fixture", file))
		if err != nil {
			t.Fatal(err)
		}
		return c.Agents["fixture"]
	}
	first, quiet, strict := load("handoff.yaml"), load("no-streaming.yaml"), load("required-extension.yaml")
	if !first.Streaming || quiet.Streaming {
		t.Errorf("streaming: %t and %t", first.Streaming, quiet.Streaming)
	}
	if len(strict.Extensions) != 1 || !strict.Extensions[0].Required {
		t.Errorf("extensions: %v", strict.Extensions)
	}
	quiet.Streaming, strict.Extensions = true, nil
	for name, other := range map[string]*config.Agent{"no-streaming.yaml": quiet, "required-extension.yaml": strict} {
		if diff := cmp.Diff(first, other); diff != "" {
			t.Errorf("%s (-handoff.yaml +it):\n%s", name, diff)
		}
	}
}

var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// commands are those of a README, without their comments.
func commands(t *testing.T, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]string
	for _, match := range block.FindAllSubmatch(text, -1) {
		for line := range bytes.Lines(match[1]) {
			words, _, _ := strings.Cut(string(line), " #")
			if fields := strings.Fields(words); len(fields) > 0 {
				list = append(list, fields)
			}
		}
	}
	return list
}

// Every command of a README names things that exist, and each README says how to
// build, how to start and how to talk to its agent.
func TestReadmes(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, sent := false, false
			for _, words := range commands(t, name) {
				line := strings.Join(words, " ")
				switch {
				case words[0] == "make":
					if !bytes.Contains(makefile, []byte("\n"+words[1]+":")) {
						t.Errorf("%s: the Makefile has no such target", line)
					}
				case strings.HasPrefix(line, "go build -o "):
					checkBuild(t, name, words)
				case strings.HasPrefix(line, "TOKEN=$(curl "):
					if !strings.Contains(line, "http://127.0.0.1:9000/token") {
						t.Errorf("%s: does not name the issuer", line)
					}
				case strings.HasPrefix(line, "go run ./"):
					served = served || !strings.HasSuffix(line, "/issuer")
					if _, err := os.Stat(filepath.Join("..", words[2], "main.go")); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				case strings.HasPrefix(line, "bin/handoff serve -c "):
					served = true
					if _, err := os.Stat(filepath.Join("..", words[3])); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				case words[0] == "bin/handoff":
					sent = sent || words[1] == "send"
					if !strings.Contains(line, "http://127.0.0.1:8080/agents/"+name+"/") {
						t.Errorf("%s: does not name the agent", line)
					}
				default:
					t.Errorf("%s: nobody checks this command", line)
				}
			}
			if !served || !sent {
				t.Errorf("says how to serve: %t, how to send: %t", served, sent)
			}
		})
	}
}

func checkBuild(t *testing.T, name string, words []string) {
	t.Helper()
	c, err := config.Load(filepath.Join(name, "handoff.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join("examples", name, c.Agents[name].Run.Exec.Command[0])
	if filepath.Clean(words[3]) != program {
		t.Errorf("builds %s, but the configuration runs %s", words[3], program)
	}
	if _, err := os.Stat(filepath.Join("..", words[4], "main.go")); err != nil {
		t.Error(err)
	}
}

// The list of examples has each of them once.
func TestIndex(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names(t), "demo") {
		if n := bytes.Count(text, []byte("]("+name+"/)")); n != 1 {
			t.Errorf("%s is linked %d times", name, n)
		}
	}
}
