package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Restored says what Restore has done.
type Restored struct {
	Tasks    int64  // in the store now
	Replaced string // where the store of before is now; "" when there was none
}

// KeptName returns the name that Restore gives to a store that it replaces: the
// first of .replaced, .replaced-2, .replaced-3 and so on at the end of its own
// that no file has. What was kept before is never written over.
func KeptName(file string) string {
	name := file + ".replaced"
	for n := 2; taken(name); n++ {
		name = file + ".replaced-" + strconv.Itoa(n)
	}
	return name
}

// taken reports whether a store, or a rest of one, has a name.
func taken(file string) bool {
	return slices.ContainsFunc([]string{file, file + "-wal", file + "-shm"}, func(name string) bool {
		_, err := os.Lstat(name)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// Restore makes the store of a backup. The backup is checked first, whole, and
// one that is missing or damaged leaves nothing behind. A store that exists is
// an error that wraps fs.ErrExist unless replace is set; then it is kept under
// its KeptName. One that a process has open is a *LockedError. The store of
// before is moved only when the new one is ready.
func Restore(ctx context.Context, backup, file string, replace bool) (result *Restored, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return nil, fmt.Errorf("find store: %w", err)
	}
	if _, err := os.Stat(backup); err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if taken(file) && !replace {
		return nil, &fs.PathError{Op: "restore", Path: file, Err: fs.ErrExist}
	}
	result = &Restored{}
	if result.Tasks, err = Inspect(ctx, backup); err != nil {
		return nil, err
	}
	// The lock file is made beside the store, and the lock is held until the
	// store is in its place.
	held, err := lock(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock(held), held.Close()) }()
	fresh := file + ".restoring"
	if err := removeStore(fresh); err != nil {
		return nil, err
	}
	if err := prepare(ctx, backup, fresh); err != nil {
		return nil, errors.Join(err, removeStore(fresh))
	}
	if taken(file) {
		if !replace { // it was made while the backup was read
			return nil, errors.Join(&fs.PathError{Op: "restore", Path: file, Err: fs.ErrExist}, removeStore(fresh))
		}
		result.Replaced = KeptName(file)
		// A log that is left behind would be taken for that of the new store.
		for _, suffix := range []string{"-wal", "-shm", ""} {
			if err := os.Rename(file+suffix, result.Replaced+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("keep store of before: %w", err)
			}
		}
	}
	if err := os.Rename(fresh, file); err != nil {
		return nil, fmt.Errorf("put store in place: %w", err)
	}
	if dir, err := os.Open(filepath.Dir(file)); err == nil {
		_ = dir.Sync() // where the system can do that
		_ = dir.Close()
	}
	return result, nil
}

// prepare copies a backup and brings its tables up to date.
func prepare(ctx context.Context, backup, fresh string) error {
	if err := copyFile(backup, fresh); err != nil {
		return fmt.Errorf("copy backup: %w", err)
	}
	s, err := Open(ctx, fresh, Options{Readers: 1})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return removeFiles(fresh + ".lock")
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Sync(), target.Close())
}

// removeStore removes a store that nobody needs any more.
func removeStore(file string) error {
	return removeFiles(file, file+"-wal", file+"-shm", file+".lock")
}

func removeFiles(files ...string) error {
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// Inspect reads a backup, or a store that nobody has open, from its beginning
// to its end and returns how many tasks it has. It changes nothing. A file that
// is damaged, or that is no store, is an error that says so.
func Inspect(ctx context.Context, file string) (tasks int64, err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return 0, fmt.Errorf("find file: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("read store: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return 0, fmt.Errorf("%s is not a store", file)
	}
	// Without its log, what nobody writes can be read without locks and files
	// beside it.
	mode := "&immutable=1"
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		mode = ""
	}
	c, err := dial(dsn(file, "query_only(1)") + "&mode=ro" + mode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	damage := ""
	if err := c.each(ctx, func(v values) bool {
		damage, _ = v[0].(string)
		return false
	}, "PRAGMA integrity_check(1)"); err != nil {
		return 0, fmt.Errorf("%s is not a store, or is damaged: %w", file, err)
	}
	if damage != "ok" {
		return 0, fmt.Errorf("%s is damaged: %s", file, damage)
	}
	n, err := c.number(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('clock', 'tasks', 'events', 'goose_db_version')")
	if err != nil {
		return 0, fmt.Errorf("read tables of %s: %w", file, err)
	}
	if n != 4 {
		return 0, fmt.Errorf("%s is an SQLite database, but not a store of tasks", file)
	}
	return c.number(ctx, "SELECT coalesce(sum(n), 0) FROM totals")
}

// Holder returns the process that has a store open; 0 when there is none, or
// when it cannot be known.
func Holder(file string) (pid int, held bool) {
	if _, err := os.Stat(file + ".lock"); err != nil {
		return 0, false
	}
	f, err := lock(file)
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return locked.PID, true
	}
	if err == nil {
		_ = unlock(f)
		_ = f.Close()
	}
	return 0, false
}
