package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
)

const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"

	maxErrorBytes = 64 << 10
	maxHead       = 64 << 10 // of an answer that is looked at before it is handed on
)

// httpServer is a server over Streamable HTTP.
type httpServer struct {
	*target
	url    string
	client *http.Client
	plain  *netguard.Plain // for what it can post; nil: nothing
	fixed  http.Header     // of every request, and not to be changed
	login  credentials     // nil: none but what is fixed
	tools  toolbox
	era    *eraMemory
	legacy *sessions
}

// credentials authenticate requests to a server.
type credentials interface {
	// apply adds what the server is shown for a caller.
	apply(ctx context.Context, header http.Header, caller *auth.Principal) error
	// refused looks at a 401 or 403, and reports whether to try again. attempt
	// counts from 1.
	refused(ctx context.Context, r *http.Response, caller *auth.Principal, attempt int) (again bool, err error)
}

// do sends a request the way that the server speaks.
func (h *httpServer) do(ctx context.Context, r *Request) (Answer, error) {
	if h.login != nil && takesInput(r.Message.Method) {
		without, refused := withoutLogin(r)
		if refused {
			return single(failure(r.Message.ID, mcp.Errorf(mcp.CodeDenied, "The user has not logged in to the server %q", h.name)))
		}
		r = without
	}
	for again := false; ; again = true {
		modern, err := h.era.modern(ctx, h, r.Caller)
		if err != nil {
			return h.orLogin(r, err)
		}
		if !modern {
			answer, err := h.legacy.do(ctx, r)
			if isModernRefusal(err) && !again {
				h.era.forget()
				continue
			}
			if err != nil {
				return h.orLogin(r, err)
			}
			return answer, nil
		}
		answer, err := h.modern(ctx, r)
		if errors.Is(err, errEra) && !again {
			h.era.forget() // the server has changed; see anew what it is (VER-05)
			continue
		}
		if err != nil {
			return h.orLogin(r, err)
		}
		return answer, nil
	}
}

// errEra says that a server has answered as one of the other era does.
var errEra = errors.New("the server speaks another revision than it did")

// modern sends a request of revision 2026-07-28 (MCP
// basic/transports/streamable-http §Sending Messages).
func (h *httpServer) modern(ctx context.Context, r *Request) (Answer, error) {
	m := r.Message
	if m.MetaString(mcp.MetaVersion) != mcp.Modern {
		m = m.WithMeta(mcp.MetaVersion, []byte(`"`+mcp.Modern+`"`)) // TRN-14
	}
	call, end := context.WithCancelCause(ctx)
	a := &httpAnswer{h: h, ctx: ctx, call: call, end: end, request: m, patience: h.waitFor(r, end)}
	answer, err := a.open(r, h.header(m, r.Header))
	if err != nil {
		a.Close()
		return nil, err
	}
	return answer, nil
}

// header returns the header of a request (TRN-14, TRN-19 to TRN-22, XMH-05).
func (h *httpServer) header(m *mcp.Message, from http.Header) http.Header {
	header := h.base(from)
	values := [2]string{m.Method}
	header[mcp.KeyVersion], header[mcp.HeaderMethod] = modernOnly, values[:1:1]
	if mcp.NameParam(m.Method) != "" {
		values[1] = mcp.EscapeHeader(m.NameValue())
		header[mcp.HeaderName] = values[1:2:2]
	}
	if m.Method == mcp.MethodCallTool {
		if params := h.tools.params(m.NameValue()); params != nil {
			mcp.SetParamHeaders(params, m.Text(m.Args), header)
		}
	}
	return header
}

// base returns what every request has: what the configuration says, and of the
// client's own header nothing but arguments and trace context (AUT-07, TRN-28,
// OBS-03).
func (h *httpServer) base(from http.Header) http.Header {
	header := maps.Clone(h.fixed)
	for name, values := range from {
		name = http.CanonicalHeaderKey(name)
		if len(values) > 0 && (strings.HasPrefix(name, mcp.HeaderParamPrefix) || name == "Traceparent" || name == "Tracestate") {
			header[name] = values[:1:1]
		}
	}
	return header
}

// modernOnly is the value of a header. It has no room for another.
var modernOnly = []string{mcp.Modern}

// exchange sends one message. An error of the server that comes with a status of
// its own is a response like others; the rest is an *Error that says whether the
// server has taken the message.
func (h *httpServer) exchange(ctx context.Context, body []byte, header http.Header, caller *auth.Principal) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		if h.login != nil {
			if err := h.login.apply(ctx, header, caller); err != nil {
				return nil, h.credentialError(err)
			}
		}
		response, err := h.send(ctx, http.MethodPost, body, header)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
			return response, nil
		}
		again := false
		if h.login != nil {
			again, err = h.login.refused(ctx, response, caller, attempt)
		}
		closeBody(response)
		switch {
		case err != nil:
			return nil, h.credentialError(err)
		case !again && response.StatusCode == http.StatusUnauthorized:
			return nil, h.refused("it asks for credentials", &statusError{status: response.StatusCode})
		case !again:
			return nil, h.refused("the credentials do not allow it", &statusError{status: response.StatusCode})
		}
	}
}

// credentialError is the error of a request that was not sent for want of
// credentials.
func (h *httpServer) credentialError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if isLogin(err) {
		return &Error{
			Server: h.name, Kind: ErrUnavailable, Err: err,
			Reply: &mcp.Error{Code: mcp.CodeDenied, Message: fmt.Sprintf("The server %q asks for a login", h.name)},
		}
	}
	return h.refused("the node has no credentials for it", err)
}

// send sends a request once.
func (h *httpServer) send(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	if h.plain != nil && method == http.MethodPost && len(body) <= netguard.PlainBytes {
		response, err := h.post(ctx, body, header)
		if err != nil || response.StatusCode/100 != 3 {
			return response, err
		}
		closeBody(response) // the server has not taken the request
	}
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, h.url, content)
	if err != nil {
		return nil, h.unavailable(err)
	}
	request.Header = header
	response, err := h.client.Do(request)
	switch {
	case err == nil:
		return response, nil
	case !written.Load():
		return nil, h.unavailable(err)
	}
	return nil, h.lost(err)
}

// post sends a small message to a server without TLS.
func (h *httpServer) post(ctx context.Context, body []byte, header http.Header) (*http.Response, error) {
	response, sent, err := h.plain.Post(ctx, header, body, mcp.HeaderSession)
	switch {
	case err == nil:
		if response.StatusCode/100 != 2 {
			response.Request = &http.Request{Method: http.MethodPost, Header: header}
		}
		return response, nil
	case sent:
		return nil, h.lost(err)
	}
	return nil, h.unavailable(err)
}

// redirects follows those to the same origin that keep the method. Others would
// show the credentials to somebody else, or lose the message.
func redirects(next *http.Request, via []*http.Request) error {
	switch {
	case len(via) > 3:
		return errors.New("the server redirects too often")
	case !netguard.SameOrigin(next.URL, via[0].URL):
		return &netguard.BlockedError{Address: next.URL.Scheme + "://" + next.URL.Host, Reason: "it is a redirect to another origin; set the URL of the server to it if it is right"}
	case next.Method != via[0].Method:
		return errors.New("the server redirects to something that is no endpoint of MCP")
	}
	return nil
}

// closeBody closes a body, of which little is left to be read, so that its
// connection can be used again.
func closeBody(r *http.Response) {
	io.CopyN(io.Discard, r.Body, 4<<10) //nolint:errcheck // it is closed in any case
	r.Body.Close()
}

// mediaType returns the type of a body without its parameters.
func mediaType(r *http.Response) string {
	text := r.Header.Get("Content-Type")
	if text == typeJSON || text == typeEvents {
		return text
	}
	kind, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return kind
}

// httpAnswer is what answers of modern servers over HTTP have in common.
type httpAnswer struct {
	h        *httpServer
	ctx      context.Context // of who has asked
	call     context.Context // of the request to the server
	end      context.CancelCauseFunc
	request  *mcp.Message
	patience *patience
	response *http.Response
}

// Close gives the request up: that its stream is closed is what cancels it (CAN-01).
func (a *httpAnswer) Close() error {
	a.patience.stop()
	a.end(nil)
	if a.response != nil {
		a.response.Body.Close()
	}
	return nil
}

// open sends the request, and again where that is right: once without what was
// wrong with it, and once where nothing can have happened.
func (a *httpAnswer) open(r *Request, header http.Header) (Answer, error) {
	var lost, refreshed bool
	for {
		response, err := a.h.exchange(a.call, a.request.Body, header, r.Caller)
		if err != nil {
			err = a.h.why(a.ctx, a.call, err)
			if errors.Is(err, ErrOutcomeUnknown) && a.call.Err() == nil && idempotent(a.request.Method) && !lost {
				lost = true
				continue
			}
			return nil, err
		}
		a.response = response
		if response.StatusCode/100 == 2 {
			return a.begin()
		}
		e, err := a.h.statusError(a.call, response)
		if err != nil {
			return nil, a.h.why(a.ctx, a.call, err)
		}
		if e.Code == mcp.CodeHeaderMismatch && a.request.Method == mcp.MethodCallTool && !refreshed {
			refreshed = true
			if header = a.refresh(r); header != nil {
				continue
			}
		}
		if e.Code == mcp.CodeUnsupportedVersion && !contains(supportedBy(e), mcp.Modern) {
			return nil, a.h.refused("it does not speak "+mcp.Modern, errors.Join(errEra, e)) // VER-02
		}
		m, err := failure(a.request.ID, e)
		if err != nil {
			return nil, err
		}
		return &said{left: []*mcp.Message{m}}, nil
	}
}

// refresh asks for the tools again, and returns the header of the call as they are
// now (XMH-07); nil where that changes nothing.
func (a *httpAnswer) refresh(r *Request) http.Header {
	before := a.h.header(a.request, r.Header)
	name := a.request.NameValue()
	for cursor, pages := "", 0; pages < maxPages; pages++ {
		params := []byte("{}")
		if cursor != "" {
			params = []byte(`{"cursor":` + cursor + `}`)
		}
		ask := &Request{Caller: r.Caller, Message: mcp.NewRequest([]byte(`"refresh"`), mcp.MethodListTools, params, mcp.Meta{Client: clientInfo, Capabilities: a.request.MetaValue(mcp.MetaCapabilities)})}
		answer, err := a.h.modern(a.call, ask)
		if err != nil {
			return nil
		}
		m, err := lastOf(answer)
		if err != nil || !m.Err.IsZero() {
			return nil
		}
		if cursor = string(m.Param("nextCursor")); cursor == "" || cursor == "null" || a.h.tools.params(name) != nil {
			break
		}
	}
	after := a.h.header(a.request, r.Header)
	if sameHeader(before, after) {
		return nil
	}
	return after
}

// maxPages bounds the pages of a list that are asked for at once.
const maxPages = 100

func sameHeader(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name, values := range a {
		if len(b[name]) != 1 || len(values) != 1 || b[name][0] != values[0] {
			return false
		}
	}
	return true
}

// lastOf reads an answer up to its response.
func lastOf(a Answer) (*mcp.Message, error) {
	defer a.Close()
	for {
		m, err := a.Next()
		if err != nil {
			return nil, err
		}
		if m.IsResponse() {
			return m, nil
		}
	}
}

// statusError returns the error of the protocol that comes with a status, or an
// *Error where there is none.
func (h *httpServer) statusError(ctx context.Context, r *http.Response) (*mcp.Error, error) {
	body, err := netguard.ReadAll(r.Body, maxErrorBytes)
	r.Body.Close()
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if e := errorIn(body); e != nil {
		return h.hideError(e), nil
	}
	why := &statusError{r.StatusCode, clip(strings.TrimSpace(h.hide(string(body))), 200)}
	switch status := r.StatusCode; {
	case status == http.StatusBadRequest, status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return nil, h.refused("it has no such endpoint", errors.Join(errEra, why))
	case status == http.StatusTooManyRequests:
		return nil, h.refused("it has too much to do", why)
	case status == http.StatusServiceUnavailable:
		return nil, h.unavailable(why)
	case status/100 == 4 || status/100 == 3:
		return nil, h.refused(fmt.Sprintf("it answers with the status %d", status), why)
	}
	return nil, h.lost(why)
}

// errorIn returns the error of a response, whatever id it has; nil where the body
// is something else.
func errorIn(body []byte) *mcp.Error {
	if m, err := mcp.Scan(body, mcp.Limits{}); err == nil {
		return m.Error()
	}
	return looseError(body)
}

// begin looks at what the answer is.
func (a *httpAnswer) begin() (Answer, error) {
	switch kind := mediaType(a.response); kind {
	case typeJSON:
		return a.document()
	case typeEvents:
		return &eventAnswer{httpAnswer: a, events: newEvents(a.response.Body, a.h.resultBytes)}, nil
	default:
		return nil, a.h.badAnswer(fmt.Errorf("status %d with content of the type %q", a.response.StatusCode, clip(kind, 100)))
	}
}
