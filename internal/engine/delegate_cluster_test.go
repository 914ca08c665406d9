//go:build postgres

package engine_test

import (
	"context"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bus/bustest"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// row looks at the row of a task until it is as wanted.
func (m *member) row(t *testing.T, id string, wanted func(*store.Task) bool) *store.Task {
	t.Helper()
	for began := time.Now(); ; {
		row, err := m.store.Task(t.Context(), store.ForAll(), id)
		if err == nil && wanted(row) {
			return row
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the row is %+v, %v", row, err)
		}
	}
}

func (m *member) child(t *testing.T, parent string) string {
	t.Helper()
	for began := time.Now(); ; {
		page, err := m.store.Delegations(t.Context(), store.ForAll(), store.DelegationQuery{Root: parent, PageSize: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > 0 {
			return page.Items[0].Task
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("there is no child")
		}
	}
}

func waitsForChild(row *store.Task) bool { return row.Wait == store.WaitChild && row.Lease == 0 }

// A task of one node waits for one that another node has made; its question and
// its answer go from node to node.
func TestChildOnAnotherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		specs := chain()
		nodes := newCluster(t, 2, how, specs...)
		task := nodes[0].send(t, request(specs[0], "b ask", atOnce))
		nodes[0].row(t, task.ID, waitsForChild)
		nodes[1].work(t)
		asked := nodes[0].row(t, task.ID, func(row *store.Task) bool { return row.State == a2a.StateInputRequired })
		nodes[0].work(t)
		done := nodes[0].send(t, request(specs[0], "DAP", onTask(asked.ID)))
		if done.Status.State != a2a.StateCompleted || textOf(done) != "a(b answered DAP)" {
			t.Errorf("%s", done.AppendJSON(nil))
		}
	})
}

// Row 137 (c): the cancel of a task goes down to the node that runs what it waits
// for, through whichever node it comes in.
func TestRow137c_CancelThroughTheWrongNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		stopped := make(chan error, 1)
		endless := &engine.Spec{ID: "endless", Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			_ = turn.Working("on it")
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return ctx.Err()
		})}
		specs := append(chain(), endless)
		nodes := newCluster(t, 3, how, specs...)
		task := nodes[0].send(t, request(specs[0], "endless work", atOnce))
		nodes[0].row(t, task.ID, waitsForChild)
		nodes[1].work(t)
		child := nodes[1].child(t, task.ID)
		nodes[1].row(t, child, func(row *store.Task) bool { return row.State == a2a.StateWorking })
		nodes[2].work(t)
		if _, err := nodes[2].Cancel(t.Context(), alice, nil, task.ID, engine.ByCaller); err != nil {
			t.Fatal(err)
		}
		if reason := <-stopped; reason != agent.ErrCanceled {
			t.Errorf("the turn was stopped by %v", reason)
		}
		got, err := nodes[0].Get(t.Context(), alice, nil, child, nil)
		if err != nil || got.Status.State != a2a.StateCanceled {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// The outcome finds the task that waits for it when its node has died, and its
// turn is an outcome still when the node dies that began it.
func TestOutcomeAfterADeath(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		proceed, begun := make(chan struct{}), make(chan int, 4)
		slow := &engine.Spec{ID: "slow", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			select {
			case <-proceed:
				return turn.Artifact(a2a.Text("slow but sure"))
			case <-ctx.Done():
				return ctx.Err()
			}
		})}
		host := &engine.Spec{ID: "host", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if turn.Number == 1 {
				return turn.Delegate("slow", a2a.Text("x"))
			}
			begun <- turn.Attempt
			if turn.Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			if turn.Cause != agent.CauseOutcome || turn.Outcome == nil {
				return agent.Errorf("the cause is %s", turn.Cause)
			}
			return turn.Artifact(a2a.Text(turn.Outcome.Text()))
		})}
		nodes := newCluster(t, 3, how, host, slow)
		task := nodes[0].send(t, request(host, "go", atOnce))
		nodes[0].row(t, task.ID, waitsForChild)
		nodes[0].store.away.Store(true) // the node that began is gone
		nodes[1].work(t)
		child := nodes[1].child(t, task.ID)
		nodes[1].row(t, child, func(row *store.Task) bool { return row.State == a2a.StateWorking })
		close(proceed)
		if attempt := <-begun; attempt != 1 {
			t.Errorf("attempt %d", attempt)
		}
		nodes[1].store.away.Store(true) // so is the one that has the outcome
		if attempt := <-begun; attempt != 2 {
			t.Errorf("attempt %d", attempt)
		}
		nodes[2].row(t, task.ID, func(row *store.Task) bool { return row.State.Terminal() })
		got, err := nodes[2].Get(t.Context(), alice, nil, task.ID, nil)
		if err != nil || got.Status.State != a2a.StateCompleted || textOf(got) != "slow but sure" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// A turn of a delegation hears of messages and of wakes that other nodes have got.
func TestNewsOfOtherNodes(t *testing.T) {
	t.Parallel()
	heard, begun := make(chan struct{}, 4), make(chan struct{})
	peer := &engine.Spec{
		ID: "peer:p", Peer: "p", Answers: engine.AnswersTask, OnInterrupt: engine.InterruptResume,
		Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
			if turn.Number > 1 {
				return nil
			}
			l, _ := engine.LedgerOf(ctx)
			close(begun)
			for range 2 {
				select {
				case <-l.News():
					heard <- struct{}{}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return turn.Emit(agent.Step{Wait: &agent.Wait{Callback: true}})
		}),
	}
	nodes := newCluster(t, 2, bustest.Faults{}, peer)
	task := nodes[0].send(t, request(peer, "go", atOnce))
	<-begun
	if err := nodes[1].Wake(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	<-heard
	nodes[1].send(t, request(peer, "more", onTask(task.ID), atOnce))
	<-heard
	nodes[1].row(t, task.ID, func(row *store.Task) bool { return row.State == a2a.StateCompleted })
}
