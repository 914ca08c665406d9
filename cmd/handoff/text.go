package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// stateText returns the short name of a state, such as INPUT_REQUIRED (a2a-cli
// §9.1).
func stateText(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// parseState reads a state in its short or long name, in any case, with - for
// _.
func parseState(text string) (a2a.TaskState, bool) {
	name := strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
	return a2a.ParseTaskState("TASK_STATE_" + strings.TrimPrefix(name, "TASK_STATE_"))
}

// view writes objects of the protocol as text.
type view struct {
	*printer
	location *time.Location
	verbose  bool // every part by itself, and all that is known of it
	past     bool // the history too, which agents send unasked
}

func (a *app) newView(verbose bool) *view {
	return &view{printer: &printer{w: a.stdout}, location: a.location, verbose: verbose, past: verbose}
}

// newView returns a view with the detail that the options ask for.
func (s *session) newView() *view {
	v := s.app.newView(s.flags.verbose)
	if history := s.flags.set.Lookup("history"); history != nil && history.Changed {
		v.past = true
	}
	return v
}

// time returns a time in the reader's zone, or "" for none.
func (v *view) time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(v.location).Format(time.RFC3339)
}

// identity writes what the next command needs (a2a-cli §8.2).
func (v *view) identity(taskID, contextID string, state a2a.TaskState) {
	v.field("Task ID", taskID)
	v.field("Context ID", contextID)
	v.field("State", stateText(state))
}

// task writes a task with everything in it.
func (v *view) task(t *a2a.Task) {
	v.identity(t.ID, t.ContextID, t.Status.State)
	v.field("Updated", v.time(t.Status.Timestamp))
	if v.verbose {
		v.metadata("Task Metadata", t.Metadata)
	}
	if t.Status.Message != nil {
		v.message("Message", t.Status.Message)
	}
	for i := range t.Artifacts {
		v.artifact(&t.Artifacts[i])
	}
	if v.past {
		v.history(t.History)
	}
}

// history writes the messages of a task.
func (v *view) history(messages []a2a.Message) {
	for i := range messages {
		v.field("History Message ID", messages[i].MessageID)
		v.message("History "+roleText(messages[i].Role), &messages[i])
	}
}

func roleText(r a2a.Role) string {
	switch r {
	case a2a.RoleUser:
		return "User"
	case a2a.RoleAgent:
		return "Agent"
	}
	return "Unspecified"
}

// reply writes a message that an agent answered instead of a task.
func (v *view) reply(m *a2a.Message) {
	v.field("Message ID", m.MessageID)
	v.field("Task ID", m.TaskID)
	v.field("Context ID", m.ContextID)
	v.message("Message", m)
}

// message writes the content of a message.
func (v *view) message(label string, m *a2a.Message) {
	if v.verbose {
		v.field(label+" ID", m.MessageID)
		v.metadata(label+" Metadata", m.Metadata)
		v.field(label+" Extensions", strings.Join(m.Extensions, ", "))
		v.field(label+" References", strings.Join(m.ReferenceTaskIDs, ", "))
	}
	for i := range m.Parts {
		v.part(label, &m.Parts[i])
	}
}

// artifact writes an artifact. The text of an artifact that came in chunks is
// one text again, unless every part is to be seen.
func (v *view) artifact(a *a2a.Artifact) {
	v.field("Artifact ID", a.ArtifactID)
	v.field("Artifact Name", a.Name)
	if v.verbose {
		v.field("Artifact Description", a.Description)
		v.field("Artifact Extensions", strings.Join(a.Extensions, ", "))
		v.metadata("Artifact Metadata", a.Metadata)
	}
	parts := a.Parts
	if !v.verbose {
		parts = joinTexts(parts)
	}
	for i := range parts {
		v.part("Text", &parts[i])
	}
}

// joinTexts makes one part of texts that follow each other and differ in
// nothing else: the chunks of a streamed artifact.
func joinTexts(parts []a2a.Part) []a2a.Part {
	var joined []a2a.Part
	for i := 0; i < len(parts); {
		p := parts[i]
		i++
		if p.Kind == a2a.PartText {
			var text strings.Builder
			text.WriteString(p.Text)
			for i < len(parts) && parts[i].Kind == a2a.PartText && parts[i].MediaType == p.MediaType && parts[i].Filename == p.Filename {
				text.WriteString(parts[i].Text)
				i++
			}
			p.Text = text.String()
		}
		joined = append(joined, p)
	}
	return joined
}

// part writes a part. The label is that of a text.
func (v *view) part(label string, p *a2a.Part) {
	if v.verbose {
		v.field("Part", p.Kind.String())
		if p.Kind == a2a.PartText || p.Kind == a2a.PartData {
			v.field("Part Media Type", p.MediaType)
			v.field("Part Filename", p.Filename)
		}
		v.metadata("Part Metadata", p.Metadata)
	}
	switch p.Kind {
	case a2a.PartText:
		v.block(label, p.Text)
	case a2a.PartData:
		v.block("Data", indented(p.Data))
	case a2a.PartRaw:
		v.field("File", fmt.Sprintf("%s (%s, %s)", orNone(p.Filename), orNone(p.MediaType), plural(len(p.Raw), "byte")))
	case a2a.PartURL:
		v.field("File", fmt.Sprintf("%s (%s) at %s", orNone(p.Filename), orNone(p.MediaType), p.URL))
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// metadata writes an object that may not be there.
func (v *view) metadata(label string, value a2a.JSON) {
	if len(value) > 0 {
		v.block(label, indented(value))
	}
}

// indented returns JSON for people. What is not JSON is returned as it is.
func indented(value a2a.JSON) string {
	if len(value) == 0 {
		return "null"
	}
	clone := jsontext.Value(append([]byte(nil), value...))
	if err := clone.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(value)
	}
	return string(clone)
}

// event writes one event of a stream.
func (v *view) event(e *a2a.StreamResponse) {
	switch {
	case e.Task != nil:
		v.task(e.Task)
	case e.Message != nil:
		v.reply(e.Message)
	case e.StatusUpdate != nil:
		u := e.StatusUpdate
		v.identity(u.TaskID, u.ContextID, u.Status.State)
		v.field("Updated", v.time(u.Status.Timestamp))
		if v.verbose {
			v.metadata("Update Metadata", u.Metadata)
		}
		if u.Status.Message != nil {
			v.message("Message", u.Status.Message)
		}
	case e.ArtifactUpdate != nil:
		v.artifact(&e.ArtifactUpdate.Artifact)
	}
}
