package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// chained delegates what follows the first word of its message to the agent of
// that name, and passes on what comes of it. The words ask, auth, fail, wait and
// sleep are for itself.
func chained(id string) *engine.Spec {
	return &engine.Spec{ID: id, OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if o := t.Outcome; o != nil {
			if !o.Completed() {
				return t.Fail(id + " gave up: " + o.Text())
			}
			return t.Artifact(a2a.Text(id + "(" + o.Text() + ")"))
		}
		if t.Grant != nil {
			return t.Artifact(a2a.Text(fmt.Sprintf("%s %v %s", id, t.Grant.Approved, t.Grant.Note)))
		}
		word, rest, _ := strings.Cut(t.Text(), " ")
		switch {
		case t.Number > 1:
			return t.Artifact(a2a.Text(id + " answered " + t.Text()))
		case word == "ask":
			return t.Ask("Which Incoterm?", a2a.JSON(`{"enum":["FCA","DAP"]}`))
		case word == "auth":
			return t.Authorize("May I order?", "order")
		case word == "fail":
			return t.Fail("credit too low")
		case word == "message":
			return t.Message(a2a.Text("a mere message"))
		case word == "refuse":
			return a2a.Errorf(a2a.CodeInvalidParams, "no such article")
		case word == "sleep":
			<-ctx.Done()
			return context.Cause(ctx)
		case rest == "":
			return t.Artifact(a2a.Text(id + " did " + word))
		}
		return t.Delegate(word, a2a.Text(rest))
	})}
}

func chain() (specs []*engine.Spec) {
	for _, id := range []string{"a", "b", "c", "d"} {
		specs = append(specs, chained(id))
	}
	return specs
}

// until follows a task until its status is one of those states, and returns it.
func (b *bench) until(id string, states ...a2a.TaskState) *a2a.Task {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	log, err := b.engine.OpenLog(ctx, store.ForAll(), id, 0, true)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	for {
		task := b.get(id)
		for _, s := range states {
			if task.Status.State == s {
				return task
			}
		}
		if _, err := log.Next(ctx); err != nil {
			b.t.Fatalf("%s: %v", task.AppendJSON(nil), err)
		}
	}
}

func textOf(t *a2a.Task) string {
	var texts []string
	for i := range t.Artifacts {
		texts = append(texts, t.Artifacts[i].Parts[0].Text)
	}
	if len(texts) == 0 && t.Status.Message != nil {
		return t.Status.Message.Text()
	}
	return strings.Join(texts, " ")
}

// below returns the delegations below a task, the nearest first.
func (b *bench) below(root string) []store.Delegation {
	b.t.Helper()
	page, err := b.store.Delegations(b.t.Context(), store.ForAll(), store.DelegationQuery{Root: root, PageSize: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	found := page.Items
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}

func (b *bench) inbox(q store.InboxQuery) []store.InboxItem {
	b.t.Helper()
	q.PageSize = 100
	page, err := b.store.InboxItems(b.t.Context(), store.ForAll(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Items
}

func TestDelegate(t *testing.T) {
	t.Parallel()
	specs := chain()
	b := newBench(t, specs...)
	for text, want := range map[string]string{
		"b work":       "a(b did work)",
		"b c work":     "a(b(c did work))",
		"b c d work":   "a(b(c(d did work)))",
		"b message hi": "a(a mere message)",
	} {
		got := b.send(request(specs[0], text))
		if got.Status.State != a2a.StateCompleted || textOf(got) != want {
			t.Errorf("%q: %s, want %s", text, got.AppendJSON(nil), want)
		}
		children := b.below(got.ID)
		if len(children) != strings.Count(text, " ")-strings.Count(text, "message") {
			t.Errorf("%q: %d children", text, len(children))
		}
		parent := got.ID
		for i, d := range children {
			task := b.get(d.Task)
			if d.Parent != parent || d.Depth != i+1 || d.Root != got.ID || d.Owner != "alice" || d.Turn != 1 || d.Asked != "agent "+specs[i].ID || d.Deadline.IsZero() || d.Peer != "" {
				t.Errorf("%q: child %d is %+v", text, i, d)
			}
			if task.ContextID != got.ContextID {
				t.Errorf("%q: child %d has another context", text, i)
			}
			parent = d.Task
		}
	}
}

// Row 129: the error of a delegated task comes to the one above with its text, and
// does not take it down.
func TestRow129_AFailureBelowIsAnOutcome(t *testing.T) {
	t.Parallel()
	specs := chain()
	var survived atomic.Int32
	host := &engine.Spec{ID: "host", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Number == 1 {
			to, text, _ := strings.Cut(turn.Text(), " ")
			return turn.Delegate(to, a2a.Text(text))
		}
		if turn.Cause != agent.CauseOutcome || turn.Outcome.State != a2a.StateFailed {
			return agent.Errorf("cause %s, outcome %+v", turn.Cause, turn.Outcome)
		}
		survived.Add(1)
		return turn.Artifact(a2a.Text("told: " + turn.Outcome.Text()))
	})}
	b := newBench(t, append(specs, host)...)
	for text, want := range map[string]string{
		"b fail":        "told: credit too low",
		"b refuse":      "told: no such article",
		"nobody work":   `told: There is no peer and no agent "nobody"`,
		"b c fail":      "told: b gave up: credit too low",
		"b nobody work": `told: b gave up: There is no peer and no agent "nobody"`,
	} {
		got := b.send(request(host, text))
		if got.Status.State != a2a.StateCompleted || textOf(got) != want {
			t.Errorf("%q: %s, want %q", text, got.AppendJSON(nil), want)
		}
	}
	if survived.Load() != 5 {
		t.Errorf("%d survived", survived.Load())
	}
}

// Row 141 and S24: loops are refused with a clear error, and what is below one task
// is bounded in depth and number.
func TestRow141_S24_LoopsAndBudgets(t *testing.T) {
	t.Parallel()
	specs := chain()
	many := &engine.Spec{ID: "many", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Outcome != nil && !turn.Outcome.Completed() {
			return turn.Fail(turn.Outcome.Text())
		}
		return turn.Delegate("b", a2a.Text("work"))
	})}
	b := newBench(t, append(specs, many)...)
	b.bounds = engine.DelegationLimits{Depth: 2, Tasks: 5}
	for text, want := range map[string]string{
		"b a work":   "a gave up: b gave up: The agent a is already at work on this above, so that this would be a loop",
		"a work":     "a gave up: The agent a is already at work on this above, so that this would be a loop",
		"b c d work": "a gave up: b gave up: c gave up: The task would be 3 hops from the task that it is for; at most 2 are allowed",
	} {
		got := b.send(request(specs[0], text))
		if got.Status.State != a2a.StateFailed || textOf(got) != want {
			t.Errorf("%q: %s, want %q", text, got.AppendJSON(nil), want)
		}
	}
	got := b.send(request(many, "go"))
	if n := len(b.below(got.ID)); n != 5 || got.Status.State != a2a.StateFailed || !strings.Contains(textOf(got), "There are 5 tasks below the task "+got.ID) {
		t.Errorf("%d tasks below %s", n, got.AppendJSON(nil))
	}
	b.bounds = engine.DelegationLimits{Time: time.Nanosecond}
	if got := b.send(request(specs[0], "b work")); !strings.Contains(textOf(got), "has passed already") {
		t.Errorf("out of time: %s", got.AppendJSON(nil))
	}
}

// A question goes up any number of hops, and its answer comes down.
func TestQuestionsGoUpAndAnswersDown(t *testing.T) {
	t.Parallel()
	specs := chain()
	b := newBench(t, specs...)
	asked := b.send(request(specs[0], "b c d ask"))
	if asked.Status.State != a2a.StateInputRequired || asked.Status.Message.Text() != "Which Incoterm?" {
		t.Fatalf("%s", asked.AppendJSON(nil))
	}
	if m := asked.Status.Message; m.Parts[1].MediaType != agent.SchemaMediaType || m.TaskID != asked.ID ||
		!strings.Contains(string(m.Metadata), `"delegation":"`+b.below(asked.ID)[0].Task+`"`) {
		t.Errorf("question %s", m.AppendJSON(nil))
	}
	items := b.inbox(store.InboxQuery{})
	if len(items) != 1 || items[0].Task != asked.ID || items[0].Kind != store.InboxQuestion || items[0].Text != "Which Incoterm?" ||
		string(items[0].Schema) != `{"enum":["FCA","DAP"]}` || items[0].Agent != "d" || items[0].Due.IsZero() {
		t.Fatalf("items %+v", items)
	}
	answer := func(text string) (*a2a.SendMessageResponse, error) {
		return b.engine.Send(t.Context(), request(specs[0], text, onTask(asked.ID), func(q *engine.Request) { q.Item = items[0].ID }))
	}
	done, err := answer("FCA")
	if err != nil || textOf(done.Task) != "a(b(c(d answered FCA)))" || done.Task.Status.State != a2a.StateCompleted {
		t.Errorf("%+v, %v", done, err)
	}
	settled := b.inbox(store.InboxQuery{Settled: true})
	if len(settled) != 1 || settled[0].By != "alice" || settled[0].Decision != "answered" || settled[0].Words != "FCA" {
		t.Errorf("settled %+v", settled)
	}
	if _, err := answer("DAP"); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation || !strings.Contains(err.Error(), "COMPLETED") {
		t.Errorf("a second answer: %v", err)
	}
	for _, d := range b.below(asked.ID) {
		n := 0
		for _, m := range b.get(d.Task).History {
			if m.Role == a2a.RoleUser {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s got %d messages", d.Agent, n)
		}
	}
}

// The first answer to an item wins; later ones are told whose it was.
func TestTheFirstAnswerWins(t *testing.T) {
	t.Parallel()
	spec := &engine.Spec{ID: "twice", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Number < 3 {
			return turn.Ask(fmt.Sprintf("Question %d?", turn.Number), nil)
		}
		return nil
	})}
	b := newBench(t, spec)
	asked := b.send(request(spec, "x"))
	item := b.inbox(store.InboxQuery{})[0]
	var won atomic.Int32
	done := make(chan error)
	for i := range 8 {
		go func() {
			_, err := b.engine.Send(t.Context(), request(spec, "answer", onTask(asked.ID), atOnce, func(q *engine.Request) {
				q.Item, q.By = item.ID, fmt.Sprintf("person %d", i)
			}))
			if err == nil {
				won.Add(1)
			} else if a2a.CodeOf(err) != a2a.CodeUnsupportedOperation || !strings.Contains(err.Error(), "by person") {
				t.Errorf("a loser is told %v", err)
			}
			done <- err
		}()
	}
	for range 8 {
		<-done
	}
	if won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
	b.until(asked.ID, a2a.StateInputRequired)
	if open := b.inbox(store.InboxQuery{}); len(open) != 1 || open[0].Text != "Question 2?" {
		t.Errorf("open %+v", open)
	}
}

// Whoever has decided finds nobody above asking still, also many hops up.
func TestADecisionIsHeardAtTheRoot(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	t.Cleanup(func() { close(proceed) })
	specs := append(chain(), &engine.Spec{ID: "payer", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Grant == nil {
			return turn.Authorize("May I?", "pay")
		}
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return nil
	})})
	b := newBench(t, specs...)
	for range 5 {
		asked := b.send(request(specs[0], "b c d payer go"))
		if asked.Status.State != a2a.StateAuthRequired {
			t.Fatalf("%s", asked.AppendJSON(nil))
		}
		item := b.inbox(store.InboxQuery{})[0]
		if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: item.Grant, Approved: true, By: "carol", Item: item.ID}); err != nil {
			t.Fatal(err)
		}
		if got := b.get(asked.ID); got.Status.State != a2a.StateWorking {
			t.Errorf("the root is %s", got.Status.State)
		}
		for _, d := range b.below(asked.ID) {
			if got := b.get(d.Task); got.Status.State != a2a.StateWorking {
				t.Errorf("%s is %s", d.Agent, got.Status.State)
			}
		}
	}
}

// An authorization is asked for at the root, and settles the request of the task
// that needs it.
func TestGrantsOfTasksBelow(t *testing.T) {
	t.Parallel()
	specs := chain()
	b := newBench(t, specs...)
	asked := b.send(request(specs[0], "b c auth"))
	if asked.Status.State != a2a.StateAuthRequired {
		t.Fatalf("%s", asked.AppendJSON(nil))
	}
	leaf := b.below(asked.ID)[1].Task
	request1, err := a2a.GrantRequestOf(asked.Status.Message.Metadata)
	if err != nil || request1 == nil || request1.Operation != "order" || request1.ID != leaf+"-1" {
		t.Errorf("request %+v, %v in %s", request1, err, asked.Status.Message.Metadata)
	}
	item := b.inbox(store.InboxQuery{})[0]
	if item.Kind != store.InboxGrant || item.Grant != leaf+"-1" || item.Op != "order" || item.Task != asked.ID {
		t.Errorf("item %+v", item)
	}
	decide := func() error {
		_, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: item.Grant, Approved: true, Note: "fine", By: "carol", Item: item.ID})
		return err
	}
	if err := decide(); err != nil {
		t.Fatal(err)
	}
	if done := b.until(asked.ID, a2a.StateCompleted); textOf(done) != "a(b(c true fine))" {
		t.Errorf("%s", done.AppendJSON(nil))
	}
	if s := b.inbox(store.InboxQuery{Settled: true}); len(s) != 1 || s[0].By != "carol" || s[0].Decision != "approved" || s[0].Words != "fine" {
		t.Errorf("settled %+v", s)
	}
	if err := decide(); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
		t.Errorf("a second decision: %v", err)
	}
	// Without naming the item.
	asked = b.send(request(specs[0], "b c auth"))
	grant := b.inbox(store.InboxQuery{})[0].Grant
	if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grant, By: "dave", Note: "no"}); err != nil {
		t.Fatal(err)
	}
	if done := b.until(asked.ID, a2a.StateCompleted); textOf(done) != "a(b(c false no))" {
		t.Errorf("%s", done.AppendJSON(nil))
	}
	if s := b.inbox(store.InboxQuery{Task: asked.ID, Settled: true}); len(s) != 1 || s[0].By != "dave" || s[0].Decision != "denied" {
		t.Errorf("settled %+v", s)
	}
}

// A caller decides by a message only where the configuration of every agent on the
// way says so.
func TestGrantsByCallers(t *testing.T) {
	t.Parallel()
	specs := chain()
	specs[0].CallerGrants, specs[1].CallerGrants = true, true
	b := newBench(t, specs...)
	approve := func(q *engine.Request) {
		q.Message.Metadata = a2a.WithMember(nil, a2a.GrantExtension, (&a2a.GrantDecision{Approved: true, Note: "by me"}).AppendJSON(nil))
	}
	for text, want := range map[string]string{"auth": "a true by me", "b auth": "a(b true by me)"} {
		asked := b.send(request(specs[0], text))
		if asked.Status.State != a2a.StateAuthRequired {
			t.Fatalf("%s", asked.AppendJSON(nil))
		}
		if got := b.send(request(specs[0], "go on", onTask(asked.ID), approve)); textOf(got) != want {
			t.Errorf("%q: %s", text, got.AppendJSON(nil))
		}
		if s := b.inbox(store.InboxQuery{Task: asked.ID, Settled: true}); len(s) != 1 || s[0].By != "alice" || s[0].Decision != "approved" || s[0].Words != "by me" {
			t.Errorf("settled %+v", s)
		}
	}
	asked := b.send(request(specs[0], "b c auth"))
	if _, err := b.engine.Send(t.Context(), request(specs[0], "go on", onTask(asked.ID), approve)); a2a.CodeOf(err) != a2a.CodePermissionDenied {
		t.Errorf("decided for an agent that does not take it: %v", err)
	}
	if got := b.get(asked.ID); got.Status.State != a2a.StateAuthRequired {
		t.Errorf("%s", got.AppendJSON(nil))
	}
	// A message without a decision authorizes nothing.
	if got := b.send(request(specs[0], "please", onTask(asked.ID))); textOf(got) != "a(b(c answered please))" {
		t.Errorf("%s", got.AppendJSON(nil))
	}
}

// Row 137 (c), here without a peer: the cancel of a task reaches what it waits
// for, and those below, in less than a second.
func TestRow137c_CancelGoesDown(t *testing.T) {
	t.Parallel()
	specs := chain()
	b := newBench(t, specs...)
	for _, text := range []string{"b c d sleep", "b c d ask"} {
		root := b.send(request(specs[0], text, atOnce))
		deep := func() bool { return len(b.below(root.ID)) == 3 }
		for !deep() { // until all of them are there
		}
		leaf := b.below(root.ID)[2].Task
		began := time.Now()
		if _, err := b.engine.Cancel(t.Context(), store.ForAll(), specs[0], root.ID, engine.ByCaller); err != nil {
			t.Fatal(err)
		}
		b.until(leaf, a2a.StateCanceled)
		if took := time.Since(began); took > time.Second {
			t.Errorf("%q: the cancel took %v", text, took)
		}
		for _, d := range b.below(root.ID) {
			if !b.get(d.Task).Status.State.Terminal() {
				t.Errorf("%q: %s is left open", text, d.Agent)
			}
		}
		if open := b.inbox(store.InboxQuery{}); len(open) != 0 {
			t.Errorf("%q: open items %+v", text, open)
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	specs := chain()
	hasty := &engine.Spec{ID: "hasty", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Outcome != nil {
			return turn.Artifact(a2a.Text(turn.Outcome.Text()))
		}
		return turn.Emit(agent.Step{Delegate: &agent.Delegate{To: "b", Content: *agent.Say("c sleep"), Within: 2 * time.Second}})
	})}
	b := newBench(t, append(specs, hasty)...)
	got := b.send(request(hasty, "x"))
	if !strings.Contains(textOf(got), "The deadline of the task, 20") || !strings.Contains(textOf(got), "has passed") {
		t.Errorf("%s", got.AppendJSON(nil))
	}
	children := b.below(got.ID)
	if len(children) != 2 || children[1].Deadline.After(children[0].Deadline) {
		t.Fatalf("the deadline grows on the way down: %+v", children)
	}
	b.until(children[1].Task, a2a.StateFailed, a2a.StateCanceled)
}

// Messages for a task that waits and works are given to the turn after.
func TestMessagesWhileATaskWaits(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	slow := &engine.Spec{ID: "slow", Run: agent.Func(func(context.Context, *agent.Turn) error {
		close(begun)
		<-end
		return nil
	})}
	host := &engine.Spec{ID: "host", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Number == 1 {
			return turn.Delegate("slow", a2a.Text("x"))
		}
		return turn.Artifact(a2a.Text(fmt.Sprintf("%s %d %s", turn.Cause, len(turn.Messages), turn.Text())))
	})}
	b := newBench(t, slow, host)
	task := b.send(request(host, "x", atOnce))
	<-begun
	b.send(request(host, "one", onTask(task.ID), atOnce))
	if got := b.send(request(host, "two", onTask(task.ID), atOnce)); got.Status.State != a2a.StateWorking {
		t.Errorf("%s", got.AppendJSON(nil))
	}
	close(end)
	if got := b.until(task.ID, a2a.StateCompleted); textOf(got) != "outcome 2 two" || got.Metadata != nil {
		t.Errorf("%s", got.AppendJSON(nil))
	}
}

func TestDelegationsSurviveACrash(t *testing.T) {
	t.Parallel()
	specs := chain()
	b := newBench(t, specs...)
	b.claim = 200 * time.Millisecond
	asked := b.send(request(specs[0], "b c d ask"))
	working := b.send(request(specs[0], "b c work", atOnce))
	b.crash()
	if done := b.send(request(specs[0], "DAP", onTask(asked.ID))); textOf(done) != "a(b(c(d answered DAP)))" {
		t.Errorf("%s", done.AppendJSON(nil))
	}
	if done := b.until(working.ID, a2a.StateCompleted); textOf(done) != "a(b(c did work))" || len(b.below(working.ID)) != 2 {
		t.Errorf("%s", done.AppendJSON(nil))
	}
}

func TestLineageOfMessages(t *testing.T) {
	t.Parallel()
	specs := chain()
	var path []string
	peer := &engine.Spec{
		ID: "peer:p", Peer: "p", Answers: engine.AnswersTask, OnInterrupt: engine.InterruptResume,
		Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			l, ok := engine.LedgerOf(ctx)
			if !ok {
				return agent.Errorf("no ledger")
			}
			path = l.Lineage().Path
			return turn.Artifact(a2a.Text(string(l.Lineage().AppendJSON(nil))))
		}),
	}
	b := newBench(t, append(specs, peer)...)
	got := b.send(request(specs[0], "b p work"))
	if got.Status.State != a2a.StateCompleted || len(path) != 2 || !strings.Contains(textOf(got), `"depth":2`) || !strings.Contains(textOf(got), `"root":"`+got.ID) {
		t.Fatalf("%v: %s", path, got.AppendJSON(nil))
	}
	with := func(l *a2a.Lineage) func(*engine.Request) {
		return func(q *engine.Request) {
			q.Message.Metadata = a2a.WithMember(nil, a2a.LineageExtension, l.AppendJSON(nil))
		}
	}
	for name, c := range map[string]struct {
		lineage a2a.Lineage
		reason  string
	}{
		"loop": {a2a.Lineage{Root: "r", Depth: 2, Path: path}, engine.ReasonLoop},
		"deep": {a2a.Lineage{Root: "r", Depth: 9}, engine.ReasonDepth},
	} {
		_, err := b.engine.Send(t.Context(), request(specs[0], "work", with(&c.lineage)))
		if e, ok := err.(*a2a.Error); !ok || e.Code != a2a.CodeUnsupportedOperation || e.Metadata["reason"] != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It goes on: the depth counts, and the deadline shrinks.
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	got = b.send(request(specs[2], "p work", with(&a2a.Lineage{Root: "their root", Depth: 3, Path: []string{"x"}, Deadline: soon})))
	out, err := a2a.LineageOf(a2a.WithMember(nil, a2a.LineageExtension, a2a.JSON(strings.TrimSuffix(strings.TrimPrefix(textOf(got), "c("), ")"))))
	if err != nil || out.Depth != 4 || out.Root != "their root" || len(out.Path) != 2 || !out.Deadline.Equal(soon) {
		t.Errorf("%+v, %v", out, err)
	}
	if d := b.below(got.ID)[0]; !d.Deadline.Equal(soon) {
		t.Errorf("the deadline is %v, want %v", d.Deadline, soon)
	}
	b.specs["a"].NoLineage = true
	if got := b.send(request(specs[0], "work", with(&a2a.Lineage{Root: "r", Depth: 9}))); got.Status.State != a2a.StateCompleted {
		t.Errorf("%s", got.AppendJSON(nil))
	}
}

// The row of a delegation is there before its agent runs, and kept with its
// changes.
func TestLedger(t *testing.T) {
	t.Parallel()
	looked := make(chan string, 10)
	proceed := make(chan struct{})
	peer := &engine.Spec{
		ID: "peer:p", Peer: "p", Answers: engine.AnswersTask, OnInterrupt: engine.InterruptResume,
		Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			l, _ := engine.LedgerOf(ctx)
			d, err := l.Delegation(ctx)
			if err != nil {
				return err
			}
			looked <- fmt.Sprintf("%s %d %s %s", turn.Cause, d.Number, d.RemoteTask, turn.Text())
			if turn.Number == 1 {
				d.Number, d.RemoteTask = 1, "remote"
				if err := l.Save(ctx, d, engine.With{Jobs: []store.Job{{Kind: engine.JobWake, Turn: -1, Due: time.Now()}}, Item: &store.InboxItem{Kind: store.InboxStuck, Text: "silent"}}); err != nil {
					return err
				}
				<-proceed
				select {
				case <-l.News():
				case <-ctx.Done():
				}
				return turn.Emit(agent.Step{Wait: &agent.Wait{Callback: true}})
			}
			if turn.Cause == agent.CauseCallback {
				return nil
			}
			return turn.Emit(agent.Step{Wait: &agent.Wait{Callback: true}})
		}),
	}
	b := newBench(t, peer)
	with := func(d engine.Delegating) func(*engine.Request) {
		return func(q *engine.Request) { q.Delegation = &d }
	}
	task := b.send(request(peer, "order", atOnce, with(engine.Delegating{Ref: "PO-1", Asked: "erp"})))
	if got := <-looked; got != "message 0  order" {
		t.Error(got)
	}
	_, err := b.engine.Send(t.Context(), request(peer, "order", atOnce, with(engine.Delegating{Ref: "PO-1"})))
	if e, ok := err.(*a2a.Error); !ok || e.Metadata["reason"] != engine.ReasonRef || e.Metadata["taskId"] != task.ID {
		t.Errorf("the reference is taken: %v", err)
	}
	close(proceed)
	b.send(request(peer, "more", onTask(task.ID), atOnce))
	if got := <-looked; got != "message 1 remote more" {
		t.Error(got)
	}
	waiting := func() bool {
		row, err := b.store.Task(t.Context(), store.ForAll(), task.ID)
		return err == nil && row.Wait == store.WaitCallback && row.Lease == 0
	}
	for !waiting() {
	}
	if items := b.inbox(store.InboxQuery{}); len(items) != 1 || items[0].Kind != store.InboxStuck || items[0].Agent != "p" || !items[0].Peer || items[0].Task != task.ID {
		t.Errorf("items %+v", items)
	}
	if err := b.engine.Wake(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-looked; got != "callback 1 remote " {
		t.Error(got)
	}
	done := b.until(task.ID, a2a.StateCompleted)
	if k := len(done.History); k != 2 {
		t.Errorf("%s", done.AppendJSON(nil))
	}
	if d, err := b.store.Delegation(t.Context(), store.ForAll(), task.ID); err != nil || d.Asked != "erp" || d.Root != task.ID || d.Peer != "p" || d.State != a2a.StateCompleted {
		t.Errorf("%+v, %v", d, err)
	}
	if items := b.inbox(store.InboxQuery{}); len(items) != 0 {
		t.Errorf("open items %+v", items)
	}
	for {
		b.mu.Lock()
		got := append([]string{}, b.recalls...)
		b.mu.Unlock()
		if cmp.Equal(got, []string{task.ID}) {
			break
		}
	}
	if err := b.engine.Wake(t.Context(), task.ID); err != nil {
		t.Errorf("wake of what is over: %v", err)
	}
	// The reference is free again.
	b.send(request(peer, "order", atOnce, with(engine.Delegating{Ref: "PO-1"})))
	<-looked
}
