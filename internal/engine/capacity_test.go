package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// gated asks first; its later turns, and those of other messages, wait at a gate.
func gated(id string, gate <-chan struct{}, began *atomic.Int32) *engine.Spec {
	return &engine.Spec{ID: id, Run: agent.Func(func(ctx context.Context, t *agent.Turn) error {
		if t.Text() == "ask" && t.Number == 1 {
			return t.Ask("what?", nil)
		}
		began.Add(1)
		_ = t.Working()
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})}
}

// A node that is full refuses what it cannot run, and loses nothing that it has
// accepted.
func TestAFullNodeRefusesBeforeItCommits(t *testing.T) {
	t.Parallel()
	gate, began := make(chan struct{}), new(atomic.Int32)
	spec := gated("a", gate, began)
	b := newBench(t, spec)
	b.limit(1, 1)
	asked := b.send(request(spec, "ask"))
	b.send(request(spec, "one", atOnce)) // runs
	b.send(request(spec, "two", atOnce)) // waits
	_, err := b.engine.Send(t.Context(), request(spec, "answer", onTask(asked.ID)))
	if a2a.CodeOf(err) != a2a.CodeResourceExhausted {
		t.Errorf("an answer that cannot be worked on: %v", err)
	}
	if got := b.get(asked.ID); got.Status.State != a2a.StateInputRequired || len(got.History) != 1 {
		t.Errorf("the refused message has left a trace: %s", got.AppendJSON(nil))
	}
	close(gate)
	for {
		got, err := b.engine.Send(t.Context(), request(spec, "answer", onTask(asked.ID)))
		if err == nil {
			if got.Task.Status.State != a2a.StateCompleted {
				t.Errorf("got %s", got.Task.AppendJSON(nil))
			}
			return
		}
		if a2a.CodeOf(err) != a2a.CodeResourceExhausted {
			t.Fatal(err)
		}
	}
}

// The backlog of one agent holds up no other.
func TestAnAgentsLimitIsItsOwn(t *testing.T) {
	t.Parallel()
	gate, began := make(chan struct{}), new(atomic.Int32)
	slow, quick := gated("slow", gate, began), fixture()
	slow.Limits.Concurrent = 1
	b := newBench(t, slow, quick)
	b.limit(2, 100)
	for range 5 {
		b.send(request(slow, "x", atOnce))
	}
	if got := b.send(request(quick, "echo hi")); got.Status.State != a2a.StateCompleted {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	close(gate)
}

// What a stopping node has accepted and not begun is begun by the next one, also
// by an agent whose turns are not resumed.
func TestRow64_WhatWaitedForAWorkerSurvivesAStop(t *testing.T) {
	t.Parallel()
	gate, began := make(chan struct{}), new(atomic.Int32)
	spec := gated("a", gate, began)
	b := newBench(t, spec)
	b.limit(1, 100)
	var ids []string
	for range 4 {
		ids = append(ids, b.send(request(spec, "ask")).ID)
	}
	b.send(request(spec, "busy", atOnce))
	for _, id := range ids {
		b.send(request(spec, "answer", onTask(id), atOnce))
	}
	for began.Load() == 0 {
	}
	b.close()
	close(gate)
	b.open()
	for _, id := range ids {
		s, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, id, "0")
		if err != nil {
			t.Fatal(err)
		}
		follow(t, s)
		if got := b.get(id); got.Status.State != a2a.StateCompleted {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
	}
}

// limit opens the bench again with so many turns and so many waiting.
func (b *bench) limit(turns, queue int) {
	b.t.Helper()
	b.close()
	b.turns, b.queue = turns, queue
	b.open()
}

// Output that could not be read back is refused when it is emitted.
func TestUnreadableOutputIsRefused(t *testing.T) {
	t.Parallel()
	deep := a2a.JSON(strings.Repeat("[", 95) + strings.Repeat("]", 95))
	for name, step := range map[string]agent.Step{
		"deep data":             {Artifact: &agent.Artifact{Parts: []a2a.Part{a2a.Data(deep)}}},
		"broken part metadata":  {Artifact: &agent.Artifact{Parts: []a2a.Part{{Kind: a2a.PartText, Text: "x", Metadata: a2a.JSON(`{"a":`)}}}},
		"array as metadata":     {Artifact: &agent.Artifact{Parts: []a2a.Part{a2a.Text("x")}, Metadata: a2a.JSON(`[]`)}},
		"deep schema":           {Ask: &agent.Ask{Content: *agent.Say("x"), Schema: deep}},
		"broken status details": {Working: &agent.Content{Parts: []a2a.Part{a2a.Text("x")}, Metadata: a2a.JSON(`nope`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := make(chan error, 1)
			spec := &engine.Spec{ID: "a", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
				refused <- turn.Emit(step)
				return turn.Complete("done")
			})}
			b := newBench(t, spec)
			got := b.send(request(spec, "x"))
			if err := <-refused; err == nil {
				t.Error("it was taken")
			}
			if stored := b.get(got.ID); stored.Status.State != a2a.StateCompleted {
				t.Errorf("got %s", stored.AppendJSON(nil))
			}
		})
	}
}

func TestFlushSaysWhatWasDropped(t *testing.T) {
	t.Parallel()
	emitted, flushed, go_ := make(chan error, 1), make(chan error, 1), make(chan struct{})
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(_ context.Context, turn *agent.Turn) error {
		go func() { // outlives its turn, as it should not
			<-go_
			emitted <- turn.Artifact(a2a.Text("late"))
			flushed <- turn.Flush()
		}()
		return turn.Complete("done")
	})}
	b := newBench(t, spec)
	b.send(request(spec, "x"))
	close(go_)
	if err := <-emitted; !errors.Is(err, agent.ErrEnded) {
		t.Errorf("emit after the end: %v", err)
	}
	if err := <-flushed; err != nil {
		t.Errorf("flush with nothing to flush: %v", err)
	}
}

func TestAnAgentThatEndsItsGoroutineFails(t *testing.T) {
	t.Parallel()
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(context.Context, *agent.Turn) error {
		runtime.Goexit()
		return nil
	})}
	b := newBench(t, spec)
	if got := b.send(request(spec, "x")); got.Status.State != a2a.StateFailed {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
}

// An agent that ignores everything does not keep the node from stopping.
func TestAStopIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	spec := &engine.Spec{ID: "a", Run: agent.Func(func(context.Context, *agent.Turn) error {
		<-release
		return nil
	})}
	b := newBench(t, spec)
	task := b.send(request(spec, "x", atOnce))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	b.engine.Drain(ctx)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := b.get(task.ID); got.Status.State != a2a.StateFailed {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	close(release)
}

func TestBusinessKeysAreBounded(t *testing.T) {
	t.Parallel()
	spec := fixture()
	b := newBench(t, spec)
	for _, key := range []string{`"` + strings.Repeat("x", 300) + `"`, `7`, `""`, `null`} {
		q := request(spec, "echo hi", func(q *engine.Request) { q.Message.Metadata = a2a.JSON(`{"idempotencyKey":` + key + `}`) })
		if _, err := b.engine.Send(t.Context(), q); a2a.CodeOf(err) != a2a.CodeInvalidParams || err == nil {
			t.Errorf("%.20s: %v", key, err)
		}
	}
}
