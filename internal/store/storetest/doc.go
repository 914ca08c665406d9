package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
)

// doc returns a document of the tenant acme.
func doc(key, owner string) *store.Doc {
	return &store.Doc{Space: "notes", Key: key, Tenant: "acme", Owner: owner, Body: []byte("b-" + key), Expires: future}
}

func putDocs(t *testing.T, s store.Store, docs ...*store.Doc) {
	t.Helper()
	for _, d := range docs {
		if err := s.PutDoc(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

func testDocs(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Doc(ctx, node, "notes", "k")
	wantError(t, "an unknown document", err, store.ErrNotFound)
	wantError(t, "deleting an unknown document", s.DeleteDoc(ctx, node, "notes", "k"), store.ErrNotFound)
	unknown := doc("k", "ann")
	unknown.Version = 1
	wantError(t, "a change of an unknown document", s.PutDoc(ctx, unknown), store.ErrConflict)

	k, other := doc("k", "ann"), doc("k", "bob")
	putDocs(t, s, k)
	if k.Version != 1 {
		t.Errorf("version %d", k.Version)
	}
	wantError(t, "making a document that is there", s.PutDoc(ctx, other), store.ErrConflict)
	before := *k
	k.Body, k.Secret = []byte("changed"), []byte("sealed-k")
	putDocs(t, s, k)
	wantError(t, "a change of a document as it was before", s.PutDoc(ctx, &before), store.ErrConflict)
	if before.Version != 1 {
		t.Errorf("a refused document has version %d", before.Version)
	}
	for scope, there := range map[store.Scope]bool{
		ann: true, node: true, store.ForTenant("acme"): true,
		store.ForOwner("acme", "bob"): false, store.ForTenant("other"): false, store.ForOwner("other", "ann"): false, {}: false,
	} {
		got, err := s.Doc(ctx, scope, "notes", "k")
		if diff := cmp.Diff(k, got); there && diff != "" {
			t.Errorf("%+v (-want +got):\n%s%v", scope, diff, err)
		}
		if !there {
			wantError(t, "a document out of scope", err, store.ErrNotFound)
			wantError(t, "deleting a document out of scope", s.DeleteDoc(ctx, scope, "notes", "k"), store.ErrNotFound)
		}
	}

	// By key, after one of them, with a prefix.
	putDocs(t, s, doc("a", "ann"), doc("ka", "bob"), doc("kb", "ann"), doc("k\U0010ffff", "ann"), doc("l", "ann"))
	far := doc("k", "ann")
	far.Space = "notes2"
	putDocs(t, s, far)
	keys := func(scope store.Scope, prefix, after string, limit int) (keys []string) {
		t.Helper()
		list, err := s.Docs(ctx, scope, "notes", prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			keys = append(keys, list[i].Key)
		}
		return keys
	}
	for name, c := range map[string]struct{ got, want []string }{
		"all":      {keys(node, "", "", 10), []string{"a", "k", "ka", "kb", "k\U0010ffff", "l"}},
		"of one":   {keys(ann, "", "", 10), []string{"a", "k", "kb", "k\U0010ffff", "l"}},
		"prefix":   {keys(node, "k", "", 10), []string{"k", "ka", "kb", "k\U0010ffff"}},
		"after":    {keys(node, "k", "ka", 10), []string{"kb", "k\U0010ffff"}},
		"limit":    {keys(node, "", "a", 2), []string{"k", "ka"}},
		"nobody":   {keys(store.Scope{}, "", "", 10), nil},
		"stranger": {keys(store.ForTenant("other"), "", "", 10), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}

	if err := s.DeleteDoc(ctx, ann, "notes", "k"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Doc(ctx, node, "notes", "k")
	wantError(t, "a deleted document", err, store.ErrNotFound)

	// One whose time is over is not there, whether it was removed yet or not.
	over := doc("over", "ann")
	over.Expires = past
	putDocs(t, s, over)
	_, err = s.Doc(ctx, node, "notes", "over")
	wantError(t, "a document whose time is over", err, store.ErrNotFound)
	wantError(t, "a change of a document whose time is over", s.PutDoc(ctx, over), store.ErrConflict)
	wantError(t, "deleting a document whose time is over", s.DeleteDoc(ctx, node, "notes", "over"), store.ErrNotFound)
	putDocs(t, s, doc("over", "bob"))
	again := doc("gone", "ann")
	again.Expires = past
	putDocs(t, s, again)
	if n, err := s.Expire(ctx, 100); err != nil || n != 1 {
		t.Errorf("expired %d, %v", n, err)
	}
	if list := keys(node, "over", "", 10); len(list) != 1 {
		t.Errorf("after the end: %q", list)
	}
}

func testDocsPutOnce(t *testing.T, s store.Store) {
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { errs[i] = s.PutDoc(t.Context(), doc("k", "ann")) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, store.ErrConflict):
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d of %d made the document", made, len(errs))
	}
}

func testCounters(t *testing.T, s store.Store) {
	ctx := t.Context()
	spend := func(key string, amount int64, want int64, wantErr error) {
		t.Helper()
		used, err := s.Spend(ctx, "budget", key, amount, 10, future)
		if used != want || !errors.Is(err, wantErr) {
			t.Errorf("spend %d of %s: %d, %v, want %d, %v", amount, key, used, err, want, wantErr)
		}
	}
	spend("a", 11, 0, store.ErrExceeded)
	spend("a", 4, 4, nil)
	spend("a", 6, 10, nil)
	spend("a", 1, 10, store.ErrExceeded)
	spend("a", 0, 10, nil)
	spend("a", -3, 7, nil)
	spend("a", -30, 0, nil)
	spend("b", 5, 5, nil)
	if used, err := s.Spend(ctx, "other", "b", 1, 10, future); used != 1 || err != nil {
		t.Errorf("another space: %d, %v", used, err)
	}

	// It begins again when its time is over.
	if used, err := s.Spend(ctx, "budget", "c", 10, 10, past); used != 10 || err != nil {
		t.Errorf("%d, %v", used, err)
	}
	spend("c", 1, 1, nil)

	var wg sync.WaitGroup
	var mu sync.Mutex
	ok := 0
	for range 30 {
		wg.Go(func() {
			_, err := s.Spend(ctx, "budget", "d", 1, 10, future)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ok++
			} else if !errors.Is(err, store.ErrExceeded) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if ok != 10 {
		t.Errorf("%d of 30 were taken, with room for 10", ok)
	}
}
