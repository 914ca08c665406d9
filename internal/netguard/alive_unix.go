//go:build unix

package netguard

import (
	"net"
	"syscall"
)

// liveness tells whether an idle connection is still there.
type liveness struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool
	live bool
	one  [1]byte
}

// watch has the connection looked at.
func (l *liveness) watch(conn net.Conn) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	l.raw = raw
	l.look = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), l.one[:])
		l.live = err == syscall.EAGAIN //nolint:errorlint // it is never wrapped
		return true
	}
}

// alive reports whether the connection is open and has nothing to read: nobody has
// asked anything of the server, and what it says would be taken for an answer.
func (l *liveness) alive() bool {
	return l.raw != nil && l.raw.Read(l.look) == nil && l.live
}
