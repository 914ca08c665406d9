//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"
)

// purchase is a piece of work that is handed on, as the seed has decided it.
type purchase struct {
	number int
	way    way
	shop   *shop // nil on the way through a chain
	work   string
	// fault is what the partner does with the first message, and answerFault
	// with the answer to its question.
	fault, answerFault partnerFault
	// flaw is what is wrong with what it tells afterwards.
	flaw   partnerFault
	took   time.Duration // of slow work
	cancel time.Duration // after which it is canceled; 0: never
}

// way is how an order gets to the partner.
type way string

// The ways. A chain goes over two more nodes.
const (
	wayDirect way = "handed to a peer over the API"
	wayRelay  way = "relayed by an agent"
	wayStep   way = "delegated by an agent in a step"
	wayChain  way = "handed from node to node, three hops"
)

// The kinds of work.
const (
	workQuick   = "done at once"
	workSlow    = "done in a while"
	workAsk     = "done after a question"
	workApprove = "done after an approval"
	workFail    = "failed"
	workReject  = "rejected"
	workForever = "done never"
)

// shop is an agent of the partner, with what it can do.
type shop struct {
	name                            string
	streams, lists, pushes, dedupes bool
}

// shops are all agents of the partner.
func shops() []*shop {
	return []*shop{
		{name: "streams", streams: true, lists: true},
		{name: "answers", lists: true},
		{name: "pushes", pushes: true},
		{name: "mute"},
		{name: "dedupes", streams: true, dedupes: true},
	}
}

// partnerFault is what the partner does wrong.
type partnerFault string

// The faults with a message. Those of before come when nothing is done.
const (
	faultNone       partnerFault = ""
	faultHangBefore partnerFault = "accepts and says nothing, and does nothing"
	faultHangAfter  partnerFault = "accepts and says nothing, and the task exists"
	faultDropBefore partnerFault = "drops the connection, and does nothing"
	faultDropAfter  partnerFault = "drops the response after the task exists"
	faultLate       partnerFault = "answers after the node has died"
	faultBusy       partnerFault = "429 with Retry-After"
	faultDown       partnerFault = "503 with Retry-After"
	faultGateway    partnerFault = "502 after the task exists"
	faultRedirect   partnerFault = "redirects"
	faultRefuse     partnerFault = "refuses the message"
	faultBreak      partnerFault = "fails on the message"
	faultNoPush     partnerFault = "refuses to push"
	faultPlain      partnerFault = "answers a stream with one answer"
	faultCut        partnerFault = "cuts the stream after its first event"
)

// The faults with what is told of a task.
const (
	flawTwice     partnerFault = "duplicates events"
	flawOrder     partnerFault = "reorders events"
	flawLies      partnerFault = "lies about ids"
	flawEndless   partnerFault = "streams for ever"
	flawFlaky     partnerFault = "fails to tell of the task"
	flawForgetful partnerFault = "hides the history"
)

// before reports whether a fault comes before anything is done.
func (f partnerFault) before() bool {
	switch f {
	case faultHangBefore, faultDropBefore, faultRedirect, faultRefuse, faultBreak:
		return true
	}
	return false
}

// drawOrder decides an order: the same number of the same seed is the same order.
func drawOrder(seed uint64, number int) *purchase {
	r := rand.New(rand.NewPCG(seed, uint64(number)+1<<33))
	o := &purchase{number: number, way: []way{wayDirect, wayDirect, wayDirect, wayRelay, wayStep, wayChain, wayChain}[r.IntN(7)]}
	all := shops()
	o.shop = all[r.IntN(len(all))]
	o.work = []string{workQuick, workSlow, workSlow, workSlow, workAsk, workAsk, workApprove, workApprove, workFail, workReject, workForever}[r.IntN(11)]
	o.took = time.Duration(50+r.IntN(1500)) * time.Millisecond
	faults := []partnerFault{
		faultHangBefore, faultHangAfter, faultHangAfter, faultDropBefore, faultDropAfter, faultDropAfter, faultLate, faultLate,
		faultBusy, faultDown, faultGateway, faultRedirect, faultRefuse, faultBreak,
	}
	if o.shop.streams {
		faults = append(faults, faultPlain, faultCut, faultCut)
	}
	if o.shop.pushes {
		faults = append(faults, faultNoPush)
	}
	if r.IntN(2) == 0 {
		o.fault = faults[r.IntN(len(faults))]
	}
	if r.IntN(3) == 0 {
		o.answerFault = []partnerFault{faultHangAfter, faultDropAfter, faultLate, faultBusy, faultDown, faultGateway, faultDropBefore}[r.IntN(7)]
	}
	if r.IntN(3) == 0 {
		flaws := []partnerFault{flawTwice, flawOrder, flawLies, flawFlaky, flawForgetful}
		o.flaw = flaws[r.IntN(len(flaws))]
	}
	if o.work == workForever {
		o.cancel = time.Duration(200+r.IntN(1500)) * time.Millisecond
		if o.shop.streams {
			o.flaw = flawEndless
		}
	} else if r.IntN(10) == 0 {
		o.cancel = time.Duration(20+r.IntN(800)) * time.Millisecond
	}
	if o.way == wayChain {
		o.shop, o.fault, o.answerFault, o.flaw = nil, faultNone, faultNone, faultNone
		o.work = []string{workQuick, workSlow, workAsk, workApprove, workFail}[r.IntN(5)]
		if r.IntN(2) == 0 {
			o.work = workApprove // which asks too
		}
		if o.cancel > 0 && r.IntN(2) == 0 {
			o.cancel = 0
		}
	}
	return o
}

// ref is the business key of an order.
func (o *purchase) ref() string { return fmt.Sprintf("PO-%06d", o.number) }

// text is the message that it is placed with.
func (o *purchase) text() string {
	if o.way == wayChain {
		return fmt.Sprintf("order %d %s", o.number, o.work)
	}
	return fmt.Sprintf("order %d", o.number)
}

// to is the name that it is handed to on the first node.
func (o *purchase) to() string {
	switch o.way {
	case wayRelay:
		return "relay-" + o.shop.name
	case wayStep:
		return "step-" + o.shop.name
	case wayChain:
		return "root"
	}
	return o.shop.name
}

// questions is how many questions an order asks before it is completed.
func (o *purchase) questions() int {
	switch {
	case o.way == wayChain && o.work == workApprove:
		return 2
	case o.work == workAsk, o.work == workApprove:
		return 1
	}
	return 0
}

// denied reports whether the clerk denies what the order asks for.
func (o *purchase) denied() bool { return o.number%5 == 0 }

// result is what a completed order has brought.
func (o *purchase) result() string {
	if o.work == workAsk && o.way != wayChain {
		return fmt.Sprintf("goods of order %d, %s", o.number, o.answer())
	}
	return fmt.Sprintf("goods of order %d", o.number)
}

// answer is what the clerk says to the question of an order.
func (o *purchase) answer() string {
	text := fmt.Sprintf("as many as in order %d", o.number)
	if o.way == wayChain && o.work == workApprove {
		text += " if approved"
	}
	return text
}

var ofOrder = regexp.MustCompile(`\border (\d+)`)

// orderIn returns the number of the order that a text names, 0 when it names none.
func orderIn(text string) int {
	m := ofOrder.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
