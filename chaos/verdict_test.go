//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
)

// trail makes a log out of states; 0 is an event that is no status.
func trail(states ...a2a.TaskState) []trace {
	var log []trace
	for i, s := range states {
		log = append(log, trace{int64(i + 1), s})
	}
	return log
}

// settledItem is an item of the inbox that was settled.
func settledItem(kind, decision string) stall {
	return stall{ID: "i-" + kind, Kind: kind, Task: "t", Settled: time.Now(), Decision: decision, history: []string{"created", decision}}
}

// asked is an order that was asked about once, answered and completed: all that
// is known of it, without a violation.
func asked() *account {
	o := &purchase{number: 7, way: wayDirect, work: workAsk, shop: &shop{name: "answers", lists: true}}
	task := &followed{
		id: "t", state: a2a.StateCompleted, goods: o.result(), send: "accepted", message: "m2", remote: "g",
		trail: trail(0, a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired, 0, a2a.StateWorking, 0, a2a.StateCompleted),
	}
	return &account{
		order: o, shop: o.shop, root: task, delegation: task,
		items: []stall{settledItem("question", "answered")},
		seen:  []int64{1, 2, 3, 4, 5, 6, 7, 8}, lastSeen: a2a.StateCompleted.String(),
		goods: []ware{{id: "g", state: a2a.StateCompleted, goods: o.result(), messages: []string{"m1", "m2"}}},
		sends: map[string]int{"m1": 1, "m2": 1},
	}
}

// silent is an order of which nobody knows whether the partner has it, and that
// was put away.
func silent() *account {
	o := &purchase{number: 7, way: wayDirect, work: workQuick, shop: &shop{name: "mute"}, fault: faultHangAfter}
	task := &followed{id: "t", state: a2a.StateCanceled, send: "unknown", message: "m1", trail: trail(0, a2a.StateSubmitted, a2a.StateWorking, a2a.StateCanceled)}
	return &account{
		order: o, shop: o.shop, root: task, delegation: task, canceling: true, canceled: true, doubted: true,
		seen: []int64{1, 2, 3}, lastSeen: a2a.StateWorking.String(),
		items: []stall{settledItem("stuck", "gone on")},
		goods: []ware{{id: "g", state: a2a.StateWorking, messages: []string{"m1"}}},
		sends: map[string]int{"m1": 1},
	}
}

// twoSilences are the items of two silences; the second one begins that long
// before the item of the first.
func twoSilences(before time.Duration) []stall {
	told := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	first, second := settledItem("stuck", "gone on"), settledItem("stuck", "gone on")
	first.ID, first.Created, first.Settled = "i1", told, told.Add(time.Minute)
	second.ID, second.Created, second.Settled = "i2", told.Add(time.Hour), told.Add(2*time.Hour)
	second.Text = "The peer mute has been silent since " + told.Add(-before).Format(time.RFC3339) + ": no answer."
	return []stall{first, second}
}

// stepped is an order that an agent has delegated.
func stepped() *account {
	a := asked()
	a.order.way = wayStep
	root := *a.root
	root.text, root.goods, root.send, root.remote = a.order.result(), "", "", ""
	a.root = &root
	return a
}

// chained is an order that has gone over three nodes, with a question and an
// approval.
func chained() *account {
	o := &purchase{number: 7, way: wayChain, work: workApprove}
	root := &followed{
		id: "t", state: a2a.StateCompleted, text: o.result(),
		trail: trail(0, a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired, 0, a2a.StateWorking, a2a.StateAuthRequired, a2a.StateWorking, a2a.StateCompleted),
	}
	done := func(id string) []ware {
		return []ware{{id: id, state: a2a.StateCompleted, goods: o.result()}}
	}
	return &account{
		order: o, root: root, items: []stall{settledItem("question", "answered"), settledItem("grant", "approved")},
		seen: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, lastSeen: a2a.StateCompleted.String(),
		chain: map[string][]ware{"B": done("b"), "C": done("c")},
	}
}

func TestVerdictIsContent(t *testing.T) {
	t.Parallel()
	silentAgain := func() *account {
		a := silent()
		a.items = twoSilences(-30 * time.Minute)
		return a
	}
	for name, tell := range map[string]func() *account{"asked": asked, "silent": silent, "silent again": silentAgain, "stepped": stepped, "chained": chained} {
		if v := tell().violations(); len(v) > 0 {
			t.Errorf("%s: violations %q of a story without any", name, v)
		}
	}
}

// Every rule can be broken.
func TestVerdictFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tell   func() *account
		change func(*account)
		want   string
	}{
		{"a gap in the log", asked, func(a *account) { a.root.trail = slices.Delete(a.root.trail, 4, 5) }, "has the number 6"},
		{"an event after the end", asked, func(a *account) { a.root.trail = append(a.root.trail, trace{9, a2a.StateWorking}) }, "comes after it was"},
		{"another state than in the log", asked, func(a *account) { a.root.trail = a.root.trail[:7] }, "by its log it is"},
		{"a gap in what was watched", asked, func(a *account) { a.seen = slices.Delete(a.seen, 2, 3) }, "the watcher saw event 4"},
		{"an event that was watched twice", asked, func(a *account) { a.seen = slices.Insert(a.seen, 3, 3) }, "the watcher saw event 3"},
		{"an event that is not in the log", asked, func(a *account) { a.seen = append(a.seen, 9) }, "the watcher saw 9 events"},
		{"an end that was watched and is none", asked, func(a *account) { a.lastSeen = a2a.StateFailed.String() }, "the watcher saw TASK_STATE_FAILED"},
		{"a message that was sent twice", asked, func(a *account) { a.sends["m2"] = 2 }, "was sent 2 times"},
		{"more tasks than messages", asked, func(a *account) { a.goods = append(a.goods, a.goods[0], a.goods[0]) }, "3 tasks for 2 messages"},
		{"two tasks for one order", asked, func(a *account) { a.goods = append(a.goods, a.goods[0]) }, "2 tasks for one order"},
		{"a stall that did not come into the inbox", asked, func(a *account) { a.items = nil }, "stalled 1 times, and the inbox had 0"},
		{"a stall that came into the inbox twice", asked, func(a *account) { a.items = append(a.items, a.items[0]) }, "stalled 1 times, and the inbox had 2"},
		{"a stall that nobody asked about", asked, func(a *account) { a.order.work = workQuick }, "the order asks 0 times"},
		{"a stall that was settled twice", asked, func(a *account) { a.items[0].history = append(a.items[0].history, "gone on") }, "its history has"},
		{"a stall that was settled by nobody", asked, func(a *account) { a.items[0].history = nil }, "its history has"},
		{"a stall that is open", asked, func(a *account) { a.items[0].Settled, a.items[0].history = time.Time{}, nil }, "is open, and its task"},
		{"a stall below the root", stepped, func(a *account) { a.strayItems = 1 }, "below the root"},
		{"a silent partner told of twice", silent, func(a *account) { a.items = append(a.items, a.items[0]) }, "while"},
		{"one silence told of twice", silent, func(a *account) { a.items = twoSilences(time.Minute) }, "it is the same silence"},
		{"a silence that says no time", silent, func(a *account) {
			a.items = twoSilences(-time.Minute)
			a.items[1].Text = "Work for the peer mute waits."
		}, "since when"},
		{"a silent partner that nobody was told of", silent, func(a *account) { a.items = nil }, "nobody knows of the message"},
		{"a partner that was not silent", asked, func(a *account) { a.items = append(a.items, settledItem("stuck", "gone on")) }, "it was not"},
		{"something open below what is over", stepped, func(a *account) { a.openBelow = []string{"x"} }, "is open below"},
		{"a delegation open below what is over", stepped, func(a *account) {
			d := *a.delegation
			d.state, d.trail, a.delegation = a2a.StateWorking, d.trail[:7], &d
		}, "below a task that is"},
		{"completed, and not at the partner", asked, func(a *account) { a.goods[0].state = a2a.StateFailed }, "and at the partner TASK_STATE_FAILED"},
		{"completed without the artifact", asked, func(a *account) { a.root.goods = "" }, `completed with ""`},
		{"completed with something else", asked, func(a *account) { a.root.goods, a.goods[0].goods = "junk", "junk" }, `completed with "junk"`},
		{"failed, and not at the partner", asked, func(a *account) { end(a, a2a.StateFailed) }, "it is failed"},
		{"rejected, and not at the partner", asked, func(a *account) { end(a, a2a.StateRejected) }, "it is rejected"},
		{"canceled by nobody", asked, func(a *account) { end(a, a2a.StateCanceled) }, "nobody has canceled it"},
		{"a cancel that was answered and came to nothing", asked, func(a *account) { a.canceling, a.canceled = true, true }, "its cancel was answered"},
		{"a cancel that did not reach the partner", asked, func(a *account) {
			a.canceling = true
			end(a, a2a.StateCanceled)
			a.goods[0].state = a2a.StateWorking
		}, "it is canceled, and at the partner"},
		{"open for ever", asked, func(a *account) { end(a, a2a.StateWorking) }, "for ever"},
		{"another task than that of the partner", asked, func(a *account) { a.root.remote = "somebody-elses" }, "the partner has made"},
		{"a task that the partner does not have", asked, func(a *account) { a.goods = nil }, "has made none"},
		{"unknown, and the partner lists it", silent, func(a *account) { a.shop.lists = true }, "the partner tells of it"},
		{"lost, and the partner pushed it", silent, func(a *account) { a.root.send, a.shop.pushes = "lost", true }, "the partner tells of it"},
		{"unknown, and the partner can be asked", silent, func(a *account) { a.root.remote = "g" }, "the partner tells of it"},
		{"unknown at a partner that deduplicates", silent, func(a *account) {
			a.shop.dedupes = true
			end(a, a2a.StateWorking)
		}, "the partner tells of it"},
		{"an agent that ends otherwise", stepped, func(a *account) { end(a, a2a.StateFailed) }, "the task above is"},
		{"an agent that says something else", stepped, func(a *account) { a.root.text = "junk" }, "the task above says"},
		{"nothing delegated, and nothing ended", stepped, func(a *account) {
			a.delegation = nil
			end(a, a2a.StateWorking)
		}, "nothing was delegated"},
		{"a chain with two tasks at a node", chained, func(a *account) { a.chain["B"] = append(a.chain["B"], a.chain["B"][0]) }, "2 tasks for one order"},
		{"a chain that goes on at a node", chained, func(a *account) { a.chain["B"][0].state = a2a.StateWorking }, "at node B"},
		{"a chain without its end", chained, func(a *account) { a.chain["C"] = nil }, "at the end of the chain"},
		{"a chain that brings something else", chained, func(a *account) { a.root.text = "junk" }, "it is completed with"},
		{"a chain that failed at its beginning", chained, func(a *account) { end(a, a2a.StateFailed) }, "it is failed"},
		{"a chain that nobody has canceled", chained, func(a *account) { end(a, a2a.StateCanceled) }, "nobody has canceled it"},
		{"a chain that goes on for ever", chained, func(a *account) { end(a, a2a.StateInputRequired) }, "for ever"},
		{"a chain that was canceled in vain", chained, func(a *account) { a.canceled = true }, "its cancel was answered"},
		{"a chain that asks once only", chained, func(a *account) {
			a.items = a.items[:1]
			a.root.trail[6].state = 0
		}, "the order asks 2 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := c.tell()
			c.change(a)
			if v := a.violations(); !slices.ContainsFunc(v, func(text string) bool { return strings.Contains(text, c.want) }) {
				t.Errorf("violations %q, and none with %q", v, c.want)
			}
		})
	}
}

// end lets the root end otherwise, in its log and for its watcher too.
func end(a *account, state a2a.TaskState) {
	a.root.state = state
	a.root.trail[len(a.root.trail)-1].state = state
	a.lastSeen = state.String()
}

// What the seed decides can be repeated, and has everything in it.
func TestOrdersAreDrawnAgain(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for n := range 2000 {
		a, b := drawOrder(3, n), drawOrder(3, n)
		if a.shop != nil {
			if *a.shop != *b.shop {
				t.Fatalf("order %d: %+v and %+v", n, a.shop, b.shop)
			}
			seen[a.shop.name] = true
			a.shop, b.shop = nil, nil
		}
		if *a != *b {
			t.Fatalf("order %d: %+v and %+v", n, a, b)
		}
		for _, f := range []partnerFault{a.fault, a.answerFault, a.flaw} {
			seen[string(f)] = true
		}
		seen[string(a.way)], seen[a.work] = true, true
	}
	for _, want := range []any{
		faultNone, faultHangBefore, faultHangAfter, faultDropBefore, faultDropAfter, faultLate, faultBusy, faultDown, faultGateway,
		faultRedirect, faultRefuse, faultBreak, faultNoPush, faultPlain, faultCut, flawTwice, flawOrder, flawLies, flawEndless, flawFlaky,
		flawForgetful, wayDirect, wayRelay, wayStep, wayChain, workQuick, workSlow, workAsk, workApprove, workFail, workReject, workForever,
	} {
		name := ""
		switch w := want.(type) {
		case partnerFault:
			name = string(w)
		case way:
			name = string(w)
		case string:
			name = w
		}
		if !seen[name] {
			t.Errorf("no order has %q", name)
		}
	}
	for _, s := range shops() {
		if !seen[s.name] {
			t.Errorf("no order goes to %q", s.name)
		}
	}
}
