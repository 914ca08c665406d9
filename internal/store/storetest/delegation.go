package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// delegation returns one with a value in every field that is not the task's.
func delegation(peer, ref string) *store.Delegation {
	return &store.Delegation{
		Peer: peer, Ref: ref, Root: "root", Parent: "parent", Turn: 2, Depth: 3, Asked: "agent planner", Deadline: future,
		Message: "m-1", Number: 4, Send: store.SendUnknown, RemoteTask: "rt", RemoteContext: "rc", RemoteState: a2a.StateWorking, RemoteDigest: "d",
		Seen: past, Channel: store.ChannelPush, Attempts: 5, Error: "é\x00", Interface: "JSONRPC 1.0 https://x", CardDigest: "c",
		Token: []byte{0, 1}, Secret: []byte("old-key-secret"), Push: "p", Recalled: true,
	}
}

// delegate makes a task that is a delegation.
func delegate(t *testing.T, s store.Store, row *store.Task, d *store.Delegation) *store.Delegation {
	t.Helper()
	commit(t, s, &store.Change{Insert: row, Events: []store.Event{status("s")}, Delegation: d})
	return d
}

func testDelegation(t *testing.T, s store.Store) {
	ctx := t.Context()
	row := task("t", a2a.StateWorking)
	row.Context = "c"
	d := delegate(t, s, row, delegation("erp", "order-1"))
	if !row.Delegated || d.TaskKey != row.Key || d.Task != "t" || d.State != a2a.StateWorking {
		t.Errorf("inserted: %+v, %+v", row, d)
	}
	for scope, found := range map[store.Scope]bool{
		ann: true, node: true, store.ForTenant("acme"): true,
		{}: false, store.ForOwner("acme", "bob"): false, store.ForTenant("other"): false, store.ForOwner("other", "ann"): false,
	} {
		got, err := s.Delegation(ctx, scope, "t")
		page, perr := s.Delegations(ctx, scope, store.DelegationQuery{PageSize: 9})
		if !found {
			wantError(t, fmt.Sprint(scope), err, store.ErrNotFound)
			if perr != nil || len(page.Items) != 0 {
				t.Errorf("in the scope %+v: %+v, %v", scope, page, perr)
			}
			continue
		}
		if err != nil || perr != nil {
			t.Fatal(err, perr)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Errorf("in the scope %+v: %s", scope, diff)
		}
		if diff := cmp.Diff([]store.Delegation{*d}, page.Items); diff != "" {
			t.Errorf("in the scope %+v: %s", scope, diff)
		}
	}

	// The half that changes does, the other does not, and only when the guard holds.
	changed := &store.Delegation{Peer: "another", Ref: "x", Root: "y", Depth: 9, Asked: "nobody", Message: "m-2", Number: 5, Send: store.SendAccepted, Attempts: 1}
	err := s.Commit(ctx, &store.Change{Task: row.Key, Guard: store.Guard{Turn: 7}, Delegation: changed})
	wantError(t, "a guard that does not hold", err, store.ErrConflict)
	c := &store.Change{Task: row.Key, Set: store.Set{State: ptr(a2a.StateInputRequired)}, Events: []store.Event{status("i")}, Delegation: changed}
	commit(t, s, c)
	if !c.After.Delegated {
		t.Error("the row after the change says nothing of the delegation")
	}
	want := *d
	want.State, want.Message, want.Number, want.Send, want.Attempts = a2a.StateInputRequired, "m-2", 5, store.SendAccepted, 1
	want.RemoteTask, want.RemoteContext, want.RemoteState, want.RemoteDigest, want.Seen = "", "", 0, "", time.Time{}
	want.Channel, want.Error, want.Interface, want.CardDigest, want.Token, want.Secret, want.Push, want.Recalled = 0, "", "", "", nil, nil, "", false
	got, err := s.Delegation(ctx, ann, "t")
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("changed: %s%v", diff, err)
	}

	plain := insert(t, s, task("plain", a2a.StateWorking))
	_, err = s.Delegation(ctx, node, "plain")
	wantError(t, "a task that is none", err, store.ErrNotFound)
	wantError(t, "a change of one that is none", s.Commit(ctx, &store.Change{Task: plain.Key, Delegation: changed}), store.ErrNotFound)
	wantError(t, "one of no task", s.Commit(ctx, &store.Change{Delegation: changed}), store.ErrNotFound)

	move(t, s, row.Key, a2a.StateCompleted)
	if err := s.Delete(ctx, ann, "t"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Delegation(ctx, node, "t")
	wantError(t, "a deleted one", err, store.ErrNotFound)
	if page, err := s.Delegations(ctx, node, store.DelegationQuery{PageSize: 9}); err != nil || len(page.Items) != 0 {
		t.Errorf("after it was deleted: %+v, %v", page, err)
	}
	over := task("over", a2a.StateCompleted)
	over.Expires = past
	delegate(t, s, over, delegation("erp", ""))
	if n, err := s.Expire(ctx, 9); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	if page, err := s.Delegations(ctx, node, store.DelegationQuery{PageSize: 9}); err != nil || len(page.Items) != 0 {
		t.Errorf("after it expired: %+v, %v", page, err)
	}
}

func testDelegationPages(t *testing.T, s store.Store) {
	ctx := t.Context()
	var all, open, erp, rooted, referred, failed []string
	for i := range 20 {
		row := task(name("t", i), []a2a.TaskState{a2a.StateWorking, a2a.StateFailed, a2a.StateInputRequired}[i%3])
		d := delegation([]string{"erp", "bank"}[i%2], fmt.Sprint("order-", i%5))
		d.Root = fmt.Sprint("root-", i%4)
		commit(t, s, &store.Change{Insert: row, Events: []store.Event{status("s")}, Delegation: d, Again: true})
		into := func(list *[]string, is bool) {
			if is {
				*list = append([]string{row.ID}, *list...)
			}
		}
		into(&all, true)
		into(&open, i%3 != 1)
		into(&erp, i%2 == 0)
		into(&rooted, i%4 == 3)
		into(&referred, i%5 == 2)
		into(&failed, i%3 == 1)
	}
	other := task("other", a2a.StateWorking)
	other.Owner = "bob"
	delegate(t, s, other, delegation("erp", "order-1"))
	for _, scope := range []store.Scope{ann, store.ForTenant("acme"), node} {
		for i, tt := range []struct {
			q    store.DelegationQuery
			want []string
		}{
			{store.DelegationQuery{}, all},
			{store.DelegationQuery{Open: true}, open},
			{store.DelegationQuery{Peer: "erp"}, erp},
			{store.DelegationQuery{Root: "root-3"}, rooted},
			{store.DelegationQuery{Ref: "order-2"}, referred},
			{store.DelegationQuery{State: a2a.StateFailed}, failed},
			{store.DelegationQuery{Peer: "bank", Ref: "order-2", Root: "root-3", State: a2a.StateFailed, Open: true}, nil},
		} {
			var got []string
			for q := tt.q; ; {
				q.PageSize = 3
				page, err := s.Delegations(ctx, scope, q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Items) > 3 {
					t.Errorf("a page of %d", len(page.Items))
				}
				for _, d := range page.Items {
					if d.Owner == "ann" {
						got = append(got, d.Task)
					}
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("query %d in the scope %+v: %s", i, scope, diff)
			}
		}
	}
	page, err := s.Delegations(ctx, ann, store.DelegationQuery{PageSize: 1})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	for _, cursor := range []string{"x", page.Next[1:], page.Next + "A"} {
		_, err = s.Delegations(ctx, ann, store.DelegationQuery{PageSize: 1, Cursor: cursor})
		wantError(t, "a bad cursor", err, store.ErrBadCursor)
	}
	_, err = s.Delegations(ctx, node, store.DelegationQuery{PageSize: 1, Cursor: page.Next})
	wantError(t, "the cursor of another scope", err, store.ErrBadCursor)
	_, err = s.Delegations(ctx, ann, store.DelegationQuery{PageSize: 1, Open: true, Cursor: page.Next})
	wantError(t, "the cursor of another query", err, store.ErrBadCursor)
}

func testDelegationRefs(t *testing.T, s store.Store) {
	ctx := t.Context()
	first := task("first", a2a.StateWorking)
	delegate(t, s, first, delegation("erp", "order-1"))
	try := func(id, owner, peer string, again bool) error {
		row := task(id, a2a.StateWorking)
		row.Owner = owner
		return s.Commit(ctx, &store.Change{Insert: row, Events: []store.Event{status("s")}, Delegation: delegation(peer, "order-1"), Again: again})
	}
	taken, ok := errors.AsType[*store.RefTakenError](try("second", "ann", "erp", false))
	if !ok || taken.Task != "first" || taken.Ref != "order-1" {
		t.Errorf("a reference that is taken: %+v", taken)
	}
	if _, err := s.Task(ctx, node, "second"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its task: %v", err)
	}
	for _, err := range []error{try("bob", "bob", "erp", false), try("bank", "ann", "bank", false), try("again", "ann", "erp", true)} {
		if err != nil {
			t.Error(err)
		}
	}
	for i := range 2 {
		delegate(t, s, task(name("unnamed", i), a2a.StateWorking), delegation("erp", ""))
	}
	move(t, s, first.Key, a2a.StateFailed)
	if taken, ok := errors.AsType[*store.RefTakenError](try("third", "ann", "erp", false)); !ok || taken.Task != "again" {
		t.Errorf("a reference that the one beside it has: %+v", taken)
	}
	again, err := s.Task(ctx, node, "again")
	if err != nil {
		t.Fatal(err)
	}
	move(t, s, again.Key, a2a.StateCanceled)
	var made atomic.Int32
	atOnce(8, func(i int) {
		switch err := try(name("race", i), "ann", "erp", false); {
		case err == nil:
			made.Add(1)
		default:
			if taken, ok := errors.AsType[*store.RefTakenError](err); !ok || taken.Task == "" {
				t.Errorf("lost a race with %v", err)
			}
		}
	})
	if made.Load() != 1 {
		t.Errorf("%d delegations have the reference", made.Load())
	}
}

func testChildren(t *testing.T, s store.Store) {
	ctx := t.Context()
	var keys []int64
	for i := range 3 {
		row := task(name("child", i), a2a.StateWorking)
		delegate(t, s, row, delegation("erp", ""))
		keys = append(keys, row.Key)
	}
	stranger := delegation("erp", "")
	stranger.Parent = ""
	delegate(t, s, task("stranger", a2a.StateWorking), stranger)
	move(t, s, keys[0], a2a.StateInputRequired)
	move(t, s, keys[1], a2a.StateCompleted)
	got, err := s.Children(ctx, "parent")
	if diff := cmp.Diff([]string{"child-0000", "child-0002"}, got); diff != "" || err != nil {
		t.Errorf("children: %s%v", diff, err)
	}
	for _, parent := range []string{"none", ""} {
		if got, err := s.Children(ctx, parent); len(got) != 0 || err != nil {
			t.Errorf("children of %q: %v, %v", parent, got, err)
		}
	}
}

// peer returns a row with a value in every field.
func peer(name string) *store.Peer {
	return &store.Peer{
		Name: name, Added: []byte("old-key-added"), Pinned: "p", Card: []byte(`{"name":"é"}`), Digest: "d", Held: []byte(`{}`),
		Tokens: []byte("new-key-tokens"), Facts: []byte(`{"a":1}`), Seen: past,
	}
}

func testPeers(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Peer(ctx, "erp")
	wantError(t, "an unknown peer", err, store.ErrNotFound)
	wantError(t, "deleting an unknown peer", s.DeletePeer(ctx, "erp"), store.ErrNotFound)
	unknown := peer("erp")
	unknown.Version = 1
	wantError(t, "a change of an unknown peer", s.SavePeer(ctx, unknown), store.ErrConflict)
	p, bare := peer("erp"), &store.Peer{Name: "bank"}
	for _, p := range []*store.Peer{p, bare} {
		if err := s.SavePeer(ctx, p); err != nil || p.Version != 1 {
			t.Fatalf("version %d, %v", p.Version, err)
		}
	}
	wantError(t, "a peer that is there", s.SavePeer(ctx, peer("erp")), store.ErrConflict)
	same := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	got, err := s.Peer(ctx, "erp")
	if err != nil {
		t.Fatal(err)
	}
	same("a peer", got, p)
	var won atomic.Int32
	atOnce(4, func(i int) {
		change := *p
		change.Held, change.Pinned = nil, name("pin", i)
		switch err := s.SavePeer(ctx, &change); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, store.ErrConflict):
			t.Error(err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d changes of one version", won.Load())
	}
	got, err = s.Peer(ctx, "erp")
	if err != nil || got.Version != 2 || got.Held != nil {
		t.Errorf("changed: %+v, %v", got, err)
	}
	list, err := s.Peers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same("all", list, []store.Peer{*bare, *got})
	if err := s.DeletePeer(ctx, "erp"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Peer(ctx, "erp")
	wantError(t, "a deleted peer", err, store.ErrNotFound)
}
