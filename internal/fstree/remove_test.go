package fstree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir, outside string) error{
		"nothing there": func(_ *testing.T, dir, _ string) error { return os.Remove(dir) },
		"empty":         func(*testing.T, string, string) error { return nil },
		"a file": func(_ *testing.T, dir, _ string) error {
			return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		},
		"a link": func(_ *testing.T, dir, outside string) error {
			return errors.Join(os.Remove(dir), os.Symlink(outside, dir))
		},
		"links within": func(_ *testing.T, dir, outside string) error {
			return errors.Join(os.Symlink(outside, filepath.Join(dir, "l")),
				os.Symlink("/nonexistent", filepath.Join(dir, "dangling")),
				os.Symlink(".", filepath.Join(dir, "loop")), os.Link(filepath.Join(outside, "keep"), filepath.Join(dir, "hard")))
		},
		"no permissions": func(_ *testing.T, dir, _ string) error {
			deep := filepath.Join(dir, "a/b")
			return errors.Join(os.MkdirAll(deep, 0o750), os.WriteFile(filepath.Join(deep, "f"), nil, 0),
				os.Chmod(deep, 0), os.Chmod(filepath.Dir(deep), 0), os.Chmod(dir, 0))
		},
		"special files": func(_ *testing.T, dir, _ string) error { return unix.Mkfifo(filepath.Join(dir, "fifo"), 0) },
		"many files": func(_ *testing.T, dir, _ string) error {
			for i := range 10_000 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		"too deep for a path": func(t *testing.T, dir, _ string) error { t.Helper(); return sandboxtest.Dig(dir, 3000) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir, outside := filepath.Join(base, "dir"), filepath.Join(base, "outside")
			if err := errors.Join(os.Mkdir(outside, 0o700),
				os.WriteFile(filepath.Join(outside, "keep"), []byte("keep"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := prepare(t, dir, outside); err != nil {
				t.Fatal(err)
			}
			if err := fstree.RemoveAll(dir); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("still there: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(outside, "keep")); err != nil || string(got) != "keep" {
				t.Errorf("outside: %q, %v", got, err)
			}
		})
	}
}

func TestRemoveAllReportsFailure(t *testing.T) {
	t.Parallel()
	if err := fstree.RemoveAll("/dev/null/below"); err == nil {
		t.Error("removed what cannot be removed")
	}
}
