package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen is where the story is told, in lines of four columns: when, who, what, and
// what was said.
type screen struct {
	w     io.Writer
	color bool
	width int   // of a line
	err   error // the first of w
}

// Columns of a line.
const (
	whoWidth  = 11
	whatWidth = 14
	textAt    = 2 + 7 + 2 + whoWidth + 1 + whatWidth + 1
	nameWidth = 21
)

// Widths that are used, whatever the terminal has.
const (
	narrowest = 80
	widest    = 110
)

func newScreen(o *Options) *screen {
	return &screen{w: o.Out, color: o.Color, width: min(max(o.Width, narrowest), widest)}
}

// Codes of a terminal (ECMA-48 SGR).
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s *screen) style(code, text string) string {
	if !s.color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) print(text string) {
	if _, err := io.WriteString(s.w, text); s.err == nil {
		s.err = err
	}
}

func (s *screen) title(text string) { s.print(s.style(bold, text) + "\n") }

// section begins a part of the story, and says in a few words what it is about.
func (s *screen) section(title, about string) {
	s.print("\n" + s.style(bold, title) + "\n")
	for _, line := range wrap(about, s.width-3) {
		s.print("   " + s.style(faint, line) + "\n")
	}
}

// say prints a paragraph.
func (s *screen) say(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), s.width-3) {
		s.print("   " + line + "\n")
	}
}

// pair prints a name and what is to be said of it.
func (s *screen) pair(name, format string, args ...any) {
	for i, line := range wrap(fmt.Sprintf(format, args...), s.width-nameWidth-4) {
		if i > 0 {
			name = ""
		}
		s.row(name, line)
	}
}

// row prints a name and a text that is laid out already.
func (s *screen) row(name, text string) {
	if name = pad(name, nameWidth); strings.TrimSpace(name) != "" {
		name = s.style(bold, name)
	}
	s.print("   " + name + " " + text + "\n")
}

// link prints a URL, so that a terminal does not break it.
func (s *screen) link(url string) {
	s.print(strings.Repeat(" ", max(0, min(3, s.width-len(url)))) + url + "\n")
}

// line is something that happened.
type line struct {
	at    time.Time
	who   string
	color string // of who
	what  string
	text  string
	after time.Duration // that was waited for it; 0: it was not waited for
	part  part          // of the story that begins with it
}

// tell prints a line, with the time since the story began.
func (s *screen) tell(since time.Time, l *line) {
	text := l.text
	switch {
	case l.after > 0 && text == "":
		text = "after " + span(l.after)
	case l.after > 0:
		text += " (after " + span(l.after) + ")"
	}
	for i, piece := range wrap(text, s.width-textAt) {
		if i > 0 {
			s.print(strings.Repeat(" ", textAt) + piece + "\n")
			continue
		}
		at := s.style(faint, fmt.Sprintf("  %7s", span(max(0, l.at.Sub(since)))))
		s.print(strings.TrimRight(at+"  "+s.style(l.color, pad(l.who, whoWidth))+" "+pad(l.what, whatWidth)+" "+piece, " ") + "\n")
	}
}

// span is a length of time as people read it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

func pad(text string, to int) string { return fmt.Sprintf("%-*s", to, text) }

// wrap breaks a text into lines that are not longer than most, where words allow it.
// There is always one.
func wrap(text string, most int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		switch last := &lines[len(lines)-1]; {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= most:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
