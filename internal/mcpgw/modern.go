package mcpgw

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// post takes a message. What its headers say decides which era it is of; without
// them, the message does (VER-04).
func (x *exchange) post() {
	if err := x.checkTypes(); err != nil {
		x.refuse(err)
		return
	}
	for name, values := range x.r.Header {
		if len(values) > 1 && strings.HasPrefix(strings.ToLower(name), "mcp-") { // SEC-08
			x.refuseAfterBody(mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s stands there twice", clip(name, 100)))
			return
		}
	}
	version := x.r.Header.Get(mcp.KeyVersion)
	switch {
	case mcp.IsModern(version), version == "" && x.r.Header.Get(mcp.HeaderMethod) != "":
		x.modern(version)
	default:
		x.legacyPost(version)
	}
}

// checkTypes checks what the client sends, and what it takes (TRN-04).
func (x *exchange) checkTypes() error {
	if !isJSON(x.r.Header.Get("Content-Type")) {
		return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "Send application/json", Status: http.StatusUnsupportedMediaType}
	}
	if accept := x.r.Header["Accept"]; len(accept) > 0 && !takes(accept, "application/json") && !takes(accept, "text/event-stream") {
		return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The answer is application/json or text/event-stream; take both", Status: http.StatusNotAcceptable}
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

// takesAll is what clients of MCP write, all of them (TRN-04).
const takesAll = "application/json, text/event-stream"

func takes(accept []string, kind string) bool {
	if len(accept) == 1 && accept[0] == takesAll && (kind == "application/json" || kind == "text/event-stream") {
		return true
	}
	family, _, _ := strings.Cut(kind, "/")
	for _, line := range accept {
		for one := range strings.SplitSeq(line, ",") {
			one, _, _ = strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(one)) {
			case kind, family + "/*", "*/*":
				return true
			}
		}
	}
	return false
}

// refuseAfterBody refuses a request that its headers have decided about. The body is
// read for the id of the answer alone, where that is little work.
func (x *exchange) refuseAfterBody(err error) {
	if x.r.ContentLength >= 0 && x.r.ContentLength <= 64<<10 {
		if body, rerr := x.read(nil); rerr == nil {
			x.message, _ = mcp.Scan(body, mcp.Limits{Depth: x.h.opts.Depth})
		}
	}
	x.refuseAny(err)
}

// refuseAny refuses in the way that the kind of error has.
func (x *exchange) refuseAny(err error) {
	switch e := err.(type) { //nolint:errorlint // they are never wrapped
	case *ScopeError:
		x.refuseScopes(e)
	case *Result:
		x.answer(errorResult(e.Message))
	default:
		x.refuse(err)
	}
}

// errorResult is the result of a tool that has failed (TOL-03).
func errorResult(message string) jsontext.Value {
	out := []byte(`{"resultType":"complete","content":[{"type":"text","text":`)
	return append(mustQuote(out, message), `}],"isError":true}`...)
}

// modern serves a request of a revision without sessions. Its headers say what it
// asks for, policy decides by them, and only then the body is read and held against
// them (TRN-15 to TRN-25).
func (x *exchange) modern(version string) {
	x.version = clip(version, 20)
	method := x.r.Header.Get(mcp.HeaderMethod)
	var call *call
	var early error
	if named, err := x.header(method); err != nil {
		early = err
	} else if mcp.NameParam(method) != "" && isTarget(method) && version != "" {
		call, early = x.admit(method, named)
	}
	if call != nil {
		defer call.release()
	}
	if early != nil && (x.r.ContentLength > 64<<10 || x.r.ContentLength < 0) {
		x.method = clip(method, 100)
		if x.r.ProtoMajor == 1 { // or net/http waits for the body before it answers
			x.w.Header().Set("Connection", "close")
		}
		x.refuseAny(early)
		return
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	body, err := x.read(*buf)
	if err != nil {
		x.refuse(err)
		return
	}
	*buf = body
	m, err := mcp.Scan(body, mcp.Limits{Depth: x.h.opts.Depth})
	if err != nil {
		x.refuse(err)
		return
	}
	x.message = m
	x.method = clip(m.Method, 100)
	if err := x.agree(m, version, method); err != nil {
		x.refuse(err)
		return
	}
	switch {
	case m.IsNotification():
		x.outcome = "OK"
		x.send(http.StatusAccepted, "", nil) // TRN-05; none is defined (TRN-07)
	case early != nil:
		x.refuseAny(early)
	default:
		x.serve(call)
	}
}

// header checks the headers that mirror the message, as far as that is possible
// without it, and returns what Mcp-Name carries.
func (x *exchange) header(method string) (named string, err error) {
	value := x.r.Header.Get(mcp.HeaderName)
	if value == "" {
		return "", nil
	}
	named, err = mcp.UnescapeHeader(value)
	if err != nil { // TRN-23
		return "", mcp.Errorf(mcp.CodeHeaderMismatch, "%s cannot be read: %w", mcp.HeaderName, err)
	}
	return named, nil
}

// agree checks that headers and message say the same.
func (x *exchange) agree(m *mcp.Message, version, method string) error {
	if m.IsResponse() { // BAS-06
		return mcp.Errorf(mcp.CodeInvalidRequest, "Clients send no responses; answers go into inputResponses")
	}
	said := m.MetaValue(mcp.MetaVersion)
	if m.IsNotification() {
		return nil
	}
	mismatch := func(header string) error {
		return mcp.Errorf(mcp.CodeHeaderMismatch, "%s does not say what the message says", header)
	}
	if said != nil && m.MetaString(mcp.MetaVersion) == "" {
		return invalidMeta("%s is not a string", mcp.MetaVersion)
	}
	switch {
	case version == "":
		return mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s is missing", mcp.HeaderVersion)
	case said != nil && m.MetaString(mcp.MetaVersion) != version: // TRN-15
		return mismatch(mcp.HeaderVersion)
	case !slices.Contains(x.h.modern, version): // TRN-16
		return mcp.UnsupportedVersion(clip(version, 100), x.h.opts.Revisions)
	case method == "":
		return mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s is missing", mcp.HeaderMethod)
	case method != m.Method: // TRN-19
		return mismatch(mcp.HeaderMethod)
	}
	if param := mcp.NameParam(m.Method); param != "" && !m.Name.IsZero() { // TRN-20, TRN-21
		value := x.r.Header.Get(mcp.HeaderName)
		named, err := mcp.UnescapeHeader(value)
		if err != nil || value == "" || named != m.NameValue() {
			return mismatch(mcp.HeaderName)
		}
	} else if x.r.Header.Get(mcp.HeaderName) != "" && param != "" {
		return mismatch(mcp.HeaderName)
	}
	if said == nil { // MET-04
		return invalidMeta("%s is missing in _meta", mcp.MetaVersion)
	}
	if c := m.MetaValue(mcp.MetaCapabilities); c.Kind() != '{' {
		return invalidMeta("%s in _meta is no object", mcp.MetaCapabilities)
	}
	if c := m.MetaValue(mcp.MetaClient); c != nil && c.Kind() != '{' {
		return invalidMeta("%s in _meta is no object", mcp.MetaClient)
	}
	if level := m.MetaValue(mcp.MetaLogLevel); level != nil && !slices.Contains(logLevels, m.MetaString(mcp.MetaLogLevel)) { // MET-09
		return invalidMeta("%s in _meta is no level of logs", mcp.MetaLogLevel)
	}
	if token := m.MetaValue(mcp.MetaProgress); token != nil && token.Kind() != '"' && token.Kind() != '0' { // CAN-04
		return invalidMeta("%s in _meta is neither a string nor a number", mcp.MetaProgress)
	}
	return nil
}

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func invalidMeta(format string, args ...any) error {
	e := mcp.Errorf(mcp.CodeInvalidParams, format, args...)
	e.Status = http.StatusBadRequest
	return e
}

// isTarget reports whether a method is one that servers answer by a name.
func isTarget(method string) bool {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		return true
	}
	return false
}

// serve carries out a modern request. Call is what its headers have admitted.
func (x *exchange) serve(c *call) {
	switch m := x.message; m.Method {
	case mcp.MethodDiscover:
		x.answerNamed(x.h.opts.Catalog.Discover(x.ctx(), x.view))
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		x.list(m)
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		if c == nil { // there was no name
			x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The name is missing, or no string"))
			return
		}
		x.run(c)
	case mcp.MethodComplete:
		x.complete(m)
	case mcp.MethodListen:
		x.listen()
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		x.task(m)
	default: // TRN-17, VER-09
		x.refuse(mcp.Errorf(mcp.CodeMethodNotFound, "There is no method %s", clip(m.Method, 100)))
	}
}

// list answers a request for a list.
func (x *exchange) list(m *mcp.Message) {
	cursor := m.Param("cursor")
	if cursor != nil && cursor.Kind() != '"' {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The cursor is no string"))
		return
	}
	text := m.ParamString("cursor")
	if cursor != nil && text == "" { // PAG-01: it is one, and none of ours
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The cursor is not known"))
		return
	}
	x.answerNamed(x.h.opts.Catalog.List(x.ctx(), x.view, m.Method, text))
}

// complete asks a server to complete an argument of a prompt or a template.
func (x *exchange) complete(m *mcp.Message) {
	var params struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
	}
	if err := m.Decode(&params); err != nil {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "The params are not those of a completion"))
		return
	}
	name := params.Ref.Name
	if params.Ref.Type == "ref/resource" {
		name = params.Ref.URI
	}
	c, err := x.admit(m.Method, name)
	if err != nil {
		x.refuseAny(err)
		return
	}
	defer c.release()
	if params.Ref.Type == "ref/prompt" && c.target.Name != name {
		ref := mustQuote([]byte(`{"type":"ref/prompt","name":`), c.target.Name)
		c.message = m.WithParam("ref", append(ref, '}'))
	}
	x.run(c)
}

// answerOf answers with a result, or refuses.
func (x *exchange) answerOf(result jsontext.Value, err error) {
	if err != nil {
		x.refuseAny(err)
		return
	}
	x.answer(result)
}

// answerNamed answers with a result that can be large, whose _meta stands first if it
// has one, so that the name of the gateway (MET-06) goes in without reading it.
func (x *exchange) answerNamed(result jsontext.Value, err error) {
	if err != nil || x.old {
		x.answerOf(result, err)
		return
	}
	const meta = `{"_meta":{`
	end, rest := `,`, bytes.TrimPrefix(result, []byte(meta))
	if len(rest) == len(result) {
		end, rest = `},`, result[1:]
	}
	body := make([]byte, 0, len(result)+len(x.messageID())+len(x.h.server)+200)
	body = append(append(append(body, `{"jsonrpc":"2.0","id":`...), x.messageID()...), `,"result":`...)
	body = append(append(append(body, meta...), `"`+mcp.MetaServer+`":`...), x.h.server...)
	x.reply(append(append(append(body, end...), rest...), '}'))
}

// answer sends a result of the gateway's own, with its name (MET-06).
func (x *exchange) answer(result jsontext.Value) {
	body := mcp.AppendResult(nil, x.messageID(), result)
	if m, err := mcp.Scan(body, mcp.Limits{Depth: 1 << 20}); err == nil {
		if x.old {
			body = x.downTo(m)
		} else {
			body = m.WithMeta(mcp.MetaServer, x.h.server).Body
		}
	}
	x.reply(body)
}

// reply sends the response.
func (x *exchange) reply(body []byte) {
	if x.out != nil {
		x.out.last(http.StatusOK, body)
		return
	}
	x.send(http.StatusOK, "application/json", body)
}
