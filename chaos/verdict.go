//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// account is all that is known of an order in the end: at the node, at the
// partner, and by who has placed it.
type account struct {
	order *purchase

	// Of the node. root is the task that was placed; delegation is that which was
	// handed to the partner, and the same unless an agent is between them.
	root, delegation *followed
	openBelow        []string // delegations that are open below a terminal parent
	items            []stall  // of the root, and of silent partners
	doubted          bool     // it was put away since nobody knew of its message
	strayItems       int      // of tasks below the root

	// Of the buyer.
	canceling, canceled bool
	seen                []int64 // numbers of the events that were watched
	lastSeen            string  // state that was watched last

	// Of the partner; of a chain, the tasks of the other nodes.
	shop    *shop
	goods   []ware
	sends   map[string]int // of each message, those that were not refused for certain
	cancels int
	chain   map[string][]ware // by node
}

// followed is a task of the node.
type followed struct {
	id      string
	state   a2a.TaskState
	text    string  // of its last status
	goods   string  // of its artifact
	send    string  // how far its message has got
	message string  // id of that message
	remote  string  // id of the task at the partner
	trail   []trace // its log
}

// trace is an event of a log.
type trace struct {
	seq   int64
	state a2a.TaskState // 0: no status
}

// ware is a task of the partner.
type ware struct {
	id       string
	state    a2a.TaskState
	goods    string
	messages []string // ids in its history
}

// violations returns what must never happen, and has.
func (a *account) violations() []string {
	var v verdict
	a.checkLogs(&v)
	a.checkSends(&v)
	a.checkInbox(&v)
	a.checkTree(&v)
	if a.order.way == wayChain {
		a.checkChain(&v)
	} else {
		a.checkTruth(&v)
		a.checkCancel(&v)
	}
	return v
}

type verdict []string

func (v *verdict) add(format string, arguments ...any) {
	*v = append(*v, fmt.Sprintf(format, arguments...))
}

// checkLogs: the log is numbered without a gap, nothing follows the end, and who
// watched saw exactly the log.
func (a *account) checkLogs(v *verdict) {
	for _, f := range []*followed{a.root, a.delegation} {
		if f == nil || f == a.delegation && f == a.root {
			continue
		}
		f.checkTrail(v)
	}
	if a.root == a.delegation && a.root != nil {
		a.root.checkTrail(v)
	}
	for i, n := range a.seen {
		if n != int64(i+1) {
			v.add("after event %d the watcher saw event %d", i, n)
			break
		}
	}
	if n := len(a.root.trail); len(a.seen) > n {
		v.add("the watcher saw %d events, and the log has %d", len(a.seen), n)
	}
	if last := stateNamed(a.lastSeen); last.Terminal() && last != a.root.state {
		v.add("the watcher saw %s, and the task is %s", last, a.root.state)
	}
}

func (f *followed) checkTrail(v *verdict) {
	var now a2a.TaskState
	for i, t := range f.trail {
		if t.seq != int64(i+1) {
			v.add("event %d of task %s has the number %d", i+1, f.id, t.seq)
			return
		}
		if now.Terminal() {
			v.add("event %d of task %s comes after it was %s", t.seq, f.id, now)
			return
		}
		if t.state != 0 {
			now = t.state
		}
	}
	if now != f.state {
		v.add("task %s is %s, and by its log it is %s", f.id, f.state, now)
	}
}

// stateNamed returns the state of a name.
func stateNamed(name string) a2a.TaskState {
	for s := a2a.StateUnspecified; s <= a2a.StateAuthRequired+4; s++ {
		if s.String() == name {
			return s
		}
	}
	return a2a.StateUnspecified
}

// checkSends: no message was sent twice to a partner that does not deduplicate,
// and there are no more tasks than messages.
func (a *account) checkSends(v *verdict) {
	if a.shop == nil {
		return
	}
	for id, n := range a.sends {
		if n > 1 && !a.shop.dedupes {
			v.add("message %s was sent %d times to a partner that does not deduplicate", id, n)
		}
	}
	if len(a.goods) > len(a.sends) {
		v.add("the partner has %d tasks for %d messages", len(a.goods), len(a.sends))
	}
	if len(a.goods) > 1 {
		v.add("the partner has %d tasks for one order", len(a.goods))
	}
}

// settledBy are the words with which an item is settled.
var settledBy = []string{"answered", "approved", "denied", "canceled", "expired", "gone on"}

// checkInbox: every stall of the root came into the inbox once and was settled
// once, and nothing else did.
func (a *account) checkInbox(v *verdict) {
	interrupted := 0
	for _, t := range a.root.trail {
		if t.state.Interrupted() {
			interrupted++
		}
	}
	asked, stuck := 0, 0
	var silences []stall
	for _, s := range a.items {
		if s.Kind == "stuck" {
			stuck++
			silences = append(silences, s)
		} else {
			asked++
		}
		settled := 0
		for _, what := range s.history {
			if slices.Contains(settledBy, what) {
				settled++
			}
		}
		open := s.Settled.IsZero()
		switch {
		case open && settled > 0, !open && settled != 1:
			v.add("item %s of kind %s is settled: %t, and its history has %v", s.ID, s.Kind, !open, s.history)
		case open && a.root.state.Terminal():
			v.add("item %s of kind %s is open, and its task is %s", s.ID, s.Kind, a.root.state)
		}
	}
	if a.strayItems > 0 {
		v.add("%d items are of tasks below the root", a.strayItems)
	}
	if asked != interrupted {
		v.add("the task stalled %d times, and the inbox had %d items", interrupted, asked)
	}
	if want := a.order.questions(); asked > want || asked < want && a.root.state == a2a.StateCompleted {
		v.add("the order asks %d times, and the inbox had %d items", want, asked)
	}
	checkSilences(v, silences)
	if a.doubted && stuck == 0 {
		v.add("nobody knows of the message, and the inbox had %d items that say so", stuck)
	}
	if stuck > 0 && !a.doubted && a.delegation.send == "accepted" && a.order.fault == faultNone && a.order.answerFault == faultNone && a.order.flaw == faultNone {
		v.add("somebody was told that the partner is silent, and it was not")
	}
}

// checkSilences: somebody was told of each silence of the partner once. It is
// another silence when the partner was heard of after the item of the one before,
// and that item was put away.
func checkSilences(v *verdict, items []stall) {
	slices.SortFunc(items, func(a, b stall) int { return a.Created.Compare(b.Created) })
	for i := range items {
		if i == 0 {
			continue
		}
		before, item := &items[i-1], &items[i]
		if before.Settled.IsZero() || item.Created.Before(before.Settled) {
			v.add("the item %s says that the partner is silent, while %s says so", item.ID, before.ID)
		}
		switch since, ok := item.silentSince(); {
		case !ok:
			v.add("the item %s does not say since when the partner is silent, so that it may be the silence of %s", item.ID, before.ID)
		case since.Before(before.Created.Truncate(time.Second)):
			v.add("the items %s and %s say that the partner is silent, and it is the same silence", before.ID, item.ID)
		}
	}
}

// checkTree: nothing is open below a task that is over.
func (a *account) checkTree(v *verdict) {
	for _, id := range a.openBelow {
		v.add("the delegation %s is open below a task that is over", id)
	}
	if a.root.state.Terminal() && a.delegation != nil && !a.delegation.state.Terminal() {
		v.add("the delegation is %s below a task that is %s", a.delegation.state, a.root.state)
	}
}

// truly reports whether it is right that nobody knows what became of the message
// that was sent last: the partner does not have it, or does not tell, or pushes
// another task than it. A partner that deduplicates is sent it again, while it is worth it.
func (a *account) truly() bool {
	d := a.delegation
	if a.shop.dedupes && !d.state.Terminal() {
		return false
	}
	for _, g := range a.goods {
		if slices.Contains(g.messages, d.message) {
			told := d.remote == g.id || a.shop.pushes && a.order.flaw != flawLies || a.shop.lists && a.order.flaw != flawForgetful
			return !told
		}
	}
	return true
}

// checkTruth: the delegation is what the partner has done.
func (a *account) checkTruth(v *verdict) {
	d := a.delegation
	if d == nil {
		if !a.root.state.Terminal() {
			v.add("nothing was delegated, and the task is %s", a.root.state)
		}
		return
	}
	if (d.send == "unknown" || d.send == "lost" || d.send == "sending") && !a.truly() {
		v.add("the message is %s, and the partner tells of it: %+v", d.send, a.goods)
	}
	var there a2a.TaskState
	var goods string
	if len(a.goods) > 0 {
		there, goods = a.goods[0].state, a.goods[0].goods
		if d.remote != "" && d.remote != a.goods[0].id {
			v.add("the delegation is of the task %q, and the partner has made %q", d.remote, a.goods[0].id)
		}
	} else if d.remote != "" {
		v.add("the delegation is of the task %q, and the partner has made none", d.remote)
	}
	switch d.state {
	case a2a.StateCompleted:
		if there != a2a.StateCompleted || d.goods != goods || goods != a.order.result() {
			v.add("it is completed with %q, and at the partner %s with %q", d.goods, there, goods)
		}
	case a2a.StateFailed:
		a.checkFailed(v, there)
	case a2a.StateRejected:
		if there != a2a.StateRejected {
			v.add("it is rejected, and at the partner %s", there)
		}
	case a2a.StateCanceled:
		if !a.canceling {
			v.add("it is canceled, and nobody has canceled it")
		}
	default:
		if d.send != "unknown" || !a.truly() {
			v.add("it is %s (%s) for ever, and at the partner %s", d.state, d.text, there)
		}
	}
	if a.canceled && a.root.state != a2a.StateCanceled {
		v.add("its cancel was answered, and it is %s", a.root.state)
	}
	if a.root != d {
		a.checkParent(v)
	}
}

func (a *account) checkFailed(v *verdict, there a2a.TaskState) {
	switch {
	case there == a2a.StateFailed:
	case a.order.fault == faultRefuse && len(a.goods) == 0 && strings.Contains(a.delegation.text, "not taken"):
	case a.order.fault == faultBreak && len(a.goods) == 0 && strings.Contains(a.delegation.text, "not known"):
	default:
		v.add("it is failed (%s), and at the partner %s", a.delegation.text, there)
	}
}

// checkParent: a task that delegates ends as the delegation does.
func (a *account) checkParent(v *verdict) {
	want := a.delegation.state
	switch {
	case a.root.state == a2a.StateCanceled && a.canceling, !want.Terminal() && !a.root.state.Terminal():
		return
	case want == a2a.StateCompleted:
		if plain(a.root.text) != a.order.result() {
			v.add("the task above says %q", a.root.text)
		}
	default:
		want = a2a.StateFailed
	}
	if a.root.state != want {
		v.add("the task above is %s, and what it has delegated %s", a.root.state, a.delegation.state)
	}
}

// plain joins the words of a text.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

// checkCancel: a cancel reaches the partner.
func (a *account) checkCancel(v *verdict) {
	d := a.delegation
	if d == nil || d.state != a2a.StateCanceled {
		return
	}
	for _, g := range a.goods {
		if !g.state.Terminal() && !(d.remote == "" && a.truly()) {
			v.add("it is canceled, and at the partner %s", g.state)
		}
	}
}

// checkChain: all nodes say the same, and made no more tasks than they had to.
func (a *account) checkChain(v *verdict) {
	for node, tasks := range a.chain {
		if len(tasks) > 1 {
			v.add("node %s has %d tasks for one order", node, len(tasks))
		}
		for _, t := range tasks {
			if !t.state.Terminal() {
				v.add("at node %s it is %s, and at the root %s", node, t.state, a.root.state)
			}
		}
	}
	last := a.chain["C"]
	var there ware
	if len(last) > 0 {
		there = last[0]
	}
	if a.canceled && a.root.state != a2a.StateCanceled {
		v.add("its cancel was answered, and it is %s", a.root.state)
	}
	switch a.root.state {
	case a2a.StateCompleted:
		if there.state != a2a.StateCompleted || plain(a.root.text) != a.order.result() || plain(there.goods) != a.order.result() {
			v.add("it is completed with %q, and at the end of the chain %s with %q", a.root.text, there.state, there.goods)
		}
	case a2a.StateFailed:
		if there.state != a2a.StateFailed {
			v.add("it is failed (%s), and at the end of the chain %s", a.root.text, there.state)
		}
	case a2a.StateCanceled:
		if !a.canceling {
			v.add("it is canceled, and nobody has canceled it")
		}
	default:
		v.add("it is %s for ever, and at the end of the chain %s", a.root.state, there.state)
	}
}
