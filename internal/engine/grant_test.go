package engine_test

import (
	"context"
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
