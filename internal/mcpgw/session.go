package mcpgw

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// Spaces of documents.
const (
	spaceSession = "mcp.session"
	spaceReply   = "mcp.reply" // what clients answer, and calls that they cancel
)

// Bounds of a session.
const (
	maxSubscriptions = 1000
	maxSessions      = 20_000 // that a caller begins in an hour
	maxCalls         = 200    // of a session at once, at a node
	maxRequestID     = 200    // bytes
	cancelTime       = time.Minute
	inputTime        = 15 * time.Minute // in which a person answers
	lookForReplies   = 250 * time.Millisecond
	lookForCancels   = 2 * time.Second
)

// session is what is known of a legacy client since its initialize: a row that any
// node reads.
type session struct {
	ID           string         `json:"-"`
	Endpoint     string         `json:"endpoint"`
	Version      string         `json:"version"`
	Client       jsontext.Value `json:"client,omitzero"`
	Capabilities jsontext.Value `json:"capabilities,omitzero"`
	Level        string         `json:"level,omitzero"`      // of logs
	Subscribed   []string       `json:"subscribed,omitzero"` // URIs, as the client has them
	Stream       string         `json:"stream,omitzero"`     // which GET stream has the session
	doc          *store.Doc
}

// capabilities are what the client can be asked for, as a modern client would
// declare it: nothing that its revision does not have, and no tasks (TSK-20).
func (s *session) capabilities() mcp.Capabilities {
	c := mcp.ParseCapabilities(s.Capabilities)
	c.Tasks = false
	if s.Version < mcp.Legacy {
		c.ElicitForm = (c.ElicitForm || c.ElicitURL) && s.Version >= revision202506
		c.ElicitURL, c.SampleTools = false, false
	}
	return c
}

// sessions are those of legacy clients, and what this node does for them.
type sessions struct {
	of   atomic.Pointer[Handler] // the newest
	ctx  context.Context         // of all calls; over when the gateway closes
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu      sync.Mutex
	calls   map[string]context.CancelCauseFunc // under way, by session and id
	busy    map[string]int                     // calls under way, by session
	waiting map[string]chan []byte             // for answers, by session and id
	streams map[string]chan struct{}           // hints for GET streams, by session
}

func newSessions(h *Handler) *sessions {
	s := &sessions{
		calls: map[string]context.CancelCauseFunc{}, busy: map[string]int{}, waiting: map[string]chan []byte{}, streams: map[string]chan struct{}{},
	}
	s.of.Store(h)
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

func (s *sessions) docs() store.Docs { return s.of.Load().opts.Docs }

// close ends the streams and the calls of legacy clients.
func (s *sessions) close() {
	s.mu.Lock()
	s.stop(errClosing)
	s.mu.Unlock()
	s.work.Wait()
}

var (
	errNoSession = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The session is not known, or over; begin another with initialize", Status: http.StatusNotFound}
	errNoHeader  = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "The header " + mcp.HeaderSession + " is missing; a session begins with initialize", Status: http.StatusBadRequest}
)

// unavailable is the error for a store that does not answer.
func unavailable(err error) error {
	return &mcp.Error{Code: mcp.CodeInternal, Message: "The gateway cannot work at the moment", Status: http.StatusServiceUnavailable, RetryAfter: 2, Err: err}
}

// make begins a session of a caller (LEG-02, LEG-11).
func (s *sessions) make(ctx context.Context, p *auth.Principal, of *session) error {
	if s.docs() == nil {
		return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "There are no sessions here", Status: http.StatusBadRequest}
	}
	_, err := s.docs().Spend(ctx, spaceSession, "begun/"+callerOf(p), 1, maxSessions, time.Now().Truncate(time.Hour).Add(time.Hour))
	if errors.Is(err, store.ErrExceeded) {
		return &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many sessions were begun", RetryAfter: 60}
	}
	if err != nil {
		return unavailable(err)
	}
	of.ID = randomID()
	of.doc = &store.Doc{Space: spaceSession, Key: of.ID, Tenant: p.Tenant, Owner: p.Subject}
	return s.put(ctx, of)
}

func randomID() string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

func (s *sessions) put(ctx context.Context, of *session) error {
	body, err := json.Marshal(of)
	if err != nil {
		return unavailable(err)
	}
	of.doc.Body, of.doc.Expires = body, time.Now().Add(s.of.Load().opts.SessionTTL)
	if err := s.docs().PutDoc(ctx, of.doc); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return err
		}
		return unavailable(err)
	}
	return nil
}

// get returns the session with that id of a caller at an endpoint; that of somebody
// else is not known (LEG-11).
func (s *sessions) get(ctx context.Context, v View, id string) (*session, error) {
	if id == "" {
		return nil, errNoHeader
	}
	if s.docs() == nil || len(id) > 100 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return nil, errNoSession
	}
	doc, err := s.docs().Doc(ctx, auth.Scope(v.Caller), spaceSession, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, unavailable(err)
	}
	of := &session{ID: id, doc: doc}
	if err := json.Unmarshal(doc.Body, of); err != nil {
		return nil, unavailable(err)
	}
	if of.Endpoint != v.Endpoint.Path() || !slices.Contains(s.of.Load().legacy, of.Version) {
		return nil, errNoSession
	}
	return of, nil
}

// touch lets a session last on. It is written now and then alone.
func (s *sessions) touch(ctx context.Context, of *session) {
	if ttl := s.of.Load().opts.SessionTTL; time.Until(of.doc.Expires) < ttl-ttl/10 {
		_ = s.put(ctx, of) // when it fails, the next request tries again
	}
}

// change changes a session, on top of what others have changed.
func (s *sessions) change(ctx context.Context, v View, of *session, change func(*session) error) error {
	for range 10 {
		if err := change(of); err != nil {
			return err
		}
		err := s.put(ctx, of)
		if !errors.Is(err, store.ErrConflict) {
			if err == nil {
				s.hint(of.ID)
			}
			return err
		}
		fresh, err := s.get(ctx, v, of.ID)
		if err != nil {
			return err
		}
		*of = *fresh
	}
	return unavailable(errors.New("the session changes all the time"))
}

// end ends a session, and its calls on this node.
func (s *sessions) end(ctx context.Context, v View, id string) error {
	err := s.docs().DeleteDoc(ctx, auth.Scope(v.Caller), spaceSession, id)
	if errors.Is(err, store.ErrNotFound) {
		return errNoSession
	}
	if err != nil {
		return unavailable(err)
	}
	s.mu.Lock()
	var stop []context.CancelCauseFunc
	for key, cancel := range s.calls {
		if strings.HasPrefix(key, id+"/") {
			stop = append(stop, cancel)
		}
	}
	s.mu.Unlock()
	for _, cancel := range stop {
		cancel(errCanceled)
	}
	s.hint(id)
	return nil
}

// hint wakes the GET stream of a session, if it is at this node.
func (s *sessions) hint(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.streams[id]; c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// errClosing says that the gateway closes.
var errClosing = errors.New("the gateway closes")

// errCanceled says that the client has canceled a call.
var errCanceled = errors.New("the client has canceled the call")

// callKey names a call, or an answer, of a session.
func callKey(session string, id []byte) string { return session + "/" + string(id) }

// enter makes a request of a session one that can be canceled. Its context is not
// that of the connection: a legacy client that loses it has not canceled (LEG-06).
func (s *sessions) enter(r *http.Request, v View, of *session, id jsontext.Value) (ctx context.Context, leave func(), err error) {
	if len(id) > maxRequestID {
		return nil, nil, mcp.Errorf(mcp.CodeInvalidRequest, "The id is longer than %d bytes", maxRequestID)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	key := callKey(of.ID, id)
	s.mu.Lock()
	if s.calls[key] != nil { // BAS-02
		s.mu.Unlock()
		cancel(nil)
		return nil, nil, mcp.Errorf(mcp.CodeInvalidRequest, "The id is that of a request that is not over")
	}
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		cancel(nil)
		return nil, nil, unavailable(s.ctx.Err())
	}
	if s.busy[of.ID] >= maxCalls {
		s.mu.Unlock()
		cancel(nil)
		return nil, nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many calls of the session are under way", RetryAfter: 1}
	}
	s.calls[key] = cancel
	s.busy[of.ID]++
	s.work.Add(1)
	s.mu.Unlock()
	unhook := context.AfterFunc(s.ctx, func() { cancel(errClosing) })
	looking := s.lookForCancel(ctx, v, key, cancel)
	return ctx, func() {
		unhook()
		cancel(nil)
		<-looking
		s.mu.Lock()
		delete(s.calls, key)
		if s.busy[of.ID]--; s.busy[of.ID] == 0 {
			delete(s.busy, of.ID)
		}
		s.mu.Unlock()
		s.work.Done()
	}, nil
}

// lookForCancel looks whether another node was told that a call is canceled, once it
// takes long.
func (s *sessions) lookForCancel(ctx context.Context, v View, key string, cancel context.CancelCauseFunc) (done chan struct{}) {
	done = make(chan struct{})
	p := *v.Caller
	go func() {
		defer close(done)
		every := time.NewTicker(lookForCancels)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			if _, err := s.docs().Doc(ctx, auth.Scope(&p), spaceReply, "cancel/"+key); err == nil {
				cancel(errCanceled)
				_ = s.docs().DeleteDoc(ctx, auth.Scope(&p), spaceReply, "cancel/"+key)
				return
			}
		}
	}()
	return done
}

// cancel cancels a call of a session, wherever it runs. One that is not known, or
// over, is not an error (CAN-02).
func (s *sessions) cancel(ctx context.Context, v View, of *session, id jsontext.Value) {
	if len(id) == 0 || len(id) > maxRequestID {
		return
	}
	key := callKey(of.ID, id)
	s.mu.Lock()
	cancel := s.calls[key]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCanceled)
		return
	}
	_ = s.docs().PutDoc(ctx, &store.Doc{ // when it fails, the call goes on to its end
		Space: spaceReply, Key: "cancel/" + key, Tenant: v.Caller.Tenant, Owner: v.Caller.Subject,
		Expires: time.Now().Add(cancelTime),
	})
}

// expect says that an answer of a client is waited for here, with a row for nodes
// that are not this one.
func (s *sessions) expect(ctx context.Context, p *auth.Principal, key string) (answer chan []byte, err error) {
	answer = make(chan []byte, 1)
	doc := &store.Doc{Space: spaceReply, Key: key, Tenant: p.Tenant, Owner: p.Subject, Expires: time.Now().Add(inputTime)}
	if err := s.docs().PutDoc(ctx, doc); err != nil {
		return nil, unavailable(err)
	}
	s.mu.Lock()
	s.waiting[key] = answer
	s.mu.Unlock()
	return answer, nil
}

// forget removes what expect has made.
func (s *sessions) forget(ctx context.Context, p *auth.Principal, key string) {
	s.mu.Lock()
	delete(s.waiting, key)
	s.mu.Unlock()
	_ = s.docs().DeleteDoc(context.WithoutCancel(ctx), auth.Scope(p), spaceReply, key) // it expires by itself
}

// reply hands an answer of a client to who waits for it. One that nobody waits for
// is left.
func (s *sessions) reply(ctx context.Context, v View, of *session, m *mcp.Message) error {
	if len(m.ID) > maxRequestID {
		return nil
	}
	key := callKey(of.ID, m.ID)
	s.mu.Lock()
	answer := s.waiting[key]
	delete(s.waiting, key)
	s.mu.Unlock()
	if answer != nil {
		answer <- m.Body
		return nil
	}
	doc, err := s.docs().Doc(ctx, auth.Scope(v.Caller), spaceReply, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(doc.Body) > 0 {
		return nil
	}
	if err != nil {
		return unavailable(err)
	}
	doc.Body = m.Body
	if err := s.docs().PutDoc(ctx, doc); err != nil && !errors.Is(err, store.ErrConflict) {
		return unavailable(err)
	}
	return nil
}

// await waits for an answer, here or in the store.
func (s *sessions) await(ctx context.Context, p *auth.Principal, key string, answer chan []byte) (*mcp.Message, error) {
	every := time.NewTicker(lookForReplies)
	defer every.Stop()
	for {
		var body []byte
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case body = <-answer:
		case <-every.C:
			doc, err := s.docs().Doc(ctx, auth.Scope(p), spaceReply, key)
			if err != nil || len(doc.Body) == 0 {
				continue
			}
			body = doc.Body
		}
		return mcp.Scan(body, mcp.Limits{Depth: 1 << 20})
	}
}
