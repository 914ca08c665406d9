package client

import (
	"fmt"
	"slices"

	"handoff.example/handoff/a2a"
)

// Limits of an Accumulator.
const (
	DefaultMaxTask = 256 << 20 // bytes
	maxArtifacts   = 10_000    // each is looked for among the others with every chunk
)

// Accumulator rebuilds a task from its events: chunks of an artifact are put
// together, and an artifact that is sent again replaces the one before. It keeps
// nothing that Stream.Read writes over. The zero value is ready to use.
type Accumulator struct {
	Task    *a2a.Task    // nil until an event told of a task
	Message *a2a.Message // set when the agent answered with a message
	// MaxBytes bounds the task in memory, in bytes: 0 is DefaultMaxTask, negative
	// is no limit.
	MaxBytes int

	events   int
	appended bool // the last task was added to by chunks
	size     int  // of the task, about
}

// Add takes the next event. An update before the task itself makes a task of
// what it tells. An event that would make the task larger than MaxBytes, or give
// it more than 10,000 artifacts, is not taken: the error is then ErrTooLarge, and
// the task is what it was.
func (a *Accumulator) Add(e *a2a.StreamResponse) error {
	size := a.sizeWith(e)
	limit := a.MaxBytes
	if limit == 0 {
		limit = DefaultMaxTask
	}
	if limit > 0 && size > limit {
		return fmt.Errorf("%w: the task has more than %d bytes", ErrTooLarge, limit)
	}
	if u := e.ArtifactUpdate; u != nil && a.Task != nil && len(a.Task.Artifacts) >= maxArtifacts && a.artifact(u.Artifact.ArtifactID) == nil {
		return fmt.Errorf("%w: the task has more than %d artifacts", ErrTooLarge, maxArtifacts)
	}
	a.size = size
	a.add(e)
	return nil
}

func (a *Accumulator) add(e *a2a.StreamResponse) {
	a.events++
	switch {
	case e.Task != nil:
		a.appended = false
	case e.ArtifactUpdate != nil && e.ArtifactUpdate.Append:
		a.appended = true
	}
	if e.Message != nil {
		own := *e.Message
		a.Message = &own
		return
	}
	if a.Task == nil {
		a.Task = new(a2a.Task)
		switch {
		case e.StatusUpdate != nil:
			a.Task.ID, a.Task.ContextID = e.StatusUpdate.TaskID, e.StatusUpdate.ContextID
		case e.ArtifactUpdate != nil:
			a.Task.ID, a.Task.ContextID = e.ArtifactUpdate.TaskID, e.ArtifactUpdate.ContextID
		}
	}
	a.Task.Apply(a.kept(e))
}

// kept returns an event whose parts are the task's own, where it takes them as they
// are: the next Read writes over those of this one. Chunks are appended, which
// copies them.
func (a *Accumulator) kept(e *a2a.StreamResponse) *a2a.StreamResponse {
	u := e.ArtifactUpdate
	if u == nil || u.Append && a.artifact(u.Artifact.ArtifactID) != nil {
		return e
	}
	own := *u
	own.Artifact.Parts = slices.Clone(u.Artifact.Parts)
	return &a2a.StreamResponse{ArtifactUpdate: &own}
}

// Done reports whether there is nothing more to wait for: a message came, or
// the task is in a terminal or interrupted state.
func (a *Accumulator) Done() bool {
	return a.Message != nil || a.Task != nil && settled(a.Task)
}

// artifact returns the artifact of that id, or nil. Chunks mostly follow those of
// the same artifact, which is the last.
func (a *Accumulator) artifact(id string) *a2a.Artifact {
	for i := len(a.Task.Artifacts) - 1; i >= 0; i-- {
		if a.Task.Artifacts[i].ArtifactID == id {
			return &a.Task.Artifacts[i]
		}
	}
	return nil
}

// sizeWith returns how large the task is after an event.
func (a *Accumulator) sizeWith(e *a2a.StreamResponse) int {
	switch {
	case e.Task != nil:
		return sizeOfTask(e.Task)
	case e.StatusUpdate != nil:
		return a.size + sizeOfMessage(e.StatusUpdate.Status.Message)
	case e.ArtifactUpdate != nil:
		size := a.size + sizeOfArtifact(&e.ArtifactUpdate.Artifact)
		if !e.ArtifactUpdate.Append && a.Task != nil {
			if old := a.artifact(e.ArtifactUpdate.Artifact.ArtifactID); old != nil {
				size -= sizeOfArtifact(old)
			}
		}
		return size
	}
	return a.size
}

// Sizes in memory, of what a peer can make large, and of the objects that hold it.
const (
	partSize    = 192
	messageSize = 256
)

func sizeOfTask(t *a2a.Task) int {
	size := messageSize + len(t.Metadata) + sizeOfMessage(t.Status.Message)
	for i := range t.Artifacts {
		size += sizeOfArtifact(&t.Artifacts[i])
	}
	for i := range t.History {
		size += sizeOfMessage(&t.History[i])
	}
	return size
}

func sizeOfMessage(m *a2a.Message) int {
	if m == nil {
		return 0
	}
	return messageSize + len(m.Metadata) + sizeOfParts(m.Parts) + sizeOfTexts(m.Extensions) + sizeOfTexts(m.ReferenceTaskIDs)
}

func sizeOfArtifact(a *a2a.Artifact) int {
	return messageSize + len(a.Name) + len(a.Description) + len(a.Metadata) + sizeOfParts(a.Parts) + sizeOfTexts(a.Extensions)
}

func sizeOfParts(parts []a2a.Part) int {
	size := 0
	for i := range parts {
		p := &parts[i]
		size += partSize + len(p.Text) + len(p.Raw) + len(p.URL) + len(p.Data) + len(p.Metadata) + len(p.MediaType) + len(p.Filename)
	}
	return size
}

func sizeOfTexts(texts []string) int {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	return size
}
