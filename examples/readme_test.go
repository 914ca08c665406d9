package examples_test

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff/config"
)

// seen is what the commands of a README show, as far as a reader would miss it.
var seen = map[string][]string{
	"a2a-go-executor": {"Delta", "Oscar", "Charlie", "Kilo", "COMPLETED", "What shall I spell?"},
	"csv-summary":     {"| on_hand | 3 | 1 | 200 | 80 | 400 | 174.356 |", "COMPLETED"},
	"delivery":        {"Two docks are free on 11 Sep. Which one, and is a tail lift needed?", "INPUT_REQUIRED"},
	"fixture":         {"chunk 30", "COMPLETED", "INPUT_REQUIRED"},
	"go-agent":        {"Incoterm? FOB or delivered?", "INPUT_REQUIRED"},
	"hello":           {"Name: Hello", "Hello! You said: good morning", "COMPLETED"},
	"mcp-backend":     {"Skill ID: recount", `"JKT"`, "310", "INPUT_REQUIRED", "Counted BRG-0042", "322", "COMPLETED"},
	"planner":         {"## MCP", "## A2A", "COMPLETED", "Asked By: agent planner", "What is MCP for?"},
	"research":        {"For which readers is the summary?", "COMPLETED", "Agents hand work to each other"},
	"review":          {"Please attach the list of changes.", "COMPLETED", "approved"},
	"supplier":        {"Security Requirement: partnerOAuth (quotes)", "Skill ID: contract-terms", "BRG-0042", "COMPLETED"},
	"release-notes":   {"Release notes for 1.4.0", "Moving to 1.4.1", "COMPLETED"},
	"writer":          {"For which readers is the summary?", "INPUT_REQUIRED"},
}

// The commands of every README, run as they stand but for the ports and the
// place of the files.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range single(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reader{t: t, handoff: handoff, dir: "..", folders: map[string]string{}, moves: map[string]string{}}
			for _, lines := range terminals(t, name) {
				r.terminal(lines)
			}
			for _, want := range seen[name] {
				if !strings.Contains(r.output.String(), want) {
					t.Errorf("nothing shows %q", want)
				}
			}
			if t.Failed() || len(seen[name]) == 0 {
				t.Errorf("the commands show:\n%s", &r.output)
			}
		})
	}
}

// reader does what a README says.
type reader struct {
	t       *testing.T
	handoff string            // the program
	dir     string            // where commands run
	folders map[string]string // copies of examples, by name
	moves   map[string]string // addresses that stand in a README, and those in their place
	output  strings.Builder
}

// terminal follows one block of commands. What serves runs on; all else is a
// script of the shell.
func (r *reader) terminal(lines []string) {
	r.t.Helper()
	var script []string
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case strings.HasSuffix(line, "/issuer"):
			issuer := startIssuer(r.t)
			r.moves["http://127.0.0.1:9000"] = issuer
			r.moves["$TOKEN"] = token(r.t, issuer, "quotes contracts")
		case words[0] == "make", strings.HasPrefix(line, "go build "), strings.HasPrefix(line, "TOKEN="): // done already
		case strings.HasPrefix(line, "go run "):
			name := filepath.Base(words[2])
			listens := listen(r.t, filepath.Join(name, "handoff.yaml"))
			e, _ := run(r.t, name, moved(r.t, name))
			r.folders[name], r.moves[listens] = e.dir, e.base
		case strings.HasPrefix(line, "bin/handoff serve "):
			file := r.place(words[3])
			listens := listen(r.t, file)
			replace(r.t, file, r.moves)
			r.moves[listens] = serveProgram(r.t, r.handoff, file)
		case words[0] == "cd":
			r.dir = filepath.Dir(r.place(words[1] + "/handoff.yaml"))
		default:
			script = append(script, line)
		}
	}
	if len(script) == 0 {
		return
	}
	text := configured.ReplaceAllStringFunc(strings.Join(script, "\n"), r.place)
	for from, to := range r.moves {
		text = strings.ReplaceAll(text, from, to)
	}
	text = program.ReplaceAllString(text, "${1}"+r.handoff+" ")
	cmd := exec.CommandContext(r.t.Context(), "sh", "-exc", text)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "HOME="+r.t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("%s: %v", text, err)
	}
	r.output.Write(out)
}

var (
	configured = regexp.MustCompile(`examples/[\w-]+/[\w-]+\.yaml`)
	program    = regexp.MustCompile(`(?m)(^|\()(?:\.\./\.\./)?bin/handoff `)
)

// place returns where the copy of an example's file is.
func (r *reader) place(file string) string {
	name := filepath.Base(filepath.Dir(file))
	if r.folders[name] == "" {
		r.folders[name] = folder(r.t, name)
	}
	return filepath.Join(r.folders[name], filepath.Base(file))
}

// listen returns the address of the node that a configuration is of.
func listen(t *testing.T, file string) string {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + c.Listen
}

// replace replaces the texts of a file that it has.
func replace(t *testing.T, file string, texts map[string]string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range texts {
		content = bytes.ReplaceAll(content, []byte(from), []byte(to))
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveProgram starts the program as a user does and returns its address.
func serveProgram(t *testing.T, handoff, file string) string {
	t.Helper()
	return serveAt(t, handoff, file, "127.0.0.1:0").base
}

// process is a node that is a process of its own.
type process struct {
	base string // http://127.0.0.1:port
	kill func() // as with kill -9

	mu  sync.Mutex
	log strings.Builder
}

// said is what the process has logged.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.WriteString(line + "\n")
}

// serveAt starts the program at an address and waits until it is ready.
func serveAt(t *testing.T, handoff, file, address string) *process {
	t.Helper()
	cmd := exec.Command(handoff, "serve", "-c", file, "--listen", address)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{}
	p.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.say(lines.Text())
		match := ready.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		go func() {
			for lines.Scan() {
				p.say(lines.Text())
			}
		}()
		p.base = "http://" + match[1]
		response, err := http.Get(p.base + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("readyz: %s", response.Status)
		}
		return p
	}
	t.Fatalf("the server ended before it was ready:\n%s", p.said())
	return nil
}
