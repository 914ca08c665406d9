//go:build unix

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// TestWriteFails lets the system refuse to write the file, in a process of its
// own, since the limit is that of the process.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.db")
	c := start(t, roleLimit, file)
	if got := c.line(t); got != "ok" {
		t.Fatal(got)
	}
	c.end(t)
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, want := range map[string]error{"before": nil, "during": store.ErrNotFound, "after": nil} {
		if _, err := s.Task(t.Context(), store.ForAll(), id); !errors.Is(err, want) {
			t.Errorf("task %s: %v, want %v", id, err, want)
		}
	}
}

func playLimit(file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := sqlite.Open(context.Background(), file, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	insert := func(id string) error {
		return s.Commit(context.Background(), &store.Change{
			Insert: &store.Task{ID: id, State: a2a.StateWorking},
			Events: []store.Event{statusBody(a2a.StateWorking), {Kind: store.KindArtifact, Body: bytes.Repeat([]byte("x"), 1<<20)}},
		})
	}
	if err := insert("before"); err != nil {
		return err
	}
	wal, err := os.Stat(file + "-wal")
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	small := limit
	small.Cur = uint64(wal.Size()) + 100_000
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	for range 3 {
		if err := insert("during"); !errors.Is(err, store.ErrUnavailable) {
			return fmt.Errorf("commit beyond the limit: %v, want it to fail", err)
		}
	}
	if _, err := s.Read(context.Background(), store.ForAll(), "before", store.Want{Artifacts: true}); err != nil {
		return fmt.Errorf("read while nothing can be written: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := insert("after"); err != nil {
		return fmt.Errorf("commit after the limit: %w", err)
	}
	fmt.Println("ok")
	return nil
}
