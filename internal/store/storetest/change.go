package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func testInsert(t *testing.T, s store.Store) {
	row := task("t", a2a.StateCompleted)
	row.Lease, row.Done, row.Wait, row.Meta = 0, 3, store.WaitTime, []byte(`{"caller":1}`)
	row.Expires = time.UnixMilli(1_800_000_000_000).UTC()
	c := commit(t, s, &store.Change{Insert: row, Events: []store.Event{
		message("hello"), status("submitted"), saying("working"), artifact("a"), status("completed"),
	}})
	if row.Key == 0 || row.Seq != 5 || row.Messages != 1 {
		t.Errorf("key %d, seq %d, messages %d; want a key, 5, 1", row.Key, row.Seq, row.Messages)
	}
	if !row.StatusAt.Equal(c.At) || c.At.IsZero() {
		t.Errorf("status at %v, commit at %v", row.StatusAt, c.At)
	}
	for i, e := range c.Events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i, e.Seq)
		}
	}
	got, err := s.Task(t.Context(), ann, "t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(row, got); diff != "" {
		t.Errorf("row that was read differs (-inserted +read):\n%s", diff)
	}
	item := read(t, s, "t", store.Want{Messages: 10, Artifacts: true})
	want := &store.Item{
		Task:      *row,
		Status:    store.Event{Seq: 5, Kind: store.KindStatus, Body: c.Events[4].Body},
		Messages:  []store.Event{{Seq: 1, Kind: store.KindMessage, Body: c.Events[0].Body}, {Seq: 3, Kind: store.KindStatus, Body: c.Events[2].Body, Says: true}},
		Artifacts: []store.Event{{Seq: 4, Kind: store.KindArtifact, Body: c.Events[3].Body}},
	}
	if diff := cmp.Diff(want, item); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

func testInsertTwice(t *testing.T, s store.Store) {
	insert(t, s, task("t", a2a.StateWorking), status("first"))
	err := s.Commit(t.Context(), &store.Change{Insert: task("t", a2a.StateCompleted), Events: []store.Event{status("second")}})
	wantError(t, "insert of an id that exists", err, store.ErrConflict)
	if got := read(t, s, "t", store.Want{}); got.State != a2a.StateWorking || got.Seq != 1 {
		t.Errorf("task is %v at %d", got.State, got.Seq)
	}
}

func testInsertWithoutStatus(t *testing.T, s store.Store) {
	err := s.Commit(t.Context(), &store.Change{Insert: task("t", a2a.StateWorking), Events: []store.Event{message("m")}})
	if err == nil {
		t.Error("a task without a status was inserted")
	}
	_, err = s.Task(t.Context(), node, "t")
	wantError(t, "task", err, store.ErrNotFound)
}

func testSet(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking), message("1"), status("working"))
	expires := time.UnixMilli(1_900_000_000_000).UTC()
	c := commit(t, s, &store.Change{
		Task: row.Key,
		Set: store.Set{
			State: ptr(a2a.StateInputRequired), Wait: ptr(store.WaitTime), Lease: ptr(int64(7)), Turn: ptr(2),
			Attempt: ptr(3), Done: ptr(4), ReadAll: true, Expires: expires,
		},
		Events: []store.Event{message("2"), status("asking")},
	})
	want := *row
	want.State, want.Wait, want.Lease, want.Turn, want.Attempt, want.Done = a2a.StateInputRequired, store.WaitTime, 7, 2, 3, 4
	want.Seq, want.Messages, want.Read, want.Since, want.Expires, want.StatusAt = 4, 2, 2, 0, expires, c.At
	if diff := cmp.Diff(want, c.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, read(t, s, "t", store.Want{}).Task); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}

	// Nothing is set: nothing changes but what the events bring.
	c = commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{message("3"), artifact("a")}})
	want.Seq, want.Messages = 6, 3
	if diff := cmp.Diff(want, c.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	c = commit(t, s, &store.Change{Task: row.Key, Set: store.Set{ReadAll: true, Lease: ptr(int64(0))}})
	want.Read, want.Since, want.Lease = 3, 2, 0
	if diff := cmp.Diff(want, c.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, read(t, s, "t", store.Want{}).Task); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func testGuards(t *testing.T, s store.Store) {
	row := task("t", a2a.StateWorking)
	row.Lease, row.Turn, row.Attempt, row.Read = 5, 2, 3, 1
	insert(t, s, row, message("read"), status("working"), message("unread"))
	free := insert(t, s, task("free", a2a.StateInputRequired))
	for _, test := range []struct {
		name  string
		task  int64
		guard store.Guard
		holds bool
	}{
		{"none", row.Key, store.Guard{}, true},
		{"state", row.Key, store.Guard{States: store.States(a2a.StateWorking)}, true},
		{"one of the states", row.Key, store.Guard{States: store.Live}, true},
		{"other state", row.Key, store.Guard{States: store.States(a2a.StateSubmitted, a2a.StateAuthRequired)}, false},
		{"lease", row.Key, store.Guard{Lease: ptr(int64(5))}, true},
		{"other lease", row.Key, store.Guard{Lease: ptr(int64(4))}, false},
		{"no lease is a lease too", row.Key, store.Guard{Lease: ptr(int64(0))}, false},
		{"lease 0", free.Key, store.Guard{Lease: ptr(int64(0))}, true},
		{"turn", row.Key, store.Guard{Turn: 2}, true},
		{"other turn", row.Key, store.Guard{Turn: 1}, false},
		{"attempt", row.Key, store.Guard{Attempt: 3}, true},
		{"other attempt", row.Key, store.Guard{Attempt: 2}, false},
		{"unread", row.Key, store.Guard{AllRead: true}, false},
		{"all read", free.Key, store.Guard{AllRead: true}, true},
		{"leased", row.Key, store.Guard{NoLease: true}, false},
		{"not leased", free.Key, store.Guard{NoLease: true}, true},
		{"all hold", row.Key, store.Guard{States: store.Live, Lease: ptr(int64(5)), Turn: 2, Attempt: 3}, true},
		{"one does not", row.Key, store.Guard{States: store.Live, Lease: ptr(int64(5)), Turn: 2, Attempt: 4}, false},
	} {
		err := s.Commit(t.Context(), &store.Change{Task: test.task, Guard: test.guard, Events: []store.Event{artifact("a")}})
		if test.holds && err != nil || !test.holds && !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want it to hold: %v", test.name, err, test.holds)
		}
	}
}

func testGuardWritesNothing(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateCompleted))
	before := read(t, s, "t", store.Want{Messages: 9, Artifacts: true})
	err := s.Commit(t.Context(), &store.Change{
		Task:   row.Key,
		Guard:  store.Guard{States: store.Live},
		Set:    store.Set{State: ptr(a2a.StateCanceled), Expires: time.UnixMilli(9)},
		Events: []store.Event{status("canceled"), message("m"), artifact("a")},
		Claim:  &store.Claim{Tenant: "acme", Owner: "ann", Agent: echo, Key: "k", Task: "t"},
		State:  a2a.JSON(`{}`),
		Result: &store.Result{Key: "r", Value: a2a.JSON(`1`)},
		Grant:  &store.Grant{ID: "g", Task: "t"},
		Jobs:   []store.Job{{Kind: "push", Task: "t", Key: "j", Due: time.UnixMilli(1)}},
	})
	wantError(t, "commit", err, store.ErrConflict)
	if diff := cmp.Diff(before, read(t, s, "t", store.Want{Messages: 9, Artifacts: true})); diff != "" {
		t.Errorf("the task changed:\n%s", diff)
	}
	_, err = s.Claim(t.Context(), ann, echo, "k")
	wantError(t, "claim", err, store.ErrNotFound)
	_, err = s.Grant(t.Context(), ann, "g")
	wantError(t, "grant", err, store.ErrNotFound)
	if v, err := s.Private(t.Context(), row.Key); v != nil || err != nil {
		t.Errorf("private state is %s, %v", v, err)
	}
	if v, err := s.Result(t.Context(), row.Key, "r"); v != nil || err != nil {
		t.Errorf("result is %s, %v", v, err)
	}
	if due, err := s.NextJob(t.Context()); !due.IsZero() || err != nil {
		t.Errorf("a job is due at %v, %v", due, err)
	}
	if events, err := s.Events(t.Context(), row.Key, 1, 1<<20); len(events) > 0 || err != nil {
		t.Errorf("events %v, %v", bodies(events), err)
	}
}

func testUnknownTask(t *testing.T, s store.Store) {
	err := s.Commit(t.Context(), &store.Change{Task: 4711, Events: []store.Event{status("x")}})
	wantError(t, "commit to a task that does not exist", err, store.ErrNotFound)
}

// testIsolation commits changes at once of which some have to fail, and sees
// that the others are not affected.
func testIsolation(t *testing.T, s store.Store) {
	const rounds, n = 5, 64
	over := insert(t, s, task("over", a2a.StateCompleted))
	live := insert(t, s, task("live", a2a.StateWorking))
	insert(t, s, task("taken", a2a.StateCompleted))
	id := func(round, i int) string { return name(name("t", round), i) }
	for round := range rounds {
		errs := make([]error, n)
		atOnce(n, func(i int) {
			c := &store.Change{Events: []store.Event{status("s")}}
			switch (round + i) % 4 {
			case 0:
				c.Insert = task(id(round, i), a2a.StateWorking)
			case 1:
				c.Task = live.Key
			case 2:
				c.Task, c.Guard.States = over.Key, store.Live
			case 3:
				c.Insert = task("taken", a2a.StateWorking)
				c.Jobs = []store.Job{{Kind: "k", Task: id(round, i), Due: time.UnixMilli(1)}}
			}
			errs[i] = s.Commit(t.Context(), c)
		})
		for i, err := range errs {
			if (round+i)%4 > 1 {
				wantError(t, id(round, i), err, store.ErrConflict)
			} else if err != nil {
				t.Errorf("good change %s: %v", id(round, i), err)
			} else if (round+i)%4 == 0 && read(t, s, id(round, i), store.Want{}).Seq != 1 {
				t.Errorf("good task %s is not as it was inserted", id(round, i))
			}
		}
	}
	if got := read(t, s, "live", store.Want{}); got.Seq != 1+rounds*n/4 {
		t.Errorf("the live task is at %d", got.Seq)
	}
	if got := read(t, s, "over", store.Want{}); got.Seq != 1 {
		t.Errorf("the other task is at %d", got.Seq)
	}
	if got, want := list(t, s, ann, store.ListQuery{Agent: echo, PageSize: 100}), 3+rounds*n/4; len(got) != want {
		t.Errorf("%d tasks, want %d", len(got), want)
	}
	if due, err := s.NextJob(t.Context()); !due.IsZero() || err != nil {
		t.Errorf("the job of a failed change is due at %v, %v", due, err)
	}
}

// testSequence commits to few tasks from many sides, and sees that the events
// of each are numbered without a gap, and that a change's events are together.
func testSequence(t *testing.T, s store.Store) {
	const writers, rounds, tasks = 12, 20, 3
	keys := make([]int64, tasks)
	for i := range keys {
		keys[i] = insert(t, s, task(name("t", i), a2a.StateWorking)).Key
	}
	changes := make([][]*store.Change, writers)
	atOnce(writers, func(i int) {
		for n := range rounds {
			c := &store.Change{Task: keys[(i+n)%tasks], Events: []store.Event{artifact(name("a", i)), status(name("s", n)), message("m")}[:1+n%3]}
			if err := s.Commit(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			changes[i] = append(changes[i], c)
		}
	})
	for i, key := range keys {
		kept, err := s.Events(t.Context(), key, 0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for n, e := range kept {
			if e.Seq != int64(n+1) {
				t.Fatalf("task %d: event %d has number %d", i, n, e.Seq)
			}
		}
		for _, mine := range changes {
			for _, c := range mine {
				if c.Task != key {
					continue
				}
				for n, e := range c.Events {
					if e.Seq != c.Events[0].Seq+int64(n) {
						t.Errorf("a change's events are not together: %d after %d", e.Seq, c.Events[0].Seq)
					}
					if got := kept[e.Seq-1]; string(got.Body) != string(e.Body) || got.Kind != e.Kind {
						t.Errorf("task %d: event %d was kept as %s, not %s", i, e.Seq, got.Body, e.Body)
					}
				}
				if last := c.Events[len(c.Events)-1].Seq; c.After.Seq != last {
					t.Errorf("row after a change is at %d, not %d", c.After.Seq, last)
				}
			}
		}
		if got := read(t, s, name("t", i), store.Want{}); got.Seq != int64(len(kept)) {
			t.Errorf("task %d is at %d with %d events", i, got.Seq, len(kept))
		}
	}
}

// testStamps sees that bodies carry the time of their commit, and that a later
// event of a task never has an earlier time.
func testStamps(t *testing.T, s store.Store) {
	const writers, rounds = 8, 15
	row := insert(t, s, task("t", a2a.StateWorking))
	began := time.Now().Add(-time.Second)
	all := make([][]*store.Change, writers)
	atOnce(writers, func(i int) {
		for range rounds {
			c := &store.Change{Task: row.Key, Events: []store.Event{status("a"), status("b")}}
			if err := s.Commit(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			all[i] = append(all[i], c)
		}
	})
	changes := slices.Concat(all...)
	slices.SortFunc(changes, func(a, b *store.Change) int { return int(a.Events[0].Seq - b.Events[0].Seq) })
	last := began
	for _, c := range changes {
		if c.At.Before(last) {
			t.Errorf("commit at %v after one at %v", c.At, last)
		}
		last = c.At
		if c.At != c.At.Truncate(time.Millisecond) {
			t.Errorf("time %v is not whole milliseconds", c.At)
		}
		if !c.After.StatusAt.Equal(c.At) {
			t.Errorf("status at %v, commit at %v", c.After.StatusAt, c.At)
		}
		for _, e := range c.Events {
			if got := string(e.Body[e.Stamp:][:a2a.TimestampLen]); got != string(a2a.AppendTimestamp(nil, c.At)) {
				t.Errorf("body has %s, commit was at %v", got, c.At)
			}
		}
	}
	if last.After(time.Now().Add(time.Second)) {
		t.Errorf("last commit is at %v", last)
	}
	kept, err := s.Events(t.Context(), row.Key, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range kept {
		if want := changes[i/2].Events[i%2].Body; string(e.Body) != string(want) {
			t.Errorf("kept %s, want %s", e.Body, want)
		}
	}
}

// testTerminalOnce ends a task from many sides; one of them does.
func testTerminalOnce(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking))
	ends := []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected}
	errs := make([]error, 16)
	atOnce(len(errs), func(i int) {
		state := ends[i%len(ends)]
		errs[i] = s.Commit(t.Context(), &store.Change{
			Task: row.Key, Guard: store.Guard{States: store.Live}, Set: store.Set{State: &state}, Events: []store.Event{status(state.String())},
		})
	})
	won := -1
	for i, err := range errs {
		if err == nil {
			if won >= 0 {
				t.Errorf("both %d and %d ended the task", won, i)
			}
			won = i
		} else {
			wantError(t, "end", err, store.ErrConflict)
		}
	}
	if won < 0 {
		t.Fatal("nobody ended the task")
	}
	if got := read(t, s, "t", store.Want{}); got.State != ends[won%len(ends)] || got.Seq != 2 {
		t.Errorf("task is %v at %d, want %v at 2", got.State, got.Seq, ends[won%len(ends)])
	}
}

func testCanceledContext(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Commit(ctx, &store.Change{Insert: task("t", a2a.StateWorking), Events: []store.Event{status("s")}})
	wantError(t, "commit", err, store.ErrUnavailable)
	wantError(t, "commit", err, context.Canceled)
	_, err = s.Task(t.Context(), node, "t")
	wantError(t, "task", err, store.ErrNotFound)
}

func testScopes(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateCompleted))
	commit(t, s, &store.Change{
		Task: row.Key, Set: store.Set{State: ptr(a2a.StateAuthRequired)}, Events: []store.Event{status("s")},
		Grant: &store.Grant{ID: "g", Task: "t", Turn: row.Turn, Created: time.UnixMilli(1)},
	})
	commit(t, s, &store.Change{Claim: &store.Claim{Tenant: "acme", Owner: "ann", Agent: echo, Key: "k", Task: "t"}})
	for _, test := range []struct {
		name  string
		scope store.Scope
		sees  bool
	}{
		{"its owner", ann, true},
		{"its tenant", store.ForTenant("acme"), true},
		{"everything", node, true},
		{"the zero scope", store.Scope{}, false},
		{"another owner", store.ForOwner("acme", "bob"), false},
		{"an owner of that name elsewhere", store.ForOwner("other", "ann"), false},
		{"nobody there", store.ForOwner("acme", ""), false},
		{"another tenant", store.ForTenant("other"), false},
		{"the empty tenant", store.ForTenant(""), false},
	} {
		check := func(what string, err error) {
			t.Helper()
			if test.sees && err != nil || !test.sees && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %s: %v, want it to be seen: %v", test.name, what, err, test.sees)
			}
		}
		_, err := s.Task(t.Context(), test.scope, "t")
		check("task", err)
		_, err = s.Read(t.Context(), test.scope, "t", store.Want{Messages: 1})
		check("read", err)
		_, err = s.Claim(t.Context(), test.scope, echo, "k")
		check("claim", err)
		_, err = s.Grant(t.Context(), test.scope, "g")
		check("grant", err)
		if !test.sees {
			check("delete", s.Delete(t.Context(), test.scope, "t"))
		}
		grants, err := s.Grants(t.Context(), test.scope, 10)
		if err != nil || (len(grants) == 1) != test.sees {
			t.Errorf("%s: grants: %v, %v", test.name, grants, err)
		}
		page, err := s.List(t.Context(), test.scope, store.ListQuery{PageSize: 10})
		if err != nil || (len(page.Items) == 1) != test.sees || (page.Total == 1) != test.sees {
			t.Errorf("%s: list: %v, %v", test.name, page, err)
		}
	}
	_, err := s.Task(t.Context(), node, "unknown")
	wantError(t, "unknown task", err, store.ErrNotFound)
	_, err = s.Grant(t.Context(), node, "unknown")
	wantError(t, "unknown grant", err, store.ErrNotFound)
}
