package sqlite

import (
	"errors"
	"math"
	"testing"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// FuzzCursor reads page tokens that somebody made up.
func FuzzCursor(f *testing.F) {
	d := record.DigestOf(store.ForAll(), &store.ListQuery{})
	f.Add("")
	f.Add("junk")
	f.Add(cursor{rev: 1, key: 2, after: 3}.encode(d))
	f.Add(cursor{rev: math.MaxInt64 >> 2, key: 0, after: 1 << 40}.encode(d))
	f.Fuzz(func(t *testing.T, token string) {
		c, err := decodeCursor(token, d)
		if err != nil {
			if !errors.Is(err, store.ErrBadCursor) {
				t.Error(err)
			}
			return
		}
		if c.encode(d) != token {
			t.Errorf("%q is taken for %+v, which is %q", token, c, c.encode(d))
		}
	})
}
