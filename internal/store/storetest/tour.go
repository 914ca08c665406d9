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
