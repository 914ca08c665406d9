package storetest

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// seals makes three values sealed with the key old, two of a grant and webhooks
// of two tasks, and one sealed with another key.
func seals(t *testing.T, s store.Store) []store.Sealed {
	t.Helper()
	var want []store.Sealed
	for _, id := range []string{"t", "u"} {
		row := task(id, a2a.StateAuthRequired)
		insert(t, s, row)
		h := hook("h")
		h.Secrets = []byte("old-key-" + id)
		commit(t, s, &store.Change{Task: row.Key, Webhook: h})
		want = append(want, store.Sealed{Task: row.Key, Webhook: "h", Value: h.Secrets})
		bare := hook("bare")
		bare.Secrets = nil
		commit(t, s, &store.Change{Task: row.Key, Webhook: bare})
		commit(t, s, &store.Change{Task: row.Key, Grant: &store.Grant{ID: "g" + id, Task: id, Turn: 1, Created: past}})
	}
	for id, data := range map[string]string{"gt": "old-key-grant", "gu": "new-key-grant"} {
		commit(t, s, &store.Change{Decide: &store.Grant{ID: id, Approved: true, Data: []byte(data), By: "ann"}})
	}
	return append([]store.Sealed{{Grant: "gt", Value: []byte("old-key-grant")}}, want...)
}

func testSeals(t *testing.T, s store.Store) {
	ctx := t.Context()
	want := seals(t, s)
	counted := func(want map[string]int) {
		t.Helper()
		got, err := s.SealKeys(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	}
	counted(map[string]int{"old-key-": 3, "new-key-": 1})
	all, err := s.SealedWith(ctx, "old-key-", nil, 1<<20)
	if diff := cmp.Diff(want, all); diff != "" || err != nil {
		t.Errorf("sealed with the old key (-want +got):\n%s%v", diff, err)
	}
	if none, err := s.SealedWith(ctx, "nobodys-", nil, 1<<20); err != nil || len(none) != 0 {
		t.Errorf("sealed with a key of nobody: %v, %v", none, err)
	}
	// One after another, however small the portions.
	var after *store.Sealed
	for i := range want {
		got, err := s.SealedWith(ctx, "old-key-", after, 1)
		if err != nil || len(got) != 1 || !cmp.Equal(got[0], want[i]) {
			t.Fatalf("after %d: %+v, %v", i, got, err)
		}
		after = &got[0]
	}
	if got, err := s.SealedWith(ctx, "old-key-", after, 1); err != nil || len(got) != 0 {
		t.Errorf("after the last: %v, %v", got, err)
	}

	// A value that somebody has changed meanwhile stays as it is.
	for i := range all {
		all[i].Next = append([]byte("new-key-"), all[i].Value[8:]...)
	}
	stale := all[1]
	stale.Value = []byte("old-key-before")
	if err := s.Reseal(ctx, []store.Sealed{all[0], stale}); err != nil {
		t.Fatal(err)
	}
	counted(map[string]int{"old-key-": 2, "new-key-": 2})
	if err := s.Reseal(ctx, all); err != nil {
		t.Fatal(err)
	}
	counted(map[string]int{"new-key-": 4})
	g, err := s.Grant(ctx, ann, "gt")
	if err != nil || !bytes.Equal(g.Data, all[0].Next) {
		t.Errorf("the grant: %+v, %v", g, err)
	}
	h, err := s.Webhook(ctx, ann, "u", "h")
	if err != nil || !bytes.Equal(h.Secrets, all[2].Next) {
		t.Errorf("the webhook: %+v, %v", h, err)
	}
}
