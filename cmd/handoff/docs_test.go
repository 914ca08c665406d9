package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What the commands of a page show, as far as a reader would miss it.
var shown = []struct {
	page, section string // the part of the page from this heading to the next of its level; "": all
	before        string // what its reader has done before
	want          []string
}{
	{"README.md", "## Five minutes", "", []string{"Name: Hello", "Hello! You said: Hello from the README", "Hello from mine", "COMPLETED"}},
	{"docs/start.md", "", "", []string{
		"What shall I say?", "Call: ok", "Incoterm? FOB or delivered?", "Ref: PO-2026-0184", "answered by local admin",
		"400 units of BRG-0042, 82,000,000 IDR", "The quote is there.", `"SBY":310`, "Outcome: allowed", "Outcome: hidden",
	}},
	{"docs/cards.md", "## Signatures", "handoff card key new card-2027.pem --alg EdDSA\necho '" + aCard + "' > agent-card.json\n", []string{"Signature: good", "signed.json: verified"}},
	{"docs/partners.md", "## Before DNS works", "handoff init\n", []string{"COMPLETED"}},
}

const aCard = `{"name": "Quotes", "description": "Quotes prices.", "version": "1.0.0", "capabilities": {"streaming": true},
	"supportedInterfaces": [{"url": "https://agents.example.com/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
	"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
	"skills": [{"id": "quote", "name": "Quote", "description": "Quotes an article.", "tags": ["quotes"]}]}`

// The commands of pages that need no more than the program, run as they stand in a clone, but for
// ports, the folder of the reader, and waits, which end as soon as a node is there.
func TestCommandsOfPagesRun(t *testing.T) {
	t.Parallel()
	for _, s := range shown {
		t.Run(filepath.Base(s.page), func(t *testing.T) {
			t.Parallel()
			clone, home := t.TempDir(), t.TempDir()
			if err := os.CopyFS(filepath.Join(clone, "examples", "hello"), os.DirFS("../../examples/hello")); err != nil {
				t.Fatal(err)
			}
			script := s.before + commandsOf(t, s.page, s.section)
			script = builds.ReplaceAllStringFunc(script, func(line string) string {
				m := builds.FindStringSubmatch(line)
				if out, err := exec.Command("go", "build", "-C", "../..", "-o", filepath.Join(clone, m[1]), m[2]).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", line, err, out)
				}
				return ""
			})
			script = regexp.MustCompile(`(?m)^(make build\b|curl --resolve ).*`).ReplaceAllString(script, "")     // done, and of a host that is nowhere
			script = regexp.MustCompile(`(?m)^handoff serve [^&\n]*$`).ReplaceAllString(script, "${0} & sleep 1") // in a terminal of its own
			script = withPorts(t, strings.ReplaceAll(script, "/tmp/mine", "~/mine"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -ex\n"+script)
			cmd.Dir, cmd.WaitDelay = clone, 5*time.Second
			cmd.Env = append(os.Environ(), "HOME="+home)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, want := range s.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("nothing shows %q:\n%s", want, out)
				}
			}
		})
	}
}

var builds = regexp.MustCompile(`(?m)^go build -o (\S+) (\S+).*`)

// commandsOf returns the shell blocks of a page, as one script.
func commandsOf(t *testing.T, page, section string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	if section != "" {
		_, after, ok := strings.Cut(text, "\n"+section+"\n")
		if !ok {
			t.Fatalf("%s has no %s", page, section)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	var script strings.Builder
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		script.WriteString(m[1])
	}
	return script.String()
}

// withPorts puts ports that are free in the place of those of a script, and lets it wait
// until its nodes listen.
func withPorts(t *testing.T, script string) string {
	t.Helper()
	own, other := free(t), free(t)
	script = strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:"+own, "127.0.0.1:8081", "127.0.0.1:"+other).Replace(script)
	return regexp.MustCompile(`(?m)^handoff serve( .*)?& sleep 1$`).ReplaceAllStringFunc(script, func(line string) string {
		port := own
		if strings.Contains(line, "supplier/") {
			port = other
		}
		line = strings.Replace(line, "serve", "serve --listen 127.0.0.1:"+port, 1)
		return strings.TrimSuffix(line, "sleep 1") +
			fmt.Sprintf("until (exec 3<>/dev/tcp/127.0.0.1/%s) 2>&- && handoff admin status %s >&- 2>&-; do sleep 0.05; done", port, configured.FindString(line))
	})
}

var configured = regexp.MustCompile(`-c \S+`)

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
