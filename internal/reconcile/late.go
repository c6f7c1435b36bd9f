package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// lateSince is for how long after its end people are told of a run.
const lateSince = 72 * time.Hour

// TellLate shows once more how runs ended that could not say so: people would
// see them at work for ever.
func (r *Reconciler) TellLate(ctx context.Context) error {
	rows, err := r.cfg.Store.RunsEnded(ctx, run.PhaseFailed, r.cfg.Now().Add(-lateSince))
	if err != nil {
		return err
	}
	var errs []error
	for _, row := range rows {
		s, err := loop.Decode(row.State)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s.Troubles >= maxTroubles {
			errs = append(errs, r.tellEnd(ctx, row.ID))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) tellEnd(ctx context.Context, id run.ID) error {
	if !r.claim(id) {
		return nil
	}
	defer r.claimed.Delete(id)
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return err
	}
	// Notifications still work when the driver is incomplete.
	d, _ := r.driver(row)
	shown, err := d.engine.Publisher.Show(ctx, s)
	if err != nil {
		return errors.Join(fmt.Errorf("tell how run %s ended: %w", id, err), r.drop(ctx, id))
	}
	if shown != nil {
		s.PullRequest = shown
		s.PullRequest.Edit = nil
	}
	s.Troubles = 0
	if err := r.save(ctx, id, s); err != nil {
		return err
	}
	r.retire(ctx, id, d)
	return nil
}
