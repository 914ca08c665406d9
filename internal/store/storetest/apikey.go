package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"handoff.example/handoff/internal/store"
)

// apiKey returns a key with a value in every field but the last two.
func apiKey(id string, created int64) *store.APIKey {
	return &store.APIKey{
		ID: id, Hash: []byte{0, 1, 0xff}, Subject: "erp of " + id, Tenant: "acme", Role: "caller", Scopes: []string{"quotes", "orders.write"},
		Created: time.UnixMilli(created).UTC(), By: "root", Expires: time.UnixMilli(created + 1000).UTC(),
	}
}

func testAPIKeys(t *testing.T, s store.Store) {
	keys := store.APIKeys(s)
	_, err := keys.Key(t.Context(), "none")
	wantError(t, "an unknown key", err, store.ErrNotFound)
	wantError(t, "revoking an unknown key", keys.RevokeKey(t.Context(), "none", time.UnixMilli(1)), store.ErrNotFound)
	if err := keys.UseKey(t.Context(), "none", time.UnixMilli(1)); err != nil {
		t.Errorf("using an unknown key: %v", err)
	}
	old, fresh := apiKey("old", 1_700_000_000_000), apiKey("fresh", 1_700_000_000_001)
	bare := &store.APIKey{ID: "bare", Hash: []byte("h"), Subject: "b", Role: "viewer", Created: time.UnixMilli(1_700_000_000_002).UTC()}
	for _, k := range []*store.APIKey{old, fresh, bare} {
		if err := keys.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, "an id that is taken", keys.CreateKey(t.Context(), apiKey("old", 5)), store.ErrConflict)
	same := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	got, err := keys.Key(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	same("a key", got, old)

	for _, at := range []int64{20, 30, 10} {
		if err := keys.UseKey(t.Context(), "old", time.UnixMilli(at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []int64{50, 60} {
		if err := keys.RevokeKey(t.Context(), "old", time.UnixMilli(at)); err != nil {
			t.Fatal(err)
		}
	}
	old.Used, old.Revoked = time.UnixMilli(30).UTC(), time.UnixMilli(50).UTC()
	list, err := keys.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same("all keys", list, []store.APIKey{*bare, *fresh, *old})
}
