package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// format is a format of the output: that of the -o flag.
type format string

// The formats.
const (
	formatText format = "text"
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// formats are the formats in the order of the help.
var formats = []format{formatText, formatJSON, formatYAML}

// String returns the name of the format.
func (f *format) String() string { return string(*f) }

// Set takes the name of a format.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, format(text)) {
		return fmt.Errorf("%q is not text, json or yaml", text)
	}
	*f = format(text)
	return nil
}

// Type is for the help.
func (f *format) Type() string { return "format" }

// appender is an object of the protocol.
type appender interface{ AppendJSON(dst []byte) []byte }

// writeObject writes an object of the protocol as JSON or YAML. Streamed, it is
// one of many: a line of JSON, or a document of YAML.
func (a *app) writeObject(v appender, streamed bool) error {
	return a.writeDocument(a.output, v.AppendJSON(nil), streamed)
}

// writeDocument writes one JSON value in that format.
func (a *app) writeDocument(f format, value jsontext.Value, streamed bool) error {
	if a.isTerminal {
		value = harmless(value)
	}
	var out []byte
	switch {
	case f == formatYAML:
		if streamed {
			out = append(out, "---\n"...)
		}
		var err error
		if out, err = appendYAML(out, value); err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
	case streamed:
		if err := value.Compact(); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		out = append(value, '\n')
	default:
		if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		out = append(value, '\n')
	}
	return a.write(out)
}

// harmless writes the characters that can steer a terminal or turn its text
// around as escapes. They can only stand in strings, where that is the same.
func harmless(value jsontext.Value) jsontext.Value {
	steers := func(r rune) bool {
		return r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	if !bytes.ContainsFunc(value, steers) {
		return value
	}
	out := make([]byte, 0, len(value)+16)
	for _, r := range string(value) {
		if steers(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func (a *app) write(out []byte) error {
	if _, err := a.stdout.Write(out); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// printer writes the fields and blocks of text output (a2a-cli §11.2). It keeps
// the first error.
type printer struct {
	w       io.Writer
	err     error
	atBlank bool // the last line was blank
}

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
		p.atBlank = text == "\n"
	}
}

// field writes one line. An empty value writes nothing.
func (p *printer) field(label, value string) {
	if value != "" {
		p.write(oneLine(label) + ": " + oneLine(value) + "\n")
	}
}

// block writes a label, content of several lines and the blank line that closes
// it. An empty line within has a space, so that only the last one is blank.
func (p *printer) block(label, content string) {
	p.write(label + ":\n")
	content = strings.TrimRight(strings.ReplaceAll(content, "\r\n", "\n"), "\n")
	for line := range strings.SplitSeq(content, "\n") {
		if line == "" {
			line = " "
		}
		p.write(visible(line) + "\n")
	}
	p.write("\n")
}

// blank separates two records.
func (p *printer) blank() {
	if !p.atBlank {
		p.write("\n")
	}
}

// oneLine makes a text safe for a line: it has no control characters.
func oneLine(text string) string {
	return visible(strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\t', '\u2028', '\u2029':
			return ' '
		}
		return r
	}, text))
}

// visible replaces what would control a terminal, or reorder what people read,
// by an escape that can be seen. Tabs stay.
func visible(text string) string {
	if !strings.ContainsFunc(text, controls) && strings.ToValidUTF8(text, "") == text {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if !controls(r) {
			b.WriteRune(r)
		} else if r < 0x100 {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// controls reports whether a character does something instead of being seen.
func controls(r rune) bool {
	if r == '\t' {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f'
}
