package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Purge removes the untracked files and directories, ignored ones included,
// whose path below the directory match picks. What is nested deeper than a tree
// may be stays.
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
func (w *Worktree) RemoveNested(dirs []string) error {
	root, err := openDir(w.dir)
	if err != nil {
		return fmt.Errorf("remove nested repositories: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, dir := range dirs {
		if err := removeGit(root, strings.Split(dir, "/")); err != nil {
			return fmt.Errorf("remove the nested repository %s: %w", quotePath(dir), err)
		}
	}
	return nil
}

// removeGit removes the .git of the directory that the names lead to.
func removeGit(dir *os.File, names []string) error {
	if len(names) == 0 {
		return removeAt(dir, ".git")
	}
	sub, err := openDirAt(dir, names[0])
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	return removeGit(sub, names[1:])
}

type purger struct {
	index *index
	match func(path string) bool
}

func (p *purger) dir(ctx context.Context, dir *os.File, prefix string, depth int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	// Whole, since files are removed meanwhile.
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		path := prefix + name
		if path == ".git" {
			continue
		}
		_, file := p.index.byPath[path]
		_, parent := p.index.dirs[path]
		if !file && !parent && p.match(path) {
			if err := removeAt(dir, name); err != nil {
				return err
			}
			continue
		}
		if !entry.IsDir() || depth == maxDepth {
			continue
		}
		if err := p.sub(ctx, dir, name, path, depth); err != nil {
			return err
		}
	}
	return nil
}

func (p *purger) sub(ctx context.Context, parent *os.File, name, path string, depth int) error {
	info, err := lstatAt(parent, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.isDir() {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := enterAt(parent, name, info)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return p.dir(ctx, dir, path+"/", depth+1)
}
