package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

// Files of a new agent.
const (
	cardFile      = "agent-card.json"
	inputsFile    = "skills.schema.json"
	endpointsFile = "ENDPOINTS.md"
	programFile   = "agent.sh"
)

// program is what runs a new agent that runs a program, until it has one of its
// own: it gets the turn as JSON and prints steps, one JSON object a line.
const program = `#!/bin/sh
# Standard input is the turn as JSON (docs/agents.md); standard output is steps.
turn=$(cat)
echo '{"working": "thinking"}'
echo '{"artifact": {"name": "answer", "parts": [{"text": "Hello from a program."}]}}'
echo '{"complete": "Done."}'
`

// writeAgent writes the files of a new agent.
func (a *app) writeAgent(n *newAgent) error {
	files := []string{configFile, schemaFile, cardFile, inputsFile, endpointsFile}
	for i, name := range files {
		files[i] = filepath.Join(n.dir, name)
	}
	if err := n.unusedFiles(files); err != nil {
		return err
	}
	starter, err := n.starter()
	if err != nil {
		return err
	}
	if starter != "" {
		files = append(files, starter)
	}
	// The configuration is read back before anything is written, so that what
	// is written is right. Its directory need not exist yet.
	text := n.configuration()
	c, err := config.Parse([]byte(text), os.TempDir())
	if err != nil {
		return configFailure(err)
	}
	endpoints := n.endpoints(c)
	cardJSON := jsontext.Value(card.For(c, n.id, localBase(c), "").AppendJSON(nil))
	if err := cardJSON.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("write card: %w", err)
	}
	inputs, err := n.inputsSchema()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	key := filepath.Join(n.dir, keyFile)
	if err := writeKey(key); err != nil {
		return err
	}
	// The key was not there yet when the configuration was read back.
	const store = "store: sqlite:handoff.db\n"
	text = strings.Replace(text, store, store+"secret_key: file:"+keyFile+"\n", 1)
	contents := [][]byte{[]byte(text), config.Schema(), append(cardJSON, '\n'), inputs, []byte(endpoints), []byte(program)}
	for i, file := range files {
		mode := os.FileMode(0o644)
		if file == starter {
			mode = 0o755
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return fmt.Errorf("make directory: %w", err)
			}
		}
		if err := os.WriteFile(file, contents[i], mode); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Base(file), err)
		}
	}
	files = append(files, key)
	if a.output != formatText {
		return a.writeValue(struct {
			ID    string   `json:"id"`
			Files []string `json:"files"`
		}{n.id, files})
	}
	p := printer{w: a.stdout}
	for _, file := range files {
		p.field("Wrote", file)
	}
	a.note("Next: cd %s && handoff check && handoff serve, and in another terminal: handoff send hello -a %s", quoteShell(n.dir), n.id)
	return p.err
}

// commandWords returns the program of an agent that runs one, and its arguments.
func (n *newAgent) commandWords() []string {
	if n.command == "" {
		return []string{"./" + programFile}
	}
	return strings.Fields(n.command)
}

// starter returns the file of a program that is written because the command
// names one below the new directory that is not there yet; "" when none is
// needed. Any other command has to be there.
func (n *newAgent) starter() (string, error) {
	if n.run != "exec" {
		return "", nil
	}
	words := n.commandWords()
	if len(words) == 0 {
		return "", usagef("--command names no program")
	}
	program := filepath.FromSlash(words[0])
	file := filepath.Join(n.dir, program)
	switch {
	case filepath.Base(program) == program || filepath.IsAbs(program):
		if _, err := exec.LookPath(program); err != nil {
			return "", usagef("the program %s of --command cannot be run: %w", words[0], err).
				hint("Name one that exists, or one of the agent's directory, such as ./%s, and a starter is written there", filepath.Base(words[0]))
		}
		return "", nil
	case fileExists(file) && (n.command != "" || !n.force):
		return "", nil
	case !filepath.IsLocal(program):
		return "", usagef("the program %s of --command does not exist", words[0])
	case runtime.GOOS == "windows":
		return "", usagef("the program %s of --command does not exist", words[0]).hint("Write it first")
	}
	return file, nil
}

// configuration returns the configuration of a node with the agent.
func (n *newAgent) configuration() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# yaml-language-server: $schema=%s", schemaFile)
	line("# Check it with `handoff check`; run it with `handoff serve`.")
	line("")
	if n.listen == "" {
		line("listen: 127.0.0.1:8080")
	} else {
		line("listen: %s", quoteYAML(n.listen))
	}
	if n.publicURL != "" {
		line("public_url: %s", quoteYAML(n.publicURL))
	}
	line("store: sqlite:handoff.db")
	line("")
	line("agents:")
	line("  %s:", quoteYAML(n.id))
	line("    name: %s", quoteText(n.name))
	line("    description: %s", quoteText(n.description))
	line("    version: %s", quoteText(n.version))
	line("    default_input_modes: %s", quoteList(n.inputModes))
	line("    default_output_modes: %s", quoteList(n.outputModes))
	line("    streaming: %t", n.streaming)
	line("    skills:")
	for _, s := range n.skills() {
		line("      - id: %s", quoteText(s.id))
		line("        name: %s", quoteText(s.name))
		line("        description: %s", quoteText(s.description))
		line("        tags: %s", strings.ReplaceAll(quoteList(s.tags), "${", "$${"))
		if schema := n.dataSchema(); schema != "" {
			line("        input_schema: %s", schema)
		}
	}
	line("    run:")
	switch n.run {
	case "exec":
		line("      exec: %s", quoteList(n.commandWords()))
	case "http":
		line("      http: %s", quoteYAML(n.url))
	default:
		line("      # Rules that answer by themselves; put a program (exec) or a web service")
		line("      # (http) in their place when you have one.")
		line("      script:")
		line("        - do:")
		line(`            - artifact: {name: answer, parts: [{text: "You said: {{.Text}}"}]}`)
		line("            - complete: Done.")
	}
	return b.String()
}

// dataSchema returns the JSON Schema of the data that a skill takes, to be made
// narrower by whoever writes it; "" when the agent takes no JSON.
func (n *newAgent) dataSchema() string {
	if !slices.Contains(n.inputModes, "application/json") {
		return ""
	}
	return `{"type": "object", "properties": {"request": {"type": "string", "description": "What is asked for."}}}`
}

// inputsSchema returns the JSON Schema of what each skill takes: a part of a
// message, by the kinds of parts that the input modes allow.
func (n *newAgent) inputsSchema() ([]byte, error) {
	quote := func(text string) string {
		q, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
		return string(q)
	}
	var parts []string
	for _, mode := range n.inputModes {
		switch {
		case mode == "application/json":
			parts = append(parts, `{"type":"object","required":["data"],"properties":{"data":`+n.dataSchema()+`,"mediaType":{"const":"application/json"}}}`)
		case strings.HasPrefix(mode, "text/"):
			parts = append(parts, `{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"mediaType":{"const":`+quote(mode)+`}}}`)
		default:
			parts = append(parts, `{"type":"object","required":["mediaType"],"properties":{"raw":{"type":"string","contentEncoding":"base64"},"url":{"type":"string","format":"uri"},"mediaType":{"const":`+quote(mode)+`}}}`)
		}
	}
	text := `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":` + quote("What the skills of "+n.name+" take") + `,"$defs":{`
	for i, s := range n.skills() {
		if i > 0 {
			text += ","
		}
		text += quote(s.id) + `:{"title":` + quote(s.name) + `,"description":` + quote(s.description) +
			`,"$comment":"The parts of a message.","type":"array","minItems":1,"items":{"anyOf":[` + strings.Join(parts, ",") + `]}}`
	}
	text += `}}`
	value := jsontext.Value(text)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(value, '\n'), nil
}

// endpoints lists the endpoints of the agent, for people.
func (n *newAgent) endpoints(c *config.Config) string {
	agent, base := c.Agents[n.id], localBase(c)
	paths := card.PathsOf(agent, n.id, "")
	rest := base + paths.REST
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s", oneLine(n.name))
	line("")
	line("%s", oneLine(n.description))
	line("")
	line("The address of the agent is `%s`; clients find everything else from there.", card.Address(base, n.id, ""))
	line("")
	line("| endpoint | URL |")
	line("| --- | --- |")
	line("| agent card | `GET %s` |", card.URL(base, agent, n.id, ""))
	line("| JSON-RPC | `POST %s` |", base+paths.JSONRPC)
	for _, e := range []struct{ operation, method, path string }{
		{"SendMessage", "POST", "/message:send"},
		{"SendStreamingMessage", "POST", "/message:stream"},
		{"GetTask", "GET", "/tasks/{id}"},
		{"ListTasks", "GET", "/tasks"},
		{"CancelTask", "POST", "/tasks/{id}:cancel"},
		{"SubscribeToTask", "POST", "/tasks/{id}:subscribe"},
	} {
		if !n.streaming && (e.operation == "SendStreamingMessage" || e.operation == "SubscribeToTask") {
			continue
		}
		line("| HTTP+JSON %s | `%s %s%s` |", e.operation, e.method, rest, e.path)
	}
	line("")
	line("Every request carries `A2A-Version: 1.0`.")
	line("")
	line("```console")
	line("$ curl %s", card.URL(base, agent, n.id, ""))
	line("$ curl -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' %s/message:send \\", rest)
	line(`    -d '{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'`)
	line("$ curl -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' %s \\", base+paths.JSONRPC)
	line(`    -d '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"2","role":"ROLE_USER","parts":[{"text":"hello"}]}}}'`)
	line("$ handoff send hello -a %s", card.Address(base, n.id, ""))
	line("```")
	line("")
	line("## Skills")
	line("")
	line("A message names a skill in `metadata.skillId`. What each takes is in `%s`.", inputsFile)
	line("")
	for _, s := range n.skills() {
		line("- `%s` (%s): %s Tags: %s.", s.id, oneLine(s.name), oneLine(s.description), strings.Join(s.tags, ", "))
	}
	return b.String()
}
