package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// scan reads all pages of a scan and returns the tasks' ids.
func scan(t *testing.T, s store.Store, scope store.Scope, q store.ScanQuery) []string {
	t.Helper()
	ids, looked := []string{}, 0
	for {
		page, err := s.Scan(t.Context(), scope, q)
		if err != nil {
			t.Fatalf("scan %+v: %v", q, err)
		}
		looked += page.Looked
		if page.Looked > q.Limit || len(page.Tasks) > page.Looked || looked > 10_000 {
			t.Fatalf("a page of %d has looked at %d tasks and has %d", q.Limit, page.Looked, len(page.Tasks))
		}
		for i := range page.Tasks {
			ids = append(ids, page.Tasks[i].ID)
			if i == 0 && len(page.Tasks) > 1 {
				q := q
				q.After, q.Limit = page.Positions[0], 100
				rest, err := s.Scan(t.Context(), scope, q)
				if err != nil || len(rest.Tasks) == 0 || rest.Tasks[0].ID != page.Tasks[1].ID {
					t.Errorf("after the first task of a page comes not the second: %+v, %v", rest, err)
				}
			}
		}
		if page.Next == 0 {
			return ids
		}
		if page.Reached.IsZero() {
			t.Errorf("a page that is not the last has reached no time")
		}
		q.After = page.Next
	}
}

func testScan(t *testing.T, s store.Store) {
	states := []a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired, a2a.StateCompleted, a2a.StateFailed}
	var rows []*store.Task
	for i := range 24 {
		row := task(name("t", i), states[i%4])
		row.Agent = []string{echo, "quote"}[i/4%2]
		row.Owner = []string{"ann", "ben", "eve"}[i%3]
		row.Tenant = []string{"acme", "acme", "other"}[i%3]
		row.Context = []string{"c1", "c2"}[i/12]
		rows = append(rows, insert(t, s, row))
	}
	move(t, s, rows[0].Key, a2a.StateWorking) // its status is the newest
	rows = append(rows[1:], rows[0])
	for _, test := range []struct {
		name  string
		scope store.Scope
		q     store.ScanQuery
	}{
		{"all", node, store.ScanQuery{}},
		{"an owner", ann, store.ScanQuery{}},
		{"a tenant", store.ForTenant("acme"), store.ScanQuery{}},
		{"an owner of a tenant", store.ForTenant("acme"), store.ScanQuery{Owner: "ben"}},
		{"somebody else's", ann, store.ScanQuery{Owner: "ben"}},
		{"nobody", store.Scope{}, store.ScanQuery{}},
		{"an agent", node, store.ScanQuery{Agent: "quote"}},
		{"a context", node, store.ScanQuery{Context: "c2"}},
		{"states", node, store.ScanQuery{States: store.States(a2a.StateInputRequired, a2a.StateFailed)}},
		{"all of it", store.ForTenant("acme"), store.ScanQuery{Agent: echo, Context: "c1", States: store.Live, Owner: "ann"}},
	} {
		for _, oldest := range []bool{false, true} {
			want := []string{}
			for _, row := range rows {
				q := test.q
				if test.scope.Includes(row.Tenant, row.Owner) && q.Has(row) {
					want = append(want, row.ID)
				}
			}
			if !oldest {
				slices.Reverse(want)
			}
			for _, limit := range []int{1, 5, 100} {
				q := test.q
				q.Oldest, q.Limit = oldest, limit
				if diff := cmp.Diff(want, scan(t, s, test.scope, q)); diff != "" {
					t.Errorf("%s, oldest %v, limit %d: %s", test.name, oldest, limit, diff)
				}
			}
		}
	}
	if page, err := s.Scan(t.Context(), node, store.ScanQuery{}); err != nil || page.Looked != 0 || page.Next != 0 {
		t.Errorf("a scan of nothing: %+v, %v", page, err)
	}
}

// testScanTimes sees that the bounds of a scan are times of statuses.
func testScanTimes(t *testing.T, s store.Store) {
	var rows []*store.Task
	for i := range 6 {
		row := insert(t, s, task(name("t", i), a2a.StateWorking))
		rows = append(rows, row)
		for clock := insert(t, s, task(name("clock", i), a2a.StateCompleted)); !clock.StatusAt.After(row.StatusAt); {
			move(t, s, clock.Key, a2a.StateCompleted)
			read := read(t, s, clock.ID, store.Want{})
			clock = &read.Task
		}
	}
	q := store.ScanQuery{States: store.Live, Since: rows[2].StatusAt, Until: rows[4].StatusAt, Limit: 2}
	if got := scan(t, s, ann, q); !slices.Equal(got, []string{"t-0003", "t-0002"}) {
		t.Errorf("between two times: %v", got)
	}
	q.Oldest = true
	if got := scan(t, s, node, q); !slices.Equal(got, []string{"t-0002", "t-0003"}) {
		t.Errorf("between two times, the oldest first: %v", got)
	}
	q.Until = rows[1].StatusAt
	if got := scan(t, s, node, q); len(got) > 0 {
		t.Errorf("between no two times: %v", got)
	}
}

// testScanManyOwners scans over more owners than are read one by one.
func testScanManyOwners(t *testing.T, s store.Store) {
	want, bens := []string{}, []string{}
	for i := range 90 {
		row := task(name("t", i), a2a.StateWorking)
		row.Owner = fmt.Sprint("owner", i)
		if i%10 == 0 {
			row.Tenant = "ben's"
			bens = append(bens, row.ID)
		}
		want = append(want, insert(t, s, row).ID)
	}
	if got := scan(t, s, node, store.ScanQuery{Oldest: true, Limit: 7}); !slices.Equal(got, want) {
		t.Errorf("all: %v", got)
	}
	if got := scan(t, s, node, store.ScanQuery{Oldest: true, Limit: 7, States: store.States(a2a.StateCompleted)}); len(got) > 0 {
		t.Errorf("completed ones: %v", got)
	}
	if got := scan(t, s, store.ForTenant("ben's"), store.ScanQuery{Oldest: true, Limit: 4}); !slices.Equal(got, bens) {
		t.Errorf("of a tenant: %v", got)
	}
}

func testCounts(t *testing.T, s store.Store) {
	var rows []*store.Task
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		row := task(id, []a2a.TaskState{a2a.StateWorking, a2a.StateWorking, a2a.StateCompleted, a2a.StateWorking, a2a.StateInputRequired}[i])
		row.Owner = []string{"ann", "ann", "ann", "ben", "eve"}[i]
		row.Tenant = []string{"acme", "acme", "acme", "acme", "other"}[i]
		rows = append(rows, insert(t, s, row))
	}
	for _, test := range []struct {
		name  string
		scope store.Scope
		want  []store.Stat
	}{
		{"ann", ann, []store.Stat{{Agent: echo, State: a2a.StateWorking, Count: 2, Oldest: rows[0].StatusAt}, {Agent: echo, State: a2a.StateCompleted, Count: 1}}},
		{"acme", store.ForTenant("acme"), []store.Stat{{Agent: echo, State: a2a.StateWorking, Count: 3, Oldest: rows[0].StatusAt}, {Agent: echo, State: a2a.StateCompleted, Count: 1}}},
		{"other", store.ForTenant("other"), []store.Stat{{Agent: echo, State: a2a.StateInputRequired, Count: 1, Oldest: rows[4].StatusAt}}},
		{"nobody", store.Scope{}, nil},
		{"all", node, []store.Stat{
			{Agent: echo, State: a2a.StateWorking, Count: 3, Oldest: rows[0].StatusAt},
			{Agent: echo, State: a2a.StateCompleted, Count: 1},
			{Agent: echo, State: a2a.StateInputRequired, Count: 1, Oldest: rows[4].StatusAt},
		}},
	} {
		got, err := s.Counts(t.Context(), test.scope)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func testAllWebhooks(t *testing.T, s store.Store) {
	var keys []int64
	for i := range 4 {
		row := task(name("t", i), a2a.StateWorking)
		row.Owner = []string{"ann", "ben"}[i%2]
		insert(t, s, row)
		commit(t, s, &store.Change{Task: row.Key, Webhook: hook("a")})
		commit(t, s, &store.Change{Task: row.Key, Webhook: hook("b")})
		keys = append(keys, row.Key)
	}
	commit(t, s, &store.Change{Task: keys[3], Events: []store.Event{artifact("x")}})
	jobs, err := s.Jobs(t.Context(), 10, time.Hour)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for i := range jobs {
		outcome := store.DeliverAgain
		if jobs[i].Key == "b" {
			outcome = store.DeliverNever
		}
		deliver(t, s, &store.Delivery{Job: jobs[i].ID, Attempt: jobs[i].Attempt, Task: keys[3], Webhook: jobs[i].Key, Outcome: outcome, Stuck: 2, Error: "503", Wait: time.Hour})
	}
	all := func(scope store.Scope, q store.WebhookQuery) (ids []string) {
		t.Helper()
		for q.Limit = 3; ; {
			hooks, err := s.AllWebhooks(t.Context(), scope, q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range hooks {
				h := &hooks[i]
				ids = append(ids, h.Task+"/"+h.ID)
				if waits := h.Task == "t-0003" && h.ID == "a"; h.Next.IsZero() == waits {
					t.Errorf("%s/%s is tried next at %v", h.Task, h.ID, h.Next)
				}
			}
			if len(hooks) < q.Limit {
				return ids
			}
			q.After = &hooks[len(hooks)-1]
		}
	}
	for _, test := range []struct {
		name  string
		scope store.Scope
		q     store.WebhookQuery
		want  []string
	}{
		{"all", node, store.WebhookQuery{}, []string{"t-0003/b", "t-0003/a", "t-0002/b", "t-0002/a", "t-0001/b", "t-0001/a", "t-0000/b", "t-0000/a"}},
		{"ann's", ann, store.WebhookQuery{}, []string{"t-0002/b", "t-0002/a", "t-0000/b", "t-0000/a"}},
		{"failing", node, store.WebhookQuery{Failing: true}, []string{"t-0003/a"}},
		{"ann's failing", ann, store.WebhookQuery{Failing: true}, nil},
		{"nobody's", store.Scope{}, store.WebhookQuery{}, nil},
	} {
		if diff := cmp.Diff(test.want, all(test.scope, test.q)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// tourScans calls what reads for people who look for something.
func tourScans(t *testing.T, s store.Store) {
	t.Helper()
	for _, scope := range []store.Scope{ann, store.ForTenant("acme"), node} {
		for _, oldest := range []bool{false, true} {
			for _, context := range []string{"", "c"} {
				q := store.ScanQuery{Oldest: oldest, Context: context, Limit: 2, Since: time.UnixMilli(1), Until: time.Now().Add(time.Hour)}
				if _, err := s.Scan(t.Context(), scope, q); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := s.Counts(t.Context(), scope); err != nil {
			t.Error(err)
		}
		for _, q := range []store.WebhookQuery{
			{}, {Failing: true}, {After: &store.Webhook{TaskKey: 9, ID: "a"}}, {Failing: true, After: &store.Webhook{Failing: time.UnixMilli(1), TaskKey: 9, ID: "a"}},
		} {
			q.Limit = 2
			if _, err := s.AllWebhooks(t.Context(), scope, q); err != nil {
				t.Error(err)
			}
		}
	}
}
