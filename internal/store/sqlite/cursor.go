package sqlite

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"handoff.example/handoff/internal/store"
)

// cursor is where a list goes on. The first page fixes the snapshot; each task
// of it has a position, the revision of its newest status at the time of the
// snapshot, and keeps it whatever happens to the task meanwhile.
type cursor struct {
	rev   int64 // newest revision of the snapshot
	key   int64 // newest task of the snapshot
	after int64 // position of the last task that was shown
}

const (
	cursorVersion = 1
	maxCursor     = 128
	digestLen     = 8
)

// encode returns the cursor of a query, which no other query accepts.
func (c cursor) encode(digest [digestLen]byte) string {
	b := []byte{cursorVersion}
	for _, n := range []int64{c.rev, c.key, c.after} {
		b = binary.AppendUvarint(b, uint64(n))
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
	var c cursor
	for _, field := range []*int64{&c.rev, &c.key, &c.after} {
		n, size := binary.Uvarint(numbers)
		if size <= 0 || n > 1<<62 {
			return cursor{}, store.ErrBadCursor
		}
		*field, numbers = int64(n), numbers[size:]
	}
	if len(numbers) > 0 || string(theirs) != string(digest[:]) {
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
