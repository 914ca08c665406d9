package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/store"
)

// Row 137 (a): a stream that is cut is gone on with, and nothing is sent again.
func TestRow137_ACutStream(t *testing.T) {
	t.Parallel()
	for name, subscribe := range map[string]fault{"subscribed to again": "", "polled": notSupported} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.fail("SendStreamingMessage", cutStream)
			p.failAlways("SubscribeToTask", subscribe)
			p.fail("GetTask", tooMany)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				task.status(a2a.StateWorking, "on it")
				task.artifact("quote", false, false, a2a.Text("100 bolts "))
			}
			b := newBench(t, p)
			id := b.send("x")
			b.eventually("it goes on", func() bool { return len(b.get(id).Artifacts) == 1 })
			p.do(func(task *peerTask) {
				task.artifact("quote", true, true, a2a.Text("at 0.30"))
				task.status(a2a.StateCompleted, "")
			})
			task := b.until(id, a2a.StateCompleted)
			if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 2 {
				t.Errorf("it is %s", task.AppendJSON(nil))
			}
			p.checkSends()
		})
	}
}

// Some peers tell in a subscription again what its first event had already, and
// number no events. (a2a-sdk, Python.)
func TestRow137_AChunkThatComesTwice(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.twice = true
	p.fail("SendStreamingMessage", cutStream)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		task.status(a2a.StateWorking, "on it")
		task.artifact("quote", false, false, a2a.Text("100 "))
		task.artifact("quote", true, false, a2a.Text("bolts "))
	}
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it goes on", func() bool { return p.calls("SubscribeToTask") > 0 && len(b.get(id).Artifacts) == 1 })
	p.do(func(task *peerTask) {
		task.artifact("quote", true, true, a2a.Text("at 0.30"))
		task.status(a2a.StateCompleted, "")
	})
	task := b.until(id, a2a.StateCompleted)
	if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 3 {
		t.Errorf("it is %s", task.AppendJSON(nil))
	}
	p.checkSends()
}

// A chunk that a stream tells twice is in the artifact once, and one that is there
// twice is in it twice.
func TestRow137_EventsThatComeTwice(t *testing.T) {
	t.Parallel()
	for _, doubled := range []bool{true, false} {
		p := newPeer(t)
		p.doubled = doubled
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			task.artifact("quote", false, false, a2a.Text("100 "))
			task.artifact("quote", true, false, a2a.Text("bolts "))
			task.artifact("quote", true, true, a2a.Text("bolts "))
			task.status(a2a.StateCompleted, "")
		}
		b := newBench(t, p)
		task := b.until(b.send("x"), a2a.StateCompleted)
		if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 3 {
			t.Errorf("doubled %t: it is %s", doubled, task.AppendJSON(nil))
		}
		p.checkSends()
	}
}

// Some peers begin the answer to an answer with the task that has asked; that is
// not asked again. (@a2a-js/sdk.)
func TestRows51And52_TheOldQuestionComesFirst(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "single": unary} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, change)
				p.behind = true
				p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
					if fresh || again && len(p.sent) == 2 {
						task.status(a2a.StateInputRequired, "Which Incoterm?")
						return
					}
					p.finish(task, "with "+m.Text())
				}
				b := newBench(t, p)
				id := b.send("bolts")
				b.until(id, a2a.StateInputRequired)
				want := 1
				b.send("DAP", onTask(id))
				if again {
					b.eventually("it asks again", func() bool { return len(b.items(id, true)) == 1 && len(b.items(id, false)) == 1 })
					b.send("FOB", onTask(id))
					want = 2
				}
				b.until(id, a2a.StateCompleted)
				if items := b.items(id, true); len(items) != want {
					t.Errorf("what was settled is %+v", items)
				}
				p.checkSends()
			})
		}
	}
}

// Row 137 (c): a cancel reaches the peer within a second.
func TestRow137_Cancel(t *testing.T) {
	t.Parallel()
	t.Run("while it works", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
		b := newBench(t, p)
		id := b.send("x")
		b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
		p.fail("CancelTask", unavailable) // and again until it is answered
		b.cancel(id)
		b.eventually("it was told", func() bool { return b.row(id).Recalled })
		if d := b.row(id); d.RemoteState != a2a.StateCanceled {
			t.Errorf("the row is %+v", d)
		}
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
		b := newBench(t, p)
		var took time.Duration
		for range 3 { // a machine that is busy may take longer once
			id := b.send("x")
			b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
			before, began := p.calls("CancelTask"), time.Now()
			b.cancel(id)
			b.eventually("it was told", func() bool { return p.calls("CancelTask") > before })
			if took = time.Since(began); took < time.Second {
				return
			}
		}
		t.Errorf("it took %s", took)
	})
	t.Run("while the message is on its way", func(t *testing.T) {
		t.Parallel()
		for _, f := range []fault{hangAfter, dropAfter} {
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
			p.fail("SendStreamingMessage", f)
			b := newBench(t, p)
			id := b.send("x")
			b.eventually("it was sent", func() bool { _, n := p.count(); return n == 1 })
			b.cancel(id)
			b.eventually("it was told", func() bool { return b.row(id).Recalled })
			if p.calls("CancelTask") == 0 {
				t.Errorf("%s: the peer was not told: %+v", f, b.row(id))
			}
		}
	})
	t.Run("before it was sent", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.failAlways("SendStreamingMessage", tooMany)
		b := newBench(t, p)
		id := b.send("x")
		b.eventually("it is unsent", func() bool { return b.row(id).Attempts > 0 })
		b.cancel(id)
		b.eventually("nothing is left to do", func() bool { return b.row(id).Recalled })
		if n := p.calls("CancelTask"); n != 0 {
			t.Errorf("%d CancelTask", n)
		}
	})
}

func (b *bench) cancel(id string) {
	b.t.Helper()
	if _, err := b.node.engine.Cancel(b.t.Context(), store.ForAll(), nil, id, engine.ByCaller); err != nil {
		b.t.Fatal(err)
	}
}

// Row 138: what a peer gets wrong is no reason to break.
func TestRow138_OddAnswers(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		task.status(a2a.StateUnspecified, "")
		task.status(a2a.StateWorking, "")
		task.artifact("empty", false, true)
		task.artifact("quote", true, false)
		task.artifact("quote", true, true, a2a.Text("100"))
		task.artifact("", false, true, a2a.Text("nameless"))
		task.events = append(task.events, a2a.StreamResponse{Task: &a2a.Task{ID: task.ID, ContextID: task.ContextID, Status: a2a.TaskStatus{State: a2a.StateWorking}}})
		task.status(a2a.StateCompleted, "")
		again := task.Task
		task.events = append(task.events, a2a.StreamResponse{Task: &again})
	}
	b := newBench(t, p)
	task := b.until(b.send("x"), a2a.StateCompleted)
	got := map[string]string{}
	for _, a := range task.Artifacts {
		for _, part := range a.Parts {
			got[a.ArtifactID] += part.Text
		}
	}
	if len(got) != 2 || got["quote"] != "100" || got["empty"] != "" {
		t.Errorf("the artifacts are %v", got)
	}
}

func TestALieIsShownAndNotObeyed(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{lieTask, lieContext} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
			b := newBench(t, p)
			id := b.send("x")
			b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
			p.failAlways("GetTask", f)
			p.failAlways("SubscribeToTask", f)
			b.eventually("it is shown", func() bool {
				return strings.Contains(texts(b.get(id)), "somebody-elses")
			})
			p.do(func(task *peerTask) { p.finish(task, "quote") })
			if d := b.row(id); d.RemoteTask != "remote-1" || d.RemoteContext != "context-1" {
				t.Errorf("the row is %+v", d)
			}
			if s := b.get(id).Status.State; s != a2a.StateWorking {
				t.Errorf("the task is %s", s)
			}
			p.failAlways("GetTask", "")
			p.failAlways("SubscribeToTask", "")
			b.quoted(b.until(id, a2a.StateCompleted), "quote")
			p.checkSends()
		})
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.failAlways("SendStreamingMessage", redirects)
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it says so", func() bool { return b.row(id).Error != "" })
	p.checkSends()
	if p.elsewhere > 1 {
		t.Errorf("%d requests went elsewhere", p.elsewhere)
	}
}

func TestARefusedMessage(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.fail("SendStreamingMessage", refuses)
	b := newBench(t, p)
	task := b.until(b.send("x"), a2a.StateFailed)
	if !strings.Contains(texts(task), "is not what I can do") {
		t.Errorf("it says %q", texts(task))
	}
	p.fail("SendStreamingMessage", internalError)
	task = b.until(b.send("y"), a2a.StateFailed)
	if !strings.Contains(texts(task), "Whether it has begun is not known") {
		t.Errorf("it says %q", texts(task))
	}
	p.checkSends()
}

// forbidden is a transport that reaches no address.
type forbidden struct{}

func (forbidden) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &netguard.BlockedError{Reason: "cloud metadata"}
}

// A message that a rule of the node keeps here has not been taken by anybody.
func TestAMessageThatMayNotLeave(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.server.Client().Transport = forbidden{}
	b := newBench(t, p)
	id := b.send("x")
	if task := b.until(id, a2a.StateFailed); !strings.Contains(texts(task), "The message was not sent: ") {
		t.Errorf("it says %q", texts(task))
	}
	if d := b.row(id); d.Send != store.SendUnsent || !strings.Contains(d.Error, "cloud metadata") {
		t.Errorf("the row says %v, %q", d.Send, d.Error)
	}
}

func TestARefusedAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		if fresh {
			task.status(a2a.StateInputRequired, "How many?")
			return
		}
		p.finish(task, m.Text())
	}
	b := newBench(t, p)
	id := b.send("bolts")
	b.until(id, a2a.StateInputRequired)
	p.fail("SendStreamingMessage", refuses)
	b.send("many", onTask(id))
	b.eventually("it asks again", func() bool {
		task := b.get(id)
		return task.Status.State == a2a.StateInputRequired && strings.Contains(task.Status.Message.Text(), "was not taken")
	})
	b.send("100", onTask(id))
	b.quoted(b.until(id, a2a.StateCompleted), "100")
	p.checkSends()
}

func TestAPeerThatForgetsItsTask(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it works", func() bool { return b.row(id).RemoteTask != "" })
	p.mu.Lock()
	p.tasks = nil
	p.mu.Unlock()
	task := b.until(id, a2a.StateFailed)
	if !strings.Contains(texts(task), "does not know its task any more") {
		t.Errorf("it says %q", texts(task))
	}
	if d := b.row(id); d.Channel != store.ChannelNone {
		t.Errorf("the channel is %v", d.Channel)
	}
}

// A peer that is silent while it is polled comes into the inbox once, and out of it
// when it answers.
func TestASilentPeer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p, func(b *bench) { b.stuck = 200 * time.Millisecond })
	id := b.send("x")
	b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
	p.failAlways("GetTask", badGateway)
	b.eventually("somebody is told", func() bool { return len(b.items(id, false)) > 0 })
	polls := p.calls("GetTask")
	b.eventually("it is polled on", func() bool { return p.calls("GetTask") > polls+2 })
	items := b.items(id, false)
	if len(items) != 1 || items[0].Kind != store.InboxStuck || time.Since(items[0].Created) > time.Minute || !strings.Contains(items[0].Text, "502") {
		t.Errorf("the inbox has %+v", items)
	}
	p.failAlways("GetTask", "")
	b.eventually("it is settled", func() bool { return len(b.items(id, false)) == 0 })
	p.do(func(task *peerTask) { p.finish(task, "late") })
	b.quoted(b.until(id, a2a.StateCompleted), "late")
}

// A peer that asked may go on by itself.
func TestAQuestionThatAnswersItself(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateInputRequired, "How many?") }
	b := newBench(t, p)
	id := b.send("bolts")
	b.until(id, a2a.StateInputRequired)
	p.do(func(task *peerTask) { p.finish(task, "never mind") })
	b.quoted(b.until(id, a2a.StateCompleted), "never mind")
	if items := b.items(id, true); len(items) != 1 || items[0].Decision != "gone on" {
		t.Errorf("the inbox has %+v", items)
	}
}

// A person who looks at a peer that still asks the same is asked nothing anew.
func TestALookAtAPeerThatAsks(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateInputRequired, "How many?") }
	b := newBench(t, p)
	id := b.send("bolts")
	b.until(id, a2a.StateInputRequired)
	item, turn := b.items(id, false)[0].ID, b.turn(id)
	for range 3 {
		polls := p.calls("GetTask")
		if err := b.node.ledger.Look(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		b.eventually("it has looked", func() bool { return p.calls("GetTask") > polls })
	}
	if items := b.items(id, false); len(items) != 1 || items[0].ID != item || len(b.items(id, true)) != 0 || b.turn(id) != turn {
		t.Errorf("turn %d became %d, and the inbox has %+v", turn, b.turn(id), items)
	}
	p.do(func(task *peerTask) { p.finish(task, "never mind") })
	if err := b.node.ledger.Look(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.quoted(b.until(id, a2a.StateCompleted), "never mind")
	if err := b.node.ledger.Look(t.Context(), id); err != nil {
		t.Errorf("a look at what is over: %v", err)
	}
}

func TestAStreamThatIsQuietIsParked(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it is parked", func() bool {
		row, err := b.node.store.Task(t.Context(), store.ForAll(), id)
		return err == nil && row.Wait == store.WaitCallback && row.Lease == 0 && b.row(id).Channel == store.ChannelPoll
	})
	turn := b.turn(id)
	polls := p.calls("GetTask")
	b.eventually("it is polled", func() bool { return p.calls("GetTask") >= polls+3 })
	if n := b.turn(id); n != turn {
		t.Errorf("the polls began %d turns, though nothing has changed", n-turn)
	}
	before := p.calls("SubscribeToTask")
	p.do(func(task *peerTask) { task.status(a2a.StateWorking, "half of it") })
	b.eventually("it is followed again", func() bool {
		return p.calls("SubscribeToTask") > before && strings.Contains(texts(b.get(id)), "half of it")
	})
	p.do(func(task *peerTask) { p.finish(task, "late") })
	b.quoted(b.until(id, a2a.StateCompleted), "late")
	if n := strings.Count(texts(b.get(id)), "half of it"); n != 1 {
		t.Errorf("a status was told %d times", n)
	}
}

func (b *bench) turn(id string) int {
	b.t.Helper()
	row, err := b.node.store.Task(b.t.Context(), store.ForAll(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return row.Turn
}

// A message that comes in while the peer works is sent at once, in its order.
func TestAMessageWhileThePeerWorks(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		if m.Text() == "and nuts" {
			p.finish(task, "bolts and nuts")
			return
		}
		task.status(a2a.StateWorking, "on it")
	}
	b := newBench(t, p, func(b *bench) { b.link.Quiet = time.Minute })
	id := b.send("bolts")
	b.eventually("it works", func() bool { return strings.Contains(texts(b.get(id)), "on it") })
	b.send("and nuts", onTask(id))
	b.quoted(b.until(id, a2a.StateCompleted), "bolts and nuts")
	if len(p.sent) != 2 || p.sent[1].TaskID != "remote-1" {
		t.Errorf("%d messages came", len(p.sent))
	}
	p.checkSends()
}

func TestArtifactsAreBounded_S13(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*peerTask){
		"whole": func(task *peerTask) { task.artifact("big", false, true, a2a.Raw(make([]byte, 5000), "a/b", "x.bin")) },
		"in chunks": func(task *peerTask) {
			for i := range 5 {
				task.artifact("big", i > 0, i == 4, a2a.Raw(make([]byte, 1000), "a/b", "x.bin"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				task.artifact("small", false, true, a2a.Text("<b>x</b>"))
				f(task)
				task.status(a2a.StateCompleted, "")
			}
			b := newBench(t, p, func(b *bench) { b.link.ArtifactBytes = 2000 })
			task := b.until(b.send("x"), a2a.StateCompleted)
			if len(task.Artifacts) != 2 {
				t.Fatalf("it is %s", task.AppendJSON(nil))
			}
			small, big := task.Artifacts[0], task.Artifacts[1]
			if small.Parts[0].Text != "<b>x</b>" || !strings.Contains(string(small.Metadata), `"sha256":"e31e3a8e`) {
				t.Errorf("the small one is %s", small.AppendJSON(nil))
			}
			if len(big.Parts) != 1 || !strings.Contains(big.Parts[0].Text, "5000 bytes") ||
				!strings.Contains(string(big.Metadata), `"leftOut":true`) || !strings.Contains(string(big.Metadata), `"bytes":5000`) {
				t.Errorf("the big one is %s", big.AppendJSON(nil))
			}
		})
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	ask := func(task *peerTask) {
		task.status(a2a.StateAuthRequired, "May I post the invoice?")
		r := a2a.GrantRequest{ID: "g-1", Operation: "post-invoice", URL: "https://peer.test/decide"}
		task.Status.Message.Metadata = append(append(a2a.JSON(`{"`+a2a.GrantExtension+`":`), r.AppendJSON(nil)...), '}')
		task.events[len(task.events)-1].StatusUpdate.Status = task.Status
	}
	decide := func(b *bench, id string, yes bool) {
		grants, err := b.node.engine.Grants(b.t.Context(), store.ForAll(), 10)
		if err != nil || len(grants) != 1 || grants[0].Operation != "post-invoice" || grants[0].URL != "https://peer.test/decide" {
			b.t.Fatalf("the requests are %+v, %v", grants, err)
		}
		_, err = b.node.engine.Decide(b.t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: yes, Note: "fine", By: "bob"})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	t.Run("the peer takes decisions", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, func(c *a2a.AgentCard) {
			c.Capabilities.Extensions = []a2a.AgentExtension{{URI: a2a.GrantExtension}}
		})
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
			if fresh {
				ask(task)
				return
			}
			p.finish(task, string(m.Metadata))
		}
		b := newBench(t, p)
		id := b.send("x")
		b.until(id, a2a.StateAuthRequired)
		p.fail("SendStreamingMessage", tooMany)
		decide(b, id, true)
		task := b.until(id, a2a.StateCompleted)
		if text := task.Artifacts[0].Parts[0].Text; !strings.Contains(text, `"decision":"approve"`) || !strings.Contains(text, `"note":"fine"`) {
			t.Errorf("it said %s", text)
		}
		p.checkSends()
	})
	t.Run("the peer decides elsewhere", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { ask(task) }
		b := newBench(t, p)
		id := b.send("x")
		b.until(id, a2a.StateAuthRequired)
		if items := b.items(id, false); len(items) != 1 || !strings.Contains(items[0].Text, "takes no decisions from here") || !strings.Contains(items[0].Text, "https://peer.test/decide") {
			t.Errorf("the items do not say where the decision is made: %+v", items)
		}
		decide(b, id, true)
		b.eventually("it says where", func() bool {
			return strings.Contains(texts(b.get(id)), "https://peer.test/decide")
		})
		polls := p.calls("GetTask")
		b.eventually("it is looked at again", func() bool { return p.calls("GetTask") > polls+2 })
		if task := b.get(id); task.Status.State != a2a.StateWorking || len(b.items(id, false)) != 0 {
			t.Errorf("it asks again: %s", task.AppendJSON(nil))
		}
		p.do(func(task *peerTask) { p.finish(task, "posted") })
		b.quoted(b.until(id, a2a.StateCompleted), "posted")
		if _, n := p.count(); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestTheMessageAsItGoesOut(t *testing.T) {
	t.Parallel()
	p := newPeer(t, func(c *a2a.AgentCard) {
		c.Capabilities.Extensions = []a2a.AgentExtension{{URI: a2a.LineageExtension}}
	})
	b := newBench(t, p)
	id := b.send("x", func(q *engine.Request) {
		q.Message.Metadata = a2a.JSON(`{"skillId":"quote","idempotencyKey":"mine"}`)
		q.Delegation.Deadline = time.Now().Add(time.Hour)
	})
	b.until(id, a2a.StateCompleted)
	m := p.sent[0]
	l, err := a2a.LineageOf(m.Metadata)
	if err != nil || l == nil || l.Deadline.IsZero() || l.Depth != 1 {
		t.Errorf("the lineage is %+v, %v", l, err)
	}
	meta := string(m.Metadata)
	if !strings.Contains(meta, `"skillId":"quote"`) || !strings.Contains(meta, `"idempotencyKey":"handoff:`+m.MessageID) {
		t.Errorf("the metadata is %s", meta)
	}
	if got := p.headers[0].Get(a2a.HeaderExtensions); !strings.Contains(got, a2a.LineageExtension) {
		t.Errorf("the extensions are %q", got)
	}
	p.card.Capabilities.Extensions = nil
	b.until(b.send("y"), a2a.StateCompleted)
	if meta := string(p.sent[1].Metadata); strings.Contains(meta, "lineage") {
		t.Errorf("a peer that does not know lineages got %s", meta)
	}
}

func TestASecondOpenDelegationOfARefIsRefused(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p)
	ref := func(again bool) func(*engine.Request) {
		return func(q *engine.Request) { q.Delegation.Ref, q.Delegation.Again = "PO-1", again }
	}
	first := b.send("x", ref(false))
	_, err := b.node.engine.Send(t.Context(), b.request("x", ref(false)))
	if err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("the error is %v", err)
	}
	b.send("x", ref(true))
	b.eventually("both are sent", func() bool { n, _ := p.count(); return n == 2 })
}

// The three clocks are named in errors, and the deadline ends a delegation.
func TestClocks(t *testing.T) {
	t.Parallel()
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		b := newBench(t, p)
		var never error = &client.TransportError{Kind: client.KindTimeout, Op: "GetAgentCard", Err: context.DeadlineExceeded}
		b.openErr.Store(&never)
		id := b.send("x")
		b.eventually("it is named", func() bool { return strings.Contains(b.row(id).Error, "(clock: connect)") })
	})
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.failAlways("SendStreamingMessage", hangBefore)
		b := newBench(t, p)
		id := b.send("x")
		b.eventually("it is named", func() bool {
			return strings.Contains(texts(b.get(id)), "did not answer the message within 500ms (clock: answer)")
		})
	})
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.fail("SendStreamingMessage", dropBefore)
		b := newBench(t, p)
		id := b.send("x", func(q *engine.Request) { q.Delegation.Deadline = time.Now().Add(3 * time.Second) })
		b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
		task := b.until(id, a2a.StateFailed)
		if !strings.Contains(texts(task), "deadline") {
			t.Errorf("it says %q", texts(task))
		}
		if d := b.row(id); d.Send != store.SendUnknown && d.Send != store.SendLost {
			t.Errorf("the row is %+v", d)
		}
		p.checkSends()
	})
	t.Run("deadline of what the peer works at", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
		b := newBench(t, p)
		id := b.send("x", func(q *engine.Request) { q.Delegation.Deadline = time.Now().Add(6 * time.Second) })
		b.eventually("the peer has begun before the deadline", func() bool { return b.row(id).RemoteTask != "" })
		b.until(id, a2a.StateFailed)
		b.eventually("the peer is told", func() bool { return b.row(id).RemoteState == a2a.StateCanceled })
	})
}

// A message whose answer was not waited for, since its task was canceled, is not
// under way any more when the peer does not tell of it.
func TestAMessageThatIsInDoubtWhenItsTaskIsCanceled(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.fail("SendStreamingMessage", hangAfter)
	p.failAlways("ListTasks", notSupported)
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it is under way", func() bool { tasks, _ := p.count(); return tasks == 1 })
	b.cancel(id)
	b.eventually("it is in doubt", func() bool { return b.row(id).Send == store.SendUnknown })
	p.checkSends()
}

// A message that nobody has answered when the peer could not be told to cancel
// for as long as it is told is lost.
func TestAMessageThatIsLost(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.fail("SendStreamingMessage", dropBefore)
	b := newBench(t, p, func(b *bench) { b.recall = 300 * time.Millisecond })
	id := b.send("x")
	b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
	b.cancel(id)
	b.eventually("it is lost", func() bool { return b.row(id).Send == store.SendLost })
}

// Row 92: an artifact of 9 MB arrives whole.
func TestRow92_ALargeArtifact(t *testing.T) {
	t.Parallel()
	content := make([]byte, 9<<20)
	for i := range content {
		content[i] = byte(i * 7)
	}
	for name, change := range map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "single": unary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, change)
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				task.artifact("big", false, true, a2a.Raw(content, "application/octet-stream", "big.bin"))
				task.status(a2a.StateCompleted, "")
			}
			b := newBench(t, p, func(b *bench) { b.link.Answer = 10 * time.Second })
			task := b.until(b.send("x"), a2a.StateCompleted)
			if len(task.Artifacts) != 1 || !bytes.Equal(task.Artifacts[0].Parts[0].Raw, content) {
				t.Error("the artifact is not whole")
			}
			if sum := fmt.Sprintf("%x", sha256.Sum256(content)); !strings.Contains(string(task.Artifacts[0].Metadata), sum) {
				t.Errorf("the digest of the file is not in %s", task.Artifacts[0].Metadata)
			}
		})
	}
}

// An endless stream is bounded by what the artifacts of a task may have.
func TestAnEndlessStream_S13(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		for i := range 2000 {
			task.artifact(fmt.Sprintf("a%d", i%1500), false, true, a2a.Text(strings.Repeat("x", 100)))
		}
		task.status(a2a.StateCompleted, "")
	}
	b := newBench(t, p, func(b *bench) { b.link.ArtifactBytes, b.link.Answer = 50_000, 10*time.Second })
	task := b.until(b.send("x"), a2a.StateCompleted)
	kept := 0
	for _, a := range task.Artifacts {
		if !strings.Contains(string(a.Metadata), "leftOut") {
			kept += len(a.Parts[0].Text)
		}
	}
	if kept > 50_000 || len(task.Artifacts) > 1000 {
		t.Errorf("%d artifacts with %d bytes are kept", len(task.Artifacts), kept)
	}
}
