package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
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
	// setPrefix begins the name of a complete outcome of set-up commands.
	setPrefix = "set-"
	// byCommands begins the key of an outcome that there are commands for: without it
	// nothing can be checked. Another is what checks left, and saves time alone.
	byCommands = "commands-"
)

func (h *Host) cacheDir(level string) string { return filepath.Join(h.cfg.Dir, "cache", level) }

// set is the directory of what set-up commands with that key made.
func (c Caches) set(key string) string { return filepath.Join(c.Dir, c.Repo, setPrefix+key) }

// cache gives the cache of a level, which begins as a copy of what set-up
// commands made.
func (h *Host) cache(ctx context.Context, s loop.State, level string) (string, error) {
	dir := h.cacheDir(level)
	if isThere(dir) {
		return dir, nil
	}
	filling := dir + ".new"
	if err := fstree.RemoveAll(filling); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filling, 0o700); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	if err := h.fill(ctx, s, level, filling); err != nil {
		return "", fmt.Errorf("copy what the default branch left: %w", err)
	}
	if err := h.cfg.Sandbox.Prepare(ctx, filling); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	if err := os.Rename(filling, dir); err != nil {
		return "", fmt.Errorf("make a cache: %w", err)
	}
	return dir, nil
}

// fill copies what the default branch left into a new cache: from the run's own copy of it, since
// another run may put away what is kept. What set-up commands made has to be there whole: a check
// without it would fail for what is no fault of the work, and excuse the faults of the work when it
// is the baseline. What checks left saves time alone.
func (h *Host) fill(ctx context.Context, s loop.State, level, to string) error {
	if level == cacheSetup {
		return nil
	}
	needed := strings.HasPrefix(s.SetupKey, byCommands)
	if level != cacheBase {
		base := h.cacheDir(cacheBase)
		if needed || h.kept(s.SetupKey) {
			if _, err := h.cache(ctx, s, cacheBase); err != nil {
				return err
			}
		}
		if !isThere(base) {
			return nil
		}
		if err := fstree.OpenUp(ctx, base); err != nil {
			return err
		}
		return copyTree(ctx, to, base)
	}
	if s.SetupKey == "" {
		return nil
	}
	from := h.cfg.Caches.set(s.SetupKey)
	if h.kept(s.SetupKey) {
		use(from)
		if err := copyTree(ctx, to, from); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil && needed && isThere(from) {
			return err
		} else if err != nil {
			h.tell(run.EventTrouble, "what earlier checks left in the build caches was not copied: "+err.Error())
			if err := errors.Join(fstree.RemoveAll(to), os.MkdirAll(to, 0o700)); err != nil {
				return err
			}
		}
	}
	if !h.kept(s.SetupKey) && needed { // also where it went while it was being copied
		return &run.UserError{
			Message: "what the set-up commands made is not there any more",
			Hint:    "start the run again, which runs them again; if that repeats, raise sandbox.caches or have them make less",
		}
	}
	return os.WriteFile(h.cacheDir(keyFile), []byte(s.SetupKey), 0o600) // for keepBase
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTree copies a directory into one that is empty. No link in it is followed, and files share their
// content until one of them is written, where the file system can do that.
func copyTree(ctx context.Context, to, from string) error {
	path, err := proc.Look("cp")
	if err != nil {
		return err
	}
	_, err = proc.Run(ctx, proc.Cmd{Path: path, Args: []string{"-a", "--", from + "/.", to}, Env: proc.ScrubbedEnv()})
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
	if h.kept(string(key)) {
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
		errs = append(errs, fstree.RemoveAll(h.cacheDir(level)))
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

// maxLock bounds the files that dependencies are known by.
const maxLock = 32 << 20

// keyOf is what the outcome of commands is known by: what they are, and what the files say that they read.
func keyOf(ctx context.Context, repo *gitrepo.Repo, at gitrepo.OID, files []string, what ...string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", what)
	for _, name := range files {
		src, err := repo.ReadFile(ctx, at, name, maxLock)
		switch {
		case errors.Is(err, gitrepo.ErrTooLarge):
			src = []byte(at) // as good as no memory at all
		case errors.Is(err, gitrepo.ErrNotFound):
			continue
		case err != nil:
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(src), src)
	}
	return hex.EncodeToString(sum.Sum(nil))[:32], nil
}

// setup says what set-up commands make of the default branch, whose tree that is, is known by, and
// what has to be run where that is not kept yet.
func (h *Host) setup(
	ctx context.Context, at Location, tree gitrepo.OID, image string, c config.Setup,
) (key string, due *loop.Setup, err error) {
	if h.cfg.Caches.Dir == "" {
		return "", nil, nil
	}
	key, err = keyOf(ctx, at.Repo, at.Default, slices.Concat(lockFiles, c.Inputs), fmt.Sprintf("%q", c.Run), image, h.cfg.Image)
	if err != nil {
		return "", nil, err
	}
	if len(c.Run) == 0 {
		return key, nil, nil
	}
	if key = byCommands + key; h.kept(key) {
		return key, nil, nil
	}
	return key, &loop.Setup{Commands: c.Run, Timeout: c.Timeout, Tree: string(tree)}, nil
}

// kept says whether there is something to begin caches with.
func (h *Host) kept(key string) bool {
	return key != "" && isThere(h.cfg.Caches.set(key))
}

// keep keeps what is in the cache of a level for the repository's runs. Where another
// run was faster, its outcome is as good; what is kept does not change any more.
func (h *Host) keep(ctx context.Context, level, key string) error {
	from, to := h.cacheDir(level), h.cfg.Caches.set(key)
	if key == "" || !isThere(from) {
		return nil // kept before, or nothing is
	}
	if err := fstree.OpenUp(ctx, from); err != nil {
		return fmt.Errorf("keep a cache: %w", err)
	}
	if most, size := h.cfg.Caches.MaxBytes, treeSize(ctx, from); most > 0 && size > most {
		err := fstree.RemoveAll(from) // else all others would have to go
		if level == cacheSetup && err == nil {
			err = &run.UserError{
				Message: fmt.Sprintf("the set-up commands made %d MiB, more than caches may hold (%d MiB)", size>>20, most>>20),
				Hint:    "have them make less, or raise sandbox.caches",
			}
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keep a cache: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		if _, there := os.Lstat(to); there != nil {
			return fmt.Errorf("keep a cache: %w", err)
		}
		return fstree.RemoveAll(from)
	}
	use(to)
	_, err := h.cfg.Caches.Expire(ctx, time.Time{})
	return err
}

// Expire removes what no run has begun with since a time, and what is too much, the oldest first.
func (c Caches) Expire(ctx context.Context, before time.Time) (Removed, error) {
	pattern := filepath.Join(c.Dir, "*", setPrefix+"*")
	return evict(ctx, pattern, before, c.MaxBytes, func(dir string, _ time.Time) (bool, error) {
		return true, putAway(dir) // for who copies it, see fill
	})
}
