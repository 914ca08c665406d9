package push

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pool bounds the deliveries to each target and those of the node. A target
// that does not answer gets one delivery at a time, and nobody waits for it.
type pool struct {
	perTarget, total int
	pause            time.Duration // the least for which a delivery is put off

	mu      sync.Mutex
	targets map[string]*target
	taken   int // deliveries that are under way or wait here
}

type target struct {
	busy     int
	waiting  []chan bool // told whether it is their turn
	failures int         // in a row, without an answer
	since    time.Time   // of the last failure
}

const (
	waitingPerSlot = 8    // deliveries to a target that may wait for one of its slots
	maxTargets     = 8192 // that are remembered
	maxPause       = time.Minute
)

func newPool(perTarget, total int, pause time.Duration) *pool {
	return &pool{perTarget: perTarget, total: total, pause: pause, targets: map[string]*target{}}
}

// enter waits for a slot of a target. Without one, the delivery is put off for
// the time that comes back. Leave it when done.
func (p *pool) enter(ctx context.Context, name string) (in bool, later time.Duration) {
	turn, t, later := p.join(name)
	if t == nil {
		return turn == nil && later == 0, later
	}
	select {
	case in = <-turn:
	case <-ctx.Done():
		in = p.withdraw(t, turn)
		if in { // its turn came at the same moment
			p.leave(name, true)
		}
		return false, p.pause
	}
	if !in {
		p.mu.Lock()
		defer p.mu.Unlock()
		return false, p.putOff(t.failures)
	}
	return true, 0
}

// join takes a slot, or a place among those who wait for one of the target that
// comes back. Without either, it says how long the delivery is put off.
func (p *pool) join(name string) (turn chan bool, wait *target, later time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[name]
	if t == nil {
		p.forget()
		t = &target{}
		p.targets[name] = t
	}
	switch {
	case p.taken >= p.total:
		return nil, nil, p.putOff(0)
	case t.busy < p.slots(t):
		t.busy++
		p.taken++
		return nil, nil, 0
	case t.failures == 0 && len(t.waiting) < waitingPerSlot*p.perTarget:
		p.taken++
		turn = make(chan bool, 1)
		t.waiting = append(t.waiting, turn)
		return turn, t, 0
	}
	return nil, nil, p.putOff(t.failures)
}

// withdraw gives a place up. It reports whether its turn had come.
func (p *pool) withdraw(t *target, turn chan bool) (in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range t.waiting {
		if w == turn {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			p.taken--
			return false
		}
	}
	return <-turn
}

// leave gives a slot back, to those who wait. Answered says whether the target
// has answered; when it has not, those who wait come again later.
func (p *pool) leave(name string, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[name]
	t.busy--
	p.taken--
	if answered {
		t.failures = 0
	} else {
		t.failures++
		t.since = time.Now()
	}
	for len(t.waiting) > 0 && (t.failures > 0 || t.busy < p.slots(t)) {
		turn := t.waiting[0]
		t.waiting = t.waiting[1:]
		if t.failures > 0 {
			p.taken--
			turn <- false
			continue
		}
		t.busy++
		turn <- true
	}
	if t.busy == 0 && t.failures == 0 {
		delete(p.targets, name)
	}
}

// slots is how many deliveries a target gets at once.
func (p *pool) slots(t *target) int {
	if t.failures > 0 {
		return 1
	}
	return p.perTarget
}

// contended reports whether others wait for the target.
func (p *pool) contended(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[name]
	return p.taken >= p.total || t != nil && (len(t.waiting) > 0 || t.busy >= p.slots(t))
}

// putOff is for how long a delivery is put off, the longer the more often its
// target has not answered.
func (p *pool) putOff(failures int) time.Duration {
	return jitter(min(p.pause<<min(failures, 10), maxPause))
}

// forget makes room for another target: those that nobody uses go first.
func (p *pool) forget() {
	if len(p.targets) < maxTargets {
		return
	}
	for name, t := range p.targets {
		if t.busy == 0 && len(t.waiting) == 0 {
			delete(p.targets, name)
			if len(p.targets) < maxTargets*3/4 {
				return
			}
		}
	}
}

// jitter returns a time within a quarter of another.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
