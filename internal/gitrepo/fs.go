package gitrepo

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

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
	return openAt(parent, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// createFileAt makes a new file. Whatever has that name already is an error.
func createFileAt(parent *os.File, name string, perm uint32) (*os.File, error) {
	return openAt(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, perm)
}

func openAt(parent *os.File, name string, flags int, perm uint32) (f *os.File, err error) {
	err = fstree.Retry(func() error {
		fd, err := unix.Openat(int(parent.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return f, err
}

// lstatAt describes what has the name, without following it.
func lstatAt(parent *os.File, name string) (fileInfo, error) {
	var st unix.Stat_t
	err := fstree.Retry(func() error { return unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return makeInfo(&st), err
}

func fstat(f *os.File) (fileInfo, error) {
	var st unix.Stat_t
	err := fstree.Retry(func() error { return unix.Fstat(int(f.Fd()), &st) })
	return makeInfo(&st), err
}

func readlinkAt(parent *os.File, name string) (string, error) {
	buf := make([]byte, maxLink+1)
	n := 0
	err := fstree.Retry(func() (err error) {
		n, err = unix.Readlinkat(int(parent.Fd()), name, buf)
		return err
	})
	return string(buf[:max(n, 0)]), err
}

// fileInfo is what one lstat says.
type fileInfo struct {
	// kind is one of the unix.S_IF… values.
	kind  uint32
	perm  uint32
	links uint64
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

// fileStamp is what the host remembers of a file it wrote or read. If all of it is the same, so is the
// content: an agent can set the time of modification, but not that of the
// inode's change. Times are in nanoseconds.
type fileStamp struct {
	Changed, Modified, Size int64
	Dev, Ino                uint64
	UID, GID                uint32
}

func makeInfo(st *unix.Stat_t) fileInfo {
	return fileInfo{ // the fields' types differ between systems
		kind:  uint32(st.Mode) & unix.S_IFMT,
		perm:  uint32(st.Mode) & 0o7777,
		links: uint64(st.Nlink),
		stamp: fileStamp{
			Changed: st.Ctim.Nano(), Modified: st.Mtim.Nano(), Size: st.Size,
			Dev: uint64(st.Dev), Ino: st.Ino, UID: st.Uid, GID: st.Gid, // #nosec G115
		},
	}
}

// after says whether the file may have changed at or after t, so that its
// stamp proves nothing about what was seen at t. A time without nanoseconds
// may come from a file system that keeps whole seconds.
func (s fileStamp) after(t int64) bool {
	const second = int64(time.Second)
	if s.Changed%second == 0 && s.Modified%second == 0 {
		t -= second
	}
	return s.Changed >= t || s.Modified >= t
}

// makeDirAt makes a directory and opens it. One that
// is there already is opened; anything else of that name is an error.
func makeDirAt(parent *os.File, name string) (*os.File, error) {
	err := fstree.Retry(func() error { return unix.Mkdirat(int(parent.Fd()), name, 0o755) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	made := err == nil
	d, err := fstree.OpenDirAt(parent, name)
	if err == nil && made { // the umask of the host is not for the agent's tree
		err = fstree.Retry(func() error { return unix.Fchmod(int(d.Fd()), 0o755) })
	}
	return d, err
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
