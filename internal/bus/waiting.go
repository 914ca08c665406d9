package bus

import (
	"math/rand/v2"
	"sync"
	"time"
)

// waiting are hints that wait for one goroutine, the highest sequence of each
// task.
type waiting struct {
	bell chan struct{} // rings when there is something to take

	mu     sync.Mutex
	hints  map[string]int64
	lost   bool // hints were dropped since the last take
	closed bool
}

func newWaiting() waiting {
	return waiting{bell: make(chan struct{}, 1), hints: map[string]int64{}}
}

// ring wakes who takes.
func (w *waiting) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// add adds a hint and reports whether there was room.
func (w *waiting) add(h Hint) bool {
	w.mu.Lock()
	ok := w.put(h)
	w.mu.Unlock()
	w.ring()
	return ok
}

// addAll adds hints and returns for how many there was no room.
func (w *waiting) addAll(hints []Hint) (dropped int) {
	w.mu.Lock()
	for _, h := range hints {
		if !w.put(h) {
			dropped++
		}
	}
	w.mu.Unlock()
	w.ring()
	return dropped
}

// put adds a hint under the lock.
func (w *waiting) put(h Hint) bool {
	seq, known := w.hints[h.Task]
	switch {
	case w.closed:
		return false
	case !known && len(w.hints) >= maxWaiting:
		w.lost = true
		return false
	case !known || seq < h.Seq:
		w.hints[h.Task] = h.Seq
	}
	return true
}

// putBack returns what was taken, and returns for how many hints there is no room
// any more. It does not ring.
func (w *waiting) putBack(hints map[string]int64, lost bool) (dropped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = w.lost || lost
	closed := w.closed
	w.closed = false // they were accepted before
	for task, seq := range hints {
		if !w.put(Hint{Task: task, Seq: seq}) {
			dropped++
		}
	}
	w.closed = closed
	return dropped
}

// lose notes that hints were lost.
func (w *waiting) lose() {
	w.mu.Lock()
	w.lost = true
	w.mu.Unlock()
	w.ring()
}

// take returns what waits, and whether hints were lost. The empty map that is
// given, if any, is used from then on.
func (w *waiting) take(empty map[string]int64) (hints map[string]int64, lost bool) {
	if empty == nil {
		empty = map[string]int64{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	hints, lost = w.hints, w.lost
	w.hints, w.lost = empty, false
	return hints, lost
}

// close makes add refuse.
func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff is the pause between attempts: it doubles, and half of it is chance.
type backoff struct{ failed int }

func (b *backoff) reset() { b.failed = 0 }

func (b *backoff) next() time.Duration {
	b.failed++
	return pauseAfter(b.failed)
}

// pauseAfter returns the pause after so many failures, 1 or more.
func pauseAfter(failed int) time.Duration {
	d := lastPause
	if failed < 10 {
		d = min(firstPause<<(failed-1), lastPause)
	}
	return d/2 + rand.N(d/2+1)
}
