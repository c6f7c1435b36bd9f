package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Keys of log fields.
const (
	keyRun      = "run"
	keyDelivery = "github_delivery_id" // as go-githubapp names it
	keyJob      = "job"
	keyArgs     = "args"
	keyAttempt  = "attempt"
)

// What River stores as the arguments of a job. Their JSON is on disk: fields
// may be added, not renamed.
type (
	deliveryArgs struct {
		GUID string `json:"guid"`
	}
	advanceArgs struct {
		Run run.ID `json:"run_id"`
	}
	wakeArgs struct {
		Run run.ID `json:"run_id"`
	}
)

func (deliveryArgs) Kind() string { return "delivery.process" }
func (advanceArgs) Kind() string  { return "run.advance" }
func (wakeArgs) Kind() string     { return "run.wake" }

// uniqueWhileLive admits one job with the same arguments that is not at its
// end.
func uniqueWhileLive() river.UniqueOpts {
	return river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
			rivertype.JobStateRunning, rivertype.JobStateScheduled,
		},
	}
}

func (deliveryArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: uniqueWhileLive()}
}

// InsertOpts puts polling behind whatever someone waits for.
func (advanceArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Priority: 2, UniqueOpts: uniqueWhileLive()}
}

// EnqueueDelivery inserts the job that works an accepted delivery, in the
// transaction that accepts it.
func (q *Queue) EnqueueDelivery(ctx context.Context, tx *store.Tx, guid string) error {
	if _, err := q.jobs.insert(ctx, tx, deliveryArgs{GUID: guid}); err != nil {
		return fmt.Errorf("enqueue delivery %s: %w", guid, err)
	}
	return nil
}

// EnqueueAdvance inserts the job that ticks a run until it needs no more ticks,
// in the transaction that creates the run. Where there is one it does nothing;
// to get a run's attention, Wake it.
func (q *Queue) EnqueueAdvance(ctx context.Context, tx *store.Tx, id run.ID) error {
	if _, err := q.jobs.insert(ctx, tx, advanceArgs{Run: id}); err != nil {
		return fmt.Errorf("enqueue advance of run %s: %w", id, err)
	}
	return nil
}

// Wake makes a run tick soon after tx commits, whatever it does now: insert it
// in the transaction that writes what the run is to see. It also starts a run
// that had ceased to tick.
func (q *Queue) Wake(ctx context.Context, tx *store.Tx, id run.ID) error {
	if _, err := q.jobs.insert(ctx, tx, wakeArgs{Run: id}); err != nil {
		return fmt.Errorf("wake run %s: %w", id, err)
	}
	return nil
}

func (q *Queue) workDelivery(ctx context.Context, job *river.Job[deliveryArgs]) error {
	ctx = zerolog.Ctx(ctx).With().Str(keyDelivery, job.Args.GUID).Logger().WithContext(ctx)
	err := q.handlers.Delivery(ctx, job.Args.GUID)
	if errors.Is(err, ErrBusy) {
		return river.JobSnooze(deliverySnooze)
	}
	if later, ok := errors.AsType[*LaterError](err); ok {
		return river.JobSnooze(max(later.After, deliverySnooze))
	}
	return err
}

// ticker works a job that ticks a run: some step of it may take long.
type ticker[T river.JobArgs] struct {
	river.WorkerDefaults[T]
	work func(context.Context, *river.Job[T]) error
}

// Work implements river.Worker.
func (w *ticker[T]) Work(ctx context.Context, job *river.Job[T]) error { return w.work(ctx, job) }

// Timeout implements river.Worker.
func (*ticker[T]) Timeout(*river.Job[T]) time.Duration { return tickTimeout }

func (q *Queue) workAdvance(ctx context.Context, job *river.Job[advanceArgs]) error {
	snooze, err := q.advance(ctx, job.Args.Run)
	switch {
	case errors.Is(err, ErrBusy):
		return river.JobSnooze(busySnooze)
	case err != nil:
		return err
	case snooze <= 0:
		return nil
	case job.Attempt > 1:
		return q.forgetFailures(ctx, job)
	default:
		return river.JobSnooze(min(snooze, maxSnooze))
	}
}

// workWake ticks the run once. What makes it tick on is the polling job, so a
// wake ends only when there is one.
func (q *Queue) workWake(ctx context.Context, job *river.Job[wakeArgs]) error {
	if _, ticked := q.woken.Load(job.ID); !ticked {
		snooze, err := q.advance(ctx, job.Args.Run)
		switch {
		case errors.Is(err, ErrBusy):
			return river.JobSnooze(busySnooze)
		case err != nil:
			return err
		case snooze <= 0:
			return nil
		}
	}
	polled, err := q.ensurePolled(ctx, job.Args.Run)
	if err != nil {
		return err
	}
	if !polled {
		q.woken.Store(job.ID, true)
		return river.JobSnooze(busySnooze)
	}
	q.woken.Delete(job.ID)
	return nil
}

func (q *Queue) advance(ctx context.Context, id run.ID) (time.Duration, error) {
	ctx = zerolog.Ctx(ctx).With().Str(keyRun, string(id)).Logger().WithContext(ctx)
	return q.handlers.Advance(ctx, id)
}

// ensurePolled says whether a polling job exists that will tick the run again.
// One that is recorded as running may be about to end for good; then the
// caller has to ask again until that is decided.
func (q *Queue) ensurePolled(ctx context.Context, id run.ID) (polled bool, err error) {
	err = q.st.InTx(ctx, func(tx *store.Tx) error {
		res, err := q.jobs.insert(ctx, tx, advanceArgs{Run: id})
		if err != nil {
			return err
		}
		switch {
		case !res.UniqueSkippedAsDuplicate:
			polled = true
		case res.Job.State == rivertype.JobStateRunning:
			polled = false
		case res.Job.State == rivertype.JobStateRetryable, time.Until(res.Job.ScheduledAt) > maxSnooze:
			// It failed and waits long, but the run just moved on: no reason to.
			_, err := q.jobs.JobRetryTx(ctx, tx.Tx, res.Job.ID)
			polled = err == nil
			return err
		default:
			polled = true
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("ensure that run %s is polled: %w", id, err)
	}
	return polled, nil
}

// forgetFailures replaces a polling job that has failed before, and now has
// not, by a new one: a job lives as long as its run, and without this a few
// failures hours apart would add up to long waits and to giving up.
func (q *Queue) forgetFailures(ctx context.Context, job *river.Job[advanceArgs]) error {
	err := q.st.InTx(ctx, func(tx *store.Tx) error {
		if err := complete(ctx, tx, job.JobRow); err != nil {
			return err
		}
		return q.EnqueueAdvance(ctx, tx, job.Args.Run)
	})
	if err != nil {
		return fmt.Errorf("renew polling of run %s: %w", job.Args.Run, err)
	}
	return nil
}

// retryPolicy doubles the wait from a second to a minute.
type retryPolicy struct{}

// NextRetry implements river.ClientRetryPolicy.
func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	const longest = time.Minute
	wait := longest
	if n := job.Attempt - 1; n < 6 {
		wait = min(longest, time.Second<<max(n, 0))
	}
	return time.Now().Add(wait)
}

// failureLog logs what River would only store.
type failureLog struct{}

// HandleError implements river.ErrorHandler.
func (failureLog) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	zerolog.Ctx(ctx).Error().Str(keyJob, job.Kind).RawJSON(keyArgs, job.EncodedArgs).Int(keyAttempt, job.Attempt).
		Err(err).Msg("queue: job failed; it will be tried again")
	return nil
}

// HandlePanic implements river.ErrorHandler.
func (failureLog) HandlePanic(
	ctx context.Context, job *rivertype.JobRow, value any, trace string,
) *river.ErrorHandlerResult {
	zerolog.Ctx(ctx).Error().Str(keyJob, job.Kind).RawJSON(keyArgs, job.EncodedArgs).Int(keyAttempt, job.Attempt).
		Interface("panic", value).Str("stack", trace).Msg("queue: job panicked; it will be tried again")
	return nil
}
