package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables up to date. It refuses tables that a newer program
// has made in a way that this one cannot use.
func migrate(ctx context.Context, dsn string) (err error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read version of the tables: %w", err)
	}
	if has > knows {
		return checkNewer(ctx, db, has, knows)
	}
	if has == knows {
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	return nil
}

// checkNewer lets a program use tables that are newer than it, unless they say
// that they need a newer program.
func checkNewer(ctx context.Context, db *sql.DB, has, knows int64) error {
	var needs int64
	if err := db.QueryRowContext(ctx, "SELECT min_program FROM schema_info").Scan(&needs); err != nil {
		return fmt.Errorf("read what the tables need: %w", err)
	}
	if needs > knows {
		return fmt.Errorf("its tables have version %d and need a program that knows %d, this one knows %d: run the newer program, or restore a backup", has, needs, knows)
	}
	return nil
}
