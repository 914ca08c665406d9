package wire

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// In the dialect before 0.2, tasks/send and tasks/sendSubscribe, the client names
// a task and a session. Its name of the task is an alias of ours: it is the
// context of the task, which belongs to the caller and is found by an index. The
// session comes back with the task, and is with its messages as metadata.

// aliasPrefix begins the contexts that are names of tasks.
const aliasPrefix = "tasks/send:"

// sessionKey is the member of a message's metadata that has the session.
const sessionKey = "sessionId"

// minAlias is how long a name has to be that a caller without credentials gives
// from afar. All such callers are one owner, and may not guess each other's.
const minAlias = 16

// name finds or begins the task that a client has named.
func (f *oldForm) name(ctx context.Context, x *exchange, r *v03.TasksSendRequest) error {
	if err := checkAlias(x, r.ID); err != nil {
		return err
	}
	f.task, f.session = r.ID, r.SessionID
	if n := r.Send.Configuration.HistoryLength; n != nil {
		f.history = *n
	}
	r.Send.Configuration.HistoryLength = nil
	m := r.Send.Message
	if m == nil {
		return nil // its absence is found with the other checks
	}
	if m.MessageID == "" {
		m.MessageID = uuid.NewString()
	}
	if r.SessionID != "" {
		m.Metadata = withSession(m.Metadata, r.SessionID)
	}
	m.TaskID, m.ContextID = "", ""
	id, err := x.aliased(ctx, r.ID)
	switch {
	case err != nil:
		return err
	case id != "":
		m.TaskID = id
	case ours(r.ID):
		m.TaskID = r.ID
	default:
		m.ContextID = aliasPrefix + r.ID
	}
	return nil
}

func checkAlias(x *exchange, id string) error {
	switch {
	case id == "":
		return a2a.Invalid("id", "is required")
	case len(aliasPrefix)+len(id) > a2a.MaxIDLength:
		return a2a.Invalid("id", "is longer than %d bytes", a2a.MaxIDLength-len(aliasPrefix))
	case len(id) < minAlias && x.caller.Anonymous() && !x.caller.Local:
		return a2a.Invalid("id", "has to have at least %d bytes from callers without credentials", minAlias)
	}
	return nil
}

// ours reports whether an id looks like one that this server makes.
func ours(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.Version() == 7
}

// aliased returns the id of the caller's task that has that name, the newest one;
// "" when there is none.
func (x *exchange) aliased(ctx context.Context, name string) (string, error) {
	if name == "" || len(aliasPrefix)+len(name) > a2a.MaxIDLength {
		return "", nil
	}
	one, none := 1, 0
	context := x.context
	page, err := x.h.service.list(ctx, &x.call, &a2a.ListTasksRequest{ContextID: aliasPrefix + name, PageSize: &one, HistoryLength: &none})
	x.context = context
	if err != nil {
		return "", err
	}
	if len(page.Tasks) == 0 {
		return "", nil
	}
	return page.Tasks[0].ID, nil
}

// resolve puts our id of a task in the place of a client's name of it, and makes
// the answer one of that client's dialect.
func (f *oldForm) resolve(ctx context.Context, x *exchange, v a2a.Decodable) error {
	var id *string
	switch q := v.(type) {
	case *getRequest:
		id = &q.ID
	case *cancelRequest:
		id = &q.ID
	case *subscribeRequest:
		id = &q.ID
	case *a2a.TaskPushNotificationConfig:
		defer func() { nameConfig(q, "") }()
		id = &q.TaskID
	case *a2a.GetTaskPushNotificationConfigRequest:
		id = &q.TaskID
	case *a2a.ListTaskPushNotificationConfigsRequest:
		id = &q.TaskID
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		id = &q.TaskID
	default:
		return nil
	}
	found, err := x.aliased(ctx, *id)
	if err != nil || found == "" {
		return err
	}
	f.dialect, f.task = v03.TasksSend, *id
	*id = found
	switch q := v.(type) {
	case *getRequest:
		if q.HistoryLength != nil {
			f.history = *q.HistoryLength
		}
		q.HistoryLength = nil
	case *a2a.GetTaskPushNotificationConfigRequest:
		if q.ID == f.task { // without an id: that of the task
			q.ID = found
		}
	}
	return nil
}

// appendAliased appends a result in the dialect before, and reports whether that
// has it.
func (f *oldForm) appendAliased(dst []byte, v result) ([]byte, bool) {
	switch v := v.(type) {
	case *a2a.SendMessageResponse:
		if v.Task == nil {
			return v03.AppendTask(dst, taskOfMessage(v.Message), f.task, f.session), true
		}
		return f.appendTask(dst, v.Task), true
	case *a2a.Task:
		return f.appendTask(dst, v), true
	case *a2a.TaskPushNotificationConfig:
		return v03.AppendTaskPushConfig(dst, v, f.task), true
	}
	return dst, false
}

// appendTask appends a task with as much history as was asked for, which in this
// dialect is none unless it says so.
func (f *oldForm) appendTask(dst []byte, t *a2a.Task) []byte {
	session := f.session
	for i := len(t.History) - 1; i >= 0 && session == ""; i-- {
		session = sessionOf(t.History[i].Metadata)
	}
	shown := *t
	shown.History = t.History[max(0, len(t.History)-max(0, f.history)):]
	return v03.AppendTask(dst, &shown, f.task, session)
}

// taskOfMessage returns the task that stands for an answer without one.
func taskOfMessage(m *a2a.Message) *a2a.Task {
	return &a2a.Task{Status: a2a.TaskStatus{State: a2a.StateCompleted, Message: m}}
}

// translateAliased writes an event in the dialect before. It streams changes and
// no tasks, of which the status is one.
func (f *oldForm) translateAliased(event *a2a.StreamResponse, last bool) []byte {
	switch {
	case event.Task != nil:
		event = &a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: event.Task.ID, Status: event.Task.Status}}
	case event.Message != nil:
		event = &a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{Status: taskOfMessage(event.Message).Status}}
	}
	b, _ := v03.AppendTaskEvent(nil, event, f.task, last)
	return b
}

// withSession puts a session into the metadata of a message, unless the client has
// put one there.
func withSession(metadata a2a.JSON, session string) a2a.JSON {
	var members map[string]jsontext.Value
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &members); err != nil || members[sessionKey] != nil {
			return metadata
		}
	}
	quoted, _ := jsontext.AppendQuote(nil, session) // invalid UTF-8 has been refused
	member := `"` + sessionKey + `":` + string(quoted)
	rest := strings.TrimSpace(string(metadata))
	if rest == "" || strings.TrimSpace(rest[1:]) == "}" {
		return a2a.JSON("{" + member + "}")
	}
	return a2a.JSON("{" + member + "," + rest[1:])
}

func sessionOf(metadata a2a.JSON) string {
	var v struct {
		Session string `json:"sessionId"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &v) != nil {
		return ""
	}
	return v.Session
}
