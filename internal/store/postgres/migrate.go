package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the files that make the tables, in the form of goose, for
// those who want to see or run them before a node does.
func Migrations() fs.FS {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return migrations // the folder is embedded
	}
	return files
}

// migrate brings the tables up to date, one node at a time. It refuses a server
// that is too old, and tables that a newer program has made in a way that this
// one cannot use.
func migrate(ctx context.Context, config *pgxpool.Config) (err error) {
	lock, err := pgx.ConnectConfig(ctx, config.ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close(context.WithoutCancel(ctx))) }()
	if err := prepareSchema(ctx, lock, schema(config)); err != nil {
		return err
	}
	db := stdlib.OpenDB(*config.ConnConfig.Copy())
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Migrations(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read version of the tables: %w", err)
	}
	if has > knows {
		return checkNewer(ctx, lock, has, knows)
	}
	if has == knows {
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	return nil
}

// prepareSchema checks the server, makes the schema when it is not there, and
// takes the lock under which the tables are changed, until conn is closed.
func prepareSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var version int
	var name string
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&version, &name); err != nil {
		return fmt.Errorf("read version of the server: %w", err)
	}
	if version < minVersion {
		return fmt.Errorf("the server is PostgreSQL %s: at least PostgreSQL %d is needed", name, minVersion/10000)
	}
	if _, err := conn.Exec(ctx, "SET lock_timeout = 0"); err != nil {
		return fmt.Errorf("wait for other nodes: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended('handoff migration of ' || $1::text, 0))", schema); err != nil {
		return fmt.Errorf("wait for other nodes: %w", err)
	}
	if schema == "" {
		return nil
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL", schema).Scan(&exists); err != nil {
		return fmt.Errorf("look for schema: %w", err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return fmt.Errorf("create schema: %w", err)
		}
	}
	return nil
}

// checkNewer lets a program use tables that are newer than it, as in a rolling
// upgrade or on its way back, unless they say that they need a newer program.
func checkNewer(ctx context.Context, conn *pgx.Conn, has, knows int64) error {
	var needs int64
	if err := conn.QueryRow(ctx, "SELECT min_program FROM schema_info").Scan(&needs); err != nil {
		return fmt.Errorf("read what the tables need: %w", err)
	}
	if needs > knows {
		return fmt.Errorf("its tables have version %d and need a program that knows %d, this one knows %d: run the newer program", has, needs, knows)
	}
	return nil
}

// Migration is a step that makes or changes the tables.
type Migration struct {
	Version int64
	File    string // its name
	SQL     string // its text, in the form of goose
}

// Pending returns the steps that a database has not taken, in order. It changes
// nothing.
func Pending(ctx context.Context, dsn string) (steps []Migration, err error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, unavailable(err)
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, unavailable(fmt.Errorf("open database %s: %w", place(config), err))
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	has, err := appliedVersion(ctx, conn)
	if err != nil {
		return nil, unavailable(fmt.Errorf("read version of the tables: %w", err))
	}
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return nil, fmt.Errorf("load migrations: %w", err)
		}
		if version <= has {
			continue
		}
		text, err := fs.ReadFile(Migrations(), file)
		if err != nil {
			return nil, fmt.Errorf("load migrations: %w", err)
		}
		steps = append(steps, Migration{Version: version, File: file, SQL: string(text)})
	}
	return steps, nil
}

// appliedVersion returns the version of the tables, 0 when there are none.
func appliedVersion(ctx context.Context, conn *pgx.Conn) (version int64, err error) {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	return version, err
}
