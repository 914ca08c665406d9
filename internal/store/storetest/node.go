package storetest

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func testNodes(t *testing.T, s store.Store) {
	last := int64(0)
	for _, node := range []string{"a", "b", "a"} {
		epoch, err := s.Join(t.Context(), store.Node{Name: node}, time.Hour)
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

	late, err := s.Join(t.Context(), store.Node{Name: "late"}, -time.Second) // has run out already
	if err != nil || late <= last {
		t.Fatalf("epoch %d, %v", late, err)
	}
	if err := s.Renew(t.Context(), late, time.Hour); err != nil {
		t.Errorf("renew late: %v", err)
	}
}

func testOrphans(t *testing.T, s store.Store) {
	epoch, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
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
	next, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
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
	late, err := s.Join(t.Context(), store.Node{Name: "late"}, -time.Second)
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

func testNodesSay(t *testing.T, s store.Store) {
	digest := map[string]string{"agent \x00 \"é\"": "1", "limits": ""}
	said := store.Node{Name: "n\x00", Version: "1.2.3", URL: "https://n1.example/", Digest: digest, Epoch: 99, Alive: true}
	epoch, err := s.Join(t.Context(), said, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	only := func() store.Node {
		t.Helper()
		nodes, err := s.Nodes(t.Context())
		if err != nil || len(nodes) != 1 {
			t.Fatalf("nodes: %+v, %v", nodes, err)
		}
		return nodes[0]
	}
	got := only()
	if lease := got.Expires.Sub(got.Started); lease != time.Hour || time.Since(got.Started).Abs() > time.Minute {
		t.Errorf("started %v, expires %v", got.Started, got.Expires)
	}
	want := said
	want.Epoch, want.Started, want.Expires = epoch, got.Started, got.Expires
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	for _, digest := range []map[string]string{{"limits": "2"}, nil} {
		if err := s.Announce(t.Context(), epoch, digest); err != nil {
			t.Fatal(err)
		}
		want.Digest = digest
		if diff := cmp.Diff(want, only()); diff != "" {
			t.Errorf("node after it has announced %v (-want +got):\n%s", digest, diff)
		}
	}
	if err := s.Renew(t.Context(), epoch, -time.Second); err != nil {
		t.Fatal(err)
	}
	if got := only(); got.Alive || !got.Expires.Before(time.Now()) || !got.Started.Equal(want.Started) {
		t.Errorf("node whose lease has run out: %+v", got)
	}
	next, err := s.Join(t.Context(), store.Node{Name: "next"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) == 0 || nodes[len(nodes)-1].Epoch != next || nodes[len(nodes)-1].Digest != nil {
		t.Errorf("the newest node is not the last: %+v, %v", nodes, err)
	}
	for _, n := range nodes {
		if err := s.Leave(t.Context(), n.Epoch); err != nil {
			t.Fatal(err)
		}
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("nodes when all have left: %+v, %v", nodes, err)
	}
	wantError(t, "announcing after leaving", s.Announce(t.Context(), next, digest), store.ErrConflict)
}

func testCluster(t *testing.T, s store.Store) {
	first, err := s.Cluster(t.Context())
	if err != nil || !regexp.MustCompile(`^[0-9a-z]{32}$`).MatchString(first) {
		t.Errorf("cluster %q, %v", first, err)
	}
	if again, err := s.Cluster(t.Context()); again != first || err != nil {
		t.Errorf("cluster was %q and is %q, %v", first, again, err)
	}
}

func testReleased(t *testing.T, s store.Store) {
	epoch, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	row := task("t", a2a.StateWorking)
	row.Lease = epoch
	insert(t, s, row)
	commit(t, s, &store.Change{Task: row.Key, Guard: store.Guard{Lease: &epoch}, Set: store.Set{Lease: ptr(store.Released)}})
	if rows, err := s.Orphans(t.Context(), 10); err != nil || len(rows) != 1 || rows[0].Lease != store.Released {
		t.Fatalf("orphans: %+v, %v", rows, err)
	}
	err = s.Commit(t.Context(), &store.Change{Task: row.Key, Guard: store.Guard{Lease: &epoch}, Events: []store.Event{status("late")}})
	wantError(t, "step of the node that has handed the turn over", err, store.ErrConflict)
	takeOver := &store.Change{Task: row.Key, Guard: store.Guard{Lease: ptr(store.Released)}, Set: store.Set{Lease: &epoch}}
	commit(t, s, takeOver)
	wantError(t, "take over again", s.Commit(t.Context(), takeOver), store.ErrConflict)
	if rows, err := s.Orphans(t.Context(), 10); err != nil || len(rows) != 0 {
		t.Errorf("orphans after the take over: %+v, %v", rows, err)
	}

	// A new task can be one that nobody has begun.
	fresh := task("fresh", a2a.StateWorking)
	fresh.Lease = store.Released
	insert(t, s, fresh)
	if rows, err := s.Orphans(t.Context(), 10); err != nil || len(rows) != 1 || rows[0].ID != "fresh" {
		t.Errorf("orphans with a new one: %+v, %v", rows, err)
	}
}
