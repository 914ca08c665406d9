package wire

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/span"
)

// The parameters of the operations, by short names.
type (
	sendRequest      = a2a.SendMessageRequest
	getRequest       = a2a.GetTaskRequest
	listRequest      = a2a.ListTasksRequest
	cancelRequest    = a2a.CancelTaskRequest
	subscribeRequest = a2a.SubscribeToTaskRequest
	cardRequest      = a2a.GetExtendedAgentCardRequest

	webhookConfig        = a2a.TaskPushNotificationConfig
	getWebhookRequest    = a2a.GetTaskPushNotificationConfigRequest
	listWebhooksRequest  = a2a.ListTaskPushNotificationConfigsRequest
	deleteWebhookRequest = a2a.DeleteTaskPushNotificationConfigRequest
)

// parameters is where a binding has the parameters of a call.
type parameters interface {
	read(v a2a.Decodable) error
}

// form is how a binding writes answers.
type form interface {
	// result appends the body of a success.
	result(dst []byte, x *exchange, v result) []byte
	// failure appends the body of an error and returns its HTTP status.
	failure(dst []byte, x *exchange, e *a2a.Error) ([]byte, int)
	// opening and closing are what stands around the body of a stream's frame.
	opening(dst []byte, x *exchange) []byte
	closing(dst []byte) []byte
	// frameError appends an error as the last frame of a stream.
	frameError(dst []byte, x *exchange, e *a2a.Error) []byte
}

// result is what an operation returns.
type result interface {
	AppendJSON(dst []byte) []byte
}

// exchange is one HTTP request and its answer.
type exchange struct {
	call
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // of the request
	method string          // of HTTP
	began  time.Time
	id     string // of the request
	agents *Set
	form   form
	via    transport   // nil: the answer is the body of an HTTP answer
	out    *grpcWriter // of a call over gRPC
	span   trace.Span  // nil: none

	mediaType []string // of the answer
	rpcID     []byte   // of a JSON-RPC request, as it came; nil: unknown
	silent    bool     // a JSON-RPC notification, which gets no answer
	lingers   bool     // the client may be writing when the answer is out

	status int    // that was sent; 0: nothing yet
	code   string // for the log
	reason string // of a refusal, for the log
	remote string // the address of the caller, also of one that was refused
	parked bool   // another exchange has taken over

	audited bool // the audit log has it
}

// Header names as they stand in http.Header, and as the protocol writes them.
const (
	keyVersion       = "A2a-Version"
	keyExtensions    = "A2a-Extensions"
	keyOldExtensions = "X-A2a-Extensions"
	keyRequestID     = "X-Request-Id"
	keyLastEventID   = "Last-Event-Id"
	headerExtensions = a2a.HeaderExtensions
)

var (
	typeJSON   = []string{"application/json"}
	typeA2A    = []string{a2a.MediaType}
	typeStream = []string{"text/event-stream"}
	noStore    = []string{"no-store"}
	noSniff    = []string{"nosniff"}
)

func newExchange(h *Handler, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, ctx: r.Context(), method: r.Method, began: time.Now(), form: restForm{}, mediaType: typeJSON}
	x.id = auth.RequestID(r.Header[keyRequestID])
	w.Header()[keyRequestID] = []string{x.id}
	return x
}

// parameter reads what a client may send with any operation (A2A §3.2.6).
func (x *exchange) serviceParameters() {
	header := x.r.Header
	if v := header[keyVersion]; len(v) > 0 {
		x.version = v[0]
	}
	if x.version == "" && x.r.URL.RawQuery != "" {
		x.version = x.r.URL.Query().Get(a2a.HeaderVersion)
	}
	lines, old := header[keyExtensions], header[keyOldExtensions]
	if len(lines)+len(old) > 0 {
		x.extensions = a2a.ParseExtensions(append(lines[:len(lines):len(lines)], old...))
	}
	if v := header[keyLastEventID]; len(v) > 0 {
		x.lastEventID = v[0]
	}
}

func formatExtensions(uris []string) string { return a2a.FormatExtensions(uris) }

// context returns the context of the call: it ends with the request, and is part
// of the trace that the request names.
func (x *exchange) traced(name string) context.Context {
	ctx := x.ctx
	if x.r.Header["Traceparent"] != nil {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(x.r.Header))
	}
	if x.h.opts.Tracer != nil {
		ctx, x.span = x.h.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", x.r.Method),
			span.RPCMethod.String(x.op.String()), span.AgentID.String(x.agent.Spec.ID), span.Agent.String(x.agent.Spec.ID), span.Request.String(x.id),
		))
	}
	return ctx
}

// read reads the parameters of the call, and reports false when the request was
// refused.
func (x *exchange) read(p parameters, v a2a.Decodable) bool {
	if err := p.read(v); err != nil {
		x.refuse(err)
		return false
	}
	return true
}

// buffers are for bodies that come and go.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxPooled bounds the buffers that are kept.
const maxPooled = 256 << 10

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// answer sends what an operation has returned.
func answer[T any, P interface {
	*T
	result
}](x *exchange, v P, err error) {
	if err != nil {
		x.refuse(err)
		return
	}
	x.code = codeOK
	if x.via != nil {
		x.via.answer(x, v)
		return
	}
	if x.silent {
		x.send(http.StatusNoContent, nil)
		return
	}
	buf := getBuffer()
	*buf = x.form.result(*buf, x, v)
	x.send(http.StatusOK, *buf)
	putBuffer(buf)
}

const codeOK = "OK"

// send writes a whole answer.
func (x *exchange) send(status int, body []byte) {
	header := x.w.Header()
	if header["Cache-Control"] == nil {
		header["Cache-Control"] = noStore
	}
	if body != nil {
		header["Content-Type"] = x.mediaType
		header["X-Content-Type-Options"] = noSniff
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.status = status
	if x.lingers {
		header["Connection"] = closes
		_ = http.NewResponseController(x.w).EnableFullDuplex()
		defer x.linger()
	}
	x.w.WriteHeader(status)
	if body != nil && x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body) // when it fails, nobody is there to hear of it
	}
}

// refuse answers with an error, in the form of the binding.
func (x *exchange) refuse(err error) {
	x.refuseAs(err, 0)
}

// refuseAs is refuse with another HTTP status than that of the error, which on
// HTTP+JSON stands in the body too; 0 keeps it.
func (x *exchange) refuseAs(err error, status int) {
	e := x.protocolError(err)
	header := x.w.Header()
	for _, challenge := range auth.Challenges(err) {
		header.Add("WWW-Authenticate", challenge)
	}
	if e.Code == a2a.CodeUnauthenticated && header["Www-Authenticate"] == nil {
		header["Www-Authenticate"] = []string{"Bearer"}
	}
	if e.RetryAfter > 0 {
		header["Retry-After"] = []string{strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10)}
	}
	if x.via != nil {
		x.via.refuse(err, e)
		return
	}
	if x.silent && e.Code != a2a.CodeParse {
		x.send(http.StatusNoContent, nil)
		return
	}
	buf := getBuffer()
	switch _, rpc := x.form.(rpcForm); {
	case status == 0:
		*buf, status = x.form.failure(*buf, x, e)
	case rpc:
		*buf = x.form.frameError(*buf, x, e)
	default:
		*buf = appendHTTPStatus(*buf, status, e.Code.Status(), e.Message, e.AppendDetails(nil))
	}
	x.send(status, *buf)
	putBuffer(buf)
}

// protocolError makes an error one of the protocol. What is not one already is
// for the log alone.
func (x *exchange) protocolError(err error) *a2a.Error {
	e, ok := errors.AsType[*a2a.Error](err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		// The client is gone, as far as anybody knows.
		x.code = codeGone
		return &a2a.Error{Code: a2a.CodeUnavailable, Message: "The request was canceled", RetryAfter: time.Second}
	default:
		e = &a2a.Error{Code: a2a.CodeInternal, Message: "Internal error; the operator's log has the reason under request " + x.id, Err: err}
	}
	x.code = e.Code.String()
	if e.Code == a2a.CodeUnauthenticated || e.Code == a2a.CodePermissionDenied {
		x.reason = cmp.Or(auth.Reason(err), e.Message)
	}
	if e.Code == a2a.CodeResourceExhausted && x.h.opts.Limited != nil {
		x.h.opts.Limited(cmp.Or(e.Metadata[a2a.MetadataLimit], "other"))
	}
	if (e.Code == a2a.CodeInternal || e.Code == a2a.CodeUnavailable) && !engine.IsAway(err) && !errors.Is(err, engine.ErrDraining) {
		x.h.log.LogAttrs(x.ctx, slog.LevelError, "A request failed",
			slog.String("request", x.id), slog.String("operation", x.op.String()), slog.Any("error", cause(err)))
	}
	return e
}

const codeGone = "Canceled"

// cause returns the error that lies under one of the protocol.
func cause(err error) error {
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// end closes the exchange: it turns a panic into an error, and writes the log.
func (x *exchange) end() {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler { //nolint:errorlint // it is compared, as net/http does
			panic(p)
		}
		x.h.log.LogAttrs(x.ctx, slog.LevelError, "A request panicked",
			slog.String("request", x.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if x.status != 0 {
			x.code = a2a.CodeInternal.String()
			x.log()
			panic(http.ErrAbortHandler) // the answer has begun; a broken one is better than a wrong one
		}
		x.code, x.silent = a2a.CodeInternal.String(), false
		buf := getBuffer()
		var status int
		*buf, status = x.form.failure(*buf, x, &a2a.Error{Code: a2a.CodeInternal, Message: "Internal error; the operator's log has the reason under request " + x.id})
		x.send(status, *buf)
		putBuffer(buf)
	}
	if !x.parked {
		x.log()
	}
}

// log writes the one line that every request has, and ends its span.
func (x *exchange) log() {
	took := time.Since(x.began)
	// Somebody may have sent a credential in the place of an id.
	x.task, x.context = auth.Redact(x.task), auth.Redact(x.context)
	x.audit(x.code)
	if x.h.opts.Observe != nil {
		x.h.opts.Observe(x.op.String(), x.code, took)
	}
	if x.span != nil {
		x.span.SetAttributes(attribute.Int("http.response.status_code", x.status), attribute.String("a2a.code", x.code))
		if b := x.binding(); b == "jsonrpc" || b == "grpc" {
			x.span.SetAttributes(span.RPCSystem.String(b), span.RPCStatus.String(x.code))
		}
		if x.task != "" {
			x.span.SetAttributes(span.Task.String(x.task))
		}
		if x.context != "" {
			x.span.SetAttributes(span.Conversation.String(x.context))
		}
		if x.code != codeOK {
			x.span.SetAttributes(span.ErrorType.String(x.code))
		}
		if x.status >= http.StatusInternalServerError || x.code == a2a.CodeInternal.String() {
			x.span.SetStatus(codes.Error, x.code)
		}
		x.span.End()
	}
	if !x.h.log.Enabled(x.ctx, slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("request", x.id)
	add("method", x.method)
	if x.agent != nil {
		add("agent", x.agent.Spec.ID)
	} else {
		add("path", clip(x.r.URL.Path, 200))
	}
	add("tenant", x.tenant)
	add("operation", x.op.String())
	add("task", clip(x.task, a2a.MaxIDLength))
	add("context", clip(x.context, a2a.MaxIDLength))
	add("caller", x.caller.Subject)
	add("remote", x.remote)
	add("code", x.code)
	add("reason", clip(x.reason, 300))
	attrs = append(attrs, slog.Int("status", x.status), slog.Duration("took", took))
	x.h.log.LogAttrs(x.ctx, slog.LevelInfo, "request", attrs...)
}
