package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	// missedSince is how long GitHub keeps what it could not deliver.
	missedSince = 72 * time.Hour
	// maxRedeliveries bounds what one look asks for.
	maxRedeliveries = 50
	// maxAttempts is how often one event is asked for: what was refused as often
	// is not going to be taken.
	maxAttempts = 4
)

// CatchUp makes up for what went wrong while nobody was there: it has GitHub
// deliver again what did not arrive, takes up labels of which no webhook was ever
// sent, and tells people of runs that ended without being able to say so. A server that begins with an empty store has missed
// nothing.
func (r *Reconciler) CatchUp(ctx context.Context) error {
	return errors.Join(r.fetchMissed(ctx), r.sweepLabelled(ctx), r.tellLate(ctx))
}

func (r *Reconciler) fetchMissed(ctx context.Context) error {
	if any, err := r.cfg.Store.HasDeliveries(ctx); err != nil || !any {
		return err
	}
	attempts, err := r.cfg.GitHub.Attempts(ctx, r.cfg.Now().Add(-missedSince))
	if err != nil {
		return fmt.Errorf("look for missed webhooks: %w", err)
	}
	arrived, tries := map[string]bool{}, map[string]int{}
	for _, a := range attempts {
		arrived[a.GUID] = arrived[a.GUID] || a.Arrived
		tries[a.GUID]++
	}
	asked := 0
	for _, a := range attempts { // the newest attempt at each comes first
		if arrived[a.GUID] || tries[a.GUID] >= maxAttempts || asked == maxRedeliveries || !handlers.Handles(a.Event, a.Action) {
			continue
		}
		arrived[a.GUID] = true // asked for, or here already
		if _, err := r.cfg.Store.Delivery(ctx, a.GUID); err == nil {
			continue
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := r.cfg.GitHub.Redeliver(ctx, a.ID); err != nil {
			return fmt.Errorf("fetch a missed webhook: %w", err)
		}
		asked++
	}
	if asked > 0 {
		zerolog.Ctx(ctx).Info().Int("webhooks", asked).Msg("asked GitHub for what did not arrive")
	}
	return nil
}

// tellLate shows once more how runs ended that could not say so: people would
// see them at work for ever.
func (r *Reconciler) tellLate(ctx context.Context) error {
	rows, err := r.cfg.Store.RunsEnded(ctx, run.PhaseFailed, r.cfg.Now().Add(-missedSince))
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
	lease, giveBack, err := r.claim(ctx, id)
	if errors.Is(err, store.ErrLeaseTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer giveBack()
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return err
	}
	// Notifications still work when the driver is incomplete.
	d, _ := r.driver(ctx, row)
	shown, err := d.engine.Publisher.Show(ctx, s)
	if err != nil {
		return errors.Join(fmt.Errorf("tell how run %s ended: %w", id, err), r.drop(ctx, id))
	}
	if shown != nil {
		s.PullRequest = shown
		s.PullRequest.Edit = nil
	}
	s.Troubles = 0
	if err := r.save(ctx, id, lease, s); err != nil {
		return err
	}
	r.retire(ctx, id, d)
	return nil
}
