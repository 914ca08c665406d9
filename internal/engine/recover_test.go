package engine_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

func TestRow58_RecoveryAfterACrash(t *testing.T) {
	t.Parallel()
	var attempts sync.Map
	step := func(resume bool) agent.Func {
		return func(ctx context.Context, turn *agent.Turn) error {
			n, _ := attempts.LoadOrStore(turn.TaskID, new(atomic.Int32))
			if n.(*atomic.Int32).Add(1) == 1 {
				_ = turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a", Parts: []a2a.Part{a2a.Text("begun")}}})
				_ = turn.Flush()
				<-ctx.Done()
				return ctx.Err()
			}
			if turn.Attempt != 2 || turn.Done != 1 {
				return agent.Errorf("attempt %d, done %d", turn.Attempt, turn.Done)
			}
			return turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a", Parts: []a2a.Part{a2a.Text("whole")}, Append: true, Last: true}})
		}
	}
	resumed := &engine.Spec{ID: "resumed", OnInterrupt: engine.InterruptResume, Run: step(true)}
	failed := &engine.Spec{ID: "failed", Run: step(false)}
	fix := fixture()
	b := newBench(t, resumed, failed, fix)
	one, two := b.send(request(resumed, "x", atOnce)), b.send(request(failed, "x", atOnce))
	asked, done := b.send(request(fix, "ask")), b.send(request(fix, "echo kept"))
	for _, task := range []*a2a.Task{one, two} {
		for len(b.get(task.ID).Artifacts) == 0 { // until the chunk is committed
		}
	}
	b.crash()
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), resumed, one.ID, "0")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, sub)
	if got := b.get(one.ID); got.Status.State != a2a.StateCompleted || len(got.Artifacts) != 1 || len(got.Artifacts[0].Parts) != 1 || got.Artifacts[0].Parts[0].Text != "whole" {
		t.Errorf("resumed: %s", got.AppendJSON(nil))
	}
	sub, err = b.engine.Subscribe(t.Context(), store.ForAll(), failed, two.ID, "0")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, sub)
	if got := b.get(two.ID); got.Status.State != a2a.StateFailed || !strings.Contains(got.Status.Message.Text(), "interrupted") {
		t.Errorf("failed: %s", got.AppendJSON(nil))
	}
	if got := b.get(done.ID); got.Artifacts[0].Parts[0].Text != "kept" {
		t.Errorf("done: %s", got.AppendJSON(nil))
	}
	if got := b.send(request(fix, "go on", onTask(asked.ID))); got.Status.State != a2a.StateCompleted {
		t.Errorf("asked: %s", got.AppendJSON(nil))
	}
}

// crash reopens the store as if the process had died: nothing is drained.
func (b *bench) crash() {
	b.t.Helper()
	dead, jobs := b.engine, b.jobs
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
	b.t.Cleanup(func() {
		jobs.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = dead.Stop(ctx) // its store is gone
	})
}

func TestTheEnginesOwnResultsAreNotTheAgents(t *testing.T) {
	t.Parallel()
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		_, err := agent.Once(ctx, turn, "handoff:delegate:1", func(context.Context) (int, error) { return 1, nil })
		if err == nil {
			return nil
		}
		return agent.Errorf("%w", err)
	})}
	b := newBench(t, spec)
	if got := b.send(request(spec, "x")); got.Status.State != a2a.StateFailed || !strings.Contains(textOf(got), "the engine's own") {
		t.Errorf("%s", got.AppendJSON(nil))
	}
}

func TestOnceKeepsAResult(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	spec := &engine.Spec{ID: "a", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		n, err := agent.Once(ctx, turn, "charge", func(context.Context) (int, error) { return int(calls.Add(1)), nil })
		if err != nil {
			return err
		}
		if turn.Attempt == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return turn.Artifact(a2a.Text(strconv.Itoa(n)))
	})}
	b := newBench(t, spec)
	task := b.send(request(spec, "x", atOnce))
	for calls.Load() == 0 {
	}
	row, _ := b.store.Task(t.Context(), store.ForAll(), task.ID)
	for {
		if kept, _ := b.store.Result(t.Context(), row.Key, "charge"); kept != nil {
			break
		}
	}
	b.crash()
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, task.ID, "0")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, sub)
	if got := b.get(task.ID); len(got.Artifacts) != 1 || got.Artifacts[0].Parts[0].Text != "1" || calls.Load() != 1 {
		t.Errorf("%d calls: %s", calls.Load(), got.AppendJSON(nil))
	}
}

func TestRow64_DrainHandsOver(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	spec := &engine.Spec{ID: "a", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Done == 0 {
			effects.Add(1)
			_ = turn.Working("done it")
			_ = turn.Flush()
		}
		if turn.Attempt == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})}
	b := newBench(t, spec)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = b.send(request(spec, "x", atOnce)).ID
	}
	for effects.Load() < 20 {
	}
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, ids[0], "")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	b.close()
	for err == nil {
		_, err = sub.Next(t.Context())
	}
	if !errors.Is(err, engine.ErrDraining) {
		t.Errorf("the stream ended with %v", err)
	}
	b.open()
	for _, id := range ids {
		sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, id, "0")
		if err != nil {
			t.Fatal(err)
		}
		follow(t, sub)
		if got := b.get(id); got.Status.State != a2a.StateCompleted {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
	}
	if effects.Load() != 20 {
		t.Errorf("%d effects", effects.Load())
	}
}
