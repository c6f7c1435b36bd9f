package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// errFetching says that a mirror is still being brought up to date; the tick
// comes back.
var errFetching = errors.New("the repository is still being fetched")

// fetchPatience is how long a tick waits for a fetch before it comes back
// later: a first clone may take longer than a tick may.
const fetchPatience = 20 * time.Second

// fetchTimeout ends a fetch that does not end by itself.
const fetchTimeout = 30 * time.Minute

// mirrors keeps one bare mirror per repository and fetches in the background,
// once at a time for each.
type mirrors struct {
	git *gitrepo.Git
	dir string
	// life ends the fetches.
	life context.Context //nolint:containedctx // of the reconciler, which no call owns

	mu       sync.Mutex
	fetching map[string]*fetch
	running  sync.WaitGroup
}

type fetch struct {
	done chan struct{}
	// askers are those who asked while it was under way. To anybody else its
	// result is old news.
	askers map[*mirrorSource]struct{}
	repo   *gitrepo.Repo
	err    error
}

func newMirrors(life context.Context, git *gitrepo.Git, dir string) *mirrors {
	return &mirrors{git: git, dir: dir, life: life, fetching: map[string]*fetch{}}
}

// wait returns when no fetch is under way.
func (m *mirrors) wait() { m.running.Wait() }

func (m *mirrors) path(node string) string {
	sum := sha256.Sum256([]byte(node))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:10])+".git")
}

func (m *mirrors) open(ctx context.Context, node string, remote gitrepo.Remote) (*gitrepo.Repo, error) {
	return m.git.OpenMirror(ctx, m.path(node), remote)
}

// update opens the mirror and brings all its branches up to date.
func (m *mirrors) update(ctx context.Context, node string, remote gitrepo.Remote) (*gitrepo.Repo, error) {
	repo, err := m.open(ctx, node, remote)
	if err != nil {
		return nil, err
	}
	return repo, repo.Fetch(ctx)
}

// fresh gives what update gives for a mirror, or errFetching. The asker comes
// back then, to find the result of the fetch that it asked for.
func (m *mirrors) fresh(ctx context.Context, asker *mirrorSource, update func(context.Context) (*gitrepo.Repo, error)) (*gitrepo.Repo, error) {
	m.mu.Lock()
	f := m.fetching[asker.node]
	if f != nil {
		select {
		case <-f.done:
			if _, asked := f.askers[asker]; !asked {
				f = nil
			}
		default:
		}
	}
	if f == nil {
		f = &fetch{done: make(chan struct{}), askers: map[*mirrorSource]struct{}{}}
		m.fetching[asker.node] = f
		m.running.Go(func() {
			defer close(f.done)
			work, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
			defer cancel()
			defer context.AfterFunc(m.life, cancel)() //nolint:contextcheck // a fetch outlives the tick, not the reconciler
			f.repo, f.err = update(work)
		})
	}
	f.askers[asker] = struct{}{}
	m.mu.Unlock()
	patience := time.NewTimer(fetchPatience)
	defer patience.Stop()
	select {
	case <-f.done:
	case <-patience.C:
		return nil, errFetching
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	if m.fetching[asker.node] == f {
		delete(m.fetching, asker.node)
	}
	m.mu.Unlock()
	return f.repo, f.err
}

// mirrorSource finds a run's branch in the mirror of its repository.
type mirrorSource struct {
	mirrors  *mirrors
	repo     *ghapp.Repo
	node     string
	cloneURL string
	// base goes before what the repository's configuration names, and config is
	// where that is, "" for config.RepoPath.
	base, config string
	// branches names the branch of a run that has none yet.
	branches run.BranchTemplate
	// fallback gives the configuration that holds where the repository has none,
	// and owned is what it gave: that holds for as long as the source does.
	fallback func(ctx context.Context) (host.ConfigFile, error)
	owned    *host.ConfigFile
}

var _ host.Source = (*mirrorSource)(nil)

func (s *mirrorSource) remote() gitrepo.Remote {
	return gitrepo.Remote{URL: s.cloneURL, Auth: s.repo.GitAuth}
}

// Repo implements host.Source.
func (s *mirrorSource) Repo(ctx context.Context) (*gitrepo.Repo, error) {
	return s.mirrors.open(ctx, s.node, s.remote())
}

// Locate implements host.Source: the branch is the one that the run is on, or
// else the issue's, on top of the base branch where it is not there yet. The base
// is the default branch, or what the configuration names. A base that does not
// exist is a *run.UserError.
func (s *mirrorSource) Locate(ctx context.Context, st loop.State) (host.Location, error) {
	mirror, err := s.mirrors.fresh(ctx, s, func(ctx context.Context) (*gitrepo.Repo, error) {
		return s.mirrors.update(ctx, s.node, s.remote())
	})
	if err != nil {
		return host.Location{}, fmt.Errorf("fetch %s: %w", s.repo.FullName(), err)
	}
	def, err := mirror.DefaultBranch(ctx)
	if err != nil {
		return host.Location{}, err
	}
	at := host.Location{Repo: mirror, Branch: cmp.Or(st.Branch, s.branches.Named(st.Subject.Slug)), BaseBranch: def}
	if at.Default, err = mirror.Resolve(ctx, "refs/heads/"+def); err != nil {
		return host.Location{}, err
	}
	at.Base = at.Default
	if at.Config, err = s.configFile(ctx, mirror, at.Default); err != nil {
		return host.Location{}, err
	}
	if base := cmp.Or(s.base, at.Config.Base()); base != "" {
		at.BaseBranch = base
		where := at.Config.Name
		if s.base != "" {
			where = "the workflow"
		}
		if at.Base, err = resolveBase(ctx, mirror, where, base, at.Branch); err != nil {
			return host.Location{}, err
		}
	}
	at.Head = at.Base
	tip, err := mirror.Resolve(ctx, "refs/heads/"+at.Branch)
	switch {
	case errors.Is(err, gitrepo.ErrNotFound):
	case err != nil:
		return host.Location{}, err
	default:
		at.Head = tip
	}
	return at, nil
}

// configFile is the repository's own configuration, or its owner's where it has
// none.
func (s *mirrorSource) configFile(ctx context.Context, mirror *gitrepo.Repo, commit gitrepo.OID) (host.ConfigFile, error) {
	own, found, err := host.ReadConfig(ctx, mirror, commit, s.config)
	if err != nil || found {
		return own, err
	}
	if s.owned == nil {
		owned, err := s.fallback(ctx)
		if err != nil {
			return host.ConfigFile{}, err
		}
		s.owned = &owned
	}
	return *s.owned, nil
}

// resolveBase gives the tip of the branch that was chosen, where says in what,
// as base of work on the branch.
func resolveBase(ctx context.Context, mirror *gitrepo.Repo, where, base, branch string) (gitrepo.OID, error) {
	const hint = "fix `base` on the default branch, or remove it"
	if base == branch {
		return "", &run.UserError{Message: fmt.Sprintf("%s sets the branch `%s` as base, but this work is committed to that branch", where, base), Hint: hint}
	}
	tip, err := mirror.Resolve(ctx, "refs/heads/"+base)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "", &run.UserError{Message: fmt.Sprintf("%s sets the branch `%s` as base, but that branch does not exist", where, base), Hint: hint, Err: err}
	}
	return tip, err
}
