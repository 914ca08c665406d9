// Package erp is the ERP system of the example: a database, and what may be done
// with it. The MCP servers erp-read, erp-draft and erp-post each do a part of it.
package erp

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

//go:embed schema.sql
var schema string

// System is the ERP system, which is a file. More than one process may have it open.
type System struct{ db *sql.DB }

// Refusals, with what to do instead.
var (
	ErrUnknown  = errors.New("there is no such thing in the ERP system")
	ErrExists   = errors.New("there is a document of that number already, and another call has made it")
	ErrTotal    = errors.New("the total is not units times unitPrice")
	ErrPosted   = errors.New("the document is posted already")
	ErrNoKey    = errors.New("the call has no idempotency key: send one in _meta as " + IdempotencyKey)
	ErrOtherKey = errors.New("the idempotency key was used for a call with other arguments")
)

// Open opens the file and fills one that is new.
func Open(ctx context.Context, file string) (*System, error) {
	s, err := open(file, "&_pragma=foreign_keys(1)&_txlock=immediate&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		var tables int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil || tables > 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill ERP: %w", err), s.Close())
	}
	return s, nil
}

// OpenToRead opens the file for reading: the database refuses every write.
func OpenToRead(ctx context.Context, file string) (*System, error) {
	filled, err := Open(ctx, file)
	if err != nil {
		return nil, err
	}
	if err := filled.Close(); err != nil {
		return nil, err
	}
	return open(file, "&_pragma=query_only(1)")
}

func open(file, options string) (*System, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)"+options)
	if err != nil {
		return nil, fmt.Errorf("open ERP: %w", err)
	}
	return &System{db}, nil
}

// Close closes the file.
func (s *System) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close ERP: %w", err)
	}
	return nil
}

func (s *System) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// unknown says what there is not.
func unknown(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrUnknown)
	}
	return fmt.Errorf("read %s: %w", what, err)
}
