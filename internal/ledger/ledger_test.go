package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/store"
)

func TestADelegationIsDone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*a2a.AgentCard){
		"by stream":                   func(*a2a.AgentCard) {},
		"row 128: by a single answer": unary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, change)
			b := newBench(t, p)
			id := b.send("100 bolts", func(q *engine.Request) { q.Delegation.Ref = "PO-1" })
			b.quoted(b.until(id, a2a.StateCompleted), "done: 100 bolts")
			d := b.row(id)
			if d.Send != store.SendAccepted || d.RemoteTask != "remote-1" || d.RemoteContext != "context-1" || d.RemoteState != a2a.StateCompleted || d.Ref != "PO-1" {
				t.Errorf("the row is %+v", d)
			}
			p.checkSends()
			if name != "by stream" && p.calls("SendStreamingMessage")+p.calls("SubscribeToTask") > 0 {
				t.Error("a peer that does not stream was asked to")
			}
		})
	}
}

func TestAPeerThatAnswersAStreamWithJSON_Row128(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.failAlways("SendStreamingMessage", plainJSON)
	p.failAlways("SubscribeToTask", plainJSON)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
	p.do(func(task *peerTask) { p.finish(task, "late") })
	b.quoted(b.until(id, a2a.StateCompleted), "late")
	p.checkSends()
}

// A peer is only done when it says so.
func TestRow46_SubmittedIsNoAnswer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {}
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it was polled", func() bool { return p.calls("GetTask") >= 2 })
	if s := b.get(id).Status.State; s != a2a.StateWorking {
		t.Errorf("the task is %s while the peer's is SUBMITTED", s)
	}
	p.do(func(task *peerTask) { task.status(a2a.StateWorking, "on it") })
	b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
	p.do(func(task *peerTask) { p.finish(task, "late") })
	b.quoted(b.until(id, a2a.StateCompleted), "late")
	if n := p.calls("SendMessage"); n != 1 {
		t.Errorf("%d SendMessage", n)
	}
}

func TestRow50_ASecondDelegationOfAConversation(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	b := newBench(t, p)
	first := b.until(b.send("one"), a2a.StateCompleted)
	second := b.send("two", func(q *engine.Request) { q.Message.ContextID = first.ContextID })
	b.until(second, a2a.StateCompleted)
	third := b.send("three", func(q *engine.Request) { q.Message.ReferenceTaskIDs = []string{first.ID} })
	b.until(third, a2a.StateCompleted)
	other := b.send("four")
	b.until(other, a2a.StateCompleted)
	for i, want := range []struct{ context, reference string }{{"", ""}, {"context-1", "remote-1"}, {"context-1", "remote-1"}, {"", ""}} {
		m := p.sent[i]
		if m.TaskID != "" || m.ContextID != want.context || strings.Join(m.ReferenceTaskIDs, ",") != want.reference {
			t.Errorf("message %d has the task %q, the context %q and refers to %v", i+1, m.TaskID, m.ContextID, m.ReferenceTaskIDs)
		}
	}
}

func TestRows51And52_AnAnswerReachesTheTaskThatAsked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "single": unary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, change)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				if !fresh {
					p.finish(task, "with "+m.Text())
					return
				}
				schema := a2a.Data(a2a.JSON(`{"type":"object"}`))
				schema.MediaType = agent.SchemaMediaType
				task.status(a2a.StateInputRequired, "Which Incoterm?")
				task.Status.Message.Parts = append(task.Status.Message.Parts, schema)
				task.events[len(task.events)-1].StatusUpdate.Status = task.Status
			}
			b := newBench(t, p)
			id := b.send("bolts")
			asked := b.until(id, a2a.StateInputRequired)
			if parts := asked.Status.Message.Parts; len(parts) != 2 || parts[0].Text != "Which Incoterm?" || parts[1].MediaType != agent.SchemaMediaType {
				t.Errorf("the question is %s", asked.Status.Message.AppendJSON(nil))
			}
			if items := b.items(id, false); len(items) != 1 || items[0].Kind != store.InboxQuestion || items[0].Schema == nil {
				t.Errorf("the inbox has %+v", items)
			}
			b.send("DAP", onTask(id))
			done := b.until(id, a2a.StateCompleted)
			b.quoted(done, "with DAP")
			if done.ContextID != asked.ContextID {
				t.Error("the context has changed")
			}
			if m := p.sent[1]; m.TaskID != "remote-1" || m.ContextID != "context-1" || len(m.ReferenceTaskIDs) != 0 {
				t.Errorf("the answer went out with %+v", m)
			}
			p.checkSends()
		})
	}
}

func TestTheEndsOfAPeer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state a2a.TaskState
		text  string
		want  a2a.TaskState
		say   string
	}{
		"failed, row 129":  {a2a.StateFailed, "credit too low", a2a.StateFailed, "credit too low"},
		"failed silently":  {a2a.StateFailed, "", a2a.StateFailed, "did not say why"},
		"rejected":         {a2a.StateRejected, "not ours", a2a.StateRejected, "not ours"},
		"canceled by them": {a2a.StateCanceled, "sorry", a2a.StateFailed, "canceled the task; nobody here"},
		"asks to log in":   {a2a.StateAuthRequired, "Log in, and send me your password", a2a.StateAuthRequired, "send me your password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(c.state, c.text) }
			b := newBench(t, p)
			task := b.until(b.send("x"), c.want)
			if text := task.Status.Message.Text(); !strings.Contains(text, c.say) {
				t.Errorf("it says %q", text)
			}
			p.checkSends()
		})
	}
}

func TestAMessageOfThePeerCompletesTheTask(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	b := newBench(t, p)
	p.mu.Lock()
	p.answers = "42"
	p.mu.Unlock()
	task := b.until(b.send("x"), a2a.StateCompleted)
	if task.Status.Message == nil || task.Status.Message.Text() != "42" {
		t.Errorf("it is %s", task.AppendJSON(nil))
	}
}

// A peer that cannot be reached gets the message when it can be.
func TestWhatWasNotSentIsSentLater(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{unavailable, tooMany} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.fail("SendStreamingMessage", f)
			b := newBench(t, p)
			id := b.send("x")
			b.eventually("it is unsent", func() bool { d := b.row(id); return d.Send == store.SendUnsent && d.Attempts == 1 })
			b.quoted(b.until(id, a2a.StateCompleted), "done: x")
			p.checkSends()
		})
	}
	t.Run("its card cannot be had", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		away := errors.New("connect: connection refused")
		b := newBench(t, p, func(b *bench) { b.openErr.Store(&away) })
		id := b.send("x")
		b.eventually("it says so", func() bool { return strings.Contains(texts(b.get(id)), "connection refused") })
		b.openErr.Store(nil)
		task := b.until(id, a2a.StateCompleted)
		b.quoted(task, "done: x")
		if n := strings.Count(texts(task), "connection refused"); n != 1 {
			t.Errorf("it says so %d times", n)
		}
	})
	t.Run("it is not configured so that it could work", func(t *testing.T) {
		t.Parallel()
		var never error = &ledger.PeerError{Peer: "supplier", Err: errors.New("there is no such peer")}
		b := newBench(t, newPeer(t), func(b *bench) { b.openErr.Store(&never) })
		if task := b.until(b.send("x"), a2a.StateFailed); !strings.Contains(texts(task), "no such peer") {
			t.Errorf("it says %q", texts(task))
		}
	})
}

// What may have been sent is looked for, and never sent again.
func TestWhatMayHaveBeenSentIsLookedFor(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hangAfter, dropAfter} {
		for _, mode := range []string{"stream", "single"} {
			t.Run(string(f)+", "+mode, func(t *testing.T) {
				t.Parallel()
				p, op := newPeer(t), "SendStreamingMessage"
				if mode == "single" {
					unary(p.card)
					op = "SendMessage"
				}
				p.fail(op, f)
				b := newBench(t, p)
				id := b.send("x")
				b.quoted(b.until(id, a2a.StateCompleted), "done: x")
				if n := p.calls(op); n != 1 {
					t.Errorf("%d sends", n)
				}
				p.checkSends()
			})
		}
	}
}

func TestAMessageThatHasNotArrivedStaysUnknown(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hangBefore, dropBefore, badGateway} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.fail("SendStreamingMessage", f)
			b := newBench(t, p, func(b *bench) { b.stuck = time.Millisecond })
			id := b.send("x")
			b.eventually("it is unknown, and somebody is told", func() bool {
				return b.row(id).Send == store.SendUnknown && len(b.items(id, false)) == 1
			})
			looks := p.calls("ListTasks")
			b.eventually("it looks again", func() bool { return p.calls("ListTasks") > looks+1 })
			if items := b.items(id, false); len(items) != 1 || items[0].Kind != store.InboxStuck {
				t.Errorf("the inbox has %+v", items)
			}
			if _, err := b.node.engine.Cancel(t.Context(), store.ForAll(), nil, id, engine.ByCaller); err != nil {
				t.Fatal(err)
			}
			if n := p.calls("SendStreamingMessage"); n != 1 {
				t.Errorf("%d sends", n)
			}
			b.eventually("the item is settled", func() bool { return len(b.items(id, false)) == 0 })
			p.checkSends()
		})
	}
}

// What went wrong with the send is not hidden by what the look says.
func TestTheCauseOfADoubtStays(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	p.fail("SendMessage", dropBefore)
	p.failAlways("ListTasks", notSupported)
	b := newBench(t, p, func(b *bench) { b.stuck = time.Millisecond })
	id := b.send("x")
	b.eventually("somebody is told", func() bool { return len(b.items(id, false)) == 1 })
	for _, text := range []string{b.row(id).Error, b.items(id, false)[0].Text} {
		if !strings.Contains(text, "SendMessage http") || !strings.Contains(text, ", and ListTasks: the peer answered: ") {
			t.Errorf("it says %q", text)
		}
	}
}

// Row 136: an answer that is late is waited for, on the connection that is open.
func TestRow136_ALateAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "single": unary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, change)
			p.failAlways("ListTasks", notSupported)
			p.fail("SendMessage", answersLate)
			p.fail("SendStreamingMessage", answersLate)
			b := newBench(t, p)
			id := b.send("x")
			b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
			b.quoted(b.until(id, a2a.StateCompleted), "done: x")
			p.checkSends()
		})
	}
}

func TestAPeerThatDeduplicatesGetsTheSameMessageAgain(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hangBefore, dropBefore, dropAfter, hangAfter} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.dedupes = true
			p.fail("SendStreamingMessage", f)
			p.failAlways("ListTasks", notSupported)
			b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
			b.quoted(b.until(b.send("x"), a2a.StateCompleted), "done: x")
			p.checkSends()
			if tasks, _ := p.count(); tasks != 1 {
				t.Errorf("%d tasks at the peer", tasks)
			}
		})
	}
}

func TestAFollowUpIsLookedForInItsTask(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hangAfter, dropAfter} {
		for _, hidden := range []bool{false, true} {
			t.Run(string(f), func(t *testing.T) {
				t.Parallel()
				p := newPeer(t)
				p.forgetful = hidden
				p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
					if fresh {
						task.status(a2a.StateInputRequired, "How many?")
						return
					}
					task.status(a2a.StateWorking, "on it")
				}
				b := newBench(t, p)
				id := b.send("bolts")
				b.until(id, a2a.StateInputRequired)
				p.fail("SendStreamingMessage", f)
				b.send("100", onTask(id))
				b.eventually("it was found", func() bool { d := b.row(id); return d.Number == 2 && d.Send == store.SendAccepted })
				p.do(func(task *peerTask) { p.finish(task, "quote") })
				b.quoted(b.until(id, a2a.StateCompleted), "quote")
				if n := p.calls("SendStreamingMessage"); n != 2 {
					t.Errorf("%d sends", n)
				}
				p.checkSends()
			})
		}
	}
}
