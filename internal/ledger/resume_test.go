package ledger_test

import (
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// The row has the state of the peer's task at once, while the stream goes on.
func TestTheRowHasTheStateOfThePeer(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(*peerTask, *a2a.Message, bool) {}
	b := newBench(t, p, func(b *bench) { b.link.Quiet = time.Minute })
	id := b.send("x")
	b.eventually("it is accepted", func() bool { return b.row(id).RemoteState == a2a.StateSubmitted })
	p.do(func(task *peerTask) { task.status(a2a.StateWorking, "") })
	began := time.Now()
	b.eventually("it works", func() bool { return b.row(id).RemoteState == a2a.StateWorking })
	if took := time.Since(began); took > 10*time.Second { // it was 15 s
		t.Errorf("the row lagged behind for %v", took)
	}
	if d := b.row(id); d.Channel != store.ChannelStream {
		t.Errorf("the row is %+v", d)
	}
}

// What the task has said last is not said once more when the process has died, and
// could not be reached in between.
func TestAStatusIsNotSaidAgainAfterADeath(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "Comparing") }
	b := newBench(t, p, func(b *bench) { b.link.Quiet = time.Minute })
	id := b.send("x")
	b.eventually("it is said", func() bool { return b.row(id).RemoteState == a2a.StateWorking })
	p.do(func(task *peerTask) { task.status(a2a.StateWorking, "Weighing") }) // not in the row yet
	b.eventually("it is said", func() bool { return strings.Contains(texts(b.get(id)), "Weighing") })
	p.fail("GetTask", badGateway)
	b.crash()
	b.eventually("it is followed again", func() bool { return p.calls("SubscribeToTask") > 0 })
	p.do(func(task *peerTask) { task.status(a2a.StateWorking, "Done soon") })
	b.eventually("what is new is said", func() bool { return strings.Contains(texts(b.get(id)), "Done soon") })
	p.do(func(task *peerTask) { p.finish(task, "done") })
	task := b.until(id, a2a.StateCompleted)
	if got := texts(task); strings.Count(got, "Comparing") != 1 || strings.Count(got, "Weighing") != 1 || strings.Count(got, "Done soon") != 1 {
		t.Errorf("it says %q", got)
	}
}

// A peer may make a new task of an answer to one that it has forgotten (a2a-java
// does): it is looked whether the task is there, and the message is not sent.
func TestAnAnswerToATaskThatIsForgotten(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		if fresh && m.Text() == "bolts" {
			task.status(a2a.StateInputRequired, "How many?")
			return
		}
		p.finish(task, "made of "+m.Text())
	}
	b := newBench(t, p, func(b *bench) { b.link.PollMax = time.Hour })
	id := b.send("bolts")
	b.until(id, a2a.StateInputRequired)
	b.crash() // nobody has seen the task in this process
	p.mu.Lock()
	p.tasks, p.renews = nil, true
	p.mu.Unlock()
	b.send("100", onTask(id))
	task := b.until(id, a2a.StateFailed)
	if !strings.Contains(texts(task), "does not know its task any more") {
		t.Errorf("it says %q", texts(task))
	}
	if _, sends := p.count(); sends != 1 {
		t.Errorf("%d sends", sends)
	}
	if d := b.row(id); d.Channel != store.ChannelNone {
		t.Errorf("the channel is %v", d.Channel)
	}
}
