package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// liveSink shows a task to a person at a terminal: what state it came into and
// when, and the text of artifacts as it arrives.
type liveSink struct {
	*app
	w       io.Writer
	start   time.Time
	colored bool
	err     error

	state   a2a.TaskState
	said    string         // id of the message that was shown last
	written map[string]int // bytes of text shown of each artifact
	current string         // the artifact whose text is being written
	midLine bool
}

func newLiveSink(a *app) *liveSink {
	noColor, _ := a.lookupEnv("NO_COLOR")
	term, _ := a.lookupEnv("TERM")
	return &liveSink{
		app: a, w: a.stdout, start: a.now(), written: map[string]int{},
		colored: noColor == "" && term != "dumb",
	}
}

func (l *liveSink) print(text string) {
	if l.err == nil && text != "" {
		_, l.err = io.WriteString(l.w, text)
		l.midLine = !strings.HasSuffix(text, "\n")
	}
}

// endLine ends a line that text was written on.
func (l *liveSink) endLine() {
	if l.midLine {
		l.print("\n")
	}
}

// line begins a new line if need be and writes a whole one.
func (l *liveSink) line(text string) {
	l.endLine()
	l.current = ""
	l.print(text + "\n")
}

// event shows an event.
func (l *liveSink) event(e *a2a.StreamResponse) error {
	switch {
	case e.Task != nil:
		l.status(&e.Task.Status)
		for i := range e.Task.Artifacts {
			a := &e.Task.Artifacts[i]
			l.artifact(a.ArtifactID, a, true)
		}
	case e.StatusUpdate != nil:
		l.status(&e.StatusUpdate.Status)
	case e.ArtifactUpdate != nil:
		u := e.ArtifactUpdate
		if !u.Append {
			delete(l.written, u.Artifact.ArtifactID)
		}
		l.artifact(u.Artifact.ArtifactID, &u.Artifact, false)
	case e.Message != nil:
		for i := range e.Message.Parts {
			l.part(&e.Message.Parts[i])
		}
	}
	return l.err
}

// status shows a state when it is a new one or has something to say.
func (l *liveSink) status(s *a2a.TaskStatus) {
	text, id := "", ""
	if s.Message != nil {
		text, id = s.Message.Text(), s.Message.MessageID
	}
	if s.State == l.state && (text == "" || id == l.said) {
		return
	}
	l.state, l.said = s.State, id
	now := l.now()
	head := fmt.Sprintf("%s %7s  %s", now.In(l.location).Format("15:04:05"),
		now.Sub(l.start).Round(100*time.Millisecond), l.paint(s.State))
	if text == "" {
		l.line(head)
		return
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	l.line(head + "  " + oneLine(lines[0]))
	for _, more := range lines[1:] {
		l.line("  " + visible(more))
	}
}

// paint colors a state.
func (l *liveSink) paint(s a2a.TaskState) string {
	name := stateText(s)
	if !l.colored {
		return name
	}
	color := "36" // under way
	switch {
	case s == a2a.StateCompleted:
		color = "32"
	case s.Terminal():
		color = "31"
	case s.Interrupted():
		color = "33"
	}
	return "\x1b[" + color + "m" + name + "\x1b[0m"
}

// artifact shows what is new of an artifact. A snapshot repeats what was shown
// before.
func (l *liveSink) artifact(id string, a *a2a.Artifact, snapshot bool) {
	seen, known := l.written[id]
	if !known {
		l.written[id] = 0
		if a.Name != "" {
			l.line("[" + oneLine(a.Name) + "]")
		}
	}
	skip := 0
	if snapshot {
		skip = seen
	}
	for i := range a.Parts {
		p := &a.Parts[i]
		if p.Kind != a2a.PartText {
			if !snapshot || !known {
				l.part(p)
			}
			continue
		}
		text := p.Text
		if skip >= len(text) {
			skip -= len(text)
			continue
		}
		text, skip = text[skip:], 0
		if l.current != id {
			l.endLine()
		}
		l.current = id
		l.print(visibleLines(text))
		l.written[id] += len(text)
	}
}

// part shows a part that is complete in itself.
func (l *liveSink) part(p *a2a.Part) {
	switch p.Kind {
	case a2a.PartText:
		l.line(visibleLines(strings.TrimRight(p.Text, "\n")))
	case a2a.PartData:
		l.line(visibleLines(indented(p.Data)))
	case a2a.PartRaw:
		l.line(fmt.Sprintf("File: %s (%s, %s)", oneLine(orNone(p.Filename)), oneLine(orNone(p.MediaType)), plural(len(p.Raw), "byte")))
	case a2a.PartURL:
		l.line(oneLine(fmt.Sprintf("File: %s (%s) at %s", orNone(p.Filename), orNone(p.MediaType), p.URL)))
	}
}

// visibleLines is visible for several lines.
func visibleLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// end says how long it took and what the next command needs.
func (l *liveSink) end(seen *client.Accumulator) error {
	l.endLine()
	p := &printer{w: l.w, err: l.err}
	if t := seen.Task; t != nil {
		p.field("Task ID", t.ID)
		p.field("Context ID", t.ContextID)
		p.field("State", stateText(t.Status.State))
	} else if m := seen.Message; m != nil {
		p.field("Message ID", m.MessageID)
		p.field("Context ID", m.ContextID)
	}
	p.field("Elapsed", l.now().Sub(l.start).Round(100*time.Millisecond).String())
	return p.err
}
