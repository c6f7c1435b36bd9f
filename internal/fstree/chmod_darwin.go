package fstree

import (
	"os"

	"golang.org/x/sys/unix"
)

// chmodByHandle is never needed: fchmodat on macOS can refuse to follow links.
func chmodByHandle(*os.File, string, uint32) error { return unix.EOPNOTSUPP }
