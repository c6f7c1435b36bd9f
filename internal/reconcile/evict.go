package reconcile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// evict ends what a run has at work, and removes what it left on disk, unless the run is worked by
// now.
func (r *Reconciler) evict(ctx context.Context, id run.ID) error {
	if !r.claim(id) {
		return nil
	}
	defer r.claimed.Delete(id)
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && !row.Phase.Terminal() {
		return nil // it was taken up meanwhile
	}
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	d, ok := r.drivers[id]
	delete(r.drivers, id)
	r.mu.Unlock()
	dir := filepath.Join(r.cfg.DataDir, "runs", string(id))
	if !ok {
		// What is at work is known by that directory.
		d = &driver{host: host.New(host.Config{
			Dir: dir, Sandbox: r.cfg.Sandbox, Backend: r.cfg.Backend, Transcripts: r.cfg.Transcripts, Mask: r.cfg.Mask,
		})}
	}
	err = errors.Join(d.close(ctx), d.host.EndAll(ctx))
	if err == nil {
		err = errors.Join(gitrepo.RemoveAll(dir), gitrepo.RemoveAll(gatewayDir(r.cfg.DataDir, id)))
	}
	if err != nil {
		return fmt.Errorf("remove what run %s left: %w", id, err)
	}
	return nil
}
