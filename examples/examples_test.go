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

// otherAgents are the agents of configurations that have not just the one that
// the example is called after, because that is in a program, or since there is none.
var otherAgents = map[string][]string{
	"a2a-go-executor/handoff.yaml": nil,
	"go-agent/handoff.yaml":        nil,
	"model/handoff.yaml":           {"model", "supplier"},
	"planner/handoff.yaml":         {"researcher"},
	"review/handoff.yaml":          nil,
	"review/reviewer.yaml":         {"reviewer"},
	"inventory/supplier.yaml":      {"supplier"},
	"procurement/handoff.yaml":     nil,
	"procurement/supplier.yaml":    nil,
	"procurement/finance.yaml":     nil,
	"mcp-conformance/handoff.yaml": nil,
	"procurement/gateway.yaml":     nil,
}

// stories are the examples that are several processes. Their READMEs are run as a
// whole, in stories_test.go.
var stories = []string{"inventory", "model", "procurement"}

// suites are the examples that tests of their own run.
var suites = []string{"mcp-conformance", "messenger"} // make -C interop/mcp, messenger_test.go

// single are the examples that are one process.
func single(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(names(t), func(name string) bool { return slices.Contains(stories, name) || slices.Contains(suites, name) })
}

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
				if others, ok := otherAgents[file]; ok {
					want = others
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

// terminals are the blocks of commands of a README, line by line and without
// their comments.
func terminals(t *testing.T, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]string
	for _, match := range block.FindAllSubmatch(text, -1) {
		var lines []string
		for line := range strings.Lines(string(match[1])) {
			command, _, _ := strings.Cut(line, " #")
			if command = strings.TrimSpace(command); command != "" {
				lines = append(lines, command)
			}
		}
		list = append(list, lines)
	}
	return list
}

var agentURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/agents/([\w-]+)/`)

// Every command of a README names things that exist, and each README says how to
// build, how to start and how to talk to its agent.
func TestReadmes(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range single(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, sent := map[string]string{}, false // what is served, and where
			for _, line := range slices.Concat(terminals(t, name)...) {
				words := strings.Fields(line)
				switch {
				case words[0] == "make":
					if !bytes.Contains(makefile, []byte("\n"+words[1]+":")) {
						t.Errorf("%s: the Makefile has no such target", line)
					}
				case strings.HasPrefix(line, "go build -o "):
					checkBuild(t, words)
				case strings.HasPrefix(line, "TOKEN=$(curl "):
					if !strings.Contains(line, "http://127.0.0.1:9000/token") {
						t.Errorf("%s: does not name the issuer", line)
					}
				case strings.HasPrefix(line, "go run ./"):
					if !strings.HasSuffix(line, "/issuer") {
						id := filepath.Base(words[2])
						served[id] = listen(t, filepath.Join(id, "handoff.yaml"))
						serves(t, filepath.Join(id, "handoff.yaml"), served)
					}
					if _, err := os.Stat(filepath.Join("..", words[2], "main.go")); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				case strings.HasPrefix(line, "bin/handoff serve -c "):
					serves(t, filepath.Join("..", words[3]), served)
				case words[0] == "cd":
					if words[1] != "examples/"+name {
						t.Errorf("%s: leads to another example", line)
					}
				case strings.Contains(line, "bin/handoff "):
					sent = sent || strings.Contains(line, "bin/handoff send ")
					match := agentURL.FindStringSubmatch(line)
					if match != nil && served[match[2]] != match[1] {
						t.Errorf("%s: nobody serves that agent", line)
					}
					if match == nil && !strings.HasPrefix(line, "../../bin/handoff ") && !strings.Contains(line, " -c examples/"+name+"/") {
						t.Errorf("%s: names neither an agent nor a node", line)
					}
				default:
					t.Errorf("%s: nobody checks this command", line)
				}
			}
			if len(served) == 0 || !sent {
				t.Errorf("serves %v, says how to send: %t", served, sent)
			}
		})
	}
}

// serves notes at which address the agents of a configuration are.
func serves(t *testing.T, file string, served map[string]string) {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range c.AgentIDs() {
		served[id] = "http://" + c.Listen
	}
}

// checkBuild checks a line that builds the program of an agent, of this example
// or of one that it works with.
func checkBuild(t *testing.T, words []string) {
	t.Helper()
	name := filepath.Base(filepath.Dir(words[4]))
	c, err := config.Load(filepath.Join(name, "handoff.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var command []string
	switch run := c.Agents[name].Run; {
	case run.Exec != nil:
		command = run.Exec.Command
	case run.MCP != nil:
		command = c.MCP.Servers[run.MCP.Server].Command
	}
	if len(command) == 0 {
		t.Fatalf("%s runs no program", name)
	}
	program := filepath.Join("examples", name, command[0])
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
