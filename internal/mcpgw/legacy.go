package mcpgw

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// legacyPost takes a message of a client of an old revision, or one whose headers do
// not say of which it is. The message has to be read to know what it is about
// (LEG-13).
func (x *exchange) legacyPost(version string) {
	if len(x.h.legacy) == 0 && version == "" {
		x.modern("")
		return
	}
	body, err := x.read(nil)
	if err != nil {
		x.refuse(err)
		return
	}
	if version != "" && !slices.Contains(x.h.legacy, version) { // LEG-04, TRN-16
		x.message, _ = mcp.Scan(body, mcp.Limits{Depth: x.h.opts.Depth})
		x.refuse(mcp.UnsupportedVersion(clip(version, 100), x.h.opts.Revisions))
		return
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		x.legacyBatch(version, trimmed)
		return
	}
	m, err := mcp.Scan(body, mcp.Limits{Depth: x.h.opts.Depth})
	if err != nil {
		x.refuse(err)
		return
	}
	x.message, x.method = m, clip(m.Method, 100)
	if m.MetaValue(mcp.MetaVersion) != nil { // a modern message, but for its headers (TRN-15, TRN-27)
		x.refuse(mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s is missing, or does not say what the message says", mcp.HeaderVersion))
		return
	}
	x.old, x.version = true, version
	if m.Method == mcp.MethodInitialize && m.ID != nil {
		x.initialize(m)
		return
	}
	if !x.join(version) {
		return
	}
	if m.ID == nil || m.IsResponse() {
		if err := x.told(m); err != nil {
			x.refuse(err)
			return
		}
		x.send(http.StatusAccepted, "", nil)
		return
	}
	x.legacyRequest(m)
}

// join finds the session that a request is of. It reports whether there is one; if
// not, the request was refused.
func (x *exchange) join(version string) bool {
	x.old, x.version = true, version
	s, err := x.h.sessions.get(x.ctx(), x.view, x.r.Header.Get(mcp.HeaderSession))
	if err == nil && version != "" && version != s.Version {
		err = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The session speaks " + s.Version, Status: http.StatusBadRequest}
	}
	if err != nil {
		x.refuse(err)
		return false
	}
	x.h.sessions.touch(x.ctx(), s)
	x.session, x.version = s, s.Version
	return true
}

// initialize begins a session (LEG-01).
func (x *exchange) initialize(m *mcp.Message) {
	var params struct {
		Version      string         `json:"protocolVersion"`
		Capabilities jsontext.Value `json:"capabilities"`
		Client       jsontext.Value `json:"clientInfo"`
	}
	if err := m.Decode(&params); err != nil || params.Version == "" || params.Capabilities.Kind() != '{' || params.Client.Kind() != '{' {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The params are not those of initialize: protocolVersion, capabilities, clientInfo"))
		return
	}
	if len(x.h.legacy) == 0 { // VER-08
		x.refuse(mcp.UnsupportedVersion(clip(params.Version, 100), x.h.opts.Revisions))
		return
	}
	if len(params.Capabilities)+len(params.Client) > 16<<10 {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The capabilities and the clientInfo are larger than 16 KiB"))
		return
	}
	s := &session{Endpoint: x.view.Endpoint.Path(), Version: x.h.legacy[0], Client: params.Client, Capabilities: params.Capabilities}
	if slices.Contains(x.h.legacy, params.Version) {
		s.Version = params.Version
	}
	x.version = s.Version
	result, err := x.greeting(s.Version)
	if err == nil {
		err = x.h.sessions.make(x.ctx(), &x.caller, s)
	}
	if err != nil {
		x.refuseAny(err)
		return
	}
	x.w.Header().Set(mcp.HeaderSession, s.ID)
	x.answer(result)
}

// greeting is the result of initialize: what server/discover says, in the words of
// legacy revisions.
func (x *exchange) greeting(version string) (jsontext.Value, error) {
	found, err := x.h.opts.Catalog.Discover(x.ctx(), x.view)
	if err != nil {
		return nil, err
	}
	var said struct {
		Capabilities map[string]jsontext.Value `json:"capabilities"`
		Instructions string                    `json:"instructions"`
	}
	if err := json.Unmarshal(found, &said); err != nil {
		return nil, unavailable(err)
	}
	if said.Capabilities == nil {
		said.Capabilities = map[string]jsontext.Value{}
	}
	delete(said.Capabilities, "extensions") // TSK-20
	said.Capabilities["logging"] = jsontext.Value("{}")
	return json.Marshal(struct {
		Version      string                    `json:"protocolVersion"`
		Capabilities map[string]jsontext.Value `json:"capabilities"`
		Server       jsontext.Value            `json:"serverInfo"`
		Instructions string                    `json:"instructions,omitzero"`
	}{version, said.Capabilities, x.h.server, said.Instructions}, json.Deterministic(true))
}

// told takes what needs no answer: a notification, or an answer of the client.
func (x *exchange) told(m *mcp.Message) error {
	switch {
	case m.IsResponse():
		return x.h.sessions.reply(x.ctx(), x.view, x.session, m)
	case m.Method == mcp.NotifyCancelled: // CAN-01
		x.h.sessions.cancel(x.ctx(), x.view, x.session, m.Param("requestId"))
	}
	return nil
}

// legacyRequest serves a request of a session.
func (x *exchange) legacyRequest(m *mcp.Message) {
	ctx, leave, err := x.h.sessions.enter(x.r, x.view, x.session, m.ID)
	if err != nil {
		x.refuse(err)
		return
	}
	defer leave()
	x.base = ctx
	switch m.Method {
	case mcp.MethodPing:
		x.answer(jsontext.Value("{}"))
	case mcp.MethodSetLevel:
		x.setLevel(m)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		x.subscription(m)
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodComplete:
		x.message = x.up(m)
		x.serve(nil)
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		x.message = x.up(m)
		x.legacyCall()
	default:
		x.refuse(mcp.Errorf(mcp.CodeMethodNotFound, "There is no method %s", clip(m.Method, 100)))
	}
}

// legacyCall makes a call of a tool, a prompt or a resource.
func (x *exchange) legacyCall() {
	if x.message.Name.IsZero() {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The name is missing, or no string"))
		return
	}
	c, err := x.admit(x.message.Method, x.message.NameValue())
	if err != nil {
		x.refuseAny(err)
		return
	}
	defer c.release()
	x.run(c)
}

// defaultLevel is the least level of logs that a legacy client gets which has not
// said another.
const defaultLevel = "info"

// up returns a request of a legacy client as a modern one would have sent it: what
// the session knows of the client stands in _meta, and what only modern clients say
// is left out.
func (x *exchange) up(m *mcp.Message) *mcp.Message {
	for _, key := range []string{"requestState", "inputResponses", "task"} { // TSK-13
		m = m.WithParam(key, nil)
	}
	level := x.session.Level
	if level == "" {
		level = defaultLevel
	}
	m = m.WithMeta(mcp.MetaLogLevel, mustQuote(nil, level))
	if x.session.Client != nil {
		m = m.WithMeta(mcp.MetaClient, x.session.Client)
	}
	m = m.WithMeta(mcp.MetaCapabilities, x.session.capabilities().AppendJSON(nil))
	return m.WithMeta(mcp.MetaVersion, mustQuote(nil, x.h.upward()))
}

// upward is the revision that requests of legacy clients are turned into.
func (h *Handler) upward() string {
	if len(h.modern) > 0 {
		return h.modern[0]
	}
	return mcp.Modern
}

// setLevel says which logs a client wants.
func (x *exchange) setLevel(m *mcp.Message) {
	level := m.ParamString("level")
	if !slices.Contains(logLevels, level) {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The level is none of logs"))
		return
	}
	err := x.h.sessions.change(x.ctx(), x.view, x.session, func(s *session) error {
		s.Level = level
		return nil
	})
	x.answerOf(jsontext.Value("{}"), err)
}

// subscription begins or ends that a client hears of changes of a resource
// (LEG-12).
func (x *exchange) subscription(m *mcp.Message) {
	uri := m.ParamString("uri")
	x.target = uri
	if uri == "" || len(uri) > 4096 {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The uri is missing, or too long"))
		return
	}
	if m.Method == mcp.MethodSubscribe {
		if _, err := x.h.opts.Catalog.Find(x.ctx(), x.view, m.Method, uri); err != nil {
			x.method = mcp.MethodReadResource // whose code for what is not there is that of this one
			x.refuseAny(err)
			return
		}
	}
	err := x.h.sessions.change(x.ctx(), x.view, x.session, func(s *session) error {
		i := slices.Index(s.Subscribed, uri)
		switch {
		case m.Method == mcp.MethodUnsubscribe && i >= 0:
			s.Subscribed = slices.Delete(s.Subscribed, i, i+1)
		case m.Method == mcp.MethodSubscribe && i < 0 && len(s.Subscribed) >= maxSubscriptions:
			return mcp.Errorf(mcp.CodeInvalidParams, "The session has subscribed to %d resources already", maxSubscriptions)
		case m.Method == mcp.MethodSubscribe && i < 0:
			s.Subscribed = append(s.Subscribed, uri)
		}
		return nil
	})
	x.answerOf(jsontext.Value("{}"), err)
}

// legacyMethod serves GET and DELETE, which only sessions have (LEG-02, LEG-03).
func (x *exchange) legacyMethod() {
	version := x.r.Header.Get(mcp.KeyVersion)
	if len(x.h.legacy) == 0 || mcp.IsModern(version) { // TRN-31
		x.notAllowed()
		return
	}
	if version != "" && !slices.Contains(x.h.legacy, version) {
		x.refuse(mcp.UnsupportedVersion(clip(version, 100), x.h.opts.Revisions))
		return
	}
	x.method = x.r.Method
	if x.r.Method == http.MethodGet {
		if !takes(x.r.Header["Accept"], "text/event-stream") {
			x.refuse(&mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The answer is text/event-stream", Status: http.StatusNotAcceptable})
			return
		}
		if x.join(version) {
			x.stream()
		}
		return
	}
	if !x.join(version) {
		return
	}
	if err := x.h.sessions.end(x.ctx(), x.view, x.session.ID); err != nil {
		x.refuse(err)
		return
	}
	x.send(http.StatusNoContent, "", nil)
}

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// legacyBatch takes messages together, which one revision alone has (LEG-05). Its
// requests are served one after the other.
func (x *exchange) legacyBatch(version string, body []byte) {
	x.method = "batch"
	refused := mcp.Errorf(mcp.CodeInvalidRequest, "Batches are not accepted; send one message")
	if !slices.Contains(x.h.legacy, revision202503) || version != "" && version != revision202503 || x.r.Header.Get(mcp.HeaderSession) == "" {
		x.refuse(refused)
		return
	}
	messages, err := messagesOf(body, x.h.opts.Depth)
	if err != nil {
		x.refuse(err)
		return
	}
	if !x.join(version) {
		return
	}
	if x.version != revision202503 {
		x.refuse(refused)
		return
	}
	b := &batch{}
	for _, m := range messages {
		if m.ID == nil || m.IsResponse() {
			if err := x.told(m); err != nil {
				x.refuse(err)
				return
			}
			continue
		}
		b.requests = append(b.requests, m)
	}
	if len(b.requests) == 0 {
		x.send(http.StatusAccepted, "", nil)
		return
	}
	x.serveBatch(b)
}

// messagesOf reads the messages of a batch.
func messagesOf(body []byte, depth int) ([]*mcp.Message, error) {
	var list []*mcp.Message
	var values []jsontext.Value
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if err := json.UnmarshalDecode(dec, &values); err != nil {
		return nil, &mcp.Error{Code: mcp.CodeParseError, Message: "The batch is not JSON", Err: err}
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, mcp.Errorf(mcp.CodeParseError, "Something follows the batch")
	}
	if len(values) == 0 || len(values) > maxBatch {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "A batch has 1 to %d messages", maxBatch)
	}
	ids := map[string]bool{}
	for _, value := range values {
		m, err := mcp.Scan(value, mcp.Limits{Depth: depth})
		if err != nil {
			return nil, err
		}
		if id := string(m.ID); m.Method != "" && id != "" {
			if ids[id] { // BAS-02
				return nil, mcp.Errorf(mcp.CodeInvalidRequest, "Two requests of the batch have the same id")
			}
			ids[id] = true
		}
		list = append(list, m)
	}
	return list, nil
}

// batch is what comes of messages that came together.
type batch struct {
	requests []*mcp.Message
	answers  [][]byte // where the client takes no streams
}

// serveBatch serves the requests of a batch. The answers go over one stream, or come
// together.
func (x *exchange) serveBatch(b *batch) {
	out := x.open()
	defer out.close()
	for _, m := range b.requests {
		one := &exchange{
			h: x.h, w: x.w, r: x.r, began: x.began, id: x.id, view: x.view, caller: x.caller, remote: x.remote, message: m, version: x.version,
			old: true, method: clip(m.Method, 100), session: x.session, batch: b, out: &sink{x: x, parent: out, streams: out.streams, batch: b},
		}
		one.view.Caller = &one.caller
		one.legacyRequest(m)
		one.record()
	}
	if !out.streams {
		x.send(http.StatusOK, "application/json", append(append([]byte{'['}, bytes.Join(b.answers, []byte{','})...), ']'))
		return
	}
	out.finish()
}

// ctx returns the context of the exchange. That of a call of a legacy client is not
// that of its connection (LEG-06).
func (x *exchange) ctx() context.Context {
	if x.base != nil {
		return x.base
	}
	return x.r.Context()
}
