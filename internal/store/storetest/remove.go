package storetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// furnish gives a task one of everything that can belong to it.
func furnish(t *testing.T, s store.Store, row *store.Task) {
	t.Helper()
	c := claim("claim-" + row.ID)
	c.Task = row.ID
	commit(t, s, &store.Change{
		Insert: row, Events: []store.Event{message("m"), saying("w"), artifact("a"), status("s")},
		Claim: c, State: a2a.JSON(`{}`), Result: &store.Result{Key: "r", Value: a2a.JSON(`1`)},
		Grant: &store.Grant{ID: "grant-" + row.ID, Task: row.ID, Created: past},
		Jobs:  []store.Job{{Kind: "push", Task: row.ID, Key: "j", Due: past}},
	})
}

// wantGone fails the test unless nothing is left of a task but its claim.
func wantGone(t *testing.T, s store.Store, row *store.Task) {
	t.Helper()
	_, err := s.Task(t.Context(), node, row.ID)
	wantError(t, "task", err, store.ErrNotFound)
	_, err = s.Read(t.Context(), node, row.ID, store.Want{Messages: 9, Artifacts: true})
	wantError(t, "read", err, store.ErrNotFound)
	if events, err := s.Events(t.Context(), row.Key, 0, 1<<20); err != nil || len(events) != 0 {
		t.Errorf("events of %s: %v, %v", row.ID, bodies(events), err)
	}
	if v, err := s.Private(t.Context(), row.Key); err != nil || v != nil {
		t.Errorf("private state of %s: %s, %v", row.ID, v, err)
	}
	if v, err := s.Result(t.Context(), row.Key, "r"); err != nil || v != nil {
		t.Errorf("result of %s: %s, %v", row.ID, v, err)
	}
	_, err = s.Grant(t.Context(), node, "grant-"+row.ID)
	wantError(t, "grant", err, store.ErrNotFound)
	err = s.Commit(t.Context(), &store.Change{Task: row.Key, Events: []store.Event{status("late")}})
	wantError(t, "late commit", err, store.ErrNotFound)
	// The message that made the task was handled. It must not make another.
	if _, err := s.Claim(t.Context(), ann, echo, "claim-"+row.ID); err != nil {
		t.Errorf("claim of %s: %v", row.ID, err)
	}
}

func testDelete(t *testing.T, s store.Store) {
	dead, live := task("dead", a2a.StateFailed), task("live", a2a.StateInputRequired)
	furnish(t, s, dead)
	furnish(t, s, live)
	wantError(t, "delete of a task that is not over", s.Delete(t.Context(), ann, "live"), store.ErrConflict)
	wantError(t, "delete of no task", s.Delete(t.Context(), ann, "none"), store.ErrNotFound)
	if err := s.Delete(t.Context(), ann, "dead"); err != nil {
		t.Fatal(err)
	}
	wantGone(t, s, dead)
	wantError(t, "delete again", s.Delete(t.Context(), ann, "dead"), store.ErrNotFound)
	if got := list(t, s, ann, store.ListQuery{PageSize: 9}); len(got) != 1 || got[0] != "live" {
		t.Errorf("what is left: %v", got)
	}
	if jobs, err := s.Jobs(t.Context(), 9, time.Hour); err != nil || len(jobs) != 1 || jobs[0].Task != "live" {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
	if item := read(t, s, "live", store.Want{Messages: 9, Artifacts: true}); len(item.Messages) != 2 || len(item.Artifacts) != 1 {
		t.Errorf("the other task: %+v", item)
	}

	// A new task never gets the key of a deleted one.
	move(t, s, live.Key, a2a.StateCompleted)
	if err := s.Delete(t.Context(), ann, "live"); err != nil {
		t.Fatal(err)
	}
	if row := insert(t, s, task("new", a2a.StateWorking)); row.Key == live.Key || row.Key == dead.Key {
		t.Errorf("new task has the key %d again", row.Key)
	}
}

func testExpire(t *testing.T, s store.Store) {
	if n, err := s.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("expire nothing: %d, %v", n, err)
	}
	rows := map[string]*store.Task{}
	for id, expires := range map[string]time.Time{"over": past, "later": future, "never": {}} {
		rows[id] = task(id, a2a.StateCompleted)
		rows[id].Expires = expires
		furnish(t, s, rows[id])
	}
	rows["live"] = task("live", a2a.StateWorking)
	rows["live"].Expires = past // counts only once it is terminal
	furnish(t, s, rows["live"])
	rows["set"] = task("set", a2a.StateWorking)
	furnish(t, s, rows["set"])
	commit(t, s, &store.Change{
		Task: rows["set"].Key, Set: store.Set{State: ptr(a2a.StateCanceled), Expires: past}, Events: []store.Event{status("s")},
	})
	old := claim("old")
	old.Task, old.Expires = "over", past
	commit(t, s, &store.Change{Claim: old})

	n, err := s.Expire(t.Context(), 10)
	if n != 3 || err != nil {
		t.Errorf("expired %d, %v; want 2 tasks and a claim", n, err)
	}
	wantGone(t, s, rows["over"])
	wantGone(t, s, rows["set"])
	if got := list(t, s, ann, store.ListQuery{PageSize: 9}); len(got) != 3 {
		t.Errorf("what is left: %v", got)
	}
	if n, err := s.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("expired %d again, %v", n, err)
	}
	move(t, s, rows["live"].Key, a2a.StateFailed)
	if n, err := s.Expire(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("expired %d once it was over, %v", n, err)
	}
}

func testExpireManyInPortions(t *testing.T, s store.Store) {
	const n = 300
	atOnce(n, func(i int) {
		row := task(name("t", i), a2a.StateCompleted)
		row.Expires = past
		if err := s.Commit(t.Context(), &store.Change{Insert: row, Events: []store.Event{status("s")}}); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct{ limit, want int }{{1, 1}, {200, 200}, {1000, 99}, {1000, 0}} {
		if got, err := s.Expire(t.Context(), test.limit); got != test.want || err != nil {
			t.Errorf("at most %d: expired %d, %v; want %d", test.limit, got, err, test.want)
		}
	}
	if got := list(t, s, ann, store.ListQuery{PageSize: 9}); len(got) != 0 {
		t.Errorf("what is left: %v", got)
	}
	if stats, err := s.Stats(t.Context(), time.Time{}); err != nil || len(stats) != 0 {
		t.Errorf("stats: %v, %v", stats, err)
	}
}

func testBackup(t *testing.T, s store.Store) {
	insert(t, s, task("t", a2a.StateCompleted))
	file := filepath.Join(t.TempDir(), "backup")
	err := s.Backup(t.Context(), file)
	if errors.Is(err, errors.ErrUnsupported) {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a backup that is not supported has left a file, %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() == 0 {
		t.Fatalf("backup: %v, %v", info, err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("backup over a file: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file was written over, %v", err)
	}
	if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "no such folder", "backup")); err == nil {
		t.Error("backup to nowhere succeeded")
	}
	insert(t, s, task("u", a2a.StateCompleted)) // goes on
}

func testPing(t *testing.T, s store.Store) {
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "ping", s.Ping(t.Context()), store.ErrUnavailable)
	wantError(t, "commit", s.Commit(t.Context(), &store.Change{}), store.ErrUnavailable)
	_, err := s.Task(t.Context(), node, "t")
	wantError(t, "task", err, store.ErrUnavailable)
	_, err = s.List(t.Context(), node, store.ListQuery{PageSize: 1})
	wantError(t, "list", err, store.ErrUnavailable)
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}
