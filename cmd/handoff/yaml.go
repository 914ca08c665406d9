package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// appendYAML appends a JSON value as YAML. Numbers keep the digits that they
// have, and a text is quoted as in JSON unless nothing can take it for anything
// else.
func appendYAML(dst []byte, value jsontext.Value) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	dst, err := appendYAMLValue(dst, dec, 0, true)
	if err != nil {
		return dst, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return dst, errors.New("something follows the JSON value")
	}
	return dst, nil
}

// appendYAMLValue appends the next value of dec, which stands behind a key or a
// dash unless it is at the start of a line. It ends the line.
func appendYAMLValue(dst []byte, dec *jsontext.Decoder, indent int, atStart bool) ([]byte, error) {
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		value, err := dec.ReadValue()
		if err != nil {
			return dst, err
		}
		return append(appendYAMLScalar(dst, value), '\n'), nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return dst, err
	}
	end := jsontext.Kind('}')
	if kind == '[' {
		end = ']'
	}
	if dec.PeekKind() == end {
		_, err := dec.ReadToken()
		return append(dst, string(kind)+string(end)+"\n"...), err
	}
	for dec.PeekKind() != end {
		if !atStart {
			if dst[len(dst)-1] == ' ' { // behind a key
				dst[len(dst)-1] = '\n'
			}
			dst = append(dst, strings.Repeat(" ", indent)...)
		}
		atStart = false
		var err error
		if kind == '[' {
			dst = append(dst, "- "...)
			dst, err = appendYAMLValue(dst, dec, indent+2, true)
		} else {
			var key jsontext.Value
			if key, err = dec.ReadValue(); err != nil {
				return dst, err
			}
			dst = append(appendYAMLScalar(dst, key), ": "...)
			dst, err = appendYAMLValue(dst, dec, indent+2, false)
		}
		if err != nil {
			return dst, err
		}
	}
	_, err := dec.ReadToken()
	return dst, err
}

// plainYAML are the texts that need no quotes.
var plainYAML = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./+-]*( [A-Za-z0-9_./+-]+)*$`)

func appendYAMLScalar(dst []byte, value jsontext.Value) []byte {
	if value.Kind() != '"' {
		return append(dst, value...)
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return append(dst, value...)
	}
	if plainYAML.Match(text) && !reservedYAML(string(text)) {
		return append(dst, text...)
	}
	// The escapes of JSON are those of YAML, except for pairs of surrogates,
	// which are characters by now.
	quoted, _ := jsontext.AppendQuote(nil, text)
	for _, r := range string(quoted) {
		if r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
			dst = fmt.Appendf(dst, `\u%04x`, r)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// reservedYAML reports whether a version of YAML reads the text as something
// else than a text.
func reservedYAML(text string) bool {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
