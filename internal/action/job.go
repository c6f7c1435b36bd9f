package action

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	// deliverTries is how often a job tries to work its event, with ever longer
	// pauses: there is no queue that would come back to it.
	deliverTries = 6
	// firstPause is the shortest pause between two tries.
	firstPause = time.Second
	// cutAfter is how long a step may go on when the job is told to end. What is
	// left of the time is for ending in order.
	cutAfter = time.Second
	// stillAskedEvery is the pause between two looks at whether the work is still
	// wanted: a job hears of no event but its own.
	stillAskedEvery = 20 * time.Second
)

// job is the App for one event: it works the event and drives the run that
// comes of it to the end, in this process. It has no queue; what the queue
// would do, it does itself.
type job struct {
	store      *store.Store
	github     *ghapp.App
	deliveries *delivery.Receiver
	runs       *reconcile.Reconciler
	wake       chan struct{}
	// answers are those to the questions of the run that was restored, as far as they have
	// not been worked.
	answers []ghapp.Comment

	mu sync.Mutex
	// woken is the run that was signalled last, "" for none.
	woken run.ID
}

// newJob makes a job. The Queue of both is the job itself.
func newJob(deliveries delivery.Config, runs reconcile.Config) *job {
	j := &job{store: runs.Store, github: runs.GitHub, wake: make(chan struct{}, 1)}
	deliveries.Queue, deliveries.ByJob = j, true
	runs.Queue, runs.ByJob = j, true
	j.deliveries = delivery.New(deliveries)
	j.runs = reconcile.New(runs, j.deliveries)
	return j
}

// close ends what is held in memory, as Reconciler.Close does.
func (j *job) close(ctx context.Context) error { return j.runs.Close(ctx) }

// Wake implements delivery.Waker. A tick that comes before the transaction is
// committed changes nothing; the next comes within a second.
func (j *job) Wake(_ *store.Tx, id run.ID) {
	j.mu.Lock()
	j.woken = id
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// deliver works one event as if it had come as a webhook, and says in a few words what became of
// it. What it is about may have been worked by an earlier job: see restore.
func (j *job) deliver(ctx context.Context, guid string, ev event) (outcome string, err error) {
	d := ev.delivery(guid)
	err = retry(ctx, func() (err error) {
		if err := j.restore(ctx, guid, ev); err != nil {
			return err
		}
		outcome, err = j.deliveries.Deliver(ctx, d)
		return err
	})
	return outcome, err
}

// errNoBranch is what keeps the branches of a repository from being read, and may
// pass.
var errNoBranch = errors.New("the repository could not be read")

// retry tries work again while what keeps it from succeeding may pass.
func retry(ctx context.Context, work func() error) error {
	for try := 1; ; try++ {
		err := work()
		class, after := ghapp.Classify(err)
		passes := class == ghapp.Transient || class == ghapp.RateLimited || errors.Is(err, errNoBranch)
		if err == nil || !passes || try == deliverTries || ctx.Err() != nil {
			return err
		}
		zerolog.Ctx(ctx).Warn().Err(err).Msg("working the event failed; it is tried again")
		pause := time.NewTimer(max(after, firstPause<<try))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// settle waits until what was said of the work of a run that has ended is taken
// up by another, or is known not to be.
func (j *job) settle(ctx context.Context) error {
	for {
		j.mu.Lock()
		id := j.woken
		j.mu.Unlock()
		if id == "" {
			return nil
		}
		row, err := j.store.Run(ctx, id)
		if err != nil || !row.Phase.Terminal() {
			return err
		}
		var wait time.Duration
		err = retry(ctx, func() (err error) {
			wait, err = j.runs.Advance(ctx, id)
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

// drive ticks the run until it has ended, and gives how it stands then. When ctx
// ends, the run is cancelled in order, with the cause of ctx as the reason: its
// agent is stopped, what is finished stays published, and people are told.
func (j *job) drive(ctx context.Context, id run.ID) (loop.State, error) {
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
		pause, err := j.runs.Advance(tick, id)
		cut := tick.Err() != nil && !cancelled
		release()
		row, rowErr := j.store.Run(life, id)
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
			if err := j.cancel(life, id, context.Cause(asked).Error()); err != nil {
				return loop.State{}, err
			}
		}
	}
}

// cancel asks the run to stop.
func (j *job) cancel(ctx context.Context, id run.ID, why string) error {
	return j.store.InTx(ctx, func(tx *store.Tx) error {
		return j.store.RequestCancel(ctx, tx, id, why, j.deliveries.Now())
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
func (j *job) pause(ctx context.Context, d time.Duration, done <-chan struct{}) error {
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

// errNoLongerAsked is why a run stops whose label is gone, or whose issue is
// closed or locked.
var errNoLongerAsked = errors.New("the label was removed, or the issue was closed or locked")

// keepAsking stops the run when its issue is closed or locked, or loses the label that was
// on when it began. A look that fails is repeated.
func (j *job) keepAsking(ctx context.Context, id run.ID, stop context.CancelCauseFunc) {
	row, err := j.store.Run(ctx, id)
	if err != nil {
		return // drive finds out by itself
	}
	repo := j.github.Repo(row.Installation, row.RepoOwner, row.RepoName)
	ctx = ghapp.WithPurpose(ctx, "still asked")
	every := time.NewTicker(stillAskedEvery)
	defer every.Stop()
	labelled := false
	for {
		asked, err := j.deliveries.StillAsked(ctx, repo, row.IssueNumber)
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

// active is the run that has not ended, "" for none.
func (j *job) active(ctx context.Context) (run.ID, error) {
	rows, err := j.store.ActiveRuns(ctx)
	if err != nil {
		return "", fmt.Errorf("look for the run: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return rows[0].ID, nil
}
