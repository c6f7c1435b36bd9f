package machine

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// FreeDisk is what the file system of dir has left for this user. A directory that is not there
// is fs.ErrNotExist.
func FreeDisk(dir string) (bytes, files int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// #nosec G115 -- a disk is smaller
	bytes, files = int64(st.Bavail)*int64(st.Bsize), int64(st.Ffree) //nolint:unconvert // other systems have other types
	if st.Files == 0 {
		files = Unknown // it makes them as they are needed
	}
	return bytes, files, nil
}

// freeDescriptors is how many more files this process may open.
func freeDescriptors() int64 {
	var limit unix.Rlimit
	open := entries("/dev/fd")
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || open == Unknown || limit.Cur > math.MaxInt64 {
		return Unknown
	}
	return max(int64(limit.Cur)-open, 0) // #nosec G115 -- looked at above
}
