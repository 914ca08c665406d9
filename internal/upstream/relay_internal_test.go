package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// tape is a link that keeps what the server is told.
type tape struct {
	mu   sync.Mutex
	told []string
}

func (l *tape) tell(_ context.Context, body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, string(body))
	return nil
}

// heard is what the server was told so far.
func (l *tape) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}
func (*tape) call(*legacyCall, []byte) error { return nil }
func (*tape) listen() <-chan struct{}        { return nil }
func (*tape) dead() bool                     { return false }
func (*tape) stop(context.Context)           {}

// shelf keeps documents in a bubble of time, which those of a database would leave.
type shelf struct {
	store.Docs // has no counters

	mu   sync.Mutex
	docs map[string]store.Doc // by space and key
}

// losable is a shelf that can be lost.
type losable struct {
	*shelf
	down    atomic.Bool
	before  func(*store.Doc) // something is written; nil: nothing happens
	slow    atomic.Int64     // how long a list takes, in nanoseconds
	refuses atomic.Value     // what has that string in it
}

var errLost = errors.New("lost")

func (l *losable) enter() error {
	if l.down.Load() {
		return errLost
	}
	l.mu.Lock()
	for name, d := range l.docs {
		if !d.Expires.After(time.Now()) {
			delete(l.docs, name)
		}
	}
	return nil
}

func (l *losable) Doc(_ context.Context, _ store.Scope, space, key string) (*store.Doc, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if d, ok := l.docs[space+" "+key]; ok {
		return &d, nil
	}
	return nil, store.ErrNotFound
}

func (l *losable) Docs(_ context.Context, _ store.Scope, space, prefix, _ string, _ int) (list []store.Doc, err error) {
	time.Sleep(time.Duration(l.slow.Load()))
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	for name, d := range l.docs {
		if strings.HasPrefix(name, space+" "+prefix) {
			list = append(list, d)
		}
	}
	return list, nil
}

func (l *losable) PutDoc(_ context.Context, d *store.Doc) error {
	if l.before != nil {
		l.before(d)
	}
	if part, ok := l.refuses.Load().(string); ok && strings.Contains(string(d.Body), part) {
		return errLost
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	name := d.Space + " " + d.Key
	if l.docs[name].Version != d.Version {
		return store.ErrConflict
	}
	d.Version++
	l.docs[name] = *d
	return nil
}

func (l *losable) DeleteDoc(_ context.Context, _ store.Scope, space, key string) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.mu.Unlock()
	delete(l.docs, space+" "+key)
	return nil
}

// bench is two nodes in a bubble of time. One holds a call.
type bench struct {
	a, b   *legacyServer
	at, bt *losable // what they have of the store
	tape   *tape
	state  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := &shelf{docs: map[string]store.Doc{}}
	w := &bench{at: &losable{shelf: s}, bt: &losable{shelf: s}, tape: &tape{}}
	node := func(docs store.Docs) *legacyServer {
		log := slog.New(slog.DiscardHandler)
		target := &target{name: "erp", timeout: time.Hour, resultBytes: 1 << 20, log: log}
		r := newRelay(docs, log)
		t.Cleanup(r.close)
		return &legacyServer{target: target, held: newHolds(target, r)}
	}
	w.a, w.b = node(w.at), node(w.bt)
	t.Cleanup(w.a.held.close)
	w.hold(t)
	return w
}

// hold has a node hold a call.
func (w *bench) hold(t *testing.T) {
	t.Helper()
	session := newSession(w.a, "", mcp.Capabilities{})
	session.link = w.tape
	r := roundOf("", "")
	c, err := session.enter(t.Context(), r.Message)
	if err != nil {
		t.Fatal(err)
	}
	question, err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c.queue.push(question)
	m, err := w.a.round(t.Context(), c, r).Next()
	if err != nil {
		t.Fatal(err)
	}
	if w.state = m.ParamString("requestState"); w.state == "" {
		t.Fatalf("got %s", m.Body)
	}
}

func roundOf(state, answers string) *Request {
	params := `{"name":"x","arguments":{}`
	if state != "" {
		params += `,"requestState":"` + state + `","inputResponses":` + answers
	}
	return &Request{Message: mcp.NewRequest(jsontext.Value("1"), mcp.MethodCallTool, jsontext.Value(params+"}"), mcp.Meta{})}
}

// round makes a round at a node.
func (w *bench) round(t *testing.T, l *legacyServer, answers string) (*mcp.Message, error) {
	t.Helper()
	answer, err := l.resume(t.Context(), roundOf(w.state, answers))
	if err != nil {
		return nil, err
	}
	return lastOf(answer)
}

func (w *bench) refused(t *testing.T, m *mcp.Message, err error) {
	t.Helper()
	if err != nil || m.Error() == nil || m.Error().Message != notHeld().Message {
		t.Errorf("got %v, %v", m, err)
	}
}

// A call whose time is over is known at no node, and nobody looks for its rounds any
// more.
func TestHeldCallExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		time.Sleep(heldFor - time.Minute)
		if m, err := w.round(t, w.b, "{}"); err != nil || m.ParamString("requestState") != w.state {
			t.Errorf("got %v, %v", m, err)
		}
		time.Sleep(time.Minute)
		m, err := w.round(t, w.b, "{}")
		w.refused(t, m, err)
		synctest.Wait()
		if len(w.tape.heard()) != 1 || !strings.Contains(w.tape.heard()[0], mcp.NotifyCancelled) {
			t.Errorf("the server was told %q", w.tape.heard())
		}
		time.Sleep(2 * lookForRounds)
		synctest.Wait()
		if w.a.held.relay.holder != nil {
			t.Error("the node looks for rounds")
		}
		if len(w.bt.docs) != 0 {
			t.Errorf("left are %v", w.bt.docs)
		}
		w.hold(t) // and looks again for the next
		if m, err := w.round(t, w.b, "{}"); err != nil || m.ParamString("requestState") != w.state {
			t.Errorf("got %v, %v", m, err)
		}
	})
}

// A node that has lost the store is not waited for longer than its time is, and does
// not make the round when the store is back.
func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		w.at.down.Store(true)
		began := time.Now()
		m, err := w.round(t, w.b, `{"input-1":{"action":"decline"}}`)
		w.refused(t, m, err)
		if took := time.Since(began); took > holderTime+2*time.Second {
			t.Errorf("it took %s", took)
		}
		w.at.down.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.tape.heard()) != 0 {
			t.Errorf("the server was told %q", w.tape.heard())
		}
		if m, err := w.round(t, w.b, "{}"); err != nil || m.ParamString("requestState") != w.state {
			t.Errorf("the node is not there again: %v, %v", m, err)
		}
	})
}

// A node that is there is not thought to be gone because its store is slow.
func TestHolderWithASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		w.at.slow.Store(int64(storeTime - time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		answer, err := w.b.resume(ctx, roundOf(w.state, `{"input-1":{"action":"decline"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lastOf(answer); errors.Is(err, errHolder) || ctx.Err() == nil {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(w.tape.heard()) == 0 {
			t.Error("the server was told nothing")
		}
	})
}

// A round whose answer the store does not take is not waited for without end.
func TestAnswerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		w.at.refuses.Store(string(roundAnswered))
		began := time.Now()
		if _, err := w.round(t, w.b, "{}"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 2*answerTime+time.Second {
			t.Errorf("it took %s", took)
		}
		w.at.refuses.Store(`"requestState"`) // the answer itself, but not that there is none
		if _, err := w.round(t, w.b, "{}"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
	})
}

// A node that was thought to be gone, and takes the round at the very moment at which
// it is withdrawn, is waited for.
func TestHolderIsBackInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		w.at.down.Store(true)
		w.bt.before = func(d *store.Doc) {
			if d.Version > 0 {
				w.at.down.Store(false)
				time.Sleep(2 * lookForRounds)
			}
		}
		if m, err := w.round(t, w.b, "{}"); err != nil || m.ParamString("requestState") != w.state {
			t.Errorf("got %v, %v", m, err)
		}
	})
}

// The state of a call is that of its server alone.
func TestHeldCallOfAnotherServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		w.b.name = "crm"
		m, err := w.round(t, w.b, "{}")
		w.refused(t, m, err)
	})
}

// A node that has lost the store itself does not know what came of a round.
func TestWaitingNodeIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t)
		answer, err := w.b.resume(t.Context(), roundOf(w.state, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		w.bt.down.Store(true)
		began := time.Now()
		if _, err := lastOf(answer); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > holderTime+2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// An answer that the store has taken, and nobody has heard so, is there once.
func TestPutIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	r := w.b.held.relay
	doc := &store.Doc{Space: spaceRound, Key: "x/y"}
	again := *doc
	if !r.put(t.Context(), doc, []byte("one"), time.Minute) || !r.put(t.Context(), &again, []byte("one"), time.Minute) {
		t.Error("it was not taken")
	}
	if again.Version != doc.Version {
		t.Errorf("version %d, not %d", again.Version, doc.Version)
	}
	if other := (&store.Doc{Space: spaceRound, Key: "x/y"}); r.put(t.Context(), other, []byte("two"), time.Minute) {
		t.Error("it was taken from another")
	}
}
