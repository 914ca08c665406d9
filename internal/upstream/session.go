package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
)

// link carries the messages of one legacy session.
type link interface {
	// call sends a request. What comes in answer goes to session.receive.
	call(c *legacyCall, body []byte) error
	// tell sends a notification or a response.
	tell(ctx context.Context, body []byte) error
	// listen has the server send what belongs to no request, too. The channel is
	// closed when it does, or does not.
	listen() <-chan struct{}
	dead() bool
	stop(ctx context.Context)
}

// session is a session of a legacy server (L25 basic/lifecycle). Its capabilities
// were declared when it began.
type session struct {
	t    *target
	link link
	who  string // whose it is
	hub  *hub
	caps mcp.Capabilities

	revision     string
	server       jsontext.Value // serverInfo
	capabilities jsontext.Value
	instructions jsontext.Value
	offers       offers

	mu       sync.Mutex
	last     int64
	calls    map[int64]*legacyCall
	newest   []*legacyCall // those under way, in the order in which they began
	watchers map[*watcher]bool
	uris     map[string]int // resources that are subscribed to, and by how many
	level    string         // of log messages
	err      error
}

// offers is what a legacy server can tell by itself.
type offers struct {
	Tools     *struct{ ListChanged bool } `json:"tools"`
	Prompts   *struct{ ListChanged bool } `json:"prompts"`
	Resources *struct{ ListChanged, Subscribe bool }
	Logging   *struct{}
}

func newSession(l *legacyServer, who string, caps mcp.Capabilities) *session {
	return &session{t: l.target, who: who, hub: l.hub, caps: caps, calls: map[int64]*legacyCall{}, watchers: map[*watcher]bool{}, uris: map[string]int{}}
}

// legacyCall is a request to a legacy server. It lives on while its client is asked
// for something in the middle of it, when nobody waits for it here.
type legacyCall struct {
	s       *session
	id      int64
	method  string
	token   jsontext.Value // of the client; nil: it wants no progress
	logs    bool
	header  http.Header // what of the client's header may be handed on
	caps    mcp.Capabilities
	queue   *queue
	life    context.Context
	end     context.CancelCauseFunc
	release func() // nil: nothing to release
	once    sync.Once
	asked   int // how often the client was asked
}

// enter makes a request one that waits.
func (s *session) enter(ctx context.Context, m *mcp.Message) (*legacyCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.t.unavailable(s.err)
	}
	s.last++
	c := &legacyCall{s: s, id: s.last, method: m.Method, queue: newQueue(s.t.resultBytes)}
	c.life, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	c.token, c.logs = m.MetaValue(mcp.MetaProgress), m.MetaValue(mcp.MetaLogLevel) != nil
	if takesInput(m.Method) {
		c.caps = carried(m.Capabilities())
	}
	s.calls[c.id] = c
	s.newest = append(s.newest, c)
	return c, nil
}

// leave ends a call. One that is not over is given up at the server: there, that a
// stream is closed says nothing (LEG-06).
func (c *legacyCall) leave(over bool) {
	c.once.Do(func() {
		s := c.s
		s.mu.Lock()
		delete(s.calls, c.id)
		for i, one := range s.newest {
			if one == c {
				s.newest = append(s.newest[:i:i], s.newest[i+1:]...)
				break
			}
		}
		s.mu.Unlock()
		if !over && !s.link.dead() && c.method != mcp.MethodInitialize {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), cancelTime)
			s.tell(ctx, cancelled(c.id))
			cancel()
		}
		c.end(nil)
		if c.release != nil {
			c.release()
		}
	})
}

// setToken has progress go to another request of the client.
func (c *legacyCall) setToken(token jsontext.Value) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.token = token
}

// tell sends what the server has to be told, and goes on where that fails: the
// session shows by itself what is wrong with it.
func (s *session) tell(ctx context.Context, body []byte) {
	if err := s.link.tell(ctx, body); err != nil {
		s.t.log.Debug("cannot tell an MCP server", "error", err)
	}
}

// fail ends the session for everybody.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	why := error(s.t.lost(err))
	if e, ok := errors.AsType[*Error](err); ok {
		why = e
	}
	for _, c := range s.calls {
		c.queue.fail(why)
	}
	for w := range s.watchers {
		w.queue.fail(why)
	}
}

func (s *session) dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || s.link.dead()
}

func (s *session) stop(ctx context.Context) {
	s.link.stop(ctx)
	s.fail(errStopped)
}

// receive takes a message of the server. via is the call on whose stream it has
// come; nil: on one that all share. The message is not used by others.
func (s *session) receive(m *mcp.Message, via *legacyCall) {
	switch {
	case m.IsResponse():
		if c := s.find(m.ID); c != nil && (via == nil || via == c) {
			c.queue.push(m)
		}
	case m.IsNotification():
		s.notified(m, via)
	default:
		s.asked(m, via)
	}
}

// find returns the call with an id of ours.
func (s *session) find(id jsontext.Value) *legacyCall {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[n]
}

// notified takes a notification to whom it concerns.
func (s *session) notified(m *mcp.Message, via *legacyCall) {
	switch m.Method {
	case mcp.NotifyProgress:
		if c := s.find(m.Param(mcp.MetaProgress)); c != nil {
			s.mu.Lock()
			token := c.token
			s.mu.Unlock()
			if token != nil {
				c.queue.push(m.WithParam(mcp.MetaProgress, token))
			}
		}
	case mcp.NotifyMessage:
		if via == nil {
			via = s.onlyCall()
		}
		if via != nil && via.logs { // MET-09
			via.queue.push(m)
		}
	case mcp.NotifyCancelled:
		s.withdrawn(m, via)
	default:
		s.hub.offer(s.who, m)
	}
}

// onlyCall returns the call that is under way, if there is one alone.
func (s *session) onlyCall() *legacyCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.newest) == 1 {
		return s.newest[0]
	}
	return nil
}

// asked takes a request of the server. The client of a call under way is asked; it
// does not say which, and where several wait they are of one caller, so that the
// newest will do (STD-09).
func (s *session) asked(m *mcp.Message, via *legacyCall) {
	if m.Method == mcp.MethodPing {
		s.answer(m.ID, jsontext.Value("{}"))
		return
	}
	if via != nil && !may(via.caps, m) {
		via = nil
	} else if via == nil {
		s.mu.Lock()
		for i := len(s.newest) - 1; i >= 0 && via == nil; i-- {
			if may(s.newest[i].caps, m) {
				via = s.newest[i]
			}
		}
		s.mu.Unlock()
	}
	if via != nil {
		via.queue.push(m)
		return
	}
	s.refuse(m.ID, "nobody who could be asked waits for an answer")
}

// answer answers a request of the server.
func (s *session) answer(id, result jsontext.Value) {
	s.later(mcp.AppendResult(nil, id, result))
}

// refuse answers a request of the server with an error.
func (s *session) refuse(id jsontext.Value, why string) {
	s.later(mcp.AppendError(nil, id, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "Not supported: " + why}))
}

// later sends a message beside what is received.
func (s *session) later(body []byte) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.t.connect)
		defer cancel()
		s.tell(ctx, body)
	}()
}

// withdrawn takes back a request of the server that nobody has been asked yet.
func (s *session) withdrawn(m *mcp.Message, via *legacyCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(m.Param("requestId"))
	for _, c := range s.newest {
		if via == nil || via == c {
			c.queue.withdraw(id)
		}
	}
}

// may reports whether a client may be asked (MET-05, MRT-01).
func may(caps mcp.Capabilities, m *mcp.Message) bool {
	switch m.Method {
	case mcp.MethodElicit:
		if m.ParamString("mode") == "url" {
			return caps.ElicitURL
		}
		return caps.ElicitForm
	case mcp.MethodSample:
		return caps.Sampling && (caps.SampleTools || m.Param("tools") == nil)
	case mcp.MethodListRoots:
		return caps.Roots
	}
	return false
}

// carried returns what of a client's capabilities a legacy server can use (MRT-08).
func carried(c mcp.Capabilities) mcp.Capabilities {
	return mcp.Capabilities{ElicitForm: c.ElicitForm, ElicitURL: c.ElicitURL, Sampling: c.Sampling, SampleTools: c.SampleTools, Roots: c.Roots}
}

// callerKey names a caller among those of a server.
func callerKey(p *auth.Principal) string {
	if p == nil {
		return "node"
	}
	return "of\x00" + p.Tenant + "\x00" + p.Issuer + "\x00" + p.Subject
}

// initialize begins the session (LEG-01).
func (s *session) initialize(ctx context.Context, revision string) error {
	params := append([]byte(`{"protocolVersion":"`+revision+`","clientInfo":`), clientInfo...)
	params = append(params, `,"capabilities":`...)
	params = append(s.caps.AppendJSON(params), '}')
	m, err := s.rpc(ctx, mcp.MethodInitialize, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(m.Param("protocolVersion"), &s.revision); err != nil || !mcp.Known(s.revision) || mcp.IsModern(s.revision) {
		return s.t.refused("it speaks no revision that the node speaks", fmt.Errorf("it speaks %.40q", s.revision))
	}
	s.server, s.capabilities, s.instructions = clone(m.Param("serverInfo")), clone(m.Param("capabilities")), clone(m.Param("instructions"))
	if err := json.Unmarshal(s.capabilities, &s.offers, json.MatchCaseInsensitiveNames(true)); err != nil {
		s.offers = offers{}
	}
	s.t.health.speaks(s.revision)
	if err := s.link.tell(ctx, []byte(`{"jsonrpc":"2.0","method":"`+mcp.NotifyInitialized+`"}`)); err != nil {
		return s.t.asError(err)
	}
	if len(s.caps.AppendJSON(nil)) > len("{}") || s.hub.heard(s.who) {
		s.hear(ctx) // some servers ask beside the stream of the call
	}
	return nil
}

// hearTime is how long a server may take to open the stream for what belongs to no
// request.
const hearTime = 2 * time.Second

// hear has the server send what belongs to no request, and waits until it does: what
// it sends before is lost.
func (s *session) hear(ctx context.Context) {
	timer := time.NewTimer(hearTime)
	defer timer.Stop()
	select {
	case <-s.link.listen():
	case <-timer.C:
	case <-ctx.Done():
	}
}

func clone(v jsontext.Value) jsontext.Value { return append(jsontext.Value(nil), v...) }

// rpc makes a call of the session's own. An error of the server is an *mcp.Error.
func (s *session) rpc(ctx context.Context, method string, params []byte) (*mcp.Message, error) {
	c, err := s.enter(ctx, &mcp.Message{Method: method})
	if err != nil {
		return nil, err
	}
	over := false
	defer func() { c.leave(over) }()
	defer context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })()
	if err := s.link.call(c, legacyRequest(c.id, method, params)); err != nil {
		return nil, s.t.why(ctx, c.life, err)
	}
	for {
		m, err := c.queue.pop(c.life)
		switch {
		case err != nil:
			return nil, s.t.why(ctx, c.life, err)
		case !m.IsResponse():
			continue
		}
		over = true
		if e := m.Error(); e != nil {
			return nil, e
		}
		return m, nil
	}
}

// legacyRequest returns a request with an id of ours.
func legacyRequest(id int64, method string, params []byte) []byte {
	body := strconv.AppendInt([]byte(`{"jsonrpc":"2.0","id":`), id, 10)
	body = append(append(append(body, `,"method":"`...), method...), '"')
	if params != nil {
		body = append(append(body, `,"params":`...), params...)
	}
	return append(body, '}')
}
