package backend

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown bounds, in bytes, what an error repeats of what an agent wrote.
const maxShown = 300

// escapeSequence matches what programs write to colour a terminal.
var escapeSequence = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// plainText returns a text as one line without control characters, for people.
func plainText(s string) string {
	const longest = 64 << 10 // enough for any line that is shown
	if len(s) > longest {
		s = s[:longest]
	}
	s = escapeSequence.ReplaceAllString(s, "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return shorten(strings.TrimSpace(s), maxShown)
}

// shorten cuts a text to that many bytes, at a character, and marks the cut.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
