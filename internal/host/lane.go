package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

// Lane is what an agent works in beside others: see [loop.Engine]. It has a directory of its own below that of the run, with
// its work tree, its checks and its caches; it shares the objects with the run, so that
// what it made can be folded.
func (h *Host) Lane(n int) (loop.Work, loop.Runner) {
	lane := h.lane(n)
	return lane, lane
}

func (h *Host) lane(n int) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	lane, ok := h.lanes[n]
	if !ok {
		cfg := h.cfg
		cfg.Dir = filepath.Join(h.lanesDir(), strconv.Itoa(n))
		lane = New(cfg)
		lane.of = h
		if h.lanes == nil {
			h.lanes = map[int]*Host{}
		}
		h.lanes[n] = lane
	}
	return lane
}

// main is the host of the run.
func (h *Host) main() *Host {
	if h.of != nil {
		return h.of
	}
	return h
}

// beginLane notes the tree of a lane that has none yet, to be laid out when it is needed.
func (h *Host) beginLane(tree gitrepo.OID) (begun bool, err error) {
	if _, err := os.Lstat(h.treeDir()); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.MkdirAll(h.starts(), 0o700); err != nil {
		return false, fmt.Errorf("make a lane's directory: %w", err)
	}
	return true, h.plainNote(tree)
}

// Fold implements loop.Work.
func (h *Host) Fold(ctx context.Context, base, ours, theirs string) (string, []string, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", nil, err
	}
	m, err := repo.Merge3(ctx, gitrepo.OID(base), gitrepo.OID(ours), gitrepo.OID(theirs))
	if errors.Is(err, gitrepo.ErrTooLarge) {
		return "", []string{"more than can be merged in time"}, nil
	}
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	return string(m.Tree), nil, nil
}
