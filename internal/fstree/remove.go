package fstree

import (
	"context"
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
	r := remover{stopped: func() error { return nil }}
	if err := r.remove(parent, filepath.Base(path), 0); err != nil {
		return fmt.Errorf("remove %s: %w", strconv.Quote(path), err)
	}
	return nil
}

// RemoveAt is RemoveAll of a name within an open directory, and hears a cancel.
func RemoveAt(ctx context.Context, parent *os.File, name string) error {
	r := remover{stopped: func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}}
	return r.remove(parent, name, 0)
}

type remover struct {
	// stopped says why to stop, nil for going on.
	stopped func() error
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
	var st unix.Stat_t
	if err := lstatAt(parent, name, &st); err != nil {
		return err
	}
	if kind(&st) != unix.S_IFDIR {
		return err
	}
	if depth == maxOpenDepth {
		return r.moveUp(parent, name, perm(&st))
	}
	dir, err := EnterAt(parent, name, perm(&st))
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
		if err := r.stopped(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(batch)
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
func (r *remover) moveUp(parent *os.File, name string, perm uint32) error {
	// A directory needs write permission itself to get another parent.
	if perm&0o700 != 0o700 {
		if err := ChmodAt(parent, name, 0o700); err != nil {
			return err
		}
	}
	for {
		r.moved++
		up := ".ralph-removing-" + strconv.Itoa(r.moved)
		var st unix.Stat_t
		if lstatAt(r.top, up, &st) == nil {
			continue
		}
		err := Retry(func() error { return unix.Renameat(int(parent.Fd()), name, int(r.top.Fd()), up) })
		return pathError("rename", name, err)
	}
}
