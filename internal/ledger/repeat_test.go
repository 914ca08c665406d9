package ledger_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// What a peer makes of a message that it got twice is seen: two tasks, although it
// is said to deduplicate. The one too many is told to cancel.
func TestAPeerThatOnlySaysThatItDeduplicates(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.fail("SendStreamingMessage", dropAfter)
	p.fail("ListTasks", badGateway, badGateway)
	b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
	id := b.send("x")
	b.eventually("it was seen", func() bool { return len(b.seen.deduplicates()) > 0 && p.calls("CancelTask") > 0 })
	p.do(func(task *peerTask) { p.finish(task, "done") })
	task := b.until(id, a2a.StateCompleted)
	if diff := cmp.Diff([]bool{false}, b.seen.deduplicates()); diff != "" {
		t.Error(diff)
	}
	if p.tasks[0].Status.State != a2a.StateCanceled || b.row(id).RemoteTask != "remote-2" {
		t.Errorf("the tasks of the peer are %+v and %+v", p.tasks[0].Status, p.tasks[1].Status)
	}
	if !strings.Contains(texts(task), "has taken this one for two") {
		t.Errorf("nobody was told: %s", texts(task))
	}
}

// A message that was sent again and came back with the task that the peer had
// pushed of before was taken for one.
func TestAPeerIsSeenToDeduplicate(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary, pushing)
	p.dedupes, p.forgetful = true, true
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.fail("SendMessage", dropAfter)
	p.failAlways("SendMessage", dropBefore)
	p.failAlways("ListTasks", notSupported)
	p.failAlways("GetTask", badGateway)
	b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
	id := b.send("x")
	b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
	if got := b.push(event(p.hooks[0], "remote-1")); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	p.failAlways("SendMessage", "")
	b.eventually("it was seen", func() bool { return cmp.Equal([]bool{true}, b.seen.deduplicates()) })
	p.failAlways("GetTask", "")
	p.do(func(task *peerTask) { p.finish(task, "quote") })
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
	p.checkSends()
}

// A message that was sent again, of whose first sending nothing is known, says
// nothing of the peer.
func TestWhatCannotBeSeenIsNotObserved(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.dedupes = true
	p.fail("SendStreamingMessage", dropBefore)
	b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
	b.quoted(b.until(b.send("x"), a2a.StateCompleted), "done: x")
	if seen := b.seen.deduplicates(); seen != nil {
		t.Error(seen)
	}
}

// A push about another task does not displace that of the right one.
func TestAPushAboutAnotherTaskIsNoHarm(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary, pushing)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.fail("SendMessage", "", dropAfter)
	p.failAlways("ListTasks", notSupported)
	b := newBench(t, p)
	other := b.send("something else")
	b.eventually("the other one is known", func() bool { return b.row(other).RemoteTask == "remote-1" })
	p.failAlways("GetTask", badGateway)
	id := b.send("x")
	b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
	for _, task := range []string{"remote-2", "remote-1", "nobody-s", "nobody-s", "remote-1"} {
		if got := b.push(event(p.hooks[1], task)); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
	}
	p.failAlways("GetTask", "")
	b.eventually("it is known", func() bool { return b.row(id).RemoteTask == "remote-2" })
	p.checkSends()
}

// A cancel reaches a peer that deduplicates and tells of no tasks, although its
// answer was never heard: the message is sent again, and what comes back canceled.
func TestACancelOfAMessageThatWasNotAnswered(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hangAfter, hangBefore} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.dedupes = true
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
			p.failAlways("SendStreamingMessage", f)
			p.failAlways("ListTasks", notSupported)
			b := newBench(t, p, func(b *bench) { b.link.Deduplicates = true })
			id := b.send("x")
			b.eventually("it is sent", func() bool { return p.calls("SendStreamingMessage") > 0 })
			b.cancel(id)
			b.eventually("the peer was told", func() bool { return b.row(id).Recalled })
			if d := b.row(id); d.RemoteTask != "remote-1" || d.RemoteState != a2a.StateCanceled || d.Send != store.SendAccepted {
				t.Errorf("the row is %+v", d)
			}
			if tasks, _ := p.count(); tasks != 1 {
				t.Errorf("%d tasks at the peer", tasks)
			}
			p.checkSends()
		})
	}
	t.Run("not to one that has refused it", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.dedupes = true
		p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
		p.fail("SendStreamingMessage", dropBefore, refuses)
		p.failAlways("ListTasks", notSupported)
		b := newBench(t, p, func(b *bench) { b.link.Deduplicates, b.recall = true, time.Second })
		id := b.send("x")
		b.until(id, a2a.StateFailed)
		b.eventually("nothing follows it", func() bool {
			jobs, err := b.node.store.Jobs(t.Context(), 10, 0)
			return err == nil && len(jobs) == 0
		})
		if tasks, sends := p.count(); tasks != 0 || sends != 0 || p.calls("SendMessage") != 0 {
			t.Errorf("%d tasks of %d messages, and %d calls after it was refused", tasks, sends, p.calls("SendMessage"))
		}
	})
	t.Run("not to one that does not", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t)
		p.failAlways("SendStreamingMessage", hangAfter)
		p.failAlways("ListTasks", notSupported)
		b := newBench(t, p, func(b *bench) { b.recall = time.Second })
		id := b.send("x")
		b.eventually("it is sent", func() bool { return p.calls("SendStreamingMessage") > 0 })
		b.cancel(id)
		b.eventually("it is given up", func() bool { return b.row(id).Send == store.SendLost })
		if _, sends := p.count(); sends != 1 {
			t.Errorf("%d sends", sends)
		}
	})
}

// An answer of which nobody has heard when the delegation is canceled is looked for
// with the cancel: in what the peer shows of its task, which may be over by itself.
func TestACancelLooksForTheAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		done, hidden bool
		fault        fault
		want         store.SendState
	}{
		"it is at work":                 {false, false, hangAfter, store.SendAccepted},
		"it is over":                    {true, false, hangAfter, store.SendAccepted},
		"it is over, and shows nothing": {true, true, hangAfter, store.SendAccepted},
		"it has nothing":                {false, false, hangBefore, store.SendLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t)
			p.forgetful = c.hidden
			p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
				switch {
				case fresh:
					form(task)
				case c.done:
					p.finish(task, "quote")
				default:
					task.status(a2a.StateWorking, "on it")
				}
			}
			b := newBench(t, p)
			id := b.send("bolts")
			b.until(id, a2a.StateInputRequired)
			p.failAlways("SendStreamingMessage", c.fault)
			sends := p.calls("SendStreamingMessage")
			b.send("100", onTask(id))
			b.eventually("it is sent", func() bool { return p.calls("SendStreamingMessage") > sends })
			b.cancel(id)
			b.eventually("the peer was told", func() bool { return b.row(id).Recalled })
			if d := b.row(id); d.Send != c.want || !d.RemoteState.Terminal() {
				t.Errorf("the row is %+v", d)
			}
			p.checkSends()
		})
	}
}
