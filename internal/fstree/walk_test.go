package fstree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.WriteFile(filepath.Join(dir, "a/b/f"), nil, 0o600),
		os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link")),
		os.Mkdir(filepath.Join(dir, "\xff"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err := fstree.Walk(t.Context(), dir, func(e fstree.Entry) error {
		seen = append(seen, fmt.Sprint(e.Path, e.IsDir(), e.IsRegular(), e.IsLink()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen)
	want := []string{"a/b/ffalse true false", "a/btrue false false", "atrue false false", "linkfalse false true",
		"\xfftrue false false"}
	if !slices.Equal(seen, want) {
		t.Errorf("saw %q, want %q", seen, want)
	}
}

// However deep directories nest, a walk sees MaxDepth of them.
func TestWalkEndsAtMaxDepth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sandboxtest.Dig(dir, 10*fstree.MaxDepth); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fstree.RemoveAll(dir) })
	deepest, visits := 0, 0
	err := fstree.Walk(t.Context(), dir, func(e fstree.Entry) error {
		visits++
		deepest = max(deepest, strings.Count(e.Path, "/"))
		return nil
	})
	if err != nil || deepest != fstree.MaxDepth || visits != fstree.MaxDepth+1 {
		t.Errorf("%d visits down to %d, %v; want %d", visits, deepest, err, fstree.MaxDepth)
	}
}

// A cancel is heard after at most one batch of names, by a walk and by a removal.
func TestCancelEndsAWalk(t *testing.T) {
	t.Parallel()
	const files = 5000
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	visits := 0
	err := fstree.Walk(ctx, dir, func(fstree.Entry) error {
		visits++
		cancel(stop)
		return nil
	})
	if !errors.Is(err, stop) || visits >= files/2 {
		t.Errorf("%d of %d entries were visited after a cancel, %v", visits, files, err)
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Close() }()
	if err := fstree.RemoveAt(ctx, parent, filepath.Base(dir)); !errors.Is(err, stop) {
		t.Errorf("a removal that was cancelled says %v", err)
	}
}
