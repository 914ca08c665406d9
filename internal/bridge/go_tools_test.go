package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// goGate is what callers have of the tools of agents that are written in Go.
type goGate struct{ server string }

func (goGate) Tools(context.Context, *auth.Principal) ([]jsontext.Value, error) { return nil, nil }

func (g goGate) Admit(_ context.Context, p *auth.Principal, tool string, _ jsontext.Value, key string) (*bridge.Admitted, error) {
	if p.Subject != "alice" || p.Role != auth.RoleCaller {
		return nil, fmt.Errorf("for %+v", p)
	}
	if !strings.Contains(key, ":call-") {
		return nil, fmt.Errorf("the key is %q", key)
	}
	a := &bridge.Admitted{Server: "erp", Tool: tool, Idempotent: strings.HasPrefix(tool, "safe-")}
	switch a.Tool = strings.TrimPrefix(tool, "safe-"); tool {
	case "denied":
		return nil, mcp.Errorf(mcp.CodeDenied, "This tool is not for you")
	case "busy":
		return nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "Too many", RetryAfter: 7}
	case "hidden":
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown tool: hidden", Err: bridge.ErrNoTool}
	case "misfit":
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "units: must be at least 100", Err: &bridge.ArgumentsError{Field: "units", Reason: "x"}}
	case "away":
		a.Server = "away"
	case "served":
		if g.server != "erp" {
			return nil, fmt.Errorf("by the gate of %q", g.server)
		}
		a.Tool = "plain"
	case "approve":
		a.Tool, a.Approve = "plain", "it is dear"
	case "approve-task":
		a.Tool, a.Approve = "task", "it is dear"
	}
	return a, nil
}

// runLog is what an agent has seen of its runs, whichever process ran it.
type runLog struct {
	mu   sync.Mutex
	list []string
}

func (l *runLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

func (l *runLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// goAgent makes f the agent "tools", which can call tools.
func goAgent(f agent.Func, change ...func(*bridge.GoToolsOptions)) func(*bench) {
	return func(b *bench) {
		b.agents["tools"] = func(ctx context.Context, t *agent.Turn) error {
			o := bridge.GoToolsOptions{
				Calls: func() *bridge.Calls { return b.calls }, Gate: func(server string) bridge.Gate { return goGate{server} },
				Servers: func() []string { return []string{"erp"} }, Granted: b.engine.Granted,
			}
			for _, c := range change {
				c(&o)
			}
			return bridge.NewGoTools(f, o).Run(ctx, t)
		}
	}
}

// saidBy is the text of the status of a task.
func saidBy(t *a2a.Task) string {
	if t.Status.Message == nil {
		return ""
	}
	return t.Status.Message.Text()
}

// settled waits until a task is over, or asks.
func (b *bench) settled(id string, states ...a2a.TaskState) *a2a.Task {
	b.t.Helper()
	var got *a2a.Task
	b.eventually(fmt.Sprint("the task is ", states), func() bool {
		var err error
		got, err = b.engine.Get(b.t.Context(), auth.Scope(alice), nil, id, nil)
		return err == nil && slices.Contains(states, got.Status.State)
	})
	return got
}

// decide decides on the request that a task waits for.
func (b *bench) decide(approved bool, note string) {
	b.t.Helper()
	b.eventually("it is decided", func() bool {
		grants, err := b.engine.Grants(b.t.Context(), auth.Reach(&auth.Principal{Role: auth.RoleAdmin}), 10)
		if err != nil || len(grants) != 1 {
			return false
		}
		_, err = b.engine.Decide(b.t.Context(), auth.Reach(&auth.Principal{Role: auth.RoleAdmin}), &engine.Decision{Grant: grants[0].ID, Approved: approved, Note: note, By: "boss"})
		return err == nil
	})
}

func TestGoCallsTools(t *testing.T) {
	t.Parallel()
	var result *agent.ToolResult
	var failed error
	b := newBench(t, sqliteStore(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
		result, failed = turn.Tool(ctx, turn.Text(), map[string]int{"units": 3})
		return nil
	}))
	done := func(tool string) {
		t.Helper()
		if got := b.message("", "", a2a.Text(tool)); got.Status.State != a2a.StateCompleted {
			t.Errorf("%s: got %s", tool, got.AppendJSON(nil))
		}
	}
	for _, tool := range []string{"plain", "erp/served"} {
		done(tool)
		want := &agent.ToolResult{
			Content: []a2a.Part{a2a.Text("é")}, Structured: a2a.JSON(`{"n":12345678901234567890,"b":1.10}`), Server: "erp", Tool: "plain",
		}
		if failed != nil || cmp.Diff(want, result) != "" {
			t.Errorf("%s: %v %s", tool, failed, cmp.Diff(want, result))
		}
	}
	var decoded struct{ B float64 }
	if err := result.Decode(&decoded); err != nil || decoded.B != 1.1 || result.Text() != "é" {
		t.Errorf("got %v, %v, %q", decoded, err, result.Text())
	}
	if done("bad"); failed != nil || !result.IsError || result.Text() != "credit too low" {
		t.Errorf("got %+v, %v", result, failed)
	}
	for tool, want := range map[string]agent.ToolError{
		"denied": {Kind: agent.ErrToolRefused, Reason: "This tool is not for you", Code: mcp.CodeDenied},
		"busy":   {Kind: agent.ErrToolRefused, Reason: "Too many", Code: mcp.CodeRateLimited, RetryAfter: 7 * time.Second},
		"hidden": {Kind: agent.ErrToolNotFound, Reason: "Unknown tool: hidden", Code: mcp.CodeInvalidParams},
		"misfit": {Kind: agent.ErrToolArguments, Reason: "units: must be at least 100", Code: mcp.CodeInvalidParams, Field: "units"},
		"away":   {Kind: agent.ErrToolUnavailable, Reason: "There is no server away any more", Code: mcp.CodeUnavailable},
		"error":  {Kind: agent.ErrToolFailed, Reason: "no such order", Code: -32050},
	} {
		done(tool)
		of, ok := errors.AsType[*agent.ToolError](failed)
		if want.Tool = tool; !ok || !errors.Is(failed, want.Kind) || of.Tool != tool || of.Reason != want.Reason || of.Code != want.Code || of.RetryAfter != want.RetryAfter || of.Field != want.Field {
			t.Errorf("%s: got %+v, want %+v", tool, failed, want)
		}
	}
}

func TestGoHasNoGateway(t *testing.T) {
	t.Parallel()
	var failed error
	call := func(ctx context.Context, turn *agent.Turn) error {
		_, failed = turn.Tool(ctx, "plain", nil)
		return nil
	}
	b := newBench(t, sqliteStore(t), goAgent(call, func(o *bridge.GoToolsOptions) { o.Servers = func() []string { return nil } }))
	b.message("", "", a2a.Text("x"))
	if !errors.Is(failed, agent.ErrNoGateway) || !strings.Contains(failed.Error(), "mcp.servers") {
		t.Errorf("got %v", failed)
	}
	b = newBench(t, sqliteStore(t), goAgent(call, func(o *bridge.GoToolsOptions) { o.MessagesOnly = true }))
	b.message("", "", a2a.Text("x"))
	if failed == nil || !strings.Contains(failed.Error(), "messages alone") {
		t.Errorf("got %v", failed)
	}
	b = newBench(t, sqliteStore(t), func(b *bench) { b.agents["tools"] = call })
	b.message("", "", a2a.Text("x"))
	if !errors.Is(failed, agent.ErrNoGateway) || b.work.count("plain") != 0 {
		t.Errorf("got %v", failed)
	}
}

// buyer drafts an order that a person has to approve, and asks what follows.
func buyer(log *runLog) agent.Func {
	return func(ctx context.Context, t *agent.Turn) error {
		log.add("%d %s %q", t.Number, t.Cause, t.Text())
		if t.Number == 2 {
			return t.Complete("sent by " + t.Text())
		}
		if err := t.Artifact(a2a.Text("offer for " + t.Text())); err != nil {
			return err
		}
		r, err := t.Tool(ctx, "approve", map[string]string{"sku": t.Text()})
		if err != nil {
			return agent.Errorf("no order: %w", err)
		}
		if err := t.Artifact(a2a.Text(fmt.Sprint("order ", r.Text(), " ", r.Approved))); err != nil {
			return err
		}
		return t.Ask("How is it to be sent?", nil)
	}
}

// A call that a person has to approve waits as a row, and the agent goes on in the same
// turn, days and processes later.
func TestGoToolIsApproved(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		log := &runLog{}
		b := newBench(t, open(t), goAgent(buyer(log)))
		got := b.message("", "", a2a.Text("A-1"))
		if got.Status.State != a2a.StateAuthRequired || !strings.Contains(saidBy(got), "it is dear") || b.work.count("plain") != 0 {
			t.Fatalf("got %s", got.AppendJSON(nil))
		}
		b.crash()
		b.decide(true, "")
		got = b.settled(got.ID, a2a.StateInputRequired)
		if b.work.count("plain") != 1 {
			t.Errorf("the call was made %d times", b.work.count("plain"))
		}
		got = b.message("", got.ID, a2a.Text("ship"))
		if got.Status.State != a2a.StateCompleted || saidBy(got) != "sent by ship" || len(got.Artifacts) != 2 || got.Artifacts[1].Parts[0].Text != "order é true" {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
		want := []string{`1 message "A-1"`, `1 message "A-1"`, `2 message "ship"`}
		if diff := cmp.Diff(want, log.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGoToolIsNotApproved(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		b := newBench(t, open(t), goAgent(buyer(&runLog{})))
		got := b.message("", "", a2a.Text("A-1"))
		b.decide(false, "too dear")
		got = b.settled(got.ID, a2a.StateFailed)
		if !strings.Contains(saidBy(got), "no order: call tool approve: the call was refused: The call was not approved: too dear") || b.work.count("plain") != 0 {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
	})
}

// An agent may let its callers decide on what it asks for itself (A2A §7.6). Whether a
// tool is called in their name is not theirs to decide.
func TestGoToolIsNotApprovedByItsCaller(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), goAgent(buyer(&runLog{})))
	got := b.message("", "", a2a.Text("A-1"))
	page, err := b.store.InboxItems(t.Context(), store.ForAll(), store.InboxQuery{Task: got.ID, PageSize: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].Kind != store.InboxCall || page.Items[0].Op != "tools/call erp.plain" {
		t.Errorf("the inbox has %+v, %v", page, err)
	}
	q := b.toAgent("", got.ID, a2a.Text("go on"))
	spec := *q.Spec
	spec.CallerGrants = true
	q.Spec = &spec
	q.Message.Metadata = a2a.WithMember(nil, a2a.GrantExtension, (&a2a.GrantDecision{Approved: true}).AppendJSON(nil))
	if _, err := b.engine.Send(t.Context(), q); a2a.CodeOf(err) != a2a.CodePermissionDenied {
		t.Errorf("got %v", err)
	}
	if got := b.settled(got.ID, a2a.StateAuthRequired, a2a.StateInputRequired, a2a.StateCompleted); got.Status.State != a2a.StateAuthRequired || b.work.count("plain") != 0 {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

// Of a call that was at its server when the process died, nobody knows. Only one that
// does no harm is made again.
func TestGoToolWasAtItsServer(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for tool, want := range map[string]struct {
			calls int
			said  string
		}{"held": {1, "the outcome of the call is not known"}, "safe-held": {2, "done: é"}} {
			log := &runLog{}
			b := newBench(t, open(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
				log.add("%d %d", turn.Number, turn.Attempt)
				r, err := turn.Tool(ctx, tool, nil)
				if err != nil {
					return turn.Complete(err.Error())
				}
				return turn.Complete("done: " + r.Text())
			}))
			q := b.toAgent("", "", a2a.Text("x"))
			q.Config.ReturnImmediately = true
			answer, err := b.engine.Send(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			<-b.work.began
			b.crash()
			close(b.work.gate)
			got := b.settled(answer.Task.ID, a2a.StateCompleted)
			if b.work.count("held") != want.calls || !strings.Contains(saidBy(got), want.said) {
				t.Errorf("%s: %d calls, got %s", tool, b.work.count("held"), got.AppendJSON(nil))
			}
			if diff := cmp.Diff([]string{"1 1", "1 2"}, log.all()); diff != "" {
				t.Errorf("%s: %s", tool, diff)
			}
		}
	})
}

// No call is made twice, and the task ends truly, at whichever commit the process dies.
func TestGoToolDeathAtEveryCommit(t *testing.T) {
	t.Parallel()
	tools := []string{"plain", "approve-task", "ask", "bad"}
	purchase := func(ctx context.Context, turn *agent.Turn) error {
		if turn.Number == 2 {
			return turn.Complete("after " + turn.Text())
		}
		for i, tool := range tools {
			r, err := turn.Tool(ctx, tool, map[string]int{"n": i})
			switch {
			case errors.Is(err, agent.ErrToolWaits):
				return err
			case errors.Is(err, agent.ErrToolOutcome):
				err = turn.Artifact(a2a.Text("unknown"))
			case err == nil:
				err = turn.Artifact(a2a.Text(r.Text() + string(r.Structured)))
			}
			if err != nil {
				return err
			}
		}
		return turn.Ask("More?", nil)
	}
	answers := map[string]string{"Who?": "Ann", "When?": "Bob", "Who else?": "Cid", "More?": "no"}
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("after=%t", after), func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					died := false
					t.Run(fmt.Sprintf("commit %d", n), func(t *testing.T) {
						b := newBench(t, open(t), goAgent(purchase))
						var got *a2a.Task
						if got, died = b.dieAt(n, after, answers); got != nil {
							b.judgePurchase(got, died)
						}
					})
					if !died || t.Failed() {
						if n < 20 {
							t.Errorf("there were only %d commits", n-1)
						}
						return
					}
				}
			})
		}
	})
}

// judgePurchase says what is wrong with a purchase that is over.
func (b *bench) judgePurchase(got *a2a.Task, died bool) {
	b.t.Helper()
	want := []string{"é", "é", `"who"`, "credit too low"}
	unknown := 0
	texts := make([]string, len(got.Artifacts))
	for i := range got.Artifacts {
		texts[i] = got.Artifacts[i].Parts[0].Text
		if texts[i] == "unknown" {
			unknown++
		} else if i >= len(want) || !strings.Contains(texts[i], want[i]) {
			b.t.Errorf("artifact %d is %q", i, texts[i])
		}
	}
	if got.Status.State != a2a.StateCompleted || saidBy(got) != "after no" || len(texts) != len(want) || unknown > 1 || unknown > 0 && !died {
		b.t.Errorf("%q, got %s", texts, got.AppendJSON(nil))
	}
	for _, tool := range []string{"plain", "task", "bad"} {
		if b.work.count(tool) > 1 {
			b.t.Errorf("%s was called %d times", tool, b.work.count(tool))
		}
	}
}

// dieAt runs a task to its end, in a process that dies at the nth commit and the ones
// that follow it. The task is nil when nobody was told of one.
func (b *bench) dieAt(n int64, after bool, answers map[string]string) (got *a2a.Task, died bool) {
	t := b.t
	b.dying.DieAt(n, after)
	q := b.toAgent("", "", a2a.Text("buy"))
	q.Config.ReturnImmediately, q.ID = true, fmt.Sprintf("n-%d", n)
	_, err := b.engine.Send(t.Context(), q)
	if err != nil && !b.dying.Died() {
		t.Fatalf("commit %d: %v", n, err)
	}
	told := err == nil
	answered := map[string]bool{}
	admin := auth.Reach(&auth.Principal{Role: auth.RoleAdmin})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // for what only the store can tell
		if !died && b.dying.Died() {
			died = true
			b.crash()
		}
		got, err := b.engine.Get(t.Context(), admin, nil, q.ID, nil)
		switch {
		case err != nil && !told && died:
			return nil, died
		case err != nil || !died && b.dying.Died():
		case got.Status.State == a2a.StateInputRequired && !answered[saidBy(got)]:
			m := b.toAgent("", q.ID, a2a.Text(answers[saidBy(got)]))
			m.Message.MessageID, m.Config.ReturnImmediately = q.ID+saidBy(got), true
			_, err := b.engine.Send(t.Context(), m)
			answered[saidBy(got)] = err == nil
		case got.Status.State == a2a.StateAuthRequired:
			if grants, err := b.engine.Grants(t.Context(), admin, 10); err == nil && len(grants) == 1 {
				_, _ = b.engine.Decide(t.Context(), admin, &engine.Decision{Grant: grants[0].ID, Approved: true, By: "boss"}) // tried until it is heard
			}
		case got.Status.State.Terminal():
			return got, died
		}
		if time.Now().After(deadline) {
			t.Fatalf("commit %d: it does not end: %s", n, got.AppendJSON(nil))
		}
	}
}

// A task of the server is canceled with the task that waits for it, and a call that is
// being made ends.
func TestGoToolIsCanceled(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		causes := make(chan error, 1)
		b := newBench(t, open(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
			_, err := turn.Tool(ctx, turn.Text(), nil)
			if turn.Text() == "held" {
				causes <- err
			}
			return err
		}))
		begin := func(tool string) string {
			q := b.toAgent("", "", a2a.Text(tool))
			q.Config.ReturnImmediately = true
			answer, err := b.engine.Send(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return answer.Task.ID
		}
		cancel := func(id string) {
			if _, err := b.engine.Cancel(t.Context(), auth.Scope(alice), nil, id, engine.ByCaller); err != nil {
				t.Fatal(err)
			}
		}
		held := begin("held")
		<-b.work.began
		cancel(held)
		if err := <-causes; !errors.Is(err, agent.ErrCanceled) {
			t.Errorf("the call ended with %v", err)
		}
		asks := begin("task-ask")
		b.settled(asks, a2a.StateInputRequired)
		cancel(asks)
		b.eventually("the server is told", func() bool {
			b.work.mu.Lock()
			defer b.work.mu.Unlock()
			return cmp.Equal(b.work.told, []string{"theirs-1"})
		})
	})
}

// An agent may wait for a call for a while. What becomes of one that it gives up nobody
// knows; it is not made again, and others can be made.
func TestGoToolIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		if _, err := turn.Tool(short, "held", nil); !errors.Is(err, agent.ErrToolOutcome) || !strings.Contains(err.Error(), "deadline exceeded") {
			return agent.Errorf("got %w", err)
		}
		if _, err := turn.Tool(short, "plain", nil); !errors.Is(err, agent.ErrToolUnavailable) || !strings.Contains(err.Error(), "deadline exceeded") {
			return agent.Errorf("got %w", err)
		}
		_, err := turn.Tool(ctx, "approve", nil)
		return err
	}))
	got := b.message("", "", a2a.Text("x"))
	if got.Status.State != a2a.StateAuthRequired {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	b.decide(true, "")
	got = b.settled(got.ID, a2a.StateCompleted, a2a.StateFailed)
	if got.Status.State != a2a.StateCompleted || b.work.count("held") != 1 || b.work.count("plain") != 1 {
		t.Errorf("%d and %d calls, got %s", b.work.count("held"), b.work.count("plain"), got.AppendJSON(nil))
	}
}

// The limit on the time of a turn ends a call.
func TestGoToolMeetsTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), func(b *bench) { b.limits.Total = 200 * time.Millisecond }, goAgent(func(ctx context.Context, turn *agent.Turn) error {
		_, err := turn.Tool(ctx, "held", nil)
		return err
	}))
	got := b.message("", "", a2a.Text("x"))
	if got.Status.State != a2a.StateFailed || !strings.Contains(saidBy(got), "limit") {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

// Messages that come in while a call waits for a decision are not for the tool: the
// agent gets them when its turn is over.
func TestGoToolWaitsAndMessagesCome(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for _, asks := range []bool{false, true} {
			log := &runLog{}
			b := newBench(t, open(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
				pending, err := turn.Pending()
				if err != nil {
					return err
				}
				log.add("%d %s %q %d", turn.Number, turn.Cause, turn.Text(), len(pending))
				if turn.Number > 1 {
					return turn.Artifact(a2a.Text("noted " + turn.Messages[0].Text()))
				}
				if _, err := turn.Tool(ctx, "approve", nil); err != nil {
					return err
				}
				if asks {
					return turn.Ask("And?", nil)
				}
				return turn.Artifact(a2a.Text("ordered"))
			}))
			got := b.message("", "", a2a.Text("buy"))
			got = b.message("", got.ID, a2a.Text("quickly"))
			if got.Status.State != a2a.StateAuthRequired {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			b.crash()
			b.decide(true, "")
			want := []string{`1 message "buy" 0`, `1 message "buy" 1`, `2 message "quickly" 0`}
			if asks {
				got = b.settled(got.ID, a2a.StateInputRequired)
				got = b.message("", got.ID, a2a.Text("no"))
				want[2] = `2 message "no" 0`
			}
			got = b.settled(got.ID, a2a.StateCompleted)
			if diff := cmp.Diff(want, log.all()); diff != "" {
				t.Error(diff)
			}
			if last := got.Artifacts[len(got.Artifacts)-1].Parts[0].Text; last != "noted quickly" || b.work.count("plain") != 1 {
				t.Errorf("got %s", got.AppendJSON(nil))
			}
		}
	})
}

// An agent whose arguments change from run to run is told so, and makes no second call.
func TestGoToolArgumentsChange(t *testing.T) {
	t.Parallel()
	n := 0
	b := newBench(t, sqliteStore(t), goAgent(func(ctx context.Context, turn *agent.Turn) error {
		n++
		_, err := turn.Tool(ctx, "approve", map[string]int{"n": n})
		if err != nil {
			return agent.Errorf("%w", err)
		}
		return nil
	}))
	got := b.message("", "", a2a.Text("x"))
	b.decide(true, "")
	got = b.settled(got.ID, a2a.StateFailed)
	if !strings.Contains(saidBy(got), "have to stay the same") || b.work.count("plain") != 1 {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}
