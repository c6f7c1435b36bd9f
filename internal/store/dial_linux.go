package store

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long the other end of a connection may acknowledge nothing.
const silence = 15 * time.Second

// boundSilence has the kernel give a connection up whose other end acknowledges nothing for
// silence. It would try for a quarter of an hour.
func boundSilence(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	if cerr != nil {
		return cerr
	}
	return err
}
