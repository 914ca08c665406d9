package postgres

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"handoff.example/handoff/internal/store"
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
	cursorVersion = 1
	maxInflight   = 1024 // committers of all nodes
	maxCursor     = 4096
	digestLen     = 8
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
func (c *cursor) encode(digest [digestLen]byte) string {
	b := []byte{cursorVersion}
	for _, n := range []int64{c.rev, c.key, c.after, int64(len(c.inflight))} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	last := unitOf(c.rev)
	for _, unit := range c.inflight {
		b = binary.AppendUvarint(b, uint64(last-unit))
		last = unit
	}
	b = append(b, digest[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor returns the cursor that encode made for the same query.
func decodeCursor(token string, digest [digestLen]byte) (cursor, error) {
	if len(token) > maxCursor {
		return cursor{}, store.ErrBadCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 1+digestLen+crc32.Size || b[0] != cursorVersion {
		return cursor{}, store.ErrBadCursor
	}
	body, sum := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return cursor{}, store.ErrBadCursor
	}
	numbers, theirs := body[1:len(body)-digestLen], body[len(body)-digestLen:]
	bad := string(theirs) != string(digest[:])
	next := func() int64 {
		n, size := binary.Uvarint(numbers)
		if size <= 0 || n > 1<<62 {
			bad = true
			return 0
		}
		numbers = numbers[size:]
		return int64(n)
	}
	var c cursor
	c.rev, c.key, c.after = next(), next(), next()
	count := next()
	bad = bad || count > maxInflight
	last := unitOf(c.rev)
	for i := int64(0); i < count && !bad; i++ {
		last -= next()
		bad = bad || last < 0
		c.inflight = append(c.inflight, last)
	}
	if bad || len(numbers) > 0 || c.encode(digest) != token {
		return cursor{}, store.ErrBadCursor
	}
	return c, nil
}

// digest identifies a query and for whom it is made. The size of a page and
// what is wanted of its tasks may change from page to page.
func digest(scope store.Scope, q *store.ListQuery) (d [digestLen]byte) {
	var b strings.Builder
	put := func(s string) {
		b.Write(binary.AppendUvarint(nil, uint64(len(s))))
		b.WriteString(s)
	}
	reach := "none"
	tenant, owner, one := scope.Owner()
	if t, ok := scope.Tenant(); ok {
		tenant, reach = t, "tenant"
	}
	if one {
		reach = "owner"
	}
	if scope.All() {
		reach = "all"
	}
	for _, s := range []string{reach, tenant, owner, q.Agent, q.Context} {
		put(s)
	}
	b.Write(binary.AppendVarint(nil, int64(q.State)))
	b.Write(binary.AppendVarint(nil, milliseconds(q.After)))
	sum := sha256.Sum256([]byte(b.String()))
	copy(d[:], sum[:])
	return d
}
