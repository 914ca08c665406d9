package sqlite

import (
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// cursor is where a list goes on. The first page fixes the snapshot; each task
// of it has a position, the revision of its newest status at the time of the
// snapshot, and keeps it whatever happens to the task meanwhile.
type cursor struct {
	rev   int64 // newest revision of the snapshot
	key   int64 // newest task of the snapshot
	after int64 // position of the last task that was shown
}

const maxCursor = 128

// encode returns the cursor of a query, which no other query accepts.
func (c cursor) encode(digest record.Digest) string { return digest.Seal(c.rev, c.key, c.after) }

// decodeCursor returns the cursor that encode made for the same query.
func decodeCursor(token string, digest record.Digest) (cursor, error) {
	n, err := digest.Open(token, maxCursor)
	if err != nil {
		return cursor{}, err
	}
	if len(n) != 3 {
		return cursor{}, store.ErrBadCursor
	}
	return cursor{rev: n[0], key: n[1], after: n[2]}, nil
}
