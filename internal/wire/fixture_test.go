package wire_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/wire"
)

// fixture is the agent of the reference tests: it reacts to the first text part
// of a message.
type fixture struct {
	second time.Duration // how long a second of it is

	runs     atomic.Int64 // turns begun
	canceled atomic.Int64 // turns whose context ended
	effects  atomic.Int64 // slow turns that came to their end
	watchers atomic.Int64 // open watchers of the engine
	begun    chan string  // gets the task of every turn, when it is not nil

	mu      sync.Mutex
	current map[string]int // turns of a task that run now
	most    int            // that ever ran at once on one task
	texts   []string       // that turns have been given
}

func (f *fixture) enter(t *agent.Turn) {
	f.runs.Add(1)
	f.mu.Lock()
	if f.current == nil {
		f.current = map[string]int{}
	}
	f.current[t.TaskID]++
	f.most = max(f.most, f.current[t.TaskID])
	for i := range t.Messages {
		f.texts = append(f.texts, t.Messages[i].Text())
	}
	f.mu.Unlock()
	if f.begun != nil {
		f.begun <- t.TaskID
	}
}

func (f *fixture) leave(t *agent.Turn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current[t.TaskID]--
}

// Run runs a turn.
func (f *fixture) Run(ctx context.Context, t *agent.Turn) error {
	f.enter(t)
	defer f.leave(t)
	stop := context.AfterFunc(ctx, func() { f.canceled.Add(1) })
	defer stop()
	word, rest, _ := strings.Cut(t.Text(), " ")
	switch {
	case t.Cause == agent.CauseGrant && !t.Grant.Approved:
		return t.Fail("denied")
	case t.Cause == agent.CauseGrant:
		_ = t.Artifact(a2a.Text("granted"))
		return t.Complete()
	case t.Number > 1 && word != "ask" && word != "hold":
		return t.Complete()
	}
	switch word {
	case "echo":
		parts := t.Messages[len(t.Messages)-1].Parts
		if rest != "" {
			parts = append([]a2a.Part{a2a.Text(rest)}, parts[1:]...)
		}
		return t.Artifact(parts...)
	case "message":
		return t.Message(a2a.Text(rest))
	case "ask":
		return t.Ask("What next?", nil)
	case "auth":
		return t.Authorize("May I?", "post")
	case "slow":
		n, _ := strconv.Atoi(rest)
		return f.slow(ctx, t, n)
	case "burst":
		return burst(ctx, t, rest)
	case "fail":
		return fmt.Errorf("sql: no such table: secret")
	case "latefail":
		_ = t.Artifact(a2a.Text("half"))
		return agent.Errorf("The warehouse is closed.")
	case "reject":
		return t.Reject("not today")
	case "stubborn":
		_ = t.Working("busy")
		<-ctx.Done()
		time.Sleep(f.second / 10) // what a real one would do with a call that cannot be stopped
		_ = t.Artifact(a2a.Text("too late"))
		return t.Complete()
	case "never", "hold":
		_ = t.Working()
		<-ctx.Done()
		return ctx.Err()
	}
	return f.odd(t, word)
}

// odd are the agents that do things in an order that clients do not expect.
func (f *fixture) odd(t *agent.Turn, word string) error {
	chunk := func(text string, add, last bool) agent.Step {
		return agent.Step{Artifact: &agent.Artifact{ID: "a", Parts: []a2a.Part{a2a.Text(text)}, Append: add, Last: last}}
	}
	switch word {
	case "statusfirst":
		_ = t.Working("first")
		return t.Complete()
	case "messagelast":
		_ = t.Artifact(a2a.Text("x"))
		return t.Message(a2a.Text("too late"))
	case "appendfirst":
		_ = t.Emit(chunk("A", true, true))
		return t.Complete()
	case "chunks":
		_ = t.Emit(chunk("A", false, false))
		_ = t.Emit(chunk("B", true, false))
		return t.Emit(chunk("C", true, true))
	case "replace":
		_ = t.Emit(chunk("A", false, false))
		_ = t.Emit(chunk("B", true, true))
		return t.Emit(chunk("AB", false, true))
	case "wrapped":
		return fmt.Errorf("x: %w", a2a.Errorf(a2a.CodeTaskNotCancelable, "no"))
	case "panic":
		panic("boom")
	}
	return t.Complete()
}

func (f *fixture) slow(ctx context.Context, t *agent.Turn, n int) error {
	for i := range n * 10 {
		select {
		case <-time.After(f.second / 10):
		case <-ctx.Done():
			return ctx.Err()
		}
		if t.Emit(chunkStep(i)) != nil {
			return nil
		}
	}
	f.effects.Add(1)
	return t.Complete()
}

func chunkStep(i int) agent.Step {
	return agent.Step{Artifact: &agent.Artifact{ID: "out", Parts: []a2a.Part{a2a.Text(strconv.Itoa(i))}, Append: i > 0}}
}

// burst emits so many chunks, at once or with a pause after each.
func burst(ctx context.Context, t *agent.Turn, args string) error {
	count, pause, _ := strings.Cut(args, " ")
	n, _ := strconv.Atoi(count)
	d, _ := time.ParseDuration(pause)
	for i := range n {
		if err := t.Emit(chunkStep(i)); err != nil {
			return err
		}
		if d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return t.Complete()
}

// observer counts watchers.
type observer struct{ f *fixture }

func (observer) TaskCreated(string)                      {}
func (observer) StateChanged(string, string)             {}
func (observer) TurnStarted(string, int)                 {}
func (observer) TurnEnded(string, time.Duration)         {}
func (observer) Steps(string, int)                       {}
func (observer) Duplicate(string)                        {}
func (observer) TaskEnded(string, string, time.Duration) {}
func (observer) TurnLimited(string, string)              {}
func (observer) TurnInterrupted(string, bool)            {}
func (observer) LeaseLost()                              {}
func (o observer) Watchers(delta int)                    { o.f.watchers.Add(int64(delta)) }

// setting is how a node of a test differs from the usual one.
type setting struct {
	second  time.Duration
	begun   chan string
	spec    func(*engine.Spec)
	agent   func(*wire.Agent)
	engine  func(*engine.Config)
	options func(*wire.Options)
	set     func(a *wire.Agent) []*wire.Agent
	wrap    func(http.Handler) http.Handler
}

// node is a node under test: a store in a file, an engine, and a server.
type node struct {
	t       testing.TB
	setting setting
	fixture *fixture
	file    string
	store   *sqlite.Store
	engine  *engine.Engine
	handler http.Handler
	wait    func() // for the parked streams of all handlers
	server  *http.Server
	base    string // of the server, without a slash
	url     string // of the agent, with a slash
	client  *http.Client
	served  chan struct{}
	killed  []*engine.Engine
	dialing sync.Once
	conn    *grpc.ClientConn // of gRPC; nil until it is needed
}

// newNode starts a node.
func newNode(t testing.TB, s setting) *node {
	t.Helper()
	if s.second == 0 {
		s.second = 100 * time.Millisecond
	}
	n := &node{t: t, setting: s, file: filepath.Join(t.TempDir(), "test.db")}
	n.fixture = &fixture{second: s.second, begun: s.begun}
	n.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	n.start("127.0.0.1:0")
	t.Cleanup(n.close)
	return n
}

func (n *node) agent() *wire.Agent {
	spec := &engine.Spec{
		ID: "quote", Run: n.fixture, FirstStepWait: 50 * time.Millisecond, Claims: time.Hour,
		Skills: []a2a.AgentSkill{
			{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}},
			{ID: "scan", Name: "Scan", Description: "Scans.", Tags: []string{"x"}, InputModes: []string{"image/*"}},
		},
	}
	if n.setting.spec != nil {
		n.setting.spec(spec)
	}
	a := &wire.Agent{
		Spec: spec, Streaming: true, GRPC: true, LastEventID: true,
		InputModes: []string{"text/plain", "text/html", "application/json", "application/octet-stream", "application/pdf"},
	}
	if n.setting.agent != nil {
		n.setting.agent(a)
	}
	return a
}

func (n *node) start(address string) {
	n.t.Helper()
	ctx := context.Background()
	var err error
	if n.store, err = sqlite.Open(ctx, n.file, sqlite.Options{}); err != nil {
		n.t.Fatal(err)
	}
	a := n.agent()
	config := engine.Config{
		Store: n.store, Logger: slog.New(slog.DiscardHandler), Node: store.Node{Name: "test"}, Lease: 2 * time.Second,
		Observer: observer{n.fixture},
		Agents: func(id string) *engine.Spec {
			if id == a.Spec.ID {
				return a.Spec
			}
			return nil
		},
	}
	if n.setting.engine != nil {
		n.setting.engine(&config)
	}
	n.engine = engine.New(config)
	if err := n.engine.Start(ctx); err != nil {
		n.t.Fatal(err)
	}
	agents := []*wire.Agent{a}
	if n.setting.set != nil {
		agents = n.setting.set(a)
	}
	set, err := wire.NewSet(agents, "")
	if err != nil {
		n.t.Fatal(err)
	}
	options := wire.Options{
		Engine: n.engine, Agents: func() *wire.Set { return set }, Logger: config.Logger,
		Auth: testCallers{&auth.Anonymous{Policy: auth.PolicyLoopback}}, ParkAfter: 20 * time.Millisecond,
	}
	if n.setting.options != nil {
		n.setting.options(&options)
	}
	handler, before := wire.NewHandler(options), n.wait
	n.wait = func() {
		handler.Wait()
		if before != nil {
			before()
		}
	}
	n.handler = handler
	if n.setting.wrap != nil {
		n.handler = n.setting.wrap(n.handler)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.server = wire.NewServer(n.handler, wire.ServerOptions{Logger: config.Logger})
	n.served = make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		_ = server.Serve(listener)
		close(done)
	}(n.server, n.served)
	n.base = "http://" + listener.Addr().String()
	n.url = n.base + "/agents/quote/"
}

// kill ends the node as a crash does: whatever was not committed is lost, and
// nothing is said to anybody.
func (n *node) kill() {
	n.t.Helper()
	_ = n.store.Close()
	n.killed = append(n.killed, n.engine)
	_ = n.server.Close()
	<-n.served
	n.client.CloseIdleConnections()
}

// restart kills the node and starts it again at the same address.
func (n *node) restart() {
	n.t.Helper()
	n.kill()
	n.start(strings.TrimPrefix(n.base, "http://"))
}

func (n *node) close() {
	if n.conn != nil {
		_ = n.conn.Close()
	}
	n.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.engine.Stop(ctx)
	for _, e := range n.killed {
		_ = e.Stop(ctx)
	}
	_ = n.server.Close()
	<-n.served
	n.wait()
	if err := n.store.Close(); err != nil {
		n.t.Error(err)
	}
}

// grant settles the grant request that waits.
func (n *node) grant(approve bool) {
	n.t.Helper()
	grants, err := n.engine.Grants(n.t.Context(), store.ForAll(), 10)
	if err != nil || len(grants) != 1 {
		n.t.Fatalf("grants: %v, %v", grants, err)
	}
	if _, err := n.engine.Decide(n.t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: approve, By: "test"}); err != nil {
		n.t.Fatal(err)
	}
}

// testCallers accepts "Bearer tenant/subject" beside anonymous callers.
type testCallers struct{ anonymous auth.Authenticator }

func (c testCallers) Authenticate(r *http.Request) (auth.Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return c.anonymous.Authenticate(r)
	}
	tenant, subject, _ := strings.Cut(token, "/")
	p := auth.Principal{Tenant: tenant, Subject: subject, Issuer: "test", Role: auth.RoleCaller}
	if subject == "viewer" {
		p.Role = auth.RoleViewer
	}
	return p, nil
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not so in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // there is no signal to wait for across HTTP
	}
}

// runs lets another function run the turns.
func runs(f func(t *agent.Turn) error) func(*engine.Spec) {
	return func(s *engine.Spec) {
		s.Run = agent.Func(func(_ context.Context, t *agent.Turn) error { return f(t) })
	}
}
