package a2a

import "slices"

// Apply changes the task as the event says, the way every reader of a stream
// has to: a new status moves the message of the old one into the history, a
// chunk is appended to its artifact, and a chunk of an artifact that is not
// known yet creates it. A Task event replaces the task; a Message event changes
// nothing. The event's slices are not modified, but may be shared.
func (t *Task) Apply(e *StreamResponse) {
	switch {
	case e.Task != nil:
		*t = *e.Task
		t.History = slices.Clip(t.History)
		t.Artifacts = slices.Clone(t.Artifacts)
		for i := range t.Artifacts {
			t.Artifacts[i].Parts = slices.Clip(t.Artifacts[i].Parts)
		}
	case e.StatusUpdate != nil:
		if m := t.Status.Message; m != nil {
			t.History = append(t.History, *m)
		}
		t.Status = e.StatusUpdate.Status
	case e.ArtifactUpdate != nil:
		t.applyArtifact(e.ArtifactUpdate)
	}
}

func (t *Task) applyArtifact(u *TaskArtifactUpdateEvent) {
	i := slices.IndexFunc(t.Artifacts, func(a Artifact) bool {
		return a.ArtifactID == u.Artifact.ArtifactID
	})
	switch {
	case i < 0:
		a := u.Artifact
		a.Parts = slices.Clip(a.Parts)
		t.Artifacts = append(t.Artifacts, a)
	case !u.Append:
		t.Artifacts[i] = u.Artifact
		t.Artifacts[i].Parts = slices.Clip(u.Artifact.Parts)
	default:
		a := &t.Artifacts[i]
		a.Parts = append(a.Parts, u.Artifact.Parts...)
		if u.Artifact.Name != "" {
			a.Name = u.Artifact.Name
		}
		if u.Artifact.Description != "" {
			a.Description = u.Artifact.Description
		}
		if u.Artifact.Metadata != nil {
			a.Metadata = u.Artifact.Metadata
		}
		if u.Artifact.Extensions != nil {
			a.Extensions = u.Artifact.Extensions
		}
	}
}
