package v03

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Unmarshal reads one JSON object of a dialect into an object of 1.0, which is
// reset first. It takes the requests and answers that 0.3 has: the requests for a
// message, for a task and for webhooks, a task, an event, and the answer to a
// message. Members nobody knows are skipped, null is absent, names may be in
// snake_case, and what the other dialects write is read as well where it is
// clear what is meant.
//
// The error is an *a2a.Error: CodeParse when data is not one JSON value with
// unique names and of at most a2a.MaxDepth levels, and CodeInvalidParams with a
// Violation that names the field when the value does not fit. Missing fields are
// not an error here; see the Validate methods of package a2a.
func (d Dialect) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *TasksSendRequest:
		*v = TasksSendRequest{}
		return read(data, func(p *sendParams) error {
			v.ID, v.SessionID = p.ID, p.SessionID
			return d.send(p, &v.Send)
		})
	case *a2a.SendMessageRequest:
		*v = a2a.SendMessageRequest{}
		return read(data, func(p *sendParams) error { return d.send(p, v) })
	case *a2a.GetTaskRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.GetTaskRequest{ID: p.task(), HistoryLength: p.HistoryLength}
			return nil
		})
	case *a2a.CancelTaskRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.CancelTaskRequest{ID: p.task()}
			return object(&v.Metadata, p.Metadata, "metadata")
		})
	case *a2a.SubscribeToTaskRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.SubscribeToTaskRequest{ID: p.task()}
			return nil
		})
	case *a2a.TaskPushNotificationConfig:
		return read(data, func(p *pushParams) error { *v = p.config(); return nil })
	case *a2a.GetTaskPushNotificationConfigRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.GetTaskPushNotificationConfigRequest{TaskID: p.task(), ID: p.ConfigID}
			if v.ID == "" {
				v.ID = v.TaskID // as set names the one that the client gave no name
			}
			return nil
		})
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.DeleteTaskPushNotificationConfigRequest{TaskID: p.task(), ID: p.ConfigID}
			return nil
		})
	case *a2a.ListTaskPushNotificationConfigsRequest:
		return read(data, func(p *taskParams) error {
			*v = a2a.ListTaskPushNotificationConfigsRequest{TaskID: p.task()}
			return nil
		})
	case *a2a.GetExtendedAgentCardRequest:
		*v = a2a.GetExtendedAgentCardRequest{}
		return read(data, func(*struct{}) error { return nil })
	case *a2a.Task:
		return read(data, func(p *event) error { return d.task(p, v) })
	case *a2a.StreamResponse:
		*v = a2a.StreamResponse{}
		return read(data, func(p *event) error { return d.event(p, v) })
	case *a2a.SendMessageResponse:
		*v = a2a.SendMessageResponse{}
		var r a2a.StreamResponse
		err := read(data, func(p *event) error { return d.event(p, &r) })
		if err == nil && r.Task == nil && r.Message == nil {
			err = a2a.Invalid("kind", "must be task or message")
		}
		v.Task, v.Message = r.Task, r.Message
		return err
	}
	return fmt.Errorf("decode %T: 0.3 has no such object", v)
}

// lenient are the options of every decoder. Names match without regard to case,
// dashes and underscores; one that is there twice is an error in every spelling.
var lenient = json.JoinOptions(json.MatchCaseInsensitiveNames(true))

// read decodes data and hands it over. Its errors are those of Unmarshal.
func read[T any](data []byte, take func(*T) error) error {
	if kind := jsontext.Value(data).Kind(); kind != '{' && jsontext.Value(data).IsValid() {
		return a2a.Invalid("", "must be an object")
	}
	if err := checkDepth(data); err != nil {
		return err
	}
	var v T
	if err := json.Unmarshal(data, &v, lenient); err != nil {
		return protocolError(err, data)
	}
	return take(&v)
}

// checkDepth refuses JSON that nests deeper than a2a.MaxDepth.
func checkDepth(data []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > a2a.MaxDepth {
				return a2a.Errorf(a2a.CodeParse, "Invalid JSON payload: more than %d levels of nesting at byte %d", a2a.MaxDepth, i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// protocolError makes an error of the decoder one of the protocol. What is not
// JSON has no shape, so that a syntax error further on counts more.
func protocolError(err error, data []byte) error {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok || !jsontext.Value(data).IsValid() {
		offset, cause := int64(len(data)), err
		if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			offset, cause = syntactic.ByteOffset, syntactic.Err
		} else if invalid := json.Unmarshal(data, new(jsontext.Value)); invalid != nil {
			cause = invalid
		}
		text := cause.Error()
		if errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, io.EOF) {
			text = "unexpected end of input"
		}
		return &a2a.Error{Code: a2a.CodeParse, Message: fmt.Sprintf("Invalid JSON payload: %s at byte %d", text, offset), Err: err}
	}
	field := fieldOf(semantic.JSONPointer)
	if cause, ok := errors.AsType[*a2a.Error](semantic.Err); ok {
		return cause
	}
	return a2a.Invalid(field, "is not of its type")
}

// fieldOf writes a pointer as errors name fields, such as message.parts[0].text.
func fieldOf(pointer jsontext.Pointer) string {
	var b strings.Builder
	for name := range pointer.Tokens() {
		if len(name) > 64 {
			name = name[:64]
		}
		if _, err := strconv.ParseUint(name, 10, 31); err == nil {
			b.WriteString("[" + name + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(strings.ToValidUTF8(name, ""))
	}
	return b.String()
}

// sendParams are the parameters of a message.
type sendParams struct {
	Message       *message       `json:"message"`
	Request       *message       `json:"request"` // its name in a2a.proto
	Configuration *configuration `json:"configuration"`
	Metadata      jsontext.Value `json:"metadata"`
	// Before 0.2 the configuration was not an object of its own.
	ID                  string      `json:"id"`
	SessionID           string      `json:"sessionId"`
	AcceptedOutputModes []string    `json:"acceptedOutputModes"`
	PushNotification    *pushConfig `json:"pushNotification"`
	HistoryLength       *int        `json:"historyLength"`
}

type configuration struct {
	AcceptedOutputModes    []string    `json:"acceptedOutputModes"`
	HistoryLength          *int        `json:"historyLength"`
	PushNotificationConfig *pushConfig `json:"pushNotificationConfig"`
	PushNotification       *pushConfig `json:"pushNotification"` // its name in a2a.proto
	Blocking               *bool       `json:"blocking"`
}

type message struct {
	Kind             string         `json:"kind"`
	MessageID        string         `json:"messageId"`
	ContextID        string         `json:"contextId"`
	TaskID           string         `json:"taskId"`
	Role             jsontext.Value `json:"role"`
	Parts            []part         `json:"parts"`
	Content          []part         `json:"content"` // their name in a2a.proto
	Metadata         jsontext.Value `json:"metadata"`
	Extensions       []string       `json:"extensions"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds"`
}

type part struct {
	Kind     string         `json:"kind"`
	Type     string         `json:"type"` // the name of kind before 0.2
	Text     *string        `json:"text"`
	File     *file          `json:"file"`
	Data     jsontext.Value `json:"data"`
	Metadata jsontext.Value `json:"metadata"`
}

type file struct {
	Name          string  `json:"name"`
	MimeType      string  `json:"mimeType"`
	Bytes         *string `json:"bytes"`
	URI           *string `json:"uri"`
	FileWithBytes *string `json:"fileWithBytes"` // the names in a2a.proto
	FileWithURI   *string `json:"fileWithUri"`
}

type artifact struct {
	ArtifactID  string         `json:"artifactId"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parts       []part         `json:"parts"`
	Metadata    jsontext.Value `json:"metadata"`
	Extensions  []string       `json:"extensions"`
}

type status struct {
	State     jsontext.Value `json:"state"`
	Message   *message       `json:"message"`
	Update    *message       `json:"update"` // its name in a2a.proto
	Timestamp string         `json:"timestamp"`
}

// event is an answer or an event: with a kind, or in the member that a2a.proto
// has for each.
type event struct {
	Kind      string         `json:"kind"`
	ID        string         `json:"id"`
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Status    *status        `json:"status"`
	Artifacts []artifact     `json:"artifacts"`
	History   []message      `json:"history"`
	Artifact  *artifact      `json:"artifact"`
	Append    bool           `json:"append"`
	LastChunk bool           `json:"lastChunk"`
	Metadata  jsontext.Value `json:"metadata"`
	MessageID string         `json:"messageId"`
	Role      jsontext.Value `json:"role"`
	Parts     []part         `json:"parts"`
	Content   []part         `json:"content"`
	Ext       []string       `json:"extensions"`
	Refs      []string       `json:"referenceTaskIds"`
	Task      *event         `json:"task"`
	Msg       *message       `json:"msg"`
	Message   *message       `json:"message"`
	StatusUpd *event         `json:"statusUpdate"`
	ArtifUpd  *event         `json:"artifactUpdate"`
}

type taskParams struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"` // tasks/{id}, in a2a.proto
	HistoryLength *int           `json:"historyLength"`
	ConfigID      string         `json:"pushNotificationConfigId"`
	Metadata      jsontext.Value `json:"metadata"`
}

func (p *taskParams) task() string {
	if p.ID == "" {
		return strings.TrimPrefix(p.Name, "tasks/")
	}
	return p.ID
}

type pushConfig struct {
	ID             string `json:"id"`
	URL            string `json:"url"`
	Token          string `json:"token"`
	Authentication *struct {
		Schemes     []string `json:"schemes"`
		Credentials string   `json:"credentials"`
	} `json:"authentication"`
}

// pushParams are those of tasks/pushNotificationConfig/set, the body of a request
// over HTTP+JSON, or what either answers.
type pushParams struct {
	ID     string      `json:"id"` // of the task, before 0.2
	TaskID string      `json:"taskId"`
	Config *pushConfig `json:"pushNotificationConfig"`
	Before *pushConfig `json:"pushNotification"` // its name before 0.2
	Name   string      `json:"name"`             // tasks/{id}/pushNotificationConfigs/{id}, in a2a.proto
	Parent string      `json:"parent"`           // tasks/{id}
	Own    string      `json:"configId"`
	Nested *pushParams `json:"config"`
}

func (p *pushParams) config() a2a.TaskPushNotificationConfig {
	v := a2a.TaskPushNotificationConfig{TaskID: p.TaskID}
	if p.Nested != nil && p.Nested.Nested == nil {
		v = p.Nested.config()
	}
	if c := p.Config; c != nil {
		v = c.of(p.TaskID)
	} else if c := p.Before; c != nil {
		v = c.of(p.ID)
	}
	if v.ID == "" {
		v.ID = p.Own
	}
	task, id, _ := strings.Cut(strings.TrimPrefix(p.Name, "tasks/"), "/pushNotificationConfigs/")
	if v.TaskID == "" {
		v.TaskID = task
	}
	if v.TaskID == "" {
		v.TaskID = strings.TrimPrefix(p.Parent, "tasks/")
	}
	if v.ID == "" {
		v.ID = id
	}
	return v
}

func (c *pushConfig) of(task string) a2a.TaskPushNotificationConfig {
	v := a2a.TaskPushNotificationConfig{ID: c.ID, TaskID: task, URL: c.URL, Token: c.Token}
	if a := c.Authentication; a != nil && (len(a.Schemes) > 0 || a.Credentials != "") {
		v.Authentication = &a2a.AuthenticationInfo{Credentials: a.Credentials}
		if len(a.Schemes) > 0 {
			v.Authentication.Scheme = a.Schemes[0] // 1.0 has one
		}
	}
	return v
}

func (d Dialect) send(p *sendParams, v *a2a.SendMessageRequest) error {
	m := p.Message
	if m == nil {
		m = p.Request
	}
	var c a2a.SendMessageConfiguration
	blocks := true
	switch own := p.Configuration; {
	case own != nil:
		c.AcceptedOutputModes, c.HistoryLength = own.AcceptedOutputModes, own.HistoryLength
		push := own.PushNotificationConfig
		if push == nil {
			push = own.PushNotification
		}
		c.TaskPushNotificationConfig = push.inline()
		switch {
		case own.Blocking != nil:
			blocks = *own.Blocking
		case d == GRPC, d == REST && m != nil && m.Content != nil:
			blocks = false // ProtoJSON leaves out what is false
		}
	case d == TasksSend:
		c.AcceptedOutputModes, c.HistoryLength = p.AcceptedOutputModes, p.HistoryLength
		c.TaskPushNotificationConfig = p.PushNotification.inline()
	}
	c.ReturnImmediately = !blocks
	v.Configuration = &c
	if err := object(&v.Metadata, p.Metadata, "metadata"); err != nil {
		return err
	}
	if m == nil {
		return nil
	}
	v.Message = new(a2a.Message)
	return d.message(m, v.Message, "message")
}

func (c *pushConfig) inline() *a2a.TaskPushNotificationConfig {
	if c == nil {
		return nil
	}
	v := c.of("")
	return &v
}

func (d Dialect) message(m *message, v *a2a.Message, at string) error {
	if m.Kind != "" && m.Kind != "message" {
		return a2a.Invalid(at+".kind", "must be message")
	}
	*v = a2a.Message{
		MessageID: m.MessageID, ContextID: m.ContextID, TaskID: m.TaskID,
		Extensions: m.Extensions, ReferenceTaskIDs: m.ReferenceTaskIDs,
	}
	if err := object(&v.Metadata, m.Metadata, at+".metadata"); err != nil {
		return err
	}
	var err error
	if v.Role, err = parseRole(m.Role, at+".role"); err != nil {
		return err
	}
	list, name := m.Parts, at+".parts"
	if list == nil && m.Content != nil {
		list, name = m.Content, at+".content"
	}
	v.Parts, err = d.parts(list, name)
	return err
}

func parseRole(value jsontext.Value, at string) (a2a.Role, error) {
	switch value.Kind() {
	case 0, 'n':
		return a2a.RoleUnspecified, nil
	case '0':
		switch string(value) {
		case "0":
			return a2a.RoleUnspecified, nil
		case "1":
			return a2a.RoleUser, nil
		case "2":
			return a2a.RoleAgent, nil
		}
	case '"':
		switch text := textOf(value); strings.TrimPrefix(strings.ToLower(text), "role_") {
		case "user":
			return a2a.RoleUser, nil
		case "agent":
			return a2a.RoleAgent, nil
		case "unspecified", "":
			return a2a.RoleUnspecified, nil
		}
	}
	return 0, a2a.Invalid(at, "must be user or agent")
}

func textOf(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value) // it was checked
	return string(text)
}

func (d Dialect) parts(list []part, at string) ([]a2a.Part, error) {
	if list == nil {
		return nil, nil
	}
	parts := make([]a2a.Part, len(list))
	for i := range list {
		if err := d.part(&list[i], &parts[i], at+"["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (d Dialect) part(p *part, v *a2a.Part, at string) error {
	kind := p.Kind
	if kind == "" {
		kind = p.Type
	}
	named := kind != ""
	hasData := len(p.Data) > 0 && p.Data.Kind() != 'n'
	if !named {
		n := 0
		for _, c := range [...]struct {
			is   bool
			kind string
		}{{p.Text != nil, "text"}, {p.File != nil, "file"}, {hasData, "data"}} {
			if c.is {
				kind = c.kind
				n++
			}
		}
		if n > 1 {
			return a2a.Invalid(at, "has more than one content")
		}
	}
	if err := object(&v.Metadata, p.Metadata, at+".metadata"); err != nil {
		return err
	}
	switch {
	case kind == "text" && p.Text != nil:
		v.Kind, v.Text = a2a.PartText, *p.Text
	case kind == "file" && p.File != nil:
		return d.file(p.File, v, at+".file")
	case kind == "data" && hasData:
		data := p.Data
		if d.proto() && !named {
			var outer struct {
				Data jsontext.Value `json:"data"`
			}
			if err := json.Unmarshal(data, &outer, json.RejectUnknownMembers(true)); err == nil && outer.Data != nil {
				data = outer.Data // a2a.proto has an object around it
			}
		}
		v.Kind, v.Data = a2a.PartData, data
		return unwrap(v)
	case kind == "text", kind == "file", kind == "data":
		return a2a.Invalid(at+"."+kind, "is required")
	case named:
		return a2a.Invalid(at+".kind", "must be text, file or data")
	}
	return nil
}

// wrapped is the member of a part's metadata that says that its data is no object
// in 1.0, and is the member value of an object in 0.3. The official libraries have
// the same.
const wrapped = "data_part_compat"

// unwrap undoes what wrap does.
func unwrap(v *a2a.Part) error {
	if v.Metadata == nil || !strings.Contains(string(v.Metadata), wrapped) {
		return nil
	}
	var outer struct {
		Value jsontext.Value `json:"value"`
	}
	rest, is, err := without(v.Metadata, wrapped)
	if err != nil || !is {
		return err
	}
	if err := json.Unmarshal(v.Data, &outer); err != nil || outer.Value == nil {
		return nil // somebody else's member of that name
	}
	v.Data, v.Metadata = outer.Value, rest
	return nil
}

// without returns an object without the member of that name, and whether that
// was true. An object that is empty then is nil.
func without(object a2a.JSON, name string) (rest a2a.JSON, is bool, err error) {
	if len(object) == 0 {
		return nil, false, nil
	}
	d := jsontext.NewDecoder(strings.NewReader(string(object)))
	if _, err := d.ReadToken(); err != nil {
		return nil, false, err
	}
	rest = append(rest, '{')
	for d.PeekKind() == '"' {
		key, err := d.ReadValue()
		if err != nil {
			return nil, false, err
		}
		key = append(jsontext.Value(nil), key...)
		value, err := d.ReadValue()
		if err != nil {
			return nil, false, err
		}
		if textOf(key) == name {
			is = string(value) == "true"
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, key...), ':'), value...)
	}
	if len(rest) == 1 {
		return nil, is, nil
	}
	return append(rest, '}'), is, nil
}

func (d Dialect) file(f *file, v *a2a.Part, at string) error {
	v.MediaType, v.Filename = f.MimeType, f.Name
	content, name, proto := f.Bytes, ".bytes", false
	if content == nil && f.FileWithBytes != nil {
		content, name, proto = f.FileWithBytes, ".fileWithBytes", true
	}
	uri := f.URI
	if uri == nil {
		uri = f.FileWithURI
	}
	if content != nil && uri != nil {
		switch { // some peers write both, and leave one empty
		case *content == "":
			content = nil
		case *uri == "":
			uri = nil
		default:
			return a2a.Invalid(at, "has both bytes and uri")
		}
	}
	switch {
	case uri != nil:
		v.Kind, v.URL = a2a.PartURL, *uri
	case content != nil:
		raw, ok := decodeBase64(*content)
		if !ok {
			return a2a.Invalid(at+name, "is not base64")
		}
		if proto {
			// The official libraries put the text of 0.3's bytes, which is base64
			// already, where a2a.proto has bytes.
			if inner, ok := decodeBase64Strict(string(raw)); ok {
				raw = inner
			}
		}
		v.Kind, v.Raw = a2a.PartRaw, raw
	default:
		return a2a.Invalid(at, "needs bytes or uri")
	}
	return nil
}

// decodeBase64 reads base64 of either alphabet, padded or not.
func decodeBase64(text string) ([]byte, bool) {
	text = strings.TrimRight(text, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	raw, err := encoding.DecodeString(text)
	if raw == nil {
		raw = []byte{}
	}
	return raw, err == nil
}

// decodeBase64Strict reads base64 as encoders write it.
func decodeBase64Strict(text string) ([]byte, bool) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if raw == nil {
		raw = []byte{}
	}
	return raw, err == nil && len(text) == base64.StdEncoding.EncodedLen(len(raw))
}

// object takes free JSON that has to be an object; null is none.
func object(into *a2a.JSON, value jsontext.Value, at string) error {
	switch value.Kind() {
	case 0, 'n':
		return nil
	case '{':
		*into = value
		return nil
	}
	return a2a.Invalid(at, "must be an object")
}

func (d Dialect) status(s *status, v *a2a.TaskStatus, at string) error {
	if s == nil {
		return nil
	}
	switch s.State.Kind() {
	case 0, 'n':
	case '"':
		state, ok := parseState(textOf(s.State))
		if !ok {
			return a2a.Invalid(at+".state", "is no state of a task")
		}
		v.State = state
	case '0':
		n, err := strconv.ParseInt(string(s.State), 10, 8)
		if err != nil || n < 0 || int(n) >= len(stateNames) {
			return a2a.Invalid(at+".state", "is no state of a task")
		}
		v.State = a2a.TaskState(n)
	default:
		return a2a.Invalid(at+".state", "is no state of a task")
	}
	if s.Timestamp != "" {
		if v.Timestamp = parseTime(s.Timestamp); v.Timestamp.IsZero() {
			return a2a.Invalid(at+".timestamp", "is no time of RFC 3339")
		}
	}
	m := s.Message
	if m == nil {
		m = s.Update
	}
	if m == nil {
		return nil
	}
	v.Message = new(a2a.Message)
	return d.message(m, v.Message, at+".message")
}

// parseTime reads a time of RFC 3339; 0.3 lets the zone be missing, which is UTC.
func parseTime(text string) time.Time {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

func (d Dialect) task(p *event, v *a2a.Task) error {
	*v = a2a.Task{ID: p.ID, ContextID: p.ContextID}
	if err := d.status(p.Status, &v.Status, "status"); err != nil {
		return err
	}
	if p.Artifacts != nil {
		v.Artifacts = make([]a2a.Artifact, len(p.Artifacts))
	}
	for i := range p.Artifacts {
		if err := d.artifact(&p.Artifacts[i], &v.Artifacts[i], "artifacts["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	if p.History != nil {
		v.History = make([]a2a.Message, len(p.History))
	}
	for i := range p.History {
		if err := d.message(&p.History[i], &v.History[i], "history["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return object(&v.Metadata, p.Metadata, "metadata")
}

func (d Dialect) artifact(a *artifact, v *a2a.Artifact, at string) (err error) {
	*v = a2a.Artifact{ArtifactID: a.ArtifactID, Name: a.Name, Description: a.Description, Extensions: a.Extensions}
	if v.Parts, err = d.parts(a.Parts, at+".parts"); err != nil {
		return err
	}
	return object(&v.Metadata, a.Metadata, at+".metadata")
}

func (d Dialect) event(p *event, v *a2a.StreamResponse) error {
	switch {
	case p.Kind == "":
		return d.protoEvent(p, v)
	case p.Kind == "task":
		v.Task = new(a2a.Task)
		return d.task(p, v.Task)
	case p.Kind == "message":
		v.Message = new(a2a.Message)
		return d.message(&message{
			MessageID: p.MessageID, ContextID: p.ContextID, TaskID: p.TaskID, Role: p.Role, Parts: p.Parts,
			Content: p.Content, Metadata: p.Metadata, Extensions: p.Ext, ReferenceTaskIDs: p.Refs,
		}, v.Message, "message")
	case p.Kind == "status-update":
		v.StatusUpdate = &a2a.TaskStatusUpdateEvent{TaskID: p.TaskID, ContextID: p.ContextID}
		if err := object(&v.StatusUpdate.Metadata, p.Metadata, "metadata"); err != nil {
			return err
		}
		return d.status(p.Status, &v.StatusUpdate.Status, "status")
	case p.Kind == "artifact-update":
		v.ArtifactUpdate = &a2a.TaskArtifactUpdateEvent{TaskID: p.TaskID, ContextID: p.ContextID, Append: p.Append, LastChunk: p.LastChunk}
		if err := object(&v.ArtifactUpdate.Metadata, p.Metadata, "metadata"); err != nil {
			return err
		}
		if p.Artifact == nil {
			return a2a.Invalid("artifact", "is required")
		}
		return d.artifact(p.Artifact, &v.ArtifactUpdate.Artifact, "artifact")
	}
	return a2a.Invalid("kind", "is no kind of an event")
}

// protoEvent reads an event that stands in a member of its own, or, from peers
// that leave the kind away, one that its members tell.
func (d Dialect) protoEvent(p *event, v *a2a.StreamResponse) error {
	inner := func(e *event, kind string) error {
		if e.Task != nil || e.StatusUpd != nil || e.ArtifUpd != nil {
			return a2a.Invalid("", "holds an event within an event")
		}
		e.Kind = kind
		return d.event(e, v)
	}
	m := p.Message
	if m == nil {
		m = p.Msg
	}
	switch {
	case p.Task != nil:
		return inner(p.Task, "task")
	case m != nil:
		v.Message = new(a2a.Message)
		return d.message(m, v.Message, "message")
	case p.StatusUpd != nil:
		return inner(p.StatusUpd, "status-update")
	case p.ArtifUpd != nil:
		return inner(p.ArtifUpd, "artifact-update")
	case p.Artifact != nil:
		return inner(p, "artifact-update")
	case p.ID != "" && p.Status != nil:
		return inner(p, "task")
	case p.TaskID != "" && p.Status != nil:
		return inner(p, "status-update")
	case p.Parts != nil || p.Content != nil:
		return inner(p, "message")
	}
	return a2a.Invalid("kind", "is required")
}
