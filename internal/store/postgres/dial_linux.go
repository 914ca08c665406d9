package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control sets how long what was sent may stay without an acknowledgement: a
// link that silently loses everything is noticed then, and not when the system
// has given up after a quarter of an hour.
func control(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
