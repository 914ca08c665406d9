package storetest

import (
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Tour calls each method of a store once or more, for tests that look at what
// a driver does below.
func Tour(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	epoch, err := s.Join(ctx, store.Node{Name: "n"}, time.Hour)
	check(err)
	check(s.Renew(ctx, epoch, time.Hour))
	check(s.Announce(ctx, epoch, map[string]string{"agents": "1"}))
	_, err = s.Nodes(ctx)
	check(err)
	_, err = s.Cluster(ctx)
	check(err)
	open := claim("open")
	open.Lease = epoch
	commit(t, s, &store.Change{Claim: open})
	over := task("over", a2a.StateCompleted)
	over.Expires = past
	furnish(t, s, over)
	row := task("t", a2a.StateWorking)
	row.Lease = epoch
	furnish(t, s, row)
	open.Task = "t"
	commit(t, s, &store.Change{Task: row.Key, Settle: open, Events: []store.Event{message("m"), artifact("a")}})
	move(t, s, row.Key, a2a.StateInputRequired)
	commit(t, s, &store.Change{Task: row.Key, Decide: &store.Grant{ID: "grant-t"}})
	for _, scope := range []store.Scope{ann, store.ForTenant("acme"), node, {}} {
		for _, find := range []func() error{
			func() error { _, err := s.Task(ctx, scope, "t"); return err },
			func() error {
				_, err := s.Read(ctx, scope, "t", store.Want{Messages: 1, Artifacts: true, UpTo: 2})
				return err
			},
			func() error { _, err := s.Claim(ctx, scope, echo, "open"); return err },
			func() error { _, err := s.Grant(ctx, scope, "grant-t"); return err },
		} {
			if err := find(); (err == nil) != scope.Includes("acme", "ann") {
				t.Errorf("in the scope %+v: %v", scope, err)
			}
		}
		_, err := s.Tasks(ctx, scope, []string{"t", "none", "over"})
		check(err)
		_, err = s.Grants(ctx, scope, 5)
		check(err)
		_, err = s.List(ctx, scope, store.ListQuery{PageSize: 1})
		check(err)
	}
	_, err = s.Events(ctx, row.Key, 0, 1<<20)
	check(err)
	_, err = s.Messages(ctx, row.Key, 1)
	check(err)
	_, err = s.Private(ctx, row.Key)
	check(err)
	_, err = s.Result(ctx, row.Key, "r")
	check(err)
	jobs, err := s.Jobs(ctx, 9, time.Hour)
	check(err)
	for _, job := range jobs {
		commit(t, s, &store.Change{Finish: job.ID})
	}
	_, err = s.NextJob(ctx)
	check(err)
	_, err = s.Orphans(ctx, 9)
	check(err)
	keys := store.APIKeys(s)
	check(keys.CreateKey(ctx, apiKey("k", 1)))
	_, err = keys.Key(ctx, "k")
	check(err)
	_, err = keys.Keys(ctx)
	check(err)
	check(keys.UseKey(ctx, "k", time.UnixMilli(5)))
	check(keys.RevokeKey(ctx, "k", time.UnixMilli(5)))
	tourAudit(t, s)
	for _, agent := range []string{"", echo} {
		_, err = s.Load(ctx, "", "ann", agent)
		check(err)
	}
	tourDelegations(t, s)
	tourInbox(t, s)
	tourScans(t, s)
	_, err = s.Stats(ctx, time.Time{})
	check(err)
	_, err = s.Expire(ctx, 9)
	check(err)
	check(s.Ping(ctx))
	move(t, s, row.Key, a2a.StateCompleted)
	check(s.Delete(ctx, ann, "t"))
	insert(t, s, task("rest", a2a.StateWorking))
	check(s.Leave(ctx, epoch))
}

// tourDelegations calls what keeps delegations and peers.
func tourDelegations(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	row := task("delegated", a2a.StateWorking)
	delegate(t, s, row, delegation("erp", "order-1"))
	commit(t, s, &store.Change{Task: row.Key, Delegation: delegation("erp", "order-1")})
	for _, scope := range []store.Scope{ann, store.ForTenant("acme"), node} {
		_, err := s.Delegation(ctx, scope, "delegated")
		check(err)
		for _, q := range []store.DelegationQuery{
			{},
			{Open: true},
			{Peer: "erp"},
			{Peer: "erp", Open: true},
			{Root: "root"},
			{Ref: "order-1"},
			{Ref: "order-1", Peer: "erp", Open: true, Root: "root"},
			{State: a2a.StateWorking},
		} {
			q.PageSize = 1
			_, err := s.Delegations(ctx, scope, q)
			check(err)
		}
	}
	_, err := s.Children(ctx, "parent")
	check(err)
	p := peer("erp")
	check(s.SavePeer(ctx, p))
	check(s.SavePeer(ctx, p))
	_, err = s.Peer(ctx, "erp")
	check(err)
	_, err = s.Peers(ctx)
	check(err)
	check(s.DeletePeer(ctx, "erp"))
	d := doc("k", "ann")
	check(s.PutDoc(ctx, d))
	check(s.PutDoc(ctx, d))
	_, err = s.Spend(ctx, "budget", "k", 1, 9, time.Now().Add(time.Hour))
	check(err)
	for _, scope := range []store.Scope{node, store.ForTenant("acme"), ann} {
		_, err = s.Doc(ctx, scope, "notes", "k")
		check(err)
		_, err = s.Docs(ctx, scope, "notes", "", "", 9)
		check(err)
	}
	check(s.DeleteDoc(ctx, ann, "notes", "k"))
	move(t, s, row.Key, a2a.StateCompleted)
	check(s.Delete(ctx, ann, "delegated"))
}

// tourInbox calls what keeps the inbox.
func tourInbox(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	row := stalled(t, s, "stalled", question("first"))
	for _, scope := range []store.Scope{ann, store.ForTenant("acme"), node} {
		_, err := s.InboxItem(ctx, scope, "first")
		check(err)
		_, err = s.InboxHistory(ctx, scope, "first")
		check(err)
		for _, q := range []store.InboxQuery{
			{},
			{Settled: true},
			{Task: "stalled"},
			{Task: "stalled", Settled: true},
			{Assignee: "bob"},
			{Assignee: "bob", Kind: store.InboxQuestion, DueBy: future},
		} {
			q.PageSize = 1
			_, err := s.InboxItems(ctx, scope, q)
			check(err)
		}
	}
	check(s.UpdateInbox(ctx, ann, &store.InboxUpdate{ID: "first", Due: &future, Entry: store.InboxEntry{What: "due"}}))
	commit(t, s, &store.Change{Task: row.Key, Settles: &store.InboxSettle{ID: "first"}, Item: question("second")})
	move(t, s, row.Key, a2a.StateCompleted)
	check(s.Delete(ctx, ann, "stalled"))
}
