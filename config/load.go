package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile bounds a configuration file, in bytes.
const MaxFile = 4 << 20

// Bounds of what the parser gets.
const (
	maxNesting  = 64        // values in each other
	maxSiblings = 10_000    // keys of a mapping, elements of a list
	maxTokens   = 300_000   // words and signs
	maxLine     = 128 << 10 // bytes of a line
	maxEmpty    = 1_000     // empty lines in a row
)

var (
	tooDeep = fmt.Sprintf("nests deeper than %d", maxNesting)
	tooMany = fmt.Sprintf("has more than %d keys or elements in one place", maxSiblings)
)

// Override is a value that a flag sets over the file's.
type Override struct {
	Path  string // such as listen or limits.body
	Value string // as it is written in the file, without quotes; commas separate the elements of a list
	Flag  string // what set it, such as --listen
}

// Load reads a file, applies overrides and checks the result. The error of a
// file that is wrong is an *Error with everything that is wrong with it.
func Load(path string, overrides ...Override) (*Config, error) {
	return load(path, overrides, nil)
}

// LoadAddresses reads as much of a configuration as says where its agents are: it
// resolves no variable of the environment for anything else, and looks at nothing else.
// Where a variable is missing, what it is for has no value.
func LoadAddresses(path string) (*Config, error) {
	return load(path, nil, isAddress)
}

// load reads as much of a file as is needed; nil: all.
func load(path string, overrides []Override, needed func(path string) bool) (*Config, error) {
	data, err := readBounded(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find directory of %s: %w", path, err)
	}
	return parse(data, path, dir, os.LookupEnv, overrides, needed)
}

// addressPath are the paths of what says where agents are.
var addressPath = regexp.MustCompile(`^(listen|public_url|tls|agents\.[^.]+(\.paths\b.*)?)$`)

func isAddress(path string) bool { return addressPath.MatchString(path) }

// Overrides returns the values that flags set when the configuration was
// loaded, for loading it again.
func (c *Config) Overrides() []Override {
	if c.source == nil {
		return nil
	}
	return c.source.overrides
}

// Parse reads a configuration from bytes. Relative paths in it begin at dir.
func Parse(data []byte, dir string) (*Config, error) {
	return parse(data, "", dir, os.LookupEnv, nil, nil)
}

func parse(data []byte, name, dir string, env func(string) (string, bool), overrides []Override, needed func(path string) bool) (*Config, error) {
	c := Default()
	c.source = newSource(name, dir)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	c.source.overrides = overrides
	c.source.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	d := &decoder{
		source: c.source, env: env,
		anchors: map[string]ast.Node{}, open: map[string]bool{}, expanded: map[ast.Node]bool{},
	}
	body, problem := parseYAML(data)
	if problem != nil {
		return nil, c.errorOf([]Problem{*problem})
	}
	if body != nil {
		ast.Walk(visit(func(n ast.Node) {
			if anchor, ok := n.(*ast.AnchorNode); ok {
				d.anchors[nameOf(anchor.Name)] = anchor.Value
			}
		}), body)
		d.decode(body, reflect.ValueOf(c).Elem(), "", "")
	}
	for _, o := range overrides {
		if err := c.set(o); err != nil {
			d.problems = append(d.problems, Problem{Path: o.Flag, Message: err.Error()})
		}
	}
	problems := d.problems
	for _, p := range c.problems() {
		if !covered(p.Path, d.problems) {
			problems = append(problems, p)
		}
	}
	if needed != nil && slices.ContainsFunc(problems, func(p Problem) bool { return p.unset }) {
		// What else is wrong may come of what is missing.
		problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Path != "" && !needed(p.Path) })
	}
	if len(problems) > 0 {
		return nil, c.errorOf(problems)
	}
	return c, nil
}

// covered reports whether a path, or one around it or in it, has a problem
// already, so that a value that could not be read is not reported again as one
// that is missing.
func covered(path string, problems []Problem) bool {
	for _, p := range problems {
		if p.Path == path || p.Path != "" && (strings.HasPrefix(path, p.Path+".") || strings.HasPrefix(path, p.Path+"[")) {
			return true
		}
	}
	return false
}

func (c *Config) errorOf(problems []Problem) *Error {
	return &Error{
		File: c.source.name, Problems: sortProblems(problems),
		lines: c.source.lines, secrets: c.source.secrets,
	}
}

// parseYAML returns the body of the one document of a file, or nil for an empty
// one.
func parseYAML(data []byte) (body ast.Node, problem *Problem) {
	if len(data) > MaxFile {
		return nil, &Problem{Message: fmt.Sprintf("has more than %d bytes", MaxFile)}
	}
	if !utf8.Valid(data) {
		line, column := invalidUTF8(data)
		return nil, &Problem{Line: line, Column: column, Message: "is not UTF-8"}
	}
	if line, message := unreadable(data); line > 0 {
		return nil, &Problem{Line: line, Column: 1, Message: message}
	}
	// The parser is not ours; what it cannot stand is an error of the file.
	defer func() {
		if r := recover(); r != nil {
			body, problem = nil, &Problem{Message: "is not YAML that can be read"}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t, what := excessive(tokens); t != nil {
		return nil, &Problem{Line: t.Position.Line, Column: t.Position.Column, Message: what}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		p := &Problem{Message: "is not YAML: " + firstLine(err.Error())}
		if e, ok := errors.AsType[yaml.Error](err); ok {
			p.Message = "is not YAML: " + e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				p.Line, p.Column = t.Position.Line, t.Position.Column
				if m := secretKey.FindStringIndex(lineAt(data, p.Line)); m != nil {
					p.cut = m[1] + 1
				}
			}
		}
		return nil, p
	}
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if body != nil {
			p := &Problem{Message: "has more than one document"}
			p.Line, p.Column = position(document.Body)
			return nil, p
		}
		body = document.Body
	}
	if _, comment := body.(*ast.CommentGroupNode); comment {
		body = nil
	}
	return body, nil
}

// excessive returns the token at which a file has more than the parser takes in
// good time, and what it has too much of: it takes stack with the depth, and
// time with the square of the length of a list or mapping.
func excessive(tokens token.Tokens) (*token.Token, string) {
	if len(tokens) > maxTokens {
		return tokens[maxTokens], fmt.Sprintf("has more than %d words and signs", maxTokens)
	}
	type block struct{ column, lines int }
	var blocks []block // the block mappings and lists that are open
	var flows []int    // the commas of the flow ones
	run, line := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flows = append(flows, 0)
		case token.MappingEndType, token.SequenceEndType:
			flows = flows[:max(0, len(flows)-1)]
		}
		switch t.Type {
		case token.CollectEntryType, token.MappingKeyType, token.SequenceEntryType:
			if len(flows) > 0 {
				if flows[len(flows)-1]++; flows[len(flows)-1] > maxSiblings {
					return t, tooMany
				}
			}
		}
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			// In a row they nest: - - - or ? ? ? or &a &b or !!x !!y.
			if t.Position.Line != line {
				run = 0
			}
			if run++; run > maxNesting {
				return t, tooDeep
			}
		}
		if t.Position.Line != line && len(flows) == 0 && t.Type != token.CommentType {
			line = t.Position.Line
			for len(blocks) > 0 && blocks[len(blocks)-1].column > t.Position.Column {
				blocks = blocks[:len(blocks)-1]
			}
			if len(blocks) == 0 || blocks[len(blocks)-1].column < t.Position.Column {
				blocks = append(blocks, block{column: t.Position.Column})
			}
			last := &blocks[len(blocks)-1]
			if last.lines++; last.lines > maxSiblings {
				return t, tooMany
			}
		}
		if len(flows)+len(blocks) > maxNesting {
			return t, tooDeep
		}
	}
	return nil, ""
}

// unreadable returns the number of the first line that the lexer would take too
// long over, and why, or 0. Its time grows with the square of the length of a
// line, and faster with that of a row of empty lines.
func unreadable(data []byte) (line int, message string) {
	empty := 0
	for text := range bytes.Lines(data) {
		line++
		if len(text) > maxLine {
			return line, fmt.Sprintf("has more than %d bytes in a line", maxLine)
		}
		if empty++; len(bytes.TrimSpace(text)) > 0 {
			empty = 0
		}
		if empty > maxEmpty {
			return line, fmt.Sprintf("has more than %d empty lines in a row", maxEmpty)
		}
	}
	return 0, ""
}

func invalidUTF8(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
		data = data[size:]
	}
	return line, column
}

func lineAt(data []byte, line int) string {
	for range line - 1 {
		_, after, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return ""
		}
		data = after
	}
	return firstLine(string(data))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Set sets the value at a path, as a flag does, and checks the result. The
// value is written as in the file, without quotes; commas separate the elements
// of a list.
func (c *Config) Set(path, value, flag string) error {
	if c.source == nil {
		c.source = newSource("", "")
	}
	if err := c.set(Override{Path: path, Value: value, Flag: flag}); err != nil {
		return fmt.Errorf("set %s: %w", cmpFlag(flag, path), err)
	}
	return c.Validate()
}

func cmpFlag(flag, path string) string {
	if flag != "" {
		return flag
	}
	return path
}

func (c *Config) set(o Override) error {
	v, tag, err := c.find(o.Path)
	if err != nil {
		return err
	}
	value := o.Value
	fresh := reflect.New(v.Type()).Elem()
	if v.Type() == secretType {
		d := &decoder{source: newSource("", c.source.dir), env: os.LookupEnv}
		d.secret(&ast.StringNode{BaseNode: &ast.BaseNode{}, Value: value, Token: token.String(value, value, &token.Position{})}, fresh, o.Path)
		if len(d.problems) > 0 {
			return errors.New(d.problems[0].Message)
		}
	} else if err := setText(fresh, value); err != nil {
		return fmt.Errorf("%q %w", shorten(value), err)
	}
	if enum := tag.Get("enum"); enum != "" && fresh.Kind() == reflect.String {
		if !contains(enum, value) {
			return fmt.Errorf("%q is not one of %s", shorten(value), strings.ReplaceAll(enum, ",", ", "))
		}
	}
	if problem := checkBounds(fresh, tag); problem != "" {
		return fmt.Errorf("%q %s", shorten(value), problem)
	}
	v.Set(fresh)
	c.source.flags[o.Path] = o.Flag
	return nil
}

func contains(list, value string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one == value {
			return true
		}
	}
	return false
}

// find returns the field at a path, such as agents.delivery.limits.total.
func (c *Config) find(path string) (reflect.Value, reflect.StructTag, error) {
	v, tag := reflect.ValueOf(c).Elem(), reflect.StructTag("")
	for key := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, "", fmt.Errorf("there is no %s", path)
			}
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Struct:
			found := false
			for _, f := range fieldsOf(v.Type()) {
				if f.key == key {
					v, tag, found = v.Field(f.index), f.tag, true
					break
				}
			}
			if !found {
				return v, "", fmt.Errorf("there is no %s", path)
			}
		case reflect.Map:
			if v = v.MapIndex(reflect.ValueOf(key)); !v.IsValid() || v.Kind() != reflect.Pointer {
				return v, "", fmt.Errorf("there is no %s", path)
			}
		default:
			return v, "", fmt.Errorf("there is no %s", path)
		}
	}
	return v, tag, nil
}
