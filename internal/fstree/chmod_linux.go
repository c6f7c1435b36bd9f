package fstree

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// chmodByHandle serves kernels before 6.6, whose fchmodat cannot refuse to
// follow a link.
func chmodByHandle(parent *os.File, name string, perm uint32) error {
	fd := -1
	err := Retry(func() (err error) {
		fd, err = unix.Openat(int(parent.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return Retry(func() error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), perm) })
}
