package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
)

// Migration is a step that makes or changes the tables.
type Migration struct {
	Version int64
	File    string // its name
	SQL     string // its text, in the form of goose
}

// Pending returns the steps that the file of a store has not taken, in order:
// all of them when there is no file. It changes nothing, also under a node.
func Pending(ctx context.Context, file string) (steps []Migration, err error) {
	has, err := appliedVersion(ctx, file)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("load migrations: %w", err)
		}
		if version <= has {
			continue
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("load migrations: %w", err)
		}
		steps = append(steps, Migration{Version: version, File: filepath.Base(name), SQL: string(text)})
	}
	return steps, nil
}

// appliedVersion returns the version of the tables, 0 when there are none.
func appliedVersion(ctx context.Context, file string) (version int64, err error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if file, err = filepath.Abs(file); err != nil {
		return 0, fmt.Errorf("find store: %w", err)
	}
	c, err := dial(dsn(file, "query_only(1)", "busy_timeout(5000)") + "&mode=ro")
	if err != nil {
		return 0, fmt.Errorf("read store %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	tables, err := c.number(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'")
	if err != nil {
		return 0, fmt.Errorf("read store %s: %w", file, err)
	}
	if tables == 0 {
		others, err := c.number(ctx, "SELECT count(*) FROM sqlite_master")
		if err == nil && others > 0 {
			err = errors.New("it is an SQLite database, but not a store of tasks")
		}
		if err != nil {
			return 0, fmt.Errorf("read store %s: %w", file, err)
		}
		return 0, nil
	}
	return c.number(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied = 1")
}
