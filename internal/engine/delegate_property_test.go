package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// plan is what a task of a random tree does: one thing a turn, and then an end.
type plan struct {
	Do  []act  `json:"do,omitempty"`
	End string `json:"end"`
}

type act struct {
	Kind  string `json:"kind"` // ask, auth, wait, work, child
	Child *plan  `json:"child,omitempty"`
}

func drawPlan(t *rapid.T, depth int) plan {
	p := plan{End: rapid.SampledFrom([]string{"complete", "complete", "complete", "fail", "reject", "error", "return"}).Draw(t, "end")}
	kinds := []string{"ask", "auth", "wait", "work", "child", "child"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	for range rapid.IntRange(0, 3).Draw(t, "turns") {
		a := act{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		if a.Kind == "child" {
			child := drawPlan(t, depth-1)
			a.Child = &child
		}
		p.Do = append(p.Do, a)
	}
	return p
}

// tree is what the agents of random trees have seen.
type tree struct {
	mu        sync.Mutex
	delegated map[string]bool            // task and turn
	outcomes  map[string]string          // task and turn: how the child ended
	answers   map[string]map[string]bool // answer: the tasks that were given it, with the turn
}

// planner does what the plan in the first message of its task says.
func (s *tree) planner(level int) *engine.Spec {
	return &engine.Spec{
		ID: "level" + strconv.Itoa(level), OnInterrupt: engine.InterruptResume,
		Run: agent.Func(func(_ context.Context, t *agent.Turn) error {
			history, err := t.History()
			if err != nil {
				return err
			}
			text := t.Text()
			if len(history) > 0 {
				text = history[0].Text()
			}
			var p plan
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				return fmt.Errorf("%q: %w", text, err)
			}
			turn := t.TaskID + " " + strconv.Itoa(t.Number)
			s.mu.Lock()
			if t.Outcome != nil {
				s.outcomes[turn] = t.Outcome.Delegation + " " + t.Outcome.State.String()
			}
			if t.Cause == agent.CauseMessage && t.Number > 1 {
				if s.answers[t.Text()] == nil {
					s.answers[t.Text()] = map[string]bool{}
				}
				s.answers[t.Text()][turn] = true
			}
			s.mu.Unlock()
			if t.Number > len(p.Do) {
				switch p.End {
				case "fail":
					return t.Fail("failed")
				case "reject":
					return t.Reject("rejected")
				case "error":
					return errors.New("broken")
				case "return":
					return nil
				}
				return t.Complete("done")
			}
			switch a := p.Do[t.Number-1]; a.Kind {
			case "ask":
				return t.Ask("question of "+turn, nil)
			case "auth":
				return t.Authorize("may I, "+turn, "op")
			case "child":
				below, err := json.Marshal(a.Child)
				if err != nil {
					return err
				}
				s.mu.Lock()
				s.delegated[turn] = true
				s.mu.Unlock()
				return t.Delegate("level"+strconv.Itoa(level+1), a2a.Text(string(below)))
			case "work":
				if err := t.Working("on it"); err != nil {
					return err
				}
			}
			return t.Wait(time.Millisecond)
		}),
	}
}

// Whatever trees of tasks do, whoever answers, cancels and dies, every task ends,
// nothing is left open below a task that is over, there are as many tasks as were
// delegated, every answer reaches one turn, and the inbox is empty in the end.
func TestPropertyTrees(t *testing.T) {
	t.Parallel()
	const levels = 5
	s := &tree{delegated: map[string]bool{}, outcomes: map[string]string{}, answers: map[string]map[string]bool{}}
	var specs []*engine.Spec
	for level := range levels {
		specs = append(specs, s.planner(level))
	}
	b := newBench(t, specs...)
	b.bounds, b.claim = engine.DelegationLimits{Depth: levels, Tasks: 1000}, 200*time.Millisecond
	b.close()
	b.open()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt, levels-1)
		cancelAfter := rapid.IntRange(-10, 10).Draw(rt, "cancel") // events; negative: never
		crashAfter := rapid.IntRange(-40, 10).Draw(rt, "crash")
		byMessage := rapid.Bool().Draw(rt, "authorize by message")
		text, err := json.Marshal(p)
		if err != nil {
			rt.Fatal(err)
		}
		sent, err := b.engine.Send(context.Background(), request(specs[0], string(text), atOnce))
		if err != nil {
			rt.Fatal(err)
		}
		id := sent.Task.ID
		answers := b.lead(rt, specs[0], id, cancelAfter, crashAfter, byMessage)
		b.checkTree(rt, s, id, cancelAfter < 0, answers)
	})
}

// lead answers what the root of a tree asks until it is over, and returns the
// answers.
func (b *bench) lead(rt *rapid.T, spec *engine.Spec, id string, cancelAfter, crashAfter int, byMessage bool) (answers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	crashed := false
	for seq, events := int64(0), 0; ; {
		log, err := b.engine.OpenLog(ctx, store.ForAll(), id, seq, true)
		if err != nil {
			rt.Fatal(err)
		}
		for {
			event, err := log.Next(ctx)
			if err != nil {
				if task, gerr := b.engine.Get(context.Background(), store.ForAll(), nil, id, nil); gerr == nil && task.Status.State.Terminal() {
					log.Close()
					return answers
				}
				rt.Fatalf("the root is not over: %v", err)
			}
			seq = event.Seq
			events++
			if events == cancelAfter {
				if _, err := b.engine.Cancel(ctx, store.ForAll(), spec, id, engine.ByCaller); err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
					rt.Fatal(err)
				}
			}
			if events == crashAfter && !crashed {
				crashed = true
				break
			}
			if text := b.react(rt, ctx, spec, id, seq, byMessage); text != "" {
				answers = append(answers, text)
			}
		}
		log.Close()
		b.crash()
		if text := b.react(rt, ctx, spec, id, seq, byMessage); text != "" {
			answers = append(answers, text)
		}
	}
}

// react answers the root when the event is its current status and asks something.
func (b *bench) react(rt *rapid.T, ctx context.Context, spec *engine.Spec, id string, seq int64, byMessage bool) string {
	row, err := b.store.Task(ctx, store.ForAll(), id)
	if err != nil {
		rt.Fatal(err)
	}
	if !row.State.Interrupted() || row.Seq != seq {
		return ""
	}
	page, err := b.store.InboxItems(ctx, store.ForAll(), store.InboxQuery{Task: id, PageSize: 10})
	if err != nil || len(page.Items) != 1 {
		rt.Fatalf("%d items of a task that asks, %v", len(page.Items), err)
	}
	item := page.Items[0]
	if row.State == a2a.StateAuthRequired && !byMessage {
		if item.Grant == "" {
			rt.Fatalf("an item without a grant: %+v", item)
		}
		if _, err := b.engine.Decide(ctx, store.ForAll(), &engine.Decision{Grant: item.Grant, Item: item.ID, Approved: true, By: "carol"}); err != nil {
			rt.Fatalf("decide: %v", err)
		}
		return ""
	}
	q := request(spec, "answer "+messageID(), onTask(id), atOnce, func(q *engine.Request) { q.Item = item.ID })
	if _, err := b.engine.Send(ctx, q); err != nil {
		rt.Fatalf("answer: %v", err)
	}
	return q.Message.Text()
}

func (b *bench) checkTree(rt *rapid.T, s *tree, root string, whole bool, answers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var tasks []store.Delegation
	for open := true; open; {
		page, err := b.store.Delegations(ctx, store.ForAll(), store.DelegationQuery{Root: root, PageSize: 1000})
		if err != nil {
			rt.Fatalf("a task is left open: %v: %+v", err, tasks)
		}
		tasks, open = page.Items, false
		for i := range tasks {
			open = open || !tasks[i].State.Terminal()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delegated := 0
	for turn := range s.delegated {
		task, _, _ := strings.Cut(turn, " ")
		if task == root {
			delegated++
		}
		for i := range tasks {
			if tasks[i].Task == task {
				delegated++
			}
		}
	}
	if whole && delegated != len(tasks) || delegated < len(tasks) {
		rt.Errorf("%d tasks for %d delegations", len(tasks), delegated)
	}
	for i := range tasks {
		d := &tasks[i]
		want := d.Task + " " + d.State.String()
		if got := s.outcomes[d.Parent+" "+strconv.Itoa(d.Turn+1)]; whole && got != want {
			rt.Errorf("the outcome is %q, want %q", got, want)
		}
	}
	if whole {
		for _, a := range answers {
			if len(s.answers[a]) != 1 {
				rt.Errorf("%q went to %v", a, s.answers[a])
			}
		}
	}
	page, err := b.store.InboxItems(ctx, store.ForAll(), store.InboxQuery{Task: root, PageSize: 10})
	if err != nil || len(page.Items) > 0 {
		rt.Errorf("left in the inbox: %+v, %v", page, err)
	}
}
