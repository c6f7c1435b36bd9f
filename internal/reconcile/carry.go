package reconcile

import (
	"context"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// How long transcripts may take to get to where they outlive this machine, and from there. A
// run waits for its own; what does not get there in time is tried again with the next call,
// and each hour.
const (
	carryFor    = 30 * time.Second
	carryAllFor = time.Minute
)

// carry carries what is kept of a run, once a call has ended.
func (r *Reconciler) carry(ctx context.Context, id run.ID, ended bool) error {
	if r.cfg.Transcripts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, carryFor)
	defer cancel()
	return r.cfg.Transcripts.Carry(ctx, id, ended)
}

// carryAll carries what is left of all runs.
func (r *Reconciler) carryAll(ctx context.Context) error {
	if r.cfg.Transcripts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, carryAllFor)
	defer cancel()
	return r.cfg.Transcripts.CarryAll(ctx)
}
