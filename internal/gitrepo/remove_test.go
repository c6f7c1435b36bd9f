package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir, outside string) error{
		"nothing there": func(_ *testing.T, dir, _ string) error { return os.Remove(dir) },
		"empty":         func(*testing.T, string, string) error { return nil },
		"a file": func(_ *testing.T, dir, _ string) error {
			return firstErr(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		},
		"a link": func(_ *testing.T, dir, outside string) error {
			return firstErr(os.Remove(dir), os.Symlink(outside, dir))
		},
		"links within": func(_ *testing.T, dir, outside string) error {
			return firstErr(os.Symlink(outside, filepath.Join(dir, "l")),
				os.Symlink("/nonexistent", filepath.Join(dir, "dangling")),
				os.Symlink(".", filepath.Join(dir, "loop")), os.Link(filepath.Join(outside, "keep"), filepath.Join(dir, "hard")))
		},
		"no permissions": func(_ *testing.T, dir, _ string) error {
			deep := filepath.Join(dir, "a/b")
			return firstErr(os.MkdirAll(deep, 0o750), os.WriteFile(filepath.Join(deep, "f"), nil, 0),
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
		"too deep for a path": func(t *testing.T, dir, _ string) error { t.Helper(); return digDeep(dir, 3000) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir, outside := filepath.Join(base, "dir"), filepath.Join(base, "outside")
			files{"outside/keep": "keep"}.write(t, base)
			if err := os.Mkdir(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := prepare(t, dir, outside); err != nil {
				t.Fatal(err)
			}
			if err := RemoveAll(dir); err != nil {
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

// digDeep makes directories deeper than any path can name, with a file at the
// bottom.
func digDeep(dir string, depth int) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	for range depth {
		next, err := makeDirAt(d, "deeper")
		_ = d.Close()
		if err != nil {
			return err
		}
		d = next
	}
	defer func() { _ = d.Close() }()
	f, err := createFileAt(d, "bottom", 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func TestRemoveAllReportsFailure(t *testing.T) {
	t.Parallel()
	if err := RemoveAll("/dev/null/below"); err == nil {
		t.Error("removed what cannot be removed")
	}
}
