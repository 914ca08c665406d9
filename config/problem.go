package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Line    int    // from 1; 0 when the problem has no place in the file
	Column  int    // from 1, in characters
	Path    string // such as agents.delivery.skills[0].tags, or --listen for a flag; "" is the file
	Message string
	Hint    string // what to do; may be empty

	// unset says that a variable of the environment is missing, and nothing else wrong.
	unset bool
	// cut is the column after which the line is not shown.
	cut int
}

// Error is everything that is wrong with a configuration, in the order of the
// file.
type Error struct {
	File     string
	Problems []Problem

	lines   []string
	secrets []string // texts that are not shown
}

// maxShown bounds the problems that Error prints.
const maxShown = 50

// Error renders the problems like a compiler, each with its line.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\n… and %d more", len(e.Problems)-maxShown)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		e.write(&b, p)
	}
	return b.String()
}

func (e *Error) write(b *strings.Builder, p Problem) {
	name := e.File
	if name == "" {
		name = "configuration"
	}
	if !strings.HasPrefix(p.Path, "--") { // a flag is not of the file
		b.WriteString(name)
		if p.Line > 0 {
			fmt.Fprintf(b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	if line, caret, ok := e.excerpt(p); ok {
		fmt.Fprintf(b, "\n%5d | %s\n      | %s", p.Line, line, caret)
	}
}

// maxExcerpt is the longest part of a line that is shown, in characters.
const maxExcerpt = 120

// secretKey recognises a line that may hold a secret, for the errors that are
// found before the structure of the file is known.
var secretKey = regexp.MustCompile(`(?i)(key|secret_keys|token|secret|password|bearer|authorization|credentials)["']?\s*:`)

// addressKey recognises a line with the address of a store or a bus, which may
// hold a password in any form, and anyUserinfo what may be one on other lines.
var (
	addressKey  = regexp.MustCompile(`(?i)^(.*?\b(?:store|bus|bus_credentials)["']?\s*:\s*["']?)(.*)$`)
	anyUserinfo = regexp.MustCompile(`(://).*@`)
)

// excerpt returns the line of a problem, without secrets and control
// characters, and a line with a mark under the problem's column.
func (e *Error) excerpt(p Problem) (line, caret string, ok bool) {
	if p.Line < 1 || p.Line > len(e.lines) {
		return "", "", false
	}
	runes := []rune(e.lines[p.Line-1])
	if p.cut > 0 && p.cut-1 < len(runes) {
		runes = append(runes[:p.cut-1:p.cut-1], ' ', '…')
	}
	text := string(runes)
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	if m := addressKey.FindStringSubmatch(text); m != nil && m[2] != "" && !strings.HasPrefix(m[2], "sqlite:") && !strings.HasPrefix(m[2], "file:") {
		text = m[1] + "…"
	}
	text = anyUserinfo.ReplaceAllString(Conceal(text), "${1}"+hidden+"@")
	runes = []rune(text)
	if len(runes) > maxExcerpt {
		runes = append(runes[:maxExcerpt:maxExcerpt], '…')
	}
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = ' '
		}
	}
	column := min(max(p.Column, 1), len(runes)+1)
	return string(runes), strings.Repeat(" ", column-1) + "^", true
}

// sortProblems puts problems in the order of the file and removes those that
// say the same twice.
func sortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(problems, func(a, b Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Path == b.Path && a.Message == b.Message
	})
}

// FieldError is an error about one key below the place at which it is
// reported: what a Validate method returns to name the key.
type FieldError struct {
	Path string // relative, such as do[0].sleep
	Err  error
}

// Error returns the path and the error.
func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error without the path.
func (e *FieldError) Unwrap() error { return e.Err }

// closest returns the name that a misspelt one probably means, or "".
func closest(name string, names []string) string {
	best, bestDistance := "", max(1, min(3, len(name)/3))+1
	for _, candidate := range names {
		if d := distance(strings.ToLower(name), candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours that make b out of a.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := previous[j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
