package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mask"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// Options are what servers need besides their configuration.
type Options struct {
	// Guard makes the clients of servers over HTTP.
	Guard *netguard.Guard
	// Path returns a path of the configuration as one that is not relative to the
	// file. nil takes paths as they are.
	Path func(string) string
	// Log takes what operators should know; nil: nothing.
	Log *slog.Logger
	// Now returns the time; nil is time.Now.
	Now func() time.Time
	// Observe is told of each request that is over; nil: nobody is.
	Observe func(Outcome)
	// Login is where callers log in to servers that ask for it; nil: nowhere.
	Login *Login
	// Docs are shared with other nodes, so that a client which is asked something in
	// the middle of a call may answer at any of them; nil: there are no others.
	Docs store.Docs
}

// Outcome is what became of a request.
type Outcome struct {
	Server string
	Method string
	Name   string // of the tool, prompt or resource; "": none
	// Result is the type of the result, error for an error of the server,
	// unavailable, lost, slow or invalid for what the server did wrong, or canceled.
	Result string
	Took   time.Duration
}

// Servers are the MCP servers of a configuration. It is safe for concurrent use.
type Servers struct {
	opts    Options
	listTTL time.Duration
	relay   *relay

	mu     sync.Mutex
	byName map[string]*server
}

// New returns the servers of a configuration. None is asked or started before it is
// needed. It fails where a file that is named cannot be read.
func New(c *config.MCP, opts Options) (*Servers, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Path == nil {
		opts.Path = func(path string) string { return path }
	}
	if opts.Guard == nil {
		opts.Guard = netguard.New(netguard.Policy{})
	}
	if opts.Login == nil {
		opts.Login = NewLogin(LoginOptions{})
	}
	s := &Servers{opts: opts, listTTL: c.ListTTL.Std(), relay: newRelay(opts.Docs, opts.Log), byName: map[string]*server{}}
	for name, one := range c.Servers {
		made, err := s.make(name, one)
		if err != nil {
			return nil, fmt.Errorf("set up MCP server %q: %w", name, err)
		}
		s.byName[name] = made
	}
	return s, nil
}

// Names returns the names of the servers in order.
func (s *Servers) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.byName))
	for name := range s.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Get returns a server.
func (s *Servers) Get(name string) (Server, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	return one, true
}

// State returns how a server is.
func (s *Servers) State(name string) (State, bool) {
	s.mu.Lock()
	one, ok := s.byName[name]
	s.mu.Unlock()
	if !ok {
		return State{}, false
	}
	return one.state(), true
}

// Reload takes another configuration. Servers whose configuration is as it was go
// on; the others are closed once what is under way is over or the context ends.
func (s *Servers) Reload(ctx context.Context, c *config.MCP) error {
	s.mu.Lock()
	next, old := map[string]*server{}, s.byName
	same := s.listTTL == c.ListTTL.Std()
	s.listTTL = c.ListTTL.Std()
	for name, one := range c.Servers {
		if known, ok := old[name]; ok && same && reflect.DeepEqual(known.config, one) {
			next[name] = known
			continue
		}
		made, err := s.make(name, one)
		if err != nil {
			s.mu.Unlock()
			return fmt.Errorf("set up MCP server %q: %w", name, err)
		}
		next[name] = made
	}
	s.byName = next
	s.mu.Unlock()
	closing := map[string]*server{}
	for name, one := range old {
		if next[name] != one {
			closing[name] = one
		}
	}
	closeAll(ctx, closing)
	return nil
}

// Close ends sessions and processes.
func (s *Servers) Close(ctx context.Context) error {
	s.mu.Lock()
	all := s.byName
	s.byName = map[string]*server{}
	s.mu.Unlock()
	closeAll(ctx, all)
	s.relay.close()
	s.opts.Login.closeIdle()
	return nil
}

func closeAll(ctx context.Context, all map[string]*server) {
	var done sync.WaitGroup
	for _, one := range all {
		done.Go(func() { one.speaker.close(ctx) })
	}
	done.Wait()
}

// speaker speaks to a server the way that it can be reached.
type speaker interface {
	do(ctx context.Context, r *Request) (Answer, error)
	close(ctx context.Context)
	describe(s *State)
}

// server is one server.
type server struct {
	*target
	config  *config.MCPServer
	speaker speaker
	observe func(Outcome)
}

func (s *Servers) make(name string, c *config.MCPServer) (*server, error) {
	t := &target{
		name: name, timeout: c.Timeout.Std(), most: c.MaxTimeout.Std(), connect: c.ConnectTimeout.Std(),
		resultBytes: int64(c.ResultBytes), log: s.opts.Log.With("server", name), now: s.opts.Now,
		health: newHealth(c.Breaker.Failures, c.Breaker.For.Std(), s.opts.Now),
	}
	t.secrets = mask.New(secretsOf(c)...)
	one := &server{target: t, config: c, observe: s.opts.Observe}
	var err error
	if len(c.Command) > 0 {
		one.speaker, err = s.makeProgram(t, c, s.listTTL)
	} else {
		one.speaker, err = s.makeHTTP(t, c)
	}
	if err != nil {
		return nil, err
	}
	return one, nil
}

// secretsOf returns what a server is shown by its configuration.
func secretsOf(c *config.MCPServer) []string {
	list := []string{c.Auth.Bearer.Reveal()}
	for _, value := range c.Env {
		list = append(list, value.Reveal())
	}
	for _, value := range c.Headers {
		list = append(list, value.Reveal())
	}
	if b := c.Auth.Basic; b != nil {
		list = append(list, b.Password.Reveal())
	}
	if o := c.Auth.OAuth; o != nil {
		list = append(list, o.ClientSecret.Reveal())
	}
	return list
}

func (s *Servers) makeHTTP(t *target, c *config.MCPServer) (speaker, error) {
	o := netguard.Options{DialTimeout: t.connect, TLSTimeout: t.connect, HeaderTimeout: -1, MaxIdle: 256}
	if c.CA != "" || c.Auth.MTLS != nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.CA != "" {
		pem, err := os.ReadFile(s.opts.Path(c.CA))
		if err != nil {
			return nil, fmt.Errorf("read ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca has no certificate in PEM form")
		}
	}
	if m := c.Auth.MTLS; m != nil {
		certificate, err := tls.LoadX509KeyPair(s.opts.Path(m.Cert), s.opts.Path(m.Key))
		if err != nil {
			return nil, fmt.Errorf("read auth.mtls: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{certificate}
	}
	client := s.opts.Guard.Configured(o)
	client.CheckRedirect = redirects
	h := &httpServer{target: t, url: c.URL, client: client, plain: s.opts.Guard.ConfiguredPlain(c.URL, o), fixed: fixedHeader(c), era: newEra(string(c.Revision))}
	if o := c.Auth.OAuth; o != nil {
		one := newLogin(h, o, s.opts.Login, s.opts.Guard)
		s.opts.Login.add(one)
		h.login = one
	}
	h.legacy = newSessions(h, c, s.listTTL, s.relay)
	return h, nil
}

// fixedHeader returns the header that every request of a server has.
func fixedHeader(c *config.MCPServer) http.Header {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	if !c.Auth.Bearer.IsZero() {
		header.Set("Authorization", "Bearer "+c.Auth.Bearer.Reveal())
	}
	if b := c.Auth.Basic; b != nil {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(b.User+":"+b.Password.Reveal())))
	}
	header.Set("Content-Type", typeJSON)
	header.Set("Accept", typeJSON+", "+typeEvents)
	// What comes is handed on as it is, and its size is what counts.
	header.Set("Accept-Encoding", "identity")
	header.Set("User-Agent", "handoff")
	return header
}

func (h *httpServer) close(ctx context.Context) {
	h.legacy.close(ctx)
	h.client.CloseIdleConnections()
	if h.plain != nil {
		h.plain.Close()
	}
}

func (h *httpServer) describe(s *State) {
	s.Transport, s.Sessions = "http", h.legacy.count()
}

// Name returns the name of the server.
func (s *server) Name() string { return s.name }

// Personal reports whether callers have sessions of their own with the server, so
// that what it tells of changes concerns only them. It may turn out as soon as the
// server was asked what it is.
func (s *server) Personal() bool {
	o := s.config.Auth.OAuth
	switch {
	case o != nil && o.Flow == config.PeerFlowAuthorizationCode && !o.Shared:
		return true
	case s.config.Sharing == config.MCPSharingShared:
		return false
	}
	return s.health.state().Era == "legacy" || len(s.config.Command) > 0 && s.config.Sharing == config.MCPSharingPrincipal
}

func (s *server) state() State {
	state := s.health.state()
	state.Name = s.name
	s.speaker.describe(&state)
	return state
}

// Do sends a request, unless the server is left alone for having failed too often.
func (s *server) Do(ctx context.Context, r *Request) (Answer, error) {
	began := s.now()
	if err := s.health.enter(); err != nil {
		e := s.unavailable(err)
		s.tell(r, "unavailable", began)
		return nil, e
	}
	answer, err := s.speaker.do(ctx, r)
	w := &watched{s: s, r: r, began: began, Answer: answer}
	if err != nil {
		w.finished(ctx, err, "")
		return nil, err
	}
	w.ctx = ctx
	if raw, ok := answer.(Raw); ok {
		return &watchedRaw{watched: w, raw: raw}, nil
	}
	return w, nil
}

func (s *server) tell(r *Request, result string, began time.Time) {
	if s.observe != nil {
		s.observe(Outcome{Server: s.name, Method: r.Message.Method, Name: r.Message.NameValue(), Result: result, Took: s.now().Sub(began)})
	}
}

// watched is an answer whose outcome counts.
type watched struct {
	Answer
	s     *server
	r     *Request
	ctx   context.Context
	began time.Time
	once  sync.Once
}

// Next returns the next message.
func (w *watched) Next() (*mcp.Message, error) {
	m, err := w.Answer.Next()
	switch {
	case err == io.EOF:
	case err != nil:
		w.finished(w.ctx, err, "")
	case m.IsResponse() && !m.Err.IsZero():
		w.finished(w.ctx, nil, "error")
	case m.IsResponse():
		w.finished(w.ctx, nil, m.ResultType)
	case w.r.Message.Method == mcp.MethodListen:
		w.s.health.answered()
	}
	return m, err
}

// Close gives up what is not over.
func (w *watched) Close() error {
	w.finished(w.ctx, context.Canceled, "canceled")
	return w.Answer.Close()
}

// finished counts the outcome, once.
func (w *watched) finished(ctx context.Context, err error, result string) {
	w.once.Do(func() {
		switch {
		case err == nil:
			w.s.health.answered()
		case result == "canceled" || ctx.Err() != nil:
			w.s.health.gone()
			result = "canceled"
		case isLogin(err):
			w.s.health.gone()
			result = "login"
		case errors.Is(err, errHolder): // which says nothing of the server
			w.s.health.gone()
			result = "lost"
		default:
			w.s.health.failed(err)
			w.s.log.Warn("call of an MCP server failed", "method", w.r.Message.Method, "error", err)
			result = kindOf(err)
		}
		w.s.tell(w.r, result, w.began)
	})
}

// kindOf names what a server did wrong.
func kindOf(err error) string {
	switch e, _ := errors.AsType[*mcp.Error](err); {
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case e != nil && e.Code == mcp.CodeTimeout:
		return "slow"
	case e != nil && e.Code == mcp.CodeBadAnswer:
		return "invalid"
	}
	return "lost"
}

// watchedRaw is a watched answer that can be handed on as it comes.
type watchedRaw struct {
	*watched
	raw Raw
}

// Raw returns the document.
func (w *watchedRaw) Raw() (io.Reader, int64) {
	body, length := w.raw.Raw()
	reader := watchedReader{w.watched, body}
	if whole, ok := body.(*bytes.Reader); ok {
		return &watchedWhole{reader, whole}, length
	}
	return &reader, length
}

// watchedWhole is a document that was read already, and is written with one call.
type watchedWhole struct {
	watchedReader
	whole *bytes.Reader
}

// WriteTo writes the document.
func (r *watchedWhole) WriteTo(w io.Writer) (int64, error) {
	n, err := r.whole.WriteTo(w)
	r.w.finished(r.w.ctx, nil, "raw")
	return n, err
}

type watchedReader struct {
	w    *watched
	body io.Reader
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	switch {
	case err == io.EOF:
		r.w.finished(r.w.ctx, nil, "raw")
	case err != nil:
		r.w.finished(r.w.ctx, err, "")
	}
	return n, err
}
