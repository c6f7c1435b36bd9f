package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

// Lane implements loop.Crew. A lane has a directory of its own below that of the run, with
// its work tree, its checks and its caches; it shares the objects with the run, so that
// what it made can be folded.
func (h *Host) Lane(n int) (loop.WorkTree, loop.Runner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lane, ok := h.lanes[n]
	if !ok {
		cfg := h.cfg
		cfg.Dir, cfg.Pool = filepath.Join(h.cfg.Dir, "lanes", strconv.Itoa(n)), ""
		lane = New(cfg)
		lane.of = h
		if h.lanes == nil {
			h.lanes = map[int]*Host{}
		}
		h.lanes[n] = lane
	}
	return lane, lane
}

// main is the host of the run.
func (h *Host) main() *Host {
	if h.of != nil {
		return h.of
	}
	return h
}

// layLane makes the work tree of a lane. What steers its agents is what steers those of
// the run.
func (h *Host) layLane(ctx context.Context, tree string) (*gitrepo.Worktree, error) {
	repo, _, err := h.of.worktree(ctx)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{h.starts(), filepath.Dir(h.treeDir())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a lane's directory: %w", err)
		}
	}
	p, err := h.of.pinning()
	if err != nil {
		return nil, err
	}
	p.Given, p.Real = "", ""
	if err := h.notePinning(p); err != nil {
		return nil, err
	}
	wt, err := repo.Export(ctx, h.treeDir(), gitrepo.OID(tree), h.indexFile())
	if err != nil {
		return nil, fmt.Errorf("lay out a lane's work tree: %w", err)
	}
	h.mu.Lock()
	h.repo, h.tree = repo, wt
	h.mu.Unlock()
	return wt, nil
}

// Fold implements loop.Crew.
func (h *Host) Fold(ctx context.Context, base, ours, theirs string) (string, []string, error) {
	repo, _, err := h.worktree(ctx)
	if err != nil {
		return "", nil, err
	}
	m, err := repo.Merge3(ctx, gitrepo.OID(base), gitrepo.OID(ours), gitrepo.OID(theirs))
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	return string(m.Tree), nil, nil
}
