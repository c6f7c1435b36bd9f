package progress

import (
	"io/fs"
	"syscall"
)

// names counts the names that a file has.
func names(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // 16 bits on macOS
	}
	return 1
}
