package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// plainly is a sealer that leaves values as they are.
type plainly struct{}

func (plainly) Seal(b []byte) ([]byte, error) { return b, nil }
func (plainly) Open(b []byte) ([]byte, error) { return b, nil }

// keyless is a sealer whose key is another one. It tells when it was asked.
type keyless struct {
	plainly
	asked chan struct{}
}

func (k keyless) Open([]byte) ([]byte, error) {
	select {
	case k.asked <- struct{}{}:
	default:
	}
	return nil, store.ErrUnknownKey
}

// An interrupted turn whose grant was sealed with a key that is missing waits for
// the key.
func TestGrantWaitsForItsKey(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	spec := &engine.Spec{ID: "payer", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		switch {
		case turn.Grant == nil:
			return turn.Authorize("May I?", "pay")
		case string(turn.Grant.Data) != `"card"`:
			return agent.Errorf("the grant has the data %q", turn.Grant.Data)
		case turn.Attempt == 1:
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})}
	b := newBench(t, spec)
	b.close()
	b.sealer = plainly{}
	b.open()
	task := b.send(request(spec, "pay"))
	grants, err := b.engine.Grants(t.Context(), store.ForAll(), 1)
	if err != nil || len(grants) != 1 {
		t.Fatalf("%v, %v", grants, err)
	}
	if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: true, Data: a2a.JSON(`"card"`), By: "carol"}); err != nil {
		t.Fatal(err)
	}
	<-begun
	b.close()

	missing := keyless{asked: make(chan struct{})}
	b.sealer = missing
	b.open()
	for range 2 { // the second time, the first is over
		select {
		case <-missing.asked:
		case <-time.After(20 * time.Second):
			t.Fatalf("the turn is not tried again: %s", b.get(task.ID).AppendJSON(nil))
		}
	}
	if got := b.get(task.ID); got.Status.State != a2a.StateWorking {
		t.Errorf("without the key: %s", got.AppendJSON(nil))
	}
	b.close()

	b.sealer = plainly{}
	b.open()
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), spec, task.ID, "0")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, sub)
	if got := b.get(task.ID); got.Status.State != a2a.StateCompleted {
		t.Errorf("with the key: %s", got.AppendJSON(nil))
	}
}

// locked is a sealer whose key is another one, and that counts how often it was
// asked.
type locked struct {
	plainly
	asked *atomic.Int64
}

func (l locked) Open([]byte) ([]byte, error) {
	l.asked.Add(1)
	return nil, store.ErrUnknownKey
}

// However many tasks wait for a key, they are tried now and then only, and others
// are recovered.
func TestManyTasksThatWaitForAKey(t *testing.T) {
	t.Parallel()
	const tasks = 510 // more than are looked at at once
	begun := make(chan struct{}, tasks+1)
	payer := &engine.Spec{ID: "payer", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Grant == nil {
			return turn.Authorize("May I?", "pay")
		}
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})}
	plain := &engine.Spec{ID: "plain", OnInterrupt: engine.InterruptResume, Run: agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		if turn.Attempt > 1 {
			return nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})}
	b := newBench(t, payer, plain)
	b.close()
	b.sealer, b.turns = plainly{}, 2*tasks
	b.open()
	var sending sync.WaitGroup
	for range tasks {
		sending.Go(func() {
			response, err := b.engine.Send(t.Context(), request(payer, "pay"))
			if err != nil || response.Task.Status.State != a2a.StateAuthRequired {
				t.Errorf("%+v, %v", response, err)
			}
		})
	}
	sending.Wait()
	grants, err := b.engine.Grants(t.Context(), store.ForAll(), 2*tasks)
	if err != nil || len(grants) != tasks {
		t.Fatalf("%d grants, %v", len(grants), err)
	}
	var deciding sync.WaitGroup
	for _, g := range grants {
		deciding.Go(func() {
			if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: g.ID, Approved: true, Data: a2a.JSON(`1`), By: "carol"}); err != nil {
				t.Error(err)
			}
		})
	}
	deciding.Wait()
	last := b.send(request(plain, "x", atOnce))
	for range tasks + 1 {
		<-begun
	}
	b.close()

	asked, began := &atomic.Int64{}, time.Now()
	b.sealer = locked{asked: asked}
	b.open()
	sub, err := b.engine.Subscribe(t.Context(), store.ForAll(), plain, last.ID, "0")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, sub)
	if got := b.get(last.ID); got.Status.State != a2a.StateCompleted {
		t.Errorf("a task that waits for nothing: %s", got.AppendJSON(nil))
	}
	const lease = 200 * time.Millisecond
	if most := tasks * (2 + int64(time.Since(began)/lease)); asked.Load() > most {
		t.Errorf("the key was asked for %d times in %v", asked.Load(), time.Since(began))
	}
}
