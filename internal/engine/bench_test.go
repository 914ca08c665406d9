package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

func newEngine(b *testing.B, spec *engine.Spec) *engine.Engine {
	b.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "tasks.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := engine.New(engine.Config{Store: st, Node: store.Node{Name: "bench"}, Agents: func(string) *engine.Spec { return spec }})
	if err := e.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// A blocking send of a task with four events, from 32 callers.
func BenchmarkSendTask(b *testing.B) {
	spec := &engine.Spec{ID: "echo", FirstStepWait: 200 * time.Millisecond, Run: agent.Func(func(_ context.Context, t *agent.Turn) error {
		return t.Artifact(a2a.Text(t.Text()))
	})}
	e := newEngine(b, spec)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			response, err := e.Send(context.Background(), &engine.Request{
				Spec: spec, Scope: store.ForOwner("", ""),
				Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("echo hello")}},
			})
			if err != nil || response.Task.Status.State != a2a.StateCompleted {
				b.Fatal(err, response)
			}
		}
	})
}

// A send that a message answers: nothing is written.
func BenchmarkSendMessage(b *testing.B) {
	spec := &engine.Spec{ID: "echo", FirstStepWait: 200 * time.Millisecond, Run: agent.Func(func(_ context.Context, t *agent.Turn) error {
		return t.Message(a2a.Text(t.Text()))
	})}
	e := newEngine(b, spec)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := e.Send(context.Background(), &engine.Request{
				Spec: spec, Scope: store.ForOwner("", ""),
				Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("hello")}},
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// One artifact of many chunks, streamed to a watcher.
func BenchmarkStreamChunks(b *testing.B) {
	const chunks = 1600
	spec := &engine.Spec{ID: "chunks", FirstStepWait: 200 * time.Millisecond, Run: agent.Func(func(_ context.Context, t *agent.Turn) error {
		for i := range chunks {
			if err := t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a", Append: i > 0, Last: i == chunks-1, Parts: []a2a.Part{a2a.Text("0123456789012345678901234567890123456789")}}}); err != nil {
				return err
			}
		}
		return nil
	})}
	e := newEngine(b, spec)
	b.ReportAllocs()
	for b.Loop() {
		s, err := e.Stream(context.Background(), &engine.Request{
			Spec: spec, Scope: store.ForOwner("", ""),
			Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("x")}},
		})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			if _, err := s.Next(context.Background()); err != nil {
				break
			}
			n++
		}
		s.Close()
		if n != chunks+3 {
			b.Fatalf("%d frames", n)
		}
	}
}
