package reconcile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// handOver gives a run away, where this node is being drained, nothing of the run is at work here,
// and another node takes it. store.ErrElsewhere says that it did.
func (r *Reconciler) handOver(ctx context.Context, row store.Run) error {
	if r.cfg.Draining == nil || !r.cfg.Draining() {
		return nil
	}
	s, err := loop.Decode(row.State)
	if err != nil || !s.Movable() {
		return nil //nolint:nilerr // a state that cannot be read is told of by the tick
	}
	others, err := r.cfg.Store.OthersAccept(ctx, r.cfg.Node)
	if err != nil || !others {
		return err
	}
	if err := r.cfg.HandOver(ctx, row.ID); err != nil {
		return err
	}
	zerolog.Ctx(ctx).Info().Msg("another node goes on with the run")
	if err := r.evict(ctx, row.ID); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cleaning up after a run that another node has failed")
	}
	return fmt.Errorf("run %s: %w", row.ID, store.ErrElsewhere)
}

// Return lets go of the runs that other nodes have by now: this one was taken for gone.
func (r *Reconciler) Return(ctx context.Context) error {
	var busy []error
	r.claimed.Range(func(key, _ any) bool {
		if id, ok := key.(run.ID); ok {
			row, err := r.cfg.Store.Run(ctx, id)
			if err == nil && row.Node != r.cfg.Node && !row.Phase.Terminal() {
				err = fmt.Errorf("run %s: its last step here has not ended yet", id)
			}
			busy = append(busy, err)
		}
		return true
	})
	return errors.Join(append(busy, r.Sweep(ctx))...)
}

// evictLeft is evict for what was left on disk, unless the run is worked here by now.
func (r *Reconciler) evictLeft(ctx context.Context, id run.ID) error {
	if _, taken := r.claimed.LoadOrStore(id, true); taken {
		return nil
	}
	defer r.claimed.Delete(id)
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && !row.Phase.Terminal() && row.Node == r.cfg.Node {
		return nil // it was given back meanwhile
	}
	return r.evict(ctx, id)
}

// evict ends what a run has at work on this node, and removes what it left.
func (r *Reconciler) evict(ctx context.Context, id run.ID) error {
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
	err := errors.Join(d.close(ctx), d.host.EndAll(ctx))
	if err == nil {
		err = errors.Join(gitrepo.RemoveAll(dir), gitrepo.RemoveAll(gatewayDir(r.cfg.DataDir, id)))
	}
	if err != nil {
		return fmt.Errorf("remove what run %s left: %w", id, err)
	}
	return nil
}
