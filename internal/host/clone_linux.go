package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// clone makes the empty file out share the content of in until one of them is
// written: on Btrfs, XFS and the like. Nothing is written where it fails.
func clone(out, in *os.File) error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) }
