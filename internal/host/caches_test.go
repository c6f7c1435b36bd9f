package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/fstree/fstreetest"
)

func file(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever names and depth a cache has, its copy is made, down to a bound.
func TestCopyTreeOfHostileNames(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	file(t, filepath.Join(from, "bad\xff", "\xfe"), "x")
	if err := fstreetest.Dig(from, 5000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fstree.RemoveAll(from) })
	if err := copyTree(t.Context(), to, from); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "bad\xff", "\xfe")); err != nil || string(got) != "x" {
		t.Errorf("the copy holds %q, %v", got, err)
	}
	if n := treeSize(t.Context(), to); n != 1 {
		t.Errorf("the copy holds %d bytes, want 1", n)
	}
}

func TestCopyTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	file(t, outside, "secret")
	file(t, filepath.Join(from, "mod", "a.go"), "package a")
	file(t, filepath.Join(from, "b"), "b")
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, err := range []error{
		os.Chmod(filepath.Join(from, "mod", "a.go"), 0o444), // #nosec G302 -- as the module cache has it
		os.Chtimes(filepath.Join(from, "b"), old, old),
		os.Symlink(outside, filepath.Join(from, "link")),
		os.Symlink(filepath.Dir(outside), filepath.Join(from, "dir")),
		os.Chmod(filepath.Join(from, "mod"), 0o555), // #nosec G302 -- likewise
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, dir := range []string{from, to} {
			if err := os.Chmod(filepath.Join(dir, "mod"), 0o700); err != nil { // #nosec G302 -- a directory
				t.Error(err)
			}
		}
	})
	if err := copyTree(t.Context(), to, from); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mod": "dr-xr-xr-x", "mod/a.go": "-r--r--r--", "b": "-rw-------", "link": "Lrwxrwxrwx", "dir": "Lrwxrwxrwx",
	} {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v; want %s", name, info, err, want)
		}
		if name == "b" && !info.ModTime().Equal(old) {
			t.Errorf("%s is of %v", name, info.ModTime())
		}
	}
	if got, err := os.ReadFile(filepath.Join(to, "mod", "a.go")); err != nil || string(got) != "package a" {
		t.Errorf("content %q, %v", got, err)
	}
}

func TestPruneCaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		max    int64
		latest string
		want   []string
	}{
		{"few per repository", 0, "a/set-4", []string{"a/set-2", "a/set-3", "a/set-4", "b/set-1"}},
		{"the oldest make room", 25, "a/set-4", []string{"a/set-4", "b/set-1"}},
		{"the latest stays before one that is newer", 15, "a/set-1", []string{"a/set-1"}},
		{"one that is too large is not kept", 5, "a/set-4", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Caches{Dir: t.TempDir(), Repo: "a", MaxBytes: tt.max}
			for i, name := range []string{"a/set-1", "a/set-2", "a/set-3", "a/set-4", "b/set-1"} {
				dir := filepath.Join(c.Dir, filepath.FromSlash(name))
				file(t, filepath.Join(dir, "x"), "0123456789")
				at := time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
				if err := os.Chtimes(dir, at, at); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.prune(t.Context(), filepath.Join(c.Dir, filepath.FromSlash(tt.latest))); err != nil {
				t.Fatal(err)
			}
			sets, err := c.Sets(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, s := range sets {
				rel, err := filepath.Rel(c.Dir, s.Dir)
				if err != nil || s.Bytes != 10 {
					t.Errorf("%+v, %v", s, err)
				}
				left = append(left, rel)
			}
			if len(left) != len(tt.want) {
				t.Fatalf("left %v, want %v", left, tt.want)
			}
			for i := range left {
				if left[i] != tt.want[i] {
					t.Fatalf("left %v, want %v", left, tt.want)
				}
			}
		})
	}
}

// An error of one file is that of the copy, however many are copied at once.
func TestCopyTreeFails(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	for i := range 50 {
		file(t, filepath.Join(from, "d", strconv.Itoa(i)), "x")
	}
	file(t, filepath.Join(to, "d"), "in the way")
	if err := copyTree(t.Context(), to, from); err == nil {
		t.Error("what is in the way is overwritten")
	}
	file(t, filepath.Join(from, "a"), "x")
	other := t.TempDir()
	file(t, filepath.Join(other, "a"), "in the way")
	if err := copyTree(t.Context(), other, from); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file in the way: %v", err)
	}
}
