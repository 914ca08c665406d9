package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// question returns an item with a value in every field that a change can give.
func question(id string) *store.InboxItem {
	return &store.InboxItem{
		ID: id, Kind: store.InboxQuestion, Turn: 2, Grant: "g", Agent: "erp", Peer: true, Ref: "order-1", Text: "What now? é\x00",
		Schema: a2a.JSON(`{"type":"object"}`), URL: "https://x/", Op: "pay", Created: past, Due: future, Assignee: "bob",
	}
}

// stalled makes a task that an item waits for.
func stalled(t *testing.T, s store.Store, id string, item *store.InboxItem) *store.Task {
	t.Helper()
	row := task(id, a2a.StateInputRequired)
	commit(t, s, &store.Change{Insert: row, Events: []store.Event{saying("?")}, Item: item})
	return row
}

// itemIDs returns the ids of a query's items, and how many are open.
func itemIDs(t *testing.T, s store.Store, scope store.Scope, q store.InboxQuery) (ids []string, total int) {
	t.Helper()
	for first := true; ; first = false {
		page, err := s.InboxItems(t.Context(), scope, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > q.PageSize || !first && page.Total != 0 {
			t.Errorf("a page of %d, %d in total", len(page.Items), page.Total)
		}
		if first {
			total = page.Total
		}
		for _, i := range page.Items {
			ids = append(ids, i.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids, total
		}
	}
}

// historyOf returns what happened to an item, without times.
func historyOf(t *testing.T, s store.Store, id string) (lines []string) {
	t.Helper()
	list, err := s.InboxHistory(t.Context(), node, id)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if e.At.IsZero() || i > 0 && e.At.Before(list[i-1].At) {
			t.Errorf("entry %d of %s is from %v", i, id, e.At)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", e.By, e.What, e.Words))
	}
	return lines
}

func testInbox(t *testing.T, s store.Store) {
	ctx := t.Context()
	want := question("i")
	row := stalled(t, s, "t", want)
	if want.Task != "t" || want.Tenant != "acme" || want.Owner != "ann" {
		t.Errorf("put in: %+v", want)
	}
	again := *want
	again.Text = "other"
	commit(t, s, &store.Change{Task: row.Key, Item: &again})
	bare := &store.InboxItem{ID: "card", Kind: store.InboxCard, Tenant: "other"}
	c := commit(t, s, &store.Change{Item: bare})
	if !bare.Created.Equal(c.At) {
		t.Errorf("created at %v, committed at %v", bare.Created, c.At)
	}
	for scope, found := range map[store.Scope]bool{
		ann: true, node: true, store.ForTenant("acme"): true,
		{}: false, store.ForOwner("acme", "bob"): false, store.ForTenant("other"): false, store.ForOwner("other", "ann"): false,
	} {
		got, err := s.InboxItem(ctx, scope, "i")
		_, herr := s.InboxHistory(ctx, scope, "i")
		uerr := s.UpdateInbox(ctx, scope, &store.InboxUpdate{ID: "i", Entry: store.InboxEntry{By: "x", What: "linked"}})
		ids, _ := itemIDs(t, s, scope, store.InboxQuery{PageSize: 9, Task: "t"})
		if found != (len(ids) == 1) {
			t.Errorf("in the scope %+v: %v", scope, ids)
		}
		if !found {
			for _, err := range []error{err, herr, uerr} {
				wantError(t, fmt.Sprint(scope), err, store.ErrNotFound)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || herr != nil || uerr != nil {
			t.Errorf("in the scope %+v: %s%v, %v, %v", scope, diff, err, herr, uerr)
		}
	}
	if got, err := s.InboxItem(ctx, node, "card"); !cmp.Equal(bare, got) || err != nil {
		t.Errorf("an item without a task: %+v, %v", got, err)
	}

	// Settling it by itself is a line of its own.
	settle := &store.InboxUpdate{ID: "card", Settle: &store.InboxSettle{By: "root", Decision: "approved", Words: "w"}}
	if err := s.UpdateInbox(ctx, node, settle); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a settled item", s.UpdateInbox(ctx, node, settle), store.ErrConflict)
	got, err := s.InboxItem(ctx, node, "card")
	if err != nil || got.Settled.IsZero() || got.By != "root" || got.Decision != "approved" || got.Words != "w" {
		t.Errorf("settled: %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{" created ", "root approved w"}, historyOf(t, s, "card")); diff != "" {
		t.Error(diff)
	}

	move(t, s, row.Key, a2a.StateCompleted)
	if err := s.Delete(ctx, ann, "t"); err != nil {
		t.Fatal(err)
	}
	_, err = s.InboxItem(ctx, node, "i")
	wantError(t, "the item of a deleted task", err, store.ErrNotFound)
	over := task("over", a2a.StateCompleted)
	over.Expires = past
	commit(t, s, &store.Change{Insert: over, Events: []store.Event{status("s")}, Item: question("i")}) // its history has gone too
	if diff := cmp.Diff([]string{"erp created "}, historyOf(t, s, "i")); diff != "" {
		t.Error(diff)
	}
	if n, err := s.Expire(ctx, 9); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	_, err = s.InboxItem(ctx, node, "i")
	wantError(t, "the item of an expired task", err, store.ErrNotFound)
}

func testInboxUpdate(t *testing.T, s store.Store) {
	ctx := t.Context()
	want := question("i")
	stalled(t, s, "t", want)
	update := func(u store.InboxUpdate, what, words string) {
		t.Helper()
		u.ID, u.Entry = "i", store.InboxEntry{By: "root", What: what, Words: words}
		if err := s.UpdateInbox(ctx, node, &u); err != nil || u.Entry.At.IsZero() {
			t.Fatal(u.Entry.At, err)
		}
	}
	later := future.Add(time.Hour)
	update(store.InboxUpdate{Assignee: ptr("cat")}, "assigned", "cat")
	update(store.InboxUpdate{Due: &later}, "due", "later")
	update(store.InboxUpdate{Reminded: ptr(1)}, "reminded", "")
	want.Assignee, want.Due, want.Reminded = "cat", later, 1
	if got, err := s.InboxItem(ctx, node, "i"); !cmp.Equal(want, got) || err != nil {
		t.Errorf("updated: %s%v", cmp.Diff(want, got), err)
	}
	update(store.InboxUpdate{Due: &time.Time{}}, "due", "never")
	if got, err := s.InboxItem(ctx, node, "i"); err != nil || !got.Due.IsZero() {
		t.Errorf("without a due date: %+v, %v", got, err)
	}
	wantError(t, "an unknown item", s.UpdateInbox(ctx, node, &store.InboxUpdate{ID: "none"}), store.ErrNotFound)
	if diff := cmp.Diff([]string{"erp created ", "root assigned cat", "root due later", "root reminded ", "root due never"}, historyOf(t, s, "i")); diff != "" {
		t.Error(diff)
	}
}

func testInboxPages(t *testing.T, s store.Store) {
	ctx := t.Context()
	due := func(hours int) time.Time { return past.Add(time.Duration(hours) * time.Hour) }
	for i, at := range []time.Time{due(3), {}, due(1), due(1), {}, due(2)} {
		item := question(fmt.Sprint("i", i))
		item.Due, item.Assignee = at, []string{"bob", ""}[i%2]
		item.Kind = []store.InboxKind{store.InboxQuestion, store.InboxGrant, store.InboxStuck}[i%3]
		stalled(t, s, fmt.Sprint("t", i), item)
	}
	strange := question("strange")
	stranger := task("strange", a2a.StateInputRequired)
	stranger.Tenant = "other"
	commit(t, s, &store.Change{Insert: stranger, Events: []store.Event{status("s")}, Item: strange})
	check := func(q store.InboxQuery, total int, want ...string) {
		t.Helper()
		for _, scope := range []store.Scope{ann, store.ForTenant("acme")} {
			for _, size := range []int{1, 2, 9} {
				q.PageSize = size
				got, n := itemIDs(t, s, scope, q)
				if diff := cmp.Diff(want, got); diff != "" || n != total {
					t.Errorf("query %+v: %s%d in total, want %d", q, diff, n, total)
				}
			}
		}
	}
	check(store.InboxQuery{}, 6, "i2", "i3", "i5", "i0", "i1", "i4")
	check(store.InboxQuery{Kind: store.InboxGrant}, 2, "i1", "i4")
	check(store.InboxQuery{Assignee: "bob"}, 3, "i2", "i0", "i4")
	check(store.InboxQuery{Assignee: "bob", Task: "t2", Kind: store.InboxStuck}, 1, "i2")
	check(store.InboxQuery{Task: "t3"}, 1, "i3")
	check(store.InboxQuery{DueBy: due(2)}, 3, "i2", "i3", "i5")
	check(store.InboxQuery{Settled: true}, 6)
	for _, i := range []string{"i5", "i1"} { // one after the other
		if err := s.UpdateInbox(ctx, ann, &store.InboxUpdate{ID: i, Settle: &store.InboxSettle{By: "ann", Decision: "answered"}}); err != nil {
			t.Fatal(err)
		}
	}
	check(store.InboxQuery{}, 4, "i2", "i3", "i0", "i4")
	settled, _ := itemIDs(t, s, ann, store.InboxQuery{Settled: true, PageSize: 1})
	if len(settled) != 2 {
		t.Errorf("settled: %v", settled)
	}
	if all, n := itemIDs(t, s, node, store.InboxQuery{PageSize: 2}); len(all) != 5 || n != 5 {
		t.Errorf("in all tenants: %v, %d", all, n)
	}
	page, err := s.InboxItems(ctx, ann, store.InboxQuery{PageSize: 1})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	for _, q := range []store.InboxQuery{{Cursor: "x"}, {Cursor: page.Next[1:]}, {Cursor: page.Next, Settled: true}, {Cursor: page.Next, Assignee: "bob"}} {
		q.PageSize = 1
		_, err := s.InboxItems(ctx, ann, q)
		wantError(t, "a bad cursor", err, store.ErrBadCursor)
	}
	_, err = s.InboxItems(ctx, node, store.InboxQuery{PageSize: 1, Cursor: page.Next})
	wantError(t, "the cursor of another scope", err, store.ErrBadCursor)
}

func testInboxSettles(t *testing.T, s store.Store) {
	ctx := t.Context()
	row := stalled(t, s, "t", question("one"))
	commit(t, s, &store.Change{Task: row.Key, Item: question("two")})
	stalled(t, s, "u", question("other"))
	by := func(id string) *store.InboxSettle {
		return &store.InboxSettle{ID: id, By: "ann", Decision: "answered", Words: "é\x00"}
	}
	open := func(want ...string) {
		t.Helper()
		got, n := itemIDs(t, s, ann, store.InboxQuery{PageSize: 9})
		if diff := cmp.Diff(want, got); diff != "" || n != len(want) {
			t.Errorf("open: %s%d in total", diff, n)
		}
	}
	err := s.Commit(ctx, &store.Change{Task: row.Key, Guard: store.Guard{Turn: 9}, Settles: by("")})
	wantError(t, "a guard that does not hold", err, store.ErrConflict)
	wantError(t, "an unknown item", s.Commit(ctx, &store.Change{Task: row.Key, Settles: by("none"), Events: []store.Event{status("x")}}), store.ErrConflict)
	open("one", "two", "other")
	// A new item of the same change is put in when the old ones are settled.
	commit(t, s, &store.Change{Task: row.Key, Settles: by("one"), Item: question("three"), Events: []store.Event{status("x")}})
	open("other", "three")
	got, err := s.InboxItem(ctx, ann, "two")
	if err != nil || got.Settled.IsZero() || got.By != "ann" || got.Decision != "answered" || got.Words != "é\x00" {
		t.Errorf("settled: %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"erp created ", "ann answered é\x00"}, historyOf(t, s, "two")); diff != "" {
		t.Error(diff)
	}
	before := read(t, s, "t", store.Want{}).Seq
	wantError(t, "a settled item", s.Commit(ctx, &store.Change{Task: row.Key, Settles: by("one"), Events: []store.Event{status("x")}}), store.ErrConflict)
	if after := read(t, s, "t", store.Want{}).Seq; after != before {
		t.Errorf("a refused change has written %d events", after-before)
	}
	open("other", "three")
	// The item of another task, as when a grant of a task below is decided.
	commit(t, s, &store.Change{Task: row.Key, Settles: by("other")})
	open()
	commit(t, s, &store.Change{Task: row.Key, Item: question("four")})
	commit(t, s, &store.Change{Settles: by("four")})
	open()
}

// testInboxSettledOnce answers an item from many sides: one answer counts.
func testInboxSettledOnce(t *testing.T, s store.Store) {
	for round := range 5 {
		id := fmt.Sprint("i", round)
		row := stalled(t, s, fmt.Sprint("t", round), question(id))
		var won atomic.Int32
		atOnce(8, func(i int) {
			settle := &store.InboxSettle{ID: id, By: fmt.Sprint(i), Decision: "answered"}
			var err error
			if i%4 == 3 {
				err = s.UpdateInbox(t.Context(), ann, &store.InboxUpdate{ID: id, Settle: settle})
			} else {
				err = s.Commit(t.Context(), &store.Change{Task: row.Key, Settles: settle, Events: []store.Event{message("m")}})
			}
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Error(err)
			}
		})
		if got := historyOf(t, s, id); won.Load() != 1 || len(got) != 2 {
			t.Errorf("%d answers count, and the history has %v", won.Load(), got)
		}
	}
}
