package ledger_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(end)) }

// atEnd is called when all tests are over.
var atEnd []func() error

func end(code int) {
	for _, f := range atEnd {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

// bench is a node that hands work to a peer: a real engine on a real store.
type bench struct {
	t        *testing.T
	peer     *faultyPeer
	path     string
	link     ledger.Link
	stuck    time.Duration
	recall   time.Duration
	receiver *httptest.Server
	keys     *http.Client
	openErr  atomic.Pointer[error]
	seen     observations

	node  *node
	inner atomic.Pointer[node]
}

// node is one process of the bench.
type node struct {
	store  *sqlite.Store
	dying  *storetest.Dying
	engine *engine.Engine
	jobs   *job.Runner
	ledger *ledger.Ledger
	spec   *engine.Spec
}

func newBench(t *testing.T, peer *faultyPeer, change ...func(*bench)) *bench {
	t.Helper()
	b := &bench{
		t: t, peer: peer, path: filepath.Join(t.TempDir(), "tasks.db"), stuck: time.Hour, recall: time.Minute,
		link: ledger.Link{
			Stream: true, Push: true, Poll: true, Quiet: 300 * time.Millisecond, PollMin: 30 * time.Millisecond,
			PollMax: 150 * time.Millisecond, Answer: 500 * time.Millisecond, Connect: time.Second,
		},
	}
	b.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := b.inner.Load(); n != nil {
			n.ledger.Receiver().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.receiver.Close)
	for _, f := range change {
		f(b)
	}
	b.open()
	t.Cleanup(func() { b.close(b.node) })
	return b
}

// Open is the bench as ledger.Peers.
func (b *bench) Open(context.Context, string, ledger.User) (*ledger.Link, error) {
	if e := b.openErr.Load(); e != nil && *e != nil {
		return nil, *e
	}
	l := b.link
	l.Client = b.peer.client()
	return &l, nil
}

func (b *bench) Observe(_ context.Context, _ string, o ledger.Observation) { b.seen.add(o) }

// observations are what a catalog of peers is told.
type observations struct {
	mu   sync.Mutex
	list []ledger.Observation
}

func (s *observations) add(o ledger.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, o)
}

// deduplicates returns what was seen of that.
func (s *observations) deduplicates() (seen []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if o.Deduplicates != nil {
			seen = append(seen, *o.Deduplicates)
		}
	}
	return seen
}

// plainSealer seals nothing.
type plainSealer struct{}

func (plainSealer) Seal(p []byte) ([]byte, error) { return append([]byte("sealed:"), p...), nil }

func (plainSealer) Open(s []byte) ([]byte, error) { return s[len("sealed:"):], nil }

// open starts a process.
func (b *bench) open() {
	b.t.Helper()
	st, err := sqlite.Open(context.Background(), b.path, sqlite.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("LEDGER_LOG") != "" {
		quiet = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	n := &node{store: st, dying: storetest.NewDying(st)}
	n.engine = engine.New(engine.Config{
		Store: n.dying, Node: store.Node{Name: "test"}, Lease: 300 * time.Millisecond, Logger: quiet,
		Agents: func(id string) *engine.Spec {
			if id == "peer:supplier" {
				return n.spec
			}
			return nil
		},
		JobsDue: func(at time.Time) { n.jobs.Due(at) },
	})
	n.ledger = ledger.New(ledger.Options{
		Store: n.dying, Scope: store.ForAll(), Engine: n.engine, Peers: b, Sealer: plainSealer{}, Keys: b.keys,
		BaseURL: func() string { return b.receiver.URL }, Stuck: b.stuck, Backoff: 20 * time.Millisecond,
		MaxBackoff: 100 * time.Millisecond, Recall: b.recall, PushBytes: 64 << 10, Logger: quiet,
		Due: func(at time.Time) { n.jobs.Due(at) },
	})
	n.spec = &engine.Spec{
		ID: "peer:supplier", Peer: "supplier", Run: n.ledger.Agent("supplier"), Answers: engine.AnswersTask,
		OnInterrupt: engine.InterruptResume, Claims: time.Hour,
	}
	handlers := map[string]job.Handler{
		ledger.JobPoll: n.ledger.Poll, store.JobRecall: n.ledger.Recall,
	}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = n.engine.DoJob
	}
	n.jobs = job.NewRunner(n.dying, handlers, quiet)
	n.jobs.Claim(time.Second)
	if err := n.engine.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	n.jobs.Start()
	b.node = n
	b.inner.Store(n)
}

func (b *bench) close(n *node) {
	b.inner.CompareAndSwap(n, nil)
	n.jobs.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no grace
	_ = n.engine.Stop(ctx)
	_ = n.store.Close()
}

// crash ends the process without warning and starts another.
func (b *bench) crash() {
	b.t.Helper()
	dead := b.node
	dead.dying.Kill()
	b.inner.Store(nil)
	if err := dead.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
	b.t.Cleanup(func() { b.close(dead) })
}

var messages atomic.Int64

func (b *bench) request(text string, change ...func(*engine.Request)) *engine.Request {
	q := &engine.Request{
		Spec: b.node.spec, Scope: store.ForOwner("", "alice"), Caller: agent.Caller{Subject: "alice"}, Authenticated: true,
		Message: &a2a.Message{MessageID: "m-" + strconv.FormatInt(messages.Add(1), 10), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}},
		Config:  a2a.SendMessageConfiguration{ReturnImmediately: true},
	}
	q.Delegation = &engine.Delegating{}
	for _, f := range change {
		f(q)
	}
	if q.Message.TaskID != "" {
		q.Delegation = nil
	}
	return q
}

func onTask(id string) func(*engine.Request) {
	return func(q *engine.Request) { q.Message.TaskID = id }
}

// send sends a message and returns the id of the task.
func (b *bench) send(text string, change ...func(*engine.Request)) string {
	b.t.Helper()
	r, err := b.node.engine.Send(b.t.Context(), b.request(text, change...))
	if err != nil {
		b.t.Fatalf("send %q: %v", text, err)
	}
	return r.Task.ID
}

func (b *bench) get(id string) *a2a.Task {
	b.t.Helper()
	t, err := b.node.engine.Get(b.t.Context(), store.ForAll(), nil, id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) row(id string) *store.Delegation {
	b.t.Helper()
	d, err := b.node.store.Delegation(b.t.Context(), store.ForAll(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// eventually waits until f says that it is so.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // for what only the store can tell
	}
}

// until waits until the task is in a state, and returns it.
func (b *bench) until(id string, state a2a.TaskState) (t *a2a.Task) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		t = b.get(id)
		if t.Status.State == state {
			return t
		}
		if t.Status.State.Terminal() || time.Now().After(deadline) {
			b.t.Fatalf("the task is %s and not %s: %s\n%+v", t.Status.State, state, t.AppendJSON(nil), b.row(id))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// items returns the items of the inbox of a task.
func (b *bench) items(id string, settled bool) []store.InboxItem {
	b.t.Helper()
	page, err := b.node.store.InboxItems(b.t.Context(), store.ForAll(), store.InboxQuery{Task: id, Settled: settled, PageSize: 50})
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Items
}

// texts returns what the history and the status of a task say.
func texts(t *a2a.Task) string {
	var all []string
	for i := range t.History {
		all = append(all, t.History[i].Text())
	}
	if t.Status.Message != nil {
		all = append(all, t.Status.Message.Text())
	}
	return strings.Join(all, "\n")
}

// quoted checks that a task has the whole artifact of the peer, once.
func (b *bench) quoted(t *a2a.Task, want string) {
	b.t.Helper()
	if len(t.Artifacts) != 1 || len(t.Artifacts[0].Parts) != 1 || t.Artifacts[0].Parts[0].Text != want {
		b.t.Errorf("the artifacts are not %q: %s", want, t.AppendJSON(nil))
	}
}
