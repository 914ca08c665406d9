package storetest

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// seals makes values of every kind that are sealed with the key old, and some
// that are sealed with another key.
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
	d := delegate(t, s, task("d", a2a.StateWorking), delegation("erp", ""))
	fresh := delegation("erp", "")
	fresh.Secret = []byte("new-key-secret")
	delegate(t, s, task("e", a2a.StateWorking), fresh)
	bank := peer("bank")
	bank.Tokens = []byte("old-key-tokens")
	for _, p := range []*store.Peer{peer("erp"), bank, {Name: "bare"}} {
		if err := s.SavePeer(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for key, secret := range map[string]string{"a": "old-key-doc", "b": "new-key-doc", "c": ""} {
		d := &store.Doc{Space: "notes", Key: key}
		if secret != "" {
			d.Secret = []byte(secret)
		}
		if err := s.PutDoc(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, store.Sealed{Task: d.TaskKey, Value: d.Secret}, store.Sealed{Peer: "bank", Value: bank.Added},
		store.Sealed{Peer: "erp", Value: bank.Added}, store.Sealed{Peer: "bank", Tokens: true, Value: bank.Tokens},
		store.Sealed{Space: "notes", Doc: "a", Value: []byte("old-key-doc")})
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
	counted(map[string]int{"old-key-": 8, "new-key-": 4})
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
	counted(map[string]int{"old-key-": 7, "new-key-": 5})
	if err := s.Reseal(ctx, all); err != nil {
		t.Fatal(err)
	}
	counted(map[string]int{"new-key-": 12})
	g, err := s.Grant(ctx, ann, "gt")
	if err != nil || !bytes.Equal(g.Data, all[0].Next) {
		t.Errorf("the grant: %+v, %v", g, err)
	}
	h, err := s.Webhook(ctx, ann, "u", "h")
	if err != nil || !bytes.Equal(h.Secrets, all[2].Next) {
		t.Errorf("the webhook: %+v, %v", h, err)
	}
	d, err := s.Delegation(ctx, ann, "d")
	if err != nil || !bytes.Equal(d.Secret, all[3].Next) {
		t.Errorf("the delegation: %+v, %v", d, err)
	}
	p, err := s.Peer(ctx, "bank")
	if err != nil || string(p.Added) != "new-key-added" || string(p.Tokens) != "new-key-tokens" {
		t.Errorf("the peer: %+v, %v", p, err)
	}
	note, err := s.Doc(ctx, node, "notes", "a")
	if err != nil || string(note.Secret) != "new-key-doc" || note.Version != 2 {
		t.Errorf("the document: %+v, %v", note, err)
	}
	p.Version = 1
	wantError(t, "a change of a peer as it was before", s.SavePeer(ctx, p), store.ErrConflict)
}
