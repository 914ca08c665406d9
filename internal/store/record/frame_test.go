package record_test

import (
	"testing"

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
