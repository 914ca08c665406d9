package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// scenes returns the scenes of a folder by their names.
func scenes(t *testing.T, folder string) map[string]*scene {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no scenes: %v", folder, err)
	}
	found := map[string]*scene{}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".txtar")] = readScene(t, file)
	}
	return found
}

func readScene(t *testing.T, file string) *scene {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{}
	files := archive.Files
	for line := range strings.Lines(string(archive.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "page":
			s.page = rest
		case "section":
			s.sections = append(s.sections, rest)
		case "replace":
			from, to, ok := strings.Cut(rest, " => ")
			if !ok {
				t.Fatalf("%s: %q replaces nothing", file, rest)
			}
			s.replace = append(s.replace, strings.ReplaceAll(from, `\n`, "\n"), strings.ReplaceAll(to, `\n`, "\n"))
		case "leave":
			what, why, _ := strings.Cut(rest, ": ")
			if why == "" {
				t.Fatalf("%s: %q has no reason", file, rest)
			}
			s.leave = append(s.leave, what)
		case "with":
			shared, err := txtar.ParseFile(filepath.Join(filepath.Dir(file), rest))
			if err != nil {
				t.Fatal(err)
			}
			files = append(shared.Files, files...)
		case "want":
			s.want = append(s.want, rest)
		case "", "#":
		default:
			t.Fatalf("%s: there is no %q", file, word)
		}
	}
	if len(s.want) == 0 {
		t.Fatalf("%s wants nothing", file)
	}
	for _, f := range files {
		switch f.Name {
		case "before.sh":
			s.before += string(f.Data)
		case "after.sh":
			s.after += string(f.Data)
		default:
			s.files = append(s.files, f)
		}
	}
	return s
}

// commands returns those of the page that the scene is for.
func (s *scene) commands(t *testing.T) (of []command) {
	t.Helper()
	for _, c := range commandsOf(t, s.page) {
		if len(s.sections) == 0 || slices.Contains(s.sections, c.heading) {
			of = append(of, c)
		}
	}
	for _, heading := range s.sections {
		if !slices.ContainsFunc(of, func(c command) bool { return c.heading == heading }) {
			t.Errorf("%s has no commands in %q", s.page, heading)
		}
	}
	return of
}

// command is one of a block, or a whole block that shows nothing of the output.
type command struct {
	block
	text  string
	shown string // after a newline
}

var (
	shells    = []string{"sh", "bash", "shell"}
	headed    = regexp.MustCompile(`^#+ `)
	fenced    = regexp.MustCompile("^```(\\w*)")
	continue_ = "\\\n"
)

// commandsOf returns the commands of a page, in their order.
func commandsOf(t *testing.T, page string) (commands []command) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	at := block{page: page}
	language, within := "", false
	for line := range strings.Lines(string(content)) {
		last := len(commands) - 1
		switch fence := fenced.FindStringSubmatch(line); {
		case fence != nil && within:
			within = false
		case fence != nil:
			within, language = true, fence[1]
			if slices.Contains(shells, language) {
				commands = append(commands, command{block: at})
			}
		case !within:
			if headed.MatchString(line) {
				at.heading = strings.TrimSpace(line)
			}
		case language == "console" && strings.HasPrefix(line, "$ "):
			commands = append(commands, command{block: at, text: line[2:], shown: "\n"})
		case language == "console" && strings.HasSuffix(commands[last].text, continue_):
			commands[last].text += line
		case language == "console":
			commands[last].shown += line
		case slices.Contains(shells, language):
			commands[last].text += line
		}
	}
	return slices.DeleteFunc(commands, func(c command) bool { return strings.HasPrefix(c.text, "#!") }) // a file
}
