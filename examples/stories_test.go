package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// told is what the commands of a story's README show, in this order.
var told = map[string][]string{
	"inventory": {
		"There are 310 of BRG-0043.", "State: WORKING", "To: supplier (peer)", "State: COMPLETED", "is ordered already", "BRG-0042", "is on its way", "Delivery note", "shipped",
	},
	"model": {
		"Called stock.get_stock_level.", "310", "COMPLETED", "INPUT_REQUIRED", "Incoterm? FOB or delivered?",
		"There are 310 of BRG-0042 in Surabaya, so that 90 are missing", "IDR 122,500 a unit, incoterm: delivered, within 14 days", "There are 310 of BRG-0042 in Surabaya, which is enough", "approved by", "Of the recount:", `"units":322`,
	},
	"procurement": {
		"Incoterm? FOB or delivered?", "Peer: supplier", "answered by local admin", "approved by local admin", "draft_order", "approved by local admin", "To: finance (peer)", "To: supplier (peer)", `"status": "draft"`,
		"rebuild_stock_valuation", `"units":20`, `"articles":60`, "approve",
	},
}

// later is what a command shows once the agents have got there.
var later = map[string]string{
	"ITEM=": "", "GRANT=": "",
	"bin/handoff task list http://127.0.0.1:8080/agents/model/ --state": "so that 90 are missing", "bin/handoff task list http://127.0.0.1:8080/agents/model/ --include": `"units":322`,
	"curl ": `"status": "draft"`, "bin/handoff task list http://127.0.0.1:8080/agents/inventory/": "is on its way", `bin/handoff delegation list --ref "stock of`: "To: supplier",
}

// The READMEs of the stories, run line by line in a shell, but for the ports and
// the place of the files.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, name := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // programs are built in it
			defer cancel()
			w := newWalker(t, name)
			text, err := os.ReadFile(filepath.Join(name, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range block.FindAllSubmatch(text, -1) {
				for line := range strings.Lines(string(match[1])) {
					line, _, _ = strings.Cut(strings.TrimSpace(line), "   # ")
					w.do(ctx, line)
				}
			}
			rest := w.shown.String()
			for _, want := range told[name] {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("nothing shows %q there", want)
				}
				rest = after
			}
			if t.Failed() {
				t.Log(w.shown.String())
			}
		})
	}
}

// walker does what a README says, in a directory that looks like the clone.
type walker struct {
	t     *testing.T
	root  string
	ports *strings.Replacer
	env   []string
	shown strings.Builder
}

func newWalker(t *testing.T, name string) *walker {
	t.Helper()
	w := &walker{t: t, root: t.TempDir(), env: append(os.Environ(), "HOME="+t.TempDir())}
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	link(t, handoff, filepath.Join(w.root, "bin", "handoff"))
	var ports []string
	for i := range 8 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports = append(ports, fmt.Sprintf("127.0.0.1:%d", 8080+i), listener.Addr().String())
	}
	w.ports = strings.NewReplacer(ports...)
	for _, pattern := range []string{"*.yaml", "*.csv"} {
		files, err := filepath.Glob(filepath.Join(name, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(w.root, "examples", file)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(w.ports.Replace(string(content))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

var assignment = regexp.MustCompile(`^(?:export )?([A-Z_]+)=(\$\(.*\))$`)

// do carries out a line.
func (w *walker) do(ctx context.Context, line string) {
	w.t.Helper()
	switch program, background := strings.CutSuffix(line, " &"); {
	case line == "make build": // the program is there
	case strings.HasPrefix(line, "go run "): // the test of that package does
		if _, err := os.Stat(filepath.Join("..", strings.Fields(line)[2], "main.go")); err != nil {
			w.t.Error(err)
		}
	case strings.HasPrefix(line, "go build -o "):
		words := strings.Fields(line)
		to := filepath.Join(w.root, words[3])
		if strings.HasSuffix(words[3], "/") {
			to += "/"
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-o", to, words[4])
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	case background:
		w.start(ctx, program)
	default:
		w.show(ctx, line)
	}
}

// elsewhere are the arguments without which a program would listen, or look, where
// it does when the example is run by hand.
var elsewhere = map[string]string{
	"buyer":          " -desk 127.0.0.1:8083 -gateway http://127.0.0.1:8084/mcp",
	"finance":        " -books http://127.0.0.1:8087/mcp",
	"scripted-model": " -listen 127.0.0.1:8081",

	"erp-read": " -listen 127.0.0.1:8085",
	"erp-post": " -listen 127.0.0.1:8086",
	"books":    " -listen 127.0.0.1:8087",
}

// start starts a program and returns when its node is ready.
func (w *walker) start(ctx context.Context, line string) *exec.Cmd {
	w.t.Helper()
	line += elsewhere[path.Base(line)]
	cmd := w.shell(ctx, "exec "+line)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if ready.MatchString(lines.Text()) {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return cmd
		}
	}
	w.t.Fatalf("%s ended before it was ready:\n%s", line, &said)
	return nil
}

func (w *walker) shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", w.ports.Replace(line))
	cmd.Dir, cmd.Env = w.root, slices.Clone(w.env)
	return cmd
}

// show runs a command and keeps what it shows. One that a person would try again
// in a moment is tried again.
func (w *walker) show(ctx context.Context, line string) {
	w.t.Helper()
	run := line
	variable := assignment.FindStringSubmatch(line)
	if variable != nil {
		run = "printf %s \"" + variable[2] + `"`
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		cmd := w.shell(ctx, run)
		out, err := cmd.Output()
		done := true
		for prefix, want := range later {
			if strings.HasPrefix(line, prefix) {
				done = len(out) > 0 && strings.Contains(string(out), want)
			}
		}
		if done && err != nil {
			w.t.Errorf("%s: %v", line, err)
		}
		if done {
			if variable != nil {
				w.env = append(w.env, variable[1]+"="+string(out))
			} else {
				fmt.Fprintf(&w.shown, "$ %s\n%s\n", line, out)
			}
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: it shows\n%s\nand before\n%s", line, out, &w.shown)
		case <-tick.C:
		}
	}
}
