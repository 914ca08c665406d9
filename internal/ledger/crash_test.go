package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// story is a delegation from its beginning to its end. It goes on from wherever
// a process that died has left it.
type story struct {
	name string
	card func(*a2a.AgentCard)
	on   func(p *faultyPeer) func(task *peerTask, m *a2a.Message, fresh bool)
	// answers are sent one after the other when the task asks.
	answers []string
	want    string
	cancel  bool // when the peer is at work
	grant   bool // the peer asks for an authorization, and takes decisions
	reply   bool // it answers with a message
	refuse  bool // it does not take the message
	dedupes bool // it takes a message that comes twice for one, and takes it the second time
	slow    bool // it takes its time, so that it is told half as often
}

func stories() []story {
	finish := func(p *faultyPeer) func(*peerTask, *a2a.Message, bool) {
		return func(task *peerTask, m *a2a.Message, fresh bool) { p.finish(task, "quote") }
	}
	ask := func(p *faultyPeer) func(*peerTask, *a2a.Message, bool) {
		return func(task *peerTask, m *a2a.Message, fresh bool) {
			if fresh {
				task.artifact("draft", false, true, a2a.Text("draft"))
				task.status(a2a.StateInputRequired, "How many?")
				return
			}
			task.artifact("draft", false, true, a2a.Text("quote"))
			task.status(a2a.StateCompleted, "")
		}
	}
	slow := func(p *faultyPeer) func(*peerTask, *a2a.Message, bool) {
		return func(task *peerTask, m *a2a.Message, fresh bool) {
			task.status(a2a.StateWorking, "on it")
			task.artifact("quote", false, false, a2a.Text("qu"))
			time.AfterFunc(400*time.Millisecond, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if !task.Status.State.Terminal() {
					task.artifact("quote", true, true, a2a.Text("ote"))
					task.status(a2a.StateCompleted, "")
					p.notify()
				}
			})
		}
	}
	authorize := func(p *faultyPeer) func(*peerTask, *a2a.Message, bool) {
		return func(task *peerTask, m *a2a.Message, fresh bool) {
			if fresh {
				task.status(a2a.StateAuthRequired, "May I?")
				return
			}
			if d, err := a2a.GrantDecisionOf(m.Metadata); err != nil || d == nil || !d.Approved {
				task.status(a2a.StateRejected, "that was no approval")
				return
			}
			p.finish(task, "quote")
		}
	}
	stream := func(*a2a.AgentCard) {}
	return []story{
		{name: "stream", card: stream, on: finish, want: "quote"},
		{name: "single", card: unary, on: finish, want: "quote"},
		{name: "question", card: stream, on: ask, answers: []string{"100"}, want: "quote"},
		{name: "question, single", card: unary, on: ask, answers: []string{"100"}, want: "quote"},
		{name: "quiet", card: stream, on: slow, want: "quote", slow: true},
		{name: "push", card: func(c *a2a.AgentCard) { unary(c); pushing(c) }, on: slow, want: "quote", slow: true},
		{name: "message", card: unary, on: func(p *faultyPeer) func(*peerTask, *a2a.Message, bool) {
			p.answers = "quote"
			return nil
		}, reply: true, want: "quote"},
		{name: "refusal", card: stream, on: finish, refuse: true},
		{name: "refusal, once", card: stream, on: finish, want: "quote", refuse: true, dedupes: true},
		{name: "grant", card: func(c *a2a.AgentCard) {
			c.Capabilities.Extensions = []a2a.AgentExtension{{URI: a2a.GrantExtension}}
		}, on: authorize, grant: true, want: "quote"},
		{name: "cancel", card: stream, on: slow, cancel: true},
	}
}

// Row 137 (b): the process dies at every commit of a story, before and after it
// is made. What the peer has is brought to its end, and nothing is sent twice.
func TestRow137_DeathAtEveryCommit(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		for _, after := range []bool{false, true} {
			if s.slow && after {
				continue // its one pass dies before and after in turns
			}
			t.Run(fmt.Sprintf("%s, after=%t", s.name, after), func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					if died := s.run(t, n, after || s.slow && n%2 == 0); !died || t.Failed() {
						if n < 4 {
							t.Errorf("there were only %d commits", n-1)
						}
						return
					}
				}
			})
		}
	}
}

// run tells the story with a process that dies at its nth commit, and reports
// whether it did.
func (s *story) run(t *testing.T, n int64, after bool) (died bool) {
	t.Helper()
	p := newPeer(t, s.card)
	p.on = s.on(p)
	switch {
	case s.dedupes:
		p.dedupes = true
		p.fail("SendStreamingMessage", refuses)
	case s.refuse:
		p.failAlways("SendStreamingMessage", refuses)
	}
	b := newBench(t, p, func(b *bench) {
		b.stuck, b.link.Quiet, b.link.Deduplicates = 300*time.Millisecond, 150*time.Millisecond, s.dedupes
	})
	first := b.node
	first.dying.DieAt(n, after)
	id := derivedID(n)
	_, err := first.engine.Send(t.Context(), b.request("bolts", func(q *engine.Request) { q.Delegation.ID = id }))
	if err != nil && !first.dying.Died() {
		t.Fatalf("commit %d: send: %v", n, err)
	}
	answered, canceled := 0, false
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if !died && first.dying.Died() {
			died = true
			b.crash()
		}
		row, err := b.node.store.Task(t.Context(), store.ForAll(), id)
		if err != nil {
			if died { // it was never made: the sender was told
				p.checkSends()
				if tasks, _ := p.count(); tasks > 0 {
					t.Errorf("commit %d: the peer has a task that nobody knows of", n)
				}
				return died
			}
			continue
		}
		d := b.row(id)
		switch {
		case row.State.Terminal():
			s.over(b, n, id, canceled)
			return died
		case row.State == a2a.StateInputRequired && answered < len(s.answers) && row.Messages == int64(answered+1):
			if _, err := b.node.engine.Send(t.Context(), b.request(s.answers[answered], onTask(id))); err == nil {
				answered++
			}
		case row.State == a2a.StateAuthRequired && s.grant:
			grants, err := b.node.engine.Grants(t.Context(), store.ForAll(), 10)
			if err == nil && len(grants) == 1 {
				_, _ = b.node.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: true, By: "bob"})
			}
		case row.Messages == int64(answered+2):
			answered++ // its sender was not told
		case s.cancel && d.RemoteTask != "" && !canceled:
			_, err := b.node.engine.Cancel(t.Context(), store.ForAll(), nil, id, engine.ByCaller)
			canceled = err == nil
		case d.Send == store.SendUnknown && died && s.never(b, d):
			p.checkSends()
			return died
		}
		if time.Now().After(deadline) {
			t.Fatalf("commit %d: it does not end: %s\n%+v", n, b.get(id).AppendJSON(nil), d)
		}
		<-tick.C
	}
}

// never reports whether a message is one that has never left the process that
// died, and that this is known for long enough that people were told.
func (s *story) never(b *bench, d *store.Delegation) bool {
	b.peer.mu.Lock()
	_, arrived := b.peer.messages[d.Message]
	b.peer.mu.Unlock()
	if arrived && !s.reply { // a message that was lost on its way is nowhere
		return false
	}
	for _, item := range b.items(d.Task, false) {
		if item.Kind == store.InboxStuck {
			return true
		}
	}
	return false
}

func (s *story) over(b *bench, n int64, id string, canceled bool) {
	b.t.Helper()
	task := b.get(id)
	b.peer.checkSends()
	if s.cancel && task.Status.State == a2a.StateCanceled {
		b.eventually(fmt.Sprintf("commit %d: the peer is told to cancel", n), func() bool {
			b.peer.mu.Lock()
			defer b.peer.mu.Unlock()
			for _, t := range b.peer.tasks {
				if !t.Status.State.Terminal() {
					return false
				}
			}
			return true
		})
		return
	}
	if s.refuse && task.Status.State == a2a.StateFailed || s.refuse && !s.dedupes {
		b.refused(n, task)
		return
	}
	text := ""
	for _, a := range task.Artifacts {
		for _, part := range a.Parts {
			text += part.Text
		}
	}
	artifacts := 1
	if s.reply && task.Status.Message != nil {
		text, artifacts = task.Status.Message.Text(), 0
	}
	if task.Status.State != a2a.StateCompleted || text != s.want && !s.cancel || len(task.Artifacts) != artifacts {
		b.t.Errorf("commit %d: it ends as %s", n, task.AppendJSON(nil))
	}
	if items := b.items(id, false); len(items) != 0 {
		b.t.Errorf("commit %d: the inbox still has %+v", n, items)
	}
}

// refused holds that a task says that its message was not taken, and that the peer
// is not sent it any more.
func (b *bench) refused(n int64, task *a2a.Task) {
	b.t.Helper()
	if task.Status.State != a2a.StateFailed || !strings.Contains(task.Status.Message.Text(), "was not taken") {
		b.t.Errorf("commit %d: it ends as %s", n, task.AppendJSON(nil))
	}
	b.eventually(fmt.Sprintf("commit %d: nothing follows it", n), func() bool {
		jobs, err := b.node.store.Jobs(b.t.Context(), 10, 0)
		return err == nil && len(jobs) == 0
	})
	if tasks, _ := b.peer.count(); tasks != 0 {
		b.t.Errorf("commit %d: the peer that has refused it has a task of it", n)
	}
}

func derivedID(n int64) string { return fmt.Sprintf("01900000-0000-7000-8000-%012d", n) }
