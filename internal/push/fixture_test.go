package push_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
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

var (
	ann = store.ForOwner("acme", "ann")
	bob = store.ForOwner("acme", "bob")
)

// quick are limits with which a test need not wait.
func quick() push.Limits {
	return push.Limits{Backoff: 2 * time.Millisecond, MaxBackoff: 20 * time.Millisecond, Refusals: 3}
}

// local returns a guard that allows this machine.
func local(t *testing.T) *netguard.Guard {
	t.Helper()
	var d netguard.Destination
	if err := d.UnmarshalText([]byte("127.0.0.0/8")); err != nil {
		t.Fatal(err)
	}
	return netguard.New(netguard.Policy{Allow: []netguard.Destination{d}})
}

// killable is a store whose process can die: nothing comes through any more.
type killable struct {
	store.Store
	mu   sync.RWMutex
	dead bool
}

func (k *killable) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
}

var errKilled = fmt.Errorf("%w: the process was killed", store.ErrConflict)

func (k *killable) Deliver(ctx context.Context, d *store.Delivery) (bool, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.dead {
		return false, errKilled
	}
	return k.Store.Deliver(ctx, d)
}

func (k *killable) HoldJob(ctx context.Context, id int64, attempt int, hold time.Duration) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.dead {
		return errKilled
	}
	return k.Store.HoldJob(ctx, id, attempt, hold)
}

// node delivers what is in a store.
type node struct {
	t     *testing.T
	store *killable
	push  *push.Service
	jobs  *job.Runner
}

// deliverFrom starts a node on a store.
func deliverFrom(t *testing.T, s store.Store, change func(*push.Options)) *node {
	t.Helper()
	n := &node{t: t, store: &killable{Store: s}}
	sealer, err := auth.NewSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	opts := push.Options{
		Store: n.store, Scope: store.ForAll(), Guard: local(t), Sealer: sealer, Limits: quick(),
		Logger: slog.New(slog.DiscardHandler), Version: "test", Due: func(at time.Time) { n.jobs.Due(at) },
	}
	if change != nil {
		change(&opts)
	}
	n.push = push.New(opts)
	n.jobs = job.NewRunner(n.store, map[string]job.Handler{}, slog.New(slog.DiscardHandler))
	n.jobs.Claim(time.Second)
	n.jobs.Long(store.JobPush, n.push.Do)
	n.jobs.Start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.jobs.Stop()
	n.push.Close()
}

// key seals in all tests.
var key = func() []byte {
	b := make([]byte, auth.KeySize)
	_, _ = rand.Read(b)
	return b
}()

// file opens a store in a file.
func file(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newNode(t *testing.T, change func(*push.Options)) *node {
	t.Helper()
	return deliverFrom(t, file(t, filepath.Join(t.TempDir(), "tasks.db")), change)
}

func event(n int) store.Event {
	return store.Event{Kind: store.KindArtifact, Body: fmt.Appendf(nil, `{"artifactUpdate":{"taskId":"t","n":%d}}`, n)}
}

func status() store.Event {
	body := `{"statusUpdate":{"status":{"timestamp":"0000-00-00T00:00:00.000Z"}}}`
	return store.Event{Kind: store.KindStatus, Body: []byte(body), Stamp: 40}
}

// task makes a task of ann.
func (n *node) task(id string) *store.Task {
	n.t.Helper()
	return taskIn(n.t, n.store, id)
}

func taskIn(t *testing.T, s store.Store, id string) *store.Task {
	t.Helper()
	return ownedIn(t, s, id, "ann")
}

func ownedIn(t *testing.T, s store.Store, id, owner string) *store.Task {
	t.Helper()
	row := &store.Task{ID: id, Tenant: "acme", Owner: owner, Agent: "echo", Context: "c", State: a2a.StateWorking, Turn: 1, Attempt: 1, Created: time.Now()}
	if err := s.Commit(t.Context(), &store.Change{Insert: row, Events: []store.Event{status()}}); err != nil {
		t.Fatal(err)
	}
	return row
}

// happen commits events of a task, each in a commit of its own.
func (n *node) happen(row *store.Task, numbers ...int) {
	n.t.Helper()
	for _, number := range numbers {
		c := &store.Change{Task: row.Key, Events: []store.Event{event(number)}}
		if err := n.store.Commit(n.t.Context(), c); err != nil {
			n.t.Fatal(err)
		}
		if c.Woken > 0 {
			n.jobs.Due(time.Now())
		}
	}
}

// hook hangs a webhook on a task.
func (n *node) hook(task, id, url string) {
	n.t.Helper()
	c := &a2a.TaskPushNotificationConfig{TaskID: task, ID: id, URL: url}
	if _, err := n.push.Create(n.t.Context(), ann, "echo", c); err != nil {
		n.t.Fatal(err)
	}
}

// got is what a receiver got.
type got struct {
	id     string
	body   string
	header http.Header
	at     time.Time
}

// receiver is a webhook.
type receiver struct {
	*httptest.Server
	requests chan got
}

// receive starts a webhook that answers what answer says; nil takes everything.
func receive(t *testing.T, answer func(w http.ResponseWriter, g got)) *receiver {
	t.Helper()
	r := &receiver{requests: make(chan got, 10_000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		g := got{q.Header.Get("X-A2A-Event-ID"), string(body), q.Header, time.Now()}
		if answer != nil {
			answer(w, g)
		}
		r.requests <- g
	}))
	t.Cleanup(r.Close)
	return r
}

// next waits for the next request.
func (r *receiver) next(t *testing.T) got {
	t.Helper()
	select {
	case g := <-r.requests:
		return g
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was sent")
		return got{}
	}
}

// idle waits until a store has no jobs.
func idle(t *testing.T, s store.Store) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		next, err := s.NextJob(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a job is left, due at %v", next)
		}
	}
}
