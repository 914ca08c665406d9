package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Times that are over, and that are far away.
var (
	past   = time.UnixMilli(1_600_000_000_000).UTC()
	future = time.Now().Add(24 * time.Hour).Truncate(time.Millisecond).UTC()
)

func claim(key string) *store.Claim {
	return &store.Claim{Tenant: "acme", Owner: "ann", Agent: echo, Key: key, Hash: []byte{1, 2, 3}, Expires: future}
}

// wantDuplicate fails the test unless the error names that claim.
func wantDuplicate(t *testing.T, what string, err error, want *store.Claim) {
	t.Helper()
	duplicate, ok := errors.AsType[*store.DuplicateError](err)
	if !ok {
		t.Errorf("%s: got %v, want a duplicate", what, err)
		return
	}
	if diff := cmp.Diff(*want, duplicate.Claim); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testClaim(t *testing.T, s store.Store) {
	first := claim("k")
	first.Task = "t"
	commit(t, s, &store.Change{Insert: task("t", a2a.StateWorking), Events: []store.Event{status("s")}, Claim: first})
	got, err := s.Claim(t.Context(), ann, echo, "k")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	second := claim("k")
	second.Task, second.Hash = "u", []byte{9}
	err = s.Commit(t.Context(), &store.Change{Insert: task("u", a2a.StateWorking), Events: []store.Event{status("s")}, Claim: second})
	wantDuplicate(t, "second claim", err, first)
	_, err = s.Task(t.Context(), node, "u")
	wantError(t, "task of the second claim", err, store.ErrNotFound)

	for _, other := range []func(*store.Claim){
		func(c *store.Claim) { c.Tenant = "other" },
		func(c *store.Claim) { c.Owner = "bob" },
		func(c *store.Claim) { c.Agent = "other" },
		func(c *store.Claim) { c.Key = "l" },
	} {
		c := claim("k")
		c.Task = "v"
		other(c)
		commit(t, s, &store.Change{Claim: c})
	}

	answered := claim("reply")
	answered.Reply = []byte(`{"message":1}`)
	commit(t, s, &store.Change{Claim: answered})
	wantDuplicate(t, "claim of an answered message", s.Commit(t.Context(), &store.Change{Claim: claim("reply")}), answered)

	over := claim("over")
	over.Task, over.Expires = "t", past
	commit(t, s, &store.Change{Claim: over})
	_, err = s.Claim(t.Context(), ann, echo, "over")
	wantError(t, "claim that is over", err, store.ErrNotFound)
	again := claim("over")
	again.Task = "w"
	commit(t, s, &store.Change{Claim: again})
	if got, err := s.Claim(t.Context(), ann, echo, "over"); err != nil || got.Task != "w" {
		t.Errorf("claim in place of one that is over: %+v, %v", got, err)
	}
}

func testClaimTakeover(t *testing.T, s store.Store) {
	dead, err := s.Join(t.Context(), store.Node{Name: "dead"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := claim("k")
	first.Lease = dead
	if c := commit(t, s, &store.Change{Claim: first}); c.Abandoned {
		t.Error("a new claim is said to have been abandoned")
	}
	second := claim("k")
	second.Lease = dead
	wantDuplicate(t, "claim of a living node's message", s.Commit(t.Context(), &store.Change{Claim: second}), first)

	if err := s.Leave(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	alive, err := s.Join(t.Context(), store.Node{Name: "alive"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	third := claim("k")
	third.Lease, third.Hash = alive, []byte{3}
	wantDuplicate(t, "respectful claim of a dead node's message", s.Commit(t.Context(), &store.Change{Claim: third, Respect: true}), first)
	if c := commit(t, s, &store.Change{Claim: third}); !c.Abandoned {
		t.Error("the claim is not said to have been abandoned")
	}
	if got, err := s.Claim(t.Context(), ann, echo, "k"); err != nil || got.Lease != alive {
		t.Errorf("claim that was taken over: %+v, %v", got, err)
	}

	// A node whose lease has run out is as dead as one that has left.
	late, err := s.Join(t.Context(), store.Node{Name: "late"}, -time.Second)
	if err != nil {
		t.Fatal(err)
	}
	expired := claim("expired lease")
	expired.Lease = late
	commit(t, s, &store.Change{Claim: expired})
	commit(t, s, &store.Change{Claim: claim("expired lease")})

	// The node that was taken for dead cannot answer any more.
	answer := *first
	answer.Reply = []byte(`{}`)
	wantError(t, "late answer", s.Commit(t.Context(), &store.Change{Settle: &answer}), store.ErrConflict)
	if got, err := s.Claim(t.Context(), ann, echo, "k"); err != nil || got.Reply != nil {
		t.Errorf("claim after a late answer: %+v, %v", got, err)
	}
}

// testClaimOnce sends one message from many sides; one task comes of it.
func testClaimOnce(t *testing.T, s store.Store) {
	const n = 24
	errs := make([]error, n)
	atOnce(n, func(i int) {
		c := claim("k")
		c.Task = name("t", i)
		errs[i] = s.Commit(t.Context(), &store.Change{Insert: task(c.Task, a2a.StateWorking), Events: []store.Event{status("s")}, Claim: c})
	})
	won := ""
	for i, err := range errs {
		if err == nil {
			if won != "" {
				t.Errorf("both %s and %s were made", won, name("t", i))
			}
			won = name("t", i)
		}
	}
	for i, err := range errs {
		duplicate, ok := errors.AsType[*store.DuplicateError](err)
		if err != nil && (!ok || duplicate.Claim.Task != won) {
			t.Errorf("claim %d: %v, want a duplicate of %s", i, err, won)
		}
	}
	page, err := s.List(t.Context(), ann, store.ListQuery{Agent: echo, PageSize: 100})
	if err != nil || page.Total != 1 || len(page.Items) != 1 || page.Items[0].ID != won {
		t.Errorf("tasks: %+v, %v; want %s", page, err, won)
	}
}

func testSettle(t *testing.T, s store.Store) {
	epoch, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	open := claim("k")
	open.Lease = epoch
	commit(t, s, &store.Change{Claim: open})
	settled := *open
	settled.Task = "t"
	commit(t, s, &store.Change{Insert: task("t", a2a.StateWorking), Events: []store.Event{status("s")}, Settle: &settled})
	if got, err := s.Claim(t.Context(), ann, echo, "k"); err != nil || got.Task != "t" {
		t.Errorf("settled claim: %+v, %v", got, err)
	}

	replied := claim("r")
	replied.Lease = epoch
	commit(t, s, &store.Change{Claim: replied})
	answer := *replied
	answer.Reply = []byte(`{"m":1}`)
	commit(t, s, &store.Change{Settle: &answer})
	if err := s.Leave(t.Context(), epoch); err != nil {
		t.Fatal(err)
	}
	wantDuplicate(t, "claim of a settled message of a dead node", s.Commit(t.Context(), &store.Change{Claim: claim("r")}), &answer)

	given := claim("g")
	commit(t, s, &store.Change{Claim: given})
	commit(t, s, &store.Change{Settle: given})
	_, err = s.Claim(t.Context(), ann, echo, "g")
	wantError(t, "claim that was given up", err, store.ErrNotFound)

	unknown := claim("unknown")
	unknown.Task = "v"
	err = s.Commit(t.Context(), &store.Change{Insert: task("v", a2a.StateWorking), Events: []store.Event{status("s")}, Settle: unknown})
	wantError(t, "settling no claim", err, store.ErrConflict)
	_, err = s.Task(t.Context(), node, "v")
	wantError(t, "task that came with it", err, store.ErrNotFound)
}

func testPrivate(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking))
	other := insert(t, s, task("u", a2a.StateWorking))
	for _, want := range []string{`{"a":1}`, `{}`, `null`} {
		commit(t, s, &store.Change{Task: row.Key, State: a2a.JSON(want)})
		if got, err := s.Private(t.Context(), row.Key); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	commit(t, s, &store.Change{Task: row.Key, Events: []store.Event{status("s")}})
	if got, err := s.Private(t.Context(), row.Key); err != nil || string(got) != `null` {
		t.Errorf("got %s, %v; want it kept", got, err)
	}
	if got, err := s.Private(t.Context(), other.Key); err != nil || got != nil {
		t.Errorf("a task without: %s, %v", got, err)
	}
	c := commit(t, s, &store.Change{Insert: task("v", a2a.StateWorking), Events: []store.Event{status("s")}, State: a2a.JSON(`[1]`)})
	if got, err := s.Private(t.Context(), c.Insert.Key); err != nil || string(got) != `[1]` {
		t.Errorf("of a new task: %s, %v", got, err)
	}
}

func testResults(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateWorking))
	other := insert(t, s, task("u", a2a.StateWorking))
	commit(t, s, &store.Change{Task: row.Key, Result: &store.Result{Key: "a", Value: a2a.JSON(`1`)}})
	commit(t, s, &store.Change{Task: row.Key, Result: &store.Result{Key: "b", Value: a2a.JSON(`2`)}})
	for _, test := range []struct {
		task      int64
		key, want string
	}{{row.Key, "a", "1"}, {row.Key, "b", "2"}, {row.Key, "c", ""}, {other.Key, "a", ""}} {
		got, err := s.Result(t.Context(), test.task, test.key)
		if err != nil || string(got) != test.want || (got == nil) != (test.want == "") {
			t.Errorf("%d %s: %s, %v; want %s", test.task, test.key, got, err, test.want)
		}
	}
}

func testGrants(t *testing.T, s store.Store) {
	asking := task("t", a2a.StateAuthRequired)
	asking.Turn = 2
	row := insert(t, s, asking)
	var want []store.Grant
	for i, id := range []string{"second", "first", "third"} {
		g := store.Grant{
			ID: id, Task: "t", Turn: 2, Operation: "pay", Text: "May I?", URL: "https://example.com/",
			Created: past.Add(time.Duration([]int{2, 1, 3}[i]) * time.Minute), Expires: future,
		}
		commit(t, s, &store.Change{Task: row.Key, Grant: &g})
		want = append(want, g)
	}
	slices.SortFunc(want, func(a, b store.Grant) int { return a.Created.Compare(b.Created) })
	got, err := s.Grants(t.Context(), ann, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	if got, err := s.Grants(t.Context(), ann, 1); err != nil || len(got) != 1 || got[0].ID != "first" {
		t.Errorf("oldest grant: %v, %v", got, err)
	}

	decision := store.Grant{ID: "first", Approved: true, Note: "fine", Data: []byte("sealed"), By: "ann"}
	c := commit(t, s, &store.Change{Task: row.Key, Set: store.Set{State: ptr(a2a.StateWorking)}, Events: []store.Event{status("s")}, Decide: &decision})
	settled, err := s.Grant(t.Context(), ann, "first")
	if err != nil {
		t.Fatal(err)
	}
	after := want[0]
	after.Approved, after.Note, after.Data, after.By, after.Decided = true, "fine", []byte("sealed"), "ann", settled.Decided
	if diff := cmp.Diff(&after, settled); diff != "" {
		t.Errorf("decided grant (-want +got):\n%s", diff)
	}
	if since := c.At.Sub(settled.Decided).Abs(); since > time.Minute {
		t.Errorf("decided at %v, committed at %v", settled.Decided, c.At)
	}
	if got, err := s.Grants(t.Context(), ann, 10); err != nil || len(got) != 0 {
		t.Errorf("grants of a task that has gone on: %v, %v", got, err)
	}
	commit(t, s, &store.Change{Task: row.Key, Set: store.Set{State: ptr(a2a.StateAuthRequired)}, Events: []store.Event{status("s")}})
	if got, err := s.Grants(t.Context(), ann, 10); err != nil || len(got) != 2 {
		t.Errorf("undecided grants: %v, %v", got, err)
	}
	commit(t, s, &store.Change{Task: row.Key, Set: store.Set{Turn: ptr(3)}})
	if got, err := s.Grants(t.Context(), ann, 10); err != nil || len(got) != 0 {
		t.Errorf("grants of an earlier turn: %v, %v", got, err)
	}

	err = s.Commit(t.Context(), &store.Change{Task: row.Key, Events: []store.Event{status("x")}, Decide: &store.Grant{ID: "first", By: "bob"}})
	wantError(t, "second decision", err, store.ErrConflict)
	err = s.Commit(t.Context(), &store.Change{Task: row.Key, Events: []store.Event{status("x")}, Decide: &store.Grant{ID: "none"}})
	wantError(t, "decision of no grant", err, store.ErrNotFound)
	if got := read(t, s, "t", store.Want{}); got.Seq != 3 {
		t.Errorf("a decision that failed left the task at %d", got.Seq)
	}
}

func testGrantDecidedOnce(t *testing.T, s store.Store) {
	row := insert(t, s, task("t", a2a.StateAuthRequired))
	commit(t, s, &store.Change{Task: row.Key, Grant: &store.Grant{ID: "g", Task: "t", Created: past}})
	errs := make([]error, 16)
	atOnce(len(errs), func(i int) {
		errs[i] = s.Commit(t.Context(), &store.Change{
			Task: row.Key, Events: []store.Event{artifact("a")}, Decide: &store.Grant{ID: "g", Approved: i%2 == 0, By: name("by", i)},
		})
	})
	won := -1
	for i, err := range errs {
		if err == nil && won >= 0 {
			t.Errorf("both %d and %d decided", won, i)
		}
		if err == nil {
			won = i
		} else {
			wantError(t, "decision", err, store.ErrConflict)
		}
	}
	if won < 0 {
		t.Fatal("nobody decided")
	}
	g, err := s.Grant(t.Context(), ann, "g")
	if err != nil || g.By != name("by", won) || g.Approved != (won%2 == 0) {
		t.Errorf("grant %+v, %v; want that of %d", g, err, won)
	}
	if got := read(t, s, "t", store.Want{}); got.Seq != 2 {
		t.Errorf("task is at %d", got.Seq)
	}
}

func testJobs(t *testing.T, s store.Store) {
	if due, err := s.NextJob(t.Context()); err != nil || !due.IsZero() {
		t.Errorf("next of no jobs: %v, %v", due, err)
	}
	if jobs, err := s.Jobs(t.Context(), 10, time.Hour); err != nil || len(jobs) > 0 {
		t.Errorf("no jobs: %v, %v", jobs, err)
	}
	commit(t, s, &store.Change{
		Insert: task("t", a2a.StateWorking), Events: []store.Event{status("s")},
		Jobs: []store.Job{
			{Kind: "push", Task: "t", Turn: 3, Key: "b", Due: past.Add(2 * time.Minute)},
			{Kind: "push", Task: "t", Turn: 3, Key: "a", Due: past.Add(time.Minute)},
			{Kind: "wake", Task: "t", Turn: 3, Key: "a", Due: past.Add(3 * time.Minute)},
			{Kind: "push", Task: "t", Turn: 3, Key: "later", Due: future},
		},
	})
	if due, err := s.NextJob(t.Context()); err != nil || !due.Equal(past.Add(time.Minute)) {
		t.Errorf("next job: %v, %v", due, err)
	}
	two, err := s.Jobs(t.Context(), 2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys := func(jobs []store.Job) (out []string) {
		for _, j := range jobs {
			if j.ID == 0 || j.Task != "t" || j.Turn != 3 {
				t.Errorf("job %+v", j)
			}
			out = append(out, j.Kind+" "+j.Key)
		}
		return out
	}
	if got := keys(two); !slices.Equal(got, []string{"push a", "push b"}) {
		t.Errorf("first two: %v", got)
	}
	rest, err := s.Jobs(t.Context(), 10, -time.Hour) // is due again at once
	if err != nil || !slices.Equal(keys(rest), []string{"wake a"}) || rest[0].Attempt != 1 {
		t.Errorf("rest: %v, %v", rest, err)
	}
	again, err := s.Jobs(t.Context(), 10, time.Hour)
	if err != nil || !slices.Equal(keys(again), []string{"wake a"}) || again[0].Attempt != 2 {
		t.Errorf("again: %v, %v", again, err)
	}
	for _, j := range append(two, again...) {
		commit(t, s, &store.Change{Finish: j.ID})
	}
	if due, err := s.NextJob(t.Context()); err != nil || !due.Equal(future) {
		t.Errorf("next job after all: %v, %v", due, err)
	}
	commit(t, s, &store.Change{Finish: two[0].ID}) // done twice is done
}

// testJobReplaced puts a job while one of the same name is being done. The end
// of that one must not remove it.
func testJobReplaced(t *testing.T, s store.Store) {
	put := func(due time.Time) {
		commit(t, s, &store.Change{Jobs: []store.Job{{Kind: "push", Task: "t", Key: "hook", Due: due}}})
	}
	put(past)
	first, err := s.Jobs(t.Context(), 10, time.Hour)
	if err != nil || len(first) != 1 {
		t.Fatalf("first: %v, %v", first, err)
	}
	put(past.Add(time.Second))
	commit(t, s, &store.Change{Finish: first[0].ID})
	second, err := s.Jobs(t.Context(), 10, time.Hour)
	if err != nil || len(second) != 1 || second[0].Attempt != 1 {
		t.Fatalf("second: %v, %v", second, err)
	}
	put(future)
	put(past)
	if jobs, err := s.Jobs(t.Context(), 10, time.Hour); err != nil || len(jobs) != 1 {
		t.Errorf("put twice: %v, %v; want one", jobs, err)
	}
}

func testJobsClaimedOnce(t *testing.T, s store.Store) {
	const n = 40
	c := &store.Change{}
	for i := range n {
		c.Jobs = append(c.Jobs, store.Job{Kind: "k", Task: name("t", i), Due: past})
	}
	commit(t, s, c)
	got := make([][]store.Job, 8)
	atOnce(len(got), func(i int) {
		for {
			jobs, err := s.Jobs(t.Context(), 3, time.Hour)
			if err != nil {
				t.Error(err)
			}
			if len(jobs) == 0 {
				return
			}
			got[i] = append(got[i], jobs...)
		}
	})
	seen := map[string]bool{}
	for _, j := range slices.Concat(got...) {
		if seen[j.Task] {
			t.Errorf("job of %s was claimed twice", j.Task)
		}
		seen[j.Task] = true
	}
	if len(seen) != n {
		t.Errorf("%d jobs were claimed, want %d", len(seen), n)
	}
}
