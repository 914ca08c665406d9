package storetest

import (
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func testNodes(t *testing.T, s store.Store) {
	last := int64(0)
	for _, node := range []string{"a", "b", "a"} {
		epoch, err := s.Join(t.Context(), node, time.Hour)
		if err != nil || epoch <= last {
			t.Fatalf("epoch of %s is %d after %d, %v", node, epoch, last, err)
		}
		last = epoch
	}
	if err := s.Renew(t.Context(), last, time.Hour); err != nil {
		t.Errorf("renew: %v", err)
	}
	wantError(t, "renewing an epoch that never was", s.Renew(t.Context(), last+100, time.Hour), store.ErrConflict)
	if err := s.Leave(t.Context(), last); err != nil {
		t.Errorf("leave: %v", err)
	}
	wantError(t, "renewing after leaving", s.Renew(t.Context(), last, time.Hour), store.ErrConflict)

	late, err := s.Join(t.Context(), "late", -time.Second) // has run out already
	if err != nil || late <= last {
		t.Fatalf("epoch %d, %v", late, err)
	}
	if err := s.Renew(t.Context(), late, time.Hour); err != nil {
		t.Errorf("renew late: %v", err)
	}
}

func testOrphans(t *testing.T, s store.Store) {
	epoch, err := s.Join(t.Context(), "n", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leased := task("leased", a2a.StateWorking)
	leased.Lease = epoch
	insert(t, s, leased)
	insert(t, s, task("parked", a2a.StateInputRequired))
	later := insert(t, s, task("later", a2a.StateInputRequired))
	commit(t, s, &store.Change{Task: later.Key, Set: store.Set{Lease: &epoch}})
	given := task("given back", a2a.StateWorking)
	given.Lease = epoch
	insert(t, s, given)
	commit(t, s, &store.Change{Task: given.Key, Set: store.Set{Lease: ptr(int64(0))}})

	orphans := func(limit int) map[string]store.Task {
		t.Helper()
		rows, err := s.Orphans(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]store.Task{}
		for _, row := range rows {
			found[row.ID] = row
		}
		if len(found) != len(rows) {
			t.Errorf("an orphan comes twice")
		}
		return found
	}
	if got := orphans(10); len(got) != 0 {
		t.Errorf("orphans of a living node: %v", got)
	}
	if err := s.Leave(t.Context(), epoch); err != nil {
		t.Fatal(err)
	}
	next, err := s.Join(t.Context(), "n", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got := orphans(10)
	if len(got) != 2 || got["leased"].Lease != epoch || got["later"].Lease != epoch || got["leased"].Owner != "ann" {
		t.Errorf("orphans of a dead node: %v", got)
	}
	if got := orphans(1); len(got) != 1 {
		t.Errorf("at most one orphan: %v", got)
	}

	// Many take a task over; one gets it, and the dead node's writes are refused.
	errs := make([]error, 8)
	atOnce(len(errs), func(i int) {
		errs[i] = s.Commit(t.Context(), &store.Change{
			Task: leased.Key, Guard: store.Guard{Lease: &epoch}, Set: store.Set{Lease: &next, Attempt: ptr(2)},
		})
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantError(t, "take over", err, store.ErrConflict)
		}
	}
	if won != 1 {
		t.Errorf("%d took the task over", won)
	}
	err = s.Commit(t.Context(), &store.Change{Task: leased.Key, Guard: store.Guard{Lease: &epoch}, Events: []store.Event{status("late")}})
	wantError(t, "late step", err, store.ErrConflict)
	if got := orphans(10); len(got) != 1 {
		t.Errorf("orphans after one was taken over: %v", got)
	}

	// A node whose lease has run out is as dead as one that has left.
	late, err := s.Join(t.Context(), "late", -time.Second)
	if err != nil {
		t.Fatal(err)
	}
	row := task("late", a2a.StateWorking)
	row.Lease = late
	insert(t, s, row)
	if got := orphans(10); got["late"].Lease != late {
		t.Errorf("orphans with one whose lease has run out: %v", got)
	}
}
