package a2a

// AppendJSON appends the canonical JSON of the task. Nil artifacts are left
// out, empty ones are an empty array.
func (t *Task) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "id", t.ID)
	dst = optText(dst, "contextId", t.ContextID)
	dst = t.Status.AppendJSON(appendKey(dst, "status"))
	if t.Artifacts != nil {
		dst = appendList(dst, "artifacts", t.Artifacts)
	}
	dst = optList(dst, "history", t.History)
	dst = optRaw(dst, "metadata", t.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the status.
func (s *TaskStatus) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendName(dst, "state", s.State.String())
	dst = optObject(dst, "message", s.Message)
	dst = optTime(dst, "timestamp", s.Timestamp)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the message.
func (v *Message) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "messageId", v.MessageID)
	dst = optText(dst, "contextId", v.ContextID)
	dst = optText(dst, "taskId", v.TaskID)
	dst = appendName(dst, "role", v.Role.String())
	dst = appendList(dst, "parts", v.Parts)
	dst = optRaw(dst, "metadata", v.Metadata)
	dst = optTexts(dst, "extensions", v.Extensions)
	dst = optTexts(dst, "referenceTaskIds", v.ReferenceTaskIDs)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the part. Its data has to be valid
// JSON and is copied byte for byte; none is null.
func (p *Part) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	switch p.Kind {
	case PartText:
		dst = appendText(dst, "text", p.Text)
	case PartRaw:
		dst = appendBase64(dst, "raw", p.Raw)
	case PartURL:
		dst = appendText(dst, "url", p.URL)
	case PartData:
		dst = appendKey(dst, "data")
		if len(p.Data) == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, p.Data...)
		}
	}
	dst = optRaw(dst, "metadata", p.Metadata)
	dst = optText(dst, "filename", p.Filename)
	dst = optText(dst, "mediaType", p.MediaType)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the artifact.
func (a *Artifact) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "artifactId", a.ArtifactID)
	dst = optText(dst, "name", a.Name)
	dst = optText(dst, "description", a.Description)
	dst = appendList(dst, "parts", a.Parts)
	dst = optRaw(dst, "metadata", a.Metadata)
	dst = optTexts(dst, "extensions", a.Extensions)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the event.
func (u *TaskStatusUpdateEvent) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "taskId", u.TaskID)
	dst = appendText(dst, "contextId", u.ContextID)
	dst = u.Status.AppendJSON(appendKey(dst, "status"))
	dst = optRaw(dst, "metadata", u.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the event.
func (u *TaskArtifactUpdateEvent) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "taskId", u.TaskID)
	dst = appendText(dst, "contextId", u.ContextID)
	dst = u.Artifact.AppendJSON(appendKey(dst, "artifact"))
	dst = optBool(dst, "append", u.Append)
	dst = optBool(dst, "lastChunk", u.LastChunk)
	dst = optRaw(dst, "metadata", u.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the event.
func (r *StreamResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optObject(dst, "task", r.Task)
	dst = optObject(dst, "message", r.Message)
	dst = optObject(dst, "statusUpdate", r.StatusUpdate)
	dst = optObject(dst, "artifactUpdate", r.ArtifactUpdate)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the response.
func (r *SendMessageResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optObject(dst, "task", r.Task)
	dst = optObject(dst, "message", r.Message)
	return append(dst, '}')
}
