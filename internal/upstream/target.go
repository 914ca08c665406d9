package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mask"
	"handoff.example/handoff/internal/mcp"
)

// target is what one server is configured to be, and what speaks to it knows in
// common.
type target struct {
	name        string
	timeout     time.Duration // until an answer; progress begins it anew
	most        time.Duration // of a whole call
	connect     time.Duration
	resultBytes int64
	log         *slog.Logger
	now         func() time.Time
	health      *health
	secrets     *mask.Secrets // which nothing that it says brings back
}

// hide returns a text without what the server was shown as credentials: some servers
// repeat them when they refuse them.
func (t *target) hide(text string) string { return auth.Redact(t.secrets.Text(text)) }

// hideIn is hide for the texts of a JSON value. Names of members stay.
func (t *target) hideIn(value jsontext.Value) jsontext.Value {
	if text := string(value); t.hide(text) == text {
		return value
	}
	from := jsontext.NewDecoder(bytes.NewReader(value))
	var out bytes.Buffer
	to := jsontext.NewEncoder(&out)
	for {
		token, err := from.ReadToken()
		if err != nil { // the end
			return bytes.TrimSpace(out.Bytes())
		}
		kind, n := from.StackIndex(from.StackDepth())
		if token.Kind() == '"' && (kind != '{' || n%2 == 0) {
			token = jsontext.String(t.hide(token.String()))
		}
		if to.WriteToken(token) != nil {
			return nil // what cannot be written is not told
		}
	}
}

// hideError hides what an error says.
func (t *target) hideError(e *mcp.Error) *mcp.Error {
	clean := *e
	clean.Message, clean.Data = t.hide(e.Message), t.hideIn(e.Data)
	return &clean
}

// hideFailure hides what a response says of a failure.
func (t *target) hideFailure(m *mcp.Message) (*mcp.Message, error) {
	failed := !m.Err.IsZero() || string(m.Param("isError")) == "true"
	if !failed || t.hide(string(m.Body)) == string(m.Body) {
		return m, nil
	}
	if e := m.Error(); e != nil {
		return failure(m.ID, t.hideError(e))
	}
	for _, key := range []string{"content", "structuredContent"} {
		if value := m.Param(key); value != nil {
			m = m.WithParam(key, t.hideIn(value))
		}
	}
	return m, nil
}

// scan reads a message that the server has sent.
func (t *target) scan(body []byte) (*mcp.Message, error) {
	m, err := mcp.Scan(body, mcp.Limits{})
	if err != nil {
		return nil, t.badAnswer(err)
	}
	return m, nil
}

// scanResponse reads a response. One that names no id, because the server could not
// read it, is an error for the request that it comes with (BAS-04).
func (t *target) scanResponse(body []byte, id jsontext.Value) (*mcp.Message, error) {
	m, err := mcp.Scan(body, mcp.Limits{})
	if err == nil {
		return m, nil
	}
	if e := looseError(body); e != nil {
		return mcp.Scan(mcp.AppendError(nil, id, e), mcp.Limits{})
	}
	return nil, t.badAnswer(err)
}

// looseError returns the error of a response that has no id, or a null one; nil
// where the body is something else.
func looseError(body []byte) *mcp.Error {
	var response struct {
		ID    jsontext.Value `json:"id"`
		Error *struct {
			Code    *int           `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &response) != nil || response.Error == nil || response.Error.Code == nil {
		return nil
	}
	if response.ID != nil && response.ID.Kind() != 'n' {
		return nil
	}
	return &mcp.Error{Code: *response.Error.Code, Message: response.Error.Message, Data: response.Error.Data}
}

// response is the answer that consists of a result alone.
func response(id, result jsontext.Value) (*mcp.Message, error) {
	m, err := mcp.Scan(mcp.AppendResult(nil, id, result), mcp.Limits{Depth: 1 << 16})
	if err != nil {
		return nil, fmt.Errorf("write response: %w", err)
	}
	return m, nil
}

// failure is the answer that consists of an error alone.
func failure(id jsontext.Value, e *mcp.Error) (*mcp.Message, error) {
	m, err := mcp.Scan(mcp.AppendError(nil, id, e), mcp.Limits{Depth: 1 << 16})
	if err != nil {
		return nil, fmt.Errorf("write response: %w", err)
	}
	return m, nil
}

// unavailable says that the server has not taken a request.
func (t *target) unavailable(err error) *Error {
	return &Error{
		Server: t.name, Kind: ErrUnavailable, Err: err,
		Reply: &mcp.Error{Code: mcp.CodeUnavailable, Message: fmt.Sprintf("The server %q cannot be reached", t.name)},
	}
}

// refused says that the server did not accept a request, and why it is so.
func (t *target) refused(why string, err error) *Error {
	return &Error{
		Server: t.name, Kind: ErrUnavailable, Err: err,
		Reply: &mcp.Error{Code: mcp.CodeUnavailable, Message: fmt.Sprintf("The server %q has refused the request: %s", t.name, why)},
	}
}

// lost says that the connection ended before the answer was there.
func (t *target) lost(err error) *Error {
	return &Error{
		Server: t.name, Kind: ErrOutcomeUnknown, Err: err,
		Reply: &mcp.Error{Code: mcp.CodeOutcomeUnknown, Message: fmt.Sprintf("The server %q was lost before it had answered; whether it has done what was asked is not known", t.name)},
	}
}

// badAnswer says that what came is not an answer.
func (t *target) badAnswer(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{
		Server: t.name, Kind: ErrOutcomeUnknown, Err: err,
		Reply: &mcp.Error{Code: mcp.CodeBadAnswer, Message: fmt.Sprintf("The answer of the server %q is not valid", t.name)},
	}
}

// slow says that the answer did not come in time.
func (t *target) slow(after time.Duration) *Error {
	return &Error{
		Server: t.name, Kind: ErrOutcomeUnknown, Err: errSlow,
		Reply: &mcp.Error{Code: mcp.CodeTimeout, Message: fmt.Sprintf("The server %q has not answered within %s", t.name, after)},
	}
}

// statusError is the status of an answer that is no message.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d, %q", e.status, e.text) }

// errSlow is the cause of a call that was given up because it took too long.
var errSlow = errors.New("the answer took too long")

// tooLong is the cause for a context that ends a call, with what was waited.
type tooLong struct{ after time.Duration }

func (e *tooLong) Error() string { return "no answer within " + e.after.String() }

// idempotent reports whether a method may be asked again without harm (TRN-12).
func idempotent(method string) bool {
	switch method {
	case mcp.MethodCallTool, mcp.MethodUpdateTask:
		return false
	}
	return true
}

// patience ends a call that takes too long: until its answer, where progress
// begins the time anew, and altogether (CAN-03).
type patience struct {
	answer, most time.Duration // 0: no most
	end          context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	soft  time.Time // until when the answer has to come
	hard  time.Time
	over  bool
}

// waitFor begins the time of a call. What is listened to has no end by itself.
func (t *target) waitFor(r *Request, end context.CancelCauseFunc) *patience {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = t.timeout
	}
	now := time.Now()
	p := &patience{answer: timeout, end: end, soft: now.Add(timeout)}
	if t.most > 0 && r.Message.Method != mcp.MethodListen {
		p.most = max(t.most, timeout)
		p.hard = now.Add(p.most)
	}
	p.mu.Lock() // which the timer waits for
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(timeout, p.look)
	return p
}

// look ends the call if its time is over, and else looks again when it may be.
func (p *patience) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.over:
	case p.most > 0 && !now.Before(p.hard):
		p.end(&tooLong{p.most})
	case !now.Before(p.soft):
		p.end(&tooLong{p.answer})
	default:
		next := p.soft
		if p.most > 0 && p.hard.Before(next) {
			next = p.hard
		}
		p.timer.Reset(next.Sub(now))
	}
}

// progress begins the time until the answer anew.
func (p *patience) progress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.soft = time.Now().Add(p.answer)
}

// stop ends the waiting.
func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}

// why returns the error of a call whose context may have ended, and which has
// failed with err after it was sent.
func (t *target) why(ctx, call context.Context, err error) error {
	if e, ok := errors.AsType[*tooLong](context.Cause(call)); ok {
		return t.slow(e.after)
	}
	if ctx.Err() != nil {
		return &Error{
			Server: t.name, Kind: ErrOutcomeUnknown, Err: context.Cause(ctx),
			Reply: &mcp.Error{Code: mcp.CodeOutcomeUnknown, Message: "The call was given up before it was answered"},
		}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return t.lost(err)
}

// checkResult refuses a response whose result is of a kind that the request cannot
// have (BAS-13, BAS-14, RES-02, RES-03).
func (t *target) checkResult(request, response *mcp.Message) error {
	return t.checkType(request, response.ResultType, response.Err.IsZero())
}

func (t *target) checkType(request *mcp.Message, kind string, result bool) error {
	if !result {
		return nil
	}
	switch kind {
	case mcp.ResultComplete:
		return nil
	case mcp.ResultInputRequired:
		if takesInput(request.Method) {
			return nil
		}
	case mcp.ResultTask:
		if request.Method == mcp.MethodCallTool && request.Capabilities().Tasks {
			return nil
		}
	}
	return t.badAnswer(fmt.Errorf("a result of %s has the type %q", request.Method, clip(kind, 100)))
}

// takesInput reports whether a method may ask for input before it is done.
func takesInput(method string) bool {
	return slices.Contains([]string{mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource}, method)
}

// clip bounds a text of others for logs and errors.
func clip(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// said is an answer of which all is known.
type said struct {
	left []*mcp.Message
}

func (a *said) Next() (*mcp.Message, error) {
	if len(a.left) == 0 {
		return nil, io.EOF
	}
	m := a.left[0]
	a.left = a.left[1:]
	return m, nil
}

func (a *said) Close() error { return nil }
