package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/sandbox"
)

// Build caches hold what is executed later: who can write one decides what its
// readers run. So there is one for each kind of code that can write it, and
// what is in it goes to code that is trusted less, by copying, never back:
//
//	set-up commands on the default branch   → kept for the repository
//	└─ the tree a run began from             → thrown away with the run
//	└─ what agents wrote, in checks           → likewise
//	└─ the agents themselves                  → likewise
//
// Only the first outlives a run, and only what people with write access put on
// the default branch can write it.
const (
	cacheAgent = "agent"
	cacheCheck = "check"
	cacheBase  = "base"
	cacheSetup = "setup"
)

// CachesDir is where Caches are kept in a data directory.
const CachesDir = "caches"

// Caches say where what set-up commands made is kept.
type Caches struct {
	// Dir is the directory of all repositories, and Repo the name of this one
	// in it; without a Dir nothing is kept.
	Dir, Repo string
	// MaxBytes bounds Dir; 0 means no bound.
	MaxBytes int64
}

const (
	// setsKept is how many outcomes of set-up commands are kept per
	// repository: branches with different lock files take turns.
	setsKept = 3
	// setPrefix begins the name of a complete outcome.
	setPrefix = "set-"
)

func (h *Host) cacheDir(level string) string { return filepath.Join(h.cfg.Dir, "cache", level) }

// set is the directory of what set-up commands with that key made.
func (c Caches) set(key string) string { return filepath.Join(c.Dir, c.Repo, setPrefix+key) }

// cache gives the cache of a level, which begins as a copy of what set-up
// commands made.
func (h *Host) cache(ctx context.Context, s loop.State, level string) (string, error) {
	dir := h.cacheDir(level)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	filling := dir + ".new"
	if err := gitrepo.RemoveAll(filling); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filling, 0o700); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	if s.SetupKey != "" && level != cacheSetup {
		from := h.cfg.Caches.set(s.SetupKey)
		err := copyTree(filling, from)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed to make room: begin with nothing
			err = errors.Join(gitrepo.RemoveAll(filling), os.MkdirAll(filling, 0o700))
		case err == nil:
			now := time.Now()
			_ = os.Chtimes(from, now, now) // only decides what is removed first
		}
		if err != nil {
			return "", fmt.Errorf("copy what the set-up commands made: %w", err)
		}
	}
	if _, err := h.cfg.Sandbox.Prepare(ctx, filling); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	if err := os.Rename(filling, dir); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	return dir, nil
}

// dropCaches begins anew with caches that were filled until the disk was full.
func (h *Host) dropCaches(levels ...string) error {
	var errs []error
	for _, level := range levels {
		errs = append(errs, gitrepo.RemoveAll(h.cacheDir(level)))
	}
	return errors.Join(errs...)
}

// lockFiles say what a project depends on; where one of them changes, set-up
// commands are due again.
var lockFiles = []string{
	"go.mod", "go.sum", "go.work", "go.work.sum", "package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml",
	"bun.lock",
	"requirements.txt", "requirements-dev.txt", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile.lock", "Cargo.toml",
	"Cargo.lock",
	"Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "pom.xml", "build.gradle", "build.gradle.kts",
	"gradle.lockfile",
}

// setup says what set-up commands make of the default branch is known by, and
// what has to be run where that is not kept yet.
func (h *Host) setup(
	ctx context.Context, at Location, image string, c config.Setup,
) (key string, due *loop.Setup, err error) {
	if len(c.Run) == 0 || h.cfg.Caches.Dir == "" {
		return "", nil, nil
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\x00%s\x00%s\x00", c.Run, image, h.cfg.Image)
	for _, name := range slices.Concat(lockFiles, c.Inputs) {
		src, err := at.Repo.ReadFile(ctx, at.Default, name, maxLock)
		if errors.Is(err, gitrepo.ErrTooLarge) {
			src, err = []byte(at.Default), nil // as good as no memory at all
		}
		if errors.Is(err, gitrepo.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
		fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(src), src)
	}
	key = hex.EncodeToString(sum.Sum(nil))[:32]
	if _, err := os.Lstat(h.cfg.Caches.set(key)); err == nil {
		return key, nil, nil
	}
	tree, err := at.Repo.TreeOf(ctx, at.Default)
	if err != nil {
		return "", nil, err
	}
	return key, &loop.Setup{Commands: c.Run, Timeout: c.Timeout, Tree: string(tree)}, nil
}

// keepSetup keeps what set-up commands made for the repository's runs. Where
// another run was faster, its outcome is as good.
func (h *Host) keepSetup(ctx context.Context, key string) error {
	from, to := h.cacheDir(cacheSetup), h.cfg.Caches.set(key)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil // kept before
	}
	if _, err := h.cfg.Sandbox.Collect(ctx, sandbox.Workspace{Dir: from}); err != nil {
		return fmt.Errorf("keep what the set-up commands made: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keep what the set-up commands made: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		if _, there := os.Lstat(to); there != nil {
			return fmt.Errorf("keep what the set-up commands made: %w", err)
		}
		return gitrepo.RemoveAll(from)
	}
	return h.cfg.Caches.prune(to)
}

// prune makes room: the oldest sets of a repository go first, then the oldest
// of all. The one just made stays, unless it alone is too large.
func (c Caches) prune(latest string) error {
	found, err := c.Sets()
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b CacheSet) int {
		if (a.Dir == latest) != (b.Dir == latest) {
			if a.Dir == latest {
				return -1
			}
			return 1
		}
		return b.Used.Compare(a.Used)
	})
	own, total := map[string]int{}, int64(0)
	var errs []error
	for _, s := range found {
		own[s.Repo]++
		total += s.Bytes
		if own[s.Repo] > setsKept || c.MaxBytes > 0 && total > c.MaxBytes {
			total -= s.Bytes
			errs = append(errs, gitrepo.RemoveAll(s.Dir))
		}
	}
	return errors.Join(errs...)
}

// CacheSet is what set-up commands made once.
type CacheSet struct {
	Dir, Repo string
	Bytes     int64
	// Used is when a run last began with it.
	Used time.Time
}

// Sets lists what is kept, of all repositories.
func (c Caches) Sets() ([]CacheSet, error) {
	dirs, err := filepath.Glob(filepath.Join(c.Dir, "*", setPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list the caches: %w", err)
	}
	var sets []CacheSet
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue // removed meanwhile
		}
		sets = append(sets, CacheSet{
			Dir: dir, Repo: filepath.Base(filepath.Dir(dir)), Used: info.ModTime(), Bytes: treeSize(dir),
		})
	}
	slices.SortFunc(sets, func(a, b CacheSet) int { return cmp.Compare(a.Dir, b.Dir) })
	return sets, nil
}

// treeSize adds up the files below dir, as far as they can be seen.
func treeSize(dir string) (n int64) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer func() { _ = root.Close() }()
	_ = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// copyTree copies plain files, directories and links below from into the empty
// directory to. No link is followed, so that nothing outside is read; what is
// neither of the three has no place in a cache and is left out.
func copyTree(to, from string) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	type modes struct {
		path string
		mode fs.FileMode
	}
	var shut []modes // directories that are made read-only once they are full
	err = fs.WalkDir(src.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if err := dst.Mkdir(path, 0o700); err != nil {
				return err
			}
			shut = append(shut, modes{path, info.Mode().Perm() | 0o500})
			return nil
		case e.Type() == fs.ModeSymlink:
			target, err := src.Readlink(path)
			if err != nil {
				return err
			}
			return dst.Symlink(target, path)
		case info.Mode().IsRegular():
			return copyPlain(dst, src, path, info)
		}
		return nil
	})
	for _, m := range slices.Backward(shut) {
		err = errors.Join(err, dst.Chmod(m.path, m.mode))
	}
	return err
}

// copyPlain keeps the time, by which tools tell what is stale.
func copyPlain(dst, src *os.Root, path string, info fs.FileInfo) error {
	in, err := src.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := dst.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return dst.Chtimes(path, info.ModTime(), info.ModTime())
}
