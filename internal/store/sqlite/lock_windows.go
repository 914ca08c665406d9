//go:build windows

package sqlite

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file for this process alone, or fails at once. The
// lock goes with the process, however it ends. It covers a byte far behind the
// content, which others may read.
func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, lockedByte())
}

// unlock gives the lock back.
func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}

func lockedByte() *windows.Overlapped { return &windows.Overlapped{Offset: 1 << 30} }

// lockData does nothing: a lock of this system would keep SQLite out.
func lockData(*os.File) error { return nil }

func unlockData(*os.File) error { return nil }
