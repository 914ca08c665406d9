// Package bustest has buses for tests that join nodes of one process: a perfect
// one, and one that does to hints what a bus may do.
package bustest

import (
	"math/rand/v2"
	"sync"

	"handoff.example/handoff/internal/bus"
)

// Faults are what happens to hints, as probabilities from 0 to 1.
type Faults struct {
	// Seed of the chance. Which hints are lost or repeated depends on it and on the
	// order of Publish only.
	Seed uint64
	// Loss is that of a hint on its way to one node.
	Loss float64
	// Repeat is that of a hint coming twice to one node.
	Repeat float64
	// Reorder is that of a hint being held back until later ones have come, or
	// until no more come. Above 0, hints that come together are shuffled too.
	Reorder float64
}

// maxWaiting is how many hints may wait for one node.
const maxWaiting = 1 << 16

// Hub joins nodes.
type Hub struct {
	mu     sync.Mutex
	faults Faults
	chance *rand.Rand
	nodes  []*node
	// waiting counts hints that are published and neither lost nor heard.
	waiting int
	settled *sync.Cond
	dropped int
}

// New returns a perfect hub: each hint comes once, in order.
func New() *Hub { return Hostile(Faults{}) }

// Hostile returns a hub that loses, repeats and reorders.
func Hostile(f Faults) *Hub {
	h := &Hub{faults: f, chance: rand.New(rand.NewPCG(f.Seed, 0))}
	h.settled = sync.NewCond(&h.mu)
	return h
}

// Join returns the bus of one more node. heard is called from one goroutine with
// the hints of the others; it may keep the slice, and must not close the bus.
func (h *Hub) Join(heard func([]bus.Hint)) bus.Bus {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &node{hub: h, heard: heard, bell: make(chan struct{}, 1), closing: make(chan struct{})}
	// A chance of its own, which no other goroutine draws from.
	n.chance = rand.New(rand.NewPCG(h.faults.Seed, uint64(len(h.nodes)+1)))
	h.nodes = append(h.nodes, n)
	n.hearing.Go(n.hear)
	return n
}

// Settle waits until all that was published is heard or lost.
func (h *Hub) Settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.waiting > 0 {
		h.settled.Wait()
	}
}

// Dropped returns how many hints were lost on their way, by chance or for want of
// room.
func (h *Hub) Dropped() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped
}

// done notes that hints wait no longer. It is called under the lock.
func (h *Hub) done(n int) {
	if h.waiting -= n; h.waiting == 0 {
		h.settled.Broadcast()
	}
}

// node is the bus of a node.
type node struct {
	hub     *Hub
	heard   func([]bus.Hint)
	chance  *rand.Rand // of the goroutine that hears
	bell    chan struct{}
	closing chan struct{}
	hearing sync.WaitGroup

	queue  []bus.Hint // under the lock of the hub
	closed bool       // likewise
}

// Publish implements bus.Bus.
func (n *node) Publish(hint bus.Hint) {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.closed {
		return
	}
	for _, other := range h.nodes {
		if other == n || other.closed {
			continue
		}
		copies := 1
		if h.chance.Float64() < h.faults.Repeat {
			copies = 2
		}
		if h.chance.Float64() < h.faults.Loss || len(other.queue)+copies > maxWaiting {
			h.dropped++
			continue
		}
		for range copies {
			other.queue = append(other.queue, hint)
		}
		h.waiting += copies
		select {
		case other.bell <- struct{}{}:
		default:
		}
	}
}

// Close implements bus.Bus. What the node has published is on its way already.
func (n *node) Close() error {
	n.hub.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.closing)
	}
	n.hub.mu.Unlock()
	n.hearing.Wait()
	return nil
}

// hear tells the node what comes.
func (n *node) hear() {
	for {
		select {
		case <-n.bell:
		case <-n.closing:
			n.leave()
			return
		}
		for now, late := n.take(nil); len(now) > 0; now, late = n.take(late) {
			n.heard(now)
			n.hub.mu.Lock()
			n.hub.done(len(now))
			n.hub.mu.Unlock()
		}
	}
}

// take returns the hints to hear now, and those to hear after them. What was late
// before comes now.
func (n *node) take(late []bus.Hint) (now, later []bus.Hint) {
	n.hub.mu.Lock()
	queue := n.queue
	n.queue = nil
	n.hub.mu.Unlock()
	if n.hub.faults.Reorder == 0 {
		return queue, nil
	}
	for _, hint := range queue {
		if n.chance.Float64() < n.hub.faults.Reorder {
			later = append(later, hint)
		} else {
			now = append(now, hint)
		}
	}
	now = append(now, late...)
	if len(now) == 0 {
		now, later = later, nil // nothing else comes
	}
	n.chance.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
	return now, later
}

// leave gives up what waits.
func (n *node) leave() {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	n.hub.done(len(n.queue))
	n.queue = nil
}
