package postgres

import (
	"slices"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// cursor is where a list goes on. The first page fixes the snapshot: all
// statuses up to a revision, but for those whose transactions were in flight.
// Each task of it has a position, the revision of its newest status in the
// snapshot, and keeps it whatever happens to the task meanwhile.
type cursor struct {
	rev      int64   // newest revision of the snapshot
	inflight []int64 // units up to rev that are not in the snapshot, newest first
	key      int64   // newest task of the snapshot
	after    int64   // position of the last task that was shown
}

const (
	maxInflight = 1024 // committers of all nodes
	maxCursor   = 4096
	// firstRevision is lower than those of any time at which this was run.
	firstRevision = 1_500_000_000_000 << timeBits
)

// unitOf returns the number of the unit that a revision belongs to.
func unitOf(rev int64) int64 { return rev >> unitBits }

// setHorizon fixes the snapshot. The units in flight are given by their low 32
// bits; the newest ones up to the revision are meant.
func (c *cursor) setHorizon(rev int64, inflight []int64, key int64) {
	c.rev, c.key = rev, key
	for _, low := range inflight {
		// The lock of a unit is taken before its revisions are, so that it may
		// be a little ahead; those are not in the snapshot anyway.
		if behind := (unitOf(rev) - low) & 0xffffffff; behind < 1<<31 {
			c.inflight = append(c.inflight, unitOf(rev)-behind)
		}
	}
	slices.SortFunc(c.inflight, func(a, b int64) int { return int(b - a) })
	c.inflight = slices.Compact(c.inflight)
}

// encode returns the cursor of a query, which no other query accepts.
func (c *cursor) encode(digest record.Digest) string {
	numbers := []int64{c.rev, c.key, c.after}
	last := unitOf(c.rev)
	for _, unit := range c.inflight {
		numbers = append(numbers, last-unit)
		last = unit
	}
	return digest.Seal(numbers...)
}

// decodeCursor returns the cursor that encode made for the same query.
func decodeCursor(token string, digest record.Digest) (cursor, error) {
	n, err := digest.Open(token, maxCursor)
	if err != nil {
		return cursor{}, err
	}
	if len(n) < 3 || len(n) > 3+maxInflight {
		return cursor{}, store.ErrBadCursor
	}
	c := cursor{rev: n[0], key: n[1], after: n[2]}
	if c.rev < firstRevision {
		return cursor{}, store.ErrBadCursor // of the store that this one was filled from
	}
	last := unitOf(c.rev)
	for _, behind := range n[3:] {
		if last -= behind; last < 0 {
			return cursor{}, store.ErrBadCursor
		}
		c.inflight = append(c.inflight, last)
	}
	return c, nil
}
