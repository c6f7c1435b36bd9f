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

// carryAgain is how long runs leave alone what did not take their transcripts.
const carryAgain = time.Minute

// carry carries what is kept of a run, once a call has ended.
func (r *Reconciler) carry(ctx context.Context, id run.ID, ended bool) error {
	now := r.cfg.Now().UnixMicro()
	if since := r.away.Load(); r.cfg.Transcripts == nil || since > 0 && now-since < carryAgain.Microseconds() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, carryFor)
	defer cancel()
	err := r.cfg.Transcripts.Carry(ctx, id, ended)
	if r.away.Store(0); err != nil {
		r.away.Store(now)
	}
	return err
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
