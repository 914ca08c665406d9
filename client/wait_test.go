package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// The client returns only when the task is settled, and sends once.
func TestSendAndWaitPolls(t *testing.T) {
	onPipe(t, func(x *exchange) {
		switch {
		case x.op == "SendMessage":
			x.result(taskEvent("t-1", "TASK_STATE_SUBMITTED"))
		case x.n < 3:
			x.result(task("t-1", "TASK_STATE_WORKING"))
		case x.n < 5:
			x.result(task("t-1", "TASK_STATE_UNSPECIFIED"))
		default:
			x.result(task("t-1", "TASK_STATE_COMPLETED"))
		}
		if x.n > 0 && x.params["id"] != "t-1" && x.r.URL.Path != "/agent/tasks/t-1" {
			t.Errorf("asked for %v", x.params)
		}
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		start := time.Now()
		answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{Poll: true})
		if err != nil || answer.Task.Status.State != a2a.StateCompleted {
			t.Fatalf("got %v, %v", answer, err)
		}
		if d := time.Since(start); d < 6*time.Second || d > 12*time.Second { // 1 + 1.5 + 2.25 + 3.4 s and the jitter
			t.Errorf("took %v", d)
		}
	})
}

func TestWaitPollsWithBackoff(t *testing.T) {
	onPipeWithPeer(t, func(x *exchange) {
		switch x.n {
		case 0, 1, 2, 3:
			x.result(task("t-1", "TASK_STATE_WORKING"))
		case 4:
			x.w.Header().Set("Retry-After", "100")
			x.body(503, "text/plain", "later")
		case 5:
			x.frame("") // begins to answer
			x.cut()
		case 6:
			x.w.Header().Set("Retry-After", "1000000")
			x.body(429, "text/plain", "much later")
		default:
			x.result(task("t-1", "TASK_STATE_INPUT_REQUIRED"))
		}
	}, client.Options{}, func(t *testing.T, p *peer, c *client.Client) {
		var polls []string
		got, err := c.Wait(t.Context(), "t-1", client.WaitOptions{
			Poll: true, Interval: 2 * time.Second, MaxInterval: 4 * time.Second,
			OnEvent: func(e *a2a.StreamResponse) { polls = append(polls, brief(e)) },
		})
		if err != nil || got.Status.State != a2a.StateInputRequired {
			t.Fatalf("got %v, %v", got, err)
		}
		if d := cmp.Diff([]string{"task WORKING", "task WORKING", "task WORKING", "task WORKING", "task INPUT_REQUIRED"}, polls); d != "" {
			t.Error(d)
		}
		for i, want := range []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second, 4 * time.Second, 100 * time.Second, 4 * time.Second, 10 * time.Minute} {
			got := p.times[i+1].Sub(p.times[i])
			if got < want*79/100 || got > want*121/100 {
				t.Errorf("pause %d is %v, want %v", i, got, want)
			}
		}
	})
}

func TestWaitGivesUp(t *testing.T) {
	onPipe(t, func(x *exchange) { x.body(503, "text/plain", "later") }, client.Options{}, func(t *testing.T, c *client.Client) {
		_, err := c.Wait(t.Context(), "t-1", client.WaitOptions{Poll: true, MaxFailures: 3})
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeUnavailable}) || !strings.Contains(err.Error(), "after 3 failures") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	onPipe(t, func(x *exchange) { x.result(task("t-1", "TASK_STATE_WORKING")) }, client.Options{}, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := c.Wait(ctx, "t-1", client.WaitOptions{Poll: true})
		if !errors.Is(err, context.DeadlineExceeded) || got == nil || got.Status.State != a2a.StateWorking {
			t.Errorf("got %v, %v", got, err)
		}
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout {
			t.Errorf("got %#v", err)
		}
	})
}

func TestWaitForAnUnknownTask(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.fail(a2a.TaskNotFound("t-1")) })
		_, err := p.client(t, client.Options{}).Wait(t.Context(), "t-1", client.WaitOptions{})
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || p.seen() != "SubscribeToTask GetTask" {
			t.Errorf("got %v after %s", err, p.seen())
		}
	})
}

func TestWaitSubscribes(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.event(artifactEvent("t-1", "a", "x"))
			x.event(statusEvent("t-1", "TASK_STATE_INPUT_REQUIRED"))
			x.hang() // a subscription may stay open here
		})
		got, err := p.client(t, client.Options{}).Wait(t.Context(), "t-1", client.WaitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := &a2a.Task{
			ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateInputRequired},
			Artifacts: []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if p.seen() != "SubscribeToTask" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

// Some agents tell in a subscription again what its first event had already, and
// number no events: what the task has is what they say when they are asked.
// (a2a-sdk, Python.)
func TestWaitAsksForWhatMayHaveComeTwice(t *testing.T) {
	const xy = `,"artifacts":[{"artifactId":"a","parts":[{"text":"x"},{"text":"y"}]}]`
	tests := []struct {
		name  string
		state string // that is told when it is asked; "": it is not known any more
		ids   bool
		want  int // parts
		seen  string
	}{
		{"told again", "TASK_STATE_COMPLETED", false, 2, "SubscribeToTask GetTask"},
		{"not known", "", false, 3, "SubscribeToTask GetTask"},
		{"taken back", "TASK_STATE_WORKING", false, 3, "SubscribeToTask GetTask"},
		{"numbered", "TASK_STATE_COMPLETED", true, 3, "SubscribeToTask"},
	}
	onEach(t, func(t *testing.T, binding string) {
		for _, tt := range tests {
			if tt.ids && binding == a2a.BindingGRPC {
				continue // it has no ids
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, func(x *exchange) {
					switch {
					case x.op == "SubscribeToTask":
						if tt.ids {
							x.frame("id: 1\n")
						}
						x.event(taskEvent("t-1", "TASK_STATE_WORKING", xy))
						x.event(artifactEvent("t-1", "a", "y", `,"append":true`))
						x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
					case tt.state == "":
						x.fail(a2a.TaskNotFound("t-1"))
					default:
						x.result(task("t-1", tt.state, xy))
					}
				})
				got, err := p.client(t, client.Options{}).Wait(t.Context(), "t-1", client.WaitOptions{})
				if err != nil || got.Status.State != a2a.StateCompleted || len(got.Artifacts[0].Parts) != tt.want || p.seen() != tt.seen {
					t.Errorf("got %+v, %v after %s", got, err, p.seen())
				}
			})
		}
	})
}

// Some agents begin the stream of an answer with the task that has asked. (@a2a-js/sdk.)
func TestSendAndWaitReadsPastTheOldQuestion(t *testing.T) {
	asked := taskEvent("t-1", "TASK_STATE_INPUT_REQUIRED")
	tests := []struct {
		name   string
		events []string
		open   bool // the stream stays open
		want   a2a.TaskState
	}{
		{"and the turn", []string{asked, statusEvent("t-1", "TASK_STATE_WORKING"), artifactEvent("t-1", "a", "x"), statusEvent("t-1", "TASK_STATE_COMPLETED")}, true, a2a.StateCompleted},
		{"and an artifact", []string{asked, artifactEvent("t-1", "a", "x"), statusEvent("t-1", "TASK_STATE_COMPLETED")}, true, a2a.StateCompleted},
		{"and another", []string{asked, statusEvent("t-1", "TASK_STATE_INPUT_REQUIRED")}, true, a2a.StateInputRequired},
		{"and the end", []string{asked}, false, a2a.StateInputRequired},
		{"and nothing", []string{asked}, true, a2a.StateInputRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onPipeWithPeer(t, func(x *exchange) {
				for _, e := range tt.events {
					x.event(e)
				}
				if tt.open {
					x.hang()
				}
			}, client.Options{}, func(t *testing.T, p *peer, c *client.Client) {
				began := time.Now()
				m := client.NewMessage(a2a.Text("an answer"))
				m.TaskID = "t-1"
				answer, err := c.SendAndWait(t.Context(), &a2a.SendMessageRequest{Message: m}, client.WaitOptions{})
				if err != nil || answer.Task.Status.State != tt.want || p.seen() != "SendStreamingMessage" {
					t.Errorf("got %+v, %v after %s", answer, err, p.seen())
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestWaitForATaskThatIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			if x.op == "SubscribeToTask" {
				x.fail(a2a.Errorf(a2a.CodeUnsupportedOperation, "The task is over"))
				return
			}
			x.result(task("t-1", "TASK_STATE_FAILED"))
		})
		got, err := p.client(t, client.Options{}).Wait(t.Context(), "t-1", client.WaitOptions{})
		if err != nil || got.Status.State != a2a.StateFailed || p.seen() != "SubscribeToTask GetTask" {
			t.Errorf("got %v, %v after %s", got, err, p.seen())
		}
	})
}

// A stream that is cut is taken up again; one that never says anything is
// replaced by polls. Nothing is sent a second time. (Row 137.)
func TestSendAndWaitSurvivesCuts(t *testing.T) {
	onPipe(t, func(x *exchange) {
		switch x.n {
		case 0: // SendStreamingMessage
			x.frame("id: 1\n")
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.cut()
		case 1: // SubscribeToTask
			if x.op != "SubscribeToTask" || x.r.Header.Get("Last-Event-ID") != "1" && x.peer.binding != a2a.BindingGRPC {
				t.Errorf("got %s with %v", x.op, x.r.Header)
			}
			x.frame("id: 2\n")
			x.event(artifactEvent("t-1", "a", "x"))
			x.cut()
		case 2: // GetTask
			x.result(task("t-1", "TASK_STATE_WORKING"))
		case 3: // SubscribeToTask
			x.body(502, "text/html", "<h1>Bad gateway")
		default: // GetTask
			if x.op != "GetTask" {
				t.Errorf("got %s", x.op)
			}
			state := "TASK_STATE_WORKING"
			if x.n == 6 {
				state = "TASK_STATE_COMPLETED"
			}
			x.result(task("t-1", state))
		}
	}, client.Options{}, func(t *testing.T, c *client.Client) {
		answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if err != nil || answer.Task.Status.State != a2a.StateCompleted {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
}

// Row 137.
func TestSendAndWaitDoesNotSendTwice(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.cut() })
		answer, err := p.client(t, client.Options{}).SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if e, ok := errors.AsType[*client.TransportError](err); !ok || !e.Sent || answer != nil {
			t.Errorf("got %v, %v", answer, err)
		}
		if p.seen() != "SendStreamingMessage" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

func TestSendAndWaitGetsAMessage(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			if x.op == "SendMessage" {
				x.result(agentMessage)
				return
			}
			x.event(agentMessage)
		})
		for _, poll := range []bool{false, true} {
			answer, err := p.client(t, client.Options{}).SendAndWait(t.Context(), hello(), client.WaitOptions{Poll: poll})
			if err != nil || answer.Message.Text() != "hi" {
				t.Errorf("got %v, %v", answer, err)
			}
		}
	})
}

func TestSendAndWaitReportsThePeersError(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.failEvent(a2a.Errorf(a2a.CodePermissionDenied, "no more"))
		})
		answer, err := p.client(t, client.Options{}).SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if !errors.Is(err, &a2a.Error{Code: a2a.CodePermissionDenied}) || answer == nil || answer.Task.ID != "t-1" {
			t.Errorf("got %v, %v", answer, err)
		}
	})
}

// A peer cannot fill the memory with a task that never ends. (Row S13.)
func TestWaitBoundsTheTask(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			chunk := artifactEvent("t-1", "a", strings.Repeat("x", 1000), `,"append":true`)
			for x.r.Context().Err() == nil {
				x.event(chunk)
			}
		})
		answer, err := p.client(t, client.Options{MaxTask: 1 << 20}).SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if !errors.Is(err, client.ErrTooLarge) || answer.Task.ID != "t-1" || p.seen() != "SendStreamingMessage" {
			t.Errorf("got %v after %s", err, p.seen())
		}
	})
}

// The time that a stream asks for passes before it is opened again.
func TestWaitHonoursRetry(t *testing.T) {
	onPipeOf(t, onBoth, func(x *exchange) {
		switch x.n {
		case 0:
			x.frame("retry: 90000\n\n")
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
		case 1:
			x.result(task("t-1", "TASK_STATE_WORKING"))
		case 2:
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		}
	}, client.Options{}, func(t *testing.T, p *peer, c *client.Client) {
		if _, err := c.Wait(t.Context(), "t-1", client.WaitOptions{}); err != nil {
			t.Fatal(err)
		}
		if p.seen() != "SubscribeToTask GetTask SubscribeToTask" || p.times[2].Sub(p.times[1]) != 90*time.Second {
			t.Errorf("the peer got %s at %v", p.seen(), p.times)
		}
	})
}

func TestAccumulator(t *testing.T) {
	t.Parallel()
	chunk := func(text string, isAppend bool) *a2a.StreamResponse {
		return &a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
			TaskID: "t", ContextID: "c", Append: isAppend,
			Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(text)}},
		}}
	}
	status := func(s a2a.TaskState) *a2a.StreamResponse {
		return &a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: s}}}
	}
	tests := []struct {
		name   string
		events []*a2a.StreamResponse
		want   string
		done   bool
	}{
		{"chunks", []*a2a.StreamResponse{chunk("A", false), chunk("B", true), chunk("C", true)}, "ABC", false},
		{"chunk of an unknown artifact", []*a2a.StreamResponse{chunk("A", true), chunk("B", true)}, "AB", false},
		{"the whole at the end", []*a2a.StreamResponse{chunk("A", false), chunk("B", true), chunk("AB", false), status(a2a.StateCompleted)}, "AB", true},
		{"unspecified", []*a2a.StreamResponse{status(a2a.StateUnspecified)}, "", false},
		{"interrupted", []*a2a.StreamResponse{status(a2a.StateAuthRequired)}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var a client.Accumulator
			for _, e := range tt.events {
				if err := a.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			text := ""
			for _, artifact := range a.Task.Artifacts {
				for _, part := range artifact.Parts {
					text += part.Text
				}
			}
			if text != tt.want || a.Done() != tt.done || a.Task.ID != "t" || a.Task.ContextID != "c" {
				t.Errorf("got %q, done %v, task %+v", text, a.Done(), a.Task)
			}
		})
	}
}

func TestFollowUp(t *testing.T) {
	t.Parallel()
	parked := &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateInputRequired}}
	m := client.FollowUp(parked, a2a.Text("x"))
	if m.TaskID != "t" || m.ContextID != "c" || m.ReferenceTaskIDs != nil || m.MessageID == "" || m.Role != a2a.RoleUser {
		t.Errorf("to a parked task: %+v", m)
	}
	parked.Status.State = a2a.StateCompleted
	next := client.FollowUp(parked, a2a.Text("x"))
	if next.TaskID != "" || next.ContextID != "c" || len(next.ReferenceTaskIDs) != 1 || next.ReferenceTaskIDs[0] != "t" || next.MessageID == m.MessageID {
		t.Errorf("after a task: %+v", next)
	}
}
