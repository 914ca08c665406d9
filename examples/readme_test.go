package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// seen is what the commands of a README show, as far as a reader would miss it.
var seen = map[string][]string{
	"a2a-go-executor": {"Delta", "Oscar", "Charlie", "Kilo", "COMPLETED", "What shall I spell?"},
	"csv-summary":     {"| on_hand | 3 | 1 | 200 | 80 | 400 | 174.356 |", "COMPLETED"},
	"delivery":        {"Two docks are free on 11 Sep. Which one, and is a tail lift needed?", "INPUT_REQUIRED"},
	"fixture":         {"chunk 30", "COMPLETED", "INPUT_REQUIRED"},
	"go-agent":        {"Incoterm? FOB or delivered?", "INPUT_REQUIRED"},
	"hello":           {"Name: Hello", "Hello! You said: good morning", "COMPLETED"},
	"supplier":        {"Security Requirement: partnerOAuth (quotes)", "Skill ID: contract-terms", "BRG-0042", "COMPLETED"},
	"release-notes":   {"Release notes for 1.4.0", "Moving to 1.4.1", "COMPLETED"},
	"writer":          {"For which readers is the summary?", "INPUT_REQUIRED"},
}

var word = regexp.MustCompile(`"[^"]*"|\S+`)

// The commands of every README, run as they stand but for the port and the place
// of the files.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, base, bearer := folder(t, name), "", ""
			var output strings.Builder
			for _, words := range commands(t, name) {
				line := strings.Join(words, " ")
				switch {
				case strings.HasSuffix(line, "/issuer"):
					issuer := startIssuer(t)
					edit(t, filepath.Join(dir, "handoff.yaml"), "http://127.0.0.1:9000", issuer)
					bearer = token(t, issuer, "quotes contracts")
				case strings.HasPrefix(line, "TOKEN="): // it has been got already
				case strings.HasPrefix(line, "go run "):
					e, _ := run(t, name, moved(t, name))
					base = e.base
				case strings.HasPrefix(line, "bin/handoff serve "):
					base = serveProgram(t, handoff, filepath.Join(dir, filepath.Base(words[3])))
				case words[0] == "bin/handoff":
					line = strings.NewReplacer("http://127.0.0.1:8080", base, "$TOKEN", bearer).Replace(line)
					fmt.Fprintf(&output, "$ %s\n%s\n", line, runLine(t, handoff, line))
				}
			}
			for _, want := range seen[name] {
				if !strings.Contains(output.String(), want) {
					t.Errorf("nothing shows %q", want)
				}
			}
			if t.Failed() || len(seen[name]) == 0 {
				t.Errorf("the commands show:\n%s", output.String())
			}
		})
	}
}

// runLine runs a line of the shell that begins with bin/handoff.
func runLine(t *testing.T, handoff, line string) []byte {
	t.Helper()
	var args []string
	for _, w := range word.FindAllString(line, -1)[1:] {
		args = append(args, strings.Trim(w, `"`))
	}
	cmd := exec.CommandContext(t.Context(), handoff, args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return out
}

// serveProgram starts the program as a user does and returns its address.
func serveProgram(t *testing.T, handoff, file string) string {
	t.Helper()
	cmd := exec.Command(handoff, "serve", "-c", file, "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if match := ready.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			response, err := http.Get("http://" + match[1] + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("readyz: %s", response.Status)
			}
			return "http://" + match[1]
		}
	}
	t.Fatalf("the server ended before it was ready:\n%s", &said)
	return ""
}
