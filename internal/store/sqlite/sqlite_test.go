package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
)

// open returns an empty store. When the test is over, it sees that the file is
// sound.
func open(t *testing.T) store.Store {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handoff.db")
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s, err := sqlite.Open(context.Background(), file, sqlite.Options{Readers: 1}) // that of t is over
		if err != nil {
			t.Error(err)
			return
		}
		checkFile(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestExercise(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, open)
}

// TestReopen closes a store and opens it again: all is there, and no number is
// given twice, even if the clock of the machine was set back meanwhile.
func TestReopen(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
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

	before := time.Now().Add(-time.Hour)
	s = openFile(t, file, sqlite.Options{Now: func() time.Time { return before }})
	third := working("third")
	third.Jobs = []store.Job{{Kind: "k", Task: "third", Due: time.UnixMilli(5)}}
	if err := s.Commit(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	if third.Insert.Key <= second.Insert.Key {
		t.Errorf("key %d after %d", third.Insert.Key, second.Insert.Key)
	}
	if third.At.Before(second.At) {
		t.Errorf("commit at %v after one at %v", third.At, second.At)
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
	checkFile(t, s)
}

// TestJoinEndsOthers joins twice. Only one process can have the file, so the
// node before is dead, whatever its lease says.
func TestJoinEndsOthers(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	epoch, err := s.Join(t.Context(), store.Node{Name: "a"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := working("t")
	c.Insert.Lease = epoch
	c.Claim = &store.Claim{Key: "k", Lease: epoch}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	next, err := s.Join(t.Context(), store.Node{Name: "b"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), epoch, time.Hour); err == nil {
		t.Error("the node before is renewed")
	}
	if err := s.Renew(t.Context(), next, time.Hour); err != nil {
		t.Error(err)
	}
	if orphans, err := s.Orphans(t.Context(), 5); err != nil || len(orphans) != 1 {
		t.Errorf("orphans: %v, %v", orphans, err)
	}
	if err := s.Commit(t.Context(), &store.Change{Claim: &store.Claim{Key: "k", Lease: next}}); err != nil {
		t.Errorf("taking over the claim: %v", err)
	}
}

// TestBackupOpens takes a backup while tasks are committed and opens it.
func TestBackupOpens(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	var done atomic.Bool
	var during int
	copyFile := filepath.Join(t.TempDir(), "copy ?&#%.db")
	for i := range 200 {
		if err := s.Commit(t.Context(), working(fmt.Sprint("before", i))); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() {
			if err := s.Commit(t.Context(), working(fmt.Sprint("during", during))); err != nil {
				t.Error(err)
			}
			during++
		}
	}()
	err := s.Backup(t.Context(), copyFile)
	done.Store(true)
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(copyFile)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the backup can be read by others: %v", info.Mode())
	}
	copied := openFile(t, copyFile, sqlite.Options{})
	checkFile(t, copied)
	n, err := copied.Number(t.Context(), "SELECT count(*) FROM tasks")
	if err != nil || n < 200 || n > int64(200+during) {
		t.Errorf("the backup has %d tasks, %v", n, err)
	}
	if err := copied.Commit(t.Context(), working("after")); err != nil {
		t.Errorf("commit to the backup: %v", err)
	}
}

// TestBytesAreLinear writes an artifact in chunks, each in a commit of its own:
// rows and bytes grow with their number, and not faster.
func TestBytesAreLinear(t *testing.T) {
	t.Parallel()
	size := func(chunks int) (rows, bytes int64) {
		s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
		c := working("t")
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		each(chunks, 200, func(int) {
			if err := s.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("0123456789012345678901234567890123456789")}}); err != nil {
				t.Error(err)
			}
		})
		rows, err := s.Number(t.Context(), "SELECT count(*) FROM events")
		if err != nil {
			t.Fatal(err)
		}
		bytes, err = s.Number(t.Context(), "SELECT sum(pgsize) FROM dbstat WHERE name = 'events'")
		if err != nil {
			t.Fatal(err)
		}
		return rows, bytes
	}
	fewRows, fewBytes := size(1000)
	manyRows, manyBytes := size(10000)
	if fewRows != 1001 || manyRows != 10001 {
		t.Errorf("rows: %d and %d", fewRows, manyRows)
	}
	if manyBytes > 11*fewBytes {
		t.Errorf("1,000 chunks take %d bytes, 10,000 take %d", fewBytes, manyBytes)
	}
	if perChunk := manyBytes / 10000; perChunk > 400 {
		t.Errorf("a chunk of 40 bytes takes %d", perChunk)
	}
}

// TestRefusesFiles opens files that are not a store of this program.
func TestRefusesFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	junk := filepath.Join(folder, "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("not a database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(folder, "newer.db")
	if err := openFile(t, newer, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := openFile(t, newer, sqlite.Options{}).Close(); err != nil { // on the way back from a newer program
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE schema_info SET min_program = 9998"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		junk: "not a database", newer: "run the newer program", folder: "", filepath.Join(folder, "no", "such", "folder.db"): "",
	} {
		s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", file)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q does not say %q", file, err, want)
		}
	}
	if b, err := os.ReadFile(junk); err != nil || !strings.HasPrefix(string(b), "not a database") {
		t.Errorf("the junk was written over: %v", err)
	}
}

func TestFilesAreTheOwners(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // has no such modes
	}
	file := filepath.Join(t.TempDir(), "handoff.db")
	s := openFile(t, file, sqlite.Options{})
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(file + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", suffix, info, err)
		}
	}
}

// TestObserve sees that all changes of a group are counted once.
func TestObserve(t *testing.T) {
	t.Parallel()
	var changes, batches atomic.Int64
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{Batch: 7, Observe: func(n int, took time.Duration) {
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
	s := openFile(t, filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	for _, id := range []string{"deleted", "expired", "kept"} {
		c := working(id)
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		each(5000, 250, func(int) {
			if err := s.Commit(t.Context(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody("x")}}); err != nil {
				t.Error(err)
			}
		})
		end := &store.Change{Task: c.Insert.Key, Events: []store.Event{statusBody(a2a.StateCompleted)}}
		state := a2a.StateCompleted
		end.Set.State = &state
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
	if n, err := s.Number(t.Context(), "SELECT count(*) FROM events"); err != nil || n != 5002 {
		t.Errorf("%d rows of events are left, %v", n, err)
	}
	checkFile(t, s)
}

// TestOlderTables opens a store that version 1 has made, with what is in it.
func TestOlderTables(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile("migrations/00001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		string(first),
		"CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1)",
		"INSERT INTO nodes (epoch, node, expires) VALUES (1, 'old', 4000000000000)",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	s := openFile(t, file, sqlite.Options{})
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Name != "old" || !nodes[0].Alive || nodes[0].Digest != nil {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	id, err := s.Cluster(t.Context())
	if err != nil || len(id) != 32 {
		t.Errorf("cluster %q, %v", id, err)
	}
	if err := s.Commit(t.Context(), working("t")); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := openFile(t, file, sqlite.Options{}).Cluster(t.Context()); err != nil || again != id {
		t.Errorf("cluster was %q and is %q, %v", id, again, err)
	}
}
