// Package postgres keeps tasks in a PostgreSQL database that several nodes use
// at once. Changes that wait are committed together: a committer locks what
// their guards are about in one round trip, decides which of them hold, and
// writes all of those and commits in a second one.
//
// A commit whose answer was lost is looked up before anybody is answered: each
// connection that commits has a row of its own with the number of its last
// transaction, which stays locked while one is under way. What was not
// committed is tried again, what was is acknowledged. So nothing that was
// acknowledged is lost and nothing is applied twice. Only when the database
// stays away for longer than Options.Resolve does Commit answer
// store.ErrUnavailable for a change that may have been made.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
)

// Options of a store. The zero Options are good ones.
type Options struct {
	// Readers is how many connections read at once; 0: 4, or what
	// pool_max_conns of the DSN says.
	Readers int
	// Committers is how many connections commit changes at once; 0: 2.
	Committers int
	// Batch is how many changes one transaction holds at most; 0: 256, at most
	// 4,096.
	Batch int
	// Resolve is how long the outcome of a commit is looked for when the
	// connection broke before the answer came; 0: 1 min.
	Resolve time.Duration
	// Observe, when set, is called after each transaction with how many changes
	// it had and how long it took. It must be fast and safe for concurrent use.
	Observe func(batch int, took time.Duration)
}

func (o *Options) setDefaults() {
	if o.Committers <= 0 {
		o.Committers = 2
	}
	if o.Batch <= 0 {
		o.Batch = 256
	}
	o.Batch = min(o.Batch, maxBatch)
	if o.Resolve <= 0 {
		o.Resolve = time.Minute
	}
}

// Store is a store in a PostgreSQL database. It implements store.Store.
type Store struct {
	pool  *pgxpool.Pool
	queue *queue
	// joined has, by epoch, when this process has joined. A database that went back
	// in time gives an epoch out again.
	joined sync.Map
	fold   *folder
	gate   gate

	closing sync.Once
}

var _ store.Store = (*Store)(nil)

var errClosed = fmt.Errorf("%w: store is closed", store.ErrUnavailable)

// Open opens the store in a database, and makes or updates its tables. The DSN
// is a URL or the keywords of libpq, TLS included; the tables are in the first
// schema of its search_path, which is made when it is not there.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, unavailable(err)
	}
	return open(ctx, config, opts)
}

func open(ctx context.Context, config *pgxpool.Config, opts Options) (*Store, error) {
	opts.setDefaults()
	if opts.Readers > 0 {
		config.MaxConns = int32(min(opts.Readers, 1<<16))
	}
	if err := migrate(ctx, config); err != nil {
		return nil, unavailable(fmt.Errorf("open database %s: %w", place(config), err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, unavailable(fmt.Errorf("open database %s: %w", place(config), err))
	}
	s := &Store{pool: pool}
	s.fold = newFolder(s)
	s.queue = newQueue(config.ConnConfig, &opts, s.fold.wake)
	return s, nil
}

// place names a database for people, without its secrets.
func place(config *pgxpool.Config) string {
	c := config.ConnConfig
	return fmt.Sprintf("%s on %s", c.Database, c.Host)
}

// Close commits what waits, and closes the store. When the outcome of a commit
// is being looked for, it waits for that.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.stop()
		s.fold.stop()
		s.pool.Close()
	})
	return nil
}

// Size returns how many bytes the database has.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	if err := s.pool.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size); err != nil {
		return 0, fmt.Errorf("measure store: %w", err)
	}
	return size, nil
}

// Ping reports whether the store can be read and written, by doing both. Unlike
// Commit, it does not wait for the outcome when ctx ends.
func (s *Store) Ping(ctx context.Context) error {
	o := newOp(&store.Change{})
	if err := s.queue.put(ctx, o); err != nil {
		return err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

// ErrBackup says that the database is backed up with its own tools. It is an
// errors.ErrUnsupported.
var ErrBackup error = backupError{}

type backupError struct{}

// Error says what to do instead.
func (backupError) Error() string {
	return "a PostgreSQL store is backed up with the tools of its server: pg_dump, or continuous archiving"
}

func (backupError) Unwrap() error { return errors.ErrUnsupported }

// Backup is not supported: it returns ErrBackup, and makes no file.
func (s *Store) Backup(context.Context, string) error { return ErrBackup }

// session is what statements are sent to: a connection or a transaction.
type session interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// read calls do with a connection, and again with another one when that is
// found to be broken: a server that was restarted leaves a pool of them. A
// server that does not answer is given up.
func (s *Store) read(ctx context.Context, do func(ctx context.Context, c *pgxpool.Conn) error) error {
	return s.bounded(ctx, func(ctx context.Context) (err error) {
		for range s.pool.Config().MaxConns + 1 {
			if err = s.try(ctx, do); !isBroken(err) || ctx.Err() != nil {
				break
			}
		}
		return err
	})
}

// bounded calls do, which uses the database, unless that is away.
func (s *Store) bounded(ctx context.Context, do func(ctx context.Context) error) error {
	leave, err := s.gate.enter()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = do(bounded)
	if ctx.Err() != nil && err != nil {
		leave(context.Canceled)
	} else {
		leave(err)
	}
	return unavailable(err)
}

// try calls do with a connection.
func (s *Store) try(ctx context.Context, do func(ctx context.Context, c *pgxpool.Conn) error) error {
	c, err := s.pool.Acquire(ctx)
	for ; isFull(err) && s.pool.Stat().TotalConns() > 0; c, err = s.pool.Acquire(ctx) {
		select { // one of those that there are will be free
		case <-time.After(fullPause):
		case <-ctx.Done():
			return err
		}
	}
	if err != nil {
		if s.queue.isClosed() {
			return errClosed
		}
		return err
	}
	defer c.Release()
	return do(ctx, c)
}

// transact runs do in a transaction that writes, again when it collided with
// another.
func (s *Store) transact(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return s.bounded(ctx, func(ctx context.Context) (err error) {
		for range maxAttempts {
			err = s.try(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
				return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return do(ctx, tx) })
			})
			if !isCollision(err) {
				break
			}
			runtime.Gosched()
		}
		return err
	})
}
