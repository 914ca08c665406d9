package telemetry

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

const (
	page  = "../../docs/metrics.md"
	begin = "<!-- metrics: made from the code, see internal/telemetry/docs_test.go -->\n"
	end   = "<!-- end of metrics -->\n"
)

// table is the table of all metrics.
func table(list []Definition) string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it is |\n| --- | --- | --- | --- |\n")
	for _, d := range list {
		var labels []string
		for _, l := range d.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, strings.Join(labels, ", "), d.Help)
	}
	return b.String()
}

func TestThePageListsTheMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the table")
	}
	want := table(NewMetrics().Definitions())
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Error("docs/metrics.md is out of date: go test ./internal/telemetry -run TestThePageListsTheMetrics -update")
	}
}

var named = regexp.MustCompile(`\bhandoff_[a-z_]+[a-z]\b(\{[a-z_, ]*\})?`)

// Documents name metrics that there are, with labels that they have.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	list := NewMetrics().Definitions()
	found := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllString(string(text), -1) {
			name, labels, _ := strings.Cut(m, "{")
			if slices.Contains([]string{"handoff_session", "handoff_key"}, name) { // a cookie, a secret
				continue
			}
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			i := slices.IndexFunc(list, func(d Definition) bool { return d.Name == name || d.Kind == Histogram && d.Name == base })
			if i < 0 {
				t.Errorf("%s names %s, which is no metric", page, name)
				continue
			}
			found++
			for l := range strings.SplitSeq(strings.Trim(labels, "} "), ",") {
				if l = strings.TrimSpace(l); l != "" && !slices.Contains(list[i].Labels, l) {
					t.Errorf("%s has %s, which has no label %s", page, m, l)
				}
			}
		}
	}
	if found < len(list) {
		t.Errorf("only %d metrics are named", found)
	}
}
