package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/sandbox"
)

// Build caches hold what is executed later: who can write one decides what its
// readers run. So what is in one goes to code that is trusted less, by copying,
// never back:
//
//	set-up commands and checks on the default branch  → kept once for the repository
//	└─ each check on what agents wrote                 → thrown away after it
//	└─ the agents of one run                           → thrown away with the run
//
// Only the first outlives a run, and only what people with write access put on
// the default branch can write it. A check is evidence because nothing that agents
// wrote can have prepared what it finds, be it another check of the same tree.
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
	if level != cacheSetup {
		if err := h.fill(ctx, s, level, filling); err != nil {
			return "", fmt.Errorf("copy what the default branch left: %w", err)
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

// fill copies what the default branch left into a new cache: in this run, and else in
// earlier ones.
func (h *Host) fill(ctx context.Context, s loop.State, level, to string) error {
	if base := h.cacheDir(cacheBase); level == cacheCheck {
		if _, err := os.Lstat(base); err == nil {
			if _, err := h.cfg.Sandbox.Collect(ctx, sandbox.Workspace{Dir: base}); err != nil {
				return err
			}
			return copyTree(ctx, to, base)
		}
	}
	if s.SetupKey == "" {
		return nil
	}
	if level == cacheBase { // for keepBase
		if err := os.WriteFile(h.cacheDir(keyFile), []byte(s.SetupKey), 0o600); err != nil {
			return err
		}
	}
	from := h.cfg.Caches.set(s.SetupKey)
	err := copyTree(ctx, to, from)
	if err == nil {
		_, err = os.Lstat(from) // what is removed meanwhile is copied in part
	}
	if errors.Is(err, fs.ErrNotExist) { // never kept, or removed to make room: begin with nothing
		return errors.Join(gitrepo.RemoveAll(to), os.MkdirAll(to, 0o700))
	}
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(from, now, now) // only decides what is removed first
	}
	return err
}

// keyFile holds the key that the cache of the default branch is to be kept under.
const keyFile = "key"

// keepBase keeps what the checks on the default branch left, at the end of a run: for
// the next runs, unless something is kept already, or a start could do with too little
// room beside it.
func (h *Host) keepBase(ctx context.Context) error {
	key, err := os.ReadFile(h.cacheDir(keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep a cache: %w", err)
	}
	if _, err := os.Lstat(h.cfg.Caches.set(string(key))); err == nil {
		return nil
	}
	const share = 3 // of what a start may have
	if most := h.cfg.Resources.DiskBytes / share; most > 0 && treeSize(ctx, h.cacheDir(cacheBase)) > most {
		return nil
	}
	return h.keep(ctx, cacheBase, string(key))
}

// dropCaches begins again with caches that were filled until the disk was full.
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
	if h.cfg.Caches.Dir == "" {
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
	if _, err := os.Lstat(h.cfg.Caches.set(key)); err == nil || len(c.Run) == 0 {
		return key, nil, nil
	}
	tree, err := at.Repo.TreeOf(ctx, at.Default)
	if err != nil {
		return "", nil, err
	}
	return key, &loop.Setup{Commands: c.Run, Timeout: c.Timeout, Tree: string(tree)}, nil
}

// keep keeps what is in the cache of a level for the repository's runs. Where another
// run was faster, its outcome is as good; what is kept does not change any more.
func (h *Host) keep(ctx context.Context, level, key string) error {
	from, to := h.cacheDir(level), h.cfg.Caches.set(key)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) || key == "" {
		return nil // kept before, or nothing is
	}
	if _, err := h.cfg.Sandbox.Collect(ctx, sandbox.Workspace{Dir: from}); err != nil {
		return fmt.Errorf("keep a cache: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keep a cache: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		if _, there := os.Lstat(to); there != nil {
			return fmt.Errorf("keep a cache: %w", err)
		}
		return gitrepo.RemoveAll(from)
	}
	return h.cfg.Caches.prune(ctx, to)
}

// prune makes room: the oldest sets of a repository go first, then the oldest
// of all. The one just made stays, unless it alone is too large.
func (c Caches) prune(ctx context.Context, latest string) error {
	found, err := c.Sets(ctx)
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
			errs = append(errs, s.remove())
		}
	}
	return errors.Join(append(errs, c.removeGone())...)
}

// Expire removes what no run has begun with since a time.
func (c Caches) Expire(ctx context.Context, before time.Time) (Removed, error) {
	var done Removed
	sets, err := c.Sets(ctx)
	if err != nil {
		return done, err
	}
	var errs []error
	for _, s := range sets {
		if s.Used.Before(before) {
			done.add(s.Bytes)
			errs = append(errs, s.remove())
		}
	}
	return done, errors.Join(append(errs, c.removeGone())...)
}

// remove takes a set away under another name, for who copies it (see fill). Its files go with
// removeGone.
func (s CacheSet) remove() error {
	to := filepath.Join(filepath.Dir(s.Dir), gone+rand.Text())
	if err := os.Rename(s.Dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a cache: %w", err)
	}
	return nil
}

// removeGone removes the files of the sets that were taken away, also where an earlier removal
// broke off.
func (c Caches) removeGone() error {
	dirs, err := filepath.Glob(filepath.Join(c.Dir, "*"))
	for _, dir := range dirs {
		err = errors.Join(err, removeGone(dir))
	}
	return err
}

// CacheSet is what set-up commands made once.
type CacheSet struct {
	Dir, Repo string
	Bytes     int64
	// Used is when a run last began with it.
	Used time.Time
}

// Sets lists what is kept, of all repositories.
func (c Caches) Sets(ctx context.Context) ([]CacheSet, error) {
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
			Dir: dir, Repo: filepath.Base(filepath.Dir(dir)), Used: info.ModTime(), Bytes: treeSize(ctx, dir),
		})
	}
	slices.SortFunc(sets, func(a, b CacheSet) int { return cmp.Compare(a.Dir, b.Dir) })
	return sets, nil
}

// treeSize adds up the files below dir, as far as they can be seen.
func treeSize(ctx context.Context, dir string) (n int64) {
	_ = fstree.Walk(ctx, dir, func(e fstree.Entry) error {
		if e.IsRegular() {
			n += e.Stat.Size
		}
		return nil
	})
	return n
}
