package main

import (
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	href = regexp.MustCompile(` href="([^"]*)"`)
	id   = regexp.MustCompile(` id="([^"]*)"`)
)

// written returns the pages of the site of this project, by their path.
func written(t *testing.T) map[string]string {
	t.Helper()
	s, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		pages[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	pages := written(t)
	anchors := map[string]map[string]bool{}
	for name, text := range pages {
		anchors[name] = map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(text, -1) {
			if anchors[name][m[1]] {
				t.Errorf("%s has the anchor %s twice", name, m[1])
			}
			anchors[name][m[1]] = true
		}
	}
	links := 0
	for name, text := range pages {
		for _, m := range href.FindAllStringSubmatch(text, -1) {
			to := html.UnescapeString(m[1])
			if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(to, "#")
			if target == "" {
				target = name
			} else {
				target = path.Join(path.Dir(name), target)
			}
			if _, ok := pages[target]; !ok {
				t.Errorf("%s links to %s, which is not there", name, to)
			} else if anchor != "" && !anchors[target][anchor] {
				t.Errorf("%s links to %s, where nothing has that anchor", name, to)
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d links", links)
	}
}

func TestEveryPageOfTheDocumentsIsInTheNavigation(t *testing.T) {
	t.Parallel()
	pages := written(t)
	if len(pages) < 60 {
		t.Fatalf("only %d pages", len(pages))
	}
	if _, ok := pages["old.html"]; ok {
		t.Error("what was there before is still there")
	}
	nav, _, _ := strings.Cut(pages["index.html"], "<main")
	for name, text := range pages {
		if path.Ext(name) != ".html" {
			continue
		}
		if !strings.Contains(text, "<nav ") || !strings.Contains(text, `href="`+strings.Repeat("../", strings.Count(name, "/"))+`site.css"`) {
			t.Errorf("%s has no navigation or no styles", name)
		}
		if strings.Contains(text, "<script") || strings.Contains(text, "raw HTML omitted") {
			t.Errorf("%s has HTML of its own", name)
		}
		ofDocs := !strings.HasPrefix(name, "files/") && !strings.HasPrefix(name, "examples/") && !strings.HasPrefix(name, "interop/")
		if ofDocs && name != "index.html" && name != "project.html" && !strings.Contains(nav, `href="`+name+`"`) {
			t.Errorf("%s is not in the navigation: name it in docs/README.md", name)
		}
	}
}

func TestAnchorsAreThoseOfForges(t *testing.T) {
	t.Parallel()
	i := ids{}
	for _, c := range [][2]string{
		{"Who may call", "who-may-call"},
		{"`peers.<name>`", "peersname"},
		{"What is not there: yet", "what-is-not-there-yet"},
		{"Who may call", "who-may-call-1"},
		{"?", "heading"},
	} {
		if got := string(i.Generate([]byte(c[0]), 0)); got != c[1] {
			t.Errorf("%q has the anchor %q, not %q", c[0], got, c[1])
		}
	}
}

func TestWaysBetweenPages(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"index.html", "inbox.html", "inbox.html"},
		{"architecture/engine.html", "inbox.html", "../inbox.html"},
		{"architecture/engine.html", "architecture/store.html", "store.html"},
		{"examples/demo/index.html", "examples/model/index.html", "../model/index.html"},
		{"inbox.html", "files/examples/demo/story.go.html", "files/examples/demo/story.go.html"},
	} {
		if got := relative(c[0], c[1]); got != c[2] {
			t.Errorf("from %s to %s: %s, not %s", c[0], c[1], got, c[2])
		}
	}
}
