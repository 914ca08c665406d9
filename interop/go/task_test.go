package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
)

func TestCardIsResolvedFromTheAddressOfTheAgent(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		record(t, binding, operations{opCard})
	}
	card := resolve(t, fixture)
	if card.Name != "Fixture" || len(card.Skills) != 1 || card.Skills[0].ID != "fixture" {
		t.Errorf("card %q has the skills %+v", card.Name, card.Skills)
	}
	if !card.Capabilities.Streaming {
		t.Errorf("the capabilities are %+v", card.Capabilities)
	}
	var have []a2a.TransportProtocol
	for _, i := range card.SupportedInterfaces {
		if i.ProtocolVersion != "1.0" {
			t.Errorf("interface %s has the version %s", i.URL, i.ProtocolVersion)
		}
		have = append(have, i.ProtocolBinding)
	}
	if diff := cmp.Diff(bindings, have); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

func TestBlockingSendReturnsTheFinishedTask(t *testing.T) {
	eachBinding(t, operations{opSend}, func(t *testing.T, p *peer) {
		task := p.send(text("echo hello"))
		wantState(t, task, a2a.TaskStateCompleted)
		if artifactText(task) != "hello" {
			t.Errorf("the artifacts say %q", artifactText(task))
		}
		if task.ID == "" || task.ContextID == "" || task.Status.Timestamp == nil {
			t.Errorf("the task is incomplete: %+v", task)
		}
	})
}

func TestImmediateSendReturnsATaskUnderWay(t *testing.T) {
	eachBinding(t, operations{opImmediate, opGet}, func(t *testing.T, p *peer) {
		task := p.send(text("slow 1"), immediately)
		if s := task.Status.State; s != a2a.TaskStateSubmitted && s != a2a.TaskStateWorking {
			t.Errorf("the task is %s", s)
		}
		done := p.await(task.ID, a2a.TaskStateCompleted)
		if got := strings.Count(artifactText(done), "chunk"); got != 10 {
			t.Errorf("%d chunks, want 10", got)
		}
	})
}

func TestMessageOnlyAnswerMakesNoTask(t *testing.T) {
	eachBinding(t, operations{opMessage}, func(t *testing.T, p *peer) {
		q := text("message hi")
		q.ContextID = "c-" + q.ID
		result, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: q})
		if err != nil {
			t.Fatal(err)
		}
		m, ok := result.(*a2a.Message)
		if !ok {
			t.Fatalf("the answer is a %T, want a message", result)
		}
		if m.Role != a2a.MessageRoleAgent || m.TaskID != "" || m.ContextID != q.ContextID || m.Parts[0].Text() != "hi" {
			t.Errorf("the message is %+v", m)
		}
		events := p.stream(text("message hi"))
		if len(events) != 1 {
			t.Fatalf("the stream has %d events, want the message alone", len(events))
		}
		if _, ok := events[0].(*a2a.Message); !ok {
			t.Errorf("the stream has a %T, want a message", events[0])
		}
	})
}

func TestFollowUpKeepsTaskAndContext(t *testing.T) {
	eachBinding(t, operations{opAnswer}, func(t *testing.T, p *peer) {
		asked := p.send(text("ask"))
		wantState(t, asked, a2a.TaskStateInputRequired)
		if m := asked.Status.Message; m == nil || m.TaskID != asked.ID || m.ContextID != asked.ContextID {
			t.Errorf("the question does not belong to its task: %+v", m)
		}
		answer := a2a.NewMessageForTask(a2a.MessageRoleUser, asked, a2a.NewTextPart("EXW"))
		done := p.send(answer)
		wantState(t, done, a2a.TaskStateCompleted)
		if done.ID != asked.ID || done.ContextID != asked.ContextID {
			t.Errorf("task %s in %s became %s in %s", asked.ID, asked.ContextID, done.ID, done.ContextID)
		}
		if artifactText(done) != "EXW" {
			t.Errorf("the artifacts say %q", artifactText(done))
		}
	})
}

func TestAuthorizationIsWaitedForAndAMessageGoesOn(t *testing.T) {
	eachBinding(t, operations{opAnswer}, func(t *testing.T, p *peer) {
		task := p.send(text("auth"))
		wantState(t, task, a2a.TaskStateAuthRequired)
		done := p.send(a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("on")))
		wantState(t, done, a2a.TaskStateCompleted)
	})
}

func TestWaysToFail(t *testing.T) {
	for trigger, want := range map[string]a2a.TaskState{
		"fail": a2a.TaskStateFailed, "latefail": a2a.TaskStateFailed, "reject": a2a.TaskStateRejected,
	} {
		t.Run(trigger, func(t *testing.T) {
			eachBinding(t, operations{opSend, opStream, opGet}, func(t *testing.T, p *peer) {
				task := p.send(text(trigger))
				wantState(t, task, want)
				if task.Status.Message == nil {
					t.Error("the task does not say why")
				}
				wantState(t, p.get(task.ID, nil), want)
				if got := lastState(t, p.stream(text(trigger))); got != want {
					t.Errorf("the stream ended with %s, want %s", got, want)
				}
			})
		})
	}
}

func TestHistoryLength(t *testing.T) {
	eachBinding(t, operations{opGet, opSend}, func(t *testing.T, p *peer) {
		task := p.send(text("ask"))
		p.send(a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("answer")))
		number := func(n int) *int { return &n }
		all := p.get(task.ID, nil).History
		if len(all) != 3 { // the message, the question, the answer
			t.Fatalf("the history has %d messages, want 3", len(all))
		}
		if got := p.get(task.ID, number(0)).History; len(got) != 0 {
			t.Errorf("historyLength 0 gave %d messages", len(got))
		}
		if diff := cmp.Diff(all[1:], p.get(task.ID, number(2)).History); diff != "" {
			t.Errorf("historyLength 2 is not the last two (-want +got):\n%s", diff)
		}
		if got := p.get(task.ID, number(99)).History; len(got) != 3 {
			t.Errorf("historyLength 99 gave %d messages", len(got))
		}
		sent := p.send(text("echo x"), func(c *a2a.SendMessageConfig) { c.HistoryLength = number(0) })
		if len(sent.History) != 0 {
			t.Errorf("a send with historyLength 0 gave %d messages", len(sent.History))
		}
	})
}

func TestListTasks(t *testing.T) {
	eachBinding(t, operations{opList}, func(t *testing.T, p *peer) {
		contextID := a2a.NewContextID()
		in := func(s string) *a2a.Message {
			m := text(s)
			m.ContextID = contextID
			return m
		}
		var want []a2a.TaskID // newest status first
		for i := range 5 {
			want = append([]a2a.TaskID{p.send(in(fmt.Sprintf("echo %d", i))).ID}, want...)
		}
		asked := p.send(in("ask"))
		want = append([]a2a.TaskID{asked.ID}, want...)

		var have []a2a.TaskID
		pages, token := 0, ""
		for {
			page, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: contextID, PageSize: 4, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			if page.TotalSize != 6 || page.PageSize != 4 {
				t.Errorf("totalSize %d and pageSize %d, want 6 and 4", page.TotalSize, page.PageSize)
			}
			for _, task := range page.Tasks {
				have = append(have, task.ID)
				if len(task.Artifacts) != 0 {
					t.Error("an item has artifacts that were not asked for")
				}
			}
			pages++
			if token = page.NextPageToken; token == "" {
				break
			}
		}
		if diff := cmp.Diff(want, have); diff != "" || pages != 2 {
			t.Errorf("%d pages (-want +got):\n%s", pages, diff)
		}

		filtered, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{
			ContextID: contextID, Status: a2a.TaskStateInputRequired, IncludeArtifacts: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(filtered.Tasks) != 1 || filtered.Tasks[0].ID != asked.ID {
			t.Errorf("the filter by state found %d tasks", len(filtered.Tasks))
		}
		_, err = p.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: contextID, PageToken: "junk"})
		wantInvalid(t, p, err)
	})
}

// The protocol's name for the filter is statusTimestampAfter. Over HTTP+JSON
// this client calls it lastUpdatedAfter, an unknown parameter, which is ignored
// as the protocol wants it (A2A §5.7).
func TestListTasksByTime(t *testing.T) {
	eachBinding(t, operations{opList}, func(t *testing.T, p *peer) {
		m := text("echo x")
		m.ContextID = a2a.NewContextID()
		p.send(m)
		future := time.Now().Add(time.Hour)
		page, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: m.ContextID, StatusTimestampAfter: &future})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if p.binding == a2a.TransportProtocolHTTPJSON {
			p.cannot("filter a list by time: it sends the name of an earlier draft")
			want = 1
		}
		if len(page.Tasks) != want {
			t.Errorf("%d tasks, want %d", len(page.Tasks), want)
		}
	})
}

func TestCancel(t *testing.T) {
	eachBinding(t, operations{opCancel}, func(t *testing.T, p *peer) {
		task := p.send(text("slow 30"), immediately)
		for range 2 { // a second cancel returns the canceled task
			canceled, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, canceled, a2a.TaskStateCanceled)
		}
		wantState(t, p.get(task.ID, nil), a2a.TaskStateCanceled)

		parked := p.send(text("ask"))
		canceled, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: parked.ID})
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, canceled, a2a.TaskStateCanceled)
	})
}

func TestCancelOfAStubbornAgentStands(t *testing.T) {
	eachBinding(t, operations{opCancel}, func(t *testing.T, p *peer) {
		task := p.send(text("stubborn"), immediately)
		canceled, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, canceled, a2a.TaskStateCanceled)
		// The agent goes on for 3 s and then tries to complete. A task that is
		// started after it and takes longer shows that this time is over.
		wantState(t, p.send(text("slow 4")), a2a.TaskStateCompleted)
		after := p.get(task.ID, nil)
		wantState(t, after, a2a.TaskStateCanceled)
		if len(after.Artifacts) != 0 {
			t.Error("an artifact came after the cancel")
		}
	})
}
