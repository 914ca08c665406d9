//go:build postgres

package ledger_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/bus/bustest"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// Row 137 (b) with two nodes: the one that speaks with the peer dies without
// warning, and the other one goes on. The peer does not deduplicate, and has got
// each message once.
func TestRow137b_ClusterGoesOnAfterADeath(t *testing.T) {
	deaths := map[string]struct {
		card func(*a2a.AgentCard)
		set  func(p *faultyPeer)
		// ready reports whether the first node is where it is to die.
		ready   func(c *cluster, id string) bool
		answers bool // the peer asks, and is answered through the node that is left
	}{
		"while the message is on its way": {
			set:   func(p *faultyPeer) { working(p); p.fail("SendStreamingMessage", hangAfter) },
			ready: func(c *cluster, id string) bool { _, sends := c.peer.count(); return sends == 1 },
		},
		"while the message is on its way, single": {
			card:  unary,
			set:   func(p *faultyPeer) { working(p); p.fail("SendMessage", hangAfter) },
			ready: func(c *cluster, id string) bool { _, sends := c.peer.count(); return sends == 1 },
		},
		"in the stream": {
			set:   working,
			ready: func(c *cluster, id string) bool { return strings.Contains(texts(c.b.get(id)), "on x") },
		},
		"in the middle of an artifact": {
			set: func(p *faultyPeer) {
				p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.artifact("quote", false, false, a2a.Text("do")) }
			},
			ready: func(c *cluster, id string) bool { return len(c.b.get(id).Artifacts) == 1 },
		},
		"parked": {
			card: unary,
			set:  working,
			ready: func(c *cluster, id string) bool {
				row := c.b.task(id)
				return row.Wait == store.WaitCallback && row.Lease == 0
			},
		},
		"asked": {
			set:     asking,
			ready:   func(c *cluster, id string) bool { return c.b.get(id).Status.State == a2a.StateInputRequired },
			answers: true,
		},
	}
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for name, d := range deaths {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				card := d.card
				if card == nil {
					card = func(*a2a.AgentCard) {}
				}
				p := newPeer(t, card)
				d.set(p)
				c := newCluster(t, how, p)
				id := c.a.send("x")
				c.eventually("it is "+name, func() bool { return d.ready(c, id) })
				c.a.die()
				sends := 1
				if d.answers {
					c.b.send("DAP", onTask(id))
					sends = 2
				} else {
					p.do(func(task *peerTask) {
						task.artifact("quote", false, true, a2a.Text("done"))
						task.status(a2a.StateCompleted, "")
					})
				}
				want := "done"
				if d.answers {
					want = "with DAP"
				}
				c.quoted(c.b.until(id, a2a.StateCompleted), want)
				c.sentOnce(sends)
			})
		}
	})
}

// The first node dies at every commit of a delegation, before and after it is
// made, and the other one takes over what was begun.
func TestRow137b_ClusterDeathAtEveryCommit(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		for mode, card := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					if died := dieAt(t, how, card, n, n%2 == 0); !died || t.Failed() {
						if n < 4 {
							t.Errorf("there were only %d commits", n-1)
						}
						return
					}
				}
			})
		}
	})
}

// dieAt tells of a delegation with a question whose first node dies at its nth
// commit, and reports whether it did.
func dieAt(t *testing.T, how bustest.Faults, card func(*a2a.AgentCard), n int64, after bool) (died bool) {
	t.Helper()
	p := newPeer(t, card)
	asking(p)
	c := newCluster(t, how, p)
	c.a.dying.DieAt(n, after)
	id := derivedID(n)
	// Its sender may not be told: then nothing, or the whole task, is there.
	_, _ = c.a.engine.Send(t.Context(), c.a.request("x", func(q *engine.Request) { q.Delegation.ID = id }))
	answered := false
	c.eventually("commit "+strconv.FormatInt(n, 10)+" and its task is over", func() bool {
		if !died && c.a.dying.Died() {
			died = true
			c.a.die()
		}
		row, err := c.b.store.Task(t.Context(), store.ForAll(), id)
		switch {
		case err != nil:
			return died // it was never made
		case row.State.Terminal():
			c.quoted(c.b.get(id), "with DAP")
			c.sentOnce(2)
			return true
		case row.State == a2a.StateInputRequired && !answered:
			_, err := c.b.engine.Send(t.Context(), c.b.request("DAP", onTask(id)))
			answered = err == nil
		}
		d := c.b.row(id)
		if died && d.Send == store.SendUnknown {
			p.mu.Lock()
			_, arrived := p.messages[d.Message]
			p.mu.Unlock()
			return !arrived // it died before the first byte, and nobody else sends it
		}
		return false
	})
	p.checkSends()
	return died
}

// A node dies with a message on its way to a peer that tells of no tasks: the
// other one does not send it again, and finds the task by what the peer pushes.
func TestRow137b_ClusterDoesNotSendAgain(t *testing.T) {
	overBuses(t, func(t *testing.T, how bustest.Faults) {
		p := newPeer(t, unary, pushing)
		p.forgetful = true
		working(p)
		p.fail("SendMessage", hangAfter)
		p.failAlways("ListTasks", notSupported)
		c := newCluster(t, how, p)
		id := c.a.send("x")
		c.eventually("the peer has it", func() bool { _, sends := p.count(); return sends == 1 })
		c.a.die()
		c.eventually("it is looked for", func() bool { d := c.b.row(id); return d.Send == store.SendUnknown && d.Attempts > 1 })
		c.sentOnce(1)
		hook := p.hooks[0]
		hook.URL = c.b.receiver.URL + strings.TrimPrefix(hook.URL, c.a.receiver.URL)
		if got := (&bench{t: t, receiver: c.b.receiver}).push(event(hook, "remote-1")); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
		c.eventually("it is found", func() bool { return c.b.row(id).RemoteTask == "remote-1" })
		p.do(func(task *peerTask) { p.finish(task, "quote") })
		c.quoted(c.b.until(id, a2a.StateCompleted), "quote")
		c.sentOnce(1)
	})
}
