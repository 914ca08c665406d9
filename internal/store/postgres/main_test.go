//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

var (
	// shared is the server that the tests share, nil when the environment names
	// another.
	shared *postgrestest.Server
	// sharedDSN is its address.
	sharedDSN string
	schemas   atomic.Int64
)

// TestMain runs the tests on a server that the environment names, or on one of
// their own. They fail when there is none.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	if sharedDSN = os.Getenv("HANDOFF_TEST_POSTGRES"); sharedDSN == "" {
		var err error
		if shared, err = postgrestest.New(false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		sharedDSN = shared.DSN()
	}
	code = m.Run()
	if err := postgrestest.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// newSchema returns the name of a schema that nobody uses, and sees to it that
// it is removed.
func newSchema(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("handoff_test_%d_%d", os.Getpid(), schemas.Add(1))
	tb.Cleanup(func() {
		if shared != nil {
			return // goes with its server
		}
		execute(tb, sharedDSN, "DROP SCHEMA IF EXISTS "+name+" CASCADE")
	})
	return name
}

// execute runs statements on a connection of its own.
func execute(tb testing.TB, dsn string, statements ...string) {
	tb.Helper()
	ctx := context.Background() // that of the test may be over
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			tb.Errorf("%s: %v", statement, err)
		}
	}
}

// number returns the integer that a query answers.
func number(tb testing.TB, dsn, query string) (n int64) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	if err := conn.QueryRow(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

// openAt opens a node on a database.
func openAt(tb testing.TB, dsn string, opts postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// dumped is a store whose backups are made as ErrBackup says: with pg_dump. The
// suite has one of its tests for that.
type dumped struct {
	store.Store
	schema string
}

func (d *dumped) Backup(ctx context.Context, file string) error {
	if err := d.Store.Backup(ctx, file); !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("backup of the store itself: %w", err)
	}
	if _, err := os.Lstat(file); err == nil {
		return &fs.PathError{Op: "backup", Path: file, Err: fs.ErrExist}
	}
	return dump(ctx, sharedDSN, d.schema, file)
}
