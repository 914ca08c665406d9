package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// newAgent is what a new agent is described by.
type newAgent struct {
	id, name, description, version string
	skillIDs, skillNames           []string
	skillDescriptions, skillTags   []string // tags of a skill with commas between
	inputModes, outputModes        []string
	streaming                      bool
	run                            string // script, exec or http
	command                        string // of exec
	url                            string // of http
	listen, publicURL              string
	dir                            string
	force                          bool
}

// The ways in which a new agent can run.
var runKinds = []string{"script", "exec", "http"}

func newCardNewCommand(a *app) *cobra.Command {
	n := &newAgent{}
	cmd := &cobra.Command{
		Use: "new", Short: "Make a new agent: its configuration, card, schema and endpoints",
		Long: `Make a new agent in a directory of its own: a configuration that runs, the agent
card that comes of it, the JSON Schema of what its skills take, and a list of its
endpoints. On a terminal, what no flag says is asked for.`,
		Example: `  handoff card new
  handoff card new --id quote --name "Quote Agent" --description "Quotes prices." --agent-version 1.0.0 \
    --skill-id quote --skill-name "Quote a price" --skill-description "Quotes a price for a part number." \
    --skill-tags sales,price --run exec --command "./quote --fast"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tellProblems(a.newCard(cmd, n))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&n.id, "id", "", "id of the agent, part of its address: [a-z0-9-]")
	fs.StringVar(&n.name, "name", "", "its name, for people")
	fs.StringVar(&n.description, "description", "", "what it is for")
	fs.StringVar(&n.version, "agent-version", "1.0.0", "its version")
	fs.StringArrayVar(&n.skillIDs, "skill-id", nil, "id of a skill; repeatable, like the flags that follow, which describe the skills in the same order")
	fs.StringArrayVar(&n.skillNames, "skill-name", nil, "name of the skill, for people (default: its id)")
	fs.StringArrayVar(&n.skillDescriptions, "skill-description", nil, "what the skill does")
	fs.StringArrayVar(&n.skillTags, "skill-tags", nil, "keywords of the skill, with commas between (default: its id)")
	fs.StringSliceVar(&n.inputModes, "input-modes", []string{"text/plain", "application/json"}, "media types that the agent takes")
	fs.StringSliceVar(&n.outputModes, "output-modes", []string{"text/plain", "application/json"}, "media types that it answers with")
	fs.BoolVar(&n.streaming, "streaming", true, "whether answers can be streamed")
	fs.StringVar(&n.run, "run", "script", "what runs it: script, exec (a program of yours) or http (a web service of yours)")
	fs.StringVar(&n.command, "command", "", "with --run exec: the program and its arguments ; one such as ./quote that is not there yet is written as a shell script to begin with (default: ./agent.sh)")
	fs.StringVar(&n.url, "url", "", "with --run http: the URL that each turn is posted to")
	fs.StringVar(&n.listen, "listen", "", "the address that the node listens on (default 127.0.0.1:8080)")
	fs.StringVar(&n.publicURL, "public-url", "", "the URL at which clients reach the node")
	fs.StringVar(&n.dir, "dir", "", "the directory to make (default: the id)")
	fs.BoolVar(&n.force, "force", false, "overwrite files that exist")
	_ = cmd.RegisterFlagCompletionFunc("run", cobra.FixedCompletions(runKinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// newCard asks for what is missing, and writes the agent.
func (a *app) newCard(cmd *cobra.Command, n *newAgent) error {
	if a.asksPeople() {
		q := &questions{in: bufio.NewReader(a.stdin), out: a.stderr}
		changed := func(name string) bool { return cmd.Flags().Changed(name) }
		if err := n.ask(q, changed); err != nil {
			return err
		}
	}
	if err := n.check(); err != nil {
		return err
	}
	return a.writeAgent(n)
}

// check refuses what no agent can be made of.
func (n *newAgent) check() error {
	var missing []string
	for _, f := range []struct{ flag, value string }{{"--id", n.id}, {"--name", n.name}, {"--description", n.description}, {"--agent-version", n.version}} {
		if strings.TrimSpace(f.value) == "" {
			missing = append(missing, f.flag)
		}
	}
	if len(n.skillIDs) == 0 {
		missing = append(missing, "--skill-id")
	}
	if len(n.skillDescriptions) < len(n.skillIDs) {
		missing = append(missing, "--skill-description for each --skill-id")
	}
	if n.run == "http" && n.url == "" {
		missing = append(missing, "--url")
	}
	if len(missing) > 0 {
		return usagef("missing: %s", strings.Join(missing, ", ")).hint("On a terminal they are asked for; see: handoff card new --help")
	}
	switch {
	case !agentID.MatchString(n.id):
		return usagef("--id %q is not made of a-z, 0-9 and -, with up to 63 characters", n.id)
	case !slices.Contains(runKinds, n.run):
		return usagef("--run %q is not script, exec or http", n.run)
	case n.command != "" && n.run != "exec":
		return usagef("--command goes with --run exec")
	case n.url != "" && n.run != "http":
		return usagef("--url goes with --run http")
	}
	for _, f := range []struct {
		flag string
		list []string
	}{{"--skill-name", n.skillNames}, {"--skill-description", n.skillDescriptions}, {"--skill-tags", n.skillTags}} {
		if len(f.list) > len(n.skillIDs) {
			return usagef("there are more %s than --skill-id", f.flag)
		}
	}
	for i, id := range n.skillIDs {
		if strings.TrimSpace(id) == "" || slices.Contains(n.skillIDs[:i], id) {
			return usagef("--skill-id %q is empty or given twice", id)
		}
	}
	if n.dir == "" {
		n.dir = n.id
	}
	return nil
}

// newSkill is a skill of a new agent.
type newSkill struct {
	id, name, description string
	tags                  []string
}

// skills returns the skills with what follows from their ids.
func (n *newAgent) skills() []newSkill {
	at := func(list []string, i int, otherwise string) string {
		if i < len(list) && strings.TrimSpace(list[i]) != "" {
			return strings.TrimSpace(list[i])
		}
		return otherwise
	}
	skills := make([]newSkill, len(n.skillIDs))
	for i, id := range n.skillIDs {
		id = strings.TrimSpace(id)
		s := newSkill{id: id, name: at(n.skillNames, i, id), description: at(n.skillDescriptions, i, "")}
		for tag := range strings.SplitSeq(at(n.skillTags, i, id), ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				s.tags = append(s.tags, tag)
			}
		}
		skills[i] = s
	}
	return skills
}

// questions asks a person.
type questions struct {
	in  *bufio.Reader
	out io.Writer
}

// ask asks until the answer is good. An empty answer is the one that is
// offered.
func (q *questions) ask(question, offered string, good func(string) string) (string, error) {
	for {
		prompt := question
		if offered != "" {
			prompt += " [" + offered + "]"
		}
		fmt.Fprint(q.out, prompt+": ")
		answer, err := q.in.ReadString('\n')
		if err != nil {
			return "", failf(codeInterrupted, "nothing was written")
		}
		if answer = strings.TrimSpace(answer); answer == "" {
			answer = offered
		}
		wrong := ""
		if good != nil {
			wrong = good(answer)
		}
		if wrong == "" {
			return answer, nil
		}
		fmt.Fprintln(q.out, wrong)
	}
}

func needed(answer string) string {
	if answer == "" {
		return "This is needed."
	}
	return ""
}

var notID = regexp.MustCompile(`[^a-z0-9]+`)

// idOf makes an id of a name.
func idOf(name string) string {
	return strings.Trim(notID.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// ask asks for what no flag says.
func (n *newAgent) ask(q *questions, changed func(flag string) bool) error {
	var err error
	one := func(flag string, value *string, question, offered string, good func(string) string) {
		if err == nil && !changed(flag) {
			*value, err = q.ask(question, offered, good)
		}
	}
	list := func(flag string, value *[]string, question string) {
		if err == nil && !changed(flag) {
			var text string
			text, err = q.ask(question, strings.Join(*value, ","), needed)
			*value = strings.Split(text, ",")
			for i := range *value {
				(*value)[i] = strings.TrimSpace((*value)[i])
			}
		}
	}
	one("name", &n.name, "Name of the agent", "", needed)
	one("id", &n.id, "Id, part of its address", idOf(n.name), func(id string) string {
		if !agentID.MatchString(id) {
			return "An id is made of a-z, 0-9 and -."
		}
		return ""
	})
	one("description", &n.description, "What is it for", "", needed)
	one("agent-version", &n.version, "Version", n.version, needed)
	for more := true; more && err == nil && !changed("skill-id"); {
		var id, name, description, tags, again string
		one("", &name, "Name of a skill", "", needed)
		one("", &id, "Its id", idOf(name), needed)
		one("", &description, "What does it do", "", needed)
		one("", &tags, "Keywords, with commas between", id, needed)
		n.skillIDs, n.skillNames = append(n.skillIDs, id), append(n.skillNames, name)
		n.skillDescriptions, n.skillTags = append(n.skillDescriptions, description), append(n.skillTags, tags)
		one("", &again, "Another skill? y or n", "n", nil)
		more = strings.HasPrefix(strings.ToLower(again), "y")
	}
	list("input-modes", &n.inputModes, "Media types that it takes")
	list("output-modes", &n.outputModes, "Media types that it answers with")
	streaming := "y"
	one("streaming", &streaming, "Can answers be streamed? y or n", "y", nil)
	if !changed("streaming") {
		n.streaming = strings.HasPrefix(strings.ToLower(streaming), "y")
	}
	one("run", &n.run, "What runs it: script, exec or http", n.run, func(kind string) string {
		if !slices.Contains(runKinds, kind) {
			return "Say script, exec or http."
		}
		return ""
	})
	if n.run == "exec" {
		one("command", &n.command, "Its program, with arguments; empty writes a shell script", "", nil)
	}
	if n.run == "http" {
		one("url", &n.url, "The URL that each turn is posted to", "http://127.0.0.1:9000/turn", needed)
	}
	return err
}

// quoteYAML returns a text as YAML that can be read as nothing else. JSON is
// YAML.
func quoteYAML(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	return string(appendYAMLScalar(nil, quoted))
}

// quoteText is quoteYAML for what people read: ${ is no reference there.
func quoteText(text string) string { return quoteYAML(strings.ReplaceAll(text, "${", "$${")) }

// quoteList returns texts as a list of YAML on one line.
func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		q, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
		quoted[i] = string(q)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// unusedFiles refuses to write over files.
func (n *newAgent) unusedFiles(files []string) error {
	if n.force {
		return nil
	}
	for _, file := range files {
		if _, err := os.Lstat(file); err == nil {
			return failf(codeConfig, "%s exists", file).hint("Name another directory with --dir, or overwrite with --force")
		}
	}
	return nil
}
