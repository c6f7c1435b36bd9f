package progress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// ErrNotRegular: the file, or a directory on the way to it, is something other
// than what it should be: a link, a directory, a pipe, a device, or a file
// with a second name.
var ErrNotRegular = errors.New("progress: not a regular file")

// Read reads the document at name below root. Nothing is opened unless it is a
// regular file with one name and a sane size, reached through real directories
// (else ErrNotRegular, ErrTooLarge, or fs.ErrPermission where its owner may
// not read it); so a planted link, pipe or device is neither followed nor
// waited for. A file that is not there is fs.ErrNotExist.
func Read(root *os.Root, name string) (*Doc, error) {
	src, err := ReadBytes(root, name)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	d, err := Parse(src)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return d, nil
}

// ReadBytes is Read for a file that need not be a document.
func ReadBytes(root *os.Root, name string) ([]byte, error) {
	if err := checkParents(root, name); err != nil {
		return nil, err
	}
	before, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	if err := checkFile(name, before); err != nil {
		return nil, err
	}
	// Should the name have become a pipe since, this does not wait for a
	// writer; should it have become a link, SameFile tells.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	now, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	if !os.SameFile(before, now) {
		return nil, fmt.Errorf("%w: %q was exchanged", ErrNotRegular, name)
	}
	src, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return src, nil
}

func checkFile(name string, fi fs.FileInfo) error {
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%w: %q is %v", ErrNotRegular, name, fi.Mode())
	}
	if n := names(fi); n > 1 {
		return fmt.Errorf("%w: %q has %d names", ErrNotRegular, name, n)
	}
	if fi.Mode().Perm()&0o400 == 0 {
		return fmt.Errorf("%q: %w", name, fs.ErrPermission) // root could, and would hide the trouble
	}
	if fi.Size() > MaxSize {
		return fmt.Errorf("%w: %q has %d bytes, at most %d", ErrTooLarge, name, fi.Size(), MaxSize)
	}
	return nil
}

// names counts the names that a file has.
func names(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // 16 bits on macOS
	}
	return 1
}

// parents lists the directories on the way to name, outermost first.
func parents(name string) []string {
	var out []string
	for i, c := range name {
		if c == '/' && i > 0 {
			out = append(out, name[:i])
		}
	}
	return out
}

// checkParents makes sure that no directory on the way to name is a link, not
// even one that stays below the root. Missing ones are left to the caller.
func checkParents(root *os.Root, name string) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("%q: %w", name, fs.ErrInvalid)
	}
	for _, dir := range parents(name) {
		fi, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%q: %w", dir, err)
		}
		if !fi.IsDir() {
			return fmt.Errorf("%w: %q is %v", ErrNotRegular, dir, fi.Mode())
		}
	}
	return nil
}

// Write puts content at name below root: into a new file, which then takes the place
// of the old one, unless that says the same. Parents are made. What stands at
// name must be a regular file or nothing, and its parents real directories,
// else ErrNotRegular.
func Write(root *os.Root, name string, content []byte) error {
	if err := writeFile(root, name, content); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func writeFile(root *os.Root, name string, content []byte) error {
	if err := checkParents(root, name); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	switch fi, err := root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%q: %w", name, err)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: %q is %v", ErrNotRegular, name, fi.Mode())
	default:
		mode = fi.Mode().Perm() | mode
	}
	if old, err := ReadBytes(root, name); err == nil && bytes.Equal(old, content) {
		return nil // as it mostly does when an agent is started
	}
	// The name is fixed, so that what a crash leaves goes with the next write.
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+".tmp")
	if err := errors.Join(root.MkdirAll(path.Dir(name), 0o750), root.RemoveAll(tmp)); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	_, err = f.Write(content)
	// On disk before it has the name: after a power cut there is the old file or the new.
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// Restore puts d at name after an agent has been at work: whatever stands
// there, or in place of a directory on the way there, makes room. Links are
// removed, never followed. It is for an agent's work tree only, which can be
// made again; in a tree that belongs to a person, use Write.
func Restore(root *os.Root, name string, d *Doc) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("restore %q: %w", name, fs.ErrInvalid)
	}
	for _, p := range append(parents(name), name) {
		fi, err := root.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && (p != name && fi.IsDir() || p == name && fi.Mode().IsRegular()) {
			continue
		}
		if err = errors.Join(err, root.RemoveAll(p)); err != nil {
			return fmt.Errorf("restore %q: %w", p, err)
		}
	}
	return Write(root, name, d.Bytes())
}
