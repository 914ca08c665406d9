//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
	"handoff.example/handoff/internal/store/transfer"
)

// urlOf returns the address of a schema as a URL.
func urlOf(schema string) string {
	if shared == nil {
		return withSchema(sharedDSN, schema)
	}
	return withSchema(shared.URL(), schema)
}

// TestTransfer moves a store from a file to a database, to another schema of
// it, and back to a file. Whatever it is asked, it says the same.
func TestTransfer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// One clock shows the same time for long, the other jumps.
	clock := time.Now().Add(-time.Hour)
	calls := 0
	first, err := sqlite.Open(t.Context(), filepath.Join(folder, "first.db"), sqlite.Options{Now: func() time.Time {
		if calls++; calls%20 == 0 {
			clock = clock.Add(7 * time.Second)
		}
		return clock
	}})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	one, two := newSchema(t), newSchema(t)
	places := []string{"sqlite:" + filepath.Join(folder, "first.db"), urlOf(one), urlOf(two), "sqlite:" + filepath.Join(folder, "last.db")}
	for i := range places[1:] {
		report, err := transfer.Move(t.Context(), places[i], places[i+1], transfer.Options{})
		if err != nil {
			t.Fatalf("from %s to %s: %v", places[i], places[i+1], err)
		}
		if report.Tasks != 43 || report.Claims != 46 || report.Grants != 43 || report.Jobs != 44 || report.Webhooks != 3 ||
			report.Delegations != 3 || report.Inbox != 2 || report.Peers != 2 || report.Released == 0 {
			t.Errorf("report: %+v", report)
		}
	}
	// Tokens of pages are good in the store that gave them alone.
	firstPage := func(s store.Store) string {
		t.Helper()
		page, err := s.List(t.Context(), store.ForAll(), store.ListQuery{PageSize: 3})
		if err != nil || page.Next == "" {
			t.Fatalf("first page: %+v, %v", page, err)
		}
		return page.Next
	}
	token := ""
	var want *storetest.Answers
	for i, open := range []func() (store.Store, error){
		func() (store.Store, error) {
			return sqlite.Open(t.Context(), filepath.Join(folder, "first.db"), sqlite.Options{})
		},
		func() (store.Store, error) { return postgres.Open(t.Context(), urlOf(one), postgres.Options{}) },
		func() (store.Store, error) { return postgres.Open(t.Context(), urlOf(two), postgres.Options{}) },
		func() (store.Store, error) {
			return sqlite.Open(t.Context(), filepath.Join(folder, "last.db"), sqlite.Options{})
		},
	} {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 { // the kind of store has changed
			if _, err := s.List(t.Context(), store.ForAll(), store.ListQuery{PageSize: 3, Cursor: token}); !errors.Is(err, store.ErrBadCursor) {
				t.Errorf("token of number %d in the next: %v", i-1, err)
			}
		}
		token = firstPage(s)
		got := storetest.Ask(t, s)
		if i == 0 {
			want = got
		} else {
			if diff := want.Diff(got); diff != "" {
				t.Errorf("answers of number %d (-want +got):\n%s", i, diff)
			}
			storetest.GoOn(t, s, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTransferRefused moves from and to databases that are in use or not empty.
func TestTransferRefused(t *testing.T) {
	t.Parallel()
	used, full, empty := newSchema(t), newSchema(t), newSchema(t)
	node := openAt(t, urlOf(used), postgres.Options{})
	epoch, err := node.Join(t.Context(), store.Node{Name: "busy"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{used, full} {
		if err := openAt(t, urlOf(schema), postgres.Options{}).Commit(t.Context(), working("t")); err != nil {
			t.Fatal(err)
		}
	}
	file := func() string { return "sqlite:" + filepath.Join(t.TempDir(), "s.db") }
	for _, tt := range []struct {
		name, from, to string
		want           error
		says           string
	}{
		{"from one in use", urlOf(used), file(), transfer.ErrInUse, `stop its nodes first, or wait until their leases have run out: "busy"`},
		{"to one in use", urlOf(full), urlOf(used), transfer.ErrInUse, `"busy"`},
		{"to one that is full", urlOf(full), urlOf(full) + "&application_name=x", transfer.ErrNotEmpty, "not empty"},
		{"to a database that is not there", urlOf(full), strings.Replace(urlOf(empty), "/postgres?", "/none?", 1), store.ErrUnavailable, "none"},
	} {
		_, err := transfer.Move(t.Context(), tt.from, tt.to, transfer.Options{})
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want %v that says %q", tt.name, err, tt.want, tt.says)
		}
	}
	if err := node.Leave(t.Context(), epoch); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Move(t.Context(), urlOf(used), urlOf(empty), transfer.Options{}); err != nil {
		t.Errorf("move when the node has left: %v", err)
	}
}

// TestTransferKeepsNodesOut has a node join while a store is moved: it waits.
func TestTransferKeepsNodesOut(t *testing.T) {
	t.Parallel()
	from, to := newSchema(t), newSchema(t)
	nodes := []*postgres.Store{openAt(t, urlOf(from), postgres.Options{}), openAt(t, urlOf(to), postgres.Options{})}
	if err := nodes[0].Commit(t.Context(), working("t")); err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, len(nodes))
	moved, err := false, error(nil)
	_, err = transfer.Move(t.Context(), urlOf(from), urlOf(to), transfer.Options{Progress: func(table string, _, _ int64) {
		if moved {
			return
		}
		moved = true
		for _, s := range nodes {
			go func() {
				_, err := s.Join(t.Context(), store.Node{Name: "early"}, time.Hour)
				joined <- err
			}()
		}
		for number(t, sharedDSN, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IN ('"+from+".nodes'::regclass, '"+to+".nodes'::regclass)") < 2 {
			select {
			case err := <-joined:
				t.Errorf("a node joined meanwhile, %v", err)
				return
			default:
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range nodes {
		if err := <-joined; err != nil {
			t.Errorf("join: %v", err)
		}
	}
	if all, err := nodes[1].Nodes(t.Context()); err != nil || len(all) != 1 || !all[0].Alive {
		t.Errorf("nodes: %+v, %v", all, err)
	}
	if row, err := nodes[1].Task(t.Context(), store.ForAll(), "t"); err != nil || row.State != a2a.StateWorking {
		t.Errorf("task: %+v, %v", row, err)
	}
}

// TestTransferThatDoesNotFit moves a store with a task that the database
// refuses: nothing of it comes over, and another one can.
func TestTransferThatDoesNotFit(t *testing.T) {
	t.Parallel()
	fill := func(contexts ...string) (dsn string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "s.db")
		s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range contexts {
			c := working(fmt.Sprint(i))
			c.Insert.Context = text
			if err := s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return "sqlite:" + file
	}
	noise := make([]byte, 9000) // more than an index takes, and not to be compressed
	rand.NewChaCha8([32]byte{}).Read(noise)
	to := urlOf(newSchema(t))
	if _, err := transfer.Move(t.Context(), fill("c", string(noise), "d"), to, transfer.Options{}); err == nil || !strings.Contains(err.Error(), "write tasks") {
		t.Errorf("moved what does not fit: %v", err)
	}
	if report, err := transfer.Move(t.Context(), fill("c", "d"), to, transfer.Options{}); err != nil || report.Tasks != 2 {
		t.Errorf("move afterwards: %+v, %v", report, err)
	}
}
