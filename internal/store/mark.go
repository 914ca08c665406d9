package store

import "time"

// Mark is what is kept of the commit of an event: when it was, and the turn, the
// attempt and the wait of the task as the commit left it. It is one number, since
// every event has one and few readers look at it: the milliseconds, and below them
// the others. 0: there is none, the event is older than marks are. A turn or an
// attempt that is too high for its bits is the highest that they hold.
type Mark int64

const (
	markWait    = 2 // bits
	markAttempt = 4
	markTurn    = 14
)

// NewMark returns the mark of a commit.
func NewMark(at time.Time, turn, attempt int, wait Wait) Mark {
	if at.IsZero() {
		return 0
	}
	m := at.UnixMilli()<<markTurn | int64(min(max(turn, 0), 1<<markTurn-1))
	m = m<<markAttempt | int64(min(max(attempt, 0), 1<<markAttempt-1))
	return Mark(m<<markWait | int64(wait)&(1<<markWait-1))
}

// At is when the commit was; zero without a mark.
func (m Mark) At() time.Time {
	if m <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m >> (markTurn + markAttempt + markWait))).UTC()
}

// Turn is the turn of the task.
func (m Mark) Turn() int { return m.bits(markAttempt+markWait, markTurn) }

// Attempt is the attempt of the turn.
func (m Mark) Attempt() int { return m.bits(markWait, markAttempt) }

// Wait is what the task waited for.
func (m Mark) Wait() Wait { return Wait(m.bits(0, markWait)) }

func (m Mark) bits(above, n int) int {
	if m <= 0 {
		return 0
	}
	return int(m >> above & (1<<n - 1))
}
