package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// source is where a configuration came from: its file, the place of every key,
// and what was set after.
type source struct {
	name       string // as given to Load
	dir        string
	lines      []string
	places     map[string]place
	references map[string][]written // to the environment, by the path of the key
	flags      map[string]string    // the flag that set a path
	secrets    []string
	overrides  []Override // as given to Load
}

// written is a reference in the file and what it stood for.
type written struct{ reference, value string }

// wrote notes that a part of a value came from the environment, so that it is
// shown as it is written: a token in a URL, say.
func (s *source) wrote(path, reference, value string) {
	if value == "" {
		return
	}
	if s.references == nil {
		s.references = map[string][]written{}
	}
	path, _, _ = strings.Cut(path, "[")
	s.references[path] = append(s.references[path], written{reference, value})
}

// asWritten returns the text of a value with the references that the file has.
func (s *source) asWritten(path, text string) string {
	path, _, _ = strings.Cut(path, "[")
	for _, w := range s.references[path] {
		if text == w.value {
			break // all of it: a setting, and secrets have keys of their own
		}
		text = strings.ReplaceAll(text, w.value, w.reference)
	}
	return text
}

// place is where a key stands.
type place struct {
	line, column           int // of the key, or of the element of a list
	valueLine, valueColumn int // of a scalar value, else zeros
	env                    []string
}

func newSource(name, dir string) *source {
	return &source{name: name, dir: dir, places: map[string]place{}, flags: map[string]string{}}
}

// record notes where a key and its value stand.
func (s *source) record(path string, key, value ast.Node) {
	p := s.places[path]
	p.line, p.column = position(key)
	if _, scalar := value.(ast.ScalarNode); scalar && value.Type() != ast.NullType {
		p.valueLine, p.valueColumn = position(value)
	}
	s.places[path] = p
}

// fromEnvironment notes that the value of a path came from a variable.
func (s *source) fromEnvironment(path, name string) {
	p := s.places[path]
	if !slices.Contains(p.env, name) {
		p.env = append(p.env, name)
	}
	s.places[path] = p
}

// has reports whether the file has a key.
func (s *source) has(path string) bool {
	_, ok := s.places[path]
	return ok
}

// place returns where a path stands: its value if that is a scalar, else its
// key, else the nearest key around it; zeros for none.
func (s *source) place(path string) (line, column int) {
	for first := true; path != ""; path, first = parent(path), false {
		p, ok := s.places[path]
		switch {
		case !ok:
		case first && p.valueLine > 0:
			return p.valueLine, p.valueColumn
		case p.line > 0:
			return p.line, p.column
		}
	}
	return 0, 0
}

// parent returns the path around a path.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		if i := strings.LastIndexByte(path, '['); i >= 0 {
			return path[:i]
		}
	}
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// OriginKind is the kind of place where a value comes from.
type OriginKind string

// The kinds of places where a value comes from.
const (
	OriginDefault     OriginKind = "default"
	OriginFile        OriginKind = "file"
	OriginEnvironment OriginKind = "environment" // the file refers to a variable
	OriginFlag        OriginKind = "flag"
)

// Origin is where a value comes from.
type Origin struct {
	Kind OriginKind
	File string // of OriginFile and OriginEnvironment
	Line int    // in that file
	Name string // of the flag, or of the variables
}

// String returns the origin for people: handoff.yaml:12, --listen,
// $PORT (handoff.yaml:3) or default.
func (o Origin) String() string {
	switch o.Kind {
	case OriginFile:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case OriginEnvironment:
		return fmt.Sprintf("%s (%s:%d)", o.Name, o.File, o.Line)
	case OriginFlag:
		return o.Name
	default:
		return string(OriginDefault)
	}
}

// Origin returns where the value of a path such as agents.delivery.name comes
// from.
func (c *Config) Origin(path string) Origin {
	if c.source == nil {
		return Origin{Kind: OriginDefault}
	}
	if flag, ok := c.source.flags[path]; ok {
		return Origin{Kind: OriginFlag, Name: flag}
	}
	p, ok := c.source.places[path]
	switch {
	case !ok:
		return Origin{Kind: OriginDefault}
	case len(p.env) > 0:
		return Origin{Kind: OriginEnvironment, File: c.source.name, Line: p.line, Name: "$" + strings.Join(p.env, ", $")}
	default:
		return Origin{Kind: OriginFile, File: c.source.name, Line: p.line}
	}
}
