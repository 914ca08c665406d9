package engine

import (
	"container/list"
	"sync"
)

// slots are so many places in which turns run. Whoever finds none waits in a
// queue of its party, and the parties get the places that become free in turn:
// one with a long queue does not hold up the others.
type slots struct {
	size int

	mu     sync.Mutex
	free   int
	queues map[string]*queue // by party; none is empty
	turns  *list.List        // of the parties with a queue, the next one first
}

// queue are those of a party who wait.
type queue struct {
	list.List               // of *waiter
	turn      *list.Element // in turns
}

// waiter waits for a slot.
type waiter struct {
	party string
	place *list.Element // in the queue of its party; nil: it has its slot
	ready chan struct{} // closed when it has
}

func newSlots(size int) *slots {
	return &slots{size: size, free: size, queues: map[string]*queue{}, turns: list.New()}
}

// try takes a slot if one is free.
func (s *slots) try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// taken returns how many slots are not free.
func (s *slots) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}

// wait takes a slot, and reports false when halted is closed before.
func (s *slots) wait(party string, halted <-chan struct{}) bool {
	w := s.join(party)
	select {
	case <-w.ready:
		return true
	case <-halted:
		s.leave(w)
		return false
	}
}

func (s *slots) join(party string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{party: party, ready: make(chan struct{})}
	if s.free > 0 {
		s.free--
		close(w.ready)
		return w
	}
	q := s.queues[party]
	if q == nil {
		q = &queue{}
		q.Init()
		s.queues[party], q.turn = q, s.turns.PushBack(party)
	}
	w.place = q.PushBack(w)
	return w
}

// leave gives up waiting, and the slot when it has come meanwhile.
func (s *slots) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place == nil {
		s.pass()
		return
	}
	q := s.queues[w.party]
	q.Remove(w.place)
	s.settle(w.party, q)
}

// settle forgets a party of which nobody waits any more.
func (s *slots) settle(party string, q *queue) {
	if q.Len() == 0 {
		delete(s.queues, party)
		s.turns.Remove(q.turn)
	}
}

// give returns a slot.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass hands a slot to the first of the party whose turn it is. s.mu is held.
func (s *slots) pass() {
	next := s.turns.Front()
	if next == nil {
		s.free++
		return
	}
	party, _ := next.Value.(string)
	q := s.queues[party]
	w, _ := q.Remove(q.Front()).(*waiter)
	w.place = nil
	s.turns.MoveToBack(next)
	s.settle(party, q)
	close(w.ready)
}
