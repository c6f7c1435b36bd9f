package gitrepo

import (
	"context"
	"fmt"
	"os"
)

// Adopt takes up a directory that Export filled, as it stands now: nothing in
// it is read or changed, so that an agent may be at work there. os.ErrNotExist
// where there is no such directory.
func (r *Repo) Adopt(_ context.Context, dir, indexPath string) (*Worktree, error) {
	w, err := r.worktree(dir, indexPath)
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	info, err := os.Lstat(w.dir)
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("adopt: %s is not a directory", quotePath(w.dir))
	}
	return w, nil
}
