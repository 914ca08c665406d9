package api

import (
	"strconv"

	"handoff.example/handoff/a2a"
)

// cutTask returns a task whose parts have at most so many bytes; the task itself is
// left as it is. A limit of 0 is none.
func cutTask(t *a2a.Task, limit int) *a2a.Task {
	if limit == 0 || t == nil {
		return t
	}
	short := *t
	short.Status.Message = cutMessage(t.Status.Message, limit)
	short.History = make([]a2a.Message, len(t.History))
	for i := range t.History {
		short.History[i] = *cutMessage(&t.History[i], limit)
	}
	short.Artifacts = make([]a2a.Artifact, len(t.Artifacts))
	for i := range t.Artifacts {
		short.Artifacts[i] = t.Artifacts[i]
		short.Artifacts[i].Parts = cutParts(t.Artifacts[i].Parts, limit)
	}
	return &short
}

func cutMessage(m *a2a.Message, limit int) *a2a.Message {
	if limit == 0 || m == nil {
		return m
	}
	short := *m
	short.Parts = cutParts(m.Parts, limit)
	return &short
}

// cutParts shortens texts, and puts a note in place of what cannot be shortened.
func cutParts(parts []a2a.Part, limit int) []a2a.Part {
	short := make([]a2a.Part, len(parts))
	for i := range parts {
		p := parts[i]
		size := len(p.Raw) + len(p.Data)
		switch {
		case len(p.Text) > limit:
			p.Text = clip(p.Text, limit)
		case size > limit:
			p = a2a.Text("[" + strconv.Itoa(size) + " bytes that are left out here]")
			p.Filename = parts[i].Filename
		}
		if len(p.Metadata) > limit {
			p.Metadata = nil
		}
		short[i] = p
	}
	return short
}
