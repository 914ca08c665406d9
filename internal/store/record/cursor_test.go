package record_test

import (
	"errors"
	"math"
	"testing"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// FuzzCursor reads page tokens that somebody made up.
func FuzzCursor(f *testing.F) {
	const limit = 128
	d := record.DigestOf(store.ForAll(), &store.ListQuery{})
	f.Add("")
	f.Add("junk")
	f.Add(d.Seal(1, 2, 3))
	f.Add(d.Seal(math.MaxInt64>>2, 0, 1<<40))
	f.Fuzz(func(t *testing.T, token string) {
		numbers, err := d.Open(token, limit)
		if err != nil {
			if !errors.Is(err, store.ErrBadCursor) {
				t.Error(err)
			}
			return
		}
		if len(token) > limit || d.Seal(numbers...) != token {
			t.Errorf("%q is taken for %d", token, numbers)
		}
	})
}
