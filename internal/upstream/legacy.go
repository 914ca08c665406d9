package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// cancelTime is how long a server may take to hear that a call is given up.
const cancelTime = 5 * time.Second

// legacyServer is what requests of revision 2026-07-28 meet at a legacy session.
type legacyServer struct {
	*target
	held    *holds
	tools   *toolbox
	ttl     time.Duration // of lists
	private bool          // what lists hold may differ by caller
	hub     *hub
	open    *pool[*session]
}

// hearAll has all sessions of a caller bring what belongs to no request.
func (l *legacyServer) hearAll(who string) {
	l.open.each(func(_ string, s *session, _ int) {
		if s.who == who {
			s.link.listen()
		}
	})
}

// carries reports whether a legacy server can have a method.
func carries(method string) bool {
	switch method {
	case mcp.MethodListTools, mcp.MethodCallTool, mcp.MethodListPrompts, mcp.MethodGetPrompt, mcp.MethodListResources,
		mcp.MethodListTemplates, mcp.MethodReadResource, mcp.MethodComplete:
		return true
	}
	return false
}

// do sends a request over a session. release is called when the session is not
// needed any more, if there is no error.
func (l *legacyServer) do(ctx context.Context, s *session, r *Request, release func()) (Answer, error) {
	m := r.Message
	switch {
	case m.Method == mcp.MethodDiscover:
		answer, err := l.discover(s, m)
		release()
		return answer, err
	case m.Method == mcp.MethodListen:
		answer, err := l.listen(ctx, s, r, release)
		if err != nil {
			release()
		}
		return answer, err
	case !carries(m.Method): // tasks/*, too (TSK-20)
		release()
		return single(failure(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", clip(m.Method, 100))))
	}
	l.logLevel(ctx, s, m)
	c, err := s.enter(ctx, m)
	if err != nil {
		return nil, err
	}
	c.header = r.Header
	a := l.round(ctx, c, r)
	err = s.link.call(c, legacyBody(c, m))
	if err != nil {
		err = l.why(ctx, c.life, err)
		a.Close()
		return nil, err
	}
	c.release = release
	return a, nil
}

// single is an answer of one message.
func single(m *mcp.Message, err error) (Answer, error) {
	if err != nil {
		return nil, err
	}
	return &said{left: []*mcp.Message{m}}, nil
}

// legacyBody returns the request as a legacy server takes it: without what it would
// not know, with an id and a progress token of ours.
func legacyBody(c *legacyCall, m *mcp.Message) []byte {
	for _, key := range []string{mcp.MetaVersion, mcp.MetaCapabilities, mcp.MetaClient, mcp.MetaLogLevel} {
		m = m.WithMeta(key, nil)
	}
	id := jsontext.Value(strconv.FormatInt(c.id, 10))
	if c.token != nil {
		m = m.WithMeta(mcp.MetaProgress, id)
	}
	if empty(m.Text(m.Meta)) {
		m = m.WithParam("_meta", nil)
	}
	return m.WithParam("inputResponses", nil).WithParam("requestState", nil).WithID(id).Body
}

func empty(object jsontext.Value) bool {
	if object == nil {
		return false
	}
	for _, c := range object[1 : len(object)-1] {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// discover answers server/discover out of what the server has said when the session
// began.
func (l *legacyServer) discover(s *session, m *mcp.Message) (Answer, error) {
	result := []byte(`{"resultType":"complete","supportedVersions":["` + mcp.Modern + `"],"capabilities":`)
	capabilities := s.capabilities
	var known map[string]jsontext.Value
	if json.Unmarshal(capabilities, &known) != nil {
		known = nil
	}
	result = append(result, '{')
	first := true
	for _, name := range []string{"completions", "logging", "prompts", "resources", "tools"} { // not the tasks of 2025-11-25 (TSK-01)
		if value := known[name]; value.Kind() == '{' {
			if !first {
				result = append(result, ',')
			}
			first = false
			result = append(append(append(result, '"'), name...), `":`...)
			result = append(result, value...)
		}
	}
	result = append(result, '}')
	if s.instructions.Kind() == '"' {
		result = append(append(result, `,"instructions":`...), s.instructions...)
	}
	result = l.appendCache(append(result, ','), l.ttl)
	if s.server.Kind() == '{' {
		result = append(append(append(result, `,"_meta":{"`+mcp.MetaServer+`":`...), s.server...), '}')
	}
	return single(response(m.ID, append(result, '}')))
}

// appendCache appends how long a result may be kept, and for whom.
func (l *legacyServer) appendCache(dst []byte, ttl time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, `"ttlMs":`...), ttl.Milliseconds(), 10)
	if l.private {
		return append(dst, `,"cacheScope":"private"`...)
	}
	return append(dst, `,"cacheScope":"public"`...)
}

// logLevel sets the level of log messages that a request asks for.
func (l *legacyServer) logLevel(ctx context.Context, s *session, m *mcp.Message) {
	level := m.MetaString(mcp.MetaLogLevel)
	if level == "" || s.offers.Logging == nil {
		return
	}
	s.mu.Lock()
	same := s.level == level
	s.level = level
	s.mu.Unlock()
	if same {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.connect)
	defer cancel()
	if _, err := s.rpc(ctx, mcp.MethodSetLevel, []byte(`{"level":`+string(m.MetaValue(mcp.MetaLogLevel))+`}`)); err != nil {
		l.log.Debug("cannot set the log level of an MCP server", "error", err)
	}
}

// legacyAnswer is one round of a call: until the response, or until the client has
// to be asked.
type legacyAnswer struct {
	l        *legacyServer
	call     *legacyCall
	request  *mcp.Message
	caller   string
	ctx      context.Context
	detach   func() bool
	patience *patience
	over     bool // this round
	closed   bool
}

// round begins a round of a call.
func (l *legacyServer) round(ctx context.Context, c *legacyCall, r *Request) *legacyAnswer {
	return &legacyAnswer{
		l: l, call: c, request: r.Message, caller: callerKey(r.Caller), ctx: ctx,
		detach:   context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) }),
		patience: l.waitFor(r, c.end),
	}
}

// Next returns the next message.
func (a *legacyAnswer) Next() (*mcp.Message, error) {
	if a.over {
		return nil, io.EOF
	}
	m, err := a.call.queue.pop(a.call.life)
	switch {
	case err != nil:
		return nil, a.l.why(a.ctx, a.call.life, err)
	case m.IsNotification():
		if m.Method == mcp.NotifyProgress {
			a.patience.progress()
		}
		return m, nil
	case m.IsResponse():
		a.finish()
		return a.l.convert(a.request, m)
	}
	a.over = true
	return a.hold(m)
}

// finish ends the call with its response.
func (a *legacyAnswer) finish() {
	a.over = true
	a.patience.stop()
	a.detach()
	a.call.leave(true)
}

// hold answers that the client has to be asked something, and keeps the call until
// it has answered (MRT-09).
func (a *legacyAnswer) hold(asked *mcp.Message) (*mcp.Message, error) {
	a.patience.stop()
	if !a.detach() { // who has asked is gone
		return nil, a.l.why(a.ctx, a.call.life, context.Cause(a.ctx))
	}
	relay := a.l.held.relay
	state, known := relay.hold(a.l)
	one := &held{call: a.call, caller: a.caller, method: a.request.Method, about: about(a.request), state: state}
	for _, m := range append([]*mcp.Message{asked}, a.call.queue.requests(gatherTime)...) {
		a.call.asked++
		one.asked = append(one.asked, question{"input-" + strconv.Itoa(a.call.asked), m})
	}
	questions := one.asked
	if err := a.l.held.add(one); err != nil {
		relay.drop(state)
		a.call.leave(false)
		return nil, err
	}
	<-known
	return a.l.inputRequired(a.request.ID, one.state, questions)
}

// gatherTime is how long a server may be silent that asks for several things at
// once.
const gatherTime = 30 * time.Millisecond

// Close gives the call up if it is neither over nor held.
func (a *legacyAnswer) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	a.patience.stop()
	a.detach()
	if !a.over {
		a.call.leave(false)
	}
	return nil
}

// inputRequired returns the response that asks the client (MCP basic/patterns/mrtr).
func (l *legacyServer) inputRequired(id jsontext.Value, state string, questions []question) (*mcp.Message, error) {
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range questions {
		if i > 0 {
			result = append(result, ',')
		}
		params := jsontext.Value("{}")
		asked := q.request.WithParam("elicitationId", nil).WithParam("task", nil).WithMeta(mcp.MetaProgress, nil)
		if text := asked.Text(asked.Params); text != nil {
			params = text
		}
		result = append(result, `"`+q.key+`":{"method":"`+q.request.Method+`","params":`...)
		result = append(append(result, params...), '}')
	}
	return response(id, append(result, `},"requestState":"`+state+`"}`...))
}

// convert returns a response as a server of 2026-07-28 gives it.
func (l *legacyServer) convert(request, m *mcp.Message) (*mcp.Message, error) {
	m = m.WithID(request.ID)
	if e := m.Error(); e != nil {
		return l.convertError(request, m, e)
	}
	if m.Result.IsZero() {
		return nil, l.badAnswer(errors.New("there is neither a result nor an error"))
	}
	m = m.WithParam("resultType", jsontext.Value(`"`+mcp.ResultComplete+`"`)) // RES-01
	if mcp.IsCacheable(request.Method) {
		ttl := l.ttl
		if request.Method == mcp.MethodReadResource {
			ttl = 0
		}
		scope := jsontext.Value(`"public"`)
		if l.private || request.Method == mcp.MethodReadResource {
			scope = jsontext.Value(`"private"`)
		}
		m = m.WithParam("ttlMs", jsontext.Value(strconv.FormatInt(ttl.Milliseconds(), 10))).WithParam("cacheScope", scope)
	}
	return l.checked(request, m, l.tools)
}

// convertError returns an error as 2026-07-28 has it.
func (l *legacyServer) convertError(request, m *mcp.Message, e *mcp.Error) (*mcp.Message, error) {
	switch e.Code {
	case mcp.CodeResourceNotFound: // RSC-01
		return failure(request.ID, &mcp.Error{Code: mcp.CodeInvalidParams, Message: e.Message, Data: e.Data})
	case mcp.CodeURLElicitation:
		return l.urlElicitation(request, e)
	case mcp.CodeMissingCapability:
		if lacks(request, e.Data) {
			return m, nil
		}
		return failure(request.ID, &mcp.Error{Code: mcp.CodeInternal, Message: e.Message, Data: e.Data})
	case mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion:
		// It is not the one of 2026-07-28, which clients would act upon.
		return failure(request.ID, &mcp.Error{Code: mcp.CodeInternal, Message: e.Message, Data: e.Data})
	}
	return m, nil
}

// lacks reports whether an error names capabilities of which the client has not
// declared one, so that it means what the same code means in 2026-07-28.
func lacks(request *mcp.Message, data jsontext.Value) bool {
	var required struct {
		Capabilities map[string]jsontext.Value `json:"requiredCapabilities"`
	}
	var declared map[string]jsontext.Value
	if json.Unmarshal(data, &required) != nil {
		return false
	}
	if json.Unmarshal(request.MetaValue(mcp.MetaCapabilities), &declared) != nil {
		declared = nil
	}
	for name := range required.Capabilities {
		if _, ok := declared[name]; !ok {
			return true
		}
	}
	return false
}

// urlElicitation turns the error of 2025-11-25 that sends people to a page into the
// questions that it stands for (MRT-10).
func (l *legacyServer) urlElicitation(request *mcp.Message, e *mcp.Error) (*mcp.Message, error) {
	var data struct {
		Elicitations []struct {
			Message string `json:"message"`
			URL     string `json:"url"`
		} `json:"elicitations"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil || len(data.Elicitations) == 0 || len(data.Elicitations) > 100 {
		return nil, l.badAnswer(fmt.Errorf("the error %d names no pages", e.Code))
	}
	if !takesInput(request.Method) || !request.Capabilities().ElicitURL {
		return failure(request.ID, mcp.MissingCapability(`{"elicitation":{"url":{}}}`))
	}
	var pages []page
	for i, one := range data.Elicitations {
		pages = append(pages, page{"page-" + strconv.Itoa(i+1), one.Message, one.URL})
	}
	return urlQuestions(request.ID, pages)
}

// page is a page that somebody is to visit.
type page struct{ key, message, url string }

// urlQuestions returns the response that sends the user to pages (ELI-01). Their
// URLs were not checked; the client shows them before it opens one.
func urlQuestions(id jsontext.Value, pages []page) (*mcp.Message, error) {
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, p := range pages {
		if i > 0 {
			result = append(result, ',')
		}
		one, err := json.Marshal(struct {
			Mode    string `json:"mode"`
			Message string `json:"message"`
			URL     string `json:"url"`
		}{"url", p.message, p.url}, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, fmt.Errorf("write question: %w", err)
		}
		result = append(result, fmt.Sprintf(`%q:{"method":%q,"params":%s}`, p.key, mcp.MethodElicit, one)...)
	}
	return response(id, append(result, "}}"...))
}
