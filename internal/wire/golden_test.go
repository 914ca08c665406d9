package wire_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/wire"
)

var update = flag.Bool("update", false, "write the answers into the transcripts")

// TestTranscripts plays the requests of every transcript against a fresh node and
// compares the answers. A request is a line with method and path, headers, an
// empty line, and the body. Ids become $ID1, $ID2 and so on in the order in
// which they appear, and can be used in later requests; times become $TIME.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n := newNode(t, setting{agent: func(a *wire.Agent) {
				a.Extensions = []a2a.AgentExtension{{URI: "https://x.example/ext"}}
			}})
			p := &player{n: n}
			changed := false
			for i := 0; i+1 < len(archive.Files); i += 2 {
				request, response := &archive.Files[i], &archive.Files[i+1]
				got := p.play(t, string(request.Data))
				if *update {
					response.Data, changed = []byte(got), true
				} else if diff := cmp.Diff(string(response.Data), got); diff != "" {
					t.Errorf("%s: %s", request.Name, diff)
				}
			}
			if changed {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// player plays requests and remembers the ids of the answers.
type player struct {
	n   *node
	ids []string
}

var (
	idPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
)

// shownHeaders are those of an answer that a transcript has.
var shownHeaders = []string{
	"Content-Type", "Cache-Control", "X-Accel-Buffering", "A2A-Extensions", "Allow", "Retry-After", "WWW-Authenticate",
}

func (p *player) play(t *testing.T, request string) string {
	t.Helper()
	for i := len(p.ids) - 1; i >= 0; i-- {
		request = strings.ReplaceAll(request, fmt.Sprintf("$ID%d", i+1), p.ids[i])
	}
	head, content, _ := strings.Cut(request, "\n\n")
	content = strings.TrimSuffix(content, "\n")
	first, rest, _ := strings.Cut(head, "\n")
	method, path, _ := strings.Cut(first, " ")
	r, err := http.NewRequest(method, p.n.base+path, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	response, err := p.n.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n", response.StatusCode)
	for _, name := range shownHeaders {
		for _, value := range response.Header.Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	b.WriteString("\n")
	b.Write(bytes.TrimSuffix(answer, []byte("\n\n")))
	b.WriteString("\n")
	text := idPattern.ReplaceAllStringFunc(b.String(), p.name)
	return timePattern.ReplaceAllString(text, "$$TIME")
}

// name returns the placeholder of an id.
func (p *player) name(id string) string {
	for i, known := range p.ids {
		if known == id {
			return fmt.Sprintf("$ID%d", i+1)
		}
	}
	p.ids = append(p.ids, id)
	return fmt.Sprintf("$ID%d", len(p.ids))
}
