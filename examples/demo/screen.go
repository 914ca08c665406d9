package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// screen is where the story is told. On a terminal it uses bold type and shows
// progress in place.
type screen struct {
	w        io.Writer
	terminal bool
	steps    int
	began    time.Time // of the step
	width    int       // of the progress on the last line
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return s
}

func (s *screen) bold(text string) string {
	if !s.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func (s *screen) title(text string) { s.print("%s\n", s.bold(text)) }

// step begins a numbered step.
func (s *screen) step(format string, args ...any) {
	s.steps++
	s.began = time.Now()
	s.print("\n%s\n", s.bold(fmt.Sprintf("%d  "+format, append([]any{s.steps}, args...)...)))
}

// say adds a line to the step.
func (s *screen) say(format string, args ...any) { s.print("   "+format+"\n", args...) }

const maxProgress = 76 // columns

func (s *screen) progress(format string, args ...any) {
	if !s.terminal {
		return
	}
	line := fmt.Sprintf("   "+format, args...)
	line = line[:min(len(line), maxProgress)]
	s.print("\r%-*s", s.width, line)
	s.width = len(line)
}

func (s *screen) clearProgress() {
	if s.width > 0 {
		s.print("\r%*s\r", s.width, "")
		s.width = 0
	}
}

// event shows an event of the task, with the time since the step began.
func (s *screen) event(e *a2a.StreamResponse) {
	at := fmt.Sprintf("%5.2f s", time.Since(s.began).Seconds())
	switch {
	case e.Task != nil:
		s.status(at, e.Task.Status)
	case e.StatusUpdate != nil:
		s.status(at, e.StatusUpdate.Status)
	case e.ArtifactUpdate != nil:
		a := e.ArtifactUpdate.Artifact
		s.say("%s  %-14s  %s", at, "artifact", a.Name)
		for _, p := range a.Parts {
			s.say("%*s  %s", len(at), "", content(p))
		}
	}
}

func (s *screen) status(at string, status a2a.TaskStatus) {
	text := ""
	if status.Message != nil {
		text = status.Message.Text()
	}
	s.say("%s", strings.TrimRight(fmt.Sprintf("%s  %-14s  %s", at, stateName(status.State), text), " "))
}

// stateName is the name of a state without what all of them begin with.
func stateName(state a2a.TaskState) string { return strings.TrimPrefix(state.String(), "TASK_STATE_") }

func content(p a2a.Part) string {
	if p.Kind == a2a.PartData {
		return string(p.Data)
	}
	return p.Text
}

// failed says what went wrong.
func (s *screen) failed(err error) {
	s.clearProgress()
	s.print("\n%s\n   %s\n", s.bold("The demo failed:"), strings.ReplaceAll(err.Error(), "\n", "\n   "))
}

// goOn says what to do next. The commands work as they stand in the checkout.
func (s *screen) goOn() {
	s.print("\n%s\n", s.bold("Go on"))
	for _, line := range []string{
		"bin/handoff serve -c examples/delivery/handoff.yaml &      # the same agent, to play with",
		"bin/handoff card get http://127.0.0.1:8080/agents/delivery/",
		`bin/handoff send http://127.0.0.1:8080/agents/delivery/ "Book a slot for PO-2026-0185" --stream`,
	} {
		s.say("%s", line)
	}
	s.print("\n   More agents that run: examples/README.md. How to write your own: docs/agents.md.\n")
}

func (s *screen) print(format string, args ...any) { _, _ = fmt.Fprintf(s.w, format, args...) }
