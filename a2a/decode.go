package a2a

import "strings"

func (t *Task) decode(d *decoder) {
	*t = Task{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "id":
			m.field(d, 0, "id")
			t.ID = d.text()
		case "contextId", "context_id":
			m.field(d, 1, "contextId")
			t.ContextID = d.repeatedText(repeatedContextID)
		case "status":
			m.field(d, 2, "status")
			t.Status.decode(d)
		case "artifacts":
			m.field(d, 3, "artifacts")
			t.Artifacts = decodeList[Artifact](d)
		case "history":
			m.field(d, 4, "history")
			t.History = decodeList[Message](d)
		case "metadata":
			m.field(d, 5, "metadata")
			t.Metadata = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (s *TaskStatus) decode(d *decoder) {
	*s = TaskStatus{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "state":
			m.field(d, 0, "state")
			s.State = enum(d, StateAuthRequired)
		case "message":
			m.field(d, 1, "message")
			s.Message = decodePointer[Message](d)
		case "timestamp":
			m.field(d, 2, "timestamp")
			s.Timestamp = d.timestamp()
		default:
			d.skip()
		}
	}
}

func (v *Message) decode(d *decoder) {
	*v = Message{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "messageId", "message_id":
			m.field(d, 0, "messageId")
			v.MessageID = d.text()
		case "contextId", "context_id":
			m.field(d, 1, "contextId")
			v.ContextID = d.repeatedText(repeatedContextID)
		case "taskId", "task_id":
			m.field(d, 2, "taskId")
			v.TaskID = d.repeatedText(repeatedTaskID)
		case "role":
			m.field(d, 3, "role")
			v.Role = enum(d, RoleAgent)
		case "parts":
			m.field(d, 4, "parts")
			v.Parts = decodeList[Part](d)
		case "metadata":
			m.field(d, 5, "metadata")
			v.Metadata = d.rawObject()
		case "extensions":
			m.field(d, 6, "extensions")
			v.Extensions = d.texts()
		case "referenceTaskIds", "reference_task_ids":
			m.field(d, 7, "referenceTaskIds")
			v.ReferenceTaskIDs = d.texts()
		default:
			d.skip()
		}
	}
}

func (p *Part) decode(d *decoder) {
	*p = Part{}
	var c partContents
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "text":
			m.field(d, 0, "text")
			c.text = !d.peekNull()
			p.Text = d.text()
		case "raw":
			m.field(d, 1, "raw")
			if c.raw = !d.null(); c.raw {
				p.Raw = d.bytes()
			}
		case "url":
			m.field(d, 2, "url")
			c.url = !d.peekNull()
			p.URL = d.text()
		case "data":
			m.field(d, 3, "data")
			c.data = true
			p.Data = d.raw()
		case "metadata":
			m.field(d, 4, "metadata")
			p.Metadata = d.rawObject()
		case "filename":
			m.field(d, 5, "filename")
			p.Filename = d.text()
		case "mediaType", "media_type":
			m.field(d, 6, "mediaType")
			p.MediaType = d.repeatedText(repeatedMediaType)
		default:
			d.skip()
		}
	}
	c.settle(d, p)
}

// partContents says which keys of the oneof of a part were there.
type partContents struct{ text, raw, url, data bool }

// settle decides which content a part has. Some peers write all keys of the
// oneof and leave the unused ones empty or null, so that an empty content only
// counts when there is no other.
func (c partContents) settle(d *decoder, p *Part) {
	if d.err != nil {
		return
	}
	var filled [4]PartKind
	n := 0
	add := func(kind PartKind, is bool) {
		if is {
			filled[n] = kind
			n++
		}
	}
	add(PartText, p.Text != "")
	add(PartRaw, len(p.Raw) != 0)
	add(PartURL, p.URL != "")
	add(PartData, c.data && !emptyContent(p.Data))
	switch {
	case n > 1:
		names := make([]string, n)
		for i, k := range filled[:n] {
			names[i] = k.String()
		}
		d.fail("has more than one content: %s", strings.Join(names, ", "))
	case n == 1:
		p.Kind = filled[0]
	case c.text:
		p.Kind = PartText
	case c.raw:
		p.Kind = PartRaw
	case c.url:
		p.Kind = PartURL
	case c.data:
		p.Kind = PartData
	}
	if p.Kind != PartRaw {
		p.Raw = nil
	}
	if p.Kind != PartData {
		p.Data = nil
	}
}

// emptyContent reports whether a data content may be an unused key of the oneof.
func emptyContent(data JSON) bool {
	return string(data) == "null" || string(data) == `""`
}

func (a *Artifact) decode(d *decoder) {
	parts := []Part{}
	if d.reuse && a.Parts != nil {
		parts = a.Parts[:0]
	}
	*a = Artifact{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "artifactId", "artifact_id":
			m.field(d, 0, "artifactId")
			a.ArtifactID = d.repeatedText(repeatedArtifactID)
		case "name":
			m.field(d, 1, "name")
			a.Name = d.text()
		case "description":
			m.field(d, 2, "description")
			a.Description = d.text()
		case "parts":
			m.field(d, 3, "parts")
			a.Parts = decodeListInto[Part](d, parts)
		case "metadata":
			m.field(d, 4, "metadata")
			a.Metadata = d.rawObject()
		case "extensions":
			m.field(d, 5, "extensions")
			a.Extensions = d.texts()
		default:
			d.skip()
		}
	}
}

func (u *TaskStatusUpdateEvent) decode(d *decoder) {
	*u = TaskStatusUpdateEvent{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "taskId", "task_id":
			m.field(d, 0, "taskId")
			u.TaskID = d.repeatedText(repeatedTaskID)
		case "contextId", "context_id":
			m.field(d, 1, "contextId")
			u.ContextID = d.repeatedText(repeatedContextID)
		case "status":
			m.field(d, 2, "status")
			u.Status.decode(d)
		case "metadata":
			m.field(d, 3, "metadata")
			u.Metadata = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (u *TaskArtifactUpdateEvent) decode(d *decoder) {
	before := u.Artifact
	*u = TaskArtifactUpdateEvent{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "taskId", "task_id":
			m.field(d, 0, "taskId")
			u.TaskID = d.repeatedText(repeatedTaskID)
		case "contextId", "context_id":
			m.field(d, 1, "contextId")
			u.ContextID = d.repeatedText(repeatedContextID)
		case "artifact":
			m.field(d, 2, "artifact")
			u.Artifact.Parts = before.Parts
			u.Artifact.decode(d)
		case "append":
			m.field(d, 3, "append")
			u.Append = d.boolean()
		case "lastChunk", "last_chunk":
			m.field(d, 4, "lastChunk")
			u.LastChunk = d.boolean()
		case "metadata":
			m.field(d, 5, "metadata")
			u.Metadata = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (r *StreamResponse) decode(d *decoder) {
	before := *r
	*r = StreamResponse{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "task":
			m.field(d, 0, "task")
			r.Task = decodePointer[Task](d)
		case "message":
			m.field(d, 1, "message")
			r.Message = decodePointer[Message](d)
		case "statusUpdate", "status_update":
			m.field(d, 2, "statusUpdate")
			r.StatusUpdate = decodeInto[TaskStatusUpdateEvent](d, before.StatusUpdate)
		case "artifactUpdate", "artifact_update":
			m.field(d, 3, "artifactUpdate")
			r.ArtifactUpdate = decodeInto[TaskArtifactUpdateEvent](d, before.ArtifactUpdate)
		default:
			d.skip()
		}
	}
	d.atMostOne(r.Task != nil, r.Message != nil, r.StatusUpdate != nil, r.ArtifactUpdate != nil)
}

func (r *SendMessageResponse) decode(d *decoder) {
	*r = SendMessageResponse{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "task":
			m.field(d, 0, "task")
			r.Task = decodePointer[Task](d)
		case "message":
			m.field(d, 1, "message")
			r.Message = decodePointer[Message](d)
		default:
			d.skip()
		}
	}
	d.atMostOne(r.Task != nil, r.Message != nil)
}

// atMostOne refuses the object that was just read when several of its oneof's
// fields are set.
func (d *decoder) atMostOne(set ...bool) {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	if n > 1 {
		d.fail("has more than one of the fields that exclude each other")
	}
}
