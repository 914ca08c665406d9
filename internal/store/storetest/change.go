package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

var mine = store.ForOwner("acme", "ann")

func testInsert(t *testing.T, s store.Store) {
	task := &store.Task{ID: "t1", Tenant: "acme", Owner: "ann", Agent: "echo", Context: "c", State: a2a.StateCompleted, Created: time.UnixMilli(5).UTC()}
	c := &store.Change{Insert: task, Events: []store.Event{
		{Kind: store.KindMessage, Body: []byte(`{"m":1}`)},
		{Kind: store.KindStatus, Body: []byte(`{"s":1}`), Says: true},
		{Kind: store.KindArtifact, Body: []byte(`{"a":1}`)},
		{Kind: store.KindStatus, Body: []byte(`{"t":"0000-00-00T00:00:00.000Z"}`), Stamp: 6},
	}}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	item, err := s.Read(t.Context(), mine, "t1", store.Want{Messages: 9, Artifacts: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*task, item.Task); diff != "" {
		t.Error(diff)
	}
	t.Logf("%+v", item)
	page, err := s.List(t.Context(), mine, store.ListQuery{Agent: "echo", PageSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", page)
}
