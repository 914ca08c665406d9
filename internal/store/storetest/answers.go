package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Fill gives an empty store some of everything that a store keeps: tasks of
// several callers in every state, turns that a node has begun and not ended,
// artifacts of many chunks, texts with U+0000, claims, grants and jobs. Its node
// is dead afterwards.
func Fill(t *testing.T, s store.Store) {
	t.Helper()
	epoch, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var rows []*store.Task
	for i := range 40 {
		row := task(name("fill", i), a2a.StateSubmitted)
		row.Owner = []string{"ann", "ben", "c\x00"}[i%3]
		row.Tenant = []string{"acme", "other"}[i%7/6]
		row.Agent = []string{echo, "agent\x00b"}[i%5/4]
		row.Context = name("context", i/4)
		row.Meta = []byte{0, 1, byte(i)}
		row.Lease = epoch
		furnishAs(t, s, row)
		rows = append(rows, row)
	}
	states := []a2a.TaskState{
		a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled,
		a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	// In another order than that in which they were made.
	for i := range rows {
		row := rows[i*7%len(rows)]
		if i%8 == 7 {
			continue // stays SUBMITTED
		}
		state := states[i%8]
		set := store.Set{State: &state, Done: ptr(2), Attempt: ptr(3), ReadAll: i%2 == 0}
		if state != a2a.StateWorking {
			set.Lease = ptr(int64(0))
		}
		if state.Terminal() {
			set.Expires = future
		}
		commit(t, s, &store.Change{
			Task: row.Key, Set: set, State: a2a.JSON(`"\u0000` + row.ID + `"`), Result: &store.Result{Key: "x\x00", Value: a2a.JSON(`{}`)},
			Events: []store.Event{artifact("\x00"), message("m\x00"), saying(state.String())},
		})
	}
	chunks := rows[3]
	for i := range 300 {
		commit(t, s, &store.Change{Task: chunks.Key, Events: []store.Event{artifact(fmt.Sprintf("%d %s", i, strings.Repeat("x", i%50*100)))}})
	}
	long := rows[5]
	commit(t, s, &store.Change{Task: long.Key, Events: []store.Event{message(strings.Repeat("long", 1<<20)), artifact("after")}})
	commit(t, s, &store.Change{Task: rows[6].Key, Decide: &store.Grant{ID: "grant-" + rows[6].ID, Approved: true, Note: "n\x00", Data: []byte{0, 9}, By: "ben"}})
	for _, id := range []string{"a", "b"} {
		if err := s.CreateKey(t.Context(), apiKey(id, 1_700_000_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	fillWebhooks(t, s, rows[9], rows[11])
	fillDelegations(t, s)
	if err := s.AppendAudit(t.Context(), auditRows(3)); err != nil {
		t.Fatal(err)
	}
	pending := claim("pending")
	pending.Lease = epoch
	commit(t, s, &store.Change{Claim: pending})
	replied := claim("replied")
	replied.Reply = []byte("reply\x00")
	commit(t, s, &store.Change{Claim: replied})
	move(t, s, rows[1].Key, a2a.StateCompleted)
	if err := s.Delete(t.Context(), node, rows[1].ID); err != nil { // its claim stays
		t.Fatal(err)
	}
	if jobs, err := s.Jobs(t.Context(), 3, -time.Hour); err != nil || len(jobs) != 3 {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	if err := s.Renew(t.Context(), epoch, -time.Second); err != nil { // has died
		t.Fatal(err)
	}
}

// fillWebhooks hangs webhooks on two tasks, one of which is given up. Jobs that
// are not theirs stay as they are.
func fillWebhooks(t *testing.T, s store.Store, live, dead *store.Task) {
	t.Helper()
	full := &store.Webhook{ID: "full", URL: "https://hooks.example/é?x=%00", Scheme: "Bearer", Secrets: []byte{0, 1}, Seq: 2}
	commit(t, s, &store.Change{Task: live.Key, Webhook: full, Events: []store.Event{artifact("pushed")}})
	commit(t, s, &store.Change{Task: live.Key, Webhook: &store.Webhook{ID: "bare", URL: "http://x", Version: "0.3"}})
	commit(t, s, &store.Change{Task: dead.Key, Webhook: hook("dead"), Events: []store.Event{artifact("pushed")}})
	job := store.Job{Kind: store.JobPush, Task: dead.ID, Key: "dead", Due: past.Add(-time.Hour)}
	commit(t, s, &store.Change{Jobs: []store.Job{job}}) // the first that is due
	jobs, err := s.Jobs(t.Context(), 1, time.Hour)
	if err != nil || len(jobs) != 1 || jobs[0].Key != "dead" {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	deliver(t, s, &store.Delivery{
		Job: jobs[0].ID, Attempt: 1, Task: dead.Key, Webhook: "dead", Outcome: store.DeliverNever, Stuck: dead.Seq + 1, Error: "HTTP status 400 é",
	})
}

// fillDelegations makes delegations, of which one is over, items of the inbox, of
// which one is settled, and peers. The tasks are older than the others.
func fillDelegations(t *testing.T, s store.Store) {
	t.Helper()
	putDocs(t, s, doc("a\x00", "ann"), &store.Doc{Space: "notes", Key: "b", Secret: []byte("old-key-doc")})
	if _, err := s.Spend(t.Context(), "budget", "k", 3, 9, future); err != nil {
		t.Fatal(err)
	}
	for id, ref := range map[string]string{"delegated": "order-\x00", "delegated-before": "order-2"} {
		state := a2a.StateWorking
		if ref == "order-2" {
			state = a2a.StateFailed
		}
		furnishAs(t, s, task(id, state), func(c *store.Change) { c.Delegation = delegation("erp", ref) })
	}
	furnishAs(t, s, task("again", a2a.StateWorking), func(c *store.Change) {
		c.Delegation, c.Again = delegation("erp", "order-\x00"), true
	})
	row := task("stalled", a2a.StateInputRequired)
	furnishAs(t, s, row, func(c *store.Change) { c.Item = question("settled") })
	commit(t, s, &store.Change{
		Task: row.Key, Settles: &store.InboxSettle{By: "ann", Decision: "answered", Words: "\x00"}, Item: question("open"), Events: []store.Event{saying("?")},
	})
	for _, p := range []*store.Peer{peer("erp"), {Name: "bare"}} {
		if err := s.SavePeer(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// furnishAs inserts a task with all that can belong to it, in the name of its
// caller.
func furnishAs(t *testing.T, s store.Store, row *store.Task, and ...func(c *store.Change)) {
	t.Helper()
	c := claim("claim-" + row.ID)
	c.Tenant, c.Owner, c.Agent, c.Task = row.Tenant, row.Owner, row.Agent, row.ID
	change := &store.Change{
		Insert: row, Events: []store.Event{message("m"), saying("w"), artifact("a"), status("s\x00")},
		Claim: c, State: a2a.JSON(`{}`), Result: &store.Result{Key: "r", Value: a2a.JSON(`1`)},
		Grant: &store.Grant{ID: "grant-" + row.ID, Task: row.ID, Turn: 1, Operation: "o\x00", Text: "é\x00", URL: "https://x/", Created: past},
		Jobs:  []store.Job{{Kind: "push", Task: row.ID, Turn: 1, Key: "j\x00", Due: past.Add(time.Duration(row.Key) * time.Second)}},
	}
	for _, more := range and {
		more(change)
	}
	commit(t, s, change)
}

// Answers are what a store that Fill has filled says to whatever it is asked.
// Epochs of nodes are Released in it. Unlike all else, its jobs are claimed.
type Answers struct {
	Lists    map[string][]store.Item
	Totals   map[string]int
	Items    map[string]store.Item
	Earlier  map[string]store.Item // as they were after two events
	Events   map[string][]store.Event
	Messages map[string][]store.Event
	Private  map[string]string
	Results  map[string]string
	Claims   map[string]store.Claim
	Grants   map[string]store.Grant
	Open     []store.Grant
	Orphans  map[string]store.Task
	Stats    map[store.Stat]bool
	Next     time.Time
	Jobs     []store.Job
	Keys     []store.APIKey
	Webhooks map[string][]store.Webhook // of the tasks that have any
	Dead     []store.Webhook
	Audit    []store.AuditRow // without ids

	Delegations []store.Delegation
	Inbox       []store.InboxItem
	History     map[string][]store.InboxEntry
	Peers       []store.Peer
	Docs        []store.Doc
	Spent       int64
}

// Diff says where the answers differ from those of another store, "" when they
// are the same.
func (a *Answers) Diff(other *Answers) string {
	return cmp.Diff(a, other, cmp.Comparer(func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }))
}

// Ask asks a store for all that Fill has put in.
func Ask(t *testing.T, s store.Store) *Answers {
	t.Helper()
	a := &Answers{
		Lists: map[string][]store.Item{}, Totals: map[string]int{}, Items: map[string]store.Item{}, Earlier: map[string]store.Item{},
		Events: map[string][]store.Event{}, Messages: map[string][]store.Event{}, Private: map[string]string{}, Results: map[string]string{},
		Claims: map[string]store.Claim{}, Grants: map[string]store.Grant{}, Orphans: map[string]store.Task{}, Stats: map[store.Stat]bool{},
	}
	a.list(t, s)
	for id := range a.Items {
		a.ask(t, s, id)
	}
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"pending", "replied", "claim-" + name("fill", 1)} {
		agent := echo
		c, err := s.Claim(ctx, node, agent, key)
		if err != nil {
			t.Fatalf("claim %s: %v", key, err)
		}
		a.Claims[key] = *c
	}
	var err error
	a.Open, err = s.Grants(ctx, node, 100)
	check(err)
	orphans, err := s.Orphans(ctx, 100)
	check(err)
	for _, row := range orphans {
		a.Orphans[row.ID] = released(row)
	}
	stats, err := s.Stats(ctx, future)
	check(err)
	for _, stat := range stats {
		a.Stats[stat] = true
	}
	a.Next, err = s.NextJob(ctx)
	check(err)
	a.Jobs, err = s.Jobs(ctx, 100, time.Hour)
	check(err)
	a.Keys, err = s.Keys(ctx)
	check(err)
	a.Dead, err = s.DeadWebhooks(ctx, node, nil, 100)
	check(err)
	a.Webhooks = map[string][]store.Webhook{}
	for id := range a.Items {
		hooks, err := s.Webhooks(ctx, node, id)
		check(err)
		if len(hooks) > 0 {
			a.Webhooks[id] = hooks
		}
	}
	if len(a.Webhooks) != 2 || len(a.Dead) != 1 {
		t.Errorf("%d tasks have webhooks, %d of which were given up", len(a.Webhooks), len(a.Dead))
	}
	a.Audit, err = s.Audit(ctx, store.AuditQuery{Limit: 100})
	check(err)
	for i := range a.Audit {
		a.Audit[i].ID = 0
	}
	delegations, err := s.Delegations(ctx, node, store.DelegationQuery{PageSize: 100})
	check(err)
	a.Delegations = delegations.Items
	a.History = map[string][]store.InboxEntry{}
	for _, settled := range []bool{false, true} {
		page, err := s.InboxItems(ctx, node, store.InboxQuery{PageSize: 100, Settled: settled})
		check(err)
		for _, item := range page.Items {
			a.Inbox = append(a.Inbox, item)
			a.History[item.ID], err = s.InboxHistory(ctx, node, item.ID)
			check(err)
		}
	}
	a.Peers, err = s.Peers(ctx)
	check(err)
	a.Docs, err = s.Docs(ctx, node, "notes", "", "", 100)
	check(err)
	a.Spent, err = s.Spend(ctx, "budget", "k", 0, 9, future)
	check(err)
	if len(a.Delegations) != 3 || len(a.Inbox) != 2 || len(a.History["settled"]) != 2 || len(a.Peers) != 2 || len(a.Docs) != 2 || a.Spent != 3 {
		t.Errorf("%d delegations, %d items with %v, %d peers, %d documents, %d spent", len(a.Delegations), len(a.Inbox), a.History, len(a.Peers), len(a.Docs), a.Spent)
	}
	return a
}

// released returns a row without the name of the node that it is leased by.
func released(row store.Task) store.Task {
	if row.Lease != 0 {
		row.Lease = store.Released
	}
	return row
}

func (a *Answers) list(t *testing.T, s store.Store) {
	t.Helper()
	want := store.Want{Messages: 50, Artifacts: true}
	scopes := map[string]store.Scope{"all": node, "acme": store.ForTenant("acme"), "ann": ann, "c": store.ForOwner("acme", "c\x00")}
	for who, scope := range scopes {
		for _, q := range []store.ListQuery{
			{},
			{Agent: echo},
			{Agent: "agent\x00b"},
			{Context: name("context", 2)},
			{State: a2a.StateWorking},
			{State: a2a.StateCompleted, Agent: echo},
		} {
			q.PageSize, q.Want = 7, want
			query := fmt.Sprintf("%s %q %q %v", who, q.Agent, q.Context, q.State)
			for {
				page, err := s.List(t.Context(), scope, q)
				if err != nil {
					t.Fatal(err)
				}
				a.Totals[query] = page.Total
				for _, item := range page.Items {
					item.Task = released(item.Task)
					a.Lists[query] = append(a.Lists[query], item)
					a.Items[item.ID] = store.Item{}
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
		}
	}
}

// ask asks for one task.
func (a *Answers) ask(t *testing.T, s store.Store, id string) {
	t.Helper()
	item := read(t, s, id, store.Want{Messages: 1000, Artifacts: true})
	item.Task = released(item.Task)
	a.Items[id] = *item
	earlier := read(t, s, id, store.Want{Messages: 1000, Artifacts: true, UpTo: 4})
	earlier.Task = released(earlier.Task)
	a.Earlier[id] = *earlier
	ctx := t.Context()
	for after := int64(0); ; {
		events, err := s.Events(ctx, item.Key, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		a.Events[id] = append(a.Events[id], events...)
		after = events[len(events)-1].Seq
	}
	messages, err := s.Messages(ctx, item.Key, 1)
	if err != nil {
		t.Fatal(err)
	}
	a.Messages[id] = messages
	private, err := s.Private(ctx, item.Key)
	if err != nil {
		t.Fatal(err)
	}
	a.Private[id] = string(private)
	for _, key := range []string{"r", "x\x00"} {
		result, err := s.Result(ctx, item.Key, key)
		if err != nil {
			t.Fatal(err)
		}
		a.Results[id+key] = string(result)
	}
	grant, err := s.Grant(ctx, node, "grant-"+id)
	if err != nil {
		t.Fatal(err)
	}
	a.Grants[id] = *grant
	c, err := s.Claim(ctx, store.ForOwner(item.Tenant, item.Owner), item.Agent, "claim-"+id)
	if err != nil {
		t.Fatal(err)
	}
	a.Claims[id] = *c
}

// GoOn uses a store that was filled by way of another: what is new comes behind
// what is there.
func GoOn(t *testing.T, s store.Store, filled *Answers) {
	t.Helper()
	ctx := t.Context()
	epoch, err := s.Join(ctx, store.Node{Name: "next"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if pending := filled.Claims["pending"]; epoch <= pending.Lease {
		t.Errorf("epoch %d is not after %d", epoch, pending.Lease)
	}
	again := claim("pending") // by the node that is no more
	again.Lease = epoch
	newest, latest := int64(0), time.Time{}
	for _, item := range filled.Items {
		newest = max(newest, item.Key)
		if item.StatusAt.After(latest) {
			latest = item.StatusAt
		}
	}
	row := task("new", a2a.StateWorking)
	c := commit(t, s, &store.Change{
		Insert: row, Events: []store.Event{status("new")}, Claim: again,
		Jobs: []store.Job{{Kind: "k", Task: "new", Key: "k", Due: past}},
	})
	if row.Key <= newest || c.At.Before(latest) {
		t.Errorf("a new task has key %d after %d, at %v after %v", row.Key, newest, c.At, latest)
	}
	for _, job := range filled.Jobs {
		if job.ID >= c.Jobs[0].ID {
			t.Errorf("job %d is newer than a new one, %d", job.ID, c.Jobs[0].ID)
		}
	}
	for id, orphan := range filled.Orphans {
		commit(t, s, &store.Change{
			Task: orphan.Key, Guard: store.Guard{Lease: ptr(store.Released)}, Set: store.Set{Lease: &epoch},
			Events: []store.Event{status("taken over")},
		})
		events, err := s.Events(ctx, orphan.Key, orphan.Seq, 1<<20)
		if err != nil || len(events) != 1 || events[0].Seq != orphan.Seq+1 {
			t.Errorf("events of %s after it was taken over: %v, %v", id, events, err)
		}
	}
	for ref, is := range map[string]bool{"order-\x00": true, "order-2": false} {
		err := s.Commit(ctx, &store.Change{Insert: task("of "+ref, a2a.StateWorking), Events: []store.Event{status("s")}, Delegation: delegation("erp", ref)})
		if _, taken := errors.AsType[*store.RefTakenError](err); taken != is || !taken && err != nil {
			t.Errorf("the reference %q: %v", ref, err)
		}
	}
	for id, item := range filled.Items {
		if item.State.Terminal() {
			if err := s.Delete(ctx, node, id); err != nil {
				t.Errorf("delete %s: %v", id, err)
			}
			filled.Totals["all \"\" \"\" "+a2a.TaskState(0).String()]--
		}
	}
	page, err := s.List(ctx, node, store.ListQuery{PageSize: len(filled.Orphans) + 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := filled.Totals["all \"\" \"\" "+a2a.TaskState(0).String()] + 2; page.Total != want {
		t.Errorf("total %d, want %d", page.Total, want)
	}
	for i, item := range page.Items[1:] { // behind the delegation
		if _, taken := filled.Orphans[item.ID]; taken != (i < len(filled.Orphans)) {
			t.Errorf("number %d of the list is %s", i, item.ID)
		}
	}
}
