//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/storetest"
)

// alternating is several nodes on one database, of which each call takes the
// next: what one has committed, another reads.
type alternating struct {
	*postgres.Store // the first, which calls below do not reach
	nodes           []store.Store
	calls           atomic.Int64
}

func (a *alternating) next() store.Store {
	return a.nodes[int(a.calls.Add(1))%len(a.nodes)]
}

func (a *alternating) Commit(ctx context.Context, c *store.Change) error {
	return a.next().Commit(ctx, c)
}

func (a *alternating) Task(ctx context.Context, scope store.Scope, id string) (*store.Task, error) {
	return a.next().Task(ctx, scope, id)
}

func (a *alternating) Read(ctx context.Context, scope store.Scope, id string, want store.Want) (*store.Item, error) {
	return a.next().Read(ctx, scope, id, want)
}

func (a *alternating) List(ctx context.Context, scope store.Scope, q store.ListQuery) (*store.Page, error) {
	return a.next().List(ctx, scope, q)
}

func (a *alternating) Events(ctx context.Context, task, after int64, limit int) ([]store.Event, error) {
	return a.next().Events(ctx, task, after, limit)
}

func (a *alternating) Messages(ctx context.Context, task, from int64) ([]store.Event, error) {
	return a.next().Messages(ctx, task, from)
}

func (a *alternating) Private(ctx context.Context, task int64) (a2a.JSON, error) {
	return a.next().Private(ctx, task)
}

func (a *alternating) Result(ctx context.Context, task int64, key string) (a2a.JSON, error) {
	return a.next().Result(ctx, task, key)
}

func (a *alternating) Claim(ctx context.Context, scope store.Scope, agent, key string) (*store.Claim, error) {
	return a.next().Claim(ctx, scope, agent, key)
}

func (a *alternating) Grant(ctx context.Context, scope store.Scope, id string) (*store.Grant, error) {
	return a.next().Grant(ctx, scope, id)
}

func (a *alternating) Grants(ctx context.Context, scope store.Scope, limit int) ([]store.Grant, error) {
	return a.next().Grants(ctx, scope, limit)
}

func (a *alternating) Join(ctx context.Context, n store.Node, lease time.Duration) (int64, error) {
	return a.next().Join(ctx, n, lease)
}

func (a *alternating) Announce(ctx context.Context, epoch int64, digest map[string]string) error {
	return a.next().Announce(ctx, epoch, digest)
}

func (a *alternating) Nodes(ctx context.Context) ([]store.Node, error) { return a.next().Nodes(ctx) }

func (a *alternating) Cluster(ctx context.Context) (string, error) { return a.next().Cluster(ctx) }

func (a *alternating) Tasks(ctx context.Context, scope store.Scope, ids []string) ([]store.Task, error) {
	return a.next().Tasks(ctx, scope, ids)
}

func (a *alternating) Renew(ctx context.Context, epoch int64, lease time.Duration) error {
	return a.next().Renew(ctx, epoch, lease)
}

func (a *alternating) Leave(ctx context.Context, epoch int64) error {
	return a.next().Leave(ctx, epoch)
}

func (a *alternating) Orphans(ctx context.Context, limit int) ([]store.Task, error) {
	return a.next().Orphans(ctx, limit)
}

func (a *alternating) Jobs(ctx context.Context, limit int, retry time.Duration) ([]store.Job, error) {
	return a.next().Jobs(ctx, limit, retry)
}

func (a *alternating) NextJob(ctx context.Context) (time.Time, error) { return a.next().NextJob(ctx) }

func (a *alternating) Delete(ctx context.Context, scope store.Scope, id string) error {
	return a.next().Delete(ctx, scope, id)
}

func (a *alternating) Expire(ctx context.Context, limit int) (int, error) {
	return a.next().Expire(ctx, limit)
}

func (a *alternating) Stats(ctx context.Context, stale time.Time) ([]store.Stat, error) {
	return a.next().Stats(ctx, stale)
}

func (a *alternating) Ping(ctx context.Context) error { return a.next().Ping(ctx) }

func (a *alternating) Close() error {
	var errs []error
	for _, node := range a.nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

// TestExerciseNodes runs the suite over three nodes with one database.
func TestExerciseNodes(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t *testing.T) store.Store {
		schema := newSchema(t)
		dsn := withSchema(sharedDSN, schema)
		a := &alternating{}
		for range 3 {
			s := openAt(t, dsn, postgres.Options{Readers: 2, Committers: 2, Batch: 8})
			a.Store, a.nodes = s, append(a.nodes, s)
		}
		return &dumped{a, schema}
	})
}

// listAll returns the tasks of all pages.
func listAll(t *testing.T, s store.Store, q store.ListQuery) (ids []string) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), store.ForOwner("", "ann"), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if page.Next == "" {
			return ids
		}
		q.Cursor = page.Next
	}
}

// TestListWhileInFlight lists tasks while a commit that has taken its revision
// is held up, and one that came later is through. The task that moves late is
// shown once, where it was when the list began.
func TestListWhileInFlight(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			dsn := withSchema(sharedDSN, newSchema(t))
			s := openAt(t, dsn, postgres.Options{})
			other := openAt(t, dsn, postgres.Options{})
			keys := map[string]int64{}
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				c := working(id)
				if err := s.Commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				keys[id] = c.Insert.Key
			}
			held := hold(t, dsn, "private")
			done := make(chan error, 2)
			go func() {
				done <- s.Commit(t.Context(), &store.Change{Task: keys["b"], State: a2a.JSON(`1`), Events: []store.Event{statusBody(a2a.StateWorking)}})
			}()
			held.wait(t, 1)
			go func() { // a new task too
				c := working("late")
				c.State = a2a.JSON(`1`)
				done <- other.Commit(t.Context(), c)
			}()
			held.wait(t, 2)
			for _, id := range []string{"d", "a"} {
				if err := other.Commit(t.Context(), &store.Change{Task: keys[id], Events: []store.Event{statusBody(a2a.StateWorking)}}); err != nil {
					t.Fatal(err)
				}
			}
			q := store.ListQuery{Agent: "echo", PageSize: size}
			first, err := s.List(t.Context(), store.ForOwner("", "ann"), q)
			if err != nil {
				t.Fatal(err)
			}
			held.release(t)
			for range 2 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, item := range first.Items {
				got = append(got, item.ID)
			}
			if q.Cursor = first.Next; q.Cursor != "" {
				got = append(got, listAll(t, other, q)...)
			}
			if want := []string{"a", "d", "e", "c", "b"}; !slices.Equal(got, want) {
				t.Errorf("list that began before: %v, want %v", got, want)
			}
			q.Cursor = ""
			if got, want := listAll(t, other, q), []string{"a", "d", "late", "b", "e", "c"}; !slices.Equal(got, want) {
				t.Errorf("list afterwards: %v, want %v", got, want)
			}
		})
	}
}

// held is a table into which nobody can write.
type held struct {
	conn  *pgx.Conn
	watch *pgx.Conn
	table string
}

// hold keeps others from writing into a table. They come as far as that.
func hold(t *testing.T, dsn, table string) *held {
	t.Helper()
	h := &held{table: table}
	for _, conn := range []**pgx.Conn{&h.conn, &h.watch} {
		var err error
		if *conn, err = pgx.Connect(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*conn).Close(context.Background()) })
	}
	for _, statement := range []string{"BEGIN", "LOCK TABLE " + table + " IN SHARE MODE"} {
		if _, err := h.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// wait waits until n others wait for the table.
func (h *held) wait(t *testing.T, n int) {
	t.Helper()
	for waiting := 0; waiting < n; {
		if err := h.watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass", h.table).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *held) release(t *testing.T) {
	t.Helper()
	if _, err := h.conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

// TestNodesCountTogether has nodes insert, move and remove tasks at once, and
// compares the totals with what is there, before and after they are folded.
func TestNodesCountTogether(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	nodes := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	each(300, 24, func(i int) {
		s := nodes[i%3]
		c := working(fmt.Sprint(i))
		c.Insert.Context = fmt.Sprint("context", i%7)
		if err := s.Commit(t.Context(), c); err != nil {
			t.Error(err)
			return
		}
		s = nodes[(i+1)%3]
		if i%2 == 0 {
			end := &store.Change{Task: c.Insert.Key, Set: store.Set{State: ptr(a2a.StateCompleted)}, Events: []store.Event{statusBody(a2a.StateCompleted)}}
			if err := s.Commit(t.Context(), end); err != nil {
				t.Error(err)
			}
		}
		if i%4 == 0 {
			if err := s.Delete(t.Context(), store.ForAll(), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		}
		if i%50 == 0 {
			if _, err := s.Expire(t.Context(), 10); err != nil {
				t.Error(err)
			}
		}
	})
	check := func(when string) {
		t.Helper()
		for _, q := range []store.ListQuery{{}, {State: a2a.StateWorking}, {State: a2a.StateCompleted}, {Context: "context3"}, {Context: "context4", State: a2a.StateWorking}, {State: a2a.StateFailed}} {
			want := 0
			for i := range 300 {
				state := a2a.StateWorking
				if i%2 == 0 {
					state = a2a.StateCompleted
				}
				if i%4 != 0 && (q.State == 0 || q.State == state) && (q.Context == "" || q.Context == fmt.Sprint("context", i%7)) {
					want++
				}
			}
			for _, scope := range []store.Scope{store.ForOwner("", "ann"), store.ForAll(), store.ForTenant("")} {
				page, err := nodes[0].List(t.Context(), scope, q)
				if err != nil || page.Total != want {
					t.Errorf("%s: total of %+v is %+v, want %d, %v", when, q, page, want, err)
				}
			}
		}
	}
	check("with deltas")
	if _, err := nodes[0].Expire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	check("folded")
	if n := number(t, dsn, "SELECT (SELECT count(*) FROM total_deltas) + (SELECT count(*) FROM context_deltas)"); n != 0 {
		t.Errorf("%d deltas are left", n)
	}
	if n := number(t, dsn, "SELECT count(*) FROM totals WHERE n <= 0"); n != 0 {
		t.Errorf("%d totals of nothing are left", n)
	}
}

// TestCommitsCrossing has nodes commit to the same tasks, claims and jobs in
// all orders: nobody waits for ever, nothing is lost.
func TestCommitsCrossing(t *testing.T) {
	t.Parallel()
	const tasks, changes = 8, 400
	dsn := withSchema(sharedDSN, newSchema(t))
	nodes := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	keys := make([]int64, tasks)
	for i := range keys {
		c := working(fmt.Sprint(i))
		if err := nodes[0].Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		keys[i] = c.Insert.Key
	}
	var made [tasks]atomic.Int64
	var claimed [16]atomic.Int64
	each(changes, 32, func(i int) {
		task := (i * 7) % tasks
		c := &store.Change{
			Task: keys[task], Events: []store.Event{artifactBody("a")}, State: a2a.JSON(`1`), Result: &store.Result{Key: fmt.Sprint(i % 3)},
			Claim: &store.Claim{Owner: "ann", Agent: "echo", Key: fmt.Sprint(i % 16), Task: "t", Expires: time.Now().Add(time.Hour)},
			Jobs:  []store.Job{{Kind: "k", Task: fmt.Sprint((i + 1) % 5), Due: time.Now()}, {Kind: "k", Task: fmt.Sprint(i % 5), Due: time.Now()}},
		}
		err := nodes[i%2].Commit(t.Context(), c)
		_, duplicate := errors.AsType[*store.DuplicateError](err)
		switch {
		case err == nil:
			made[task].Add(1)
			claimed[i%16].Add(1)
		case !duplicate:
			t.Errorf("change %d: %v", i, err)
		}
	})
	for i := range claimed {
		if n := claimed[i].Load(); n != 1 {
			t.Errorf("claim %d was made %d times", i, n)
		}
	}
	for i, key := range keys {
		events, err := nodes[0].Events(t.Context(), key, 0, 1<<30)
		if err != nil || int64(len(events)) != 1+made[i].Load() {
			t.Errorf("task %d has %d events, want %d, %v", i, len(events), 1+made[i].Load(), err)
		}
	}
	if n := number(t, dsn, "SELECT count(*) FROM jobs"); n != 5 {
		t.Errorf("%d jobs, want 5", n)
	}
}
