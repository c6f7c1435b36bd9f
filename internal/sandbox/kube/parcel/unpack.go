package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/org/ralph-action/internal/fstree"
)

// ErrShort says that a stream ended before it was whole.
var ErrShort = errors.New("the stream of a directory ended too early")

// Unpack makes dir hold what r says. It ends the stream, and may be repeated with
// another one after an error.
func Unpack(ctx context.Context, dir string, r io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack a directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := unpacker{root: root, seen: map[string]bool{}}
	if err := u.all(ctx, tar.NewReader(r)); err != nil {
		return fmt.Errorf("unpack a directory: %w", err)
	}
	if err := u.removeOthers(ctx, dir); err != nil {
		return fmt.Errorf("unpack a directory: %w", err)
	}
	// Last: what is done in a directory changes its time, and may need its permissions.
	for _, d := range u.dirs {
		if err := errors.Join(root.Chmod(d.Name, fs.FileMode(d.Mode)), root.Chtimes(d.Name, time.Time{}, d.ModTime)); err != nil { // #nosec G115 -- permissions
			return fmt.Errorf("unpack a directory: %w", err)
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("unpack a directory: %w", err)
	}
	return nil
}

type unpacker struct {
	root *os.Root
	// seen is what the stream has.
	seen map[string]bool
	dirs []*tar.Header
}

func (u *unpacker) all(ctx context.Context, r *tar.Reader) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %w", ErrShort, err)
		}
		if err != nil {
			return err
		}
		if h.PAXRecords[keptRecord] != "" {
			return u.kept(r)
		}
		h.Name = filepath.Clean(h.Name)
		if !filepath.IsLocal(h.Name) || h.Name == "." {
			return fmt.Errorf("the stream names %q", h.Name)
		}
		u.seen[h.Name] = true
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
}

// kept reads which files are to stay.
func (u *unpacker) kept(r io.Reader) error {
	list, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrShort, err)
	}
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if len(name) > 0 {
			u.seen[string(name)] = true
		}
	}
	return nil
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		u.dirs = append(u.dirs, h)
		if info, err := u.root.Lstat(h.Name); err == nil && info.IsDir() {
			return nil
		}
	}
	if err := u.root.RemoveAll(h.Name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.Mkdir(h.Name, 0o700)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, h.Name)
	case tar.TypeLink:
		return u.root.Link(filepath.Clean(h.Linkname), h.Name)
	case tar.TypeReg:
		return u.file(h, r)
	default:
		return fmt.Errorf("the stream has an entry of type %q", h.Typeflag)
	}
}

func (u *unpacker) file(h *tar.Header, r io.Reader) error {
	f, err := u.root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if sparse := h.PAXRecords[sparseRecord]; sparse != "" {
		err = fillSparse(f, sparse, r)
	} else {
		_, err = io.Copy(f, r)
	}
	err = errors.Join(err, f.Chmod(fs.FileMode(h.Mode)&fs.ModePerm), f.Close()) // #nosec G115 -- permissions
	if err != nil {
		return err
	}
	return u.root.Chtimes(h.Name, time.Time{}, h.ModTime)
}

func fillSparse(f *os.File, size string, r io.Reader) error {
	whole, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	for {
		var where [16]byte
		_, err := io.ReadFull(r, where[:])
		if errors.Is(err, io.EOF) {
			return f.Truncate(whole)
		}
		if err != nil {
			return err
		}
		offset := int64(binary.BigEndian.Uint64(where[:]))  // #nosec G115 -- Seek refuses what is negative
		length := int64(binary.BigEndian.Uint64(where[8:])) // #nosec G115 -- nothing is copied then
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(f, r, length); err != nil {
			return err
		}
	}
}

// removeOthers removes what the stream does not have.
func (u *unpacker) removeOthers(ctx context.Context, dir string) error {
	var others []string
	err := fstree.Walk(ctx, dir, func(e fstree.Entry) error {
		if u.seen[e.Path] {
			return nil
		}
		others = append(others, e.Path)
		return fs.SkipDir
	})
	if err != nil {
		return err
	}
	for _, name := range others {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
