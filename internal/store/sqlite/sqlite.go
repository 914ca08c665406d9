// Package sqlite keeps tasks in one SQLite file. One goroutine owns the only
// connection that writes and commits all changes that wait in one transaction;
// readers stand beside it and never wait for it.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"handoff.example/handoff/internal/store"
)

// Options of a store. The zero Options are good ones.
type Options struct {
	// Readers is how many reads run at once; 0: 4.
	Readers int
	// Batch is how many changes one transaction holds at most; 0: 256.
	Batch int
	// BusyTimeout is how long a commit waits for a process that has locked the
	// database, before it fails with store.ErrUnavailable; 0: 2 s.
	BusyTimeout time.Duration
	// Observe, when set, is called after each transaction with how many changes
	// it had and how long it took. It must be fast.
	Observe func(batch int, took time.Duration)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (o *Options) setDefaults() {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Batch <= 0 {
		o.Batch = 256
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Store is a store in a SQLite file. It implements store.Store.
type Store struct {
	file    string
	now     func() time.Time
	lock    *os.File
	data    *os.File // the database, held open and locked
	writer  *writer
	readers chan *conn
	pool    int

	closing sync.Once
	closed  chan struct{}
	err     error // of Close
}

var _ store.Store = (*Store)(nil)

var errClosed = fmt.Errorf("%w: store is closed", store.ErrUnavailable)

// Open opens the store in a file, which it makes when there is none, and takes
// it for this process alone: while another process has it, Open fails at once
// with a *LockedError.
func Open(ctx context.Context, file string, opts Options) (*Store, error) {
	opts.setDefaults()
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, unavailable(fmt.Errorf("find store: %w", err))
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // the lock is on the file, not on one of its names
	}
	s := &Store{file: file, now: opts.Now, closed: make(chan struct{}), readers: make(chan *conn, opts.Readers)}
	if s.lock, err = lock(file); err != nil {
		return nil, err
	}
	if err := s.open(ctx, &opts); err != nil {
		if locked, ok := errors.AsType[*LockedError](err); ok {
			return nil, errors.Join(locked, s.release())
		}
		return nil, errors.Join(unavailable(fmt.Errorf("open store %s: %w", file, err)), s.release())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, opts *Options) error {
	// The file holds what people said to agents: it is made for its owner.
	f, err := os.OpenFile(s.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// It stays open, since closing it would drop the locks that SQLite has.
	s.data = f
	if lockData(f) != nil {
		return &LockedError{File: s.file} // under another name
	}
	busy := "busy_timeout(" + strconv.FormatInt(opts.BusyTimeout.Milliseconds(), 10) + ")"
	pragmas := []string{
		busy,
		"journal_mode(wal)",
		"synchronous(full)",
		"temp_store(memory)",
		"cache_size(-32768)",
		"wal_autocheckpoint(4000)",
		"journal_size_limit(67108864)",
	}
	if err := migrate(ctx, dsn(s.file, pragmas...)); err != nil {
		return err
	}
	c, err := dial(dsn(s.file, pragmas...))
	if err != nil {
		return err
	}
	if s.writer, err = newWriter(c, opts); err != nil {
		return errors.Join(err, c.close())
	}
	for ; s.pool < opts.Readers; s.pool++ {
		c, err := dial(dsn(s.file, busy, "query_only(1)", "temp_store(memory)", "cache_size(-8192)"))
		if err != nil {
			return err
		}
		s.readers <- c
	}
	go s.writer.loop()
	return nil
}

// Size returns how many bytes the files of the store have.
func (s *Store) Size(context.Context) (int64, error) {
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(s.file + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("measure store: %w", err)
		}
		size += info.Size()
	}
	return size, nil
}

// Close commits what waits, and closes the store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.writer.stop()
		s.err = s.release()
	})
	return s.err
}

// release closes what is open, once no reader is under way.
func (s *Store) release() error {
	var errs []error
	for range s.pool {
		errs = append(errs, (<-s.readers).close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.conn.close())
	}
	if s.data != nil {
		errs = append(errs, unlockData(s.data), s.data.Close())
	}
	return errors.Join(append(errs, unlock(s.lock), s.lock.Close())...)
}

// read calls do with a connection for reading.
func (s *Store) read(ctx context.Context, do func(c *conn) error) error {
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	select {
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	case c := <-s.readers:
		defer func() { s.readers <- c }()
		return do(c)
	}
}

// snapshot calls do with a connection whose reads are all of one moment.
func (s *Store) snapshot(ctx context.Context, do func(c *conn) error) error {
	return s.read(ctx, func(c *conn) error {
		if _, err := c.run("BEGIN"); err != nil {
			return unavailable(err)
		}
		err := do(c)
		if _, end := c.run("ROLLBACK"); err == nil {
			err = unavailable(end)
		}
		return err
	})
}

// Ping reports whether the store can be read and written, by doing both.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.isThere(); err != nil {
		return unavailable(err)
	}
	err := s.read(ctx, func(c *conn) error {
		_, err := c.number(context.Background(), "SELECT rev FROM clock")
		return unavailable(err)
	})
	if err != nil {
		return err
	}
	return s.write(ctx, func(*writer, time.Time) error { return nil })
}

// isThere checks that the file still has its name. A store that was removed under
// a running node goes on in a file that nobody will find again.
func (s *Store) isThere() error {
	open, err := s.data.Stat()
	if err != nil {
		return fmt.Errorf("look at store: %w", err)
	}
	named, err := os.Stat(s.file)
	if err != nil {
		return fmt.Errorf("find store: %w", err)
	}
	if !os.SameFile(open, named) {
		return fmt.Errorf("store %s was replaced by another file while it was in use", s.file)
	}
	return nil
}

// Backup writes a consistent copy of the store to a new file, which only its
// owner can read. It does not hold up commits. A file that exists is left as
// it is, and the error wraps fs.ErrExist.
func (s *Store) Backup(ctx context.Context, file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return unavailable(fmt.Errorf("create backup: %w", err))
	}
	defer f.Close()
	err = s.copyTo(ctx, file)
	if err == nil {
		err = f.Sync()
	}
	if dir, openErr := os.Open(filepath.Dir(file)); openErr == nil {
		_ = dir.Sync() // the name of the file too, where the system can do that
		dir.Close()
	}
	if err != nil {
		_ = os.Remove(file)
		return unavailable(fmt.Errorf("write backup %s: %w", file, err))
	}
	return nil
}

// copyTo copies the store over an empty file, on a connection of its own.
func (s *Store) copyTo(ctx context.Context, file string) error {
	c, err := dial(dsn(s.file))
	if err != nil {
		return err
	}
	err = c.each(ctx, nil, "VACUUM INTO ?", file)
	return errors.Join(err, c.close())
}
