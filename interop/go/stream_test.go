package interop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

func TestStreamBeginsWithTheTask(t *testing.T) {
	eachBinding(t, operations{opStream}, func(t *testing.T, p *peer) {
		for range 20 {
			events := p.stream(text("echo hello"))
			if len(events) != 4 { // SUBMITTED, WORKING, an artifact, COMPLETED
				t.Fatalf("the stream has %d events, want 4: %v", len(events), events)
			}
			task, ok := events[0].(*a2a.Task)
			if !ok {
				t.Fatalf("the first event is a %T, want the task", events[0])
			}
			for _, event := range events {
				if info := event.TaskInfo(); info.TaskID != task.ID || info.ContextID != task.ContextID {
					t.Fatalf("an event belongs to %+v, not to task %s", info, task.ID)
				}
			}
			if textOf(events) != "hello" || lastState(t, events) != a2a.TaskStateCompleted {
				t.Fatalf("the stream says %q and ended with %s", textOf(events), lastState(t, events))
			}
		}
	})
}

func TestBurstArrivesInOrder(t *testing.T) {
	eachBinding(t, operations{opStream}, func(t *testing.T, p *peer) {
		events := p.stream(text("burst 200"))
		if got, want := textOf(events), numbers(200); got != want {
			t.Errorf("the chunks are %q", got)
		}
		chunks := 0
		for _, event := range events {
			if e, ok := event.(*a2a.TaskArtifactUpdateEvent); ok {
				if (chunks > 0) != e.Append {
					t.Errorf("chunk %d has append %v", chunks, e.Append)
				}
				chunks++
			}
		}
		if chunks != 200 {
			t.Errorf("%d chunks, want 200", chunks)
		}
		if got := artifactText(p.get(events[0].TaskInfo().TaskID, nil)); got != textOf(events) {
			t.Error("the task has another artifact than its stream")
		}
	})
}

func TestStreamShowsWorkAsItHappens(t *testing.T) {
	eachBinding(t, operations{opStream}, func(t *testing.T, p *peer) {
		began := time.Now()
		var first, last time.Duration
		count := 0
		for event, err := range p.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: text("slow 2")}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := event.(*a2a.TaskArtifactUpdateEvent); ok {
				if count++; count == 1 {
					first = time.Since(began)
				}
			}
			last = time.Since(began)
		}
		if count != 20 {
			t.Errorf("%d chunks, want 20", count)
		}
		if last-first < time.Second {
			t.Errorf("the chunks came together: the first after %s, the last after %s", first, last)
		}
	})
}

func TestStreamEndsWithAQuestion(t *testing.T) {
	eachBinding(t, operations{opStream, opAnswer}, func(t *testing.T, p *peer) {
		events := p.stream(text("ask"))
		if got := lastState(t, events); got != a2a.TaskStateInputRequired {
			t.Fatalf("the stream ended with %s", got)
		}
		answer := a2a.NewMessageForTask(a2a.MessageRoleUser, events[0], a2a.NewTextPart("EXW"))
		events = p.stream(answer)
		if got := lastState(t, events); got != a2a.TaskStateCompleted {
			t.Errorf("the second stream ended with %s", got)
		}
	})
}

func TestSubscribeToARunningTask(t *testing.T) {
	eachBinding(t, operations{opSubscribe}, func(t *testing.T, p *peer) {
		task := p.send(text("slow 2"), immediately)
		events := collect(t, p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}))
		snapshot, ok := events[0].(*a2a.Task)
		if !ok {
			t.Fatalf("the first event is a %T, want the task", events[0])
		}
		if got := artifactText(snapshot) + textOf(events); strings.Count(got, "chunk") != 20 {
			t.Errorf("snapshot and events have %d chunks, want 20", strings.Count(got, "chunk"))
		}
		if got := lastState(t, events); got != a2a.TaskStateCompleted {
			t.Errorf("the subscription ended with %s", got)
		}
	})
}

func TestSubscribeAfterACut(t *testing.T) {
	eachBinding(t, operations{opSubscribe}, func(t *testing.T, p *peer) {
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		event, err := firstOf(p.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: text("slow 2")}))
		cut()
		if err != nil {
			t.Fatal(err)
		}
		events := collect(t, p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: event.TaskInfo().TaskID}))
		snapshot, ok := events[0].(*a2a.Task)
		if !ok {
			t.Fatalf("the first event is a %T, want the task", events[0])
		}
		if got := strings.Count(artifactText(snapshot)+textOf(events), "chunk"); got != 20 {
			t.Errorf("snapshot and events have %d chunks, want 20", got)
		}
	})
}

func TestSubscribeToAParkedTask(t *testing.T) {
	eachBinding(t, operations{opSubscribe, opAnswer}, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		var events []a2a.Event
		for event, err := range p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				t.Fatal(err)
			}
			if events = append(events, event); len(events) == 1 {
				snapshot, ok := event.(*a2a.Task)
				if !ok {
					t.Fatalf("the first event is a %T, want the task", event)
				}
				wantState(t, snapshot, a2a.TaskStateInputRequired)
				p.send(a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("go")))
			}
		}
		if got := lastState(t, events); got != a2a.TaskStateCompleted {
			t.Errorf("the subscription ended with %s", got)
		}
	})
}

func TestDisconnectCancelsNothing(t *testing.T) {
	eachBinding(t, operations{opStream}, func(t *testing.T, p *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		event, err := firstOf(p.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: text("slow 1")}))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		done := p.await(event.TaskInfo().TaskID, a2a.TaskStateCompleted)
		if got := strings.Count(artifactText(done), "chunk"); got != 10 {
			t.Errorf("%d chunks, want 10", got)
		}
	})
}
