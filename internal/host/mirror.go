package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// ErrFetching says that a mirror is still being brought up to date: come back.
var ErrFetching = errors.New("the repository is still being fetched")

// fetchPatience is how long a tick waits for a fetch before it comes back
// later: a first clone may take longer than a tick may.
const fetchPatience = 20 * time.Second

// fetchTimeout ends a fetch that does not end by itself.
const fetchTimeout = 30 * time.Minute

// MirrorBytes bounds all mirrors together, but for those in use, and each alone.
const MirrorBytes = 50 << 30

// Mirrors keeps one bare mirror per repository and fetches in the background,
// once at a time for each.
type Mirrors struct {
	git *gitrepo.Git
	dir string
	// life ends the fetches.
	life context.Context //nolint:containedctx // of those who fetch, which no call owns

	mu sync.Mutex
	// last is the latest fetch that was asked for, by repository.
	last    map[string]*fetch
	running sync.WaitGroup
	// opening keeps a mirror from being removed while it is opened.
	opening sync.RWMutex
	// most bounds one mirror, in bytes.
	most int64
}

// fetch brings a mirror up to date. Who asks once it has begun needs another: it may have
// looked before the question.
type fetch struct {
	begun bool
	done  chan struct{}
	repo  *gitrepo.Repo
	err   error
}

// NewMirrors keeps mirrors below dir; the end of life ends fetches.
func NewMirrors(life context.Context, git *gitrepo.Git, dir string) *Mirrors {
	return &Mirrors{git: git, dir: dir, life: life, last: map[string]*fetch{}, most: MirrorBytes}
}

// Wait returns when no fetch is under way.
func (m *Mirrors) Wait() { m.running.Wait() }

func (m *Mirrors) path(node string) string {
	sum := sha256.Sum256([]byte(node))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:10])+".git")
}

func (m *Mirrors) open(node string, remote gitrepo.Remote) (*gitrepo.Repo, error) {
	m.opening.RLock()
	defer m.opening.RUnlock()
	repo, err := m.git.OpenMirror(m.path(node), remote)
	if err != nil {
		return nil, err
	}
	use(m.path(node))
	return repo, nil
}

// Eviction says which mirrors go.
type Eviction struct {
	// Before: what was not used since then goes.
	Before time.Time
	// MaxBytes bounds the rest, of which the least recently used go; 0 is no bound.
	MaxBytes int64
	// InUse gives the repositories, by node, that have runs which have not ended. Who
	// opens a mirror has one.
	InUse func(ctx context.Context) ([]string, error)
}

// Evict removes mirrors that nobody needs: a run that begins later clones the
// repository again.
func (m *Mirrors) Evict(ctx context.Context, e Eviction) (Removed, error) {
	return evict(ctx, filepath.Join(m.dir, "*.git"), e.Before, e.MaxBytes, func(dir string, used time.Time) (bool, error) {
		return m.evict(ctx, dir, used, e)
	})
}

// evict puts a mirror out of everybody's way, unless it is in use, or was used since.
// The row of a run is there before the run opens the mirror, and nobody opens it
// between the look for rows and the new name.
func (m *Mirrors) evict(ctx context.Context, dir string, used time.Time, e Eviction) (went bool, err error) {
	m.opening.Lock()
	defer m.opening.Unlock()
	nodes, err := e.InUse(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(nodes, func(node string) bool { return m.path(node) == dir }) {
		return false, nil
	}
	if info, err := os.Lstat(dir); err != nil || info.ModTime().After(used) {
		return false, nil //nolint:nilerr // it is gone
	}
	return true, putAway(dir)
}

// update opens the mirror and brings all its branches up to date. A repository that is too large is
// refused: it would take the room of all the others.
func (m *Mirrors) update(ctx context.Context, node string, remote gitrepo.Remote) (*gitrepo.Repo, error) {
	repo, err := m.open(node, remote)
	if err != nil {
		return nil, err
	}
	if err := repo.Fetch(ctx); err != nil {
		return nil, err
	}
	if treeSize(ctx, m.path(node)) > m.most {
		return nil, &run.UserError{
			Message: fmt.Sprintf("this repository takes more than %d MiB, which is the most that this server keeps of one",
				m.most>>20),
			Hint: "take large files out of its history",
		}
	}
	return repo, nil
}

// fresh gives what update gives for a mirror, or ErrFetching. The asker comes
// back then, to find the result of the fetch that it asked for, which has begun after
// that. Those who ask while another is under way share the next.
func (m *Mirrors) fresh(ctx context.Context, asker *MirrorSource,
	update func(context.Context) (*gitrepo.Repo, error)) (*gitrepo.Repo, error) {
	m.mu.Lock()
	if asker.asked == nil {
		last := m.last[asker.Node]
		if asker.asked = last; last == nil || last.begun {
			f := &fetch{done: make(chan struct{})}
			m.last[asker.Node], asker.asked = f, f
			m.running.Go(func() { m.work(context.WithoutCancel(ctx), f, last, update) })
		}
	}
	f := asker.asked
	m.mu.Unlock()
	patience := time.NewTimer(fetchPatience)
	defer patience.Stop()
	select {
	case <-f.done:
	case <-patience.C:
		return nil, ErrFetching
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	asker.asked = nil
	m.mu.Unlock()
	return f.repo, f.err
}

// work does a fetch after the one before it.
func (m *Mirrors) work(ctx context.Context, f, before *fetch, update func(context.Context) (*gitrepo.Repo, error)) {
	defer close(f.done)
	if before != nil {
		<-before.done
	}
	m.mu.Lock()
	f.begun = true
	m.mu.Unlock()
	work, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	f.repo, f.err = update(work)
}

// MirrorSource finds a run's branch in the mirror of its repository.
type MirrorSource struct {
	Mirrors *Mirrors
	// Name is the repository's for people ("ada/widgets"), Node its identity, and
	// Remote where it is fetched from.
	Name, Node string
	Remote     gitrepo.Remote
	// Fallback gives the configuration that holds where the repository has none. What
	// it gave holds for as long as the source does.
	Fallback func(ctx context.Context) (ConfigFile, error)

	fallback *ConfigFile
	// asked is the fetch whose result this one has not seen yet.
	asked *fetch
}

var _ Source = (*MirrorSource)(nil)

// Repo implements Source.
func (s *MirrorSource) Repo(context.Context) (*gitrepo.Repo, error) {
	return s.Mirrors.open(s.Node, s.Remote)
}

// Locate implements Source: the branch is the one that the run is on, or
// else the issue's, on top of the base branch where it is not there yet. The base
// is the default branch, or what the configuration names. A base that does not
// exist is a *run.UserError.
func (s *MirrorSource) Locate(ctx context.Context, st loop.State) (Location, error) {
	mirror, err := s.Mirrors.fresh(ctx, s, func(ctx context.Context) (*gitrepo.Repo, error) {
		return s.Mirrors.update(ctx, s.Node, s.Remote)
	})
	if err != nil {
		return Location{}, fmt.Errorf("fetch %s: %w", s.Name, err)
	}
	def, err := mirror.DefaultBranch(ctx)
	if err != nil {
		return Location{}, err
	}
	at := Location{Repo: mirror, Branch: cmp.Or(st.Branch, run.BranchNamed(st.Subject.Slug)), BaseBranch: def}
	if at.Default, err = mirror.Resolve(ctx, "refs/heads/"+def); err != nil {
		return Location{}, err
	}
	at.Base, at.Reviewed = at.Default, true
	if at.Config, err = s.configFile(ctx, mirror, at.Default); err != nil {
		return Location{}, err
	}
	if base := at.Config.Base(); base != "" {
		at.BaseBranch = base
		if at.Base, err = resolveBase(ctx, mirror, at.Config.Name, base, at.Branch); err != nil {
			return Location{}, err
		}
	}
	at.Head = at.Base
	tip, err := mirror.Resolve(ctx, "refs/heads/"+at.Branch)
	switch {
	case errors.Is(err, gitrepo.ErrNotFound):
		return at, checkFree(ctx, mirror, at.Branch)
	case err != nil:
		return Location{}, err
	default:
		at.Head = tip
	}
	return at, nil
}

// checkFree refuses a branch that cannot be made because git keeps branches like files:
// where there is a branch a, there is no a/b, nor the other way around.
func checkFree(ctx context.Context, mirror *gitrepo.Repo, branch string) error {
	there, err := mirror.Refs(ctx, "refs/heads/")
	if err != nil {
		return err
	}
	for _, ref := range there {
		other := strings.TrimPrefix(ref.Name, "refs/heads/")
		if strings.HasPrefix(branch, other+"/") || strings.HasPrefix(other, branch+"/") {
			return &run.UserError{
				Message: fmt.Sprintf("the branch `%s` cannot be made, since there is a branch `%s`", branch, other),
				Hint:    fmt.Sprintf("rename or delete the branch `%s`", other),
			}
		}
	}
	return nil
}

// configFile is the repository's own configuration, or its owner's where it has
// none.
func (s *MirrorSource) configFile(ctx context.Context, mirror *gitrepo.Repo, commit gitrepo.OID) (ConfigFile, error) {
	own, found, err := ReadConfig(ctx, mirror, commit, "")
	if err != nil || found {
		return own, err
	}
	if s.fallback == nil {
		owners, err := s.Fallback(ctx)
		if err != nil {
			return ConfigFile{}, err
		}
		s.fallback = &owners
	}
	return *s.fallback, nil
}

// resolveBase gives the tip of the branch that was chosen, where says in what,
// as base of work on the branch.
func resolveBase(ctx context.Context, mirror *gitrepo.Repo, where, base, branch string) (gitrepo.OID, error) {
	const hint = "fix `base` on the default branch, or remove it"
	if base == branch {
		return "", &run.UserError{
			Message: fmt.Sprintf("%s sets the branch `%s` as base, but this work is committed to that branch", where, base),
			Hint:    hint,
		}
	}
	tip, err := mirror.Resolve(ctx, "refs/heads/"+base)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "", &run.UserError{
			Message: fmt.Sprintf("%s sets the branch `%s` as base, but that branch does not exist", where, base), Hint: hint,
			Err: err,
		}
	}
	return tip, err
}
