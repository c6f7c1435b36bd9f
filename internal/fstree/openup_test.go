package fstree_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

// Whatever permissions a command left, and however deep, the owner has access
// afterwards; what a link leads to keeps its own.
func TestOpenUp(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o200); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	deep := filepath.Join(dir, strings.Repeat("d/", 100), "e")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{"f": 0, "d/f": 0o200, "d/d/d/f": 0o700}
	for path, mode := range modes {
		if err := os.WriteFile(filepath.Join(dir, path), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(deep, "f")
	if err := errors.Join(
		os.WriteFile(file, nil, 0), os.Symlink(outside, filepath.Join(dir, "link")),
		os.Chmod(deep, 0o500), os.Chmod(filepath.Join(dir, "d/d"), 0), os.Chmod(dir, 0o100),
	); err != nil {
		t.Fatal(err)
	}
	if err := fstree.OpenUp(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		dir: 0o700, filepath.Join(dir, "f"): 0o400, filepath.Join(dir, "d/f"): 0o600, filepath.Join(dir, "d/d"): 0o700,
		filepath.Join(dir, "d/d/d/f"): 0o700, deep: 0o700, file: 0o400, outside: 0o200,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has %o, not %o", strings.TrimPrefix(path, dir), got, want)
		}
	}
}

// No depth keeps the host busy, and a cancel is heard.
func TestOpenUpOfDeepDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sandboxtest.Dig(dir, 10_000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fstree.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := fstree.OpenUp(ctx, dir); err != nil {
		t.Errorf("10,000 nested directories: %v", err)
	}
	cancel()
	if err := fstree.OpenUp(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled walk says %v", err)
	}
}
