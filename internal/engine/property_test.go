package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// scripted does what the letters of the newest message say, one step each.
func scripted(ctx context.Context, t *agent.Turn) error {
	for _, letter := range t.Text() {
		var err error
		switch letter {
		case 'w':
			err = t.Working("working")
		case 'a':
			err = t.Artifact(a2a.Text("artifact"))
		case 'q':
			err = t.Ask("question", nil)
		case 'u':
			err = t.Authorize("may I", "op")
		case 't':
			err = t.Wait(time.Millisecond)
		case 's':
			err = t.SetState(a2a.JSON(`{"n":1}`))
		case 'c':
			err = t.Complete("done")
		case 'f':
			err = t.Fail("failed")
		case 'r':
			err = t.Reject("rejected")
		case 'm':
			err = t.Message(a2a.Text("message"))
		case 'e':
			return agent.Errorf("error")
		case 'p':
			panic("panic")
		case 'h':
			<-ctx.Done()
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// legal are the transitions of a task's state (A2A §4.1.3).
var legal = map[a2a.TaskState][]a2a.TaskState{
	a2a.StateUnspecified:   {a2a.StateSubmitted},
	a2a.StateSubmitted:     {a2a.StateWorking, a2a.StateCanceled, a2a.StateFailed},
	a2a.StateWorking:       {a2a.StateWorking, a2a.StateInputRequired, a2a.StateAuthRequired, a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected},
	a2a.StateInputRequired: {a2a.StateWorking, a2a.StateCanceled, a2a.StateFailed},
	a2a.StateAuthRequired:  {a2a.StateWorking, a2a.StateCanceled, a2a.StateFailed},
}

// Whatever agents and clients do, at whatever moment, a task goes through legal
// states only, ends once, and tells everybody the same story.
func TestPropertyStateMachine(t *testing.T) {
	t.Parallel()
	spec := &engine.Spec{
		ID: "scripted", Run: agent.Func(scripted), FirstStepWait: 5 * time.Millisecond, Claims: time.Hour,
		Limits: engine.Limits{Inactivity: 10 * time.Millisecond},
	}
	b := newBench(t, spec)
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.StringMatching(`[wasaw]{0,3}[qutcfrmeph]?`), 1, 6).Draw(rt, "messages")
		cancelAt := rapid.IntRange(-1, len(plan)).Draw(rt, "cancel")
		parallel := rapid.Bool().Draw(rt, "parallel")
		first, err := b.engine.Send(context.Background(), request(spec, plan[0], atOnce))
		if err != nil {
			if plan[0] == "" || a2a.CodeOf(err) != a2a.CodeInternal {
				return
			}
			rt.Fatal(err)
		}
		if first.Task == nil {
			return // a message
		}
		id := first.Task.ID
		var group sync.WaitGroup
		accepted := make([]bool, len(plan))
		for i, text := range plan[1:] {
			act := func() {
				_, err := b.engine.Send(context.Background(), request(spec, text, onTask(id), atOnce))
				accepted[i+1] = err == nil
				if err != nil && a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
					rt.Errorf("message %d: %v", i, err)
				}
			}
			if parallel {
				group.Go(act)
			} else {
				act()
			}
			if cancelAt == i {
				if _, err := b.engine.Cancel(context.Background(), store.ForAll(), spec, id, engine.ByCaller); err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
					rt.Errorf("cancel: %v", err)
				}
			}
		}
		group.Wait()
		if _, err := b.engine.Cancel(context.Background(), store.ForAll(), spec, id, engine.ByCaller); err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
			rt.Errorf("last cancel: %v", err)
		}
		checkStory(rt, b, id, accepted)
	})
}

// checkStory reads the events of a finished task.
func checkStory(rt *rapid.T, b *bench, id string, accepted []bool) {
	row, err := b.store.Task(context.Background(), store.ForAll(), id)
	if err != nil {
		rt.Fatal(err)
	}
	events, err := b.store.Events(context.Background(), row.Key, 0, 1<<30)
	if err != nil {
		rt.Fatal(err)
	}
	state, messages := a2a.StateUnspecified, 0
	rebuilt := a2a.Task{ID: id, ContextID: row.Context, Artifacts: []a2a.Artifact{}}
	var story []string
	for i, e := range events {
		if e.Seq != int64(i+1) {
			rt.Fatalf("event %d has sequence number %d", i+1, e.Seq)
		}
		if e.Kind == store.KindMessage {
			messages++
			var m a2a.Message
			if err := a2a.Unmarshal(e.Body, &m); err != nil {
				rt.Fatal(err)
			}
			rebuilt.History = append(rebuilt.History, m)
			continue
		}
		if state.Terminal() {
			rt.Fatalf("an event after %s: %s", state, e.Body)
		}
		var r a2a.StreamResponse
		if err := a2a.Unmarshal(e.Body, &r); err != nil {
			rt.Fatal(err)
		}
		if u := r.StatusUpdate; u != nil {
			story = append(story, short(u.Status.State))
			if !slices.Contains(legal[state], u.Status.State) {
				rt.Fatalf("%s after %s: %s", u.Status.State, state, strings.Join(story, " "))
			}
			state = u.Status.State
		}
		rebuilt.Apply(&r)
	}
	if !state.Terminal() || row.State != state {
		rt.Fatalf("the events end in %s, the row says %s", state, row.State)
	}
	want := 1
	for _, ok := range accepted {
		if ok {
			want++
		}
	}
	if messages != want || int64(messages) != row.Messages {
		rt.Fatalf("%d messages in the log, %d counted, %d accepted", messages, row.Messages, want)
	}
	if row.Lease != 0 {
		rt.Fatalf("a finished task is leased")
	}
	got := b.get(id)
	if fmt.Sprint(len(got.History), len(got.Artifacts)) != fmt.Sprint(len(rebuilt.History), len(rebuilt.Artifacts)) {
		rt.Fatalf("the task has %d messages and %d artifacts, its events %d and %d", len(got.History), len(got.Artifacts), len(rebuilt.History), len(rebuilt.Artifacts))
	}
}
