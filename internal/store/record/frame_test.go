package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

func TestFrame(t *testing.T) {
	t.Parallel()
	events := []store.Event{
		{Seq: 8, Kind: store.KindStatus, Body: []byte("status"), Says: true},
		{Seq: 9, Kind: store.KindArtifact, Body: []byte{}},
		{Seq: 10, Kind: store.KindMessage, Body: make([]byte, 1000)},
	}
	frame := record.Append(nil, events)
	if len(frame) > record.Size(events) {
		t.Errorf("%d bytes, at most %d were expected", len(frame), record.Size(events))
	}
	got, err := record.Parse(frame, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Error(diff)
	}
	for n := range frame {
		if _, err := record.Parse(frame[:n], 10); n > 0 && n != 8 && n != 10 && err == nil {
			t.Errorf("the first %d bytes are taken for a row", n)
		}
	}
}

// FuzzFrame reads rows that are damaged.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, int64(3))
	f.Add(record.Append(nil, []store.Event{{Kind: 1, Body: []byte("x")}}), int64(1))
	f.Fuzz(func(t *testing.T, frame []byte, last int64) {
		events, err := record.Parse(frame, last)
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

func TestMark(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_764_500_000_123).UTC()
	for _, m := range []store.Mark{
		{At: at},
		{At: at, Turn: 3, Attempt: 2, Wait: store.WaitChild},
		{At: at, Turn: 16383, Attempt: 15, Wait: store.WaitCallback},
	} {
		n := record.MarkOf(m)
		if got := record.Marked(n); got != m || n < 0 {
			t.Errorf("%+v is kept as %d and read as %+v", m, n, got)
		}
	}
	if got := record.Marked(record.MarkOf(store.Mark{At: at, Turn: 1 << 20, Attempt: 99})); got.Turn != 16383 || got.Attempt != 15 || !got.At.Equal(at) {
		t.Errorf("what is too high is read as %+v", got)
	}
	if got := record.Marked(0); got != (store.Mark{}) {
		t.Errorf("no mark is read as %+v", got)
	}
}
