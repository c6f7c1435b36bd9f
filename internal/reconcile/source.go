package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/config"
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

// mirrors keeps one bare mirror per repository and fetches in the background,
// once at a time for each.
type mirrors struct {
	git *gitrepo.Git
	dir string

	mu       sync.Mutex
	fetching map[string]*fetch
	running  sync.WaitGroup
}

type fetch struct {
	done chan struct{}
	repo *gitrepo.Repo
	err  error
}

func newMirrors(git *gitrepo.Git, dir string) *mirrors {
	return &mirrors{git: git, dir: dir, fetching: map[string]*fetch{}}
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

// fresh gives the mirror with all branches as they are now, or errFetching.
func (m *mirrors) fresh(ctx context.Context, node string, remote gitrepo.Remote) (*gitrepo.Repo, error) {
	m.mu.Lock()
	f := m.fetching[node]
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		m.fetching[node] = f
		work := context.WithoutCancel(ctx)
		m.running.Go(func() {
			defer close(f.done)
			if f.repo, f.err = m.open(work, node, remote); f.err == nil {
				f.err = f.repo.Fetch(work)
			}
		})
	}
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
	if m.fetching[node] == f {
		delete(m.fetching, node)
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
}

var _ host.Source = (*mirrorSource)(nil)

func (s *mirrorSource) remote() gitrepo.Remote {
	return gitrepo.Remote{URL: s.cloneURL, Auth: s.repo.GitAuth}
}

// Repo implements host.Source.
func (s *mirrorSource) Repo(ctx context.Context) (*gitrepo.Repo, error) {
	return s.mirrors.open(ctx, s.node, s.remote())
}

// Locate implements host.Source: the branch is ralph/<issue>, on top of the
// base branch where it is not there yet. The base is the default branch, or
// what the configuration on the default branch names. A base that does not
// exist is a *run.UserError.
func (s *mirrorSource) Locate(ctx context.Context, st loop.State) (host.Location, error) {
	mirror, err := s.mirrors.fresh(ctx, s.node, s.remote())
	if err != nil {
		return host.Location{}, fmt.Errorf("fetch %s: %w", s.repo.FullName(), err)
	}
	def, err := mirror.DefaultBranch(ctx)
	if err != nil {
		return host.Location{}, err
	}
	at := host.Location{Repo: mirror, Branch: "ralph/" + st.Subject.Slug, BaseBranch: def}
	if at.Default, err = mirror.Resolve(ctx, "refs/heads/"+def); err != nil {
		return host.Location{}, err
	}
	at.Base = at.Default
	base, err := host.BaseBranch(ctx, mirror, at.Default)
	if err != nil {
		return host.Location{}, err
	}
	if base != "" {
		at.BaseBranch = base
		if at.Base, err = resolveBase(ctx, mirror, base, at.Branch); err != nil {
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

// resolveBase gives the tip of the branch that the repository chose as base of
// work on the branch.
func resolveBase(ctx context.Context, mirror *gitrepo.Repo, base, branch string) (gitrepo.OID, error) {
	const hint = "mend `base` on the default branch, or remove it"
	if base == branch {
		return "", &run.UserError{Message: fmt.Sprintf("%s names the branch `%s` as base, which is where this work goes to", config.RepoPath, base), Hint: hint}
	}
	tip, err := mirror.Resolve(ctx, "refs/heads/"+base)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "", &run.UserError{Message: fmt.Sprintf("%s names the branch `%s` as base, and there is no such branch", config.RepoPath, base), Hint: hint, Err: err}
	}
	return tip, err
}
