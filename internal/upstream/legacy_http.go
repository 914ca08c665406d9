package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
)

// sessions are those of a legacy server over HTTP (L25 basic/transports §Streamable
// HTTP).
type sessions struct {
	h       *httpServer
	sharing config.MCPSharing
	pool    *pool[*session]
	server  *legacyServer
}

func newSessions(h *httpServer, c *config.MCPServer, listTTL time.Duration, r *relay) *sessions {
	private := c.Sharing == config.MCPSharingPrincipal || c.Auth.OAuth != nil && !c.Auth.OAuth.Shared
	pool := newPool[*session](h.target, c.Processes, c.Idle.Std())
	return &sessions{
		h: h, sharing: c.Sharing, pool: pool,
		server: &legacyServer{target: h.target, held: newHolds(h.target, r), tools: &h.tools, ttl: listTTL, private: private, hub: newHub(), open: pool},
	}
}

// do sends a request over the session that it belongs to. A session that the server
// has ended is begun anew, once: the server has not taken the request then.
func (s *sessions) do(ctx context.Context, r *Request) (Answer, error) {
	if takesInput(r.Message.Method) && r.Message.Param("requestState") != nil {
		return s.server.resume(ctx, r)
	}
	who, key, caps := sessionKey(s.sharing, r)
	for again := false; ; again = true {
		slot, err := s.pool.get(ctx, key, func(ctx context.Context) (*session, error) { return s.open(ctx, who, r.Caller, caps) })
		if err != nil {
			return nil, s.h.sessionError(err)
		}
		answer, err := s.server.do(ctx, slot.conn, r, slot.release)
		if err == nil {
			return answer, nil
		}
		slot.release()
		if again || !errors.Is(err, errNoSession) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// probe begins a session to see whether the server has them. An error of the server
// is an *mcp.Error.
func (s *sessions) probe(ctx context.Context, caller *auth.Principal) (string, error) {
	r := &Request{Caller: caller, Message: &mcp.Message{Method: mcp.MethodListTools}}
	who, key, caps := sessionKey(s.sharing, r)
	slot, err := s.pool.get(ctx, key, func(ctx context.Context) (*session, error) { return s.open(ctx, who, caller, caps) })
	if err != nil {
		return "", err
	}
	defer slot.release()
	return slot.conn.revision, nil
}

func (s *sessions) open(ctx context.Context, who string, caller *auth.Principal, caps mcp.Capabilities) (*session, error) {
	one := newSession(s.server, who, caps)
	link := &httpLink{h: s.h, s: one, caller: caller, heard: make(chan struct{})}
	link.life, link.end = context.WithCancelCause(context.Background())
	one.link = link
	if err := one.initialize(ctx, legacyRevision(s.h.era)); err != nil {
		link.stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return one, nil
}

func (s *sessions) close(ctx context.Context) {
	s.server.held.close()
	s.pool.close(ctx)
}

func (s *sessions) count() int { return s.pool.count() }

// httpLink carries a session over HTTP.
type httpLink struct {
	h      *httpServer
	s      *session
	caller *auth.Principal
	life   context.Context
	end    context.CancelCauseFunc
	hears  sync.Once
	heard  chan struct{} // closed when the stream for the rest is open, or there is none
	work   sync.WaitGroup

	mu     sync.Mutex
	id     string // of the session; "": it has none
	over   bool
	closed bool
}

// header returns the header of a message of the session.
func (l *httpLink) header(from http.Header) http.Header {
	header := l.h.base(nil)
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if values := from[name]; len(values) > 0 {
			header[name] = values[:1:1]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != "" {
		header.Set(mcp.HeaderSession, l.id)
	}
	if l.s.revision != "" {
		header.Set(mcp.KeyVersion, l.s.revision)
	}
	return header
}

// call sends a request, and has what comes on its stream received.
func (l *httpLink) call(c *legacyCall, body []byte) error {
	r, err := l.h.exchange(c.life, body, l.header(c.header), l.caller)
	if err != nil {
		return err
	}
	if r.StatusCode/100 != 2 {
		return l.failed(c, r)
	}
	if c.method == mcp.MethodInitialize {
		if err := l.begin(r.Header.Get(mcp.HeaderSession)); err != nil {
			closeBody(r)
			return err
		}
	}
	switch kind := mediaType(r); kind {
	case typeJSON:
		defer closeBody(r)
		content, err := netguard.ReadAll(r.Body, l.h.resultBytes)
		if err != nil {
			if e, ok := errors.AsType[*netguard.TooLargeError](err); ok {
				return l.h.badAnswer(e)
			}
			return l.h.lost(err)
		}
		done, err := l.take(c, content)
		if err == nil && !done {
			err = l.h.badAnswer(fmt.Errorf("the answer is not to the request %d", c.id))
		}
		return err
	case typeEvents:
		if !l.start(func() { l.read(c, r) }) {
			r.Body.Close()
			return l.h.unavailable(errStopped)
		}
		return nil
	default:
		closeBody(r)
		return l.h.badAnswer(fmt.Errorf("status %d with content of the type %q", r.StatusCode, clip(kind, 100)))
	}
}

// start runs something that ends with the link.
func (l *httpLink) start(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(run)
	return true
}

// begin takes the id of the session, which is visible ASCII (LEG-02).
func (l *httpLink) begin(id string) error {
	for _, c := range []byte(id) {
		if c < 0x21 || c > 0x7e || len(id) > 1<<10 {
			return l.h.badAnswer(errors.New("the id of the session is not one"))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
	return nil
}

// failed takes a status that is an error. One that says that there is no such
// session ends this one; servers that were started anew answer with 400, too.
func (l *httpLink) failed(c *legacyCall, r *http.Response) error {
	l.mu.Lock()
	in := l.id != ""
	l.mu.Unlock()
	if in && (r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusBadRequest) {
		closeBody(r)
		l.lose()
		return l.h.refused("its session is over", errors.Join(errNoSession, &statusError{status: r.StatusCode}))
	}
	e, err := l.h.statusError(c.life, r)
	if err != nil {
		return err
	}
	m, err := failure(jsontext.Value(strconv.FormatInt(c.id, 10)), e)
	if err == nil {
		l.s.receive(m, c)
	}
	return err
}

// lose says that the session is over at the server.
func (l *httpLink) lose() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.s.fail(errNoSession)
}

// take hands on the messages of a body or an event, and reports whether the
// response to the call was among them. Servers of 2025-03-26 may send several at
// once (LEG-05).
func (l *httpLink) take(c *legacyCall, content []byte) (done bool, err error) {
	list := []jsontext.Value{content}
	if jsontext.Value(content).Kind() == '[' && l.s.revision == "2025-03-26" {
		if err := json.Unmarshal(content, &list); err != nil {
			return false, l.h.badAnswer(err)
		}
	}
	for _, one := range list {
		var m *mcp.Message
		if c == nil {
			m, err = l.h.scan(one)
		} else {
			m, err = l.h.scanResponse(one, jsontext.Value(strconv.FormatInt(c.id, 10)))
		}
		if err != nil {
			return done, err
		}
		l.s.receive(m, c)
		done = done || c != nil && m.IsResponse() && l.s.find(m.ID) == c
	}
	return done, nil
}

// retryTime is how long to wait before a stream is taken up again, where the server
// does not say; maxRetry bounds what it says.
const (
	retryTime   = time.Second
	maxRetry    = 30 * time.Second
	maxResumed  = 1000
	maxFailures = 5
)

// read receives the stream of a call. One that ends early is taken up again where
// the server has said how (LEG-07).
func (l *httpLink) read(c *legacyCall, r *http.Response) {
	var last string
	pause := retryTime
	for resumed := 0; ; resumed++ {
		done, err := l.events(c, r, &last, &pause)
		r.Body.Close()
		switch {
		case done || c.life.Err() != nil:
			return
		case last == "" || resumed >= maxResumed || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			if e, ok := errors.AsType[*Error](err); ok {
				c.queue.fail(e)
			} else {
				c.queue.fail(l.h.lost(err))
			}
			return
		}
		next, err := l.get(c.life, last, pause)
		if err != nil {
			c.queue.fail(l.h.lost(err))
			return
		}
		r = next
	}
}

// events receives what comes on a stream until the response to the call, or its end.
func (l *httpLink) events(c *legacyCall, r *http.Response, last *string, pause *time.Duration) (done bool, err error) {
	stream := newEvents(r.Body, l.h.resultBytes)
	total := int64(0)
	for {
		e, err := stream.next()
		if err != nil {
			if errors.Is(err, errEventSize) {
				err = l.h.badAnswer(err)
			}
			return false, err
		}
		if e.hasID {
			*last = e.id
		}
		if e.retry >= 0 {
			*pause = min(e.retry, maxRetry)
		}
		if e.name != "" && e.name != "message" || len(e.data) == 0 {
			continue
		}
		if total += int64(len(e.data)); c != nil && total > 4*l.h.resultBytes {
			return false, l.h.badAnswer(errors.New("the stream does not end"))
		}
		if done, err := l.take(c, append([]byte(nil), e.data...)); done || err != nil {
			return done, err
		}
	}
}

// get opens a stream of the session by itself: from an event on, or for what
// belongs to no request.
func (l *httpLink) get(ctx context.Context, last string, pause time.Duration) (*http.Response, error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	header := l.header(nil)
	header.Del("Content-Type")
	header.Set("Accept", typeEvents)
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	if l.h.login != nil {
		if err := l.h.login.apply(ctx, header, l.caller); err != nil {
			return nil, l.h.credentialError(err)
		}
	}
	r, err := l.h.send(ctx, http.MethodGet, nil, header)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK || mediaType(r) != typeEvents {
		closeBody(r)
		return nil, &statusError{status: r.StatusCode}
	}
	return r, nil
}

// listen opens the stream for what belongs to no request (LEG-03).
func (l *httpLink) listen() <-chan struct{} {
	l.hears.Do(func() {
		if !l.start(l.hear) {
			close(l.heard)
		}
	})
	return l.heard
}

func (l *httpLink) hear() {
	settled := sync.OnceFunc(func() { close(l.heard) })
	defer settled()
	var last string
	pause := time.Duration(0)
	for failures := 0; failures < maxFailures; {
		r, err := l.get(l.life, last, pause)
		settled()
		if err != nil {
			if status, ok := errors.AsType[*statusError](err); ok && status.status/100 == 4 || l.life.Err() != nil {
				return // there is none, or the session is over
			}
			failures++
			pause = min(max(2*pause, retryTime), maxRetry)
			continue
		}
		failures, pause = 0, retryTime
		_, err = l.events(nil, r, &last, &pause)
		r.Body.Close()
		if e, ok := errors.AsType[*Error](err); ok {
			l.h.log.Warn("an MCP server sends what is not a message", "error", e)
			failures++
		}
	}
}

// tell sends a notification or a response.
func (l *httpLink) tell(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })()
	r, err := l.h.exchange(ctx, body, l.header(nil), l.caller)
	if err != nil {
		return err
	}
	defer closeBody(r)
	if r.StatusCode/100 == 2 {
		return nil
	}
	if r.StatusCode == http.StatusNotFound {
		l.lose()
	}
	return l.h.refused("it does not take the message", &statusError{status: r.StatusCode})
}

func (l *httpLink) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || l.closed
}

// stop ends the session (LEG-02).
func (l *httpLink) stop(ctx context.Context) {
	l.mu.Lock()
	known, id := l.closed, l.id
	if l.over {
		id = ""
	}
	l.closed = true
	l.mu.Unlock()
	if known {
		return
	}
	if id != "" {
		l.delete(ctx)
	}
	l.s.fail(errStopped)
	l.end(errStopped)
	l.s.mu.Lock()
	for _, c := range l.s.calls {
		c.end(errStopped)
	}
	l.s.mu.Unlock()
	l.work.Wait()
}

func (l *httpLink) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	header := l.header(nil)
	header.Del("Content-Type")
	if l.h.login != nil && l.h.login.apply(ctx, header, l.caller) != nil {
		return
	}
	r, err := l.h.send(ctx, http.MethodDelete, nil, header)
	if err != nil {
		l.h.log.Debug("cannot end the session with an MCP server", "error", err)
		return
	}
	closeBody(r)
}
