package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/wire"
)

func TestRow01_SubscribeToParkedTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("ask"))
		s := n.stream(b, "SubscribeToTask", object{"id": task.ID})
		if got := s.must().shape(); got != "task TASK_STATE_INPUT_REQUIRED" {
			t.Fatalf("first frame: %s", got)
		}
		n.sent(b, send("go", object{"taskId": task.ID}))
		want := []string{"status WORKING", "status COMPLETED"}
		if diff := cmp.Diff(want, shapes(s.rest())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRow02_SubscribeToFinishedOrUnknownTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("echo hi"))
		_, refused := n.open(b, "SubscribeToTask", object{"id": task.ID})
		refused.isError(t, a2a.CodeUnsupportedOperation)
		if !bytes.Contains(refused.Body, []byte(`"reason":"UNSUPPORTED_OPERATION"`)) {
			t.Errorf("no reason in %s", refused.Body)
		}
		_, refused = n.open(b, "SubscribeToTask", object{"id": "nope"})
		refused.isError(t, a2a.CodeTaskNotFound)
	})
}

func TestRow03_SubscribeAfterRestart(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("ask"))
		n.restart()
		s := n.stream(b, "SubscribeToTask", object{"id": task.ID})
		if got := s.must(); got.state() != "TASK_STATE_INPUT_REQUIRED" || got.Task.ID != task.ID {
			t.Fatalf("first frame: %s", got.Data)
		}
		n.sent(b, send("go", object{"taskId": task.ID}))
		if got := shapes(s.rest()); !slices.Equal(got, []string{"status WORKING", "status COMPLETED"}) {
			t.Errorf("then %v", got)
		}
	})
}

// texts returns the texts of an artifact.
func texts(a *a2a.Artifact) []string {
	list := []string{}
	for i := range a.Parts {
		list = append(list, a.Parts[i].Text)
	}
	return list
}

func numbers(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// rebuilt returns the texts of the only artifact that a stream makes.
func rebuilt(events []*event) []string {
	task := &a2a.Task{}
	for _, e := range events {
		task.Apply(&e.StreamResponse)
	}
	if len(task.Artifacts) == 0 {
		return nil
	}
	return texts(&task.Artifacts[0])
}

func TestRow04_ReconnectLosesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		const count = 100
		first := n.stream(b, "SendStreamingMessage", send(fmt.Sprintf("burst %d 3ms", count)))
		var seen []*event
		for len(seen) < 30 {
			seen = append(seen, first.must())
		}
		first.close()
		id, last := seen[0].Task.ID, seen[len(seen)-1].ID

		again := n.stream(b, "SubscribeToTask", object{"id": id})
		resumed := n.stream(b, "SubscribeToTask", object{"id": id}, header("Last-Event-ID", last))
		snapshot := again.must()
		if snapshot.Task == nil {
			t.Fatalf("first frame is %s", snapshot.Data)
		}
		if diff := cmp.Diff(numbers(count), rebuilt(append([]*event{snapshot}, again.rest()...))); diff != "" {
			t.Errorf("from the snapshot: %s", diff)
		}
		if diff := cmp.Diff(numbers(count), rebuilt(append(seen, resumed.rest()...))); diff != "" {
			t.Errorf("from the last event: %s", diff)
		}

		// The task is over by now: a cursor still gets the rest, and then the end.
		if diff := cmp.Diff(numbers(count), rebuilt(append(seen, n.stream(b, "SubscribeToTask", object{"id": id}, header("Last-Event-ID", last)).rest()...))); diff != "" {
			t.Errorf("after the end: %s", diff)
		}
		for _, cursor := range []string{"x", "-1", "99999"} {
			_, refused := n.open(b, "SubscribeToTask", object{"id": id}, header("Last-Event-ID", cursor))
			refused.isError(t, a2a.CodeInvalidParams)
			if !refused.field("Last-Event-ID") {
				t.Errorf("cursor %s: %s", cursor, refused.Body)
			}
		}
	})
}

func TestLastEventIDIsOptIn(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: func(a *wire.Agent) { a.LastEventID = false }})
	task := n.sent(rpc, send("ask"))
	s := n.stream(rpc, "SubscribeToTask", object{"id": task.ID}, header("Last-Event-ID", "1"))
	if got := s.must().shape(); got != "task TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("first frame: %s", got)
	}
}

func TestRow06_FirstEventsAreNotMissed(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		want := []string{"task SUBMITTED", "status WORKING", "artifact", "status COMPLETED"}
		for range 250 {
			got := shapes(n.stream(b, "SendStreamingMessage", send("echo x")).rest())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestRow07_BackToBackEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		const count = 5000
		for _, slow := range []bool{false, true} {
			s := n.stream(b, "SendStreamingMessage", send(fmt.Sprintf("burst %d", count)))
			if slow {
				// A reader that takes its time, until the buffers between are full.
				s.lines.Reset(&throttled{Reader: s.response.Body, every: 64 << 10, pause: 5 * time.Millisecond})
			}
			var got []string
			events := s.rest()
			for _, e := range events {
				if e.ArtifactUpdate != nil {
					got = append(got, e.ArtifactUpdate.Artifact.Parts[0].Text)
				}
			}
			if diff := cmp.Diff(numbers(count), got); diff != "" {
				t.Errorf("slow=%v: %s", slow, diff)
			}
			if last := events[len(events)-1]; last.state() != "TASK_STATE_COMPLETED" {
				t.Errorf("slow=%v: last frame %s", slow, last.Data)
			}
		}
	})
}

// throttled pauses after so many bytes.
type throttled struct {
	io.Reader
	every, read int
	pause       time.Duration
}

func (r *throttled) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b[:min(len(b), 4<<10)])
	if r.read += n; r.read >= r.every {
		r.read = 0
		time.Sleep(r.pause) // a slow network is what is tested
	}
	return n, err
}

func TestRow08_NoStateOnTheWireThatIsNotStored(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		gate, tried := make(chan struct{}), make(chan error, 1)
		n := newNode(t, setting{spec: runs(func(turn *agent.Turn) error {
			_ = turn.Working("soon")
			<-gate
			_ = turn.Complete()
			tried <- turn.Flush()
			return nil
		})})
		s := n.stream(b, "SendStreamingMessage", send("x"))
		id := s.must().Task.ID
		for e := s.must(); e.StatusUpdate == nil || e.StatusUpdate.Status.Message == nil; e = s.must() {
		}
		// The last write fails, since the store is gone; the node dies, and
		// another one finds the task.
		_ = n.store.Close()
		close(gate)
		if err := <-tried; err == nil {
			t.Error("the agent was told that its step was committed")
		}
		n.kill()
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			if state := e.state(); state != "" {
				t.Errorf("%s was on the wire and never stored", state)
			}
		}
		n.start(strings.TrimPrefix(n.base, "http://"))
		n.until(id, a2a.StateFailed)
	})
}

func TestRow10And11_StreamsStayAlive(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{options: func(o *wire.Options) { o.KeepAlive = 20 * time.Millisecond }})
		s := n.stream(b, "SendStreamingMessage", send("never"))
		for name, want := range map[string]string{
			"X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform", "Content-Encoding": "",
		} {
			if got := s.response.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		id := s.must().Task.ID
		var canceled sync.WaitGroup
		canceled.Go(func() { // something is to come after the silence
			<-time.After(150 * time.Millisecond)
			n.call(rpc, "CancelTask", object{"id": id})
		})
		events := s.rest()
		canceled.Wait()
		if last := events[len(events)-1]; last.state() != "TASK_STATE_CANCELED" {
			t.Errorf("last frame %s", last.Data)
		}
		if len(s.comments) < 2 || s.comments[0] != ": keep-alive" {
			t.Errorf("comments: %q", s.comments)
		}
	})
}

func TestRow10_FirstFrameIsNotHeldBack(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		within(t, 5*time.Second, func() {
			s := n.stream(b, "SendStreamingMessage", send("slow 600"))
			s.must()
		})
	})
}

func TestRow12_RefusalsOfStreamsAreOrdinaryErrors(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		_, refused := n.open(b, "SendStreamingMessage", object{})
		refused.isError(t, a2a.CodeInvalidParams)
		if !refused.field("message") {
			t.Errorf("no field in %s", refused.Body)
		}
		if b == rest {
			r := n.request(b, "SendStreamingMessage", object{})
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{")), 1
			a := n.do(b, r)
			a.isError(t, a2a.CodeParse)
			if !bytes.Contains(a.Body, []byte(`"status":"INVALID_ARGUMENT"`)) {
				t.Errorf("%s", a.Body)
			}
		}
	})
}

func TestRow13_FailureInTheMiddle(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		events := n.stream(b, "SendStreamingMessage", send("latefail")).rest()
		want := []string{"task SUBMITTED", "status WORKING", "artifact", "status FAILED"}
		if diff := cmp.Diff(want, shapes(events)); diff != "" {
			t.Fatal(diff)
		}
		if got := events[3].StatusUpdate.Status.Message.Text(); got != "The warehouse is closed." {
			t.Errorf("message %q", got)
		}
	})
}

// failing is a store whose rows cannot be read while it is broken.
type failing struct {
	store.Store
	broken atomic.Bool
}

func (f *failing) Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error) {
	if f.broken.Load() {
		return nil, errors.New("disk on fire") // for one that is only away, the stream waits
	}
	return f.Store.Task(ctx, scope, id)
}

func TestRow13_ErrorFrameEndsTheStream(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		broken, gate := &failing{}, make(chan struct{})
		n := newNode(t, setting{
			engine: func(c *engine.Config) { broken.Store, c.Store = c.Store, broken },
			spec: func(s *engine.Spec) {
				s.Run = agent.Func(func(_ context.Context, turn *agent.Turn) error {
					if turn.Number > 1 {
						<-gate
					}
					return turn.Ask("more?", nil)
				})
			},
		})
		task := n.sent(b, send("x"))
		s := n.stream(b, "SendStreamingMessage", send("y", object{"taskId": task.ID}))
		s.must()
		// Whether the sender is done is a question to the store.
		broken.broken.Store(true)
		close(gate)
		events := s.rest()
		last := events[len(events)-1]
		if last.Error == nil || last.Error.Code != a2a.CodeUnavailable {
			t.Fatalf("last frame %s", last.Raw)
		}
		if bytes.Contains(last.Raw, []byte("fire")) {
			t.Errorf("the cause leaks: %s", last.Raw)
		}
		if b == rest && !bytes.HasPrefix(last.Raw, []byte(`{"error":{"code":503,"status":"UNAVAILABLE",`)) {
			t.Errorf("frame %s", last.Raw)
		}
	})
}

func TestRow14_FramesAreEnvelopes(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for id, text := range map[string]string{`"s"`: "echo x", `7`: "message y", `1.50`: "reject", `null`: "ask", `123456789012345678901234567890`: "chunks"} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":%q}]}}}`, id, text)
		r := n.request(rpc, "SendStreamingMessage", object{})
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		response, err := n.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		frames := 0
		for line := range strings.SplitSeq(string(all), "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			frames++
			if !strings.HasPrefix(data, `{"jsonrpc":"2.0","id":`+id+`,"result":{"`) || !strings.HasSuffix(data, "}}") {
				t.Errorf("frame %s", data)
			}
		}
		if frames == 0 {
			t.Errorf("no frames in %s", all)
		}
	}
}

func TestRow15_OrderIsTheProtocols(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for text, want := range map[string][]string{
			"statusfirst": {"task SUBMITTED", "status WORKING", "status WORKING", "status COMPLETED"},
			"messagelast": {"task SUBMITTED", "status WORKING", "artifact", "status FAILED"},
			"message hi":  {"message"},
		} {
			if diff := cmp.Diff(want, shapes(n.stream(b, "SendStreamingMessage", send(text)).rest())); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		}
	})
}

func TestRow16_FailuresAreTasks(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for _, text := range []string{"fail", "panic"} {
			task := n.sent(b, send(text))
			if task.Status.State != a2a.StateFailed {
				t.Fatalf("%s: %v", text, task.Status.State)
			}
			if diff := cmp.Diff(task, n.task(b, task.ID)); diff != "" {
				t.Errorf("%s: answered and stored: %s", text, diff)
			}
			want := []string{"task SUBMITTED", "status WORKING", "status FAILED"}
			if diff := cmp.Diff(want, shapes(n.stream(b, "SendStreamingMessage", send(text)).rest())); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		}
	})
}

func TestRow18_SubscriptionShowsTheState(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("ask"))
		got := n.stream(b, "SubscribeToTask", object{"id": task.ID}).must()
		stored := n.ok(b, "GetTask", object{"id": task.ID})
		if want := `{"task":` + string(stored) + `}`; string(got.Data) != want {
			t.Errorf("first frame %s\nwant %s", got.Data, want)
		}
	})
}

func TestRow19_StreamEndsAtInputRequired(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		events := n.stream(b, "SendStreamingMessage", send("ask")).rest()
		if last := events[len(events)-1]; last.state() != "TASK_STATE_INPUT_REQUIRED" {
			t.Errorf("last frame %s", last.Data)
		}
	})
}

func TestRow20_StreamStaysOpenAtAuthRequired(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		s := n.stream(b, "SendStreamingMessage", send("auth"))
		e := s.must()
		for e.state() != "TASK_STATE_AUTH_REQUIRED" {
			e = s.must()
		}
		if e.StatusUpdate.Status.Message.Text() != "May I?" {
			t.Errorf("%s", e.Data)
		}
		n.grant(true)
		if diff := cmp.Diff([]string{"status WORKING", "artifact", "status COMPLETED"}, shapes(s.rest())); diff != "" {
			t.Error(diff)
		}

		task := n.sent(b, send("auth"))
		if task.Status.State != a2a.StateAuthRequired {
			t.Fatalf("a blocking send returned at %v", task.Status.State)
		}
		n.grant(false)
		n.until(task.ID, a2a.StateFailed)
	})
}

func TestRow21_DisconnectCancelsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{begun: make(chan string, 9)})
		s := n.stream(b, "SendStreamingMessage", send("slow 3"))
		id := s.must().Task.ID
		s.close()
		if got := n.until(id, a2a.StateCompleted); len(got.Artifacts) != 1 {
			t.Errorf("artifacts: %v", got.Artifacts)
		}
		<-n.fixture.begun

		r, cancel := cancelable(n.request(b, "SendMessage", send("slow 3")))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := n.client.Do(r); err == nil {
				_ = response.Body.Close()
				t.Error("the request was answered before it could be aborted")
			}
		}()
		id = <-n.fixture.begun
		cancel()
		<-done
		eventually(t, "the task is there", func() bool { return n.call(rpc, "GetTask", object{"id": id}).Error == nil })
		n.until(id, a2a.StateCompleted)
		if got := n.fixture.canceled.Load(); got != 0 {
			t.Errorf("%d turns were canceled", got)
		}
	})
}

func TestRow23_AbandonedRunsEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{spec: func(s *engine.Spec) { s.Limits.Inactivity = 400 * time.Millisecond }})
	const count = 200
	var ids [count]string
	var group sync.WaitGroup
	limit := make(chan struct{}, 32)
	for i := range ids {
		group.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			s := n.stream(rpc, "SendStreamingMessage", send("never"))
			ids[i] = s.must().Task.ID
			s.close()
		})
	}
	group.Wait()
	for _, id := range ids {
		task := n.until(id, a2a.StateFailed)
		if !strings.Contains(task.Status.Message.Text(), "400ms") {
			t.Fatalf("reason: %q", task.Status.Message.Text())
		}
	}
	eventually(t, "no watcher is left", func() bool { return n.fixture.watchers.Load() == 0 })
}

func TestRow24_SubscribersLeave(t *testing.T) {
	t.Parallel()
	// At the latest, the next keep-alive finds that there is nobody any more.
	n := newNode(t, setting{options: func(o *wire.Options) { o.KeepAlive = time.Second }})
	stays := n.stream(rpc, "SendStreamingMessage", send("never"))
	id := stays.must().Task.ID
	const count = 1000
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range count / 16 {
				s := n.stream(rpc, "SubscribeToTask", object{"id": id})
				s.must()
				s.close()
			}
		})
	}
	group.Wait()
	eventually(t, "one watcher is left", func() bool { return n.fixture.watchers.Load() == 1 })
	n.client.CloseIdleConnections()
	runtime.GC()
	n.ok(rpc, "CancelTask", object{"id": id})
	events := stays.rest()
	if last := events[len(events)-1]; last.state() != "TASK_STATE_CANCELED" {
		t.Errorf("the subscriber that stayed got %s", last.Data)
	}
}

func TestRow26_AppendToAnUnknownArtifact(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		events := n.stream(b, "SendStreamingMessage", send("appendfirst")).rest()
		stored := n.task(b, events[0].Task.ID)
		if diff := cmp.Diff([]string{"A"}, texts(&stored.Artifacts[0])); diff != "" {
			t.Errorf("stored: %s", diff)
		}
		if diff := cmp.Diff([]string{"A"}, rebuilt(events)); diff != "" {
			t.Errorf("streamed: %s", diff)
		}
	})
}

func TestRow27_ChunksAreNeitherLostNorDoubled(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for text, want := range map[string][]string{"chunks": {"A", "B", "C"}, "replace": {"AB"}} {
			events := n.stream(b, "SendStreamingMessage", send(text)).rest()
			stored := n.task(b, events[0].Task.ID)
			if diff := cmp.Diff(want, texts(&stored.Artifacts[0])); diff != "" {
				t.Errorf("%s stored: %s", text, diff)
			}
			if diff := cmp.Diff(want, rebuilt(events)); diff != "" {
				t.Errorf("%s streamed: %s", text, diff)
			}
		}
	})
}

func TestRow29And30_SubscribersGetTheSame(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		original := n.stream(b, "SendStreamingMessage", send("slow 3"))
		id := original.must().Task.ID
		var subscribers [3]*sse
		for i := range subscribers {
			subscribers[i] = n.stream(b, "SubscribeToTask", object{"id": id})
		}
		first := subscribers[0].must()
		subscribers[1].must()
		subscribers[1].close()
		subscribers[2].must()
		reference := tail(t, subscribers[0].rest(), first.ID)
		if len(reference) < 5 || !strings.Contains(reference[len(reference)-1], "COMPLETED") {
			t.Fatalf("only %v", reference)
		}
		for i, events := range [][]*event{original.rest(), subscribers[2].rest()} {
			got := tail(t, events, first.ID)
			got = got[max(0, len(got)-len(reference)):]
			want := reference[len(reference)-len(got):]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stream %d: %s", i, diff)
			}
		}
	})
}

// tail returns the ids and payloads of the events after an id, and checks that
// ids rise.
func tail(t *testing.T, events []*event, after string) []string {
	t.Helper()
	from, last := 0, 0
	from, _ = strconv.Atoi(after)
	var list []string
	for _, e := range events {
		id, err := strconv.Atoi(e.ID)
		if err != nil || id <= last {
			t.Errorf("id %q after %d", e.ID, last)
		}
		if last = id; id > from {
			list = append(list, e.ID+" "+string(e.Data))
		}
	}
	return list
}

// Clients that split events at every line break of Unicode get whole ones.
func TestSeparatorsInEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		const text = "a\u2028b\u2029c\u0085d"
		s := n.stream(b, "SendStreamingMessage", send("echo "+text))
		events := s.rest()
		var seen []string
		for _, e := range events {
			if strings.ContainsAny(string(e.Raw), "\u2028\u2029\u0085") {
				t.Errorf("an event has a separator: %q", e.Data)
			}
			if e.ArtifactUpdate != nil {
				seen = append(seen, e.ArtifactUpdate.Artifact.Parts[0].Text)
			}
		}
		if diff := cmp.Diff([]string{text}, seen); diff != "" {
			t.Error(diff)
		}
	})
}
