package push

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pool shares out the deliveries of a node between the owners of webhooks: those
// to each target, those of the node, and the places to wait for one. What an
// owner's receivers do is nobody else's business: a target that does not answer
// an owner gets one delivery of that owner at a time, and those of others as
// before.
type pool struct {
	perTarget int
	pause     time.Duration // the least for which a delivery is put off

	mu      sync.Mutex
	slots   share // of the node
	places  share // to wait in
	owners  map[party]*owner
	targets map[string]*target
	lines   map[lineKey]*line
	queue   []*line // that somebody waits in, the one that was served the longest ago first
}

// share is something that owners have a share of.
type share struct{ size, taken int }

// party is who owns webhooks.
type party struct{ tenant, owner string }

type owner struct {
	busy, waiting, lines int
	took                 time.Duration // by a delivery, about
	next                 time.Time     // at which the last of those put off comes again
}

type target struct {
	slots          share
	waiting, lines int
}

type lineKey struct {
	party  party
	target string
}

// line is the deliveries of an owner to a target.
type line struct {
	key      lineKey
	owner    *owner
	target   *target
	busy     int
	waiting  []chan bool // told whether it is their turn
	failures int         // in a row, without an answer
}

// slot is what a delivery holds while it is under way.
type slot struct {
	line  *line
	since time.Time
}

const (
	waitingPerSlot = 8    // deliveries of an owner to a target that may wait, for each of the slots of the target
	placesPerSlot  = 4    // deliveries that may wait, for each of the slots of the node
	maxLines       = 8192 // that are remembered
	maxPause       = time.Minute
)

func newPool(perTarget, total int, pause time.Duration) *pool {
	return &pool{
		perTarget: perTarget, pause: pause, slots: share{size: total}, places: share{size: placesPerSlot * total},
		owners: map[party]*owner{}, targets: map[string]*target{}, lines: map[lineKey]*line{},
	}
}

// has reports whether there is one for an owner that has so many: who has some
// already gets another only while more are free than it has. So one owner alone
// takes a half at most, two a third each, and somebody new finds one free.
func (s *share) has(held int) bool { return held < s.size-s.taken }

// enter waits for a slot of a target for an owner. Without one, the delivery is
// put off for the time that comes back. Leave it when done.
func (p *pool) enter(ctx context.Context, who party, to string) (*slot, time.Duration) {
	l, turn, later := p.join(lineKey{who, to})
	if later > 0 {
		return nil, later
	}
	if turn != nil {
		var in bool
		select {
		case in = <-turn:
		case <-ctx.Done():
			if p.withdraw(l, turn) { // its turn came at the same moment
				p.leave(&slot{line: l, since: time.Now()}, true)
			}
			return nil, p.pause
		}
		if !in {
			p.mu.Lock()
			defer p.mu.Unlock()
			return nil, p.putOff(l.failures)
		}
	}
	return &slot{line: l, since: time.Now()}, 0
}

// join takes a slot, or a place to wait for one. Without either, it says how long
// the delivery is put off.
func (p *pool) join(key lineKey) (l *line, turn chan bool, later time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l = p.line(key)
	switch {
	case len(l.waiting) == 0 && p.fits(l):
		p.take(l)
	case l.failures > 0:
		later = p.putOff(l.failures)
	case len(l.waiting) < waitingPerSlot*p.perTarget && p.places.has(l.owner.waiting):
		turn = make(chan bool, 1)
		p.wait(l, turn)
	default:
		later = p.putBehind(l.owner)
	}
	p.tidy(l)
	return l, turn, later
}

// fits reports whether there is a slot for one more delivery of a line.
func (p *pool) fits(l *line) bool {
	if l.failures > 0 && l.busy > 0 {
		return false
	}
	return l.target.slots.has(l.busy) && p.slots.has(l.owner.busy)
}

func (p *pool) take(l *line) {
	l.busy++
	l.owner.busy++
	l.target.slots.taken++
	p.slots.taken++
}

func (p *pool) wait(l *line, turn chan bool) {
	if len(l.waiting) == 0 {
		p.queue = append(p.queue, l)
	}
	l.waiting = append(l.waiting, turn)
	l.owner.waiting++
	l.target.waiting++
	p.places.taken++
}

// unwait takes one of those who wait in a line out of it.
func (p *pool) unwait(l *line, at int) chan bool {
	turn := l.waiting[at]
	l.waiting = append(l.waiting[:at], l.waiting[at+1:]...)
	l.owner.waiting--
	l.target.waiting--
	p.places.taken--
	if len(l.waiting) == 0 {
		for i := range p.queue {
			if p.queue[i] == l {
				p.queue = append(p.queue[:i], p.queue[i+1:]...)
				break
			}
		}
	}
	return turn
}

// withdraw gives a place up. It reports whether its turn had come.
func (p *pool) withdraw(l *line, turn chan bool) (in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			p.unwait(l, i)
			p.tidy(l)
			return false
		}
	}
	return <-turn
}

// leave gives a slot back, to those who wait. Answered says whether the target
// has answered; when it has not, those of the owner who wait come again later.
func (p *pool) leave(s *slot, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := s.line
	l.busy--
	l.owner.busy--
	l.target.slots.taken--
	p.slots.taken--
	if took := time.Since(s.since); l.owner.took == 0 {
		l.owner.took = took
	} else {
		l.owner.took += (took - l.owner.took) / 8
	}
	if answered {
		l.failures = 0
	} else {
		l.failures++
		for len(l.waiting) > 0 {
			p.unwait(l, 0) <- false
		}
	}
	p.admit()
	p.tidy(l)
}

// admit gives free slots to those who wait: the next one to the owner that has
// the fewest, and to its targets in turn.
func (p *pool) admit() {
	for {
		var next *line
		for _, l := range p.queue {
			if p.fits(l) && (next == nil || l.owner.busy < next.owner.busy) {
				next = l
			}
		}
		if next == nil {
			return
		}
		turn := p.unwait(next, 0)
		if len(next.waiting) > 0 { // behind the others
			for i := range p.queue {
				if p.queue[i] == next {
					p.queue = append(append(p.queue[:i], p.queue[i+1:]...), next)
					break
				}
			}
		}
		p.take(next)
		turn <- true
	}
}

// contended reports whether others wait for what a slot holds.
func (p *pool) contended(s *slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.line.target.waiting > 0 || !p.fits(s.line)
}

// putOff is for how long a delivery is put off, the longer the more often its
// target has not answered.
func (p *pool) putOff(failures int) time.Duration {
	return jitter(min(p.pause<<min(failures, 10), maxPause))
}

// putBehind is for how long a delivery is put off that found no place to wait.
// Those of an owner come again one after another, twice as fast as its slots
// become free: all at once, they would be in everybody's way.
func (p *pool) putBehind(o *owner) time.Duration {
	now := time.Now()
	if o.next.Before(now) {
		o.next = now
	}
	if o.next.Before(now.Add(maxPause)) {
		o.next = o.next.Add(o.took / time.Duration(2*max(o.busy, 1)))
	}
	return jitter(p.pause) + o.next.Sub(now)
}

// line returns the line of an owner to a target.
func (p *pool) line(key lineKey) *line {
	if l := p.lines[key]; l != nil {
		return l
	}
	p.forget()
	l := &line{key: key, owner: p.owners[key.party], target: p.targets[key.target]}
	if l.owner == nil {
		l.owner = &owner{}
		p.owners[key.party] = l.owner
	}
	if l.target == nil {
		l.target = &target{slots: share{size: p.perTarget}}
		p.targets[key.target] = l.target
	}
	l.owner.lines++
	l.target.lines++
	p.lines[key] = l
	return l
}

// tidy forgets a line of which there is nothing to know.
func (p *pool) tidy(l *line) {
	if l.busy == 0 && len(l.waiting) == 0 && l.failures == 0 {
		p.drop(l)
	}
}

// forget makes room for another line: those that nobody uses go first.
func (p *pool) forget() {
	if len(p.lines) < maxLines {
		return
	}
	for _, l := range p.lines {
		if l.busy == 0 && len(l.waiting) == 0 {
			p.drop(l)
			if len(p.lines) < maxLines*3/4 {
				return
			}
		}
	}
}

func (p *pool) drop(l *line) {
	if p.lines[l.key] != l {
		return
	}
	delete(p.lines, l.key)
	if l.owner.lines--; l.owner.lines == 0 {
		delete(p.owners, l.key.party)
	}
	if l.target.lines--; l.target.lines == 0 {
		delete(p.targets, l.key.target)
	}
}

// jitter returns a time within a quarter of another.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
