//go:build postgres

package ledger_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/bus/bustest"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// working lets a peer begin and not end.
func working(p *faultyPeer) {
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on "+m.Text()) }
}

// asking lets a peer ask, and end when it is answered.
func asking(p *faultyPeer) {
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) {
		if fresh {
			task.status(a2a.StateInputRequired, "Which Incoterm?")
			return
		}
		p.finish(task, "with "+m.Text())
	}
}

// soon is how long a peer may wait to hear of a cancel.
const soon = 2 * time.Second

// modes are the ways a delegation is followed.
var modes = map[string]func(*a2a.AgentCard){"stream": func(*a2a.AgentCard) {}, "poll": unary}

// A delegation that one node has made is followed at the other, to its end.
func TestClusterFollowsWhatTheOtherNodeHandsOver(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for mode, card := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, card)
				working(p)
				c := newCluster(t, how, p)
				id := c.a.send("x")
				s, err := c.b.engine.Subscribe(t.Context(), store.ForOwner("", "alice"), c.b.spec, id, "")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				c.eventually("the peer is at work", func() bool { return strings.Contains(texts(c.b.get(id)), "on x") })
				p.do(func(task *peerTask) { p.finish(task, "quote") })
				artifacts := 0
				for {
					f, err := s.Next(t.Context())
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					var e a2a.StreamResponse
					if err := a2a.Unmarshal(f.Body, &e); err != nil {
						t.Fatal(err)
					}
					if e.ArtifactUpdate != nil {
						artifacts++
					}
				}
				if artifacts != 1 {
					t.Errorf("the other node has shown %d artifacts", artifacts)
				}
				c.quoted(c.b.until(id, a2a.StateCompleted), "quote")
				c.sentOnce(1)
			})
		}
	})
}

// Rows 51 and 52 with two nodes: an answer goes out from whichever node it came to.
func TestClusterAnswersThroughTheOtherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for mode, card := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, card)
				asking(p)
				c := newCluster(t, how, p)
				id := c.a.send("bolts")
				c.b.until(id, a2a.StateInputRequired)
				c.b.send("DAP", onTask(id))
				c.quoted(c.a.until(id, a2a.StateCompleted), "with DAP")
				c.sentOnce(2)
			})
		}
	})
}

// A message that comes in at one node reaches the peer that the other one has a
// stream with.
func TestClusterSendsMoreThroughTheOtherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for mode, card := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, card)
				working(p)
				c := newCluster(t, how, p)
				id := c.a.send("x")
				c.eventually("the peer is at work", func() bool { return strings.Contains(texts(c.b.get(id)), "on x") })
				c.b.send("more", onTask(id))
				c.eventually("the peer has it", func() bool { _, sends := p.count(); return sends == 2 })
				p.do(func(task *peerTask) { p.finish(task, "quote") })
				c.quoted(c.b.until(id, a2a.StateCompleted), "quote")
				c.sentOnce(2)
			})
		}
	})
}

// Row 137 (c): a cancel through the other node is heard at the peer within soon,
// while the first node follows a stream, has parked the task, or is dead.
func TestRow137c_ClusterCancelsThroughTheOtherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for mode, card := range modes {
			for _, dead := range []bool{false, true} {
				name := mode
				if dead {
					name += ", the first node is dead"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := newPeer(t, card)
					working(p)
					p.failAlways("ListTasks", notSupported) // what is known of the peer's task is in the row
					c := newCluster(t, how, p)
					id := c.a.send("x")
					c.eventually("the peer is at work", func() bool { return strings.Contains(texts(c.b.get(id)), "on x") })
					if dead {
						c.a.die()
					}
					began := time.Now()
					c.b.cancel(id)
					c.eventually("the peer hears of it", func() bool { return p.calls("CancelTask") > 0 })
					if took := time.Since(began); took > soon {
						t.Errorf("the peer heard of the cancel after %s", took)
					}
					c.eventually("it is taken down", func() bool { d := c.b.row(id); return d.Recalled && d.RemoteState == a2a.StateCanceled })
					if state := c.b.get(id).Status.State; state != a2a.StateCanceled {
						t.Errorf("the task is %s", state)
					}
					if n := p.calls("CancelTask"); n != 1 {
						t.Errorf("%d CancelTask", n)
					}
					c.sentOnce(1)
				})
			}
		}
	})
}

// A cancel through the other node while the first one waits for the answer to
// the message: what it has made at the peer is found, and canceled.
func TestClusterRecallsWhatTheOtherNodeIsSending(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for _, dead := range []bool{false, true} {
			name := "the first node lives"
			if dead {
				name = "the first node is dead"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t)
				working(p)
				p.fail("SendStreamingMessage", hangAfter)
				c := newCluster(t, how, p)
				id := c.a.send("x")
				c.eventually("the peer has it", func() bool { _, sends := p.count(); return sends == 1 })
				if dead {
					c.a.die()
				}
				c.b.cancel(id)
				c.eventually("the peer hears of it", func() bool { return p.calls("CancelTask") > 0 })
				c.eventually("it is taken down", func() bool { d := c.b.row(id); return d.Recalled && d.RemoteTask == "remote-1" })
				c.sentOnce(1)
			})
		}
	})
}

// A push that arrives at one node wakes the task that the other one has parked.
func TestClusterTakesPushesAtTheOtherNode(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		p := newPeer(t, unary, pushing)
		working(p)
		c := newCluster(t, how, p, func(c *cluster) { c.link.PollMin, c.link.PollMax = time.Hour, time.Hour })
		id := c.a.send("x")
		c.eventually("it is parked", func() bool {
			row := c.b.task(id)
			return row.Wait == store.WaitCallback && row.Lease == 0 && c.b.row(id).Channel == store.ChannelPush
		})
		p.do(func(task *peerTask) { p.finish(task, "quote") })
		hook := p.hooks[0]
		hook.URL = c.b.receiver.URL + strings.TrimPrefix(hook.URL, c.a.receiver.URL)
		began := time.Now()
		if got := (&bench{t: t, receiver: c.b.receiver}).push(event(hook, "remote-1")); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
		c.quoted(c.b.until(id, a2a.StateCompleted), "quote")
		if took := time.Since(began); took > 2*soon {
			t.Errorf("the push took %s", took)
		}
		c.sentOnce(1)
		c.jobsOnce(1)
	})
}

// What is parked is asked for by one of the nodes at a time.
func TestClusterPollsOnce(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		p := newPeer(t, unary)
		working(p)
		c := newCluster(t, how, p, func(c *cluster) { c.link.PollMin, c.link.PollMax = 20*time.Millisecond, 20*time.Millisecond })
		id := c.a.send("x")
		c.eventually("it is polled", func() bool { return p.calls("GetTask") >= 20 })
		p.do(func(task *peerTask) { p.finish(task, "quote") })
		c.quoted(c.b.until(id, a2a.StateCompleted), "quote")
		c.sentOnce(1)
		c.jobsOnce(20)
		c.mu.Lock()
		done := len(c.done)
		c.mu.Unlock()
		if asked := p.calls("GetTask"); asked > done+3 {
			t.Errorf("the peer was asked %d times by %d jobs and 2 turns", asked, done)
		}
	})
}

// One reference is one open delegation, whichever nodes it comes to.
func TestClusterHandsOverOneReferenceOnce(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		p := newPeer(t)
		working(p)
		c := newCluster(t, how, p)
		const each = 8
		var group sync.WaitGroup
		start := make(chan struct{})
		var mu sync.Mutex
		made, refused := []string{}, map[string]int{}
		for i := range 2 * each {
			m := []*member{c.a, c.b}[i%2]
			q := m.request("x", func(q *engine.Request) { q.Delegation.Ref = "PO-1" })
			group.Go(func() {
				<-start
				r, err := m.engine.Send(t.Context(), q)
				mu.Lock()
				defer mu.Unlock()
				e, ok := errors.AsType[*a2a.Error](err)
				switch {
				case err == nil:
					made = append(made, r.Task.ID)
				case ok && e.Metadata["reason"] == engine.ReasonRef:
					refused[e.Metadata["taskId"]]++
				default:
					t.Errorf("it is refused with %v", err)
				}
			})
		}
		close(start)
		group.Wait()
		if len(made) != 1 || refused[made[0]] != 2*each-1 {
			t.Fatalf("%d were made, and the others were told of %v", len(made), refused)
		}
		c.eventually("the peer is at work", func() bool { return strings.Contains(texts(c.b.get(made[0])), "on x") })
		c.sentOnce(1)
		p.do(func(task *peerTask) { p.finish(task, "quote") })
		c.a.until(made[0], a2a.StateCompleted)
		again := c.b.send("y", func(q *engine.Request) { q.Delegation.Ref = "PO-1" })
		c.eventually("the peer has the next", func() bool { _, sends := p.count(); return sends == 2 })
		if again == made[0] {
			t.Error("a new delegation is the old one")
		}
	})
}
