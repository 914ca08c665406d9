package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

func codeOf(err error) int {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e.Code
	}
	return 0
}

// TSK-07, TSK-08: what a call has come to is what the server has sent, byte by
// byte.
func TestTSK07_ResultsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	for _, c := range []struct{ tool, status, result, failure string }{
		{"plain", mcp.TaskCompleted, document, ""},
		{"task", mcp.TaskCompleted, document, ""},
		{"bad", mcp.TaskCompleted, `{"resultType":"complete","content":[{"type":"text","text":"credit too low"}],"isError":true}`, ""},
		{"error", mcp.TaskFailed, "", `{"code":-32050,"message":"no such order"}`},
	} {
		started := b.start1(b.call(c.tool, `{"sku":"A"}`))
		if len(started.ID) < 27 {
			t.Errorf("TSK-18: the handle %q can be guessed", started.ID)
		}
		got := b.await(started.ID)
		if got.Status != c.status || string(got.Result) != c.result || string(got.Error) != c.failure {
			t.Errorf("%s: got %s", c.tool, got.AppendJSON(nil, "complete"))
		}
		if got.TTL != time.Hour || got.Poll != 20*time.Millisecond || got.Created.IsZero() {
			t.Errorf("%s: got %+v", c.tool, got)
		}
		if n := b.work.count(c.tool); n != 1 {
			t.Errorf("%s was called %d times", c.tool, n)
		}
	}
}

// S1, TSK-18: a task of somebody else is a task that does not exist.
func TestS1_ForeignTasksDoNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	id := b.start1(b.call("ask", `{}`)).ID
	b.await(id)
	operations := map[string]func(handle string) error{
		"get":    func(h string) error { _, err := b.calls.Get(t.Context(), bob, h); return err },
		"await":  func(h string) error { _, err := b.calls.Await(t.Context(), bob, h); return err },
		"watch":  func(h string) error { _, err := b.calls.Watch(t.Context(), bob, h); return err },
		"cancel": func(h string) error { return b.calls.Cancel(t.Context(), bob, h) },
		"update": func(h string) error {
			return b.calls.Update(t.Context(), bob, h, jsontext.Value(`{"who":{"action":"accept","content":{"name":"x"}}}`))
		},
	}
	before, err := b.calls.Get(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range operations {
		foreign, unknown := f(id), f("n"+strings.Repeat("A", 26))
		if codeOf(foreign) != mcp.CodeInvalidParams || foreign.Error() != unknown.Error() {
			t.Errorf("%s: %v and %v", name, foreign, unknown)
		}
	}
	after, err := b.calls.Get(t.Context(), alice, id)
	if err != nil || string(after.AppendJSON(nil, "")) != string(before.AppendJSON(nil, "")) {
		t.Errorf("the task has changed: %v", err)
	}
}

// TSK-09, TSK-10, MRT-02: answers may come one by one, unknown keys are ignored,
// and no key is used twice.
func TestTSK09_AnswersComeInParts(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	id := b.start1(b.call("ask", `{}`)).ID
	keys := func() string {
		got := b.await(id)
		if got.Status != mcp.TaskInputRequired {
			t.Fatalf("got %s", got.AppendJSON(nil, "complete"))
		}
		var names []string
		for _, k := range []string{"who", "when", "who-2"} {
			if strings.Contains(string(got.InputRequests), `"`+k+`":`) {
				names = append(names, k)
			}
		}
		return strings.Join(names, " ")
	}
	answer := func(key string) {
		t.Helper()
		if err := b.calls.Update(t.Context(), alice, id, jsontext.Value(`{"`+key+`":{"action":"accept","content":{"name":"`+key+`"}},"nobody":{}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := keys(); got != "who when" {
		t.Errorf("first: %s", got)
	}
	answer("nobody-else")
	answer("when")
	if got := keys(); got != "who" {
		t.Errorf("at once after one answer: %s", got)
	}
	if got, err := b.calls.Get(t.Context(), alice, id); err != nil || got.Status != mcp.TaskInputRequired {
		t.Errorf("a partial answer made it go on: %+v, %v", got, err)
	}
	answer("when") // again
	b.crash()
	b.eventually("what was answered is not asked again after a crash", func() bool { return keys() == "who" })
	answer("who")
	b.eventually("the next question has a key of its own", func() bool { return keys() == "who-2" })
	answer("who")
	answer("who-2")
	b.eventually("it is over", func() bool { return b.await(id).Status == mcp.TaskCompleted })
	got := b.await(id)
	if want := `"structuredContent":{"who":{"action":"accept","content":{"name":"who-2"}}}`; !strings.Contains(string(got.Result), want) {
		t.Errorf("the server was told %s", got.Result)
	}
	if n := b.work.count("ask"); n != 3 {
		t.Errorf("called %d times", n)
	}
}

// TSK-21: the task of a server is followed, answered and canceled there.
func TestTSK21_TasksOfServers(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	id := b.start1(b.call("task-ask", `{}`)).ID
	if got := b.await(id); got.Status != mcp.TaskInputRequired {
		t.Fatalf("got %s", got.AppendJSON(nil, "complete"))
	}
	if err := b.calls.Update(t.Context(), alice, id, jsontext.Value(`{"who":{"action":"accept","content":{"name":"Ann"}}}`)); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is over", func() bool { return b.await(id).Status == mcp.TaskCompleted })
	if got := b.await(id); string(got.Result) != document {
		t.Errorf("got %s", got.Result)
	}
	// One that the server has made before it was kept.
	b.work.mu.Lock()
	b.work.asked["before"] = &serverTask{tool: "task-ask"}
	b.work.mu.Unlock()
	id = b.start1(b.call("task-ask", `{}`, func(c *bridge.Call) { c.UpstreamTask = "before" })).ID
	if got := b.await(id); got.Status != mcp.TaskInputRequired {
		t.Fatalf("got %s", got.AppendJSON(nil, "complete"))
	}
	if err := b.calls.Cancel(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	b.eventually("the server is told", func() bool {
		b.work.mu.Lock()
		defer b.work.mu.Unlock()
		return len(b.work.told) == 1 && b.work.told[0] == "before"
	})
	if got := b.await(id); got.Status != mcp.TaskCancelled {
		t.Errorf("got %s", got.AppendJSON(nil, "complete"))
	}
	if err := b.calls.Cancel(t.Context(), alice, id); err != nil {
		t.Errorf("TSK-11: canceling what is over: %v", err)
	}
	if n := b.work.count("task-ask"); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// ELI-06, GWY-04: a call that policy holds is made once a person has approved it,
// and not otherwise. What is secret in it is not shown.
func TestGWY04_CallsAreApproved(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	for _, yes := range []bool{true, false} {
		id := b.start1(b.call("plain", `{"total":60000000,"apiToken":"hush-hush"}`, approved("The total is above 50,000,000"))).ID
		var item store.InboxItem
		b.eventually("it is in the inbox", func() bool {
			page, err := b.store.InboxItems(t.Context(), store.ForAll(), store.InboxQuery{Task: id, PageSize: 10})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) == 1 {
				item = page.Items[0]
			}
			return len(page.Items) == 1
		})
		if item.Kind != store.InboxCall || !strings.Contains(item.Text, "60000000") || !strings.Contains(item.Text, "above 50,000,000") || strings.Contains(item.Text, "hush") {
			t.Errorf("got %+v", item)
		}
		if got, err := b.calls.Get(t.Context(), alice, id); err != nil || got.Status != mcp.TaskWorking || got.StatusMessage == "" {
			t.Errorf("got %+v, %v", got, err)
		}
		before := b.work.count("plain")
		_, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: item.Grant, Item: item.ID, Approved: yes, Note: "too much", By: "boss"})
		if err != nil {
			t.Fatal(err)
		}
		got, want := b.await(id), before
		if yes {
			want++
		}
		if n := b.work.count("plain"); n != want {
			t.Errorf("approved %t: called %d times more", yes, n-before)
		}
		if !yes && (got.Status != mcp.TaskFailed || !strings.Contains(string(got.Error), "4030") || !strings.Contains(string(got.Error), "too much")) {
			t.Errorf("got %s", got.AppendJSON(nil, "complete"))
		}
		if yes && string(got.Result) != document {
			t.Errorf("got %s", got.AppendJSON(nil, "complete"))
		}
	}
}

// GWY-03: a key belongs to one call; it gives what came of it.
func TestGWY03_IdempotencyKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	first := b.start1(b.call("plain", `{"a":1,"b":[2]}`, withKey("k")))
	again := b.start1(b.call("plain", `{"b":[2], "a":1.0}`, withKey("k")))
	if first.ID != again.ID || string(b.await(again.ID).Result) != document || b.work.count("plain") != 1 {
		t.Errorf("%s and %s, called %d times", first.ID, again.ID, b.work.count("plain"))
	}
	if _, err := b.calls.Start(t.Context(), b.call("plain", `{"a":2}`, withKey("k"))); codeOf(err) != mcp.CodeIdempotencyConflict {
		t.Errorf("other arguments: %v", err)
	}
	other := b.call("plain", `{"a":2}`, withKey("k"))
	other.Tool = "bad"
	if _, err := b.calls.Start(t.Context(), other); err != nil {
		t.Errorf("another tool: %v", err)
	}
	// What has failed is not what the key stands for.
	failed := b.start1(b.call("error", `{}`, withKey("k")))
	b.await(failed.ID)
	retried := b.start1(b.call("error", `{}`, withKey("k")))
	if retried.ID == failed.ID || b.await(retried.ID).Status != mcp.TaskFailed {
		t.Errorf("%s again", retried.ID)
	}
	if _, err := b.calls.Start(t.Context(), b.call("error", `{"a":1}`, withKey("k"))); codeOf(err) != mcp.CodeIdempotencyConflict {
		t.Errorf("other arguments after a failure: %v", err)
	}
}

// TSK-17: whoever watches a task hears of its changes, and of the last one.
func TestTSK17_Watch(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	id := b.start1(b.call("held", `{}`)).ID
	<-b.work.began
	changes, err := b.calls.Watch(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	close(b.work.gate)
	var last *mcp.Task
	timeout := time.After(patience)
	for open := true; open; {
		select {
		case task, ok := <-changes:
			if open = ok; ok {
				last = task
			}
		case <-timeout:
			t.Fatal("it does not end")
		}
	}
	if last == nil || last.Status != mcp.TaskCompleted || string(last.Result) != document {
		t.Errorf("got %+v", last)
	}
}

// story is a call from its beginning to its end, which goes on from wherever a
// process that died has left it.
type story struct {
	name   string
	call   func(*bench) *bridge.Call
	answer string // key that is answered
	once   bool   // the tool must not be called twice
}

var stories = []story{
	{name: "plain", call: func(b *bench) *bridge.Call { return b.call("plain", `{}`) }, once: true},
	{name: "idempotent", call: func(b *bench) *bridge.Call { return b.call("plain", `{}`, idempotent) }},
	{name: "key", call: func(b *bench) *bridge.Call { return b.call("plain", `{}`, withKey("k")) }, once: true},
	{name: "approval", call: func(b *bench) *bridge.Call { return b.call("plain", `{}`, approved("because")) }, once: true},
	{name: "task", call: func(b *bench) *bridge.Call { return b.call("task", `{}`) }, once: true},
	{name: "task that asks", call: func(b *bench) *bridge.Call { return b.call("task-ask", `{}`) }, once: true, answer: "who"},
}

// TSK-05, TSK-21: the process dies at every commit, before and after it is made. A
// handle that was given finds its task, which ends; a call that must not be made
// twice is not, and a result that is told is the server's.
func TestTSK21_DeathAtEveryCommit(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for _, s := range stories {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, after=%t", s.name, after), func(t *testing.T) {
					t.Parallel()
					for n := int64(1); ; n++ {
						if died := s.run(t, newBench(t, open(t)), n, after); !died || t.Failed() {
							if n < 3 {
								t.Errorf("there were only %d commits", n-1)
							}
							return
						}
					}
				})
			}
		}
	})
}

func (s *story) run(t *testing.T, b *bench, n int64, after bool) (died bool) {
	t.Helper()
	b.dying.DieAt(n, after)
	call := s.call(b)
	started, err := b.calls.Start(t.Context(), call)
	if err != nil && !b.dying.Died() {
		t.Fatalf("commit %d: start: %v", n, err)
	}
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		if !died && b.dying.Died() {
			died = true
			b.crash()
			if err != nil {
				if call.Key == "" {
					return died // nobody has a handle
				}
			}
		}
		if died && started == nil {
			started, err = b.calls.Start(t.Context(), call)
			if err != nil && codeOf(err) != mcp.CodeUnavailable { // whoever had begun may still be alive
				t.Fatalf("commit %d: start again: %v", n, err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("commit %d: it does not end", n)
		}
		if started == nil {
			continue
		}
		got, gerr := b.calls.Get(t.Context(), alice, started.ID)
		if gerr != nil {
			if !b.dying.Died() {
				t.Fatalf("commit %d: TSK-05: the handle finds nothing: %v", n, gerr)
			}
			continue
		}
		if !died && b.dying.Died() {
			continue
		}
		switch got.Status {
		case mcp.TaskInputRequired:
			_ = b.calls.Update(t.Context(), alice, started.ID, jsontext.Value(`{"`+s.answer+`":{"action":"accept","content":{"name":"x"}}}`))
			continue
		case mcp.TaskWorking:
			if grants, err := b.engine.Grants(t.Context(), store.ForAll(), 10); err == nil && len(grants) == 1 {
				_, _ = b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: true, By: "boss"})
			}
			continue
		case mcp.TaskCompleted:
			if string(got.Result) != document {
				t.Errorf("commit %d: got %s", n, got.Result)
			}
		case mcp.TaskFailed:
			if !died || call.Idempotent || !strings.Contains(string(got.Error), `"code":5041`) {
				t.Errorf("commit %d: got %s", n, got.AppendJSON(nil, "complete"))
			}
		default:
			t.Errorf("commit %d: got %s", n, got.AppendJSON(nil, "complete"))
		}
		if called := b.work.count(call.Tool); s.once && called > 1 || got.Status == mcp.TaskCompleted && called < 1 {
			t.Errorf("commit %d: called %d times", n, called)
		}
		return died
	}
}

// A node that stops waits for the answer to a call that must not be made twice, and
// the next one has it.
func TestAStopLosesNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	id := b.start1(b.call("held", `{}`)).ID
	<-b.work.began
	stopped := make(chan error, 1)
	old := b.node
	old.jobs.Stop()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- old.engine.Stop(ctx)
	}()
	b.eventually("it stops", old.engine.Draining)
	close(b.work.gate)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if err := old.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() { b.close(old) })
	if got := b.await(id); string(got.Result) != document || b.work.count("held") != 1 {
		t.Errorf("called %d times: %s", b.work.count("held"), got.AppendJSON(nil, "complete"))
	}
}

// A server that never takes a call has not done it, and one that may have is not
// asked again.
func TestCallsOfServersThatAreAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	for server, want := range map[string]int{"nobody": mcp.CodeUnavailable, "unsure": mcp.CodeOutcomeUnknown} {
		got := b.await(b.start1(b.call("plain", `{}`, func(c *bridge.Call) { c.Server = server })).ID)
		if got.Status != mcp.TaskFailed || mcp.ParseError(got.Error).Code != want {
			t.Errorf("%s: got %s", server, got.AppendJSON(nil, "complete"))
		}
	}
	if n := b.unsure.Load(); n != 1 {
		t.Errorf("a call whose outcome is unknown was made %d times", n)
	}
	got := b.await(b.start1(b.call("plain", `{}`, idempotent, func(c *bridge.Call) { c.Server = "unsure" })).ID)
	if n := b.unsure.Load(); n < 3 || got.Status != mcp.TaskCompleted {
		t.Errorf("an idempotent call was made %d times: %s", n-1, got.AppendJSON(nil, "complete"))
	}
}

// What a task asks of a client that cannot be asked does not keep whoever waits for
// it busy, and people can answer several questions at once.
func TestAwaitOfWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), with("quote", quote))
	asked := b.tool("quote.work", `{"message":"400 bolts"}`, knowsNothing)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := b.calls.Await(ctx, alice, asked.handle())
	if err != nil || got.Status != mcp.TaskWorking || ctx.Err() == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	id := b.start1(b.call("ask", `{}`)).ID
	b.await(id)
	answered := b.tool("answer_task", `{"taskId":"`+id+`","answer":{"who":{"name":"Ann"},"when":{"name":"now"}}}`, knowsNothing)
	if !strings.Contains(answered.texts(), "Who else?") {
		t.Errorf("got %s", answered.Body)
	}
}

// TSK-09: answers that come at the same time are none of them lost.
func TestTSK09_AnswersAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t))
	for range 10 {
		id := b.start1(b.call("ask", `{}`)).ID
		b.await(id)
		var both sync.WaitGroup
		for _, key := range []string{"who", "when"} {
			both.Go(func() {
				if err := b.calls.Update(t.Context(), alice, id, jsontext.Value(`{"`+key+`":{"action":"accept","content":{"name":"x"}}}`)); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		b.eventually("it asks the next thing", func() bool {
			got := b.await(id)
			return strings.Contains(string(got.InputRequests), `"who-2"`)
		})
	}
}
