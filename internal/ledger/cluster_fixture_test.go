//go:build postgres

package ledger_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/bus/bustest"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
	"handoff.example/handoff/internal/store/storetest"
)

func init() { atEnd = append(atEnd, postgrestest.Close) }

// cluster is two nodes on one database that hand work to one peer.
type cluster struct {
	t    *testing.T
	peer *faultyPeer
	link ledger.Link
	a, b *member

	mu   sync.Mutex
	done map[int64]int // how often a job was begun, by its id
}

// member is one node. It is also how the node knows the peer.
type member struct {
	c        *cluster
	store    store.Store
	dying    *storetest.Dying
	engine   *engine.Engine
	jobs     *job.Runner
	ledger   *ledger.Ledger
	spec     *engine.Spec
	receiver *httptest.Server
	lines    *lines
}

// lines are the connections of one node, which are cut when it dies.
type lines struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.Join(storetest.ErrDead, conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *lines) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// Open is a node's way to the peer, as ledger.Peers.
func (m *member) Open(context.Context, string, ledger.User) (*ledger.Link, error) {
	transport := &http.Transport{DialContext: m.lines.dial, DisableKeepAlives: true}
	c, err := client.New(m.c.peer.card, client.Options{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return nil, err
	}
	l := m.c.link
	l.Client = c
	return &l, nil
}

func (m *member) Observe(context.Context, string, ledger.Observation) {}

// overBuses runs a test with hints that all arrive, and with none that does.
func overBuses(t *testing.T, f func(t *testing.T, how bustest.Faults)) {
	t.Helper()
	t.Parallel()
	for name, how := range map[string]bustest.Faults{"perfect": {}, "dead": {Loss: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, how)
		})
	}
}

func newCluster(t *testing.T, how bustest.Faults, p *faultyPeer, change ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{t: t, peer: p, done: map[int64]int{}, link: ledger.Link{
		Stream: true, Push: true, Poll: true, Quiet: time.Minute, PollMin: 50 * time.Millisecond,
		PollMax: 150 * time.Millisecond, Answer: 10 * time.Second, Connect: time.Second,
	}}
	for _, f := range change {
		f(c)
	}
	dsn, hub := postgrestest.DSN(t), bustest.Hostile(how)
	c.a, c.b = c.join("a", dsn, hub), c.join("b", dsn, hub)
	return c
}

func (c *cluster) join(name, dsn string, hub *bustest.Hub) *member {
	c.t.Helper()
	st, err := postgres.Open(c.t.Context(), dsn, postgres.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out io.Writer = io.Discard
	if os.Getenv("LEDGER_LOG") != "" {
		out = os.Stderr
	}
	quiet := slog.New(slog.NewTextHandler(out, nil)).With("node", name)
	m := &member{c: c, store: st, dying: storetest.NewDying(st), lines: &lines{}}
	connection := hub.Join(func(hints []bus.Hint) { m.engine.Heard(hints) })
	m.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.ledger.Receiver().ServeHTTP(w, r)
	}))
	due := func(at time.Time) { m.jobs.Due(at) }
	m.engine = engine.New(engine.Config{
		Store: m.dying, Node: store.Node{Name: name}, Lease: 500 * time.Millisecond, Bus: connection, Logger: quiet, JobsDue: due,
		Agents: func(id string) *engine.Spec {
			if id == "peer:supplier" {
				return m.spec
			}
			return nil
		},
	})
	m.ledger = ledger.New(ledger.Options{
		Store: m.dying, Scope: store.ForAll(), Engine: m.engine, Peers: m, Sealer: plainSealer{},
		BaseURL: func() string { return m.receiver.URL }, Stuck: time.Hour, Backoff: 50 * time.Millisecond,
		MaxBackoff: 200 * time.Millisecond, Recall: time.Minute, Logger: quiet, Due: due,
	})
	m.spec = &engine.Spec{
		ID: "peer:supplier", Peer: "supplier", Run: m.ledger.Agent("supplier"), Answers: engine.AnswersTask,
		OnInterrupt: engine.InterruptResume, Claims: time.Hour,
	}
	handlers := map[string]job.Handler{ledger.JobPoll: m.ledger.Poll, store.JobRecall: m.ledger.Recall}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = m.engine.DoJob
	}
	for kind, h := range handlers {
		handlers[kind] = func(ctx context.Context, j *store.Job) error {
			c.mu.Lock()
			c.done[j.ID]++
			c.mu.Unlock()
			return h(ctx, j)
		}
	}
	m.jobs = job.NewRunner(m.dying, handlers, quiet)
	m.jobs.Claim(time.Second)
	if err := m.engine.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	m.jobs.Start()
	c.t.Cleanup(func() {
		m.receiver.Close()
		m.jobs.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // no grace
		_ = m.engine.Stop(ctx)
		_ = connection.Close()
		_ = st.Close()
	})
	return m
}

// die ends a node without warning: what it writes is not written, and its
// connections are gone.
func (m *member) die() {
	m.c.t.Helper()
	m.dying.Kill()
	m.receiver.CloseClientConnections()
	if err := m.store.Close(); err != nil {
		m.c.t.Error(err)
	}
	m.lines.hangUp()
}

func (m *member) request(text string, change ...func(*engine.Request)) *engine.Request {
	q := &engine.Request{
		Spec: m.spec, Scope: store.ForOwner("", "alice"), Caller: agent.Caller{Subject: "alice"}, Authenticated: true,
		Message:    &a2a.Message{MessageID: "m-" + strconv.FormatInt(messages.Add(1), 10), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}},
		Config:     a2a.SendMessageConfiguration{ReturnImmediately: true},
		Delegation: &engine.Delegating{},
	}
	for _, f := range change {
		f(q)
	}
	if q.Message.TaskID != "" {
		q.Delegation = nil
	}
	return q
}

func (m *member) send(text string, change ...func(*engine.Request)) string {
	m.c.t.Helper()
	r, err := m.engine.Send(m.c.t.Context(), m.request(text, change...))
	if err != nil {
		m.c.t.Fatalf("send %q: %v", text, err)
	}
	return r.Task.ID
}

func (m *member) cancel(id string) {
	m.c.t.Helper()
	if _, err := m.engine.Cancel(m.c.t.Context(), store.ForAll(), nil, id, engine.ByCaller); err != nil {
		m.c.t.Fatalf("cancel: %v", err)
	}
}

func (m *member) get(id string) *a2a.Task {
	m.c.t.Helper()
	t, err := m.engine.Get(m.c.t.Context(), store.ForAll(), nil, id, nil)
	if err != nil {
		m.c.t.Fatal(err)
	}
	return t
}

func (m *member) row(id string) *store.Delegation {
	m.c.t.Helper()
	d, err := m.store.Delegation(m.c.t.Context(), store.ForAll(), id)
	if err != nil {
		m.c.t.Fatal(err)
	}
	return d
}

func (m *member) task(id string) *store.Task {
	m.c.t.Helper()
	row, err := m.store.Task(m.c.t.Context(), store.ForAll(), id)
	if err != nil {
		m.c.t.Fatal(err)
	}
	return row
}

// until waits until the task is in a state, and returns it.
func (m *member) until(id string, state a2a.TaskState) (t *a2a.Task) {
	m.c.t.Helper()
	m.c.eventually("it is "+state.String(), func() bool {
		t = m.get(id)
		if t.Status.State.Terminal() && t.Status.State != state {
			m.c.t.Fatalf("the task is %s and not %s: %s\n%+v", t.Status.State, state, t.AppendJSON(nil), m.row(id))
		}
		return t.Status.State == state
	})
	return t
}

func (c *cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	(&bench{t: c.t}).eventually(what, f)
}

func (c *cluster) quoted(t *a2a.Task, want string) {
	c.t.Helper()
	(&bench{t: c.t}).quoted(t, want)
}

// sentOnce checks that the peer has got so many messages, each once.
func (c *cluster) sentOnce(want int) {
	c.t.Helper()
	c.peer.checkSends()
	if tasks, sends := c.peer.count(); sends != want || tasks > 1 {
		c.t.Errorf("the peer has got %d messages and has %d tasks; want %d messages and one task", sends, tasks, want)
	}
}

// jobsOnce checks that each job was done once, whoever did it, and that there
// were some.
func (c *cluster) jobsOnce(least int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) < least {
		c.t.Errorf("only %d jobs were done", len(c.done))
	}
	for id, n := range c.done {
		if n != 1 {
			c.t.Errorf("job %d was done %d times", id, n)
		}
	}
}
