package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// list reads all pages of a list and returns the tasks' ids.
func list(t *testing.T, s store.Store, scope store.Scope, q store.ListQuery) []string {
	t.Helper()
	ids := []string{}
	total := -1
	for {
		page, err := s.List(t.Context(), scope, q)
		if err != nil {
			t.Fatalf("list %+v: %v", q, err)
		}
		if len(page.Items) > q.PageSize {
			t.Fatalf("page of %d has %d items", q.PageSize, len(page.Items))
		}
		if page.Next != "" && len(page.Items) < q.PageSize {
			t.Errorf("page of %d has %d items and another follows", q.PageSize, len(page.Items))
		}
		if total >= 0 && page.Total != total {
			t.Errorf("total was %d and is %d", total, page.Total)
		}
		total = page.Total
		for _, item := range page.Items {
			ids = append(ids, item.ID)
			if item.Status.Kind != store.KindStatus {
				t.Errorf("task %s is listed without its status", item.ID)
			}
		}
		if page.Next == "" {
			if total != len(ids) {
				t.Errorf("list %+v: total %d, but %d tasks", q, total, len(ids))
			}
			return ids
		}
		q.Cursor = page.Next
	}
}

func testListOrder(t *testing.T, s store.Store) {
	rows := map[string]*store.Task{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		rows[id] = insert(t, s, task(id, a2a.StateWorking))
	}
	move(t, s, rows["b"].Key, a2a.StateCompleted)
	move(t, s, rows["d"].Key, a2a.StateWorking)
	// Neither an artifact, nor a message, nor a new lease is a new status.
	commit(t, s, &store.Change{Task: rows["a"].Key, Events: []store.Event{artifact("x"), message("y")}, Set: store.Set{Lease: ptr(int64(3))}})
	want := []string{"d", "b", "e", "c", "a"}
	for size := 1; size <= 6; size++ {
		if got := list(t, s, ann, store.ListQuery{Agent: echo, PageSize: size}); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", size, got, want)
		}
	}
	page, err := s.List(t.Context(), ann, store.ListQuery{Agent: echo, PageSize: 5})
	if err != nil || page.Next != "" {
		t.Errorf("a page that holds all has the next %q, %v", page.Next, err)
	}
	if !slices.IsSortedFunc(page.Items, func(a, b store.Item) int { return b.StatusAt.Compare(a.StatusAt) }) {
		t.Error("the times of the statuses are not newest first")
	}
}

func testListFilters(t *testing.T, s store.Store) {
	states := []a2a.TaskState{
		a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed,
		a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	var all []*store.Task
	for i := range 48 {
		row := task(name("t", i), states[i%8])
		row.Agent = []string{"echo", "quote"}[i/8%2]
		row.Context = []string{"c1", "c2", "c3"}[i/16]
		all = append(all, insert(t, s, row))
	}
	// Tasks change their states before they are listed.
	for i, row := range all {
		if i%5 == 0 && !row.State.Terminal() {
			row.State = states[(i+3)%8]
			move(t, s, row.Key, row.State)
			all[i] = nil
			all = append(all, row)
		}
	}
	for _, agent := range []string{"", "echo", "quote", "none"} {
		for _, context := range []string{"", "c1", "c3", "none"} {
			for _, state := range append(states, a2a.StateUnspecified) {
				want := []string{}
				for _, row := range slices.Backward(all) {
					if row != nil && (agent == "" || row.Agent == agent) && (context == "" || row.Context == context) && (state == 0 || row.State == state) {
						want = append(want, row.ID)
					}
				}
				q := store.ListQuery{Agent: agent, Context: context, State: state, PageSize: 3}
				if got := list(t, s, ann, q); !slices.Equal(got, want) {
					t.Errorf("%+v: got %v, want %v", q, got, want)
				}
			}
		}
	}
}

func testListAfter(t *testing.T, s store.Store) {
	var rows []*store.Task
	for i := range 12 {
		rows = append(rows, insert(t, s, task(name("t", i), []a2a.TaskState{a2a.StateWorking, a2a.StateCompleted}[i%2])))
		// Times have to differ: wait until the store's clock has gone on.
		for i%3 == 2 {
			if c := commit(t, s, &store.Change{}); c.At.After(rows[i].StatusAt) {
				break
			}
		}
	}
	for i, row := range rows {
		for _, offset := range []time.Duration{0, time.Microsecond, -time.Microsecond, time.Hour, -time.Hour} {
			after := row.StatusAt.Add(offset)
			for _, q := range []store.ListQuery{
				{Agent: echo, After: after, PageSize: 4},
				{After: after, PageSize: 4},
				{Agent: echo, After: after, State: a2a.StateCompleted, PageSize: 4},
				{Agent: echo, After: after, Context: row.Context, PageSize: 4},
			} {
				want := []string{}
				for _, other := range slices.Backward(rows) {
					if !other.StatusAt.Before(after) && (q.State == 0 || q.State == other.State) && (q.Context == "" || q.Context == other.Context) {
						want = append(want, other.ID)
					}
				}
				if got := list(t, s, ann, q); !slices.Equal(got, want) {
					t.Errorf("task %d, offset %v, %+v: got %v, want %v", i, offset, q, got, want)
				}
			}
		}
	}
}

func testListScopes(t *testing.T, s store.Store) {
	var all []*store.Task
	for _, tenant := range []string{"", "acme", "other"} {
		for _, owner := range []string{"", "ann", "bob"} {
			for _, agent := range []string{"a", "b"} {
				row := task(tenant+"."+owner+"."+agent, a2a.StateCompleted)
				row.Tenant, row.Owner, row.Agent = tenant, owner, agent
				all = append(all, insert(t, s, row))
			}
		}
	}
	for name, scope := range map[string]store.Scope{
		"zero": {}, "all": node, "tenant": store.ForTenant("acme"), "empty tenant": store.ForTenant(""),
		"owner": ann, "anonymous": store.ForOwner("acme", ""), "nowhere": store.ForOwner("", ""), "unknown": store.ForOwner("x", "y"),
	} {
		for _, agent := range []string{"", "a", "c"} {
			want := []string{}
			for _, row := range slices.Backward(all) {
				if scope.Includes(row.Tenant, row.Owner) && (agent == "" || agent == row.Agent) {
					want = append(want, row.ID)
				}
			}
			if got := list(t, s, scope, store.ListQuery{Agent: agent, PageSize: 2}); !slices.Equal(got, want) {
				t.Errorf("%s, agent %q: got %v, want %v", name, agent, got, want)
			}
		}
	}
}

// testListManyOwners lists what many owners have, for those who see them all.
func testListManyOwners(t *testing.T, s store.Store) {
	const owners = 150
	all := make([]*store.Task, owners)
	atOnce(owners, func(i int) {
		row := task(name("t", i), []a2a.TaskState{a2a.StateWorking, a2a.StateCompleted, a2a.StateInputRequired}[i%3])
		row.Tenant, row.Owner, row.Context = []string{"acme", "other"}[i%2], name("owner", i), []string{"c", "d"}[i%2]
		if err := s.Commit(t.Context(), &store.Change{Insert: row, Events: []store.Event{status("s")}}); err != nil {
			t.Error(err)
		}
		all[i] = row
	})
	for _, row := range all[:5] {
		move(t, s, row.Key, a2a.StateFailed)
		row.State = a2a.StateFailed
	}
	for what, test := range map[string]struct {
		scope store.Scope
		query store.ListQuery
	}{
		"all":              {node, store.ListQuery{}},
		"all of an agent":  {node, store.ListQuery{Agent: echo}},
		"all in a state":   {node, store.ListQuery{State: a2a.StateCompleted}},
		"few in a state":   {node, store.ListQuery{State: a2a.StateFailed}},
		"tenant":           {store.ForTenant("acme"), store.ListQuery{}},
		"tenant, filtered": {store.ForTenant("acme"), store.ListQuery{Agent: echo, Context: "c", State: a2a.StateInputRequired}},
		"context":          {node, store.ListQuery{Context: "d"}},
		"after":            {node, store.ListQuery{After: past}},
		"long after":       {node, store.ListQuery{After: future}},
	} {
		q := test.query
		q.PageSize = 7
		got := list(t, s, test.scope, q)
		want := []string{}
		for _, row := range all {
			if test.scope.Includes(row.Tenant, row.Owner) && (q.State == 0 || q.State == row.State) &&
				(q.Context == "" || q.Context == row.Context) && (q.After.IsZero() || !row.StatusAt.Before(q.After)) {
				want = append(want, row.ID)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %d tasks, want %d", what, len(got), len(want))
		}
	}
}

func testListWant(t *testing.T, s store.Store) {
	insert(t, s, task("t", a2a.StateCompleted), message("m1"), saying("w"), artifact("a"), message("m2"), status("end"))
	for _, want := range []store.Want{{}, {Messages: 1}, {Messages: 9}, {Artifacts: true}, {Messages: 2, Artifacts: true}} {
		page, err := s.List(t.Context(), ann, store.ListQuery{Agent: echo, PageSize: 9, Want: want})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("%+v: %v, %v", want, page, err)
		}
		if diff := cmp.Diff(read(t, s, "t", want), &page.Items[0]); diff != "" {
			t.Errorf("%+v: list and read differ:\n%s", want, diff)
		}
	}
}

func testListEmpty(t *testing.T, s store.Store) {
	for _, scope := range []store.Scope{ann, node, store.ForTenant("acme"), {}} {
		for _, q := range []store.ListQuery{{PageSize: 5}, {PageSize: 5, Agent: echo}, {PageSize: 5, Context: "c", State: a2a.StateWorking}, {PageSize: 5, After: past}} {
			page, err := s.List(t.Context(), scope, q)
			if err != nil || len(page.Items) != 0 || page.Next != "" || page.Total != 0 {
				t.Errorf("%+v: %+v, %v", q, page, err)
			}
		}
	}
}

func testBadCursors(t *testing.T, s store.Store) {
	for i := range 5 {
		row := task(name("t", i), a2a.StateCompleted)
		row.Context = "c"
		insert(t, s, row)
	}
	q := store.ListQuery{Agent: echo, PageSize: 2}
	page, err := s.List(t.Context(), ann, q)
	if err != nil || page.Next == "" {
		t.Fatalf("first page: %+v, %v", page, err)
	}
	good := page.Next
	if strings.ContainsAny(good, "+/= \n\"&?#%") {
		t.Errorf("cursor %q does not fit into a URL as it is", good)
	}
	bad := []string{"junk", "1", "AAAA", good + "A", good[1:], good[:len(good)-1], strings.Repeat("A", 1<<16), "\x00", "漢", " " + good}
	for i := range good {
		b := []byte(good)
		if b[i] == 'A' {
			b[i] = 'B'
		} else {
			b[i] = 'A'
		}
		bad = append(bad, string(b))
	}
	for _, cursor := range bad {
		q := q
		q.Cursor = cursor
		if _, err := s.List(t.Context(), ann, q); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("cursor %.40q: got %v, want it to be refused", cursor, err)
		}
	}
	for what, other := range map[string]func(*store.ListQuery) store.Scope{
		"agent":   func(q *store.ListQuery) store.Scope { q.Agent = ""; return ann },
		"context": func(q *store.ListQuery) store.Scope { q.Context = "c"; return ann },
		"state":   func(q *store.ListQuery) store.Scope { q.State = a2a.StateCompleted; return ann },
		"after":   func(q *store.ListQuery) store.Scope { q.After = past; return ann },
		"owner":   func(*store.ListQuery) store.Scope { return store.ForOwner("acme", "bob") },
		"tenant":  func(*store.ListQuery) store.Scope { return store.ForTenant("acme") },
		"all":     func(*store.ListQuery) store.Scope { return node },
		"none":    func(*store.ListQuery) store.Scope { return store.Scope{} },
	} {
		q := q
		scope := other(&q)
		q.Cursor = good
		if _, err := s.List(t.Context(), scope, q); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("cursor with another %s: got %v, want it to be refused", what, err)
		}
	}
	// The size of the page, and what is wanted of the tasks, may change.
	q.Cursor, q.PageSize, q.Want = good, 9, store.Want{Messages: 3, Artifacts: true}
	if page, err = s.List(t.Context(), ann, q); err != nil || len(page.Items) != 3 || page.Next != "" {
		t.Errorf("another size: %+v, %v", page, err)
	}
}

func testStats(t *testing.T, s store.Store) {
	if stats, err := s.Stats(t.Context(), time.Time{}); err != nil || len(stats) != 0 {
		t.Errorf("of nothing: %v, %v", stats, err)
	}
	oldest := map[string]time.Time{}
	for i, id := range []string{"a", "b", "c", "d"} {
		row := task(id, []a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired, a2a.StateCompleted, a2a.StateWorking}[i])
		row.Owner = id
		insert(t, s, row)
		oldest[id] = row.StatusAt
	}
	other := task("e", a2a.StateFailed)
	other.Agent = "quote"
	insert(t, s, other)
	got, err := s.Stats(t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b store.Stat) int {
		return strings.Compare(a.Agent+a.State.String(), b.Agent+b.State.String())
	})
	want := []store.Stat{
		{Agent: echo, State: a2a.StateCompleted, Count: 1},
		{Agent: echo, State: a2a.StateInputRequired, Count: 1, Oldest: oldest["b"]},
		{Agent: echo, State: a2a.StateWorking, Count: 2, Oldest: oldest["a"], Stale: 2},
		{Agent: "quote", State: a2a.StateFailed, Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}
