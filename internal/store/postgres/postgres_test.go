//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
	"handoff.example/handoff/internal/store/storetest"
)

func TestExercise(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t *testing.T) store.Store {
		schema := newSchema(t)
		return &dumped{openAt(t, withSchema(sharedDSN, schema), postgres.Options{}), schema}
	})
}

// TestReopen closes a store and opens it again: all is there, and no number is
// given twice, even if the clock of the machine was set back meanwhile.
func TestReopen(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	s := openAt(t, dsn, postgres.Options{})
	first, second := working("first"), working("second")
	first.Jobs = []store.Job{{Kind: "k", Task: "first", Due: time.UnixMilli(5)}}
	second.Insert.State = a2a.StateCompleted
	for _, c := range []*store.Change{first, second} {
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	epoch, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), store.ForOwner("", "ann"), store.ListQuery{Agent: "echo", PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), store.ForAll(), "second"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The clock was an hour ahead until now.
	ahead := time.Now().Add(time.Hour)
	execute(t, dsn, fmt.Sprintf("SELECT setval('revisions', %d::bigint << 20)", ahead.UnixMilli()))
	s = openAt(t, dsn, postgres.Options{})
	third := working("third")
	third.Jobs = []store.Job{{Kind: "k", Task: "third", Due: time.UnixMilli(5)}}
	if err := s.Commit(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	if third.Insert.Key <= second.Insert.Key {
		t.Errorf("key %d after %d", third.Insert.Key, second.Insert.Key)
	}
	if third.At.Before(ahead.Truncate(time.Millisecond)) {
		t.Errorf("commit at %v after one at %v", third.At, ahead)
	}
	if third.Jobs[0].ID <= first.Jobs[0].ID {
		t.Errorf("job %d after %d", third.Jobs[0].ID, first.Jobs[0].ID)
	}
	if next, err := s.Join(t.Context(), store.Node{Name: "n"}, time.Hour); err != nil || next <= epoch {
		t.Errorf("epoch %d after %d, %v", next, epoch, err)
	}
	got, err := s.Task(t.Context(), store.ForAll(), "first")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Insert, got); diff != "" {
		t.Errorf("task after opening again (-want +got):\n%s", diff)
	}
	// A list goes on where it was.
	page, err = s.List(t.Context(), store.ForOwner("", "ann"), store.ListQuery{Agent: "echo", PageSize: 1, Cursor: page.Next})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "first" {
		t.Errorf("second page: %+v, %v", page, err)
	}
}

// TestOpenAtOnce starts nodes on a database that has no tables yet.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	each(6, 6, func(i int) {
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		if err := s.Commit(t.Context(), working(fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if n := number(t, dsn, "SELECT count(*) FROM tasks"); n != 6 {
		t.Errorf("%d tasks", n)
	}
}

// TestNewerTables opens tables that a newer program has made: it may go on with
// them unless they say otherwise.
func TestNewerTables(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	if err := openAt(t, dsn, postgres.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	s := openAt(t, dsn, postgres.Options{})
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Error(err)
	}
	execute(t, dsn, "UPDATE schema_info SET min_program = 9998")
	if s, err := postgres.Open(t.Context(), dsn, postgres.Options{}); err == nil {
		s.Close()
		t.Error("tables that need a newer program were opened")
	} else if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "run the newer program") {
		t.Errorf("refused with %q", err)
	}
}

// TestUnreachable opens databases that are not there.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"host=/no/such/folder user=ann password=s3cr3t dbname=x",
		"postgres://ann:s3cr3t@127.0.0.1:1/x?sslmode=disable",
		postgrestest.With(postgrestest.With(sharedDSN, "dbname", "nosuchdatabase"), "password", "s3cr3t"),
	} {
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", dsn)
		} else if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %q", dsn, err)
		}
	}
}

// TestReadOnly uses a database that cannot be written.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	if err := openAt(t, dsn, postgres.Options{}).Commit(t.Context(), working("t")); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, postgrestest.With(dsn, "default_transaction_read_only", "on"), postgres.Options{})
	if _, err := s.Task(t.Context(), store.ForAll(), "t"); err != nil {
		t.Errorf("read: %v", err)
	}
	for what, err := range map[string]error{
		"commit": s.Commit(t.Context(), working("u")),
		"ping":   s.Ping(t.Context()),
		"delete": s.Delete(t.Context(), store.ForAll(), "t"),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAnyText keeps texts that the database could not keep as text.
func TestAnyText(t *testing.T) {
	t.Parallel()
	s := openAt(t, withSchema(sharedDSN, newSchema(t)), postgres.Options{})
	const odd = "NUL \x00, not UTF-8 \xff\xfe, 漢字, \\x41, '"
	c := working(odd)
	c.Insert.Tenant, c.Insert.Owner, c.Insert.Agent, c.Insert.Context = odd+"t", odd+"o", odd+"a", odd+"c"
	c.Claim = &store.Claim{Tenant: odd + "t", Owner: odd + "o", Agent: odd + "a", Key: odd + "k", Task: odd}
	c.Grant = &store.Grant{ID: odd + "g", Task: odd, Operation: odd, Text: odd, URL: odd}
	c.Result = &store.Result{Key: odd, Value: a2a.JSON(odd)}
	c.Jobs = []store.Job{{Kind: odd, Task: odd, Key: odd, Due: time.UnixMilli(1)}}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	scope := store.ForOwner(odd+"t", odd+"o")
	page, err := s.List(t.Context(), scope, store.ListQuery{Agent: odd + "a", Context: odd + "c", PageSize: 2})
	if err != nil || len(page.Items) != 1 || page.Total != 1 {
		t.Fatalf("list: %+v, %v", page, err)
	}
	if diff := cmp.Diff(*c.Insert, page.Items[0].Task); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	claim, err := s.Claim(t.Context(), scope, odd+"a", odd+"k")
	if diff := cmp.Diff(c.Claim, claim); diff != "" || err != nil {
		t.Errorf("claim, %v (-want +got):\n%s", err, diff)
	}
	grant, err := s.Grant(t.Context(), scope, odd+"g")
	if diff := cmp.Diff(c.Grant, grant); diff != "" || err != nil {
		t.Errorf("grant, %v (-want +got):\n%s", err, diff)
	}
	result, err := s.Result(t.Context(), c.Insert.Key, odd)
	if string(result) != odd || err != nil {
		t.Errorf("result %q, %v", result, err)
	}
	jobs, err := s.Jobs(t.Context(), 5, time.Hour)
	if err != nil || len(jobs) != 1 || jobs[0].Kind != odd || jobs[0].Key != odd || jobs[0].Task != odd {
		t.Errorf("jobs: %+v, %v", jobs, err)
	}
}

// TestChangeThatDoesNotFit commits changes that the database refuses, together
// with others: those are not affected.
func TestChangeThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := openAt(t, withSchema(sharedDSN, newSchema(t)), postgres.Options{Committers: 1})
	noise := make([]byte, 9000) // more than an index takes, and not to be compressed
	rand.NewChaCha8([32]byte{}).Read(noise)
	each(64, 64, func(i int) {
		c := working(fmt.Sprint(i))
		if i%8 == 0 {
			c.Insert.Context = string(noise)
		}
		if i%8 == 1 {
			c.Insert.Turn = 1 << 40
		}
		err := s.Commit(t.Context(), c)
		if fits := i%8 > 1; fits && err != nil || !fits && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("change %d: %v", i, err)
		}
		if _, err := s.Task(t.Context(), store.ForAll(), fmt.Sprint(i)); (err == nil) != (i%8 > 1) {
			t.Errorf("task %d: %v", i, err)
		}
	})
}

// TestObserve sees that all changes of a group are counted once.
func TestObserve(t *testing.T) {
	t.Parallel()
	var changes, batches atomic.Int64
	s := openAt(t, withSchema(sharedDSN, newSchema(t)), postgres.Options{Batch: 7, Observe: func(n int, took time.Duration) {
		if n < 1 || n > 7 || took <= 0 {
			t.Errorf("batch of %d took %v", n, took)
		}
		batches.Add(1)
		changes.Add(int64(n))
	}})
	each(100, 50, func(i int) {
		if err := s.Commit(t.Context(), working(fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if changes.Load() != 100 || batches.Load() >= 100 {
		t.Errorf("%d changes in %d batches", changes.Load(), batches.Load())
	}
}

// TestDeleteLong deletes tasks with more events than are removed at once.
func TestDeleteLong(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	s := openAt(t, dsn, postgres.Options{})
	for _, id := range []string{"deleted", "expired", "kept"} {
		c := working(id)
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		each(9000, 250, func(int) {
			if err := s.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("x")}}); err != nil {
				t.Error(err)
			}
		})
		end := &store.Change{Task: c.Insert.Key, Set: store.Set{State: ptr(a2a.StateCompleted)}, Events: []store.Event{statusBody(a2a.StateCompleted)}}
		if id == "expired" {
			end.Set.Expires = time.UnixMilli(1)
		}
		if err := s.Commit(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), store.ForAll(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	if n := number(t, dsn, "SELECT count(*) FROM events"); n != 9002 {
		t.Errorf("%d rows of events are left", n)
	}
	if n := number(t, dsn, "SELECT count(*) FROM purge"); n != 0 {
		t.Errorf("%d tasks are left to be purged", n)
	}
}

// TestBytesAreLinear writes an artifact in chunks, each in a commit of its own:
// rows and bytes grow with their number, and not faster.
func TestBytesAreLinear(t *testing.T) {
	t.Parallel()
	size := func(chunks int) (rows, bytes int64) {
		dsn := withSchema(sharedDSN, newSchema(t))
		s := openAt(t, dsn, postgres.Options{})
		c := working("t")
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		each(chunks, 200, func(int) {
			if err := s.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("0123456789012345678901234567890123456789")}}); err != nil {
				t.Error(err)
			}
		})
		return number(t, dsn, "SELECT count(*) FROM events"), number(t, dsn, "SELECT pg_total_relation_size('events')")
	}
	fewRows, fewBytes := size(1000)
	manyRows, manyBytes := size(10000)
	if fewRows != 1001 || manyRows != 10001 {
		t.Errorf("rows: %d and %d", fewRows, manyRows)
	}
	if manyBytes > 11*fewBytes {
		t.Errorf("1,000 chunks take %d bytes, 10,000 take %d", fewBytes, manyBytes)
	}
	if perChunk := manyBytes / 10000; perChunk > 500 {
		t.Errorf("a chunk of 40 bytes takes %d", perChunk)
	}
}

// TestPending shows what opening a database would do to it, and does not do it.
func TestPending(t *testing.T) {
	t.Parallel()
	dsn := withSchema(sharedDSN, newSchema(t))
	for range 2 {
		steps, err := postgres.Pending(t.Context(), dsn)
		if err != nil || len(steps) == 0 || steps[0].Version != 1 || !strings.Contains(steps[0].SQL, "CREATE TABLE tasks") {
			t.Fatalf("steps: %+v, %v", steps, err)
		}
	}
	openAt(t, dsn, postgres.Options{})
	if steps, err := postgres.Pending(t.Context(), dsn); err != nil || len(steps) != 0 {
		t.Errorf("steps after all were taken: %+v, %v", steps, err)
	}
}

// TestOlderTables opens tables that version 1 has made, with what is in them.
func TestOlderTables(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	dsn := withSchema(sharedDSN, schema)
	steps, err := postgres.Pending(t.Context(), dsn)
	if err != nil || len(steps) < 2 {
		t.Fatalf("steps: %+v, %v", steps, err)
	}
	execute(t, sharedDSN, "CREATE SCHEMA "+schema)
	execute(t, dsn, steps[0].SQL,
		"CREATE TABLE goose_db_version (id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NOT NULL DEFAULT now())",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true), (1, true)",
		"INSERT INTO nodes (epoch, expires, node) VALUES (nextval('epochs'), 4000000000000, 'old')")
	s := openAt(t, dsn, postgres.Options{})
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Error(err)
	}
	// A node of the older program goes on meanwhile.
	execute(t, dsn, "INSERT INTO nodes (epoch, expires, node) VALUES (nextval('epochs'), 1, 'older')")
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Name != "old" || !nodes[0].Alive || nodes[1].Alive || nodes[0].Digest != nil {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	if id, err := s.Cluster(t.Context()); err != nil || len(id) != 32 {
		t.Errorf("cluster %q, %v", id, err)
	}
	if other, err := openAt(t, dsn, postgres.Options{}).Cluster(t.Context()); err != nil {
		t.Error(err)
	} else if id, _ := s.Cluster(t.Context()); id != other {
		t.Errorf("clusters %q and %q of one store", id, other)
	}
}
