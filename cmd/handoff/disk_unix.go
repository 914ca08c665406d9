//go:build linux || darwin || freebsd

package main

import (
	"math"

	"golang.org/x/sys/unix"
)

// freeBytes returns the space that is free for this user where a directory is.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	free := float64(s.Bavail) * float64(s.Bsize) // their types differ between systems
	return int64(math.Min(free, math.MaxInt64/2)), nil
}
