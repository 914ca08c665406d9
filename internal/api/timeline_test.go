package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

type momentBody struct {
	Kind, Title, Detail, Who, Wait, By, Outcome, State, Task, Item string
	Start, End                                                     time.Time
	Open, Peer                                                     bool
	Turn, Attempt, Count                                           int
	Cost                                                           *struct {
		Model  string
		Input  int `json:"input_tokens"`
		Amount float64
		USD    float64
	}
}

type waitBody struct {
	Kind, Who string
	Count     int
	MS        int64
	Open      bool
}

type timelineBody struct {
	State     string
	From, To  time.Time
	Open      bool
	Items     []momentBody
	Truncated bool
	Waits     []waitBody
	Total     int64 `json:"total_ms"`
	Working   int64 `json:"working_ms"`
	Waiting   int64 `json:"waiting_ms"`
}

func (n *node) timeline(caller, task string) *timelineBody {
	n.t.Helper()
	var body timelineBody
	n.call("GET", "/tasks/"+task+"/timeline", caller, "").want(http.StatusOK).decode(&body)
	if !slices.IsSortedFunc(body.Items, func(a, b momentBody) int { return a.Start.Compare(b.Start) }) {
		n.t.Error("the items are not in order")
	}
	for _, m := range body.Items {
		if m.Kind == "" || m.Title == "" || m.Start.IsZero() || m.Start.Before(body.From) || !m.End.IsZero() && m.End.Before(m.Start) {
			n.t.Errorf("not an item of %v to %v: %+v", body.From, body.To, m)
		}
	}
	return &body
}

// of returns the items of a kind.
func (b *timelineBody) of(kind string) (list []momentBody) {
	for _, m := range b.Items {
		if m.Kind == kind {
			list = append(list, m)
		}
	}
	return list
}

func TestTimelineOfAQuestion(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.send("desk", "", "alice", "form").ID
	item := n.items("operator//op", "")["form"]
	n.call("POST", "/inbox/"+item+"/assign", "operator//op", `{"assignee":"mara"}`).want(http.StatusOK)
	open := n.timeline("viewer//alice", id)
	if !open.Open || open.State != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("an open task: %+v", open)
	}
	if turns := open.of("turn"); len(turns) != 1 || turns[0].Open || turns[0].End.IsZero() || turns[0].Outcome != "asked" || turns[0].Turn != 1 {
		t.Errorf("the turn that has asked: %+v", turns)
	}
	waits := open.of("wait")
	if last := waits[len(waits)-1]; !last.Open || last.Wait != "answer" || last.Who != "mara" || last.Detail != "How many?" || last.Item != item || !last.End.IsZero() {
		t.Errorf("the wait: %+v", last)
	}
	if w := open.Waits[0]; w.Kind != "answer" && w.Kind != "worker" {
		t.Errorf("whom it waited for: %+v", open.Waits)
	}

	n.call("POST", "/inbox/"+item+"/answer", "caller//alice", `{"text":"five","data":{"qty":5}}`).want(http.StatusOK)
	n.settled(id)
	done := n.timeline("viewer//alice", id)
	if done.Open || !strings.HasSuffix(done.State, "COMPLETED") || done.Total < done.Waiting || done.Total != done.To.Sub(done.From).Milliseconds() {
		t.Errorf("a task that is over: %+v", done)
	}
	turns := done.of("turn")
	if len(turns) != 2 || turns[1].Turn != 2 || turns[1].End.IsZero() || turns[1].Outcome != "completed" {
		t.Fatalf("two turns: %+v", turns)
	}
	waits = done.of("wait")
	wait := waits[len(waits)-1]
	if wait.Open || wait.End.Before(wait.Start) || wait.By != "alice" || wait.Outcome != "answered" || !wait.End.Equal(turns[1].Start) || !wait.Start.Equal(turns[0].End) {
		t.Errorf("the wait is over: %+v", wait)
	}
	if !slices.ContainsFunc(done.Waits, func(w waitBody) bool { return w.Kind == "answer" && w.Who == "alice" && !w.Open }) {
		t.Errorf("whom it waited for in the end: %+v", done.Waits)
	}
	if steps := done.of("step"); len(steps) != 1 || !strings.HasPrefix(steps[0].Title, "Artifact") || steps[0].Turn != 2 || steps[0].Start.Before(turns[1].Start) {
		t.Errorf("the steps: %+v", steps)
	}
	if messages := done.of("message"); len(messages) != 2 || messages[0].Who != "alice" || messages[0].Detail != "form" {
		t.Errorf("the messages: %+v", messages)
	}
	n.call("GET", "/tasks/"+id+"/timeline", "viewer//bob", "").failure(http.StatusNotFound)
	n.call("GET", "/tasks/nothing/timeline", "operator//op", "").failure(http.StatusNotFound)
}

// settled waits until a task is over.
func (n *node) settled(id string) {
	n.t.Helper()
	// The log ends with the task.
	n.call("GET", "/tasks/"+id+"/events?follow", "admin//root", "").want(http.StatusOK)
}

// TestTimelineOfADelegation has a task that hands work to a peer, which asks.
func TestTimelineOfADelegation(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.specs["buyer"].Run = agent.Func(func(_ context.Context, turn *agent.Turn) error {
		if turn.Number == 1 {
			return turn.Delegate("supplier", a2a.Text("hello 400 units"))
		}
		return turn.Artifact(a2a.Text("bought"))
	})
	n.jobs.Start()
	t.Cleanup(n.jobs.Stop)
	id := n.send("buyer", "", "alice", "hold and buy").ID // answered at once
	n.settled(id)
	got := n.timeline("viewer//alice", id)
	delegations, turns := got.of("delegation"), got.of("turn")
	if len(delegations) != 1 || len(turns) != 2 {
		t.Fatalf("%+v\n%+v", delegations, turns)
	}
	d := delegations[0]
	if d.Who != "supplier" || !d.Peer || d.State != "TASK_STATE_COMPLETED" || d.End.Before(d.Start) || d.Open {
		t.Errorf("the delegation: %+v", d)
	}
	if turns[0].Outcome != "delegated" || turns[0].End.After(d.Start) || turns[1].Start.Before(d.End) {
		t.Errorf("the turns around it: %+v", turns)
	}
	found := false
	for _, w := range got.Waits {
		found = found || w.Kind == "peer" && w.Who == "supplier" && w.Count == 1 && w.MS == d.End.Sub(d.Start).Milliseconds()
	}
	if !found || got.Waiting > got.Total {
		t.Errorf("whom it waited for: %+v", got.Waits)
	}
	// The delegation itself waits for the peer.
	child := n.timeline("viewer//alice", d.Task)
	waits := child.of("wait")
	if len(waits) == 0 || waits[0].Wait != "peer" || waits[0].Who != "supplier" || len(child.of("turn")) != 0 {
		t.Errorf("the timeline of the delegation: %+v", child.Items)
	}

	var tree struct {
		Root, This string
		Nodes      []struct {
			ID, Parent, Agent, State, Ref string
			Peer                          bool
			Depth                         int
			Ended                         time.Time
		}
	}
	n.call("GET", "/tasks/"+d.Task+"/tree", "viewer//alice", "").want(http.StatusOK).decode(&tree)
	if tree.Root != id || tree.This != d.Task || len(tree.Nodes) != 2 {
		t.Fatalf("the tree: %+v", tree)
	}
	if root, below := tree.Nodes[0], tree.Nodes[1]; root.ID != id || root.Agent != "buyer" || root.Ended.IsZero() ||
		below.ID != d.Task || below.Parent != id || below.Agent != "supplier" || !below.Peer || below.Depth != 1 {
		t.Errorf("the tree: %+v", tree.Nodes)
	}
	n.call("GET", "/tasks/"+d.Task+"/tree", "viewer//bob", "").failure(http.StatusNotFound)
	// A search for the reference finds the task at the root too.
	if ids := n.search("viewer//alice", "root="+id); !slices.Equal(ids, []string{id, d.Task}) {
		t.Errorf("below the root: %v", ids)
	}
}

// TestTimelineOfCalls has a turn that tells of its calls, as a model's does.
func TestTimelineOfCalls(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.specs["buyer"].Run = agent.Func(func(_ context.Context, turn *agent.Turn) error {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		for _, metadata := range []string{
			`{"handoff.example/model-call":{"model":"m-1","start":"` + now + `","ms":5,"outcome":"ok","input_tokens":900,"output_tokens":80,"cost":0.0041,"currency":"USD"}}`,
			`{"handoff.example/tool-call":{"server":"erp","tool":"stock","start":"` + now + `","ms":3,"outcome":"ok"}}`,
			`{"handoff.example/tool-call":{"tool":"odd","start":"1999-01-01T00:00:00Z","ms":-5,"outcome":"ok"}}`,
			`{"handoff.example/tool-call":7}`,
		} {
			if err := turn.Emit(agent.Step{Working: &agent.Content{Parts: []a2a.Part{a2a.Text("called")}, Metadata: a2a.JSON(metadata)}}); err != nil {
				return err
			}
		}
		for i := range 5 {
			u := agent.Artifact{ID: "a", Name: "list.txt", Parts: []a2a.Part{a2a.Text(fmt.Sprint(i))}, Append: i > 0}
			if err := turn.Emit(agent.Step{Artifact: &u}); err != nil {
				return err
			}
		}
		return nil
	})
	id := n.send("buyer", "", "alice", "buy").ID
	n.settled(id)
	got := n.timeline("viewer//alice", id)
	if m := got.of("model"); len(m) != 1 || m[0].Title != "m-1" || m[0].Cost == nil || m[0].Cost.Input != 900 || m[0].Cost.USD != 0.0041 || m[0].Outcome != "ok" {
		t.Errorf("calls of the model: %+v", m)
	}
	if m := got.of("tool"); len(m) != 2 {
		t.Errorf("calls of tools: %+v", m)
	}
	steps := got.of("step")
	if last := steps[len(steps)-1]; last.Title != "Artifact list.txt" || last.Count != 5 {
		t.Errorf("chunks of an artifact: %+v", steps)
	}
}

func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.send("desk", "", "alice", "ask").ID
	row, err := n.store.Task(t.Context(), store.ForAll(), id)
	if err != nil {
		t.Fatal(err)
	}
	events := make([]store.Event, 3000)
	for i := range events {
		events[i] = store.Event{Kind: store.KindArtifact, Body: fmt.Appendf(nil, `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a%d","parts":[{"text":"x"}]}}}`, i)}
	}
	if err := n.store.Commit(t.Context(), &store.Change{Task: row.Key, Events: events}); err != nil {
		t.Fatal(err)
	}
	if got := n.timeline("viewer//alice", id); len(got.Items) < 1999 || len(got.Items) > 2000 || !got.Truncated {
		t.Errorf("%d items, truncated: %v", len(got.Items), got.Truncated)
	}
}

func TestTimelineTellsOperatorsWhoDidWhat(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.send("desk", "", "alice", "ask").ID
	n.call("POST", "/tasks/"+id+":cancel", "operator//op", "").want(http.StatusOK)
	audits := n.timeline("operator//op", id).of("audit")
	if len(audits) != 1 || audits[0].Who != "op" || audits[0].Title != "POST /tasks/{id}:cancel" {
		t.Errorf("for an operator: %+v", audits)
	}
	if audits := n.timeline("viewer//alice", id).of("audit"); len(audits) != 0 {
		t.Errorf("for its owner: %+v", audits)
	}
}

func TestEventsArePaged(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.send("desk", "", "alice", "ask").ID
	row, err := n.store.Task(t.Context(), store.ForAll(), id)
	if err != nil {
		t.Fatal(err)
	}
	events := make([]store.Event, 2500-row.Seq)
	for i := range events {
		events[i] = store.Event{Kind: store.KindArtifact, Body: fmt.Appendf(nil, `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a%d","parts":[{"text":"x"}]}}}`, i)}
	}
	if err := n.store.Commit(t.Context(), &store.Change{Task: row.Key, Events: events}); err != nil {
		t.Fatal(err)
	}
	page := func(query string) (lines int, first, next string) {
		got := n.call("GET", "/tasks/"+id+"/events"+query, "viewer//alice", "").want(http.StatusOK)
		first, _, _ = strings.Cut(string(got.body), ",")
		return strings.Count(string(got.body), "\n"), first, got.header.Get("Link")
	}
	for _, want := range []struct {
		query, first, next string
		lines              int
	}{
		{"", `{"seq":1`, `<?after=1000&limit=1000>; rel="next"`, 1000},
		{"?after=1000&limit=1000", `{"seq":1001`, `<?after=2000&limit=1000>; rel="next"`, 1000},
		{"?after=2000", `{"seq":2001`, "", 500},
		{"?after=2490&limit=10", `{"seq":2491`, "", 10},
		{"?after=2500", "", "", 0},
		{"?limit=10000", `{"seq":1`, "", 2500},
		{"?limit=1", `{"seq":1`, `<?after=1&limit=1>; rel="next"`, 1},
	} {
		if lines, first, next := page(want.query); lines != want.lines || first != want.first || next != want.next {
			t.Errorf("%s: %d lines from %s, then %s; want %+v", want.query, lines, first, next, want)
		}
	}
	for _, wrong := range []string{"?limit=0", "?limit=10001", "?limit=x", "?follow&limit=5"} {
		n.call("GET", "/tasks/"+id+"/events"+wrong, "viewer//alice", "").want(http.StatusBadRequest)
	}
}
