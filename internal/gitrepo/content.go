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
var errChanged = errors.New("changed while it was read")

// openAt opens a regular file that lstatAt described, if it is the same one still.
func openAt(dir *os.File, name string, info fileInfo) (*os.File, fileInfo, error) {
	f, err := openFileAt(dir, name)
	if errors.Is(err, unix.ELOOP) {
		err = errChanged
	}
	if err != nil {
		return nil, info, err
	}
	opened, err := fstat(f)
	if err == nil && (!opened.isRegular() || opened.stamp.Ino != info.stamp.Ino || opened.size != info.size ||
		opened.links != 1) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
		return nil, info, err
	}
	return f, opened, nil
}

// hashAt names the content of a regular file or link that lstatAt described.
func hashAt(dir *os.File, name string, info fileInfo) (OID, fileInfo, error) {
	if info.isLink() {
		target, err := readlinkAt(dir, name)
		if err != nil {
			return "", info, err
		}
		oid, err := blobName(strings.NewReader(target), int64(len(target)))
		return oid, info, err
	}
	f, opened, err := openAt(dir, name, info)
	if err != nil {
		return "", info, err
	}
	defer func() { _ = f.Close() }()
	oid, err := blobName(f, opened.size)
	if errors.Is(err, io.EOF) {
		err = errChanged
	}
	return oid, opened, err
}

// storeAt stores the content of a regular file or link that hashAt described, as it is now.
func (w *Worktree) storeAt(ctx context.Context, dir *os.File, name string, info fileInfo) (OID, error) {
	if info.isLink() {
		target, err := readlinkAt(dir, name)
		if err != nil {
			return "", err
		}
		return w.repo.WriteBlob(ctx, []byte(target))
	}
	f, opened, err := openAt(dir, name, info)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	oid, err := w.repo.writeBlob(ctx, f, opened.size)
	if errors.Is(err, io.EOF) {
		err = errChanged
	}
	return oid, err
}

// read reads a file that is new or may have changed.
func (s *snapper) read(ctx context.Context, dir *os.File, name string, f unreadFile) error {
	var was entry
	if f.tracked {
		was = s.old.entries[f.i]
	}
	refuse := func(reason string) error {
		s.refuseAt(f.path, reason, f.i, f.tracked)
		return nil
	}
	info := f.info
	tooLarge := info.size > s.w.MaxFileSize
	if tooLarge && (!f.tracked || was.Stat.Size != info.stamp.Size) {
		return refuse(s.tooLarge(info))
	}
	a := s.attributes[f.path]
	oid, info, err := hashAt(dir, name, info)
	filled := false
	if err == nil && oid != was.OID && info.isRegular() && (a.lfs || was.Filled) {
		oid, filled, err = s.pointer(ctx, dir, name, info, oid, was)
	}
	if was.Submodule != "" && err == nil && (oid != was.OID || info.gitMode() != modeOnDisk(was.Mode)) {
		return refuse(inSubmodule)
	}
	if err == nil && oid != was.OID && !filled && !tooLarge {
		oid, err = s.store(ctx, dir, name, info, a, was)
	}
	switch {
	case errors.Is(err, errLFS):
		return refuse(errLFS.Error())
	case errors.Is(err, fs.ErrPermission):
		return refuse("is not readable")
	case errors.Is(err, errChanged), errors.Is(err, fs.ErrNotExist):
		return refuse(errChanged.Error())
	case err != nil:
		return fmt.Errorf("read %s: %w", quotePath(f.path), err)
	case tooLarge && oid != was.OID && !filled:
		return refuse(s.tooLarge(info))
	}
	mode := info.gitMode()
	if !f.tracked {
		s.added = append(s.added, entry{Path: f.path, Mode: mode, OID: oid, Filled: filled, Stat: info.stamp})
		return nil
	}
	s.state[f.i] = found
	e := &s.entries[f.i]
	e.Stat = info.stamp
	e.Filled = filled
	s.restamped = true
	if oid != was.OID || mode != modeOnDisk(was.Mode) {
		e.OID, e.Mode = oid, mode
	}
	return nil
}

var errLFS = errors.New("kept in Git LFS, as .gitattributes says, which is not run here")

// pointer is what the tree has of a file that holds what Git LFS keeps: the pointer that is in
// the tree already, or one to something else that the person has, as of a file that was moved.
// Where it is neither, it is the content by its own name, and filled is false.
func (s *snapper) pointer(
	ctx context.Context, dir *os.File, name string, info fileInfo, content OID, was entry,
) (_ OID, filled bool, err error) {
	file, _, err := openAt(dir, name, info)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = file.Close() }()
	pointer, err := pointerTo(file)
	if err != nil {
		return "", false, err
	}
	oid, err := blobName(bytes.NewReader(pointer), int64(len(pointer)))
	if err != nil || oid == was.OID {
		return oid, true, err
	}
	large, err := s.w.repo.largeFile(pointer)
	if large == nil || err != nil {
		return content, false, err
	}
	_ = large.Close()
	oid, err = s.w.repo.WriteBlob(ctx, pointer)
	return oid, true, err
}

// store stores what git would of a file that hashAt described.
func (s *snapper) store(
	ctx context.Context, dir *os.File, name string, info fileInfo, a attributes, was entry,
) (OID, error) {
	if a == (attributes{}) || !info.isRegular() {
		return s.w.storeAt(ctx, dir, name, info)
	}
	if a.lfs && info.size > maxPointer {
		return "", errLFS
	}
	file, info, err := openAt(dir, name, info)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, info.size)
	if _, err := io.ReadFull(file, content); err != nil {
		return "", errChanged
	}
	if a.lfs && !bytes.HasPrefix(content, []byte(pointerPrefix)) {
		return "", errLFS
	}
	var old []byte
	if was.OID != "" && was.Mode&modeKind == ModeFile&modeKind {
		if old, err = s.w.repo.Blob(ctx, was.OID, s.w.MaxFileSize); err != nil && !errors.Is(err, ErrTooLarge) {
			return "", err
		}
	}
	return s.w.repo.WriteBlob(ctx, a.stored(content, old))
}
