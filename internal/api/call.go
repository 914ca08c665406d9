package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// call is one request and its answer.
type call struct {
	h         *handler
	w         http.ResponseWriter
	r         *http.Request
	operation *operation // nil: none
	caller    auth.Principal
	began     time.Time
	id        string // of the request
	sent      int    // that was sent; 0: nothing yet
	reason    string // of a refusal, for the log
	partBytes int    // of each part that is told, at most; 0: all
	target    string // what was made, for the audit log; "" for what the path names
}

func newCall(h *handler, w http.ResponseWriter, r *http.Request) *call {
	c := &call{h: h, w: w, r: r, began: time.Now(), id: auth.RequestID(r.Header["X-Request-Id"])}
	w.Header().Set("X-Request-Id", c.id)
	if r.ContentLength != 0 {
		// It counts for bodies that nobody reads too: net/http does, before the
		// answer goes out.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	return c
}

func (c *call) context() context.Context { return c.r.Context() }

// reach is the scope of what the caller may see.
func (c *call) reach() store.Scope { return auth.Reach(&c.caller) }

// serve carries the operation out and answers.
func (c *call) serve() {
	if err := c.admit(); err != nil {
		_ = c.audit(err) // nothing has happened
		c.refuse(err)
		return
	}
	result, err := c.operation.do(c)
	if unrecorded := c.audit(err); unrecorded != nil && err == nil {
		err = unrecorded
	}
	switch {
	case err != nil:
		c.refuse(err)
	case c.sent != 0: // it has answered itself
	case result == nil:
		c.send(http.StatusNoContent, "", nil)
	default:
		body, err := json.Marshal(result, json.Deterministic(true))
		if err != nil {
			c.refuse(err)
			return
		}
		c.send(http.StatusOK, "application/json", body)
	}
}

// admit checks where the request comes from and what its caller may do.
func (c *call) admit() error {
	if err := c.checkOrigin(); err != nil {
		return err
	}
	o := c.operation
	if o.role == auth.RoleNone {
		return nil
	}
	var err error
	if c.caller, err = c.h.opts.Auth.Authenticate(c.r); err != nil {
		return err
	}
	switch {
	case c.caller.Role < o.role:
		return a2a.Errorf(a2a.CodePermissionDenied, "The role %s may not do this; it takes the role %s", c.caller.Role, o.role)
	case o.node && c.caller.Tenant != "":
		return a2a.Errorf(a2a.CodePermissionDenied, "This concerns the whole node; it takes the role %s without a tenant", o.role)
	}
	return nil
}

// checkOrigin refuses what a web page of somebody else can make a browser send.
// A page can send a form without asking, but not JSON; and browsers say from
// where a request comes.
func (c *call) checkOrigin() error {
	if c.operation.method == http.MethodGet {
		return nil
	}
	if err := c.h.origins.Check(c.r); err != nil && !c.fromPublicURL() {
		return a2a.Errorf(a2a.CodePermissionDenied, "A web page of another origin may not change anything here")
	}
	types := c.r.Header["Content-Type"]
	if len(types) == 1 {
		if mediaType, _, err := mime.ParseMediaType(types[0]); err == nil && mediaType == "application/json" {
			return nil
		}
	}
	return errMediaType
}

// fromPublicURL reports whether the page that sends the request is one of the
// node, as seen through a proxy that does not pass on the host.
func (c *call) fromPublicURL() bool {
	u, err := url.Parse(c.h.opts.Config().PublicURL)
	origin := c.r.Header["Origin"]
	return err == nil && u.Host != "" && len(origin) == 1 && strings.EqualFold(origin[0], u.Scheme+"://"+u.Host)
}

var errMediaType = a2a.Errorf(a2a.CodeContentTypeNotSupported, "The request has to have the Content-Type application/json")

// read decodes the body, which is an object with no other members than those
// of v. An empty body is an empty object.
func (c *call) read(v any) error { return c.readUpTo(v, maxBody) }

// readUpTo is read with a limit of its own, in bytes.
func (c *call) readUpTo(v any, limit int64) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return a2a.Errorf(a2a.CodeTooLarge, "The request body is larger than the limit of %d bytes", tooLarge.Limit)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a2a.Errorf(a2a.CodeInvalidRequest, "The request body did not arrive in time")
	case err != nil:
		return &a2a.Error{Code: a2a.CodeInvalidRequest, Message: "The request body could not be read", Err: err}
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	if len(body) == 0 {
		return nil
	}
	err = json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		field := strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
		if errors.Is(err, json.ErrUnknownName) {
			return a2a.Invalid(clip(field, 100), "is not known here")
		}
		return a2a.Invalid(clip(field, 100), "is of the wrong type")
	}
	if err != nil {
		return a2a.Errorf(a2a.CodeParse, "Invalid JSON payload: %s", clip(err.Error(), 200))
	}
	return nil
}

// refuse answers with an error as a google.rpc.Status, like the HTTP+JSON
// binding (A2A §11.6).
func (c *call) refuse(err error) {
	if c.sent != 0 {
		return // the answer has begun
	}
	e := c.protocolError(err)
	header := c.w.Header()
	for _, challenge := range auth.Challenges(err) {
		header.Add("WWW-Authenticate", challenge)
	}
	if e.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if err == error(errMediaType) {
		c.refuseHTTP(http.StatusUnsupportedMediaType, e.Code.Status(), e.Message)
		return
	}
	c.send(e.Code.HTTPStatus(), "application/json", e.AppendStatus(nil))
}

// protocolError makes an error one of the protocol. What is not one is for the
// log alone.
func (c *call) protocolError(err error) *a2a.Error {
	err = engine.Unavailable(err)
	e, ok := errors.AsType[*a2a.Error](err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &a2a.Error{Code: a2a.CodeUnavailable, Message: "The request was canceled", RetryAfter: time.Second}
	default:
		e = &a2a.Error{Code: a2a.CodeInternal, Message: "Internal error; the operator's log has the reason under request " + c.id, Err: err}
	}
	if e.Code == a2a.CodeUnauthenticated || e.Code == a2a.CodePermissionDenied {
		c.reason = cmp.Or(auth.Reason(err), e.Message)
	}
	if e.Code == a2a.CodeResourceExhausted && c.h.opts.Limited != nil {
		c.h.opts.Limited(cmp.Or(e.Metadata[a2a.MetadataLimit], "other"))
	}
	if (e.Code == a2a.CodeInternal || e.Code == a2a.CodeUnavailable) && !engine.IsAway(err) {
		cause := e.Err
		if cause == nil {
			cause = e
		}
		c.h.log.LogAttrs(c.context(), slog.LevelError, "A request failed", slog.String("request", c.id), slog.Any("error", cause))
	}
	return e
}

// refuseHTTP answers with what HTTP refuses before the operation comes into it.
func (c *call) refuseHTTP(status int, name, message string) {
	b := append([]byte(`{"error":{"code":`), strconv.Itoa(status)...)
	b = append(b, `,"status":"`+name+`","message":`...)
	b, _ = jsontext.AppendQuote(b, message) // invalid UTF-8 is replaced
	c.send(status, "application/json", append(b, "}}"...))
}

// send writes a whole answer.
func (c *call) send(status int, mediaType string, body []byte) {
	header := c.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if mediaType != "" {
		header.Set("Content-Type", mediaType)
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.sent = status
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // when it fails, nobody is there to hear of it
	}
}

// end turns a panic into an error, and writes the one line of the log.
func (c *call) end() {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler { //nolint:errorlint // it is compared, as net/http does
			panic(p)
		}
		c.h.log.LogAttrs(c.context(), slog.LevelError, "A request panicked",
			slog.String("request", c.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if c.sent != 0 {
			panic(http.ErrAbortHandler) // a broken answer is better than a wrong one
		}
		c.refuseHTTP(http.StatusInternalServerError, "INTERNAL", "Internal error; the operator's log has the reason under request "+c.id)
	}
	if !c.h.log.Enabled(c.context(), slog.LevelInfo) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", c.id),
		slog.String("method", clip(c.r.Method, 32)), slog.String("path", clip(c.r.URL.Path, 200)),
		slog.String("caller", c.caller.Subject), slog.String("remote", c.caller.Address),
	}
	if c.reason != "" {
		attrs = append(attrs, slog.String("reason", clip(c.reason, 300)))
	}
	attrs = append(attrs, slog.Int("status", c.sent), slog.Duration("took", time.Since(c.began)))
	c.h.log.LogAttrs(c.context(), slog.LevelInfo, "request", attrs...)
}

// clip bounds a text that is shown.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
