package llm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
)

// plot is a task with a call of a tool, one whose server makes a task of it, work that
// is handed on and asks, and two calls in one answer. It goes by what the conversation
// has, so that it does not matter how often the model is asked.
func plot(r *modelRequest) reply {
	switch n := len(r.results()); n {
	case 0:
		return reply{text: "First the stock.", calls: []call{{"c1", "erp_stock", `{"n":1}`}}}
	case 1:
		return reply{calls: []call{{"", "erp_task", `{"n":2}`}, {"", "erp_order_make", `{"n":3}`}}}
	case 3:
		return reply{calls: []call{{"c4", "ask_helper", `{"message":"ask a quote"}`}}}
	}
	return reply{text: "All done: " + r.last().text()}
}

// questions is a task that asks the user, whose tool asks, and whose call has to be
// approved.
func questions(r *modelRequest) reply {
	switch len(r.results()) {
	case 0:
		return reply{calls: []call{{"c1", "ask_user", `{"question":"How many?"}`}}}
	case 1:
		return reply{calls: []call{{"c2", "erp_ask", `{"n":1}`}, {"c3", "erp_approve", `{"n":2}`}}}
	}
	return reply{text: strings.Join(r.results(), " | ")}
}

// No call is made twice, no delegation is made twice, and the task ends truly, at
// whichever commit the process dies.
func TestDeathAtEveryCommit(t *testing.T) {
	t.Parallel()
	plots := map[string]struct {
		script func(*modelRequest) reply
		judge  func(b *bench, n int64, died bool, got *a2a.Task)
	}{
		"work":      {plot, (*bench).judgeWork},
		"questions": {questions, (*bench).judgeQuestions},
	}
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		for name, p := range plots {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, after=%t", name, after), func(t *testing.T) {
					t.Parallel()
					for n := int64(1); ; n++ {
						b := newBench(t, open(t), "", p.script)
						got, died := b.dieAt(n, after)
						if got != nil {
							b.judge(n, got)
							p.judge(b, n, died, got)
						}
						if !died || t.Failed() {
							if n < 15 {
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

// answers are what the user says to a question.
var answers = map[string]string{"Which Incoterm?": "DAP", "How many?": "400", "Who signs?": "Ann"}

// dieAt runs a task to its end, in a process that dies at the nth commit and the ones
// that follow it. The task is nil when nobody was told of one.
func (b *bench) dieAt(n int64, after bool) (got *a2a.Task, died bool) {
	t := b.t
	b.dying.DieAt(n, after)
	q := b.request("", a2a.Text("buy"))
	q.Config.ReturnImmediately = true
	q.ID = fmt.Sprintf("n-%d", n)
	_, err := b.engine.Send(t.Context(), q)
	if err != nil && !b.dying.Died() {
		t.Fatalf("commit %d: %v", n, err)
	}
	told := err == nil
	answered := map[string]bool{}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // for what only the store can tell
		if !died && b.dying.Died() {
			died = true
			b.crash()
		}
		all := 100
		got, err := b.engine.Get(t.Context(), b.scope(), nil, q.ID, &all)
		switch {
		case err != nil && !told && died:
			return nil, died
		case err != nil || !died && b.dying.Died():
		case got.Status.State == a2a.StateInputRequired && !answered[said(got)]:
			m := b.request(q.ID, a2a.Text(answers[said(got)]))
			m.Message.MessageID = q.ID + said(got)
			m.Config.ReturnImmediately = true
			_, err := b.engine.Send(t.Context(), m)
			answered[said(got)] = err == nil
		case got.Status.State == a2a.StateAuthRequired:
			if grants, err := b.engine.Grants(t.Context(), b.scope(), 10); err == nil && len(grants) == 1 {
				_, _ = b.engine.Decide(t.Context(), b.scope(), &engine.Decision{Grant: grants[0].ID, Approved: true, By: "boss"}) // tried until it is heard
			}
		case got.Status.State.Terminal():
			return got, died
		}
		if time.Now().After(deadline) {
			t.Fatalf("commit %d: it does not end: %s", n, got.AppendJSON(nil))
		}
	}
}

// judge says what is wrong with any task that is over.
func (b *bench) judge(n int64, got *a2a.Task) {
	b.t.Helper()
	if again := b.tools.twice(); again != "" {
		b.t.Errorf("commit %d: %s was done twice", n, again)
	}
	if got.Status.State != a2a.StateCompleted {
		b.t.Errorf("commit %d: got %s", n, got.AppendJSON(nil))
	}
	users := 0
	asked := b.model.asked()
	for i := range asked[len(asked)-1].Messages {
		if asked[len(asked)-1].Messages[i].Role == "user" {
			users++
		}
	}
	if users != 1 {
		b.t.Errorf("commit %d: the model has %d messages of the user", n, users)
	}
	for i, r := range asked {
		if i > 0 && len(r.Messages) < len(asked[i-1].Messages) {
			b.t.Errorf("commit %d: the conversation has lost messages", n)
		}
	}
}

func (b *bench) judgeQuestions(n int64, died bool, got *a2a.Task) {
	b.t.Helper()
	want := []string{"400", `for {"who":{"action":"accept","content":{"name":"Ann"}}}`, `approve of {"n":2}`}
	results := strings.Split(answerOf(got), " | ")
	if len(results) != len(want) {
		b.t.Errorf("commit %d: the model has the results %q", n, results)
		return
	}
	unknown := 0
	for i := range want {
		if died && strings.HasPrefix(results[i], "Outcome unknown") && i > 0 {
			unknown++
		} else if results[i] != want[i] {
			b.t.Errorf("commit %d: the model was told %q, want %q", n, results[i], want[i])
		}
	}
	if unknown > 1 {
		b.t.Errorf("commit %d: %d outcomes are unknown", n, unknown)
	}
}

func (b *bench) judgeWork(n int64, died bool, got *a2a.Task) {
	b.t.Helper()
	asked := b.model.asked()
	results := asked[len(asked)-1].results()
	if len(results) != 4 {
		b.t.Errorf("commit %d: the model has the results %q", n, results)
		return
	}
	unknown := 0
	for i, tool := range []string{"stock", "task", "order.make"} {
		called, result := b.tools.count(tool), results[i]
		if strings.HasPrefix(result, "Outcome unknown") {
			unknown++
			continue
		}
		if called != 1 || !strings.Contains(result, fmt.Sprintf(`"n":%d`, i+1)) && result != "counted" {
			b.t.Errorf("commit %d: %s was called %d times, and the model was told %q", n, tool, called, result)
		}
	}
	if unknown > 1 || unknown > 0 && !died {
		b.t.Errorf("commit %d: %d outcomes are unknown", n, unknown)
	}
	if !strings.HasSuffix(results[3], "quote for DAP") {
		b.t.Errorf("commit %d: the delegation came to %q", n, results[3])
	}
	if text := answerOf(got); text != "All done: "+results[3] {
		b.t.Errorf("commit %d: the answer is %q", n, text)
	}
	if !slices.ContainsFunc(got.History, func(m a2a.Message) bool { return m.Text() == "DAP" }) {
		b.t.Errorf("commit %d: the answer to the question is not in the history", n)
	}
}
