package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// errChanged: a file was not what it had been a moment before.
const errChanged = refusedError("changed while it was read")

// refusedError is why a file cannot become part of a tree.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// content is what a file or a link holds, to be read more than once.
type content struct {
	io.ReadSeeker
	io.Closer
	size int64
}

// contentAt opens a regular file or link that lstatAt described, if it is the same one still.
func contentAt(dir *os.File, name string, info fileInfo) (content, fileInfo, error) {
	if info.isLink() {
		target, err := readlinkAt(dir, name)
		return content{strings.NewReader(target), io.NopCloser(nil), int64(len(target))}, info, err
	}
	f, err := openFileAt(dir, name)
	if errors.Is(err, unix.ELOOP) {
		err = errChanged
	}
	if err != nil {
		return content{}, info, err
	}
	opened, err := fstat(f)
	if err == nil && (!opened.isRegular() || opened.stamp.Ino != info.stamp.Ino || opened.stamp.Size != info.stamp.Size ||
		opened.links != 1) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
	}
	return content{f, f, opened.stamp.Size}, opened, err
}

// read reads a file that is new or may have changed.
func (s *snapper) read(ctx context.Context, dir *os.File, name string, f foundFile) error {
	var was entry
	if f.tracked {
		was = s.old.entries[f.i]
	}
	e, err := s.entry(ctx, dir, name, f, was)
	why, refused := errors.AsType[refusedError](err)
	switch {
	case refused:
		s.refuse(f.path, string(why))
		return nil
	case errors.Is(err, fs.ErrPermission):
		s.refuse(f.path, "is not readable")
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, fs.ErrNotExist):
		s.refuse(f.path, errChanged.Error())
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", quotePath(f.path), err)
	case !f.tracked:
		s.added = append(s.added, e)
	default:
		s.found[f.i], s.entries[f.i], s.restamped = true, e, true
	}
	return nil
}

// entry is what a file is in the tree, stored where it is new.
func (s *snapper) entry(ctx context.Context, dir *os.File, name string, f foundFile, was entry) (entry, error) {
	tooLarge := f.info.stamp.Size > s.w.MaxFileSize
	errLarge := refusedError(fmt.Sprintf("%d bytes; the limit is %d", f.info.stamp.Size, s.w.MaxFileSize))
	switch {
	case !f.info.isRegular() && !f.info.isLink():
		return entry{}, refusedError(f.info.kindName())
	case f.info.links > 1 && f.info.isRegular():
		return entry{}, refusedError("hard link: its content may lie outside of the tree")
	case tooLarge && was.Stat.Size != f.info.stamp.Size:
		return entry{}, errLarge
	}
	c, info, err := contentAt(dir, name, f.info)
	if err != nil {
		return entry{}, err
	}
	defer func() { _ = c.Close() }()
	if info.isLink() {
		target, err := io.ReadAll(c)
		if err != nil {
			return entry{}, err
		}
		if reason := badTarget(f.path, string(target)); reason != "" {
			return entry{}, refusedError(reason)
		}
	}
	e := entry{Path: f.path, Mode: info.gitMode(), Submodule: was.Submodule, Stat: info.stamp}
	if e.OID, err = c.name(); err != nil {
		return e, err
	}
	a := s.attributes[f.path]
	if e.OID != was.OID && info.isRegular() && (a.lfs || was.Filled) {
		if e.OID, e.Filled, err = s.pointer(ctx, c, was, e.OID); err != nil {
			return e, err
		}
	}
	switch {
	case e.Submodule != "" && (e.OID != was.OID || e.Mode != was.Mode):
		return e, refusedError(inSubmodule)
	case e.OID == was.OID, e.Filled:
		return e, nil
	case s.unruly[f.path] != nil:
		return e, refusedError(fmt.Sprintf("its rules are not followed: %v", s.unruly[f.path]))
	case tooLarge:
		return e, errLarge
	case info.isLink():
		a = attributes{}
	}
	e.OID, err = s.store(ctx, c, a, was)
	return e, err
}

// rewind has what was read be read again.
func (c content) rewind() error {
	_, err := c.Seek(0, io.SeekStart)
	return err
}

// name is what git calls the content.
func (c content) name() (OID, error) {
	if err := c.rewind(); err != nil {
		return "", err
	}
	return blobName(c, c.size)
}

const errLFS = refusedError("kept in Git LFS, as .gitattributes says, which is not run here")

// pointer is what the tree has of a file that holds what Git LFS keeps: the pointer that is in
// the tree already, or one to something else that the person has, as of a file that was moved.
// Where it is neither, it is the content by its own name, and filled is false.
func (s *snapper) pointer(ctx context.Context, c content, was entry, own OID) (_ OID, filled bool, err error) {
	if err := c.rewind(); err != nil {
		return "", false, err
	}
	pointer, err := pointerTo(c)
	if err != nil {
		return "", false, err
	}
	oid, err := blobName(bytes.NewReader(pointer), int64(len(pointer)))
	if err != nil || oid == was.OID {
		return oid, true, err
	}
	large, err := s.w.repo.largeFile(pointer)
	if large == nil || err != nil {
		return own, false, err
	}
	_ = large.Close()
	oid, err = s.w.repo.WriteBlob(ctx, pointer)
	return oid, true, err
}

// store stores what git would of a content.
func (s *snapper) store(ctx context.Context, c content, a attributes, was entry) (OID, error) {
	if err := c.rewind(); err != nil {
		return "", err
	}
	if a == (attributes{}) {
		return s.w.repo.writeBlob(ctx, c, c.size)
	}
	data := make([]byte, c.size)
	if a.lfs && c.size > maxPointer {
		return "", errLFS
	}
	if _, err := io.ReadFull(c, data); err != nil {
		return "", err
	}
	if a.lfs && !bytes.HasPrefix(data, []byte(pointerPrefix)) {
		return "", errLFS
	}
	var old []byte
	if was.OID != "" && was.Mode != ModeSymlink {
		var err error
		if old, err = s.w.repo.Blob(ctx, was.OID, s.w.MaxFileSize); err != nil && !errors.Is(err, ErrTooLarge) {
			return "", err
		}
	}
	return s.w.repo.WriteBlob(ctx, a.stored(data, old))
}
