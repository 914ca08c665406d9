package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"handoff.example/handoff/internal/process"
)

// Blocks of commands that another test runs: its file and its function.
var runElsewhere = map[block]string{
	{"README.md", "# Handoff"}:       "examples/demo/demo_test.go TestStory",
	{"docs/deploy.md", "## systemd"}: "deploy/check/docs_test.go TestInstallationOfThePage",
}

// Blocks of commands that no test machine can run, with the reason.
var notRun = map[block]string{
	{"docs/deploy.md", "## Image"}:      "needs a Docker daemon; TestImageRuns of deploy/check runs the files of the image with these mounts",
	{"docs/deploy.md", "## Kubernetes"}: "needs a registry and a cluster; TestPodsAreNodesOfOneStore of deploy/check runs the pods' nodes",
}

// block is where commands stand: a page, and a heading of it.
type block struct{ page, heading string }

// scene is what a reader of a page has before its commands, and what they show.
// It is a file of testdata/docs; the part before its files has a line for each of
//
//	page P           the page
//	section H        a heading of it; none: all of the page
//	replace A => B   what stands there, and what stands for it here; \n is a new line
//	leave L: WHY     commands, and lines that are shown, that begin with L
//	with F           the files and what is before of another archive
//	want T           what is shown
//
// Its files are the reader's, but for before.sh, which comes before the commands of the page,
// and after.sh.
type scene struct {
	page          string
	sections      []string
	replace       []string
	leave, want   []string
	before, after string
	files         []txtar.File
}

// The commands of pages that need no more than the program, bash and curl.
func TestCommandsOfPagesRun(t *testing.T) {
	t.Parallel()
	playScenes(t, "testdata/docs")
}

// Every block of commands of the documents is run.
func TestEveryBlockOfCommandsIsRun(t *testing.T) {
	t.Parallel()
	run := map[block]bool{}
	for _, folder := range []string{"testdata/docs", "testdata/docs-tools"} {
		for _, s := range scenes(t, folder) {
			for _, c := range s.commands(t) {
				run[c.block] = true
			}
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[block]int{}
	for _, page := range slices.Concat([]string{"../../README.md"}, pages, deeper) {
		for _, c := range commandsOf(t, strings.TrimPrefix(filepath.ToSlash(page), "../../")) {
			found[c.block]++
			if !run[c.block] && runElsewhere[c.block] == "" && notRun[c.block] == "" {
				t.Errorf("no test runs the commands of %s, %q", c.page, c.heading)
			}
		}
	}
	if len(found) < 60 {
		t.Errorf("only %d headings have commands", len(found))
	}
	for b, by := range runElsewhere {
		file, function, _ := strings.Cut(by, " ")
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil || !strings.Contains(string(text), "\nfunc "+function+"(") {
			t.Errorf("%s has no %s, which is to run %s, %q", file, function, b.page, b.heading)
		}
		if found[b] != 1 || run[b] {
			t.Errorf("%s has %d blocks of commands in %q, of which one is run elsewhere", b.page, found[b], b.heading)
		}
	}
	for b := range notRun {
		if found[b] != 1 || run[b] {
			t.Errorf("%s has %d blocks of commands in %q, of which one is excused", b.page, found[b], b.heading)
		}
	}
}

// playScenes runs the commands of pages as they stand in a clone, but for ports, what a scene
// replaces, and waits, which end as soon as a node is there. env is for the commands.
func playScenes(t *testing.T, folder string, env ...string) {
	t.Helper()
	tools, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Split(string(tools), "\n")
	env = append(env, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1], "TZ=UTC")
	p := &programs{folder: t.TempDir()}
	for name, s := range scenes(t, folder) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.play(t, p, env)
		})
	}
}

func (s *scene) play(t *testing.T, p *programs, env []string) {
	clone, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"hello", "fixture"} {
		if err := os.CopyFS(filepath.Join(clone, "examples", name), os.DirFS("../../examples/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := certify(clone); err != nil {
		t.Fatal(err)
	}
	addresses := addresses(t)
	for _, f := range s.files {
		file := filepath.Join(clone, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(addresses.Replace(string(f.Data))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	commands := s.commands(t)
	script := addresses.Replace(waiting(p.building(t, clone, s.script(t, commands))))
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	trace := filepath.Join(home, "trace")
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec 9>"+trace+"; BASH_XTRACEFD=9; trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\nset -ex\n"+script)
	cmd.Dir, cmd.WaitDelay = clone, 30*time.Second
	process.SetGroup(cmd)
	cmd.Cancel = func() error { process.KillGroup(cmd.Process); return nil }
	cmd.Env = append(append(os.Environ(), "HOME="+home, "ROOT="+root), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		done, _ := os.ReadFile(trace)
		t.Fatalf("%v:\n%s\n%s", err, done, out)
	}
	wants := s.want
	for _, c := range commands {
		wants = append(wants, s.labels(c)...)
	}
	for _, want := range wants {
		if !strings.Contains("\n"+string(out), want) {
			t.Errorf("nothing shows %q:\n%s", want, out)
		}
	}
}

// script is what is before the commands, the commands, and what is after.
func (s *scene) script(t *testing.T, commands []command) string {
	t.Helper()
	var text strings.Builder
	for _, c := range commands {
		if strings.HasPrefix(c.shown, "\nError: ") {
			c.text = "if " + c.text + "then exit 99; fi\n"
		}
		text.WriteString(c.text)
	}
	script := text.String()
	for _, l := range s.leave {
		if !slices.ContainsFunc(commands, func(c command) bool { return strings.Contains("\n"+c.text+c.shown, "\n"+l) }) {
			t.Errorf("%s has no %q", s.page, l)
		}
		script = regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(l)+`(.*\\\n)*.*$`).ReplaceAllString(script, "")
	}
	for i := 0; i < len(s.replace); i += 2 {
		if !strings.Contains(script, s.replace[i]) {
			t.Errorf("%s does not say %q", s.page, s.replace[i])
		}
	}
	script = strings.NewReplacer(s.replace...).Replace(script)
	script = exits.ReplaceAllString(script, "code=0; $1 || code=$$?; test $$code = $2")
	return s.before + "\n" + comment.ReplaceAllString(script, "") + s.after
}

func (s *scene) leaves(line string) bool {
	return slices.ContainsFunc(s.leave, func(l string) bool { return strings.HasPrefix(line, l) })
}

// labels returns what has to be shown as well when a command is as the page shows it: the
// labels of its lines, and the messages of its log.
func (s *scene) labels(c command) (labels []string) {
	for line := range strings.Lines(c.shown) {
		if m := label.FindString(line); m != "" && !s.leaves(line) {
			labels = append(labels, strings.TrimPrefix("\n"+strings.TrimRight(m, " \n"), "\nlevel"))
		}
	}
	return labels
}

var (
	label      = regexp.MustCompile(`^(level=\w+ msg="[^"]*"|[^:"{}]+:[ \n])`)
	exits      = regexp.MustCompile(`(?m)^(.*?)\s+# exit code (\d+).*$`)
	comment    = regexp.MustCompile(`(?m)(^|\s)\s*# .*$`)
	builds     = regexp.MustCompile(`(?m)^go build -o (\S+) (\./\S+).*`)
	serves     = regexp.MustCompile(`(?m)^handoff serve( [^&\n]*)?$`)
	listens    = regexp.MustCompile(`--listen \S+`)
	configured = regexp.MustCompile(`-c \S+`)
	waits      = regexp.MustCompile(`(?m)^handoff serve( .*)?& sleep 1$`)
)

// programs are those of the clone that scripts build, each built once.
type programs struct {
	sync.Mutex
	folder string
}

// building takes what builds programs out of a script, and puts the programs into its clone.
func (p *programs) building(t *testing.T, clone, script string) string {
	t.Helper()
	p.Lock()
	defer p.Unlock()
	return builds.ReplaceAllStringFunc(script, func(line string) string {
		m := builds.FindStringSubmatch(line)
		built, to := filepath.Join(p.folder, filepath.Base(m[1])), filepath.Join(clone, m[1])
		if _, err := os.Stat(built); err != nil {
			if out, err := exec.Command("go", "build", "-C", "../..", "-o", built, m[2]).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(built, to)); err != nil {
			t.Fatal(err)
		}
		return ""
	})
}

// waiting lets a script wait until its nodes are there; one that has a terminal of its own
// on the page runs beside the script. $NODE is the one at the usual address.
func waiting(script string) string {
	script = serves.ReplaceAllString(script, "${0} & sleep 1")
	return waits.ReplaceAllStringFunc(script, func(line string) string {
		line = strings.TrimSuffix(line, "sleep 1")
		listen, keep := listens.FindString(line), ""
		if listen == "" {
			listen, keep = "--listen 127.0.0.1:8080", "NODE=$!; "
			line = strings.Replace(line, "serve", "serve "+listen, 1)
		}
		return line + keep + fmt.Sprintf("until (exec 3<>/dev/tcp/%s) 2>&- && handoff admin status %s >&- 2>&-; do kill -0 $!; sleep 0.05; done",
			strings.Replace(listen[len("--listen "):], ":", "/", 1), configured.FindString(line))
	})
}

// addresses puts ports that are free in the place of those of the pages.
func addresses(t *testing.T) *strings.Replacer {
	t.Helper()
	var pairs []string
	for _, port := range []string{"8080", "8081", "8085", "8086"} {
		other := free(t)
		pairs = append(pairs, "127.0.0.1:"+port, "127.0.0.1:"+other, "127.0.0.1/"+port, "127.0.0.1/"+other)
	}
	return strings.NewReplacer(pairs...)
}

// free returns a port that nobody has at the moment.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
