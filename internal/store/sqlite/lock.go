package sqlite

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"handoff.example/handoff/internal/store"
)

// LockedError says that another process has the store open.
type LockedError struct {
	File string // the database
	PID  int    // of the other process; 0 when unknown
}

// Error says who has the store and what to do.
func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("store %s is in use by %s: stop it first, or name another file", e.File, who)
}

// Unwrap makes the error one of the store.
func (e *LockedError) Unwrap() error { return store.ErrUnavailable }

// lock takes the lock file of a database. The file stays when it is given
// back: removing it would let two processes lock two files of one name.
func lock(database string) (*os.File, error) {
	f, err := os.OpenFile(database+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unavailable(fmt.Errorf("open lock file: %w", err))
	}
	if tryLock(f) != nil {
		defer f.Close()
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(holder)))
		return nil, &LockedError{File: database, PID: pid}
	}
	// Only the lock counts; the number is for the error message of others, and
	// a full disk is no reason not to start.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}
