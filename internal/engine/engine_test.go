package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/job"
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

// bench is an engine on a real store, with agents that tests add.
type bench struct {
	t      *testing.T
	path   string
	store  *sqlite.Store
	engine *engine.Engine
	jobs   *job.Runner
	specs  map[string]*engine.Spec
	turns  int // at once; 0: the default
	queue  int
	sealer engine.Sealer
	bounds engine.DelegationLimits // zero: the default
	claim  time.Duration           // of a job; 0: the default
	tracer trace.Tracer            // nil: no traces

	mu      sync.Mutex
	recalls []string // tasks whose peers were to be told of their end
}

func (b *bench) recalled(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recalls = append(b.recalls, task)
}

func newBench(t *testing.T, specs ...*engine.Spec) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "tasks.db"), specs: map[string]*engine.Spec{}}
	for _, s := range specs {
		if s.FirstStepWait == 0 {
			s.FirstStepWait = 200 * time.Millisecond
		}
		if s.Claims == 0 {
			s.Claims = time.Hour
		}
		b.specs[s.ID] = s
	}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bench) open() {
	b.t.Helper()
	st, err := sqlite.Open(context.Background(), b.path, sqlite.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = st
	var jobs atomic.Pointer[job.Runner] // of this engine, which may outlive the bench's next one
	b.engine = engine.New(engine.Config{
		Store: st, Node: store.Node{Name: "test"}, Lease: 200 * time.Millisecond, Turns: b.turns, Queue: b.queue,
		Agents:  func(id string) *engine.Spec { return b.specs[id] },
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
		JobsDue: func(at time.Time) { jobs.Load().Due(at) },
		Sealer:  b.sealer, Tracer: b.tracer,
		Delegations: func() engine.DelegationLimits {
			if b.bounds == (engine.DelegationLimits{}) {
				return engine.DefaultDelegationLimits
			}
			return b.bounds
		},
		ItemDue: func(*store.InboxItem) (time.Time, []store.Job) { return time.Now().Add(time.Hour), nil },
	})
	handlers := map[string]job.Handler{store.JobRecall: func(ctx context.Context, j *store.Job) error {
		b.recalled(j.Task)
		return st.Commit(ctx, &store.Change{Finish: j.ID})
	}}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = b.engine.DoJob
	}
	b.jobs = job.NewRunner(st, handlers, slog.New(slog.NewTextHandler(io.Discard, nil)))
	jobs.Store(b.jobs)
	if b.claim > 0 {
		b.jobs.Claim(b.claim)
	}
	if err := b.engine.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.jobs.Start()
}

func (b *bench) close() {
	b.jobs.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no grace
	if err := b.engine.Stop(ctx); err != nil {
		b.t.Error(err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

func request(spec *engine.Spec, text string, options ...func(*engine.Request)) *engine.Request {
	q := &engine.Request{
		Spec: spec, Scope: store.ForOwner("", "alice"), Caller: agent.Caller{Subject: "alice"}, Authenticated: true,
		Message: &a2a.Message{MessageID: messageID(), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}},
	}
	for _, option := range options {
		option(q)
	}
	return q
}

var messages atomic.Int64

func messageID() string { return "m-" + strconv.FormatInt(messages.Add(1), 10) }

func onTask(id string) func(*engine.Request) {
	return func(q *engine.Request) { q.Message.TaskID = id }
}

func atOnce(q *engine.Request) { q.Config.ReturnImmediately = true }

func (b *bench) send(q *engine.Request) *a2a.Task {
	b.t.Helper()
	response, err := b.engine.Send(b.t.Context(), q)
	if err != nil {
		b.t.Fatalf("send %q: %v", q.Message.Text(), err)
	}
	if response.Task == nil {
		b.t.Fatalf("send %q: no task", q.Message.Text())
	}
	return response.Task
}

func (b *bench) get(id string) *a2a.Task {
	b.t.Helper()
	task, err := b.engine.Get(b.t.Context(), store.ForAll(), nil, id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return task
}

// follow reads a stream to its end.
func follow(t *testing.T, s *engine.Stream) []*a2a.StreamResponse {
	t.Helper()
	defer s.Close()
	var frames []*a2a.StreamResponse
	last := int64(-1)
	for {
		f, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Seq <= last && f.Seq != 0 {
			t.Fatalf("sequence number %d after %d", f.Seq, last)
		}
		last = f.Seq
		frame := &a2a.StreamResponse{}
		if err := a2a.Unmarshal(f.Body, frame); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
}

func kinds(frames []*a2a.StreamResponse) string {
	var names []string
	for _, f := range frames {
		switch {
		case f.Task != nil:
			names = append(names, "task:"+short(f.Task.Status.State))
		case f.Message != nil:
			names = append(names, "message")
		case f.StatusUpdate != nil:
			names = append(names, short(f.StatusUpdate.Status.State))
		case f.ArtifactUpdate != nil:
			names = append(names, "artifact")
		}
	}
	return strings.Join(names, " ")
}

func short(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

func fixture() *engine.Spec {
	return &engine.Spec{ID: "fixture", Run: agent.Func(func(ctx context.Context, t *agent.Turn) error {
		verb, rest, _ := strings.Cut(t.Text(), " ")
		switch verb {
		case "echo":
			return t.Artifact(append([]a2a.Part{a2a.Text(rest)}, t.Messages[0].Parts[1:]...)...)
		case "message":
			return t.Message(a2a.Text(rest))
		case "ask":
			return t.Ask("Which one?", a2a.JSON(`{"type":"string"}`))
		case "auth":
			if t.Number == 1 {
				return t.Authorize("May I?", "post-invoice")
			}
		case "burst":
			n, _ := strconv.Atoi(rest)
			for i := range n {
				if err := t.Emit(agent.Step{Artifact: &agent.Artifact{Parts: []a2a.Part{a2a.Text(strconv.Itoa(i))}, Append: i > 0, Last: i == n-1}}); err != nil {
					return err
				}
			}
		case "fail":
			return errors.New("secret: the database is at 10.0.0.1")
		case "latefail":
			_ = t.Working("on it")
			_ = t.Artifact(a2a.Text("half"))
			return agent.Errorf("the printer is on fire")
		case "never":
			<-ctx.Done()
			return ctx.Err()
		case "wait":
			if t.Number == 1 {
				return t.Wait(10 * time.Millisecond)
			}
		case "refuse":
			return fmt.Errorf("x: %w", a2a.Errorf(a2a.CodeTaskNotCancelable, "no way"))
		case "late":
			_ = t.Working("on it")
			return t.Message(a2a.Text("a message"))
		case "flush":
			_ = t.Ask("flushed?", nil)
			return t.Flush()
		case "panic":
			panic("boom")
		}
		if t.Grant != nil && !t.Grant.Approved {
			return t.Fail("denied")
		}
		return nil
	})}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	got := b.send(request(spec, "echo hello"))
	if got.Status.State != a2a.StateCompleted || got.Artifacts[0].Parts[0].Text != "hello" || len(got.History) != 1 {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	if stored := b.get(got.ID); string(stored.AppendJSON(nil)) != string(got.AppendJSON(nil)) {
		t.Errorf("answered %s\n  stored %s", got.AppendJSON(nil), stored.AppendJSON(nil))
	}
	s, err := b.engine.Stream(t.Context(), request(spec, "echo hello"))
	if err != nil {
		t.Fatal(err)
	}
	if k := kinds(follow(t, s)); k != "task:SUBMITTED WORKING artifact COMPLETED" {
		t.Error(k)
	}
}

func TestMessageMakesNoTask(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	q := request(spec, "message hi", func(q *engine.Request) { q.Message.ContextID = "c-1" })
	for range 2 { // the second time it is the stored reply
		response, err := b.engine.Send(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		m := response.Message
		if m == nil || m.Text() != "hi" || m.ContextID != "c-1" || m.TaskID != "" || m.Role != a2a.RoleAgent {
			t.Errorf("got %+v", response)
		}
	}
	page, err := b.engine.List(t.Context(), store.ForAll(), nil, &a2a.ListTasksRequest{})
	if err != nil || page.TotalSize != 0 {
		t.Errorf("got %d tasks, %v", page.TotalSize, err)
	}
}

func TestAskAndAnswer(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	asked := b.send(request(spec, "ask"))
	if asked.Status.State != a2a.StateInputRequired || asked.Status.Message.Text() != "Which one?" {
		t.Fatalf("got %s", asked.AppendJSON(nil))
	}
	if m := asked.Status.Message; m.TaskID != asked.ID || m.ContextID != asked.ContextID || m.Parts[1].MediaType != agent.SchemaMediaType {
		t.Errorf("question %s", m.AppendJSON(nil))
	}
	sub, err := b.engine.Subscribe(t.Context(), store.ForOwner("", "alice"), spec, asked.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	done := b.send(request(spec, "this one", onTask(asked.ID)))
	if done.Status.State != a2a.StateCompleted || len(done.History) != 3 {
		t.Errorf("got %s", done.AppendJSON(nil))
	}
	if k := kinds(follow(t, sub)); k != "task:INPUT_REQUIRED WORKING COMPLETED" {
		t.Error(k)
	}
	if _, err := b.engine.Send(t.Context(), request(spec, "more", onTask(asked.ID))); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
		t.Errorf("message to a finished task: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	asked := b.send(request(spec, "ask"))
	for name, c := range map[string]struct {
		q    *engine.Request
		code a2a.Code
	}{
		"unknown task":  {request(spec, "x", onTask("nope")), a2a.CodeTaskNotFound},
		"foreign task":  {request(spec, "x", onTask(asked.ID), func(q *engine.Request) { q.Scope = store.ForOwner("", "bob") }), a2a.CodeTaskNotFound},
		"other context": {request(spec, "x", onTask(asked.ID), func(q *engine.Request) { q.Message.ContextID = "other" }), a2a.CodeInvalidParams},
		"foreign reference": {request(spec, "echo x", func(q *engine.Request) {
			q.Scope = store.ForOwner("", "bob")
			q.Message.ReferenceTaskIDs = []string{asked.ID}
		}), a2a.CodeTaskNotFound},
		"by the agent": {request(spec, "refuse"), a2a.CodeTaskNotCancelable},
	} {
		if _, err := b.engine.Send(t.Context(), c.q); a2a.CodeOf(err) != c.code || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.get(asked.ID); len(got.History) != 1 || got.Status.State != a2a.StateInputRequired {
		t.Errorf("the task has changed: %s", got.AppendJSON(nil))
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	for text, want := range map[string]string{
		"fail":     "The agent failed. The reason is in the operator's log under this task.",
		"panic":    "The agent failed. The reason is in the operator's log under this task.",
		"latefail": "the printer is on fire",
		"late":     "Invalid agent response: it answered with a message after it had begun a task.",
	} {
		got := b.send(request(spec, text))
		if got.Status.State != a2a.StateFailed || got.Status.Message.Text() != want {
			t.Errorf("%s: %s", text, got.AppendJSON(nil))
		}
	}
}

func TestFlushAfterAsk(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	if got := b.send(request(spec, "flush")); got.Status.State != a2a.StateInputRequired {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	for _, approved := range []bool{true, false} {
		s, err := b.engine.Stream(t.Context(), request(spec, "auth"))
		if err != nil {
			t.Fatal(err)
		}
		var frames []*a2a.StreamResponse
		done := make(chan struct{})
		go func() {
			defer close(done)
			frames = follow(t, s)
		}()
		var grants []store.Grant
		for len(grants) == 0 {
			if grants, err = b.engine.Grants(t.Context(), store.ForAll(), 10); err != nil {
				t.Fatal(err)
			}
		}
		d := &engine.Decision{Grant: grants[0].ID, Approved: approved, By: "carol"}
		if _, err := b.engine.Decide(t.Context(), store.ForOwner("", "mallory"), d); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
			t.Errorf("a stranger's decision: %v", err)
		}
		if _, err := b.engine.Decide(t.Context(), store.ForAll(), d); err != nil {
			t.Fatal(err)
		}
		<-done
		want := "task:SUBMITTED WORKING AUTH_REQUIRED WORKING COMPLETED"
		if !approved {
			want = "task:SUBMITTED WORKING AUTH_REQUIRED WORKING FAILED"
		}
		if k := kinds(frames); k != want {
			t.Error(k)
		}
		if _, err := b.engine.Decide(t.Context(), store.ForAll(), d); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
			t.Errorf("a second decision: %v", err)
		}
	}
}

func TestWaitForTime(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	got := b.send(request(spec, "wait"))
	if got.Status.State != a2a.StateCompleted {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

func TestRow32_CancelStopsTheWork(t *testing.T) {
	t.Parallel()
	stopped, release := make(chan error, 1), make(chan struct{})
	spec := &engine.Spec{ID: "stubborn", Run: agent.Func(func(ctx context.Context, t *agent.Turn) error {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		<-release
		_ = t.Artifact(a2a.Text("late"))
		return t.Complete()
	})}
	b := newBench(t, spec)
	task := b.send(request(spec, "x", atOnce))
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, task.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			got, err := b.engine.Cancel(t.Context(), store.ForAll(), spec, task.ID, engine.ByCaller)
			if err != nil || got.Status.State != a2a.StateCanceled {
				t.Errorf("cancel: %v %v", got, err)
			}
		})
	}
	group.Wait()
	if cause := <-stopped; cause == nil || errors.Is(cause, context.Canceled) {
		t.Errorf("cause %v", cause)
	}
	close(release)
	if k := kinds(follow(t, sub)); k != "task:WORKING CANCELED" {
		t.Error(k)
	}
	b.engine.Drain(t.Context())
	if got := b.get(task.ID); got.Status.State != a2a.StateCanceled || len(got.Artifacts) != 0 {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

func TestRow40_TurnsOfATaskNeverOverlap(t *testing.T) {
	t.Parallel()
	var running, most, turns atomic.Int32
	begin := make(chan struct{})
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		if turns.Add(1) == 1 {
			_ = turn.Working()
			<-begin
		}
		texts := ""
		for _, m := range turn.Messages {
			texts += m.Text()
		}
		_ = turn.Artifact(a2a.Text(texts))
		return turn.Ask("more?", nil)
	})}
	b := newBench(t, spec)
	task := b.send(request(spec, "0", atOnce))
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			got := b.send(request(spec, fmt.Sprintf("<%d>", i), onTask(task.ID)))
			if got.Status.State != a2a.StateInputRequired {
				t.Errorf("got %s", got.AppendJSON(nil))
			}
		})
		if i == 10 {
			close(begin)
		}
	}
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d turns at once", most.Load())
	}
	item, err := b.engine.Get(t.Context(), store.ForAll(), spec, task.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, a := range item.Artifacts {
		all += a.Parts[0].Text
	}
	for i := range 20 {
		if strings.Count(all, fmt.Sprintf("<%d>", i)) != 1 {
			t.Errorf("message %d was not read once in %q", i, all)
		}
	}
}

func TestRow45_ARepeatedMessageRunsOnce(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		runs.Add(1)
		return turn.Artifact(a2a.Text("done"))
	})}
	b := newBench(t, spec)
	q := func() *engine.Request {
		return request(spec, "x", func(q *engine.Request) { q.Message.MessageID = "same" })
	}
	first := b.send(q())
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if got := b.send(q()); got.ID != first.ID {
				t.Errorf("another task %s", got.ID)
			}
		})
	}
	group.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
	other := q()
	other.Message.Parts = []a2a.Part{a2a.Text("y")}
	if _, err := b.engine.Send(t.Context(), other); a2a.CodeOf(err) != a2a.CodeInvalidParams {
		t.Errorf("another message under the id: %v", err)
	}
	bob := q()
	bob.Scope = store.ForOwner("", "bob")
	if got := b.send(bob); got.ID == first.ID {
		t.Error("bob got alice's task")
	}
	// All at once, with nothing there yet.
	fresh := func() *engine.Request {
		return request(spec, "x", func(q *engine.Request) { q.Message.MessageID = "fresh" })
	}
	ids := make(chan string, 10)
	for range 10 {
		group.Go(func() { ids <- b.send(fresh()).ID })
	}
	group.Wait()
	close(ids)
	id := <-ids
	for other := range ids {
		if other != id {
			t.Errorf("tasks %s and %s", id, other)
		}
	}
	if runs.Load() != 3 {
		t.Errorf("%d runs", runs.Load())
	}
}

// A message whose handling died without a trace is not handled again by an agent
// that must not do anything twice.
func TestRow45_ARepeatedMessageAfterACrash(t *testing.T) {
	t.Parallel()
	for _, resume := range []bool{false, true} {
		var runs atomic.Int32
		spec := &engine.Spec{ID: "a", FirstStepWait: time.Hour, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if runs.Add(1) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return turn.Complete("done")
		})}
		if resume {
			spec.OnInterrupt = engine.InterruptResume
		}
		b := newBench(t, spec)
		ctx, cancel := context.WithCancel(t.Context())
		q := request(spec, "x")
		gone := make(chan error)
		go func() {
			_, err := b.engine.Send(ctx, q)
			gone <- err
		}()
		for runs.Load() == 0 {
		}
		b.crash()
		got := b.send(q)
		want, times := a2a.StateFailed, int32(1)
		if resume {
			want, times = a2a.StateCompleted, 2
		}
		if got.Status.State != want || runs.Load() != times {
			t.Errorf("resume %v: %d runs, %s", resume, runs.Load(), got.AppendJSON(nil))
		}
		if again := b.send(q); again.ID != got.ID {
			t.Errorf("resume %v: another task", resume)
		}
		cancel()
		if err := <-gone; err == nil {
			t.Error("the dead node answered")
		}
	}
}

func TestRow44_LimitsEndATurn(t *testing.T) {
	t.Parallel()
	spec := fixture()
	spec.Limits = engine.Limits{Inactivity: 20 * time.Millisecond, Steps: 5, ArtifactBytes: 20}
	b := newBench(t, spec)
	for text, want := range map[string]string{
		"never":                             "20ms",
		"burst 10":                          "5 steps",
		"echo " + strings.Repeat("long", 9): "20 bytes",
	} {
		got := b.send(request(spec, text))
		if got.Status.State != a2a.StateFailed || !strings.Contains(got.Status.Message.Text(), want) {
			t.Errorf("%s: %s", text, got.AppendJSON(nil))
		}
	}
}

func TestRow30_WatchersSeeTheSame(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	const chunks = 2000
	q := request(spec, fmt.Sprintf("burst %d", chunks))
	origin, err := b.engine.Stream(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	frames := follow(t, origin)
	artifact := a2a.Task{}
	for _, f := range frames {
		artifact.Apply(f)
	}
	if n := len(artifact.Artifacts[0].Parts); n != chunks {
		t.Fatalf("%d chunks", n)
	}
	for i, p := range artifact.Artifacts[0].Parts {
		if p.Text != strconv.Itoa(i) {
			t.Fatalf("chunk %d is %q", i, p.Text)
		}
	}
	stored := b.get(artifact.ID)
	if string(stored.AppendJSON(nil)) != string(artifact.AppendJSON(nil)) {
		t.Error("the stream tells another story than the store")
	}
	resumed, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, artifact.ID, "100")
	if err != nil {
		t.Fatal(err)
	}
	rest := follow(t, resumed)
	if len(rest) != len(frames)-1-98 { // events 3 to 100 are gone; 1 and 2 were the task
		t.Errorf("%d frames after event 100 of %d", len(rest), len(frames))
	}
	for _, bad := range []string{"x", "-1", "99999"} {
		if _, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, artifact.ID, bad); a2a.CodeOf(err) != a2a.CodeInvalidParams {
			t.Errorf("Last-Event-ID %s: %v", bad, err)
		}
	}
}

func TestRow65_ExpiredTasksAreGone(t *testing.T) {
	t.Parallel()
	spec := fixture()
	spec.Retention = 50 * time.Millisecond
	b := newBench(t, spec)
	task := b.send(request(spec, "ask"))
	if _, err := b.engine.Send(t.Context(), request(spec, "done", onTask(task.ID), atOnce)); err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Fatal(err)
	}
	for {
		_, err := b.engine.Get(t.Context(), store.ForAll(), spec, task.ID, nil)
		if a2a.CodeOf(err) == a2a.CodeTaskNotFound && err != nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// However quick the agent is, a stream tells everything that its message caused.
func TestRow06_StreamsOfFollowUpsAreWhole(t *testing.T) {
	t.Parallel()
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Number == 1 {
			return turn.Ask("what?", nil)
		}
		_ = turn.Artifact(a2a.Text("x"))
		return turn.Complete("done")
	})}
	b := newBench(t, spec)
	for range 100 {
		asked := b.send(request(spec, "x"))
		s, err := b.engine.Stream(t.Context(), request(spec, "y", onTask(asked.ID)))
		if err != nil {
			t.Fatal(err)
		}
		if k := kinds(follow(t, s)); k != "task:WORKING artifact COMPLETED" {
			t.Fatal(k)
		}
	}
}

// The same message in other bytes, as another binding or a retry would write it,
// is the same message.
func TestRepetitionInOtherBytes(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	data := func(text, id string) *engine.Request {
		return request(spec, "echo hi", func(q *engine.Request) {
			q.Message.MessageID = id
			q.Message.Parts = append(q.Message.Parts, a2a.Data(a2a.JSON(text)))
		})
	}
	first := b.send(data(`{"b": 1.50, "a": "\u00e9"}`, "m"))
	if again := b.send(data(`{"a":"é","b":1.5}`, "m")); again.ID != first.ID {
		t.Errorf("task %s, then %s", first.ID, again.ID)
	}
	b.send(data(`{"n":12345678901234567890}`, "n"))
	if _, err := b.engine.Send(t.Context(), data(`{"n":12345678901234567891}`, "n")); a2a.CodeOf(err) != a2a.CodeInvalidParams || err == nil {
		t.Errorf("another number under the same id: %v", err)
	}
}
