package fstree

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Retry repeats a system call that a signal interrupted.
func Retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// pathError names the file that a call failed for. Names may hold anything.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: strconv.Quote(name), Err: err}
}

// OpenDirAt opens the directory name within parent. A symbolic link is an
// error, as is anything else that is no directory.
func OpenDirAt(parent *os.File, name string) (*os.File, error) {
	fd := -1
	err := Retry(func() (err error) {
		fd, err = unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// EnterAt is OpenDirAt of a directory with these permissions, which gets those
// that its owner lacks to list and change it.
func EnterAt(parent *os.File, name string, perm uint32) (*os.File, error) {
	if perm&0o700 != 0o700 {
		if err := ChmodAt(parent, name, 0o700); err != nil {
			return nil, err
		}
	}
	return OpenDirAt(parent, name)
}

// ChmodAt changes the permissions of a file or directory, and of nothing that a
// link leads to.
func ChmodAt(parent *os.File, name string, perm uint32) error {
	err := Retry(func() error { return unix.Fchmodat(int(parent.Fd()), name, perm, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = chmodByHandle(parent, name, perm)
	}
	return pathError("chmod", name, err)
}

// ChownAt changes the owner of an entry itself, and not of what a link leads to.
func ChownAt(parent *os.File, name string, uid, gid int) error {
	err := Retry(func() error { return unix.Fchownat(int(parent.Fd()), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW) })
	return pathError("chown", name, err)
}

func lstatAt(parent *os.File, name string, st *unix.Stat_t) error {
	err := Retry(func() error { return unix.Fstatat(int(parent.Fd()), name, st, unix.AT_SYMLINK_NOFOLLOW) })
	return pathError("lstat", name, err)
}

// Stat is what [LstatAll] found out about one name.
type Stat struct {
	unix.Stat_t

	Err error
}

// LstatAll describes many names of a directory, without following a link. A walk spends
// most of its time here, so larger directories are shared out among a few threads, as
// git does.
func LstatAll(parent *os.File, names []string) []Stat {
	const perThread, most = 16, 4
	stats := make([]Stat, len(names))
	stat := func(from, to int) {
		for i := from; i < to; i++ {
			stats[i].Err = lstatAt(parent, names[i], &stats[i].Stat_t)
		}
	}
	threads := min(runtime.GOMAXPROCS(0), most, len(names)/perThread)
	if threads < 2 {
		stat(0, len(names))
		return stats
	}
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() { stat(len(names)*t/threads, len(names)*(t+1)/threads) })
	}
	wg.Wait()
	return stats
}

func unlinkAt(parent *os.File, name string, flags int) error {
	err := Retry(func() error { return unix.Unlinkat(int(parent.Fd()), name, flags) })
	return pathError("unlink", name, err)
}
