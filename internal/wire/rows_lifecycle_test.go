package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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

// now makes a send return at once.
func now(params object) object {
	params["configuration"] = object{"returnImmediately": true}
	return params
}

func TestRow31_CancelEndsTheTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for _, params := range []object{now(send("slow 300")), send("ask")} {
			id := n.sent(b, params).ID
			var canceled a2a.Task
			if err := a2a.Unmarshal(n.ok(b, "CancelTask", object{"id": id}), &canceled); err != nil {
				t.Fatal(err)
			}
			if canceled.Status.State != a2a.StateCanceled {
				t.Errorf("answered %v", canceled.Status.State)
			}
			if got := n.task(b, id).Status.State; got != a2a.StateCanceled {
				t.Errorf("stored %v", got)
			}
		}
	})
}

func TestRow32_LateEndOfACanceledTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		s := n.stream(b, "SendStreamingMessage", send("stubborn"))
		id := s.must().Task.ID
		for e := s.must(); e.StatusUpdate == nil || e.StatusUpdate.Status.Message == nil; e = s.must() {
		}
		n.ok(b, "CancelTask", object{"id": id})
		if diff := cmp.Diff([]string{"status CANCELED"}, shapes(s.rest())); diff != "" {
			t.Errorf("the subscriber saw: %s", diff)
		}
		eventually(t, "the turn has returned", func() bool {
			n.fixture.mu.Lock()
			defer n.fixture.mu.Unlock()
			return n.fixture.current[id] == 0
		})
		task := n.task(b, id)
		if task.Status.State != a2a.StateCanceled || len(task.Artifacts) != 0 {
			t.Errorf("%v with %d artifacts", task.Status.State, len(task.Artifacts))
		}
		if got := n.fixture.canceled.Load(); got != 1 {
			t.Errorf("%d contexts ended", got)
		}
	})
}

func TestRow34_SecondCancel(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		id := n.sent(b, send("ask")).ID
		first := n.ok(b, "CancelTask", object{"id": id})
		if second := n.ok(b, "CancelTask", object{"id": id}); string(second) != string(first) {
			t.Errorf("first %s\nsecond %s", first, second)
		}
		n.call(b, "CancelTask", object{"id": n.sent(b, send("echo x")).ID}).isError(t, a2a.CodeTaskNotCancelable)
		n.call(b, "CancelTask", object{"id": "nope"}).isError(t, a2a.CodeTaskNotFound)
	})
}

func TestRow36_ReturnedTasksExist(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for range 20 {
			id := n.sent(b, now(send("never"))).ID
			if got := n.task(b, id).Status.State; got.Terminal() {
				t.Errorf("state %v", got)
			}
			n.ok(b, "CancelTask", object{"id": id})
		}
	})
}

func TestRow37_ReturnImmediately(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{second: 200 * time.Millisecond})
		within(t, 450*time.Millisecond, func() {
			if got := n.sent(b, now(send("slow 3"))).Status.State; got != a2a.StateSubmitted && got != a2a.StateWorking {
				t.Errorf("at once: %v", got)
			}
		})
		began := time.Now()
		task := n.sent(b, send("slow 3"))
		if task.Status.State != a2a.StateCompleted || len(task.Artifacts) != 1 || time.Since(began) < 600*time.Millisecond {
			t.Errorf("blocking: %v after %v", task.Status.State, time.Since(began))
		}
		if got := n.sent(b, send("ask")).Status.State; got != a2a.StateInputRequired {
			t.Errorf("ask: %v", got)
		}
		if got := n.ok(b, "SendMessage", now(send("message hi"))); !strings.HasPrefix(string(got), `{"message":{`) {
			t.Errorf("message: %s", got)
		}
		if got := shapes(n.stream(b, "SendStreamingMessage", now(send("echo x"))).rest()); len(got) != 4 {
			t.Errorf("stream: %v", got)
		}
	})
}

func TestRow38_BlockingSendsUnderLoad(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	const count, side = 2000, 64
	var group sync.WaitGroup
	var wrong atomic.Int64
	for range side {
		group.Go(func() {
			for range count / side {
				a := n.call(rpc, "SendMessage", send("echo x"))
				var r a2a.SendMessageResponse
				if a.Error != nil || a2a.Unmarshal(a.Result, &r) != nil || r.Task == nil || r.Task.Status.State != a2a.StateCompleted {
					if wrong.Add(1) == 1 {
						t.Errorf("%d %s", a.Status, a.Body)
					}
				}
			}
		})
	}
	group.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d wrong answers", n)
	}
}

func TestRow40_OneTurnAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		gate := make(chan struct{})
		var running, most atomic.Int64
		n := newNode(t, setting{spec: func(s *engine.Spec) {
			s.Run = agent.Func(func(_ context.Context, turn *agent.Turn) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if turn.Number == 1 {
					_ = turn.Working()
					<-gate
				}
				return turn.Ask("more?", nil)
			})
		}})
		id := n.sent(b, now(send("first"))).ID
		var group sync.WaitGroup
		sent := make([]string, 20)
		for i := range sent {
			group.Go(func() {
				params := now(send(fmt.Sprint("x", i), object{"taskId": id}))
				sent[i] = params["message"].(object)["messageId"].(string)
				n.sent(b, params)
			})
		}
		group.Wait()
		close(gate)
		n.until(id, a2a.StateInputRequired)
		task := n.task(b, id)
		var got []string
		for i := range task.History {
			if task.History[i].Role == a2a.RoleUser && task.History[i].Text() != "first" {
				got = append(got, task.History[i].MessageID)
			}
		}
		slices.Sort(got)
		slices.Sort(sent)
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("history: %s", diff)
		}
		if most.Load() != 1 {
			t.Errorf("%d turns at once", most.Load())
		}
	})
}

func TestRow42_FailuresDoNotLeak(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for text, want := range map[string]string{
			"latefail": "The warehouse is closed.",
			"fail":     "The agent failed. The reason is in the operator's log under this task.",
		} {
			task := n.sent(b, send(text))
			if task.Status.State != a2a.StateFailed || task.Status.Message == nil || task.Status.Message.Text() != want {
				t.Errorf("%s: %+v", text, task.Status)
			}
			if diff := cmp.Diff(task, n.task(b, task.ID)); diff != "" {
				t.Errorf("%s: answered and stored: %s", text, diff)
			}
		}
	})
}

// unwritable is a store that cannot be written while it is broken.
type unwritable struct {
	store.Store
	broken atomic.Bool
}

func (u *unwritable) Commit(ctx context.Context, c *store.Change) error {
	if u.broken.Load() {
		return fmt.Errorf("disk full: %w", store.ErrUnavailable)
	}
	return u.Store.Commit(ctx, c)
}

func TestRow43_StoreOutage(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		u := &unwritable{}
		n := newNode(t, setting{
			engine: func(c *engine.Config) { u.Store, c.Store = c.Store, u },
			spec:   func(s *engine.Spec) { s.Idempotency = engine.IdempotencyOn },
		})
		params := send("echo x")
		u.broken.Store(true)
		a := n.call(b, "SendMessage", params)
		a.isError(t, a2a.CodeUnavailable)
		if b != overGRPC && a.Status != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
		}
		u.broken.Store(false)
		before := n.fixture.runs.Load()
		first := n.sent(b, params)
		if again := n.sent(b, params); again.ID != first.ID {
			t.Errorf("tasks %s and %s", first.ID, again.ID)
		}
		if got := n.fixture.runs.Load() - before; got != 1 {
			t.Errorf("%d runs", got)
		}
	})
}

func TestRow44_StalledRunsFail(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{spec: func(s *engine.Spec) { s.Limits.Inactivity = 80 * time.Millisecond }})
		within(t, 3*time.Second, func() {
			task := n.sent(b, send("never"))
			if task.Status.State != a2a.StateFailed || !strings.Contains(task.Status.Message.Text(), "80ms") {
				t.Errorf("%+v", task.Status)
			}
			events := n.stream(b, "SendStreamingMessage", send("never")).rest()
			if last := events[len(events)-1]; last.state() != "TASK_STATE_FAILED" {
				t.Errorf("last frame %s", last.Data)
			}
		})
	})
}

func TestRow44_CrashedRuns(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]engine.OnInterrupt{"fail": engine.InterruptFail, "resume": engine.InterruptResume} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, setting{spec: func(s *engine.Spec) { s.OnInterrupt = rule }})
			id := n.sent(rpc, now(send("slow 10"))).ID
			n.restart()
			if rule == engine.InterruptFail {
				task := n.until(id, a2a.StateFailed)
				if !strings.Contains(task.Status.Message.Text(), "interrupted") {
					t.Errorf("reason: %q", task.Status.Message.Text())
				}
				return
			}
			task := n.until(id, a2a.StateCompleted)
			if diff := cmp.Diff(numbers(100), texts(&task.Artifacts[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRow45_RepeatedMessages(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		params := send("slow 1")
		ids := make([]string, 10)
		var group sync.WaitGroup
		for i := range ids {
			group.Go(func() { ids[i] = n.sent(b, params, as("/alice")).ID })
		}
		group.Wait()
		ids = append(ids, n.sent(b, params, as("/alice")).ID)
		if len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Errorf("tasks: %v", ids)
		}
		if got := n.fixture.runs.Load(); got != 1 {
			t.Errorf("%d runs", got)
		}
		other := object{"message": message("echo other", object{"messageId": params["message"].(object)["messageId"]})}
		a := n.call(b, "SendMessage", other, as("/alice"))
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("message.messageId") {
			t.Errorf("%s", a.Body)
		}
		if bob := n.sent(b, other, as("/bob")); bob.ID == ids[0] {
			t.Error("bob got alice's task")
		}
		// Anonymous callers share an owner; their ids are not taken for the same.
		if first, second := n.sent(b, send("echo x", object{"messageId": "same"})), n.sent(b, send("echo x", object{"messageId": "same"})); first.ID == second.ID {
			t.Error("anonymous messages were taken for the same")
		}
	})
}

func TestRow47_UnknownTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		n.call(b, "SendMessage", send("echo x", object{"taskId": "nope"})).isError(t, a2a.CodeTaskNotFound)
		_, refused := n.open(b, "SendStreamingMessage", send("echo x", object{"taskId": "nope"}))
		refused.isError(t, a2a.CodeTaskNotFound)
		if got := n.list(b, object{}); got.TotalSize != 0 {
			t.Errorf("%d tasks", got.TotalSize)
		}
	})
}

func TestRow48_ContextOfATask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("ask", object{"contextId": "c-1"}))
		a := n.call(b, "SendMessage", send("x", object{"taskId": task.ID, "contextId": "c-2"}))
		a.isError(t, a2a.CodeInvalidParams)
		if !a.field("message.contextId") {
			t.Errorf("%s", a.Body)
		}
		if diff := cmp.Diff(task, n.task(b, task.ID)); diff != "" {
			t.Errorf("the task changed: %s", diff)
		}
		if got := n.sent(b, send("x", object{"taskId": task.ID})).ContextID; got != "c-1" {
			t.Errorf("inferred context %q", got)
		}
	})
}

func TestRow49_MessageToAFinishedTask(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		task := n.sent(b, send("echo x"))
		n.call(b, "SendMessage", send("x", object{"taskId": task.ID})).isError(t, a2a.CodeUnsupportedOperation)
		_, refused := n.open(b, "SendStreamingMessage", send("x", object{"taskId": task.ID}))
		refused.isError(t, a2a.CodeUnsupportedOperation)
		if diff := cmp.Diff(task, n.task(b, task.ID)); diff != "" {
			t.Errorf("the task changed: %s", diff)
		}
	})
}

func TestRow54_HistoryLength(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		// user, agent, user, agent, user: five messages.
		id := n.sent(b, send("ask")).ID
		n.sent(b, send("ask", object{"taskId": id}))
		n.sent(b, send("go", object{"taskId": id}))
		count := func(raw json.RawMessage) (int, bool) {
			var task a2a.Task
			if err := a2a.Unmarshal(raw, &task); err != nil {
				t.Fatal(err)
			}
			return len(task.History), strings.Contains(string(raw), `"history"`)
		}
		whole := n.task(b, id).History
		for _, c := range []struct {
			asked any
			want  int
		}{{nil, 5}, {0, 0}, {2, 2}, {99, 5}} {
			params := object{"id": id}
			list := object{}
			if c.asked != nil {
				params["historyLength"], list["historyLength"] = c.asked, c.asked
			}
			raw := n.ok(b, "GetTask", params)
			got, key := count(raw)
			if got != c.want || key != (c.want > 0) {
				t.Errorf("get %v: %d messages, key %v", c.asked, got, key)
			}
			if c.want == 2 {
				var task a2a.Task
				_ = a2a.Unmarshal(raw, &task)
				if diff := cmp.Diff(whole[3:], task.History); diff != "" {
					t.Errorf("not the last two: %s", diff)
				}
			}
			if got := len(n.list(b, list).Tasks[0].History); got != c.want {
				t.Errorf("list %v: %d messages", c.asked, got)
			}
		}
		for _, op := range []string{"GetTask", "ListTasks"} {
			a := n.call(b, op, object{"id": id, "historyLength": -1})
			a.isError(t, a2a.CodeInvalidParams)
			if !a.field("historyLength") {
				t.Errorf("%s: %s", op, a.Body)
			}
		}
		for _, op := range []string{"SendMessage", "SendStreamingMessage"} {
			params := send("echo x")
			params["configuration"] = object{"historyLength": -1}
			a := n.call(b, op, params)
			a.isError(t, a2a.CodeInvalidParams)
			if !a.field("configuration.historyLength") {
				t.Errorf("%s: %s", op, a.Body)
			}
			params = send("echo x")
			params["configuration"] = object{"historyLength": 0}
			if a := n.call(b, op, params); strings.Contains(string(a.Body), `"history"`) {
				t.Errorf("%s with no history: %s", op, a.Body)
			}
		}
	})
}

func TestRow55_LongConversationsStayCheap(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	id := n.sent(rpc, send("ask")).ID
	for range 300 {
		params := send("ask", object{"taskId": id})
		params["configuration"] = object{"historyLength": 1}
		if raw := n.ok(rpc, "SendMessage", params); len(raw) > 10<<10 {
			t.Fatalf("an answer of %d bytes", len(raw))
		}
	}
	if got := n.task(rpc, id); len(got.History) != 100 {
		t.Errorf("%d messages by default", len(got.History))
	}
}

func TestRow56AndS23_NothingCrosses(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		var group sync.WaitGroup
		for i := range 50 {
			who := []string{"acme/alice", "globex/bob"}[i%2]
			group.Go(func() {
				nonce, contextID := fmt.Sprintf("nonce-%d-", i), fmt.Sprintf("ctx-%d-", i)
				for range 4 {
					s := n.stream(b, "SendStreamingMessage", send("echo "+nonce, object{"contextId": contextID}), as(who))
					id := ""
					for _, e := range s.rest() {
						text := string(e.Data)
						if e.Task != nil {
							id = e.Task.ID
						}
						if strings.Count(text, contextID) == 0 || !strings.Contains(text, id) || strings.Count(text, "nonce-") != strings.Count(text, nonce) {
							t.Errorf("context %s got %s", contextID, text)
						}
					}
				}
			})
		}
		group.Wait()
	})
}

func TestRow57_IdsOfTheAgentsMessages(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		for _, given := range []string{"c-1", ""} {
			more := object{}
			if given != "" {
				more["contextId"] = given
			}
			var r a2a.SendMessageResponse
			_ = a2a.Unmarshal(n.ok(b, "SendMessage", send("message hi", more)), &r)
			m := r.Message
			if m == nil || m.Role != a2a.RoleAgent || m.TaskID != "" || m.ContextID == "" || given != "" && m.ContextID != given || m.MessageID == "" {
				t.Errorf("context %q: %+v", given, m)
			}
		}
		task := n.sent(b, send("ask"))
		if m := task.Status.Message; m.TaskID != task.ID || m.ContextID != task.ContextID || m.Role != a2a.RoleAgent {
			t.Errorf("question: %+v", m)
		}
	})
}

func TestRow58_TasksSurviveACrash(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{})
		completed := n.sent(b, send("echo x"))
		parked := n.sent(b, send("ask"))
		working := n.sent(b, now(send("never")))
		n.restart()
		for _, task := range []*a2a.Task{completed, parked} {
			if diff := cmp.Diff(task, n.task(b, task.ID)); diff != "" {
				t.Errorf("after the restart: %s", diff)
			}
		}
		n.task(b, working.ID)
		if got := n.sent(b, send("go", object{"taskId": parked.ID})).Status.State; got != a2a.StateCompleted {
			t.Errorf("follow-up: %v", got)
		}
	})
}

func TestRow64_Shutdown(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{second: 500 * time.Millisecond})
		const count = 20
		ids := make([]string, count)
		var group sync.WaitGroup
		for i := range ids {
			group.Go(func() { ids[i] = n.sent(b, now(send("slow 3"))).ID })
		}
		group.Wait()
		s := n.stream(b, "SubscribeToTask", object{"id": ids[0]})
		s.must()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			n.engine.Drain(context.Background())
		}()
		events := s.rest()
		if b == overGRPC {
			if last := events[len(events)-1]; last.Error == nil || last.Error.Code != a2a.CodeUnavailable || last.Error.RetryAfter != time.Second {
				t.Errorf("the stream ended with %s %v", last.Raw, last.Error)
			}
		} else if !slices.Contains(s.comments, "retry: 1000") {
			t.Errorf("no hint to reconnect: %q", s.comments)
		}
		a := n.call(b, "SendMessage", send("echo x"))
		a.isError(t, a2a.CodeUnavailable)
		if a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		_, refused := n.open(b, "SubscribeToTask", object{"id": ids[0]})
		refused.isError(t, a2a.CodeUnavailable)
		<-drained
		n.restart()
		for _, id := range ids {
			n.until(id, a2a.StateCompleted)
		}
		if got := n.fixture.effects.Load(); got != count {
			t.Errorf("%d effects", got)
		}
	})
}

func TestRow65_Retention(t *testing.T) {
	onEach(t, func(t *testing.T, b binding) {
		n := newNode(t, setting{spec: func(s *engine.Spec) { s.Retention = 50 * time.Millisecond }})
		id := n.sent(b, send("echo x")).ID
		eventually(t, "the task has expired", func() bool {
			if _, err := n.store.Expire(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			return n.list(b, object{}).TotalSize == 0
		})
		n.call(b, "GetTask", object{"id": id}).isError(t, a2a.CodeTaskNotFound)
	})
}

func TestTenantsAreRoutes(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{agent: func(a *wire.Agent) { a.Tenants = []string{"acme", "globex"} }})
	at := func(tenant string) func(*http.Request) { return tenantPath(n, tenant) }
	for _, b := range []binding{rpc, rest} {
		acme := n.sent(b, send("ask"), as("acme/alice"), at("acme"))
		n.ok(b, "GetTask", object{"id": acme.ID}, as("acme/alice"))
		n.ok(b, "GetTask", object{"id": acme.ID}, as("acme/alice"), at("acme"))
		n.call(b, "GetTask", object{"id": acme.ID}, as("acme/alice"), at("globex")).isError(t, a2a.CodeTaskNotFound)
		n.call(b, "GetTask", object{"id": acme.ID}, as("globex/alice"), at("acme")).isError(t, a2a.CodeTaskNotFound)
		n.call(b, "GetTask", object{"id": acme.ID}, as("globex/alice")).isError(t, a2a.CodeTaskNotFound)
		n.call(b, "GetTask", object{"id": acme.ID}, as("acme/bob")).isError(t, a2a.CodeTaskNotFound)
		n.call(b, "GetTask", object{"id": acme.ID}, as("other/alice")).isError(t, a2a.CodeTaskNotFound)
		params := send("echo x")
		params["tenant"] = "nope"
		n.call(b, "SendMessage", params, as("acme/alice")).isError(t, a2a.CodeTaskNotFound)
		params["tenant"] = "globex"
		n.call(b, "SendMessage", params, as("acme/alice"), at("acme")).isError(t, a2a.CodeInvalidParams)
		params["tenant"] = "acme"
		n.sent(b, params, as("acme/alice"), at("acme"))
	}
}
