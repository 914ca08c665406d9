package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// shelf keeps rows in memory, and fails when it is told to.
type shelf struct {
	mu      sync.Mutex
	rows    []store.AuditRow
	batches int
	away    bool
	expired time.Time
}

func (s *shelf) AppendAudit(_ context.Context, rows []store.AuditRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return store.ErrUnavailable
	}
	s.batches++
	s.rows = append(s.rows, rows...)
	return nil
}

func (s *shelf) Audit(context.Context, store.AuditQuery) ([]store.AuditRow, error) {
	return s.rows, nil
}

func (s *shelf) ExpireAudit(_ context.Context, before time.Time, _ int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = before
	return 0, nil
}

func (s *shelf) look(away bool) (rows, batches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	return len(s.rows), s.batches
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEntriesGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		l := audit.New(s, quiet())
		l.Set(audit.Settings{Level: audit.Changes, Retention: time.Hour})
		l.Start()
		for range 10 {
			l.Record(&audit.Entry{At: time.Now(), Subject: "ann", Operation: "SendMessage", Result: audit.OK})
		}
		synctest.Wait()
		if n, _ := s.look(false); n != 0 {
			t.Errorf("%d entries did not gather", n)
		}
		time.Sleep(100 * time.Millisecond) // of the fake clock
		synctest.Wait()
		if n, batches := s.look(true); n != 10 || batches != 1 {
			t.Errorf("%d entries in %d transactions after 100 ms, want 10 in 1", n, batches)
		}
		l.Record(&audit.Entry{Subject: "ben"})
		if err := l.Commit(t.Context(), &audit.Entry{Subject: "root"}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a commit without a store: %v", err)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		s.look(false)
		if err := l.Commit(t.Context(), &audit.Entry{Subject: "root"}); err != nil {
			t.Error(err)
		}
		if n, _ := s.look(false); n != 12 || s.rows[10].Subject != "ben" || s.rows[11].Subject != "root" {
			t.Errorf("%d entries, want that of ben and then that of root behind the 10", n)
		}
		l.Record(&audit.Entry{Subject: "last"})
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if n, _ := s.look(false); n != 13 {
			t.Errorf("%d entries after the stop, want 13", n)
		}
		if s.expired.IsZero() {
			t.Error("old entries are never looked for")
		}
	})
}

func TestEntriesAreBoundedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := &shelf{away: true}
	l := audit.New(s, quiet())
	for range 20_010 {
		l.Record(&audit.Entry{Subject: "ann"})
	}
	if n := l.Lost(); n != 10 {
		t.Errorf("%d entries were given up, want 10", n)
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	var none *audit.Log
	l := audit.New(&shelf{}, quiet())
	for _, test := range []struct {
		level          audit.Level
		changes, reads bool
	}{{audit.Off, false, false}, {audit.Changes, true, false}, {audit.All, true, true}} {
		l.Set(audit.Settings{Level: test.level, Content: true})
		if l.Wants(true) != test.changes || l.Wants(false) != test.reads || l.Content() != (test.level != audit.Off) {
			t.Errorf("level %d: %v %v %v", test.level, l.Wants(true), l.Wants(false), l.Content())
		}
	}
	if none.Wants(true) || none.Content() || none.Stop(t.Context()) != nil {
		t.Error("no log is a log")
	}
}

func TestEntriesAsTheyAreStored(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "handoff.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	l := audit.New(s, quiet())
	for _, content := range []string{``, `{"parts":[{"text":"a"}]}`, `"` + strings.Repeat("x", audit.MaxContent) + `"`, `{"not JSON`} {
		e := &audit.Entry{At: time.UnixMilli(1), Subject: "ann\xff", Task: "t", Operation: "SendMessage", Content: []byte(content)}
		if err := l.Commit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	list, err := l.Read(t.Context(), store.AuditQuery{Task: "t", Limit: 9})
	if err != nil || len(list) != 4 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for i, want := range []string{``, `{"parts":[{"text":"a"}]}`, `{"bytes":65538}`, ``} {
		var e audit.Entry
		if err := json.Unmarshal(list[i].Body, &e); err != nil || e.Operation != "SendMessage" || string(e.Content) != want {
			t.Errorf("entry %d is %s, %v", i, list[i].Body, err)
		}
	}
}
