//go:build unix

package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file for this process alone, or fails at once. The
// lock goes with the process, however it ends.
func tryLock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// unlock gives the lock back, also where a process that is just being started
// still shares the file.
func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// lockData locks the database itself, which may have several names. SQLite's own
// locks are of another kind and are not affected.
func lockData(f *os.File) error { return tryLock(f) }

func unlockData(f *os.File) error { return unlock(f) }
