package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
)

// A pool keeps the work trees of ended runs for the next run on the same
// repository. Making ten thousand files takes a second and more; bringing a
// tree of ten thousand up to date takes hundredths. A tree in the pool is as
// hostile as any: whoever takes it makes it exactly the tree it needs,
// ignored files included, before anything else looks at it.

const (
	// poolSize is how many trees are kept per repository.
	poolSize = 2
	// ready begins the names of trees that may be taken.
	ready = "tree-"
	// pooled is where a taken tree lies in the run's directory until its
	// parts are in their places.
	pooled = "pooled"
)

// takePooled moves a kept tree into the run's directory, if there is one and
// the run has none yet. Taking is a rename, so that only one run gets it.
func (h *Host) takePooled() error {
	if h.cfg.Pool == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Dir(h.treeDir())); err == nil {
		return nil
	}
	from := filepath.Join(h.cfg.Dir, pooled)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		took, err := h.claim(from)
		if err != nil || !took {
			return err
		}
	}
	for _, part := range []struct{ from, to string }{
		{filepath.Join(from, "index"), h.indexFile()},
		{filepath.Join(from, "work"), filepath.Dir(h.treeDir())},
	} {
		if err := os.Rename(part.from, part.to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take a kept work tree: %w", err)
		}
	}
	return nil
}

func (h *Host) claim(to string) (took bool, err error) {
	entries, err := os.ReadDir(h.cfg.Pool)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a kept work tree: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ready) {
			continue
		}
		err := os.Rename(filepath.Join(h.cfg.Pool, e.Name()), to)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) { // somebody else was faster
			return false, fmt.Errorf("take a kept work tree: %w", err)
		}
	}
	return false, nil
}

// keepPooled moves the run's tree into the pool, unless that is full.
func (h *Host) keepPooled() error {
	work := filepath.Dir(h.treeDir())
	if _, err := os.Lstat(work); h.cfg.Pool == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(h.cfg.Pool, 0o700); err != nil {
		return fmt.Errorf("keep the work tree: %w", err)
	}
	entries, err := os.ReadDir(h.cfg.Pool)
	if err != nil {
		return fmt.Errorf("keep the work tree: %w", err)
	}
	kept := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ready) {
			kept++
		}
	}
	if kept >= poolSize {
		return nil
	}
	name := rand.Text()
	slot := filepath.Join(h.cfg.Pool, "filling-"+name)
	if err := os.Mkdir(slot, 0o700); err != nil {
		return fmt.Errorf("keep the work tree: %w", err)
	}
	err = os.Rename(work, filepath.Join(slot, "work"))
	if err == nil {
		err = os.Rename(h.indexFile(), filepath.Join(slot, "index"))
	}
	if err == nil {
		err = os.Rename(slot, filepath.Join(h.cfg.Pool, ready+name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep the work tree: %w", err), gitrepo.RemoveAll(slot))
	}
	return nil
}

// EvictPools removes the work trees below dir, the pools of all repositories, that were
// kept before a time and not taken since, and what processes left that died.
func EvictPools(ctx context.Context, dir string, before time.Time) (Removed, error) {
	var done Removed
	trees, err := filepath.Glob(filepath.Join(dir, "*", "*-*"))
	if err != nil {
		return done, fmt.Errorf("look for kept work trees: %w", err)
	}
	var errs []error
	for _, tree := range trees {
		info, err := os.Lstat(tree)
		left := !strings.HasPrefix(filepath.Base(tree), gone)
		if err != nil || left && !info.ModTime().Before(before) {
			continue // taken meanwhile, or kept for a while
		}
		if left {
			done.add(treeSize(ctx, tree))
		}
		// Taking a tree is a rename, too: only one of both succeeds.
		to := filepath.Join(filepath.Dir(tree), gone+rand.Text())
		if err := os.Rename(tree, to); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove a kept work tree: %w", err))
			}
			continue
		}
		errs = append(errs, gitrepo.RemoveAll(to))
	}
	return done, errors.Join(errs...)
}
