package ledger_test

import (
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// form asks for an answer of a form whose JSON is not written the same way over a
// stream and in an answer.
func form(task *peerTask) {
	task.status(a2a.StateInputRequired, "How many?")
	m := task.Status.Message
	m.Metadata = a2a.JSON("{\n\t\"b\": 1,\n\t\"a\": 2\n}")
	m.Parts = append(m.Parts, a2a.Part{
		Kind: a2a.PartData, MediaType: "application/schema+json", Data: a2a.JSON("{\n\t\"type\": \"object\"\n}"),
	})
}

// A message that has not reached the peer is not taken for delivered because the
// peer's JSON is written in another way.
func TestAnAnswerIsNotLostByTheBytesOfTheQuestion(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]bool{"history": false, "no history": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.dedupes, p.forgetful = true, hidden
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				if fresh {
					form(task)
					return
				}
				p.finish(task, "quote for "+m.Text())
			}
			b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
			id := b.send("bolts")
			b.until(id, a2a.StateInputRequired)
			p.fail("SendStreamingMessage", dropBefore)
			b.send("100", onTask(id))
			b.quoted(b.until(id, a2a.StateCompleted), "quote for 100")
			p.checkSends()
		})
	}
}

// A peer that cannot be sent a message twice is believed when its history shows
// earlier messages and not this one, and when its question is still the same.
func TestAMessageIsNotDeliveredBecauseThePeerMoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hidden bool
		move   func(*peerTask)
	}{
		"it goes on by itself":   {false, func(task *peerTask) { task.status(a2a.StateWorking, "I could not wait") }},
		"it asks something else": {false, func(task *peerTask) { task.status(a2a.StateInputRequired, "Which colour?") }},
		"its JSON has changed": {true, func(task *peerTask) {
			task.Status.Message.Metadata = a2a.JSON(`{"a":2,"b":1}`)
			task.Status.Message.Parts[1].Data = a2a.JSON(`{ "type" : "object" }`)
		}},
		"its message has another id": {true, func(task *peerTask) { task.Status.Message.MessageID = "again" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.forgetful = c.hidden
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { form(task) }
			b := newBench(t, p, func(b *bench) { b.stuck, b.link.PollMax = 100*time.Millisecond, time.Hour })
			id := b.send("bolts")
			b.until(id, a2a.StateInputRequired)
			p.do(c.move)
			p.fail("SendStreamingMessage", dropBefore)
			b.send("100", onTask(id))
			looks := p.calls("GetTask")
			b.eventually("people are told", func() bool {
				d := b.row(id)
				if d.Number == 2 && d.Send == store.SendAccepted {
					t.Fatalf("it counts as delivered: %+v", d)
				}
				for _, item := range b.items(id, false) {
					if item.Kind == store.InboxStuck {
						return p.calls("GetTask") > looks+2
					}
				}
				return false
			})
			p.checkSends()
		})
	}
}

// A poll does not take a task for changed whose JSON is written another way.
func TestAPollIsNotMovedByTheBytesOfJSON(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		task.artifact("draft", false, true, a2a.Part{Kind: a2a.PartData, Data: a2a.JSON("{\n\t\"b\": 1,\n\t\"a\": 2\n}")})
		form(task)
	}
	b := newBench(t, p)
	id := b.send("bolts")
	b.until(id, a2a.StateInputRequired)
	row, err := b.node.store.Task(t.Context(), store.ForAll(), id)
	if err != nil {
		t.Fatal(err)
	}
	turn, polls := row.Turn, p.calls("GetTask")
	b.eventually("it is polled", func() bool { return p.calls("GetTask") > polls+4 })
	if row, err = b.node.store.Task(t.Context(), store.ForAll(), id); err != nil || row.Turn != turn {
		t.Errorf("turn %d, then %d: %v", turn, row.Turn, err)
	}
}

// A peer may make up a new id for the message of its status whenever it is asked:
// it says the same for all that.
func TestAMessageWithANewIDSaysTheSame(t *testing.T) {
	t.Parallel()
	for _, state := range []a2a.TaskState{a2a.StateInputRequired, a2a.StateAuthRequired, a2a.StateWorking} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, unary)
			p.newIDs = true
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(state, "Wait") }
			b := newBench(t, p)
			id := b.send("bolts")
			b.eventually("it has said so", func() bool { return strings.Contains(texts(b.get(id)), "Wait") && b.until(id, state) != nil })
			polls := p.calls("GetTask")
			b.eventually("it is polled", func() bool { return p.calls("GetTask") > polls+8 })
			if said := texts(b.get(id)); strings.Count(said, "Wait") != 1 {
				t.Errorf("it was told more than once: %q", said)
			}
			if items := b.items(id, true); len(items) > 0 {
				t.Errorf("settled: %+v", items)
			}
		})
	}
}
