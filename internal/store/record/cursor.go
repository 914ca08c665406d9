package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"handoff.example/handoff/internal/store"
)

const (
	cursorVersion = 1
	digestLen     = 8
)

// Digest identifies a query, and for whom it is made.
type Digest [digestLen]byte

// DigestOf returns the digest of a query. The size of a page and what is wanted
// of its tasks may change from page to page.
func DigestOf(scope store.Scope, q *store.ListQuery) (d Digest) {
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
	b.Write(binary.AppendVarint(nil, Milliseconds(q.After)))
	sum := sha256.Sum256([]byte(b.String()))
	copy(d[:], sum[:])
	return d
}

// Seal returns the numbers, none of them negative, as a page token of the
// query, which no other query accepts.
func (d Digest) Seal(numbers ...int64) string {
	b := []byte{cursorVersion}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = append(b, d[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// Open returns the numbers of a token that Seal made for the same query, of at
// most limit bytes. Else the error is store.ErrBadCursor.
func (d Digest) Open(token string, limit int) ([]int64, error) {
	if len(token) > limit {
		return nil, store.ErrBadCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 1+digestLen+crc32.Size {
		return nil, store.ErrBadCursor
	}
	var numbers []int64
	for rest := b[1 : len(b)-digestLen-crc32.Size]; len(rest) > 0; {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > 1<<62 {
			return nil, store.ErrBadCursor
		}
		numbers, rest = append(numbers, int64(n)), rest[size:]
	}
	if d.Seal(numbers...) != token {
		return nil, store.ErrBadCursor
	}
	return numbers, nil
}
