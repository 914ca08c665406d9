package mcpgw

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// call is what a request asks of a server.
type call struct {
	method  string
	target  *Target
	message *mcp.Message // to hand on; nil: that of the exchange
	free    func()       // gives back what the call has taken; nil: nothing
}

// release gives back what the call has taken.
func (c *call) release() {
	if c.free != nil {
		c.free()
	}
	c.free = nil
}

// admit finds what a name stands for, and takes a place for a call of it.
func (x *exchange) admit(method, name string) (*call, error) {
	x.method, x.target = clip(method, 100), name
	t, err := x.h.opts.Catalog.Find(x.ctx(), x.view, method, name)
	if err != nil {
		return nil, err
	}
	if t.Server != nil {
		x.server, x.tool = t.Server.Name(), t.Name
		if method == mcp.MethodReadResource || method == mcp.MethodComplete {
			x.tool = "" // a metric for each URI would be without end
		}
	}
	c := &call{method: method, target: t}
	if t.Rules == nil {
		return c, nil
	}
	release, err := t.Rules.Admit(x.ctx())
	if err != nil {
		return nil, err
	}
	c.free = release
	return c, nil
}

// run makes a call.
func (x *exchange) run(c *call) {
	m := x.message
	if c.message == nil {
		c.message = m
	}
	x.begin(c)
	if c.target.Local != nil {
		x.local(c)
		return
	}
	if state, ours := keptState(m); ours { // which was admitted when it began (GWY-03)
		x.resumeKept(c, &Terms{}, state)
		return
	}
	key, err := x.key(m)
	if err != nil {
		x.refuse(err)
		return
	}
	if err := x.checkParams(c); err != nil {
		x.refuse(err)
		return
	}
	terms := &Terms{}
	if c.target.Rules != nil {
		if terms, err = c.target.Rules.Terms(x.ctx(), c.message.Text(c.message.Args), key); err != nil {
			x.refuseAny(err)
			return
		}
	}
	if terms.Recorded || terms.Kept() {
		if err := x.h.opts.Audit.Commit(x.ctx(), x.entry("begun")); err != nil {
			x.refuse(&mcp.Error{Code: mcp.CodeUnavailable, Message: "The call cannot be recorded now; it was not made", Status: http.StatusServiceUnavailable, RetryAfter: 2, Err: err})
			return
		}
	}
	if terms.Kept() && c.method == mcp.MethodCallTool && x.h.opts.Calls != nil {
		x.keep(c, terms)
		return
	}
	x.forward(c, terms)
}

// local answers a call of a tool of the gateway's own.
func (x *exchange) local(c *call) {
	result, redirect, err := c.target.Local(x.ctx(), x.message.Text(x.message.Params))
	switch {
	case err != nil:
		x.refuseAny(err)
	case redirect == nil:
		x.answer(result)
	default:
		x.redirect(redirect)
	}
}

// redirect makes the call that another one means, by the same rules.
func (x *exchange) redirect(r *Redirect) {
	arguments := r.Arguments
	if len(arguments) == 0 {
		arguments = jsontext.Value("{}")
	}
	c, err := x.admit(x.message.Method, r.Name)
	if err != nil {
		x.refuseAny(err)
		return
	}
	defer c.release()
	if c.target.Local != nil {
		x.refuse(mcp.Errorf(mcp.CodeInvalidParams, "Call %s itself", clip(r.Name, 128)))
		return
	}
	x.message = x.message.WithName(r.Name).WithParam("arguments", arguments)
	x.run(c)
}

// key returns the idempotency key of a call (GWY-03).
func (x *exchange) key(m *mcp.Message) (string, error) {
	given := x.r.Header["Idempotency-Key"]
	value := m.MetaValue(mcp.MetaKey)
	key := m.MetaString(mcp.MetaKey)
	switch {
	case len(given) > 1, value != nil && key == "", len(given) == 1 && value != nil && given[0] != key:
		return "", mcp.Errorf(mcp.CodeInvalidParams, "The idempotency key is given twice, or is no string")
	case len(given) == 1:
		key = given[0]
	}
	if len(key) > 256 {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "The idempotency key is longer than 256 bytes")
	}
	return key, nil
}

// request returns what the server gets: the message as it came, but for its name and
// what is not to cross the boundary.
func (x *exchange) request(c *call, terms *Terms) *upstream.Request {
	m := c.message
	if c.method != mcp.MethodComplete {
		m = m.WithName(c.target.Name)
	}
	if m.MetaValue(mcp.MetaBaggage) != nil { // OBS-03
		m = m.WithMeta(mcp.MetaBaggage, nil)
	}
	if m.MetaValue(mcp.MetaTraceparent) != nil && !isTraceparent(m.MetaString(mcp.MetaTraceparent)) { // OBS-02
		m = m.WithMeta(mcp.MetaTraceparent, nil).WithMeta(mcp.MetaTracestate, nil)
	}
	if x.carries() {
		caps := x.message.Capabilities()
		caps.Tasks = true
		m = m.WithMeta(mcp.MetaCapabilities, caps.AppendJSON(nil))
	}
	m, header := x.traced(c, m, x.handedOn())
	return &upstream.Request{Message: m, Header: header, Caller: &x.caller, Timeout: terms.Timeout}
}

// handedOn are the headers that go on to a server. Nothing else of the client does
// (S21, AUT-07, TRN-28).
func (x *exchange) handedOn() http.Header {
	var header http.Header
	for name, values := range x.r.Header {
		if strings.HasPrefix(name, "Mcp-Param-") || name == "Traceparent" && isTraceparent(values[0]) || name == "Tracestate" {
			if header == nil {
				header = http.Header{}
			}
			header[name] = values
		}
	}
	return header
}

// isTraceparent reports whether a value is one of W3C Trace Context.
func isTraceparent(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for i, c := range []byte(s[:55]) {
		if i == 2 || i == 35 || i == 52 {
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s[3:35] != strings.Repeat("0", 32) && s[36:52] != strings.Repeat("0", 16)
}

// forward hands a call to its server, and what the server says to the client.
func (x *exchange) forward(c *call, terms *Terms) {
	out := x.open()
	defer out.close()
	request := x.request(c, terms)
	for round := 0; ; round++ {
		m, done := x.once(c, request)
		if m == nil {
			return
		}
		if !x.old || m.ResultType != mcp.ResultInputRequired {
			x.response(c, terms, request, m)
			done()
			return
		}
		next, err := x.nextRound(m, request, round)
		done()
		if err != nil {
			x.refuse(err)
			return
		}
		request = next
	}
}

// once sends a call to its server and hands on what comes before the response. It
// returns the response, which is valid until done is called, or nil when the answer
// is over.
func (x *exchange) once(c *call, request *upstream.Request) (response *mcp.Message, done func()) {
	answer, err := c.target.Server.Do(x.ctx(), request)
	if err != nil {
		x.refuse(err)
		return nil, nil
	}
	done = func() { _ = answer.Close() } // there is nothing left to lose
	if raw, ok := answer.(upstream.Raw); ok && !x.mayBeTask() {
		defer done()
		x.copy(raw)
		return nil, nil
	}
	for {
		m, err := answer.Next()
		switch {
		case err != nil:
			defer done()
			if errors.Is(err, io.EOF) {
				err = &mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server has ended its answer without a response"}
			}
			x.refuse(err)
			return nil, nil
		case m.IsResponse():
			return m, done
		}
		if err := x.out.event(m.Body); err != nil && !x.old { // LEG-06
			done()
			return nil, nil
		}
	}
}

// mayBeTask reports whether an answer has to be looked at: it can be a task, of a
// server that the client would not find, or what the revision of the client does not
// have.
func (x *exchange) mayBeTask() bool {
	return x.old || x.message.Method == mcp.MethodCallTool && (x.message.Capabilities().Tasks || x.carries())
}

// carries reports whether a task of a server is waited for in place of the client,
// which knows none (TSK-22).
func (x *exchange) carries() bool {
	return x.h.opts.CarryTasks && x.h.opts.Calls != nil && x.message.Method == mcp.MethodCallTool && !x.message.Capabilities().Tasks
}

// copy hands a document on without reading it.
func (x *exchange) copy(raw upstream.Raw) {
	body, length := raw.Raw()
	done, err := x.out.copy(body, length)
	switch {
	case !done:
		text, err := io.ReadAll(body)
		if err != nil {
			x.refuse(err)
			return
		}
		x.out.last(http.StatusOK, text)
	case err != nil && x.ctx().Err() == nil:
		x.outcome, x.cause = codeName(mcp.CodeBadAnswer), err
		panic(http.ErrAbortHandler) // the answer has begun; a broken one is better than a wrong one
	}
}

// response hands the response of a server to the client.
func (x *exchange) response(c *call, terms *Terms, request *upstream.Request, m *mcp.Message) {
	if m.Error() != nil {
		x.outcome = codeName(m.Error().Code)
	}
	if !x.capable(m) {
		return
	}
	if m.ResultType == mcp.ResultTask && c.target.Server.Name() != AgentsServer { // whose tasks are the gateway's already
		x.adopt(c, terms, request, m)
		return
	}
	x.outcome = outcomeOf(m)
	body := x.downTo(m)
	status := http.StatusOK
	if e := m.Error(); e != nil {
		status = x.errorStatus(e)
	}
	x.out.last(status, body)
}

// outcomeOf names what a response says.
func outcomeOf(m *mcp.Message) string {
	if e := m.Error(); e != nil {
		return codeName(e.Code)
	}
	if bytes.Equal(m.Param("isError"), []byte("true")) {
		return "tool error"
	}
	if m.ResultType == mcp.ResultInputRequired {
		return "input required"
	}
	return "OK"
}

// capable checks that a server asks the client only for what the client can do
// (MRT-01, TSK-02).
func (x *exchange) capable(m *mcp.Message) bool {
	caps := x.message.Capabilities()
	switch m.ResultType {
	case "", mcp.ResultComplete, mcp.ResultInputRequired:
		return true
	case mcp.ResultTask:
		if x.message.Method == mcp.MethodCallTool && caps.Tasks && x.h.opts.Calls != nil || x.carries() {
			return true
		}
		x.refuse(mcp.MissingTasks())
		return false
	}
	x.refuse(&mcp.Error{Code: mcp.CodeBadAnswer, Message: "The server has answered with a result of a kind that is not known"}) // BAS-13
	return false
}
