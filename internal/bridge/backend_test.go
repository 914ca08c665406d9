package bridge_test

import (
	"context"
	"fmt"
	"strings"
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

// gate lets every call through but those of the tool that is denied.
type gate struct{}

func (gate) Tools(context.Context, *auth.Principal) ([]jsontext.Value, error) {
	var list []jsontext.Value
	for _, name := range []string{"plain", "bad", "error", "ask", "task", "task-ask", "denied", "held", "approve"} {
		schema := `{"type":"object"}`
		switch name {
		case "plain":
			schema = `{"type":"object","properties":{"sku":{"type":"string"},"units":{"type":"integer","minimum":100}},"required":["sku","units"]}`
		case "held":
			schema = `{"type":"object","properties":{"sku":{"type":"string"},"fast":{"type":"boolean"}},"required":["sku"]}`
		}
		list = append(list, jsontext.Value(`{"name":"`+name+`","description":"Does `+name+`","inputSchema":`+schema+`}`))
	}
	return list, nil
}

func (gate) Admit(_ context.Context, p *auth.Principal, tool string, _ jsontext.Value, _ string) (*bridge.Admitted, error) {
	if p.Subject != "alice" {
		return nil, fmt.Errorf("for %q", p.Subject)
	}
	a := &bridge.Admitted{Server: "erp", Tool: tool}
	switch tool {
	case "denied":
		return nil, mcp.Errorf(mcp.CodeDenied, "This tool is not for you")
	case "approve":
		a.Tool, a.Approve = "plain", "it is dear"
	}
	return a, nil
}

// toolAgent adds an agent whose skills are tools.
func toolAgent(b *bench) {
	b.agents["tools"] = func(ctx context.Context, t *agent.Turn) error {
		return bridge.NewToolAgent(bridge.ToolAgentOptions{Calls: b.calls, Gate: gate{}}).Run(ctx, t)
	}
}

// message sends a message to the agent whose skills are tools, and returns the task
// when it has settled.
func (b *bench) message(skill, task string, parts ...a2a.Part) *a2a.Task {
	b.t.Helper()
	q := b.toAgent(skill, task, parts...)
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	answer, err := b.engine.Send(ctx, q)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.Task
}

func (b *bench) toAgent(skill, task string, parts ...a2a.Part) *engine.Request {
	m := &a2a.Message{MessageID: fmt.Sprint("m-", requests.Add(1)), TaskID: task, Role: a2a.RoleUser, Parts: parts}
	if skill != "" {
		m.Metadata = a2a.JSON(`{"skillId":"` + skill + `"}`)
	}
	spec := b.lookup("tools")
	return &engine.Request{
		Spec: spec, Scope: auth.Scope(alice), Caller: agent.Caller{Subject: "alice", Issuer: "test"}, Authenticated: true, Message: m,
	}
}

func schemaOf(t *a2a.Task) string {
	for _, p := range t.Status.Message.Parts {
		if p.MediaType == agent.SchemaMediaType {
			return string(p.Data)
		}
	}
	return ""
}

func TestToolsAsSkills(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), toolAgent)
	data := func(text string) a2a.Part { return a2a.Data(a2a.JSON(text)) }
	check := func(what string, got *a2a.Task, state a2a.TaskState, said string) {
		t.Helper()
		text := ""
		if got.Status.Message != nil {
			text = got.Status.Message.Text()
		}
		if got.Status.State != state || !strings.Contains(text, said) {
			t.Errorf("%s: got %s", what, got.AppendJSON(nil))
		}
	}
	// The result is content and data, and what stands in both is there once.
	got := b.message("plain", "", data(`{"sku":"A","units":100}`))
	check("data", got, a2a.StateCompleted, "")
	if len(got.Artifacts) != 2 || got.Artifacts[0].Parts[0].Text != "é" || string(got.Artifacts[1].Parts[0].Data) != `{"n":12345678901234567890,"b":1.10}` {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	// What is missing is asked for, in one form, and what does not fit again.
	got = b.message("plain", "", a2a.Text("please"))
	check("nothing", got, a2a.StateInputRequired, "sku, units")
	want := `{"type":"object","properties":{"sku":{"type":"string"},"units":{"type":"integer","minimum":100}},"required":["sku","units"]}`
	if diff := cmp.Diff(want, schemaOf(got)); diff != "" {
		t.Error(diff)
	}
	got = b.message("", got.ID, data(`{"sku":"A","units":5}`))
	check("wrong", got, a2a.StateInputRequired, "units")
	if s := schemaOf(got); strings.Contains(s, "sku") {
		t.Errorf("it asks for %s", s)
	}
	got = b.message("", got.ID, a2a.Text("400"))
	check("answered", got, a2a.StateInputRequired, "units") // a text is for what is missing, and nothing is
	got = b.message("", got.ID, data(`{"units":400}`))
	check("answered", got, a2a.StateCompleted, "")
	// Which tool, when nobody says.
	got = b.message("", "", data(`{"sku":"A","units":100}`))
	check("which", got, a2a.StateInputRequired, "Which tool")
	got = b.message("", got.ID, a2a.Text("bad"))
	check("named", got, a2a.StateFailed, "credit too low")
	check("error", b.message("error", "", a2a.Text("x")), a2a.StateFailed, "no such order")
	check("denied", b.message("denied", "", a2a.Text("x")), a2a.StateFailed, "not for you")
	check("unknown", b.message("nothing", "", a2a.Text("x")), a2a.StateRejected, "no tool")
	if n := b.work.count("denied"); n != 0 {
		t.Errorf("a denied tool was called %d times", n)
	}
	// What the tool asks.
	got = b.message("ask", "", a2a.Text("x"))
	check("asked", got, a2a.StateInputRequired, "Who?")
	if !strings.Contains(schemaOf(got), `"name"`) {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	got = b.message("", got.ID, a2a.Text("Ann"))
	check("asked", got, a2a.StateInputRequired, "When?")
	got = b.message("", got.ID, data(`{"name":"now"}`))
	check("asked", got, a2a.StateInputRequired, "Who else?")
	got = b.message("", got.ID, a2a.Text("Bob"))
	check("asked", got, a2a.StateCompleted, "")
	if s := string(got.Artifacts[0].Parts[0].Data); s != `{"who":{"action":"accept","content":{"name":"Bob"}}}` {
		t.Errorf("the server was told %s", s)
	}
	// A task of the server.
	got = b.message("task-ask", "", a2a.Text("x"))
	check("task", got, a2a.StateInputRequired, "Who?")
	check("task", b.message("", got.ID, a2a.Text("Ann")), a2a.StateCompleted, "")
}

// A text is the argument of a tool that requires just that; a slow tool tells of
// its progress, and a cancel reaches it.
func TestSlowToolsStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), toolAgent)
	stream, err := b.engine.Stream(t.Context(), b.toAgent("held", "", a2a.Text("A")))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var id string
	for said := false; !said; {
		frame, err := stream.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		said = strings.Contains(string(frame.Body), "half way")
		var e a2a.StreamResponse
		if err := a2a.Unmarshal(frame.Body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Task != nil {
			id = e.Task.ID
		}
	}
	<-b.work.began
	if _, err := b.engine.Cancel(t.Context(), store.ForAll(), nil, id, engine.ByCaller); err != nil {
		t.Fatal(err)
	}
	b.eventually("the turn has ended", func() bool {
		got, err := b.engine.Get(t.Context(), store.ForAll(), nil, id, nil)
		return err == nil && got.Status.State == a2a.StateCanceled
	})
}

// A call that policy holds waits for a decision, and is made by it once.
func TestToolsAreApproved(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), toolAgent)
	answer, err := b.engine.Send(t.Context(), b.toAgent("approve", "", a2a.Data(a2a.JSON(`{"total":1}`))))
	if err != nil {
		t.Fatal(err)
	}
	got := answer.Task
	if got.Status.State != a2a.StateAuthRequired || !strings.Contains(got.Status.Message.Text(), "it is dear") || b.work.count("plain") != 0 {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	grants, err := b.engine.Grants(t.Context(), store.ForAll(), 10)
	if err != nil || len(grants) != 1 {
		t.Fatalf("%+v, %v", grants, err)
	}
	if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: true, By: "boss"}); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is made", func() bool {
		task, err := b.engine.Get(t.Context(), store.ForAll(), nil, got.ID, nil)
		return err == nil && task.Status.State == a2a.StateCompleted
	})
	if n := b.work.count("plain"); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// A tool that an agent calls is not called twice, whenever the process dies.
func TestDeathOfAToolAgent(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for _, after := range []bool{false, true} {
			for _, skill := range []string{"bad", "task"} {
				t.Run(fmt.Sprintf("%s, after=%t", skill, after), func(t *testing.T) {
					t.Parallel()
					for n := int64(1); ; n++ {
						if died := dieWithTools(t, newBench(t, open(t), toolAgent), skill, n, after); !died || t.Failed() {
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

func dieWithTools(t *testing.T, b *bench, skill string, n int64, after bool) (died bool) {
	b.dying.DieAt(n, after)
	q := b.toAgent(skill, "", a2a.Text("x"))
	q.Config.ReturnImmediately = true
	q.ID = fmt.Sprintf("n-%d", n)
	_, err := b.engine.Send(t.Context(), q)
	if err != nil && !b.dying.Died() {
		t.Fatalf("commit %d: %v", n, err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // for what only the store can tell
		if !died && b.dying.Died() {
			died = true
			b.crash()
		}
		got, gerr := b.engine.Get(t.Context(), store.ForAll(), nil, q.ID, nil)
		if gerr != nil && err != nil && died {
			return died // nobody was told of a task
		}
		if !died && b.dying.Died() {
			continue
		}
		if gerr == nil && got.Status.State.Terminal() {
			called := b.work.count(skill)
			said := ""
			if got.Status.Message != nil {
				said = got.Status.Message.Text()
			}
			unknown := got.Status.State == a2a.StateFailed && strings.Contains(said, "not known")
			if called > 1 || unknown && !died || !unknown && called != 1 {
				t.Errorf("commit %d: called %d times: %s", n, called, got.AppendJSON(nil))
			}
			return died
		}
		if time.Now().After(deadline) {
			t.Fatalf("commit %d: it does not end", n)
		}
	}
}
