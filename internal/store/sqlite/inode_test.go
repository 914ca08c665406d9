//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"handoff.example/handoff/internal/store"
)

// The lock is on the file, whatever it is called, and not on a file beside it.
func TestOneStoreUnderManyNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n) }
	s, err := Open(t.Context(), name("a.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(os.Symlink("a.db", name("symbolic.db")), os.Link(name("a.db"), name("hard.db"))); err != nil {
		t.Fatal(err)
	}
	refused := func(file string) {
		t.Helper()
		other, err := Open(t.Context(), name(file), Options{})
		if _, ok := errors.AsType[*LockedError](err); !ok {
			t.Errorf("%s: %v", file, err)
		}
		if other != nil {
			_ = other.Close()
		}
	}
	refused("symbolic.db")
	refused("hard.db")
	if err := os.Remove(name("a.db.lock")); err != nil {
		t.Fatal(err)
	}
	refused("a.db")
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping after the attempts: %v", err)
	}
}

func TestARemovedStoreIsNoticed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("removed: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("replaced: %v", err)
	}
}
