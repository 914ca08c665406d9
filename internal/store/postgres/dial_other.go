//go:build !linux

package postgres

import "syscall"

// control does nothing: keep-alives and the timeouts of calls have to do.
func control(string, string, syscall.RawConn) error { return nil }
