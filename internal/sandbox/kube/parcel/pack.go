package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// The records by which an entry says what tar does not know of.
const (
	// keptRecord: the entry is the last one, and lists the files that are as the
	// receiver has them, by their paths, each with a NUL at its end.
	keptRecord = "RALPH.kept"
	// sparseRecord is the size of a file with holes. Its content here is what lies
	// between them: each piece after its offset and its length, 8 bytes each.
	sparseRecord = "RALPH.sparse"
)

// settled is how long ago a file was changed last where its time tells whether it is
// changed again: file systems keep times in ticks of up to 10 ms.
const settled = 50 * time.Millisecond

// Known is what a directory held at some time, by path.
type Known map[string]mark

// mark changes with the file: nobody but the kernel sets the time of change.
type mark struct {
	inode uint64
	ctime unix.Timespec
}

func markOf(st *unix.Stat_t) mark { return mark{inode: st.Ino, ctime: st.Ctim} }

// Note gives what dir holds. A file that has just been changed is not known.
func Note(ctx context.Context, dir string) (Known, error) {
	known := Known{}
	now := time.Now()
	err := fstree.Walk(ctx, dir, func(e fstree.Entry) error {
		m := markOf(&e.Stat)
		if !e.IsDir() && now.Sub(time.Unix(m.ctime.Unix())) > settled {
			known[e.Path] = m
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("note what a directory holds: %w", err)
	}
	return known, nil
}

// Pack writes what dir holds. Files that are as known says are named only: the
// receiver has them.
func Pack(ctx context.Context, w io.Writer, dir string, known Known) error {
	p := packer{w: tar.NewWriter(w), known: known, links: map[[2]uint64]string{}}
	if err := fstree.Walk(ctx, dir, p.add); err != nil {
		return fmt.Errorf("pack a directory: %w", err)
	}
	err := p.w.WriteHeader(&tar.Header{
		Name: "kept", Typeflag: tar.TypeReg, Size: int64(p.kept.Len()), PAXRecords: map[string]string{keptRecord: "1"},
	})
	if err == nil {
		_, err = p.kept.WriteTo(p.w)
	}
	if err := errors.Join(err, p.w.Close()); err != nil {
		return fmt.Errorf("pack a directory: %w", err)
	}
	return nil
}

type packer struct {
	w     *tar.Writer
	known Known
	kept  bytes.Buffer
	// links are the paths of files that have more than one name.
	links map[[2]uint64]string
}

func (p *packer) add(e fstree.Entry) error {
	header := &tar.Header{
		Name: e.Path, Mode: int64(e.Perm() & 0o777), ModTime: time.Unix(e.Stat.Mtim.Unix()), Format: tar.FormatPAX,
	}
	switch {
	case e.IsDir():
		if err := open(e, 0o700, header); err != nil {
			return err
		}
		header.Typeflag = tar.TypeDir
		return p.w.WriteHeader(header)
	case !e.IsLink() && !e.IsRegular():
		return nil
	}
	if m, ok := p.known[e.Path]; ok && m == markOf(&e.Stat) {
		p.kept.WriteString(e.Path)
		p.kept.WriteByte(0)
		return nil
	}
	if e.IsLink() {
		target, err := readlinkAt(e)
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
		return p.w.WriteHeader(header)
	}
	if e.Stat.Nlink > 1 {
		id := [2]uint64{uint64(e.Stat.Dev), e.Stat.Ino} //nolint:unconvert // its type differs between systems
		if first, ok := p.links[id]; ok {
			header.Typeflag, header.Linkname = tar.TypeLink, first
			return p.w.WriteHeader(header)
		}
		p.links[id] = e.Path
	}
	if err := open(e, 0o400, header); err != nil {
		return err
	}
	header.Typeflag = tar.TypeReg
	return p.file(e, header)
}

// open gives the owner what it takes to read an entry.
func open(e fstree.Entry, want uint32, header *tar.Header) error {
	if e.Perm()&want == want {
		return nil
	}
	header.Mode |= int64(want)
	return fstree.ChmodAt(e.Dir, e.Name, e.Perm()|want)
}

func (p *packer) file(e fstree.Entry, header *tar.Header) (err error) {
	fd := -1
	err = fstree.Retry(func() (err error) {
		fd, err = unix.Openat(int(e.Dir.Fd()), e.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: strconv.Quote(e.Path), Err: err}
	}
	f := os.NewFile(uintptr(fd), e.Name)
	defer func() { err = errors.Join(err, f.Close()) }()
	header.Size = e.Stat.Size
	if e.Stat.Blocks*512 >= e.Stat.Size {
		if err := p.w.WriteHeader(header); err != nil {
			return err
		}
		_, err = io.CopyN(p.w, f, header.Size)
		return err
	}
	header.PAXRecords = map[string]string{sparseRecord: strconv.FormatInt(e.Stat.Size, 10)}
	header.Size = 0
	err = pieces(f, e.Stat.Size, func(_, length int64) error { header.Size += 16 + length; return nil })
	if err != nil {
		return err
	}
	if err := p.w.WriteHeader(header); err != nil {
		return err
	}
	return pieces(f, e.Stat.Size, func(offset, length int64) error {
		var where [16]byte
		binary.BigEndian.PutUint64(where[:], uint64(offset))  // #nosec G115 -- not negative
		binary.BigEndian.PutUint64(where[8:], uint64(length)) // #nosec G115 -- not negative
		if _, err := p.w.Write(where[:]); err != nil {
			return err
		}
		_, err := io.Copy(p.w, io.NewSectionReader(f, offset, length))
		return err
	})
}

// pieces calls do for each part of a file that is no hole.
func pieces(f *os.File, size int64, do func(offset, length int64) error) error {
	for end := int64(0); end < size; {
		begin, err := f.Seek(end, seekData)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		if end, err = f.Seek(begin, seekHole); err != nil {
			return err
		}
		end = min(end, size)
		if err := do(begin, end-begin); err != nil {
			return err
		}
	}
	return nil
}

func readlinkAt(e fstree.Entry) (string, error) {
	buf := make([]byte, unix.PathMax)
	n := 0
	err := fstree.Retry(func() (err error) {
		n, err = unix.Readlinkat(int(e.Dir.Fd()), e.Name, buf)
		return err
	})
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: strconv.Quote(e.Path), Err: err}
	}
	return string(buf[:n]), nil
}
