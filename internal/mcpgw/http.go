package mcpgw

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// Options are what a gateway is made of.
type Options struct {
	Catalog Catalog
	Calls   Calls // nil: no tasks
	Docs    store.Docs
	Auth    auth.Authenticator
	// Challenger tells callers how to authenticate; nil: nobody does.
	Challenger auth.Challenger
	Scopes     []string // that every call needs
	// Trusts reports whether a request may come from the web page that its Origin
	// names, and is meant for this node by its Host (TRN-02, SEC-05). Nil: it has no
	// Origin.
	Trusts func(r *http.Request) bool

	Revisions   []string // that clients may speak, newest first
	Version     string   // of this program
	BodyBytes   int64
	BodyTimeout time.Duration
	Depth       int // of JSON
	Wait        time.Duration
	CarryTasks  bool // tasks of servers are waited for in place of clients that know none (TSK-22)
	TaskTTL     time.Duration
	SessionTTL  time.Duration
	KeepAlive   time.Duration // 0: 15 s
	Recheck     time.Duration // of the credential of a long stream; 0: a minute

	Logger *slog.Logger
	Tracer trace.Tracer // nil: no spans
	Audit  *audit.Log
	// Observe is told of each call: of a server, which tool, and what came of it.
	Observe func(server, tool, outcome string, took time.Duration)
	// Limited is told which limit has refused a call.
	Limited func(limit string)
}

// Handler serves the endpoints of the gateway.
type Handler struct {
	opts     Options
	server   jsontext.Value // what the gateway says of itself
	modern   []string       // revisions without sessions
	legacy   []string
	sessions *sessions
	listens  *listens
}

// New returns the handler of a gateway. Close it when nobody calls any more.
func New(o Options) *Handler {
	h := newHandler(o)
	h.sessions = newSessions(h)
	h.listens = newListens(h)
	return h
}

func newHandler(o Options) *Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.Recheck == 0 {
		o.Recheck = time.Minute
	}
	h := &Handler{opts: o}
	h.server = append(mustQuote(jsontext.Value(`{"name":"handoff","version":`), o.Version), '}')
	for _, r := range o.Revisions {
		if mcp.IsModern(r) {
			h.modern = append(h.modern, r)
		} else {
			h.legacy = append(h.legacy, r)
		}
	}
	return h
}

// With returns a handler that goes on with what is open under other options: after a
// reload, say. Requests under way keep theirs.
func (h *Handler) With(o Options) *Handler {
	next := newHandler(o)
	next.sessions, next.listens = h.sessions, h.listens
	next.sessions.of.Store(next)
	next.listens.of.Store(next)
	return next
}

// Close ends the streams of the gateway and waits until they are over.
func (h *Handler) Close() {
	h.listens.close()
	h.sessions.close()
}

func mustQuote(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // it has mended what is not UTF-8
	return out
}

// EndpointOf returns the endpoint of a path.
func EndpointOf(path string) (Endpoint, bool) {
	rest, ok := strings.CutPrefix(path, Path)
	if !ok {
		return Endpoint{}, false
	}
	if rest = strings.TrimSuffix(rest, "/"); rest == "" {
		return Endpoint{}, true
	}
	first, set, deeper := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch {
	case rest[0] != '/' || first == "":
		return Endpoint{}, false
	case deeper && first == "s" && set != "" && !strings.Contains(set, "/"):
		return Endpoint{Set: set}, true
	case deeper || first == "s":
		return Endpoint{}, false
	}
	return Endpoint{Server: first}, true
}

// ServeHTTP serves a request to an endpoint.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r, began: time.Now(), id: auth.RequestID(r.Header["X-Request-Id"])}
	w.Header()["X-Request-Id"] = []string{x.id}
	defer x.end()
	if r.ContentLength != 0 && h.opts.BodyTimeout > 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.opts.BodyTimeout))
	}
	endpoint, ok := EndpointOf(r.URL.Path)
	if !ok {
		x.refuse(&mcp.Error{Code: mcp.CodeInvalidRequest, Message: "There is no endpoint here; it is " + Path, Status: http.StatusNotFound})
		return
	}
	x.view.Endpoint = endpoint
	if !x.trusted() {
		x.refuse(&mcp.Error{Code: mcp.CodeInvalidRequest, Message: "Requests from there, or to that host, are not accepted", Status: http.StatusForbidden})
		return
	}
	if r.Method == http.MethodOptions {
		x.preflight()
		return
	}
	if err := x.authenticate(); err != nil {
		x.refuseCaller(err)
		return
	}
	if !h.opts.Catalog.Known(x.view) {
		x.refuse(&mcp.Error{Code: mcp.CodeInvalidRequest, Message: "There is no endpoint here", Status: http.StatusNotFound})
		return
	}
	switch r.Method {
	case http.MethodPost:
		x.post()
	case http.MethodGet, http.MethodDelete:
		x.legacyMethod()
	default:
		x.notAllowed()
	}
}

func (x *exchange) notAllowed() {
	x.w.Header().Set("Allow", "POST, GET, DELETE, OPTIONS")
	x.refuse(&mcp.Error{Code: mcp.CodeInvalidRequest, Message: "Use POST", Status: http.StatusMethodNotAllowed})
}

// trusted reports whether the request may come from where it says.
func (x *exchange) trusted() bool {
	if x.h.opts.Trusts != nil {
		if !x.h.opts.Trusts(x.r) {
			return false
		}
	} else if x.r.Header["Origin"] != nil {
		return false
	}
	if origin := x.r.Header.Get("Origin"); origin != "" {
		header := x.w.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, X-Request-Id")
		header.Add("Vary", "Origin")
	}
	return true
}

// preflight answers a browser that asks before it calls.
func (x *exchange) preflight() {
	header := x.w.Header()
	header.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	header.Set("Access-Control-Allow-Headers", x.r.Header.Get("Access-Control-Request-Headers"))
	header.Set("Access-Control-Max-Age", "600")
	x.send(http.StatusNoContent, "", nil)
}

// authenticate finds out who calls, and whether that is enough for any call.
func (x *exchange) authenticate() error {
	p, err := x.h.opts.Auth.Authenticate(x.r)
	x.remote = p.Address
	if err != nil {
		return err
	}
	x.caller, x.view.Caller = p, &x.caller
	q := auth.Requirement{Role: auth.RoleCaller, Scopes: x.h.opts.Scopes}
	return q.Check(x.r, &x.caller, "these tools", x.h.opts.Challenger)
}

// exchange is one HTTP request and its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	began  time.Time
	id     string // of the HTTP request
	view   View
	caller auth.Principal
	remote string

	message *mcp.Message // once it was read
	version string       // revision of the client
	old     bool         // the client is a legacy one
	status  int          // that was sent; 0: nothing yet
	out     *sink        // of an answer that may become a stream; nil: none yet
	base    context.Context
	session *session          // of a legacy client
	span    trace.Span        // of the request
	sent    trace.Span        // of what a server is asked for it; nil: nothing yet
	trace   trace.SpanContext // that the call is a part of
	batch   *batch            // that the message came with; nil: alone

	// For the record.
	method  string
	target  string // what was called, as the client named it
	server  string
	tool    string // as the server has it
	outcome string // OK, or the name of the error
	cause   error  // for the log
}

// read reads the body, within its bounds.
func (x *exchange) read(buf []byte) ([]byte, error) {
	limit := x.h.opts.BodyBytes
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if encoding := x.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "Compressed messages are not accepted", Status: http.StatusUnsupportedMediaType}
	}
	if size := x.r.ContentLength; size > int64(cap(buf)) && size <= 1<<20 {
		buf = make([]byte, 0, size+1)
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, max(2*cap(buf), 4<<10)), buf...)
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge(limit)
		case err == io.EOF:
			_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The message did not come in time", Status: http.StatusRequestTimeout}
		case err != nil:
			return nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The message broke off", Status: http.StatusBadRequest, Err: err}
		}
	}
}

func tooLarge(limit int64) error {
	return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The message is larger than " + strconv.FormatInt(limit, 10) + " bytes", Status: http.StatusRequestEntityTooLarge}
}

// messageID is the id of the message, nil where it could not be read.
func (x *exchange) messageID() jsontext.Value {
	if x.message == nil {
		return nil
	}
	return x.message.ID
}

// refuse answers with an error (BAS-04).
func (x *exchange) refuse(err error) {
	e := mcp.AsError(err)
	if x.ctx().Err() != nil {
		if !errors.Is(context.Cause(x.ctx()), errClosing) {
			x.leaveUnanswered()
			return
		}
		e = mcp.AsError(unavailable(err))
	}
	x.outcome, x.cause = codeName(e.Code), e.Err
	if _, ok := errors.AsType[*mcp.Error](err); ok {
		x.cause = errors.Join(e.Err, other(err, e))
	}
	if e.RetryAfter > 0 {
		x.addHeader("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == mcp.CodeRateLimited && x.h.opts.Limited != nil {
		x.h.opts.Limited("tools")
	}
	e = x.forClient(e)
	body := mcp.AppendError(nil, x.messageID(), e)
	if x.out != nil {
		x.out.last(x.errorStatus(e), body)
		return
	}
	x.send(x.errorStatus(e), "application/json", body)
}

// leaveUnanswered ends a request that its client has canceled, or of which it hears
// nothing any more (CAN-02, TRN-13).
func (x *exchange) leaveUnanswered() {
	x.outcome = "canceled"
	if !x.old || x.r.Context().Err() != nil {
		return
	}
	if x.out != nil && x.out.streams {
		if x.out.parent == nil {
			x.out.finish()
		}
		return
	}
	body := mcp.AppendError(nil, x.messageID(), &mcp.Error{Code: mcp.CodeDenied, Message: "The request was canceled"})
	if x.out != nil {
		x.out.last(http.StatusOK, body)
		return
	}
	x.send(http.StatusOK, "application/json", body)
}

// other returns an error that says more than the one that the client is told.
func other(err error, told *mcp.Error) error {
	if errors.Is(err, told) && err.Error() != told.Error() {
		return err
	}
	return nil
}

// refuseCaller answers a caller that is not known, or may not do this (AUT-08,
// AUT-23).
func (x *exchange) refuseCaller(err error) {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		x.refuse(err)
		return
	}
	for _, challenge := range auth.Challenges(err) {
		x.w.Header().Add("WWW-Authenticate", challenge)
	}
	status := e.Code.HTTPStatus()
	if status == http.StatusUnauthorized && x.w.Header()["Www-Authenticate"] == nil {
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	x.cause = err
	if reason := auth.Reason(err); reason != "" {
		x.cause = errors.New(reason)
	}
	told := &mcp.Error{Code: mcp.CodeDenied, Message: e.Message, Status: status, Err: x.cause}
	if e.RetryAfter > 0 {
		told.RetryAfter = int((e.RetryAfter + time.Second - 1) / time.Second)
	}
	if status == http.StatusTooManyRequests {
		told.Code = mcp.CodeRateLimited
	}
	if status >= http.StatusInternalServerError {
		told.Code = mcp.CodeInternal
	}
	x.refuse(told)
}

// refuseScopes tells a caller which scopes its credential lacks (AUT-10).
func (x *exchange) refuseScopes(e *ScopeError) {
	if c := x.h.opts.Challenger; c != nil {
		for _, challenge := range c.ScopeChallenge(x.r, e.Scopes, e.Message) {
			x.addHeader("WWW-Authenticate", challenge)
		}
	}
	x.refuse(&mcp.Error{Code: mcp.CodeDenied, Message: e.Message, Status: http.StatusForbidden})
}

// send writes a whole answer.
func (x *exchange) send(status int, kind string, body []byte) {
	header := x.w.Header()
	if kind != "" {
		describe(header, kind, int64(len(body)))
	}
	if header["Cache-Control"] == nil {
		header["Cache-Control"] = noStore
	}
	x.status = status
	x.w.WriteHeader(status)
	if body != nil {
		_, _ = x.w.Write(body) // when it fails, nobody is there to hear of it
	}
}

// Values of headers that many answers share. They have no room for another value, so
// that nobody can add one.
var (
	noStore    = []string{"no-store"}
	noSniff    = []string{"nosniff"}
	typeJSON   = []string{"application/json"}
	typeEvents = []string{"text/event-stream"}
)

// describe writes what an answer is into its header. A length below zero is not
// known.
func describe(header http.Header, kind string, length int64) {
	switch kind {
	case typeJSON[0]:
		header["Content-Type"] = typeJSON
	case typeEvents[0]:
		header["Content-Type"] = typeEvents
	default:
		header["Content-Type"] = []string{kind}
	}
	header["X-Content-Type-Options"] = noSniff
	if length >= 0 {
		header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
}

// end closes the exchange: it turns a panic into an error, and writes the record.
func (x *exchange) end() {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler { //nolint:errorlint // it is compared, as net/http does
			panic(p)
		}
		x.h.opts.Logger.Error("A request panicked", "request", x.id, "panic", p, "stack", string(debug.Stack()))
		if x.status != 0 {
			x.outcome = codeName(mcp.CodeInternal)
			x.record()
			panic(http.ErrAbortHandler)
		}
		x.refuse(&mcp.Error{Code: mcp.CodeInternal, Message: "Internal error; the operator's log has the reason under request " + x.id, Status: http.StatusInternalServerError})
	}
	x.record()
}

// record writes the line of the log, the audit row and the metrics of a request.
func (x *exchange) record() {
	took := time.Since(x.began)
	if x.outcome == "" {
		x.outcome = audit.OK
	}
	if x.h.opts.Observe != nil && x.server != "" {
		x.h.opts.Observe(x.server, x.tool, x.outcome, took)
	}
	x.endSpan()
	x.audit(x.outcome)
	level := slog.LevelInfo
	if x.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !x.h.opts.Logger.Enabled(x.ctx(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("request", x.id), slog.String("endpoint", x.view.Endpoint.Path()), slog.String("operation", x.method)}
	for _, a := range [][2]string{{"target", x.target}, {"server", x.server}, {"caller", x.caller.Subject}, {"remote", x.remote}} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], clip(auth.Redact(a[1]), 200)))
		}
	}
	attrs = append(attrs, slog.String("code", x.outcome), slog.Int("status", x.status), slog.Duration("took", took))
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
	}
	x.h.opts.Logger.LogAttrs(x.ctx(), level, "request", attrs...)
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}

// entry is the audit row of the request.
func (x *exchange) entry(result string) *audit.Entry {
	p := &x.caller
	e := &audit.Entry{
		At: time.Now(), Tenant: p.Tenant, Subject: p.Subject, Issuer: p.Issuer, Key: p.Key, Role: p.Role.String(), Address: p.Address,
		Operation: x.method, Binding: "mcp", Version: x.version, Target: auth.Redact(clip(x.target, 300)), Result: result, Request: x.id,
	}
	if x.server != "" {
		e.Agent = "mcp:" + x.server
	}
	if x.trace.HasTraceID() {
		e.Trace = x.trace.TraceID().String()
	}
	if x.message != nil && x.h.opts.Audit.Content() {
		if args := x.message.Text(x.message.Args); args != nil {
			e.Content = slices.Clone(args)
		}
	}
	return e
}

// changes are the methods whose calls may change something.
var changes = []string{mcp.MethodCallTool, mcp.MethodUpdateTask, mcp.MethodCancelTask}

// audit records the request, unless nobody knows who has called.
func (x *exchange) audit(result string) {
	if x.caller.Role == auth.RoleNone || x.method == "" || !x.h.opts.Audit.Wants(slices.Contains(changes, x.method)) {
		return
	}
	x.h.opts.Audit.Record(x.entry(result))
}

// Words for outcomes, in the audit log and the metrics.
var codeNames = map[int]string{
	mcp.CodeParseError: "parse error", mcp.CodeInvalidRequest: "invalid request", mcp.CodeMethodNotFound: "method not found",
	mcp.CodeInvalidParams: "invalid params", mcp.CodeInternal: "internal", mcp.CodeHeaderMismatch: "header mismatch",
	mcp.CodeMissingCapability: "missing capability", mcp.CodeUnsupportedVersion: "unsupported version", mcp.CodeDenied: "denied",
	mcp.CodeIdempotencyConflict: "idempotency conflict", mcp.CodeApprovalPending: "approval pending", mcp.CodeKeyRequired: "key required",
	mcp.CodeRateLimited: "rate limited", mcp.CodeBudget: "budget", mcp.CodeBadAnswer: "bad answer", mcp.CodeUnavailable: "unavailable",
	mcp.CodeTimeout: "timeout", mcp.CodeOutcomeUnknown: "outcome unknown",
}

func codeName(code int) string {
	if name := codeNames[code]; name != "" {
		return name
	}
	return "error" // of a server, which may use any number
}

// buffers are for bodies that come and go.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

const maxPooled = 256 << 10

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// TrustsOf returns what decides about Origin and Host: pages of those origins may
// call, and on this machine those of it. The hosts are the names under which the
// node is reached; one that was reached over the loopback interface under another
// name, by somebody without a credential, is the aim of a rebound name (SEC-05).
// Behind a proxy, which says so, the host is not that of the connection.
func TrustsOf(origins, hosts []string, proxied func(*http.Request) bool) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		local := isLoopbackAddress(r.RemoteAddr) && !proxied(r)
		if host := hostOf(r.Host); local && !hasCredential(r) && !netguard.IsLoopback(host) && !slices.Contains(hosts, host) {
			return false
		}
		given := r.Header["Origin"]
		if len(given) == 0 {
			return true
		}
		if len(given) > 1 {
			return false
		}
		if slices.Contains(origins, given[0]) || slices.Contains(origins, "*") {
			return true
		}
		u, err := url.Parse(given[0])
		return err == nil && u.Host != "" && local && netguard.IsLoopback(u.Hostname())
	}
}
