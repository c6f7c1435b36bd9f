package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxOpenDepth is how many directories a removal holds open at once. What lies
// deeper is moved up first, so that no depth exhausts the descriptors.
const maxOpenDepth = 64

// RemoveAll removes the directory (or file) at path with everything in it,
// whatever an agent made of it: it follows no link, enters directories that
// have no permissions, and is not stopped by depth. What is not there is no
// error.
func RemoveAll(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	parent, err := os.Open(filepath.Dir(path)) // #nosec G304 -- the host chose the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer func() { _ = parent.Close() }()
	if err := removeAt(parent, filepath.Base(path)); err != nil {
		return fmt.Errorf("remove %s: %w", quotePath(path), err)
	}
	return nil
}

// removeAt is RemoveAll of a name within an open directory.
func removeAt(parent *os.File, name string) error {
	r := remover{}
	return r.remove(parent, name, 0)
}

type remover struct {
	// top is the directory that is removed.
	top   *os.File
	moved int
}

func (r *remover) remove(parent *os.File, name string, depth int) error {
	err := unlinkAt(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	// Linux says EISDIR for a directory, POSIX and macOS EPERM.
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return err
	}
	info, statErr := lstatAt(parent, name)
	if statErr != nil {
		return statErr
	}
	if !info.isDir() {
		return err
	}
	if depth == maxOpenDepth {
		return r.moveUp(parent, name, info)
	}
	dir, err := enterAt(parent, name, info)
	if err != nil {
		return err
	}
	if depth == 0 {
		r.top = dir
	}
	err = r.empty(dir, depth)
	_ = dir.Close()
	if err != nil {
		return err
	}
	return unlinkAt(parent, name, unix.AT_REMOVEDIR)
}

// empty reads and removes until nothing is left: names that go away while a
// directory is read may hide others, and moveUp adds some at the top.
func (r *remover) empty(dir *os.File, depth int) error {
	for {
		names, err := dir.Readdirnames(4096)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for _, name := range names {
			if err := r.remove(dir, name, depth+1); err != nil {
				return err
			}
		}
		if len(names) > 0 {
			if _, err := dir.Seek(0, io.SeekStart); err != nil {
				return err
			}
			continue
		}
		return nil
	}
}

// moveUp moves a directory that lies too deep to the top of the removal.
func (r *remover) moveUp(parent *os.File, name string, info fileInfo) error {
	// A directory needs write permission itself to get another parent.
	if info.perm&0o700 != 0o700 {
		if err := chmodAt(parent, name, 0o700); err != nil {
			return err
		}
	}
	for {
		r.moved++
		up := ".ralph-removing-" + strconv.Itoa(r.moved)
		if _, err := lstatAt(r.top, up); err == nil {
			continue
		}
		err := retry(func() error { return unix.Renameat(int(parent.Fd()), name, int(r.top.Fd()), up) })
		if err != nil {
			return &fs.PathError{Op: "rename", Path: quotePath(name), Err: err}
		}
		return nil
	}
}

// enterAt opens a directory so that its content can be removed, giving us the
// permissions it may lack.
func enterAt(parent *os.File, name string, info fileInfo) (*os.File, error) {
	if info.perm&0o700 != 0o700 {
		if err := chmodAt(parent, name, 0o700); err != nil {
			return nil, err
		}
	}
	return openDirAt(parent, name)
}

// chmodAt changes the permissions of a directory that cannot be opened, and of
// nothing that a link leads to.
func chmodAt(parent *os.File, name string, perm uint32) error {
	err := retry(func() error { return unix.Fchmodat(int(parent.Fd()), name, perm, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = chmodByHandle(parent, name, perm)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: quotePath(name), Err: err}
	}
	return nil
}

func unlinkAt(parent *os.File, name string, flags int) error {
	err := retry(func() error { return unix.Unlinkat(int(parent.Fd()), name, flags) })
	if err != nil {
		return &fs.PathError{Op: "unlink", Path: quotePath(name), Err: err}
	}
	return nil
}
