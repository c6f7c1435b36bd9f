package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// Purge removes the untracked files and directories, ignored ones included,
// whose path below the directory match picks. What is nested deeper than a tree may be
// stays.
func (w *Worktree) Purge(ctx context.Context, match func(path string) bool) error {
	x, err := w.load()
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	root, err := openDir(w.dir)
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	defer func() { _ = root.Close() }()
	p := purger{index: x, match: match}
	if err := p.dir(ctx, root, "", 0); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

// RemoveNested removes the .git of directories that a Snapshot found one in. What
// is gone meanwhile, or is no directory any more, is left alone.
func (w *Worktree) RemoveNested(ctx context.Context, dirs []string) error {
	root, err := openDir(w.dir)
	if err != nil {
		return fmt.Errorf("remove nested repositories: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, dir := range dirs {
		if err := removeGit(ctx, root, strings.Split(dir, "/")); err != nil {
			return fmt.Errorf("remove the nested repository %s: %w", quotePath(dir), err)
		}
	}
	return nil
}

// removeGit removes the .git of the directory that the names lead to.
func removeGit(ctx context.Context, dir *os.File, names []string) error {
	if len(names) == 0 {
		return fstree.RemoveAt(ctx, dir, ".git")
	}
	sub, err := fstree.OpenDirAt(dir, names[0])
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	return removeGit(ctx, sub, names[1:])
}

type purger struct {
	index *index
	match func(path string) bool
}

func (p *purger) dir(ctx context.Context, dir *os.File, prefix string, depth int) error {
	removed := false
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries, err := dir.ReadDir(batchSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for _, entry := range entries {
			gone, err := p.entry(ctx, dir, prefix+entry.Name(), entry.IsDir(), depth)
			if err != nil {
				return err
			}
			removed = removed || gone
		}
		if len(entries) > 0 {
			continue
		}
		if !removed {
			return nil
		}
		// Names that go away while a directory is read may hide others.
		removed = false
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// isGone says whether there is nothing at a path, or no directory on the way to it.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// entry removes what matches, and says whether it did; another directory it enters.
func (p *purger) entry(ctx context.Context, dir *os.File, path string, isDir bool, depth int) (removed bool, err error) {
	_, name := splitPath(path)
	if path == ".git" {
		return false, nil
	}
	_, file := p.index.byPath[path]
	_, parent := p.index.dirs[path]
	if !file && !parent && p.match(path) {
		return true, fstree.RemoveAt(ctx, dir, name)
	}
	if !isDir || depth == maxDepth {
		return false, nil
	}
	return false, p.sub(ctx, dir, name, path, depth)
}

func (p *purger) sub(ctx context.Context, parent *os.File, name, path string, depth int) error {
	info, err := lstatAt(parent, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.isDir() {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := fstree.EnterAt(parent, name, info.perm)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return p.dir(ctx, dir, path+"/", depth+1)
}

// RemoveAll is [fstree.RemoveAll].
func RemoveAll(path string) error { return fstree.RemoveAll(path) }
