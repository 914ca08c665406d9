package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"handoff.example/handoff/config"
)

func newMCPImportCommand(a *app) *cobra.Command {
	var write bool
	f := &nodeFlags{}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Take over tool servers from the file of another program", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := f.file
			if file == "" {
				file = configFile
			}
			return a.importMCP(args[0], file, write)
		},
	}
	cmd.Long = `Take over the tool servers of another program: FILE is its mcp.json, that of Claude
Desktop, Claude Code, Cursor or VS Code (- is standard input). It prints what
belongs into the configuration. With --write it adds that to the configuration
file, and leaves everything else there as it is, comments too.

What looks like a secret is not copied: the variable of the environment is printed
that has to be set in its place.`
	cmd.Example = `  handoff mcp import ~/.cursor/mcp.json
  handoff mcp import .vscode/mcp.json --write`
	cmd.Flags().BoolVarP(&write, "write", "w", false, "add the servers to the configuration file")
	f.registerFile(cmd)
	return cmd
}

// maxImport is how large a file may be that is imported, in bytes.
const maxImport = 4 << 20

// foreignServer is a tool server in the file of another program.
type foreignServer struct {
	Type      string            `json:"type"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	EnvFile   string            `json:"envFile"`
	Dir       string            `json:"cwd"`
	URL       string            `json:"url"`
	ServerURL string            `json:"serverUrl"`
	Headers   map[string]string `json:"headers"`
	Disabled  bool              `json:"disabled"`
	// DisabledTools are those that the other program does not offer.
	DisabledTools []string `json:"disabledTools"`
	// What is not taken over, and said.
	AutoApprove jsontext.Value `json:"autoApprove"`
	AlwaysAllow jsontext.Value `json:"alwaysAllow"`
	Timeout     jsontext.Value `json:"timeout"`
}

// imported is a server as the configuration has it.
type imported struct {
	name string
	text string // YAML, without indentation
}

// importer makes servers of the configuration of those of another program.
type importer struct {
	servers []imported
	secrets []string // variables that have to be set
	notes   []string
}

func (a *app) importMCP(from, file string, write bool) error {
	var data []byte
	var err error
	if from == "-" {
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxImport+1))
	} else {
		data, err = os.ReadFile(from)
	}
	if err != nil {
		return failf(codeUsage, "the file cannot be read: %w", err)
	}
	if len(data) > maxImport {
		return failf(codeUsage, "the file is larger than %d bytes", maxImport)
	}
	found, err := foreignServers(data)
	if err != nil {
		return failf(codeUsage, "%s: %w", from, err).hint("It has mcpServers (Claude, Cursor) or servers (VS Code), an object of servers by name")
	}
	var i importer
	for _, name := range slices.Sorted(maps.Keys(found)) {
		i.add(name, found[name])
	}
	if write {
		err = i.write(a, file)
	} else {
		p := printer{w: a.stdout}
		p.write(i.yaml(true, true, "  "))
		err = p.err
	}
	if err != nil {
		return err
	}
	for _, note := range i.notes {
		fmt.Fprintln(a.stderr, oneLine("Note: "+note))
	}
	if len(i.secrets) > 0 {
		slices.Sort(i.secrets)
		fmt.Fprintln(a.stderr, oneLine("Set in the environment of the node: "+strings.Join(slices.Compact(i.secrets), ", ")))
	}
	return nil
}

// foreignServers reads the file of another program.
func foreignServers(data []byte) (map[string]*foreignServer, error) {
	type holder struct {
		MCPServers map[string]*foreignServer `json:"mcpServers"`
		Servers    map[string]*foreignServer `json:"servers"`
	}
	var file struct {
		holder
		MCP *holder `json:"mcp"`
	}
	if err := json.Unmarshal(withoutComments(data), &file); err != nil {
		return nil, err
	}
	all := map[string]*foreignServer{}
	for _, h := range []*holder{&file.holder, file.MCP} {
		if h == nil {
			continue
		}
		for _, list := range []map[string]*foreignServer{h.MCPServers, h.Servers} {
			for name, s := range list {
				if s != nil {
					all[name] = s
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there are no tool servers in it")
	}
	return all, nil
}

// withoutComments makes JSON of JSON with comments and commas before the end of
// objects and arrays, as editors write it.
func withoutComments(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	var out []byte
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			begin := i
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			out = append(out, data[begin:min(i+1, len(data))]...)
		case c == '/' && i+1 < len(data) && data[i+1] == '/':
			for i < len(data) && data[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case c == '/' && i+1 < len(data) && data[i+1] == '*':
			end := bytes.Index(data[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += end + 3
		case c == '}' || c == ']':
			if trimmed := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(trimmed, []byte(",")) {
				out = trimmed[:len(trimmed)-1]
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return out
}

var notName = regexp.MustCompile(`[^a-z0-9-]+`)

// serverName makes a name of the configuration of one of another program.
func serverName(name string) string {
	name = strings.Trim(notName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	name = name[:min(len(name), 50)]
	if name == "" || slices.Contains(config.MCPReserved, name) {
		name += "-server"
	}
	return strings.Trim(name, "-")
}

// add takes over a server.
func (i *importer) add(original string, s *foreignServer) {
	name := serverName(original)
	for n, base := 2, name; slices.ContainsFunc(i.servers, func(o imported) bool { return o.name == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if name != original {
		i.note("%s is called %s here", original, name)
	}
	url := s.URL
	if url == "" {
		url = s.ServerURL
	}
	switch {
	case s.Disabled:
		i.note("%s is disabled, and left out", original)
		return
	case url == "" && s.Command == "":
		i.note("%s has neither a command nor a url, and is left out", original)
		return
	case s.Type == "sse":
		i.note("%s speaks the old HTTP+SSE transport; it works if it speaks Streamable HTTP too", original)
	}
	entry := newOrdered()
	if url != "" {
		entry.set("url", i.plain(name, "URL", url))
		i.headers(name, s.Headers, entry)
	} else {
		i.program(name, s, entry)
	}
	if len(s.DisabledTools) > 0 {
		i.note("%s has turned off %s there; here they are shown until mcp.rules hides them: {servers: [%s], tools: [%s], policy: {hide: true}}",
			original, strings.Join(s.DisabledTools, ", "), name, strings.Join(s.DisabledTools, ", "))
	}
	for _, left := range []struct {
		key   string
		value jsontext.Value
	}{{"autoApprove", s.AutoApprove}, {"alwaysAllow", s.AlwaysAllow}, {"timeout", s.Timeout}} {
		if len(left.value) > 0 {
			i.note("%s has %s, which is not taken over", original, left.key)
		}
	}
	text, err := appendYAML(nil, entry.json())
	if err != nil {
		i.note("%s cannot be written, and is left out: %v", original, err)
		return
	}
	i.servers = append(i.servers, imported{name, string(text)})
}

func (i *importer) note(format string, args ...any) {
	i.notes = append(i.notes, fmt.Sprintf(format, args...))
}

func (i *importer) headers(name string, headers map[string]string, entry *ordered) {
	fixed, auth := newOrdered(), newOrdered()
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		value := headers[key]
		token, bearer := strings.CutPrefix(value, "Bearer ")
		switch {
		case strings.EqualFold(key, "Authorization") && bearer:
			auth.set("bearer", i.secret(name, "TOKEN", token))
		case foreignSecret.MatchString(key):
			fixed.set(key, i.secret(name, key, value))
		default:
			fixed.set(key, i.plain(name, key, value))
		}
	}
	entry.setObject("auth", auth)
	entry.setObject("headers", fixed)
}

func (i *importer) program(name string, s *foreignServer, entry *ordered) {
	command := []string{i.reference(s.Command)}
	next := "" // what the option before this argument takes
	for n, arg := range s.Args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case next != "":
			arg, next = i.secret(name, next, arg), ""
		case strings.HasPrefix(flag, "-") && foreignSecret.MatchString(flag) && joined:
			arg = flag + "=" + i.secret(name, strings.TrimLeft(flag, "-"), value)
		case strings.HasPrefix(flag, "-") && foreignSecret.MatchString(flag):
			next = strings.TrimLeft(flag, "-")
		case authorization.MatchString(arg):
			arg = authorization.ReplaceAllString(arg, "$1") + i.secret(name, "TOKEN", authorization.ReplaceAllString(arg, "$2"))
		default:
			arg = i.plain(name, fmt.Sprintf("ARGUMENT_%d", n+1), arg)
		}
		command = append(command, arg)
	}
	entry.setList("command", command)
	if s.Dir != "" {
		entry.set("dir", i.reference(s.Dir))
	}
	if s.EnvFile != "" {
		i.note("%s reads variables from %s; write those that it needs below env", name, s.EnvFile)
	}
	env := newOrdered()
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		if value := s.Env[key]; foreignSecret.MatchString(key) {
			env.set(key, i.secret("", key, value))
		} else {
			env.set(key, i.plain("", key, value))
		}
	}
	entry.setObject("env", env)
}

var (
	foreignSecret = regexp.MustCompile(`(?i)token|secret|pass|pwd|^pw$|[_-]pw$|auth|credential|cookie|(api|access|private|subscription)[-_]?key|key$`)
	authorization = regexp.MustCompile(`(?is)^(authorization: ?bearer )(.+)$`)
	foreignRef    = regexp.MustCompile(`\$\{(env|input):([^}]+)\}`)
	anyRef        = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}$`)
	editorRef     = regexp.MustCompile(`\$\{(workspaceFolder|workspaceRoot|userHome|cwd)(:[^}]*)?\}`)
	notVariable   = regexp.MustCompile(`[^A-Z0-9_]+`)
)

// secretInside are texts that have a secret in them: an address with a password, or
// with a key among its parameters, and what looks like a token.
var secretInside = regexp.MustCompile(`(?i)://[^/@\s]*:[^/@\s]+@|[?&][a-z0-9_-]*(token|secret|passw|pwd|auth|sig|key)[a-z0-9_-]*=[^&\s]|^(gh[opsu]_|github_pat_|glpat-|sk-|xox[abpr]-|hk_|AKIA|eyJ)`)

// plain takes over a text that should have no secret, unless it has.
func (i *importer) plain(server, key, value string) string {
	if secretInside.MatchString(value) && !foreignRef.MatchString(value) {
		return i.secret(server, key, value)
	}
	return i.reference(value)
}

// variableName makes a name of a variable of the environment.
func variableName(parts ...string) string {
	name := notVariable.ReplaceAllString(strings.ToUpper(strings.Join(parts, "_")), "_")
	return strings.Trim(name, "_")
}

// reference turns references of other programs into ours.
func (i *importer) reference(text string) string {
	text = foreignRef.ReplaceAllStringFunc(text, func(match string) string {
		parts := foreignRef.FindStringSubmatch(match)
		name := parts[2]
		if parts[1] == "input" {
			name = variableName(name)
		}
		i.secrets = append(i.secrets, name)
		return "${" + name + "}"
	})
	return editorRef.ReplaceAllStringFunc(text, func(match string) string {
		if strings.HasPrefix(match, "${userHome") {
			return "${HOME}"
		}
		i.note("%s of an editor has become the directory of the node", match)
		return "."
	})
}

// secret returns a reference in the place of a secret.
func (i *importer) secret(server, key, value string) string {
	if text := i.reference(value); text != value || anyRef.MatchString(value) {
		if anyRef.MatchString(value) {
			i.secrets = append(i.secrets, strings.TrimSuffix(strings.SplitN(value[2:], ":-", 2)[0], "}"))
		}
		return text
	}
	if value == "" {
		return ""
	}
	parts := []string{key}
	if server != "" {
		parts = []string{server, key}
	}
	name := variableName(parts...)
	i.secrets = append(i.secrets, name)
	return "${" + name + "}"
}

// yaml returns the servers as YAML. Section says that mcp: is written before them,
// servers that servers: is.
func (i *importer) yaml(section, servers bool, step string) string {
	var b strings.Builder
	if section {
		b.WriteString("mcp:\n")
	}
	if servers {
		b.WriteString(step + "servers:\n")
	}
	for _, s := range i.servers {
		b.WriteString(strings.Repeat(step, 2) + s.name + ":\n")
		for line := range strings.Lines(s.text) {
			b.WriteString(strings.Repeat(step, 3) + line)
		}
	}
	return b.String()
}

// write adds the servers to a configuration file.
func (i *importer) write(a *app, file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return failf(codeConfig, "the configuration cannot be read: %w", err).hint("handoff init makes one; or leave --write out and copy what is printed")
	}
	var known struct {
		MCP struct {
			Servers map[string]any `yaml:"servers"`
		} `yaml:"mcp"`
	}
	if err := yaml.Unmarshal(old, &known); err != nil {
		return failf(codeConfig, "%s is not YAML: %w", file, err)
	}
	i.servers = slices.DeleteFunc(i.servers, func(s imported) bool {
		_, has := known.MCP.Servers[s.name]
		if has {
			i.note("%s has a server %s already, which stays as it is", file, s.name)
		}
		return has
	})
	if len(i.servers) == 0 {
		return nil
	}
	text, ok := i.insert(string(old))
	if ok {
		var now struct {
			MCP struct {
				Servers map[string]any `yaml:"servers"`
			} `yaml:"mcp"`
		}
		ok = yaml.Unmarshal([]byte(text), &now) == nil && len(now.MCP.Servers) == len(known.MCP.Servers)+len(i.servers)
	}
	if !ok {
		return failf(codeConfig, "%s is written in a way that it cannot be added to without changing more", file).hint("Leave --write out, and copy what is printed")
	}
	if err := replaceFile(file, []byte(text)); err != nil {
		return failf(codeConfig, "%s cannot be written: %w", file, err)
	}
	p := printer{w: a.stdout}
	for _, s := range i.servers {
		p.write("Added " + s.name + "\n")
	}
	return p.err
}

var (
	mcpLine     = regexp.MustCompile(`(?m)^mcp:[ \t]*(#.*)?\r?\n`)
	serversLine = regexp.MustCompile(`(?m)^([ \t]+)servers:[ \t]*(#.*)?\r?\n`)
	topLine     = regexp.MustCompile(`(?m)^[^\s#]`)
)

// insert returns the file with the servers in it.
func (i *importer) insert(old string) (string, bool) {
	if old != "" && !strings.HasSuffix(old, "\n") {
		old += "\n"
	}
	at := mcpLine.FindStringIndex(old)
	if at == nil {
		return old + "\n" + i.yaml(true, true, "  "), true
	}
	end := len(old)
	if next := topLine.FindStringIndex(old[at[1]:]); next != nil {
		end = at[1] + next[0]
	}
	within := serversLine.FindStringSubmatchIndex(old[at[1]:end])
	if within == nil {
		return old[:at[1]] + i.yaml(false, true, "  ") + old[at[1]:], true
	}
	step := old[at[1]+within[2] : at[1]+within[3]]
	from := at[1] + within[1]
	return old[:from] + i.yaml(false, false, step) + old[from:], true
}

// replaceFile replaces a file as a whole.
func replaceFile(file string, data []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".handoff-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // it is gone when all went well
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// ordered is an object whose members keep their order.
type ordered struct {
	text []byte
}

func newOrdered() *ordered { return &ordered{} }

func (o *ordered) member(name string, value []byte) {
	if len(o.text) > 0 {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, quoted(name)...), ':'), value...)
}

func (o *ordered) set(name, value string) { o.member(name, quoted(value)) }

func (o *ordered) setObject(name string, value *ordered) {
	if len(value.text) > 0 {
		o.member(name, value.json())
	}
}

func (o *ordered) setList(name string, list []string) {
	text := []byte{'['}
	for i, one := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, quoted(one)...)
	}
	o.member(name, append(text, ']'))
}

func (o *ordered) json() jsontext.Value {
	return append(append([]byte{'{'}, o.text...), '}')
}

func quoted(s string) []byte {
	out, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD")) // which is UTF-8
	return out
}
