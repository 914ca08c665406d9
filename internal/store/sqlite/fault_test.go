package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

func openFile(t *testing.T, file string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func working(id string) *store.Change {
	return &store.Change{
		Insert: &store.Task{ID: id, Owner: "ann", Agent: "echo", Context: "c", State: a2a.StateWorking},
		Events: []store.Event{statusBody(a2a.StateWorking)},
	}
}

// TestKill kills a process that commits as fast as it can. All that it
// acknowledged is there, nothing is there by half, and the next process owns
// all its tasks at once.
func TestKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	c := start(t, roleCommit, file)
	var acknowledged []string
	for range 1000 {
		id := c.line(t)
		if strings.HasPrefix(id, "error") {
			t.Fatal(id)
		}
		acknowledged = append(acknowledged, id)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.output.Scan() { // what it said before it died
		acknowledged = append(acknowledged, c.output.Text())
	}
	_ = c.Wait()
	if n := len(acknowledged); !strings.Contains(acknowledged[n-1], "-") {
		acknowledged = acknowledged[:n-1] // a line cut short
	}

	s := openFile(t, file, sqlite.Options{})
	for _, id := range acknowledged {
		item, err := s.Read(t.Context(), store.ForOwner("", "ann"), id, store.Want{Artifacts: true})
		if err != nil || item.Seq != 2 || len(item.Artifacts) != 1 || !strings.Contains(string(item.Artifacts[0].Body), `"`+id+`"`) {
			t.Fatalf("acknowledged task %s: %+v, %v", id, item, err)
		}
	}
	checkFile(t, s)

	if orphans, err := s.Orphans(t.Context(), 10); err != nil || len(orphans) != 0 {
		t.Errorf("orphans while the lease of the dead runs: %d, %v", len(orphans), err)
	}
	if _, err := s.Join(t.Context(), store.Node{Name: "next"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	orphans, err := s.Orphans(t.Context(), 1<<20)
	if err != nil || len(orphans) < len(acknowledged) {
		t.Errorf("%d orphans, %v; want at least %d", len(orphans), err, len(acknowledged))
	}
}

// checkFile fails the test unless the file is sound and its totals are those of
// its tasks.
func checkFile(t *testing.T, s *sqlite.Store) {
	t.Helper()
	for what, query := range map[string]string{
		"errors of the file":         "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		"wrong totals":               "SELECT count(*) FROM (SELECT realm, state, count(*) FROM tasks GROUP BY 1, 2 EXCEPT SELECT * FROM totals)",
		"totals of nothing":          "SELECT count(*) FROM (SELECT * FROM totals EXCEPT SELECT realm, state, count(*) FROM tasks GROUP BY 1, 2)",
		"wrong totals of contexts":   "SELECT count(*) FROM (SELECT realm, context, state, count(*) FROM tasks GROUP BY 1, 2, 3 EXCEPT SELECT * FROM context_totals)",
		"contexts of nothing":        "SELECT count(*) FROM (SELECT * FROM context_totals EXCEPT SELECT realm, context, state, count(*) FROM tasks GROUP BY 1, 2, 3)",
		"events of no task":          "SELECT count(*) FROM events WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE key = events.id >> 26)",
		"tasks newer than the clock": "SELECT count(*) FROM tasks, clock WHERE tasks.key > clock.key OR tasks.rev > clock.rev OR status_at > at",
		"revisions given twice":      "SELECT count(*) FROM (SELECT rev FROM tasks GROUP BY rev HAVING count(*) > 1)",
		"times against the order":    "SELECT count(*) FROM (SELECT status_at - lag(status_at) OVER (ORDER BY rev) AS d FROM tasks) WHERE d < 0",
	} {
		if n, err := s.Number(context.Background(), query); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
}

// TestOnlyOne opens a store that another process has.
func TestOnlyOne(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	c := start(t, roleOpen, file)
	c.line(t)
	began := time.Now()
	_, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	locked, ok := errors.AsType[*sqlite.LockedError](err)
	if !ok || locked.PID != c.Process.Pid || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("open: %v, want it to name process %d", err, c.Process.Pid)
	}
	if ok && !strings.Contains(err.Error(), fmt.Sprint(c.Process.Pid)) {
		t.Errorf("error %q does not name the process", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v to find out", took)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	s := openFile(t, file, sqlite.Options{})
	if _, err := sqlite.Open(t.Context(), file, sqlite.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in the same process: %v", err)
	}
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Errorf("commit after a failed open: %v", err)
	}
}

// TestLocked commits while another process holds the database, against all
// rules.
func TestLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	s := openFile(t, file, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	if err := s.Commit(t.Context(), working("before")); err != nil {
		t.Fatal(err)
	}
	c := start(t, roleLock, file)
	c.line(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if err := s.Commit(t.Context(), working(fmt.Sprint("during", i))); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("commit while the database is locked: %v", err)
			}
		})
	}
	group.Wait()
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ping while the database is locked: %v", err)
	}
	if _, err := s.Task(t.Context(), store.ForAll(), "before"); err != nil {
		t.Errorf("read while the database is locked: %v", err)
	}
	c.end(t)
	if err := s.Commit(t.Context(), working("after")); err != nil {
		t.Errorf("commit afterwards: %v", err)
	}
	if n, err := s.Number(t.Context(), "SELECT count(*) FROM tasks"); err != nil || n != 2 {
		t.Errorf("%d tasks, %v; want those from before and after", n, err)
	}
	checkFile(t, s)
}

// TestFull fills the disk.
func TestFull(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	before := working("before")
	if err := s.Commit(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	pages, err := s.Number(t.Context(), "PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMaxPages(t.Context(), pages+10); err != nil {
		t.Fatal(err)
	}
	big := store.Event{Kind: store.KindArtifact, Body: bytes.Repeat([]byte("x"), 1<<20)}
	asking := a2a.StateInputRequired
	for range 3 {
		c := working("during")
		c.Events = append(c.Events, big)
		if err := s.Commit(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("commit to a full disk: %v", err)
		}
		update := &store.Change{Task: before.Insert.Key, Set: store.Set{State: &asking}, Events: []store.Event{statusBody(asking), big}}
		if err := s.Commit(t.Context(), update); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("commit to a full disk: %v", err)
		}
	}
	item, err := s.Read(t.Context(), store.ForAll(), "before", store.Want{Artifacts: true})
	if err != nil || item.Seq != 1 || item.State != a2a.StateWorking || len(item.Artifacts) != 0 {
		t.Errorf("task on a full disk: %+v, %v", item, err)
	}
	if err := s.SetMaxPages(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	update := &store.Change{Task: before.Insert.Key, Set: store.Set{State: &asking}, Events: []store.Event{statusBody(asking), big}}
	if err := s.Commit(t.Context(), update); err != nil || update.After.Seq != 3 {
		t.Errorf("commit afterwards: %v, at %d", err, update.After.Seq)
	}
	if _, err := s.Task(t.Context(), store.ForAll(), "during"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("task that could not be written: %v", err)
	}
	checkFile(t, s)
}

// TestCloseDrains closes a store while changes are on their way: what succeeded
// is there, and the rest was refused.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	errs := make([]error, n)
	half := make(chan struct{}, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if i > n/2 {
				<-half // some come only now
			}
			errs[i] = s.Commit(context.Background(), working(fmt.Sprint(i)))
			half <- struct{}{}
			if _, err := s.Task(context.Background(), store.ForAll(), "0"); err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	<-half
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	s = openFile(t, file, sqlite.Options{})
	kept := 0
	for i, err := range errs {
		_, found := s.Task(t.Context(), store.ForAll(), fmt.Sprint(i))
		switch {
		case err == nil && found == nil:
			kept++
		case !errors.Is(err, store.ErrUnavailable) || !errors.Is(found, store.ErrNotFound):
			t.Errorf("task %d: commit %v, afterwards %v", i, err, found)
		}
	}
	if kept == 0 {
		t.Error("nothing was committed")
	}
}
