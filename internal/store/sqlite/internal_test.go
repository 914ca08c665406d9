package sqlite

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
)

func TestFrame(t *testing.T) {
	t.Parallel()
	events := []store.Event{
		{Seq: 8, Kind: store.KindStatus, Body: []byte("status"), Says: true},
		{Seq: 9, Kind: store.KindArtifact, Body: []byte{}},
		{Seq: 10, Kind: store.KindMessage, Body: make([]byte, 1000)},
	}
	frame := appendFrame(nil, events)
	if len(frame) > framedLen(events) {
		t.Errorf("%d bytes, at most %d were expected", len(frame), framedLen(events))
	}
	got, err := parseFrame(frame, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Error(diff)
	}
	for n := range frame {
		if _, err := parseFrame(frame[:n], 10); n > 0 && n != 8 && n != 10 && err == nil {
			t.Errorf("the first %d bytes are taken for a row", n)
		}
	}
}

// FuzzFrame reads rows that are damaged.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, int64(3))
	f.Add(appendFrame(nil, []store.Event{{Kind: 1, Body: []byte("x")}}), int64(1))
	f.Fuzz(func(t *testing.T, frame []byte, last int64) {
		events, err := parseFrame(frame, last)
		if err != nil {
			return
		}
		size := 0
		for _, e := range events {
			size += len(e.Body)
		}
		if size > len(frame) || len(events) > 0 && events[len(events)-1].Seq != last {
			t.Errorf("%v of %v", events, frame)
		}
	})
}

// FuzzCursor reads page tokens that somebody made up.
func FuzzCursor(f *testing.F) {
	d := digest(store.ForAll(), &store.ListQuery{})
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
