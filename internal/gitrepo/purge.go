package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// Purge removes the untracked files and directories, ignored ones included,
// whose path below the directory match picks. What is nested deeper than [fstree.MaxDepth]
// stays.
func (w *Worktree) Purge(ctx context.Context, match func(path string) bool) error {
	x, err := w.load()
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	var picked []string
	err = fstree.Walk(ctx, w.dir, func(e fstree.Entry) error {
		_, file := x.byPath[e.Path]
		_, parent := x.dirs[e.Path]
		switch {
		case e.Path == ".git":
			return fs.SkipDir
		case !file && !parent && match(e.Path):
			picked = append(picked, e.Path)
			return fs.SkipDir
		case e.IsDir() && e.Perm()&0o700 != 0o700: // to look into it
			return fstree.ChmodAt(e.Dir, e.Name, 0o700)
		}
		return nil
	})
	if err == nil {
		err = w.remove(ctx, picked)
	}
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

// remove removes what is at paths, with all that is below. No link is followed.
func (w *Worktree) remove(ctx context.Context, paths []string) error {
	root, err := openDir(w.dir)
	if err != nil {
		return err
	}
	stack := &dirStack{root: root}
	defer func() { stack.cut(0); _ = root.Close() }()
	slices.Sort(paths) // so that each directory is opened once
	for _, path := range paths {
		parent, name := splitPath(path)
		dir, err := stack.find(parent)
		if err == nil {
			err = fstree.RemoveAt(ctx, dir, name)
		}
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
		if err != nil && !gone {
			return fmt.Errorf("%s: %w", quotePath(path), err)
		}
	}
	return nil
}
