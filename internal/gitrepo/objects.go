package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// The kinds of objects.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// maxTree and maxCommit bound trees and commits that are read into memory.
const (
	maxTree   = 64 << 20
	maxCommit = 4 << 20
)

// store is an object directory, with a git dir of our own through which git
// reads it.
type store struct {
	git  *Git
	algo algo
	// objects is the object directory; view a git dir with a configuration of
	// ours (the repository itself, where that is ours).
	objects, view string
	// quarantine, where set, takes what is written; see Repo.Quarantine. It holds that
	// many bytes.
	quarantine  string
	quarantined *atomic.Int64
}

// call runs git on the objects, without anyone's configuration.
func (s *store) call(ctx context.Context, c call) ([]byte, error) {
	c.env = append(c.env, "GIT_DIR="+s.view, "GIT_OBJECT_DIRECTORY="+s.objects)
	if s.quarantine != "" {
		c.env = append(c.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+strconv.Quote(s.quarantine))
	}
	return s.git.run(ctx, c)
}

// loose is where an object is a file of its own, if it is.
func (s *store) loose(oid OID) string {
	if s.quarantine != "" {
		path := loosePath(s.quarantine, oid)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return loosePath(s.objects, oid)
}

// write stores an object as git does: a loose file that appears whole under
// its name, or not at all.
func (s *store) write(kind string, data []byte) (OID, error) {
	oid := s.algo.sum(kind, data)
	return oid, s.put(oid, kind, data)
}

// put is write for who knows the name.
func (s *store) put(oid OID, kind string, data []byte) error {
	return s.putFrom(oid, kind, int64(len(data)), bytes.NewReader(data))
}

// putFrom is put of what a reader gives.
func (s *store) putFrom(oid OID, kind string, size int64, r io.Reader) error {
	final := s.loose(oid)
	if _, err := os.Lstat(final); err == nil {
		return nil
	}
	if s.quarantine != "" {
		final = loosePath(s.quarantine, oid)
	}
	err := s.place(final, func(w io.Writer) error {
		if s.quarantine != "" {
			w = countingWriter{w, s.quarantined}
		}
		return deflate(w, kind, size, r)
	})
	if err != nil {
		return fmt.Errorf("write %s %s: %w", kind, oid, err)
	}
	return nil
}

// countingWriter adds up what is written through it.
type countingWriter struct {
	io.Writer
	sum *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.sum.Add(int64(n))
	return n, err
}

// place makes the file of a loose object, which appears whole or not at all.
func (s *store) place(final string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(final)
	tmp, err := os.CreateTemp(dir, "tmp_obj_")
	if errors.Is(err, fs.ErrNotExist) {
		// Others may share the repository: the mode of its own directory says.
		info, statErr := os.Stat(filepath.Dir(dir))
		if statErr != nil {
			return statErr
		}
		if mkErr := os.Mkdir(dir, info.Mode().Perm()); mkErr != nil && !errors.Is(mkErr, fs.ErrExist) {
			return mkErr
		}
		tmp, err = os.CreateTemp(dir, "tmp_obj_")
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := errors.Join(fill(tmp), tmp.Chmod(0o444), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), final)
}

// deflaters are kept for the next object: making one costs more than a small
// object does. Plain ones do not compress.
var deflaters, plain sync.Pool

// maxPlain is how large an object is at most that is not worth compressing: its
// file takes a block of the disk in any case.
const maxPlain = 1 << 10

// deflate writes an object as the file of a loose one.
func deflate(w io.Writer, kind string, size int64, r io.Reader) error {
	return compress(w, objectHeader(kind, size), size, r)
}

// compress writes a head and what r gives, which is so long.
func compress(w io.Writer, head []byte, size int64, r io.Reader) error {
	pool, level := &deflaters, zlib.BestSpeed
	if size <= maxPlain {
		pool, level = &plain, zlib.NoCompression
	}
	z, ok := pool.Get().(*zlib.Writer)
	if !ok {
		var err error
		if z, err = zlib.NewWriterLevel(w, level); err != nil {
			return err
		}
	}
	defer pool.Put(z)
	z.Reset(w)
	if _, err := z.Write(head); err != nil {
		return err
	}
	if _, err := io.CopyN(z, r, size); err != nil {
		return err
	}
	return z.Close()
}

// readLoose reads an object that is a file of its own, as the newest ones are;
// that spares a process. Packed ones are fs.ErrNotExist.
func (s *store) readLoose(oid OID, limit int64) (kind string, data []byte, err error) {
	f, err := os.Open(s.loose(oid)) // #nosec G304 -- the host's own objects
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return "", nil, fmt.Errorf("object %s: %w", oid, err)
	}
	r := bufio.NewReader(z)
	header, err := r.ReadString(0)
	if err != nil {
		return "", nil, fmt.Errorf("object %s: header: %w", oid, err)
	}
	kind, length, _ := strings.Cut(strings.TrimSuffix(header, "\x00"), " ")
	size, err := strconv.ParseInt(length, 10, 64)
	if err != nil || size < 0 {
		return "", nil, fmt.Errorf("object %s: its header is broken", oid)
	}
	if size > limit {
		return kind, nil, fmt.Errorf("object %s of %d bytes: %w", oid, size, ErrTooLarge)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", nil, fmt.Errorf("object %s: %w", oid, err)
	}
	return kind, data, nil
}

// read returns an object's content. ErrNotFound where there is none of that
// kind, ErrTooLarge where it is larger than limit.
func (s *store) read(ctx context.Context, kind string, oid OID, limit int64) ([]byte, error) {
	if !s.algo.owns(oid) {
		return nil, fmt.Errorf("%s %s: %w", kind, quote(string(oid)), ErrNotFound)
	}
	got, data, err := s.readLoose(oid, limit)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.batch(ctx, []string{string(oid)}, func(_ int, o object) error {
			got = o.kind
			data, err = o.bytes(limit)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if got != kind {
		return nil, fmt.Errorf("%s %s: %w", kind, oid, ErrNotFound)
	}
	return data, nil
}

// object is one answer of git cat-file --batch. A missing one has no kind.
type object struct {
	kind string
	oid  OID
	size int64
	r    io.Reader
}

func (o object) bytes(limit int64) ([]byte, error) {
	if o.size > limit {
		return nil, fmt.Errorf("object %s of %d bytes: %w", o.oid, o.size, ErrTooLarge)
	}
	data := make([]byte, o.size)
	if _, err := io.ReadFull(o.r, data); err != nil {
		return nil, fmt.Errorf("object %s: %w", o.oid, err)
	}
	return data, nil
}

// batch asks one git process for many objects, in order. The names are object
// names or "<object>:<path>". What each leaves unread is skipped.
func (s *store) batch(ctx context.Context, names []string, each func(i int, o object) error) error {
	if len(names) == 0 {
		return nil
	}
	var request bytes.Buffer
	for _, name := range names {
		request.WriteString(name)
		request.WriteByte(0)
	}
	// cat-file writes, we read: a pipe joins the two, and each side ends when
	// the other does.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.call(ctx, call{
			args:  []string{"cat-file", "--batch", "--buffer", "-z"},
			stdin: &request, stdout: pw,
		})
		_ = pw.CloseWithError(err) // nil means end of file; it never fails
		done <- err
	}()
	err := readBatch(bufio.NewReaderSize(pr, 1<<16), names, each)
	if err != nil {
		stop(err)
	}
	_ = pr.CloseWithError(io.ErrClosedPipe) // it never fails
	if runErr := <-done; err == nil && runErr != nil {
		return runErr
	}
	return err
}

func readBatch(r *bufio.Reader, names []string, each func(i int, o object) error) error {
	for i, name := range names {
		header, err := r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		header = strings.TrimSuffix(header, "\n")
		// "<name> missing", where the name may hold anything but NUL.
		rest, asked := strings.CutPrefix(header, name+" ")
		if asked && (rest == "missing" || rest == "ambiguous") {
			if err := each(i, object{r: strings.NewReader("")}); err != nil {
				return err
			}
			continue
		}
		fields := strings.Fields(header)
		if len(fields) != 3 {
			return fmt.Errorf("git cat-file: answered %s", quote(header))
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || size < 0 || !OID(fields[0]).Valid() {
			return fmt.Errorf("git cat-file: answered %s", quote(header))
		}
		content := &io.LimitedReader{R: r, N: size}
		if err := each(i, object{kind: fields[1], oid: OID(fields[0]), size: size, r: content}); err != nil {
			return err
		}
		// What was left, and the newline after the content.
		if _, err := io.CopyN(io.Discard, r, content.N+1); err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
	}
	return nil
}

// readEach reads many blobs, in no certain order: from loose files where they
// are, and with one git process for the rest. A missing one is an error.
func (s *store) readEach(ctx context.Context, oids []OID, each func(i int, size int64, r io.Reader) error) error {
	// Beyond a handful the process costs less than looking for files.
	const handful = 64
	var packed []string
	var at []int
	for i, oid := range oids {
		if len(oids) <= handful {
			kind, data, err := s.readLoose(oid, 1<<20)
			if err == nil && kind == kindBlob {
				if err := each(i, int64(len(data)), bytes.NewReader(data)); err != nil {
					return err
				}
				continue
			}
		}
		packed = append(packed, string(oid))
		at = append(at, i)
	}
	return s.batch(ctx, packed, func(i int, o object) error {
		if o.kind != kindBlob {
			return fmt.Errorf("blob %s: %w", packed[i], ErrNotFound)
		}
		return each(at[i], o.size, o.r)
	})
}
