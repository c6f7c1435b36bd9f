package docker

import (
	"io/fs"
	"syscall"
)

// owner is the user and group of a file, where the system tells.
func owner(info fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
