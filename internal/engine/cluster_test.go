//go:build postgres

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/bus/bustest"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// switched is a store that can be away, for one node.
type switched struct {
	store.Store
	away, frozen atomic.Bool   // frozen: its lease is not renewed
	refused      chan struct{} // a renewal, while the store is away
}

var errAway = fmt.Errorf("%w: it is away", store.ErrUnavailable)

func (s *switched) Commit(ctx context.Context, c *store.Change) error {
	if s.away.Load() {
		return errAway
	}
	return s.Store.Commit(ctx, c)
}

func (s *switched) Events(ctx context.Context, task, after int64, limit int) ([]store.Event, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Events(ctx, task, after, limit)
}

func (s *switched) Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Task(ctx, scope, id)
}

func (s *switched) Read(ctx context.Context, scope store.Scope, id string, want store.Want) (*store.Item, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Read(ctx, scope, id, want)
}

func (s *switched) Tasks(ctx context.Context, scope store.Scope, ids []string) ([]store.Task, error) {
	if s.away.Load() || s.frozen.Load() {
		return nil, errAway
	}
	return s.Store.Tasks(ctx, scope, ids)
}

func (s *switched) Orphans(ctx context.Context, limit int) ([]store.Task, error) {
	if s.away.Load() || s.frozen.Load() {
		return nil, errAway
	}
	return s.Store.Orphans(ctx, limit)
}

func (s *switched) Renew(ctx context.Context, epoch int64, lease time.Duration) error {
	if s.away.Load() || s.frozen.Load() {
		select {
		case s.refused <- struct{}{}:
		default:
		}
		return errAway
	}
	return s.Store.Renew(ctx, epoch, lease)
}

// member is a node of a cluster.
type member struct {
	*engine.Engine
	store *switched
	jobs  atomic.Pointer[job.Runner] // nil: it does none
}

// work lets the node do jobs.
func (m *member) work(t *testing.T) {
	t.Helper()
	handlers := map[string]job.Handler{}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = m.DoJob
	}
	r := job.NewRunner(m.store, handlers, slog.New(slog.DiscardHandler))
	r.Claim(500 * time.Millisecond)
	m.jobs.Store(r)
	r.Start()
	t.Cleanup(r.Stop)
}

// buses are the ways hints go in the tests, which have to hold with each.
var buses = map[string]bustest.Faults{
	"perfect": {},
	"hostile": {Seed: 7, Loss: 0.3, Repeat: 0.3, Reorder: 0.5},
	"dead":    {Loss: 1},
}

// newCluster starts nodes on one store.
func newCluster(t *testing.T, nodes int, how bustest.Faults, specs ...*engine.Spec) []*member {
	t.Helper()
	byID := map[string]*engine.Spec{}
	for _, s := range specs {
		s.FirstStepWait, s.Claims = 50*time.Millisecond, time.Hour
		byID[s.ID] = s
	}
	dsn := postgrestest.DSN(t)
	hub := bustest.Hostile(how)
	members := make([]*member, nodes)
	for i := range members {
		m := &member{store: &switched{Store: open(t, dsn), refused: make(chan struct{}, 16)}}
		connection := hub.Join(func(hints []bus.Hint) { m.Heard(hints) })
		m.Engine = engine.New(engine.Config{
			Store: m.store, Node: store.Node{Name: "node " + strconv.Itoa(i)}, Lease: time.Second,
			Bus: connection, Patience: time.Minute,
			Agents: func(id string) *engine.Spec { return byID[id] },
			Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			JobsDue: func(at time.Time) {
				if r := m.jobs.Load(); r != nil {
					r.Due(at)
				}
			},
		})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			m.store.away.Store(false)
			if err := errors.Join(m.Stop(ctx), connection.Close()); err != nil {
				t.Error(err)
			}
		})
		members[i] = m
	}
	return members
}

// open opens a store that other nodes open too.
func open(t *testing.T, dsn string) store.Store {
	t.Helper()
	st, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// overBuses runs a test with each kind of bus.
func overBuses(t *testing.T, f func(t *testing.T, how bustest.Faults)) {
	t.Parallel()
	for name, how := range buses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, how)
		})
	}
}

var alice = store.ForOwner("", "alice")

func (m *member) send(t *testing.T, q *engine.Request) *a2a.Task {
	t.Helper()
	response, err := m.Send(t.Context(), q)
	if err != nil {
		t.Fatalf("send %q: %v", q.Message.Text(), err)
	}
	if response.Task == nil {
		t.Fatalf("send %q: no task", q.Message.Text())
	}
	return response.Task
}

// stepwise is an agent whose turns wait for a token before each of n chunks.
func stepwise(n int, tokens <-chan struct{}) agent.Func {
	return func(ctx context.Context, turn *agent.Turn) error {
		for i := range n {
			select {
			case <-tokens:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a", Parts: []a2a.Part{a2a.Text(strconv.Itoa(i))}, Append: i > 0, Last: i == n-1}}); err != nil {
				return err
			}
			if err := turn.Flush(); err != nil {
				return err
			}
			if history, err := turn.History(); err != nil || len(history) != 1 {
				return fmt.Errorf("history of %d messages: %w", len(history), err)
			}
		}
		return nil
	}
}

// Every watcher on every node sees the same events in the same order, wherever
// the task runs and whatever becomes of the hints.
func TestRows60And62_WatchersOfOtherNodes(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		const chunks = 30
		tokens := make(chan struct{}, chunks)
		spec := &engine.Spec{ID: "gated", Run: stepwise(chunks, tokens)}
		nodes := newCluster(t, 3, how, spec)
		task := nodes[0].send(t, request(spec, "go", atOnce))
		var group sync.WaitGroup
		seen := make([]string, 12)
		for i := range seen {
			s, err := nodes[i%3].Subscribe(t.Context(), alice, spec, task.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() { seen[i] = payloads(follow(t, s)[1:]) })
		}
		for range chunks {
			tokens <- struct{}{}
		}
		group.Wait()
		for i, k := range seen {
			if k != seen[0] {
				t.Errorf("watcher %d saw %s\nwatcher 0 saw %s", i, k, seen[0])
			}
		}
		// The id of an event means the same on every node.
		s, err := nodes[2].Subscribe(t.Context(), alice, spec, task.ID, "3")
		if err != nil {
			t.Fatal(err)
		}
		frames := follow(t, s)
		if len(frames) != chunks+1 {
			t.Errorf("after event 3, node 2 shows %s", kinds(frames))
		}
	})
}

func TestRow35_CancelThroughAnotherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		stopped := make(chan error, 1)
		spec := &engine.Spec{ID: "endless", Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			_ = turn.Working("on it")
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return ctx.Err()
		})}
		nodes := newCluster(t, 3, how, spec)
		task := nodes[0].send(t, request(spec, "go", atOnce))
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				got, err := nodes[1+i%2].Cancel(t.Context(), alice, spec, task.ID, engine.ByCaller)
				if err != nil || got.Status.State != a2a.StateCanceled {
					t.Errorf("cancel %d: %v, %v", i, got, err)
				}
			})
		}
		group.Wait()
		if reason := <-stopped; !errors.Is(reason, agent.ErrCanceled) {
			t.Errorf("the turn was ended by %v", reason)
		}
	})
}

func TestRow59_FollowUpThroughAnotherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		release := make(chan struct{})
		spec := &engine.Spec{ID: "chat", Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if turn.Number == 1 {
				_ = turn.Working("on it")
				_ = turn.Flush()
				<-release
				return turn.Ask("more?", nil)
			}
			return turn.Complete(turn.Text())
		})}
		nodes := newCluster(t, 2, how, spec)
		task := nodes[0].send(t, request(spec, "one", atOnce))
		if got := nodes[1].send(t, request(spec, "two", onTask(task.ID), atOnce)); got.Status.State != a2a.StateWorking {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
		close(release)
		s, err := nodes[1].Subscribe(t.Context(), alice, spec, task.ID, "0")
		if err != nil {
			t.Fatal(err)
		}
		follow(t, s)
		got, err := nodes[1].Get(t.Context(), alice, spec, task.ID, nil)
		if err != nil || got.Status.State != a2a.StateCompleted || got.Status.Message.Text() != "two" {
			t.Errorf("got %s, %v", got.AppendJSON(nil), err)
		}
	})
}

// A blocking call is answered by the node that took it, also when another one
// runs the turn that it waits for.
func TestBlockingCallForAnotherNodesTurn(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		tokens := make(chan struct{}, 1)
		spec := &engine.Spec{ID: "gated", Run: stepwise(1, tokens)}
		nodes := newCluster(t, 2, how, spec)
		q := request(spec, "go")
		q.Config.ReturnImmediately = true
		task := nodes[0].send(t, q)
		again := *q
		again.Config.ReturnImmediately = false
		tokens <- struct{}{}
		got := nodes[1].send(t, &again)
		if got.ID != task.ID || got.Status.State != a2a.StateCompleted {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
	})
}

func TestRow45_SameMessageThroughTwoNodes(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		var runs atomic.Int64
		spec := &engine.Spec{ID: "once", Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			runs.Add(1)
			return turn.Complete("done")
		})}
		nodes := newCluster(t, 3, how, spec)
		for range 10 {
			runs.Store(0)
			q := request(spec, "go")
			ids := make([]string, 6)
			var group sync.WaitGroup
			for i := range ids {
				group.Go(func() {
					mine := *q
					response, err := nodes[i%3].Send(t.Context(), &mine)
					if err != nil {
						t.Error(err)
						return
					}
					ids[i] = response.Task.ID
				})
			}
			group.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Fatalf("tasks %v", ids)
				}
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("%d turns", n)
			}
		}
	})
}

// A node that stops hands over what can be resumed, and answers those who wait
// for it with what came of it elsewhere.
func TestRow64_DrainHandsOverToAnotherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		tokens := make(chan struct{}, 4)
		var attempts atomic.Int64
		work := stepwise(3, tokens)
		spec := &engine.Spec{ID: "gated", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			attempts.Store(int64(turn.Attempt))
			return work(ctx, turn)
		})}
		nodes := newCluster(t, 2, how, spec)
		answer := make(chan *a2a.Task, 1)
		go func() {
			response, err := nodes[0].Send(context.Background(), request(spec, "go"))
			if err != nil {
				t.Error(err)
			} else {
				answer <- response.Task
			}
			close(answer)
		}()
		tokens <- struct{}{}
		id := onlyTask(t, nodes[1], spec, func(task *a2a.Task) bool { return len(task.Artifacts) == 1 })
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			nodes[0].Drain(ctx)
		}()
		s, err := nodes[1].Subscribe(t.Context(), alice, spec, id, "0")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second attempt begins anew
			tokens <- struct{}{}
		}
		follow(t, s)
		<-drained
		got := <-answer
		if got == nil || got.Status.State != a2a.StateCompleted || len(got.Artifacts[0].Parts) != 3 {
			t.Errorf("answered %v", got)
		}
		if n := attempts.Load(); n != 2 {
			t.Errorf("attempt %d", n)
		}
	})
}

// payloads returns frames as they go out.
func payloads(frames []*a2a.StreamResponse) string {
	var b strings.Builder
	for _, f := range frames {
		b.Write(f.AppendJSON(nil))
		b.WriteByte('\n')
	}
	return b.String()
}

// onlyTask waits until the one task of an agent is as wanted.
func onlyTask(t *testing.T, m *member, spec *engine.Spec, wanted func(*a2a.Task) bool) string {
	t.Helper()
	for t.Context().Err() == nil {
		page, err := m.List(t.Context(), alice, spec, &a2a.ListTasksRequest{IncludeArtifacts: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Tasks) == 1 && wanted(&page.Tasks[0]) {
			return page.Tasks[0].ID
		}
	}
	return ""
}

// A node that was paused for longer than its lease finds its turn taken over:
// nothing that the turn does afterwards is kept, and it is told to stop.
func TestRow61_PausedNodeIsFenced(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		paused := make(chan struct{})
		reason := make(chan error, 1)
		spec := &engine.Spec{ID: "fenced", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if turn.Attempt > 1 {
				return turn.Complete("by attempt " + strconv.Itoa(turn.Attempt))
			}
			_ = turn.Working("on it")
			_ = turn.Flush()
			<-paused
			err := turn.Complete("by the dead attempt")
			if err == nil {
				err = turn.Flush()
			}
			reason <- err
			return err
		})}
		nodes := newCluster(t, 2, how, spec)
		task := nodes[0].send(t, request(spec, "go", atOnce))
		nodes[0].store.frozen.Store(true)
		s, err := nodes[1].Subscribe(t.Context(), alice, spec, task.ID, "0")
		if err != nil {
			t.Fatal(err)
		}
		frames := follow(t, s)
		nodes[0].store.frozen.Store(false)
		close(paused)
		if err := <-reason; err == nil {
			t.Error("the dead attempt was told that its step was committed")
		}
		last := frames[len(frames)-1].StatusUpdate.Status
		got, err := nodes[0].Get(t.Context(), alice, spec, task.ID, nil)
		if err != nil || last.Message.Text() != "by attempt 2" || got.Status.Message.Text() != "by attempt 2" {
			t.Errorf("seen %s, kept %s, %v", last.Message.Text(), got.AppendJSON(nil), err)
		}
	})
}

// While the store is away, turns wait with what they have to commit, streams
// stay open, and new messages are refused. Afterwards all goes on.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	const chunks = 20
	tokens := make(chan struct{}, chunks)
	spec := &engine.Spec{ID: "gated", Run: stepwise(chunks, tokens)} // is not resumed
	nodes := newCluster(t, 2, bustest.Faults{}, spec)
	task := nodes[0].send(t, request(spec, "go", atOnce))
	var group sync.WaitGroup
	seen := make([]string, len(nodes))
	for i, m := range nodes {
		s, err := m.Subscribe(t.Context(), alice, spec, task.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { seen[i] = kinds(follow(t, s)) })
	}
	for i := range chunks {
		if i == chunks/2 {
			for _, m := range nodes {
				m.store.away.Store(true)
			}
			_, err := nodes[0].Send(t.Context(), request(spec, "refused"))
			if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Code != a2a.CodeUnavailable || e.RetryAfter == 0 {
				t.Errorf("a message to a node without its store: %v", err)
			}
			tokens <- struct{}{}
			for _, m := range nodes {
				for range 4 { // so that the lease runs out
					<-m.store.refused
				}
			}
			for _, m := range nodes {
				m.store.away.Store(false)
			}
			continue
		}
		tokens <- struct{}{}
	}
	group.Wait()
	if seen[0] != seen[1] {
		t.Errorf("node 0 showed %s\nnode 1 showed %s", seen[0], seen[1])
	}
	got, err := nodes[1].Get(t.Context(), alice, spec, task.ID, nil)
	if err != nil || got.Status.State != a2a.StateCompleted || len(got.Artifacts[0].Parts) != chunks {
		t.Errorf("got %s, %v", got.AppendJSON(nil), err)
	}
}

func init() { atEnd = append(atEnd, postgrestest.Close) }

// A message that a dead node had begun to handle is handled again by an agent that
// is resumed, and comes to a failed task with one that is not. There is one task.
func TestRow63_MessageOfADeadNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on   engine.OnInterrupt
		want a2a.TaskState
		runs int64
	}{
		"resumed":     {engine.InterruptResume, a2a.StateCompleted, 2},
		"not resumed": {engine.InterruptFail, a2a.StateFailed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			begun, release := make(chan struct{}, 1), make(chan struct{})
			slow := &engine.Spec{ID: "careful", OnInterrupt: c.on, Answers: engine.AnswersMessage, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
				if runs.Add(1) == 1 {
					begun <- struct{}{}
					<-release
				}
				return turn.Complete("done")
			})}
			nodes := newCluster(t, 2, bustest.Faults{}, slow)
			quick := *slow
			quick.Answers = engine.AnswersEither
			q := request(slow, "go")
			first := make(chan error, 1)
			go func() {
				_, err := nodes[0].Send(context.Background(), q)
				first <- err
			}()
			<-begun
			nodes[0].store.frozen.Store(true)
			again := *q
			again.Spec = &quick
			got := sendUntilTaken(t, nodes[1], &again)
			close(release)
			if err := <-first; a2a.CodeOf(err) != a2a.CodeUnavailable || err == nil {
				t.Errorf("the node that was taken for dead answers %v", err)
			}
			if got.Status.State != c.want || runs.Load() != c.runs {
				t.Errorf("%d runs, and %s", runs.Load(), got.AppendJSON(nil))
			}
			onlyTask(t, nodes[1], slow, func(task *a2a.Task) bool { return task.ID == got.ID })
		})
	}
}

// sendUntilTaken sends a message as a client that is told to send it again.
func sendUntilTaken(t *testing.T, m *member, q *engine.Request) *a2a.Task {
	t.Helper()
	for t.Context().Err() == nil {
		response, err := m.Send(t.Context(), q)
		if err == nil {
			return response.Task
		}
		if a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Fatal(err)
		}
	}
	return nil
}
