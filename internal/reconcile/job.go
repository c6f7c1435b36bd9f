package reconcile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	// deliverTries is how often a job tries to work its event, with ever longer
	// pauses: there is no queue that would come back to it.
	deliverTries = 6
	// cutAfter is how long a step may go on when the job is told to end. What is
	// left of the time is for ending in order.
	cutAfter = time.Second
	// stillAskedEvery is the pause between two looks at whether the work is still
	// wanted: a job hears of no event but its own.
	stillAskedEvery = 20 * time.Second
)

// OutcomeRefused is what became of an event whose sender may not start runs.
const OutcomeRefused = outcomeRefused

// Job is the App for one event: it works the event and drives the run that
// comes of it to the end, in this process. It has no queue; what the queue
// would do, it does itself.
type Job struct {
	r    *Reconciler
	wake chan struct{}

	mu sync.Mutex
	// woken is the run that was signalled last, "" for none.
	woken run.ID
}

// NewJob makes a job. cfg.Queue is its own.
func NewJob(cfg Config) *Job {
	j := &Job{wake: make(chan struct{}, 1)}
	cfg.Queue, cfg.ByJob = j, true
	j.r = New(cfg)
	return j
}

// Close ends what is held in memory, as Reconciler.Close does.
func (j *Job) Close(ctx context.Context) error { return j.r.Close(ctx) }

// EnqueueAdvance implements Signaler: a job ticks the run that it drives.
func (j *Job) EnqueueAdvance(context.Context, *sql.Tx, run.ID) error { return nil }

// Wake implements Signaler. A tick that comes before the transaction is
// committed changes nothing; the next comes within a second.
func (j *Job) Wake(_ context.Context, _ *sql.Tx, id run.ID) error {
	j.mu.Lock()
	j.woken = id
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return nil
}

// Deliver works one event as if it had come as a webhook, and says in a few
// words what became of it. What it is about may have been worked by an earlier
// job: see recall.
func (j *Job) Deliver(ctx context.Context, d store.Delivery) (outcome string, err error) {
	err = j.r.cfg.Store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := j.r.cfg.Store.InsertDelivery(ctx, tx, d)
		return err
	})
	if err != nil {
		return "", err
	}
	err = j.persist(ctx, func() error {
		if err := j.recall(ctx, d); err != nil {
			return err
		}
		return j.r.Delivery(ctx, d.GUID)
	})
	if err != nil {
		return "", err
	}
	done, err := j.r.cfg.Store.Delivery(ctx, d.GUID)
	return done.Outcome, err
}

// errNoBranch is what keeps the branches of a repository from being read, and may
// pass.
var errNoBranch = errors.New("the repository could not be read")

// persist tries work again while what keeps it from succeeding may pass.
func (j *Job) persist(ctx context.Context, work func() error) error {
	for try := 1; ; try++ {
		err := work()
		class, after := ghapp.Classify(err)
		passes := class == ghapp.Transient || class == ghapp.RateLimited || errors.Is(err, errNoBranch)
		if err == nil || !passes || try == deliverTries || ctx.Err() != nil {
			return err
		}
		zerolog.Ctx(ctx).Warn().Err(err).Msg("working the event failed; it is tried again")
		if err := j.pause(ctx, max(after, firstPause<<try), nil); err != nil {
			return err
		}
	}
}

// Settle waits until what was said of the work of a run that has ended is taken
// up by another, or is known not to be.
func (j *Job) Settle(ctx context.Context) error {
	for {
		j.mu.Lock()
		id := j.woken
		j.mu.Unlock()
		if id == "" {
			return nil
		}
		row, err := j.r.cfg.Store.Run(ctx, id)
		if err != nil || !row.Phase.Terminal() {
			return err
		}
		var wait time.Duration
		err = j.persist(ctx, func() (err error) {
			wait, err = j.r.Advance(ctx, id)
			return err
		})
		if err != nil || wait <= 0 {
			return err
		}
		if err := j.pause(ctx, wait, nil); err != nil {
			return err
		}
	}
}

// Drive ticks the run until it has ended, and gives how it stands then. When ctx
// ends, the run is cancelled in order, with the cause of ctx as the reason: its
// agent is stopped, what is finished stays published, and people are told.
func (j *Job) Drive(ctx context.Context, id run.ID) (loop.State, error) {
	if err := j.persist(ctx, func() error { return j.carrySpending(ctx, id) }); err != nil {
		return loop.State{}, err
	}
	life := context.WithoutCancel(ctx)
	asked, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { j.keepAsking(asked, id, stop) })
	defer func() {
		stop(nil)
		asking.Wait()
	}()
	cancelled := false
	for {
		tick, release := life, func() {}
		if !cancelled {
			tick, release = cutOff(ctx)
		}
		pause, err := j.r.Advance(tick, id)
		cut := tick.Err() != nil && !cancelled
		release()
		row, rowErr := j.r.cfg.Store.Run(life, id)
		if rowErr != nil {
			return loop.State{}, errors.Join(err, rowErr)
		}
		if row.Phase.Terminal() {
			if err != nil { // looking whether more is to be done; another event brings that
				zerolog.Ctx(ctx).Warn().Err(err).Msg("the run has ended, and what came after failed")
			}
			return loop.Decode(row.State)
		}
		if err != nil && !cut {
			return loop.State{}, err
		}
		done := asked.Done()
		if cancelled {
			done = nil
		}
		if err := j.pause(life, pause, done); err != nil {
			return loop.State{}, err
		}
		if asked.Err() != nil && !cancelled {
			cancelled = true
			if err := j.Cancel(life, id, context.Cause(asked).Error()); err != nil {
				return loop.State{}, err
			}
		}
	}
}

// Cancel asks the run to stop.
func (j *Job) Cancel(ctx context.Context, id run.ID, why string) error {
	return j.r.cfg.Store.InTx(ctx, func(tx *sql.Tx) error {
		return j.r.cfg.Store.RequestCancel(ctx, tx, id, why, j.r.cfg.Now())
	})
}

// cutOff gives a context that ends a while after ctx, so that a step under way
// can get done.
func cutOff(ctx context.Context) (context.Context, func()) {
	cut, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(cutAfter)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel(context.Cause(ctx))
		case <-ended:
		}
	})
	return cut, func() {
		stop()
		close(ended)
		cancel(nil)
	}
}

// pause waits for a while, or until the run is woken or done is closed.
func (j *Job) pause(ctx context.Context, d time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-j.wake:
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// errNoLongerAsked is why a run stops whose label is gone or whose issue is
// closed.
var errNoLongerAsked = errors.New("the label was removed, or the issue was closed")

// keepAsking stops the run when its issue is closed or loses the label that was
// on when it began. A look that fails is repeated.
func (j *Job) keepAsking(ctx context.Context, id run.ID, stop context.CancelCauseFunc) {
	row, err := j.r.cfg.Store.Run(ctx, id)
	if err != nil {
		return // Drive finds out by itself
	}
	repo := j.r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	ctx = ghapp.WithPurpose(ctx, "still asked")
	every := time.NewTicker(stillAskedEvery)
	defer every.Stop()
	labelled := false
	for {
		asked, err := j.r.stillAsked(ctx, repo, row.IssueNumber)
		switch {
		case err != nil:
			zerolog.Ctx(ctx).Debug().Err(err).Msg("looking whether the label is still on failed; it is tried again")
		case asked:
			labelled = true
		case labelled:
			stop(errNoLongerAsked)
			return
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// Active lists the runs that have not ended.
func (j *Job) Active(ctx context.Context) ([]run.ID, error) {
	rows, err := j.r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	var ids []run.ID
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids, nil
}
