package storetest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// auditEpoch is the time of the first of the rows of a test.
var auditEpoch = time.UnixMilli(1_700_000_000_000).UTC()

// auditRows returns rows an hour apart: of ann and ben in turn, every third of no
// task.
func auditRows(n int) []store.AuditRow {
	rows := make([]store.AuditRow, n)
	for i := range rows {
		rows[i] = store.AuditRow{At: auditEpoch.Add(time.Duration(i) * time.Hour), Subject: "ann", Body: fmt.Appendf(nil, `{"n":%d,"text":"ü\u0000"}`, i)}
		if i%2 == 1 {
			rows[i].Subject = "ben"
		}
		if i%3 != 0 {
			rows[i].Task = fmt.Sprint("task", i)
		}
	}
	return rows
}

// testAuditAtOnce adds more rows than a statement takes.
func testAuditAtOnce(t *testing.T, s store.Store) {
	want := auditRows(75)
	if err := s.AppendAudit(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Audit(t.Context(), store.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if i > 0 && got[i].ID <= got[i-1].ID {
			t.Errorf("the id %d comes after %d", got[i].ID, got[i-1].ID)
		}
		got[i].ID = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func testAudit(t *testing.T, s store.Store) {
	ctx := t.Context()
	rows := auditRows(12)
	for _, batch := range [][]store.AuditRow{rows[:5], rows[5:]} {
		if err := s.AppendAudit(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	ben, nobody := "ben", ""
	hour := func(n int) time.Time { return auditEpoch.Add(time.Duration(n) * time.Hour) }
	all, err := s.Audit(ctx, store.AuditQuery{Limit: 100})
	if err != nil || len(all) != len(rows) {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	for _, test := range []struct {
		name string
		q    store.AuditQuery
		want []int
	}{
		{"all", store.AuditQuery{Limit: 100}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"a page", store.AuditQuery{Limit: 2}, []int{0, 1}},
		{"the next page", store.AuditQuery{Limit: 2, After: all[1].ID}, []int{2, 3}},
		{"the newest", store.AuditQuery{Limit: 2, Newest: true}, []int{11, 10}},
		{"before those", store.AuditQuery{Limit: 2, Newest: true, Before: all[10].ID}, []int{9, 8}},
		{"the newest of a subject", store.AuditQuery{Limit: 2, Newest: true, Subject: &ben, Until: hour(9)}, []int{7, 5}},
		{"before one", store.AuditQuery{Limit: 100, Before: all[2].ID}, []int{0, 1}},
		{"since", store.AuditQuery{Limit: 100, Since: hour(9)}, []int{9, 10, 11}},
		{"since, on a later page", store.AuditQuery{Limit: 100, Since: hour(3), After: all[9].ID}, []int{10, 11}},
		{"until", store.AuditQuery{Limit: 100, Until: hour(2)}, []int{0, 1}},
		{"between", store.AuditQuery{Limit: 100, Since: hour(4), Until: hour(6)}, []int{4, 5}},
		{"a subject", store.AuditQuery{Limit: 100, Subject: &ben, Since: hour(6)}, []int{7, 9, 11}},
		{"nobody", store.AuditQuery{Limit: 100, Subject: &nobody}, nil},
		{"a task", store.AuditQuery{Limit: 100, Task: "task4"}, []int{4}},
		{"an unknown task", store.AuditQuery{Limit: 100, Task: "none"}, nil},
	} {
		got, err := s.Audit(ctx, test.q)
		if err != nil {
			t.Fatal(err)
		}
		want := []store.AuditRow{}
		for _, i := range test.want {
			want = append(want, rows[i])
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.AuditRow{}, "ID")); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	for _, want := range []int{3, 2, 0} {
		if n, err := s.ExpireAudit(ctx, hour(5), 3); err != nil || n != want {
			t.Errorf("%d rows have expired, %v, want %d", n, err, want)
		}
	}
	left, err := s.Audit(ctx, store.AuditQuery{Limit: 100})
	if err != nil || len(left) != 7 || left[0].ID != all[5].ID {
		t.Errorf("%d rows are left, %v", len(left), err)
	}
	if _, err := s.ExpireAudit(ctx, hour(50), 100); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendAudit(ctx, rows[:1]); err != nil {
		t.Fatal(err)
	}
	if left, err = s.Audit(ctx, store.AuditQuery{Limit: 100, After: all[11].ID}); err != nil || len(left) != 1 {
		t.Errorf("after all were removed, a new row is not behind the old ones: %d, %v", len(left), err)
	}
}

// testAuditInOrder sees that whoever follows the log misses no row, while many
// append to it.
func testAuditInOrder(t *testing.T, s store.Store) {
	const writers, batches, size = 4, 15, 3
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			for range batches {
				if err := s.AppendAudit(ctx, auditRows(size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last, seen := int64(0), 0
	for seen < writers*batches*size && ctx.Err() == nil && !t.Failed() {
		rows, err := s.Audit(ctx, store.AuditQuery{After: last, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.ID <= last {
				t.Errorf("row %d comes after %d", r.ID, last)
			}
			last = r.ID
		}
		seen += len(rows)
	}
	working.Wait()
	if seen != writers*batches*size {
		t.Errorf("%d rows were seen of %d", seen, writers*batches*size)
	}
}

func testLoad(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(id, owner, agent string, state a2a.TaskState) {
		row := task(id, state)
		row.Owner, row.Agent = owner, agent
		insert(t, s, row)
	}
	put("1", "ann", echo, a2a.StateWorking)
	put("2", "ann", echo, a2a.StateWorking)
	put("3", "ann", "other", a2a.StateInputRequired)
	put("4", "ben", echo, a2a.StateWorking)
	put("5", "ann", echo, a2a.StateCompleted)
	tenant := task("0", a2a.StateWorking).Tenant
	for _, test := range []struct {
		tenant, owner, agent string
		want                 map[a2a.TaskState]int
	}{
		{tenant, "ann", "", map[a2a.TaskState]int{a2a.StateWorking: 2, a2a.StateInputRequired: 1, a2a.StateCompleted: 1}},
		{tenant, "ann", echo, map[a2a.TaskState]int{a2a.StateWorking: 2, a2a.StateCompleted: 1}},
		{tenant, "ben", "", map[a2a.TaskState]int{a2a.StateWorking: 1}},
		{tenant, "", "", nil},
		{"elsewhere", "ann", "", nil},
	} {
		got, err := s.Load(ctx, test.tenant, test.owner, test.agent)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("the load of %q in %q with %q is %v, want %v", test.owner, test.tenant, test.agent, got, test.want)
		}
	}
}

// tourAudit asks the audit log everything.
func tourAudit(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	if err := s.AppendAudit(ctx, auditRows(3)); err != nil {
		t.Fatal(err)
	}
	ann := "ann"
	for _, since := range []time.Time{{}, auditEpoch} {
		for _, until := range []time.Time{{}, auditEpoch.Add(time.Hour)} {
			for _, subject := range []*string{nil, &ann} {
				for _, id := range []string{"", "task1"} {
					if _, err := s.Audit(ctx, store.AuditQuery{Since: since, Until: until, Subject: subject, Task: id, Limit: 10}); err != nil {
						t.Fatal(err)
					}
					if _, err := s.Audit(ctx, store.AuditQuery{Since: since, Until: until, Subject: subject, Task: id, Limit: 10, Newest: true, Before: 9}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if _, err := s.ExpireAudit(ctx, auditEpoch, 10); err != nil {
		t.Fatal(err)
	}
}
