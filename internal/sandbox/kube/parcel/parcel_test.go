package parcel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/sandbox/kube/parcel"
)

// carry packs from and unpacks it into to.
func carry(t *testing.T, from, to string, known parcel.Known) int {
	t.Helper()
	var stream bytes.Buffer
	if err := parcel.Pack(t.Context(), &stream, from, known); err != nil {
		t.Fatal(err)
	}
	n := stream.Len()
	if err := parcel.Unpack(t.Context(), to, &stream); err != nil {
		t.Fatal(err)
	}
	return n
}

// listing describes all that is below dir.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fstree.Walk(t.Context(), dir, func(e fstree.Entry) error {
		path := filepath.Join(dir, e.Path)
		switch {
		case e.IsLink():
			target, err := os.Readlink(path)
			all[e.Path] = "-> " + target
			return err
		case e.IsDir():
			all[e.Path] = fmt.Sprintf("%o %s", e.Perm(), time.Unix(e.Stat.Mtim.Unix()))
			return nil
		case !e.IsRegular():
			all[e.Path] = "special"
			return nil
		}
		data, err := os.ReadFile(path) // #nosec G304 -- the test's file
		all[e.Path] = fmt.Sprintf("%o %s %d %.40q", e.Perm(), time.Unix(e.Stat.Mtim.Unix()), e.Stat.Nlink, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCarry(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, map[string]string{
		"a": "1", "b/c": "2", "b/d/e": strings.Repeat("x", 100_000), "run": "#!/bin/sh", "empty": "",
		strings.Repeat("long", 60): "3", "b/" + strings.Repeat("ü", 100): "4", "new\nline": "5",
	})
	if err := errors.Join(
		os.Symlink("/etc/passwd", filepath.Join(from, "out")), os.Symlink("a", filepath.Join(from, "in")),
		os.Link(filepath.Join(from, "a"), filepath.Join(from, "b/hard")), os.Chmod(filepath.Join(from, "run"), 0o755),
		os.Mkdir(filepath.Join(from, "none"), 0o700), os.Chmod(filepath.Join(from, "b/d"), 0o750),
		os.Chtimes(filepath.Join(from, "b/c"), time.Time{}, time.Unix(1_000_000_000, 123_456_789)),
		os.Chtimes(filepath.Join(from, "b"), time.Time{}, time.Unix(1_100_000_000, 987)),
	); err != nil {
		t.Fatal(err)
	}
	// What is there goes, and nothing that it leads to.
	outside := t.TempDir()
	write(t, outside, map[string]string{"keep": "kept"})
	write(t, to, map[string]string{"a/was/a/directory": "x", "other": "x"})
	if err := os.Symlink(outside, filepath.Join(to, "b")); err != nil {
		t.Fatal(err)
	}
	carry(t, from, to, nil)
	if diff := cmp.Diff(listing(t, from), listing(t, to)); diff != "" {
		t.Error(diff)
	}
	if got := listing(t, outside); len(got) != 1 {
		t.Errorf("outside: %v", got)
	}
	carry(t, from, to, nil) // again
	if diff := cmp.Diff(listing(t, from), listing(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsKnownIsNotSent(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	big := strings.Repeat("y", 1<<20)
	write(t, from, map[string]string{"same": big, "changed": "1", "gone": "2", "d/same": big, "forged": big})
	carry(t, from, to, nil)
	old := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(filepath.Join(from, "forged"), old, old); err != nil {
		t.Fatal(err)
	}
	carry(t, from, to, nil)
	known := parcel.Known{}
	for len(known) < 5 { // until the last change was long enough ago
		var err error
		if known, err = parcel.Note(t.Context(), from); err != nil {
			t.Fatal(err)
		}
	}
	write(t, from, map[string]string{"changed": "22", "d/new": "3", "forged": strings.Repeat("z", 1<<20)})
	// Its time and size are what they were.
	if err := errors.Join(os.Chtimes(filepath.Join(from, "forged"), old, old), os.Remove(filepath.Join(from, "gone"))); err != nil {
		t.Fatal(err)
	}
	if n := carry(t, from, to, known); n < 1<<20 || n > 1<<20+20_000 {
		t.Errorf("%d bytes were sent", n)
	}
	if diff := cmp.Diff(listing(t, from), listing(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestHolesStayHoles(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "f"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 40
	_, err = f.WriteAt([]byte("middle"), size/2)
	if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	if n := carry(t, from, to, nil); n > 100_000 {
		t.Errorf("%d bytes were sent", n)
	}
	got, err := os.Open(filepath.Join(to, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Close() }()
	middle := make([]byte, 8)
	if _, err := got.ReadAt(middle, size/2-1); err != nil || string(middle) != "\x00middle\x00" {
		t.Errorf("the middle is %q, %v", middle, err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(got.Fd()), &st); err != nil || st.Size != size || st.Blocks > 1000 { // #nosec G115 -- a descriptor
		t.Errorf("%d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
}

func TestSpecialAndShut(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, map[string]string{"shut/file": "1", "file": "2"})
	if err := errors.Join(syscall.Mkfifo(filepath.Join(from, "fifo"), 0o600), os.Chmod(filepath.Join(from, "file"), 0),
		os.Chmod(filepath.Join(from, "shut"), 0)); err != nil {
		t.Fatal(err)
	}
	carry(t, from, to, nil)
	if _, err := os.Lstat(filepath.Join(to, "fifo")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the FIFO: %v", err)
	}
	for name, want := range map[string]string{"shut/file": "1", "file": "2"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestShortStream: whatever is missing of a stream is noticed, and nothing is removed.
func TestShortStream(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, map[string]string{"a": "1", "b": strings.Repeat("x", 3000)})
	write(t, to, map[string]string{"there": "x"})
	var stream bytes.Buffer
	if err := parcel.Pack(t.Context(), &stream, from, nil); err != nil {
		t.Fatal(err)
	}
	// The two last blocks are the end of a tar, after which nothing is missing.
	for n := 0; n <= stream.Len()-2048; n += 256 {
		if err := parcel.Unpack(t.Context(), to, bytes.NewReader(stream.Bytes()[:n])); err == nil {
			t.Errorf("%d of %d bytes were taken for all", n, stream.Len())
		}
		if _, err := os.Lstat(filepath.Join(to, "there")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := parcel.Unpack(ctx, to, &stream); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
