package store

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence has the kernel give a connection up whose other end acknowledges nothing for
// 15 seconds. It would try for a quarter of an hour.
func boundSilence(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stuckAfter.Milliseconds()))
	})
	if cerr != nil {
		return cerr
	}
	return err
}
