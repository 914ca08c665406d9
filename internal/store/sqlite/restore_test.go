package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// storeWith makes a store in a file with tasks of those ids.
func storeWith(t *testing.T, file string, ids ...string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		err := s.Commit(t.Context(), &store.Change{
			Insert: &store.Task{ID: id, Agent: "a", Context: "c", State: a2a.StateSubmitted, Turn: 1, Attempt: 1},
			Events: []store.Event{{Kind: store.KindStatus, Body: []byte(`{"statusUpdate":{"status":{"state":"TASK_STATE_SUBMITTED"}}}`)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func tasksOf(t *testing.T, file string) []string {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.List(t.Context(), store.ForAll(), store.ListQuery{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range page.Items {
		ids = append(ids, page.Items[i].ID)
	}
	return ids
}

func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backup := filepath.Join(dir, "a.db"), filepath.Join(dir, "backup.db")
	s := storeWith(t, file, "one", "two")
	if err := s.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(t.Context(), backup, file, true); !errors.As(err, new(*sqlite.LockedError)) {
		t.Errorf("restored under an open store: %v", err)
	}
	if pid, held := sqlite.Holder(file); !held || pid != os.Getpid() {
		t.Errorf("held by %d, %v", pid, held)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, held := sqlite.Holder(file); held {
		t.Error("a closed store is held")
	}
	later := storeWith(t, file, "three")
	if err := later.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(t.Context(), backup, file, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced without being told to: %v", err)
	}
	result, err := sqlite.Restore(t.Context(), backup, file, true)
	if err != nil || result.Tasks != 2 || result.Replaced != file+".replaced" {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := tasksOf(t, file); len(got) != 2 {
		t.Errorf("restored: %v", got)
	}
	if got := tasksOf(t, result.Replaced); len(got) != 3 {
		t.Errorf("kept: %v", got)
	}
	for _, want := range []string{".replaced-2", ".replaced-3"} {
		if again, err := sqlite.Restore(t.Context(), backup, file, true); err != nil || again.Replaced != file+want {
			t.Fatalf("restored again: %+v, %v; want %s", again, err, want)
		}
	}
	if got := tasksOf(t, result.Replaced); len(got) != 3 {
		t.Errorf("kept over further restores: %v", got)
	}
	fresh := filepath.Join(dir, "fresh.db")
	if result, err := sqlite.Restore(t.Context(), backup, fresh, false); err != nil || result.Replaced != "" {
		t.Fatalf("%+v, %v", result, err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.restoring*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRestoreRefusesWhatIsNoBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	s := storeWith(t, filepath.Join(dir, "a.db"), "one", "two")
	if err := errors.Join(s.Backup(t.Context(), whole), s.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, data...)
	const page = 4096
	for i := range page {
		damaged[len(damaged)/2/page*page+i] ^= 0xff
	}
	other := filepath.Join(dir, "other.db")
	makeDatabase(t, other)
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte(strings.Repeat("not a database ", 1000)), "cut": data[:len(data)/2], "damaged": damaged,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, file)
	}
	refused(t, other)
	refused(t, filepath.Join(dir, "nothing"))
	refused(t, dir)
}

func refused(t *testing.T, backup string) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "target.db")
	before := storeWith(t, target, "kept")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(context.Background(), backup, target, true); err == nil {
		t.Errorf("%s was restored", filepath.Base(backup))
	}
	if got := tasksOf(t, target); len(got) != 1 || got[0] != "kept" {
		t.Errorf("%s: the store of before has %v", filepath.Base(backup), got)
	}
	empty := t.TempDir()
	if _, err := sqlite.Restore(context.Background(), backup, filepath.Join(empty, "target.db"), false); err == nil {
		t.Errorf("%s was restored", filepath.Base(backup))
	}
	if left, _ := os.ReadDir(empty); len(left) > 0 {
		t.Errorf("%s left behind: %v", filepath.Base(backup), left)
	}
}

// makeDatabase makes a database that is no store.
func makeDatabase(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE tasks (a)"); err != nil {
		t.Fatal(err)
	}
}
