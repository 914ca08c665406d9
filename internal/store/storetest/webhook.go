package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func hook(id string) *store.Webhook {
	return &store.Webhook{ID: id, URL: "https://hooks.example/" + id, Scheme: "Bearer", Secrets: []byte{1, 2, 3}}
}

// hooked inserts a task with a webhook that has everything behind it.
func hooked(t *testing.T, s store.Store, id string) *store.Task {
	t.Helper()
	row := task(id, a2a.StateWorking)
	insert(t, s, row)
	commit(t, s, &store.Change{Task: row.Key, Webhook: hook("h")})
	return row
}

// claimPush claims the one job of a webhook that has to be there.
func claimPush(t *testing.T, s store.Store, task string) *store.Job {
	t.Helper()
	jobs, err := s.Jobs(t.Context(), 100, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 || jobs[0].Kind != store.JobPush || jobs[0].Task != task {
		t.Fatalf("got the jobs %+v, want one to push events of %s", jobs, task)
	}
	return &jobs[0]
}

func noJobs(t *testing.T, s store.Store) {
	t.Helper()
	if next, err := s.NextJob(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("a job is due at %v, %v", next, err)
	}
}

func deliver(t *testing.T, s store.Store, d *store.Delivery) bool {
	t.Helper()
	left, err := s.Deliver(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func testWebhooks(t *testing.T, s store.Store) {
	ctx := t.Context()
	row := task("t", a2a.StateWorking)
	first := hook("b")
	c := &store.Change{Insert: row, Events: []store.Event{message("m"), status("1"), status("2")}, Webhook: first}
	first.Seq = 2
	commit(t, s, c)
	if c.Insert.Webhooks != 1 || c.Woken == 0 {
		t.Errorf("the task has %d webhooks, and %d jobs", c.Insert.Webhooks, c.Woken)
	}
	c = &store.Change{Task: row.Key, Webhook: &store.Webhook{ID: "a", URL: "http://x", Version: "0.3"}}
	commit(t, s, c)
	if c.After.Webhooks != 2 || c.Woken != 0 {
		t.Errorf("the task has %d webhooks, and %d new jobs", c.After.Webhooks, c.Woken)
	}
	hooks, err := s.Webhooks(ctx, ann, "t")
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Webhook{
		{ID: "a", URL: "http://x", Version: "0.3", Seq: 3, TaskKey: row.Key, Task: "t", Agent: echo, Tenant: "acme", Owner: "ann", Events: 3},
		{
			ID: "b", URL: "https://hooks.example/b", Scheme: "Bearer", Secrets: []byte{1, 2, 3}, Seq: 2,
			TaskKey: row.Key, Task: "t", Agent: echo, Tenant: "acme", Owner: "ann", Events: 3,
		},
	}
	for i := range hooks {
		if hooks[i].Created.IsZero() {
			t.Errorf("webhook %s has no time", hooks[i].ID)
		}
		hooks[i].Created = time.Time{}
	}
	if diff := cmp.Diff(want, hooks); diff != "" {
		t.Error(diff)
	}
	for scope, found := range map[store.Scope]bool{
		ann: true, node: true, store.ForTenant("acme"): true,
		{}: false, store.ForOwner("acme", "bob"): false, store.ForTenant("other"): false,
	} {
		_, err := s.Webhook(ctx, scope, "t", "a")
		_, errs := s.Webhooks(ctx, scope, "t")
		if found != (err == nil) || found != (errs == nil) || !found && (!errors.Is(err, store.ErrNotFound) || !errors.Is(errs, store.ErrNotFound)) {
			t.Errorf("in the scope %+v: %v, %v", scope, err, errs)
		}
	}
	if err := s.DeleteWebhook(ctx, store.ForOwner("acme", "bob"), "t", "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("bob removes ann's webhook: %v", err)
	}
	for range 2 {
		if err := s.DeleteWebhook(ctx, ann, "t", "b"); err != nil {
			t.Error(err)
		}
	}
	noJobs(t, s)
	if got, err := s.Task(ctx, ann, "t"); err != nil || got.Webhooks != 1 {
		t.Errorf("the task has %d webhooks, %v", got.Webhooks, err)
	}
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{status("3")}})
	move(t, s, row.Key, a2a.StateCompleted)
	if err := s.Delete(ctx, ann, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Webhook(ctx, node, "t", "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the webhook of a removed task: %v", err)
	}
	noJobs(t, s)
}

func testWebhookWakes(t *testing.T, s store.Store) {
	row := hooked(t, s, "t")
	noJobs(t, s)
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{message("not sent")}})
	noJobs(t, s)
	c := &store.Change{Task: row.Key, Events: []store.Event{artifact("1")}}
	commit(t, s, c)
	if c.Woken == 0 {
		t.Error("no job came of an event")
	}
	job := claimPush(t, s, "t")
	if job.Key != "h" || job.Attempt != 1 {
		t.Errorf("the job is %+v", job)
	}
	// It is at work: nobody else is woken.
	c = &store.Change{Task: row.Key, Events: []store.Event{artifact("2")}}
	commit(t, s, c)
	if c.Woken != 0 {
		t.Errorf("%d jobs beside the one that is at work", c.Woken)
	}
	seq := c.Events[0].Seq
	d := &store.Delivery{Job: job.ID, Attempt: job.Attempt, Task: row.Key, Webhook: "h", Outcome: store.Delivered, Seq: seq - 1}
	if !deliver(t, s, d) {
		t.Error("it is told that nothing is left")
	}
	d.Seq = seq
	d.Outcome = store.DeliverOn
	deliver(t, s, d)
	d.Outcome = store.Delivered
	if deliver(t, s, d) {
		t.Error("it is told that something is left")
	}
	noJobs(t, s)
	if h, err := s.Webhook(t.Context(), node, "t", "h"); err != nil || h.Seq != seq || h.Events != seq {
		t.Errorf("the webhook is %+v, %v", h, err)
	}
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("3")}})
	claimPush(t, s, "t")
}

func testWebhookReplaced(t *testing.T, s store.Store) {
	row := hooked(t, s, "t")
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("1")}})
	job := claimPush(t, s, "t")
	deliver(t, s, &store.Delivery{Job: job.ID, Attempt: 1, Task: row.Key, Webhook: "h", Outcome: store.DeliverAgain, Stuck: 3, Error: "no", Wait: time.Hour})
	before, err := s.Webhook(t.Context(), node, "t", "h")
	if err != nil || before.Failures != 1 || before.Stuck != 3 || before.Error != "no" || before.Failing.IsZero() {
		t.Fatalf("the webhook is %+v, %v", before, err)
	}
	c := &store.Change{Task: row.Key, Webhook: &store.Webhook{ID: "h", URL: "https://other.example", Version: "0.3"}, MaxWebhooks: 1}
	commit(t, s, c)
	if c.Woken == 0 || c.After.Webhooks != 1 {
		t.Errorf("%d jobs, %d webhooks", c.Woken, c.After.Webhooks)
	}
	after, err := s.Webhook(t.Context(), node, "t", "h")
	if err != nil {
		t.Fatal(err)
	}
	want := *before
	want.URL, want.Scheme, want.Secrets, want.Failures, want.Failing, want.Stuck, want.Error = "https://other.example", "", nil, 0, time.Time{}, 0, ""
	want.Version = "0.3"
	if diff := cmp.Diff(&want, after); diff != "" {
		t.Error(diff)
	}
	_, err = s.Deliver(t.Context(), &store.Delivery{Job: job.ID, Attempt: 1, Task: row.Key, Webhook: "h", Outcome: store.DeliverOn, Seq: 3})
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("a delivery to the old address counts: %v", err)
	}
	claimPush(t, s, "t")
}

func testWebhookLimit(t *testing.T, s store.Store) {
	row := hooked(t, s, "t")
	var group sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range 12 {
		group.Go(func() {
			err := s.Commit(t.Context(), &store.Change{Task: row.Key, Webhook: hook(fmt.Sprint(i)), MaxWebhooks: 4})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case !errors.Is(err, store.ErrLimit):
				t.Error(err)
			}
		})
	}
	group.Wait()
	hooks, err := s.Webhooks(t.Context(), ann, "t")
	if err != nil || made != 3 || len(hooks) != 4 {
		t.Errorf("%d were made, there are %d, %v", made, len(hooks), err)
	}
	if err := s.Commit(t.Context(), &store.Change{Webhook: hook("x")}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a webhook of no task: %v", err)
	}
	fresh := task("u", a2a.StateWorking)
	fresh.Webhooks = 0
	commit(t, s, &store.Change{Insert: fresh, Events: []store.Event{status("1")}, Webhook: hook("x"), MaxWebhooks: 1})
}

func testWebhookDead(t *testing.T, s store.Store) {
	ctx := t.Context()
	tasks := map[string]*store.Task{}
	for _, id := range []string{"t1", "t2"} {
		row := hooked(t, s, id)
		tasks[id] = row
		commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("1"), artifact("2")}})
		job := claimPush(t, s, id)
		d := &store.Delivery{Job: job.ID, Attempt: 1, Task: row.Key, Webhook: "h", Outcome: store.DeliverAgain, Stuck: row.Seq + 1, Error: "HTTP 500"}
		deliver(t, s, d)
		stats, err := s.WebhookStats(ctx)
		if err != nil || stats.Retrying != 1 || stats.Oldest.IsZero() {
			t.Errorf("stats %+v, %v", stats, err)
		}
		job = claimPush(t, s, id)
		d.Attempt, d.Outcome, d.Error = job.Attempt, store.DeliverNever, "HTTP 400"
		deliver(t, s, d)
		noJobs(t, s)
		commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("3")}})
		noJobs(t, s)
	}
	if stats, err := s.WebhookStats(ctx); err != nil || stats != (store.WebhookStats{Dead: 2}) {
		t.Errorf("stats %+v, %v", stats, err)
	}
	var seen []string
	var after *store.Webhook
	for {
		page, err := s.DeadWebhooks(ctx, store.ForTenant("acme"), after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = &page[0]
		if after.Failures != 2 || after.Error != "HTTP 400" || after.Dead.IsZero() || after.Stuck == 0 {
			t.Errorf("a dead letter is %+v", after)
		}
		seen = append(seen, after.Task)
	}
	if diff := cmp.Diff([]string{"t1", "t2"}, seen); diff != "" {
		t.Error(diff)
	}
	if none, err := s.DeadWebhooks(ctx, store.ForOwner("acme", "bob"), nil, 9); err != nil || len(none) > 0 {
		t.Errorf("bob sees %v, %v", none, err)
	}
	if err := s.ReviveWebhook(ctx, store.ForTenant("other"), "t1", "h", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a stranger revives: %v", err)
	}
	for id, skip := range map[string]bool{"t1": false, "t2": true} {
		before, err := s.Webhook(ctx, node, id, "h")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReviveWebhook(ctx, node, id, "h", skip); err != nil {
			t.Fatal(err)
		}
		if err := s.ReviveWebhook(ctx, node, id, "h", skip); !errors.Is(err, store.ErrConflict) {
			t.Errorf("revived twice: %v", err)
		}
		want := before.Seq
		if skip {
			want = before.Stuck
		}
		if h, err := s.Webhook(ctx, node, id, "h"); err != nil || h.Seq != want || !h.Dead.IsZero() || h.Failures != 0 {
			t.Errorf("revived it is %+v, %v", h, err)
		}
		job := claimPush(t, s, id)
		deliver(t, s, &store.Delivery{Job: job.ID, Attempt: job.Attempt, Task: tasks[id].Key, Webhook: "h", Outcome: store.Delivered, Seq: before.Events})
		noJobs(t, s)
	}
}

func testWebhookGone(t *testing.T, s store.Store) {
	row := hooked(t, s, "t")
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("1")}})
	job := claimPush(t, s, "t")
	deliver(t, s, &store.Delivery{Job: job.ID, Attempt: 1, Task: row.Key, Webhook: "h", Outcome: store.DeliverGone})
	noJobs(t, s)
	c := &store.Change{Task: row.Key, Events: []store.Event{artifact("2")}}
	commit(t, s, c)
	if hooks, err := s.Webhooks(t.Context(), ann, "t"); err != nil || len(hooks) != 0 || c.After.Webhooks != 0 {
		t.Errorf("there is still %v, %d, %v", hooks, c.After.Webhooks, err)
	}
	noJobs(t, s)
}

func testWebhookFences(t *testing.T, s store.Store) {
	row := hooked(t, s, "t")
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{artifact("1")}})
	put := claimPush(t, s, "t")
	deliver(t, s, &store.Delivery{Job: put.ID, Attempt: put.Attempt, Task: row.Key, Webhook: "h", Outcome: store.DeliverLater})
	if err := s.HoldJob(t.Context(), put.ID, put.Attempt, time.Hour); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a claim that was given up is held: %v", err)
	}
	jobs, err := s.Jobs(t.Context(), 9, 0)
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	old := jobs[0]
	if err := s.HoldJob(t.Context(), old.ID, old.Attempt, 0); err != nil {
		t.Error(err)
	}
	claimPush(t, s, "t") // by another node
	if err := s.HoldJob(t.Context(), old.ID, old.Attempt, time.Hour); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a lost claim is held: %v", err)
	}
	for outcome := store.DeliverOn; outcome <= store.DeliverGone; outcome++ {
		_, err := s.Deliver(t.Context(), &store.Delivery{Job: old.ID, Attempt: old.Attempt, Task: row.Key, Webhook: "h", Outcome: outcome, Seq: 9, Stuck: 9})
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("outcome %d under a lost claim: %v", outcome, err)
		}
	}
	if h, err := s.Webhook(t.Context(), node, "t", "h"); err != nil || h.Seq != row.Seq || h.Failures != 0 {
		t.Errorf("the webhook is %+v, %v", h, err)
	}
}

// testWebhookLosesNothing ends the job of a webhook while events are committed:
// no event may be left without a job.
func testWebhookLosesNothing(t *testing.T, s store.Store) {
	const events = 60
	row := hooked(t, s, "t")
	base := row.Seq
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range events {
			if err := s.Commit(context.Background(), &store.Change{Task: row.Key, Events: []store.Event{artifact(fmt.Sprint(i))}}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	sent := base
	for sent < base+events {
		if t.Failed() || t.Context().Err() != nil {
			break
		}
		jobs, err := s.Jobs(t.Context(), 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			select {
			case <-done:
				row, err := s.Task(t.Context(), node, "t")
				h, herr := s.Webhook(t.Context(), node, "t", "h")
				if next, nerr := s.NextJob(t.Context()); err == nil && herr == nil && nerr == nil && next.IsZero() && h.Seq < row.Seq {
					t.Fatalf("%d of %d events were sent, and there is no job", h.Seq-base, row.Seq-base)
				}
			default:
			}
			continue
		}
		for left := true; left; {
			row, err := s.Task(t.Context(), node, "t")
			if err != nil {
				t.Fatal(err)
			}
			sent = row.Seq
			left = deliver(t, s, &store.Delivery{Job: jobs[0].ID, Attempt: jobs[0].Attempt, Task: row.Key, Webhook: "h", Outcome: store.Delivered, Seq: sent})
		}
	}
	<-done
	noJobs(t, s)
}
