package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// Everything in a directory that an agent may write is reached from an open
// directory by one name at a time, never through a path and never through a
// link.

// openDir opens a directory of the host's choice. Links on the way are the
// host's own business; the last component must not be one.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) // #nosec G304
}

// openFileAt opens a file to read it. It neither follows a link nor waits for
// the other end of a FIFO.
func openFileAt(parent *os.File, name string) (*os.File, error) {
	fd := -1
	err := fstree.Retry(func() (err error) {
		fd, err = unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: quotePath(name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// createFileAt makes a new file. Whatever has that name already is an error.
func createFileAt(parent *os.File, name string, perm uint32) (*os.File, error) {
	fd := -1
	err := fstree.Retry(func() (err error) {
		fd, err = unix.Openat(int(parent.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			perm)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: quotePath(name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// lstatAt describes what has the name, without following it.
func lstatAt(parent *os.File, name string) (fileInfo, error) {
	var st unix.Stat_t
	err := fstree.Retry(func() error { return unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return fileInfo{}, &fs.PathError{Op: "lstat", Path: quotePath(name), Err: err}
	}
	return makeInfo(&st), nil
}

func fstat(f *os.File) (fileInfo, error) {
	var st unix.Stat_t
	if err := fstree.Retry(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return fileInfo{}, &fs.PathError{Op: "fstat", Path: quotePath(f.Name()), Err: err}
	}
	return makeInfo(&st), nil
}

func readlinkAt(parent *os.File, name string) (string, error) {
	buf := make([]byte, 4097)
	n := 0
	err := fstree.Retry(func() (err error) {
		n, err = unix.Readlinkat(int(parent.Fd()), name, buf)
		return err
	})
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: quotePath(name), Err: err}
	}
	return string(buf[:n]), nil
}

// fileInfo is what one lstat says.
type fileInfo struct {
	// kind is one of the unix.S_IF… values.
	kind  uint32
	perm  uint32
	links uint64
	size  int64
	stamp fileStamp
}

func (i fileInfo) isDir() bool     { return i.kind == unix.S_IFDIR }
func (i fileInfo) isRegular() bool { return i.kind == unix.S_IFREG }
func (i fileInfo) isLink() bool    { return i.kind == unix.S_IFLNK }

// gitMode is the mode git gives such a file.
func (i fileInfo) gitMode() uint32 {
	switch {
	case i.isLink():
		return ModeSymlink
	case i.perm&0o100 != 0:
		return ModeExecutable
	default:
		return ModeFile
	}
}

// kindName is for people.
func (i fileInfo) kindName() string {
	switch i.kind {
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	default:
		return "device"
	}
}

// fileStamp is what the host remembers of a file it wrote or read, cut to 32
// bits a field. If all of it is the same, so is the
// content: an agent can set the time of modification, but not that of the
// inode's change.
type fileStamp struct {
	CtimeS, CtimeN, MtimeS, MtimeN uint32
	Dev, Ino                       uint32
	UID, GID                       uint32
	Size                           uint32
}

func makeInfo(st *unix.Stat_t) fileInfo {
	// The fields' types differ between systems, and all are cut on purpose.
	return fileInfo{
		kind:  uint32(st.Mode) & unix.S_IFMT,
		perm:  uint32(st.Mode) & 0o7777,
		links: uint64(st.Nlink),
		size:  st.Size,
		stamp: fileStamp{
			CtimeS: uint32(st.Ctim.Sec), CtimeN: uint32(st.Ctim.Nsec), // #nosec G115
			MtimeS: uint32(st.Mtim.Sec), MtimeN: uint32(st.Mtim.Nsec), // #nosec G115
			Dev: uint32(st.Dev), Ino: uint32(st.Ino), // #nosec G115
			UID: st.Uid, GID: st.Gid,
			Size: uint32(st.Size), // #nosec G115
		},
	}
}

// after says whether the file may have changed at or after t, so that its
// stamp proves nothing about what was seen at t. A time without nanoseconds
// may come from a file system that keeps whole seconds.
func (s fileStamp) after(t instant) bool {
	if s.CtimeN == 0 && s.MtimeN == 0 {
		return s.CtimeS+1 >= t.s || s.MtimeS+1 >= t.s
	}
	later := func(sec, nsec uint32) bool { return sec > t.s || (sec == t.s && nsec >= t.n) }
	return later(s.CtimeS, s.CtimeN) || later(s.MtimeS, s.MtimeN)
}

// instant is a time as a file system keeps it.
type instant struct{ s, n uint32 }

// makeDirAt makes a directory and opens it. One that
// is there already is opened; anything else of that name is an error.
func makeDirAt(parent *os.File, name string) (*os.File, error) {
	err := fstree.Retry(func() error { return unix.Mkdirat(int(parent.Fd()), name, 0o755) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &fs.PathError{Op: "mkdir", Path: quotePath(name), Err: err}
	}
	made := err == nil
	d, err := fstree.OpenDirAt(parent, name)
	if err != nil || !made {
		return d, err
	}
	// The umask of the host is not for the agent's tree.
	if err := fstree.Retry(func() error { return unix.Fchmod(int(d.Fd()), 0o755) }); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("mkdir %s: %w", quotePath(name), err)
	}
	return d, nil
}

// dirStack keeps the directories on the way to the last path open, so that
// paths in sorted order open each directory once.
type dirStack struct {
	root  *os.File
	names []string
	dirs  []*os.File
}

// at opens (and makes) the directory dir ("" or "a/b") below the root.
func (s *dirStack) at(dir string) (*os.File, error) { return s.open(dir, makeDirAt) }

// find opens the directory dir ("" or "a/b") below the root.
func (s *dirStack) find(dir string) (*os.File, error) { return s.open(dir, fstree.OpenDirAt) }

func (s *dirStack) open(dir string, enter func(*os.File, string) (*os.File, error)) (*os.File, error) {
	var parts []string
	if dir != "" {
		parts = strings.Split(dir, "/")
	}
	same := 0
	for same < len(parts) && same < len(s.names) && parts[same] == s.names[same] {
		same++
	}
	s.cut(same)
	for _, part := range parts[same:] {
		d, err := enter(s.top(), part)
		if err != nil {
			return nil, err
		}
		s.names = append(s.names, part)
		s.dirs = append(s.dirs, d)
	}
	return s.top(), nil
}

func (s *dirStack) top() *os.File {
	if len(s.dirs) == 0 {
		return s.root
	}
	return s.dirs[len(s.dirs)-1]
}

func (s *dirStack) cut(n int) {
	for _, d := range s.dirs[n:] {
		_ = d.Close()
	}
	s.names, s.dirs = s.names[:n], s.dirs[:n]
}

// emptyDir says whether a directory holds nothing.
func emptyDir(parent *os.File, name string) (bool, error) {
	dir, err := fstree.OpenDirAt(parent, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(names) == 0, err
}

func splitPath(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return "", p
}
