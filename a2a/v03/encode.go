package v03

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Append appends the JSON of an object of 1.0 in a dialect, and reports whether
// 0.3 has such an object. It takes what Unmarshal takes, and lists of webhooks.
func (d Dialect) Append(dst []byte, v any) ([]byte, bool) {
	w := &writer{b: dst, dialect: d}
	switch v := v.(type) {
	case *a2a.Task:
		w.task(v)
	case *a2a.Message:
		w.message(v)
	case *a2a.SendMessageResponse:
		w.response(&a2a.StreamResponse{Task: v.Task, Message: v.Message}, false)
	case *a2a.StreamResponse:
		w.response(v, v.StatusUpdate != nil && v.StatusUpdate.Status.State.Terminal())
	case *a2a.TaskPushNotificationConfig:
		w.taskPushConfig(v)
	case *a2a.ListTaskPushNotificationConfigsResponse:
		w.pushConfigs(v)
	case *a2a.SendMessageRequest:
		w.sendRequest(v)
	case *a2a.GetTaskRequest:
		w.taskRequest(v.ID, "", v.HistoryLength, nil)
	case *a2a.CancelTaskRequest:
		w.taskRequest(v.ID, "", nil, v.Metadata)
	case *a2a.SubscribeToTaskRequest:
		w.taskRequest(v.ID, "", nil, nil)
	case *a2a.GetTaskPushNotificationConfigRequest:
		w.taskRequest(v.TaskID, v.ID, nil, nil)
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		w.taskRequest(v.TaskID, v.ID, nil, nil)
	case *a2a.ListTaskPushNotificationConfigsRequest:
		w.taskRequest(v.TaskID, "", nil, nil)
	case *a2a.GetExtendedAgentCardRequest:
		w.open()
		w.close()
	default:
		return dst, false
	}
	return w.b, true
}

// AppendEvent appends an event of a stream. Final says of a change of status that
// it is the last event of the stream (A2A 0.3 §7.2.2).
func (d Dialect) AppendEvent(dst []byte, v *a2a.StreamResponse, final bool) []byte {
	w := &writer{b: dst, dialect: d}
	w.response(v, final)
	return w.b
}

// AppendTask appends a task of the dialect before 0.2 under the names that its
// client has for it.
func AppendTask(dst []byte, t *a2a.Task, id, session string) []byte {
	w := &writer{b: dst, dialect: TasksSend, id: id, session: session}
	w.task(t)
	return w.b
}

// AppendTaskEvent is AppendEvent for the dialect before 0.2, which streams changes
// and no tasks: it reports false for what it cannot say.
func AppendTaskEvent(dst []byte, v *a2a.StreamResponse, id string, final bool) ([]byte, bool) {
	if v.StatusUpdate == nil && v.ArtifactUpdate == nil {
		return dst, false
	}
	w := &writer{b: dst, dialect: TasksSend, id: id}
	w.response(v, final)
	return w.b, true
}

// AppendTaskPushConfig appends a webhook of a task in the dialect before 0.2.
func AppendTaskPushConfig(dst []byte, v *a2a.TaskPushNotificationConfig, id string) []byte {
	w := &writer{b: dst, dialect: TasksSend, id: id}
	w.taskPushConfig(v)
	return w.b
}

// AppendCreatePushConfig appends the request that sets a webhook, as the official
// libraries send it over HTTP+JSON: the whole request of a2a.proto.
func AppendCreatePushConfig(dst []byte, v *a2a.TaskPushNotificationConfig) []byte {
	w := &writer{b: dst, dialect: REST}
	w.open()
	w.text("parent", "tasks/"+v.TaskID)
	w.optText("configId", v.ID)
	w.key("config")
	w.taskPushConfig(v)
	w.close()
	return w.b
}

// writer writes the JSON of a dialect.
type writer struct {
	b       []byte
	dialect Dialect
	id      string // of the task for its client; "": our own
	session string
}

func (w *writer) open()  { w.b = append(w.b, '{') }
func (w *writer) close() { w.b = append(w.b, '}') }

// key begins a member. No value ends in '{', so that the last byte tells whether
// it is the first.
func (w *writer) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *writer) quoted(text string) { w.b, _ = jsontext.AppendQuote(w.b, text) }

func (w *writer) text(name, text string) {
	w.key(name)
	w.quoted(text)
}

func (w *writer) optText(name, text string) {
	if text != "" {
		w.text(name, text)
	}
}

func (w *writer) optTexts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	w.b = append(w.b, '[')
	for i, text := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.quoted(text)
	}
	w.b = append(w.b, ']')
}

func (w *writer) boolean(name string, b bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, b)
}

func (w *writer) optInt(name string, n *int) {
	if n != nil {
		w.key(name)
		w.b = strconv.AppendInt(w.b, int64(*n), 10)
	}
}

func (w *writer) optRaw(name string, value a2a.JSON) {
	if len(value) > 0 {
		w.key(name)
		w.b = append(w.b, value...)
	}
}

func (w *writer) optTime(name string, t time.Time) {
	if !t.IsZero() {
		w.key(name)
		w.b = append(a2a.AppendTimestamp(append(w.b, '"'), t), '"')
	}
}

// kind writes the discriminator, where the dialect has one.
func (w *writer) kind(kind string) {
	if w.dialect == RPC {
		w.text("kind", kind)
	}
}

// list writes the elements of an array.
func list[T any](w *writer, name string, elements []T, write func(*T)) {
	w.key(name)
	w.b = append(w.b, '[')
	for i := range elements {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		write(&elements[i])
	}
	w.b = append(w.b, ']')
}

func (w *writer) task(t *a2a.Task) {
	w.open()
	w.kind("task")
	if w.dialect == TasksSend {
		w.text("id", w.named(t.ID))
		w.optText("sessionId", w.session)
	} else {
		w.text("id", t.ID)
		w.text("contextId", t.ContextID)
	}
	w.key("status")
	w.status(&t.Status)
	if t.Artifacts != nil {
		n := 0
		list(w, "artifacts", t.Artifacts, func(a *a2a.Artifact) { w.artifact(a, n, nil); n++ })
	}
	if len(t.History) > 0 {
		list(w, "history", t.History, w.message)
	}
	w.optRaw("metadata", t.Metadata)
	w.close()
}

// named returns the id of a task as its client knows it.
func (w *writer) named(id string) string {
	if w.id != "" {
		return w.id
	}
	return id
}

func (w *writer) status(s *a2a.TaskStatus) {
	w.open()
	w.text("state", w.dialect.stateName(s.State))
	if s.Message != nil {
		w.key("message")
		w.message(s.Message)
	}
	w.optTime("timestamp", s.Timestamp)
	w.close()
}

func (w *writer) message(m *a2a.Message) {
	w.open()
	if w.dialect == TasksSend {
		w.text("role", w.dialect.roleName(m.Role))
		list(w, "parts", m.Parts, w.part)
		w.optRaw("metadata", m.Metadata)
		w.close()
		return
	}
	w.kind("message")
	w.text("messageId", m.MessageID)
	w.optText("contextId", m.ContextID)
	w.optText("taskId", m.TaskID)
	w.text("role", w.dialect.roleName(m.Role))
	if w.dialect == REST {
		list(w, "content", m.Parts, w.part)
	} else {
		list(w, "parts", m.Parts, w.part)
	}
	w.optRaw("metadata", m.Metadata)
	w.optTexts("extensions", m.Extensions)
	if w.dialect != REST { // its a2a.proto has no such field
		w.optTexts("referenceTaskIds", m.ReferenceTaskIDs)
	}
	w.close()
}

func (w *writer) part(p *a2a.Part) {
	metadata := p.Metadata
	w.open()
	switch p.Kind {
	case a2a.PartRaw, a2a.PartURL:
		w.partKind("file")
		w.file(p)
	case a2a.PartData:
		w.partKind("data")
		data := p.Data
		if data.Kind() != '{' {
			data, metadata = wrap(p)
		}
		w.key("data")
		if w.dialect.proto() {
			w.open()
			w.optRaw("data", data)
			w.close()
		} else {
			w.b = append(w.b, data...)
		}
	default:
		w.partKind("text")
		w.text("text", p.Text)
	}
	w.optRaw("metadata", metadata)
	w.close()
}

func (w *writer) partKind(kind string) {
	switch w.dialect {
	case RPC:
		w.text("kind", kind)
	case TasksSend:
		w.text("type", kind)
	}
}

// wrap puts data that is no object into one, and says so in the metadata.
func wrap(p *a2a.Part) (data, metadata a2a.JSON) {
	value := p.Data
	if len(value) == 0 {
		value = a2a.JSON("null")
	}
	data = append(append(a2a.JSON(`{"value":`), value...), '}')
	rest, _, err := without(p.Metadata, wrapped)
	if err != nil || rest == nil {
		return data, a2a.JSON(`{"` + wrapped + `":true}`)
	}
	return data, append(rest[:len(rest)-1], `,"`+wrapped+`":true}`...)
}

func (w *writer) file(p *a2a.Part) {
	w.key("file")
	w.open()
	w.optText("name", p.Filename)
	w.optText("mimeType", p.MediaType)
	switch {
	case p.Kind == a2a.PartURL && w.dialect.proto():
		w.text("fileWithUri", p.URL)
	case p.Kind == a2a.PartURL:
		w.text("uri", p.URL)
	case w.dialect.proto():
		// Twice, as the official libraries do and expect; see Dialect.file.
		w.text("fileWithBytes", base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(p.Raw))))
	default:
		w.key("bytes")
		w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), p.Raw), '"')
	}
	w.close()
}

// artifact writes an artifact; before 0.2 with its index, and with what came to be
// said of an event.
func (w *writer) artifact(a *a2a.Artifact, index int, u *a2a.TaskArtifactUpdateEvent) {
	w.open()
	if w.dialect != TasksSend {
		w.text("artifactId", a.ArtifactID)
	}
	w.optText("name", a.Name)
	w.optText("description", a.Description)
	list(w, "parts", a.Parts, w.part)
	if w.dialect == TasksSend {
		w.optInt("index", &index)
		if u != nil {
			w.boolean("append", u.Append)
			w.boolean("lastChunk", u.LastChunk)
		}
	}
	w.optRaw("metadata", a.Metadata)
	if w.dialect != TasksSend {
		w.optTexts("extensions", a.Extensions)
	}
	w.close()
}

// response writes the one of its members that is set: bare where there are kinds,
// in a member of its own in a2a.proto.
func (w *writer) response(r *a2a.StreamResponse, final bool) {
	member := func(name string) {
		if w.dialect.proto() {
			w.open()
			w.key(name)
		}
	}
	switch {
	case r.Task != nil:
		member("task")
		w.task(r.Task)
	case r.Message != nil:
		member("message")
		w.message(r.Message)
	case r.StatusUpdate != nil:
		member("statusUpdate")
		w.statusUpdate(r.StatusUpdate, final)
	case r.ArtifactUpdate != nil:
		member("artifactUpdate")
		w.artifactUpdate(r.ArtifactUpdate)
	default:
		w.open()
		w.close()
		return
	}
	if w.dialect.proto() {
		w.close()
	}
}

// about writes which task an event is of.
func (w *writer) about(task, context string) {
	if w.dialect == TasksSend {
		w.text("id", w.named(task))
		return
	}
	w.text("taskId", task)
	w.text("contextId", context)
}

func (w *writer) statusUpdate(u *a2a.TaskStatusUpdateEvent, final bool) {
	w.open()
	w.kind("status-update")
	w.about(u.TaskID, u.ContextID)
	w.key("status")
	w.status(&u.Status)
	w.boolean("final", final)
	w.optRaw("metadata", u.Metadata)
	w.close()
}

func (w *writer) artifactUpdate(u *a2a.TaskArtifactUpdateEvent) {
	w.open()
	w.kind("artifact-update")
	w.about(u.TaskID, u.ContextID)
	w.key("artifact")
	w.artifact(&u.Artifact, 0, u)
	if w.dialect != TasksSend {
		w.boolean("append", u.Append)
		w.boolean("lastChunk", u.LastChunk)
	}
	w.optRaw("metadata", u.Metadata)
	w.close()
}

func (w *writer) taskPushConfig(v *a2a.TaskPushNotificationConfig) {
	w.open()
	switch w.dialect {
	case REST, GRPC:
		w.text("name", "tasks/"+v.TaskID+"/pushNotificationConfigs/"+v.ID)
		w.key("pushNotificationConfig")
	case TasksSend:
		w.text("id", w.named(v.TaskID))
		w.key("pushNotificationConfig")
	default:
		w.text("taskId", v.TaskID)
		w.key("pushNotificationConfig")
	}
	w.pushConfig(v)
	w.close()
}

func (w *writer) pushConfig(v *a2a.TaskPushNotificationConfig) {
	w.open()
	if w.dialect != TasksSend {
		w.optText("id", v.ID)
	}
	w.text("url", v.URL)
	w.optText("token", v.Token)
	if a := v.Authentication; a != nil {
		w.key("authentication")
		w.open()
		w.optTexts("schemes", []string{a.Scheme})
		w.optText("credentials", a.Credentials)
		w.close()
	}
	w.close()
}

func (w *writer) pushConfigs(v *a2a.ListTaskPushNotificationConfigsResponse) {
	if w.dialect.proto() {
		w.open()
		list(w, "configs", v.Configs, w.taskPushConfig)
		w.optText("nextPageToken", v.NextPageToken)
		w.close()
		return
	}
	w.b = append(w.b, '[')
	for i := range v.Configs {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.taskPushConfig(&v.Configs[i])
	}
	w.b = append(w.b, ']')
}

func (w *writer) sendRequest(v *a2a.SendMessageRequest) {
	w.open()
	if v.Message != nil {
		w.key("message")
		w.message(v.Message)
	}
	blocks := v.Configuration == nil || !v.Configuration.ReturnImmediately
	w.key("configuration")
	w.open()
	if c := v.Configuration; c != nil {
		w.optTexts("acceptedOutputModes", c.AcceptedOutputModes)
		w.optInt("historyLength", c.HistoryLength)
		if push := c.TaskPushNotificationConfig; push != nil {
			if w.dialect.proto() {
				w.key("pushNotification")
			} else {
				w.key("pushNotificationConfig")
			}
			w.pushConfig(push)
		}
	}
	w.boolean("blocking", blocks)
	w.close()
	w.optRaw("metadata", v.Metadata)
	w.close()
}

// taskRequest writes the parameters of the methods that concern one task. Those of
// a2a.proto have its name alone; the rest is in the path and the query.
func (w *writer) taskRequest(id, config string, history *int, metadata a2a.JSON) {
	w.open()
	if w.dialect.proto() {
		w.text("name", "tasks/"+id)
		w.close()
		return
	}
	w.text("id", id)
	w.optText("pushNotificationConfigId", config)
	w.optInt("historyLength", history)
	w.optRaw("metadata", metadata)
	w.close()
}
