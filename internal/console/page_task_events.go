package console

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/content"
)

// eventsOnPage is how many events a page shows.
const eventsOnPage = 100

// eventPage is a page of the events of a task, as they are in the store.
type eventPage struct {
	Task   string
	Agent  string
	Total  int
	After  int64
	Events []shownEvent
	Before int64 // the after of the page before, or -1
	Next   int64 // of the page that follows, or 0
}

// shownEvent is one event.
type shownEvent struct {
	Seq  int64          `json:"seq"`
	Kind string         `json:"kind"`
	Body jsontext.Value `json:"event"`
}

// Tree is the event as JSON that folds.
func (e *shownEvent) Tree() template.HTML { return content.Tree(string(e.Body)) }

// Short says in a few words what the event is about.
func (e *shownEvent) Short() string {
	var body struct {
		Status struct {
			Status a2a.TaskStatus `json:"status"`
		} `json:"statusUpdate"`
		Artifact struct {
			Artifact a2a.Artifact `json:"artifact"`
			Append   bool         `json:"append"`
		} `json:"artifactUpdate"`
		Message struct {
			Role  string     `json:"role"`
			Parts []a2a.Part `json:"parts"`
		} `json:"message"`
	}
	if json.Unmarshal(e.Body, &body) != nil {
		return ""
	}
	var words []string
	parts := body.Message.Parts
	switch e.Kind {
	case "status":
		words = append(words, stateOf(body.Status.Status.State.String()).Word)
		if m := body.Status.Status.Message; m != nil {
			parts = m.Parts
		}
	case "artifact":
		name := body.Artifact.Artifact.Name
		if name == "" {
			name = body.Artifact.Artifact.ArtifactID
		}
		words = append(words, name)
		if body.Artifact.Append {
			words = append(words, "(goes on)")
		}
		parts = body.Artifact.Artifact.Parts
	case "message":
		words = append(words, strings.ToLower(strings.TrimPrefix(body.Message.Role, "ROLE_")))
	}
	for i := range parts {
		if parts[i].Kind == a2a.PartText {
			words = append(words, clip(120, parts[i].Text))
			break
		}
	}
	return strings.Join(words, " ")
}

// First is the number of the first event of the page.
func (p *eventPage) First() int64 { return p.Events[0].Seq }

// Last is the number of the last one.
func (p *eventPage) Last() int64 { return p.Events[len(p.Events)-1].Seq }

// Size is the size of the event in bytes.
func (e *shownEvent) Size() string { return content.Size(int64(len(e.Body))) }

func showEvents(v *view) error {
	id := v.param("id")
	var t shownTask
	if err := v.get("/tasks/"+url.PathEscape(id)+"?history=0&part_bytes=1", &t); err != nil {
		return err
	}
	after, err := strconv.ParseInt(v.query().Get("after"), 10, 64)
	if err != nil || after < 0 {
		after = 0
	}
	p := &eventPage{Task: t.Task.ID, Agent: t.Who(), Total: int(t.Events), After: after, Before: -1}
	lines, err := v.c.firstLines(v.r, &v.Principal, fmt.Sprintf("/tasks/%s/events?limit=%d&after=%d", url.PathEscape(id), eventsOnPage, after))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(lines) {
		var e shownEvent
		if json.Unmarshal(line, &e) != nil {
			break // a write ended within it
		}
		p.Events = append(p.Events, e)
	}
	if n := len(p.Events); n > 0 && p.Events[n-1].Seq < t.Events {
		p.Next = p.Events[n-1].Seq
	}
	if after > 0 {
		p.Before = max(after-eventsOnPage, 0)
	}
	v.title = "Events of a task of " + content.Visible(p.Agent)
	return v.render("task_events", p)
}
