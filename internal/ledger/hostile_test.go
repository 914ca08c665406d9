package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/store"
)

// A peer that never ends is ended: by its bytes, or by its events, also when they
// come in many turns.
func TestAPeerThatSendsWithoutEnd(t *testing.T) {
	t.Parallel()
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			for i := range 30 {
				task.status(a2a.StateWorking, fmt.Sprintf("%d %s", i, strings.Repeat("x", 100<<10)))
			}
		}
		b := newBench(t, p, func(b *bench) { b.link.ReceivedBytes = 1 << 20 })
		ended(t, b, p, b.send("x"), "received_bytes")
	})
	for name, text := range map[string]string{"the same over and over": "tick", "nothing over and over": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				for range 300 {
					task.status(a2a.StateWorking, text)
				}
			}
			b := newBench(t, p, func(b *bench) { b.link.ReceivedEvents = 250 })
			id := b.send("x")
			ended(t, b, p, id, "received_events")
			if n := b.node.dying.Commits(); n > 40 {
				t.Errorf("%d commits", n)
			}
		})
	}
	t.Run("the same bytes over and over", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			for range 30 {
				task.status(a2a.StateWorking, strings.Repeat("x", 100<<10))
			}
		}
		b := newBench(t, p, func(b *bench) { b.link.ReceivedBytes = 1 << 20 })
		ended(t, b, p, b.send("x"), "received_bytes")
	})
	t.Run("answers to polls that are the same", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, unary)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "tick") }
		b := newBench(t, p, func(b *bench) { b.link.ReceivedEvents = 8 })
		ended(t, b, p, b.send("x"), "received_events")
	})
	t.Run("artifacts that are here already are no more bytes", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, unary)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			task.artifact("quote", false, true, a2a.Text(strings.Repeat("x", 600<<10)))
			task.status(a2a.StateWorking, "0")
		}
		b := newBench(t, p, func(b *bench) { b.link.ReceivedBytes = 1 << 20 })
		id := b.send("x")
		for n := range 3 {
			b.eventually("it is told", func() bool { return strings.Contains(texts(b.get(id)), fmt.Sprint(n)) })
			p.do(func(task *peerTask) { task.status(a2a.StateWorking, fmt.Sprint(n+1)) })
		}
		p.do(func(task *peerTask) { task.status(a2a.StateCompleted, "") })
		b.until(id, a2a.StateCompleted)
	})
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, unary)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "0") }
		b := newBench(t, p, func(b *bench) { b.link.ReceivedEvents = 5 })
		id := b.send("x")
		b.eventually("it has a task", func() bool { return b.row(id).RemoteTask != "" })
		n := 0
		b.eventually("it is ended", func() bool {
			n++
			p.do(func(task *peerTask) {
				if !task.Status.State.Terminal() {
					task.status(a2a.StateWorking, fmt.Sprint(n))
				}
			})
			return b.get(id).Status.State.Terminal()
		})
		ended(t, b, p, id, "received_events")
	})
}

// ended checks that a delegation has failed on a limit and that its peer was told.
func ended(t *testing.T, b *bench, p *faultyPeer, id, limit string) {
	t.Helper()
	task := b.until(id, a2a.StateFailed)
	if text := task.Status.Message.Text(); !strings.Contains(text, "peers.supplier."+limit) {
		t.Errorf("it says %q", text)
	}
	if d := b.row(id); !strings.Contains(d.Error, limit) {
		t.Errorf("the row says %q", d.Error)
	}
	b.eventually("the peer was told to cancel", func() bool { return p.calls("CancelTask") == 1 && b.row(id).Recalled })
}

// What a peer was shown stands nowhere, however it brings it back.
func TestAPeerThatEchoesWhatItWasShown(t *testing.T) {
	t.Parallel()
	const credential = "t0ken-of-the-node"
	redact := func(b *bench) {
		b.link.Redact = func(text string) string { return strings.ReplaceAll(text, credential, "***") }
	}
	t.Run("in what it says", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, unary, pushing)
		secrets := []string{credential}
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			hook := p.hooks[0]
			secrets = append(secrets, hook.Token, hook.Authentication.Credentials, hook.URL)
			all := strings.Join(secrets, " ")
			task.artifact(credential, false, true, a2a.Text(all), a2a.Data(a2a.JSON(`{"a":"`+hook.Token+`"}`)), a2a.Raw([]byte("raw: "+credential), "text/plain", ""))
			task.Artifacts[0].ArtifactID = "echo"
			task.status(a2a.StateFailed, "You sent "+all)
		}
		b := newBench(t, p, redact)
		task := b.until(b.send("x"), a2a.StateFailed)
		clean(t, string(task.AppendJSON(nil)), secrets)
		if raw := task.Artifacts[0].Parts[2].Raw; string(raw) != "raw: ***" {
			t.Errorf("the content is %q", raw)
		}
	})
	t.Run("in errors", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.failAlways("SendStreamingMessage", echoes)
		b := newBench(t, p, redact)
		id := b.send("x")
		task := b.until(id, a2a.StateFailed)
		clean(t, string(task.AppendJSON(nil))+b.row(id).Error, []string{credential})
	})
}

func clean(t *testing.T, text string, secrets []string) {
	t.Helper()
	if !strings.Contains(text, "***") {
		t.Errorf("nothing was cut out of %s", text)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

// An answer that cannot be read is an answer: the message is not in doubt, and the
// delegation ends with the reason.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "single": unary, "stream, 5000": func(*a2a.AgentCard) {}, "single, 5000": unary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, change)
			levels := 180
			if strings.HasSuffix(name, "5000") {
				levels = 5000
			}
			deep := a2a.JSON(strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels))
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				task.status(a2a.StateWorking, "on it")
				task.artifact("deep", false, true, a2a.Data(deep))
			}
			b := newBench(t, p)
			id := b.send("x")
			task := b.until(id, a2a.StateFailed)
			if text := task.Status.Message.Text(); !strings.Contains(text, "levels of nesting") {
				t.Errorf("it says %q", text)
			}
			if d := b.row(id); d.Send != store.SendAccepted {
				t.Errorf("the message is %v", d.Send)
			}
			p.checkSends()
		})
	}
}

// An answer of any size is bounded, and is an answer.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.failAlways("SendMessage", floods)
	p.failAlways("GetTask", floods)
	b := newBench(t, p, func(b *bench) { b.link.Answer = 20 * time.Second })
	id := b.send("x")
	b.eventually("it has ended", func() bool { return b.get(id).Status.State == a2a.StateFailed })
	if d := b.row(id); d.Send != store.SendAccepted || d.RemoteTask != "remote-1" {
		t.Errorf("the row is %+v", d)
	}
	b.eventually("the peer was told", func() bool { return b.row(id).Recalled })
	p.checkSends()
}

// What a peer wants to be answered with need not be a form that can be filled in.
// It is asked all the same, and answered with text.
func TestAFormThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"recursive": `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		"deep":      strings.Repeat(`{"not":`, 80) + "{}" + strings.Repeat("}", 80),
		"large":     `{"title":"` + strings.Repeat("x", 3<<20) + `"}`,
		"elsewhere": `{"$ref":"https://evil.example/schema"}`,
		"pattern":   `{"type":"string","pattern":"(a+)+$"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				if !fresh {
					p.finish(task, "with "+m.Text())
					return
				}
				task.status(a2a.StateInputRequired, "How many?")
				part := a2a.Data(a2a.JSON(schema))
				part.MediaType = agent.SchemaMediaType
				asked := &task.events[len(task.events)-1].StatusUpdate.Status
				asked.Message.Parts = append(asked.Message.Parts, part)
				task.Status = *asked
			}
			b := newBench(t, p)
			id := b.send("bolts")
			asked := b.until(id, a2a.StateInputRequired)
			if !strings.Contains(asked.Status.Message.Text(), "How many?") && !strings.Contains(asked.Status.Message.Text(), "cannot be taken over") {
				t.Errorf("it asks %q", asked.Status.Message.Text())
			}
			if items := b.items(id, false); len(items) != 1 || items[0].Kind != store.InboxQuestion {
				t.Errorf("the inbox has %d items", len(items))
			}
			b.send("100", onTask(id))
			b.quoted(b.until(id, a2a.StateCompleted), "with 100")
			p.checkSends()
		})
	}
}

// After the deadline it is said what is known, and before it somebody is told.
func TestWhatIsKnownAfterTheDeadline(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.fail("SendStreamingMessage", dropBefore)
	p.failAlways("ListTasks", notSupported)
	b := newBench(t, p)
	id := b.send("x", func(q *engine.Request) { q.Delegation.Deadline = time.Now().Add(3 * time.Second) })
	b.eventually("somebody is told in time", func() bool {
		return len(b.items(id, false)) == 1 && !b.get(id).Status.State.Terminal()
	})
	task := b.until(id, a2a.StateFailed)
	if text := task.Status.Message.Text(); !strings.Contains(text, "may be working on it") || !strings.Contains(text, "What went wrong last: ") {
		t.Errorf("it says %q", text)
	}
	b.eventually("the message is lost", func() bool { return b.row(id).Send == store.SendLost })
}

// What only people can mend is told to them at once, and goes on when it is mended.
func TestWhatPeopleHaveToMend(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	var held error = &ledger.SetupError{Peer: "supplier", Err: errors.New("its card waits for approval")}
	b := newBench(t, p, func(b *bench) { b.openErr.Store(&held) })
	id := b.send("x")
	b.eventually("somebody is told", func() bool {
		items := b.items(id, false)
		return len(items) == 1 && strings.Contains(items[0].Text, "waits for approval")
	})
	b.openErr.Store(nil)
	b.quoted(b.until(id, a2a.StateCompleted), "done: x")
	b.eventually("the item is settled", func() bool { return len(b.items(id, false)) == 0 })
}
