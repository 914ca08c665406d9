package transfer_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/storetest"
	"handoff.example/handoff/internal/store/transfer"
)

func openFile(t *testing.T, file string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// execute changes a store that nobody has open, behind its back.
func execute(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if result, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	} else if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// filled makes a store that has some of everything.
func filled(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "from.db")
	s := openFile(t, file)
	storetest.Fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMoveFile moves a store to another file; package postgres has the test that
// moves it to a database and back.
func TestMoveFile(t *testing.T) {
	t.Parallel()
	from := filled(t)
	to := filepath.Join(t.TempDir(), "to.db")
	progress := map[string][2]int64{}
	report, err := transfer.Move(t.Context(), "sqlite:"+from, "sqlite:"+to, transfer.Options{Progress: func(table string, done, total int64) {
		if before := progress[table]; done < before[0] || done > total || before[1] != 0 && before[1] != total {
			t.Errorf("progress of %s from %v to %d of %d", table, before, done, total)
		}
		progress[table] = [2]int64{done, total}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Tasks != 43 || report.Claims != 46 || report.Grants != 43 || report.Jobs != 44 || report.Webhooks != 3 ||
		report.Delegations != 3 || report.Inbox != 2 || report.Peers != 2 || report.Released == 0 || report.Took <= 0 {
		t.Errorf("report: %+v", report)
	}
	want := map[string][2]int64{"tasks": {report.Tasks, report.Tasks}, "events": {report.Events, report.Events}}
	if diff := cmp.Diff(want, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	before, s := openFile(t, from), openFile(t, to)
	answers := storetest.Ask(t, s)
	if diff := storetest.Ask(t, before).Diff(answers); diff != "" {
		t.Errorf("answers (-before +after):\n%s", diff)
	}
	storetest.GoOn(t, s, answers)
}

func TestMoveEmpty(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	from, to := filepath.Join(folder, "from.db"), filepath.Join(folder, "to.db")
	openFile(t, from).Close()
	report, err := transfer.Move(t.Context(), "sqlite:"+from, "sqlite:"+to, transfer.Options{})
	if report.Took = 0; err != nil || report != (transfer.Report{}) {
		t.Errorf("report: %+v, %v", report, err)
	}
}

// TestRefused moves what must not be moved, and sees that nothing comes of it.
func TestRefused(t *testing.T) {
	t.Parallel()
	from := filled(t)
	full := filled(t)
	used := filled(t)
	openFile(t, used)
	fresh := func() string { return "sqlite:" + filepath.Join(t.TempDir(), "to.db") }
	unwritable := "sqlite:" + filepath.Join(t.TempDir(), "no", "folder.db")
	for _, tt := range []struct {
		name, from, to string
		want           error
		says           string
	}{
		{"same", "sqlite:" + from, "sqlite:" + from, nil, "the same"},
		{"not there", "sqlite:" + from + ".none", fresh(), fs.ErrNotExist, "there is no store"},
		{"source in use", "sqlite:" + used, fresh(), transfer.ErrInUse, "stop the node first"},
		{"target in use", "sqlite:" + from, "sqlite:" + used, transfer.ErrInUse, "stop the node first"},
		{"target not empty", "sqlite:" + from, "sqlite:" + full, transfer.ErrNotEmpty, "not empty"},
		{"no folder", "sqlite:" + from, unwritable, nil, "folder"},
		{"no path", "sqlite:", fresh(), nil, "path of a file"},
		{"memory", "sqlite::memory:", fresh(), nil, "path of a file"},
		{"unknown", "mysql://ann:s3cr3t@host/db", fresh(), nil, "postgres://"},
		{"no server", "sqlite:" + from, "postgres://ann:s3cr3t@127.0.0.1:1/x?sslmode=disable", nil, "open the store to fill"},
		{"bad address", "sqlite:" + from, "postgres://ann:s3cr3t@:::/", nil, "address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := transfer.Move(t.Context(), tt.from, tt.to, transfer.Options{})
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v, want %v that says %q", err, tt.want, tt.says)
			}
			if path, ok := strings.CutPrefix(tt.to, "sqlite:"); ok && filepath.Base(path) == "to.db" {
				wantNothing(t, path)
			}
		})
	}
	if _, err := os.Stat(from + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made to be read, %v", err)
	}
}

// TestDamaged moves stores in which something is missing: the new one stays
// empty.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"last events":   "DELETE FROM events WHERE id = (SELECT max(id) FROM events)",
		"middle events": "DELETE FROM events WHERE id = (SELECT id FROM events LIMIT 1 OFFSET 60)",
		"body":          "UPDATE events SET body = x'01ff' WHERE id = (SELECT max(id) FROM events)",
		"task":          "UPDATE tasks SET realm = 1 WHERE key = 5",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := filled(t)
			execute(t, from, damage)
			to := filepath.Join(t.TempDir(), "to.db")
			if _, err := transfer.Move(t.Context(), "sqlite:"+from, "sqlite:"+to, transfer.Options{}); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("moved: %v", err)
			}
			wantNothing(t, to)
			openFile(t, to).Close()
			execute(t, from, "DELETE FROM tasks WHERE key = 6")
			if _, err := transfer.Move(t.Context(), "sqlite:"+from, "sqlite:"+to, transfer.Options{}); err == nil {
				t.Error("moved")
			}
			if n, err := sqlite.Inspect(t.Context(), to); n != 0 || err != nil {
				t.Errorf("into a store that was there: %d tasks came over, %v", n, err)
			}
			if _, err := transfer.Move(t.Context(), "sqlite:"+filled(t), "sqlite:"+to, transfer.Options{}); err != nil {
				t.Errorf("move afterwards: %v", err)
			}
		})
	}
}

// TestMoveEnds ends a move on its way.
func TestMoveEnds(t *testing.T) {
	t.Parallel()
	from, to := filled(t), filepath.Join(t.TempDir(), "to.db")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := transfer.Move(ctx, "sqlite:"+from, "sqlite:"+to, transfer.Options{Progress: func(string, int64, int64) { cancel() }})
	if err == nil {
		t.Error("moved")
	}
	wantNothing(t, to)
}

// wantNothing checks that a store was not made, or is gone with all its files.
func wantNothing(t *testing.T, file string) {
	t.Helper()
	left, err := filepath.Glob(file + "*")
	if len(left) > 0 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
}
