package store_test

import (
	"testing"
	"time"

	"handoff.example/handoff/internal/store"
)

func TestMark(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_764_500_000_123).UTC()
	for _, c := range []struct {
		turn, attempt         int
		wait                  store.Wait
		readTurn, readAttempt int
	}{
		{0, 0, store.WaitNone, 0, 0},
		{3, 2, store.WaitChild, 3, 2},
		{16383, 15, store.WaitCallback, 16383, 15},
		{1 << 20, 99, store.WaitTime, 16383, 15},
	} {
		m := store.NewMark(at, c.turn, c.attempt, c.wait)
		if m <= 0 || !m.At().Equal(at) || m.Turn() != c.readTurn || m.Attempt() != c.readAttempt || m.Wait() != c.wait {
			t.Errorf("%+v is kept as %d and read as %v, %d, %d, %d", c, m, m.At(), m.Turn(), m.Attempt(), m.Wait())
		}
	}
	none := store.NewMark(time.Time{}, 1, 1, store.WaitChild)
	if none != 0 || !none.At().IsZero() || none.Turn() != 0 || none.Attempt() != 0 || none.Wait() != store.WaitNone {
		t.Errorf("no mark is %d", none)
	}
}
