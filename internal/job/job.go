package job

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

// Job is the App for one event: it works the event and drives the run that
// comes of it to the end, in this process. It has no queue; what the queue
// would do, it does itself.
type Job struct {
	store      *store.Store
	github     *ghapp.App
	deliveries *delivery.Receiver
	runs       *reconcile.Reconciler
	// models and needsApproval are those of the runs.
	models        *reconcile.Models
	needsApproval bool
	wake          chan struct{}

	mu sync.Mutex
	// woken is the run that was signalled last, "" for none.
	woken run.ID
}

// New makes a job. The Queue of both is the job itself.
func New(deliveries delivery.Config, runs reconcile.Config) *Job {
	j := &Job{store: runs.Store, github: runs.GitHub, models: runs.Models, needsApproval: runs.NeedsApproval,
		wake: make(chan struct{}, 1)}
	deliveries.Queue, deliveries.ByJob = j, true
	runs.Queue, runs.ByJob = j, true
	j.deliveries = delivery.New(deliveries)
	j.runs = reconcile.New(runs, j.deliveries)
	return j
}

// Close ends what is held in memory, as Reconciler.Close does.
func (j *Job) Close(ctx context.Context) error { return j.runs.Close(ctx) }

// Wake implements delivery.Waker. A tick that comes before the transaction is
// committed changes nothing; the next comes within a second.
func (j *Job) Wake(_ *store.Tx, id run.ID) {
	j.mu.Lock()
	j.woken = id
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Deliver works one event as if it had come as a webhook, and says in a few
// words what became of it. What it is about may have been worked by an earlier
// job: see restore.
func (j *Job) Deliver(ctx context.Context, d store.Delivery) (outcome string, err error) {
	if err := j.insert(ctx, d); err != nil {
		return "", err
	}
	err = j.persist(ctx, func() error {
		if err := j.restore(ctx, d); err != nil {
			return err
		}
		return j.deliveries.Work(ctx, d.GUID)
	})
	if err != nil {
		return "", err
	}
	done, err := j.store.Delivery(ctx, d.GUID)
	return done.Outcome, err
}

// Find says which issue an event is about, 0 for none; see delivery.Receiver.Find. The
// outcome says in a few words what became of the event.
func (j *Job) Find(ctx context.Context, d store.Delivery) (issue int, outcome string, err error) {
	if err := j.insert(ctx, d); err != nil {
		return 0, "", err
	}
	err = j.persist(ctx, func() error {
		issue, err = j.deliveries.Find(ctx, d)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	done, err := j.store.Delivery(ctx, d.GUID)
	return issue, done.Outcome, err
}

func (j *Job) insert(ctx context.Context, d store.Delivery) error {
	return j.store.InTx(ctx, func(tx *store.Tx) error {
		_, err := j.store.InsertDelivery(ctx, tx, d)
		return err
	})
}

// Sweep takes up the labelled issue that has waited longest, for a job that
// nobody's event has started: the job of its label may have been cancelled, or
// never have come to run. It says in a few words what became of that.
//
// only is the issue that FindWaiting has told, 0 for any.
func (j *Job) Sweep(ctx context.Context, installation int64, owner, name string, only int) (outcome string, err error) {
	return j.deliveries.SweepRepository(ctx, installation, owner, name, only,
		func(ctx context.Context, d store.Delivery) (string, bool, error) {
			outcome, err := j.deliveries.Deliver(ctx, d)
			return outcome, outcome == delivery.OutcomeStarted, err
		})
}

// FindWaiting says which issue Sweep would take up, 0 for none, so that the job
// that takes it up can wait in the queue of that issue. Of what comes before it, it
// says what Find would.
func (j *Job) FindWaiting(ctx context.Context, installation int64,
	owner, name string) (issue int, outcome string, err error) {
	outcome, err = j.deliveries.SweepRepository(ctx, installation, owner, name, 0,
		func(ctx context.Context, d store.Delivery) (string, bool, error) {
			var outcome string
			issue, outcome, err = j.Find(ctx, d)
			return outcome, issue != 0, err
		})
	return issue, outcome, err
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
		row, err := j.store.Run(ctx, id)
		if err != nil || !row.Phase.Terminal() {
			return err
		}
		var wait time.Duration
		err = j.persist(ctx, func() (err error) {
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
			if err := j.Cancel(life, id, context.Cause(asked).Error()); err != nil {
				return loop.State{}, err
			}
		}
	}
}

// Cancel asks the run to stop.
func (j *Job) Cancel(ctx context.Context, id run.ID, why string) error {
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

// errNoLongerAsked is why a run stops whose label is gone, or whose issue is
// closed or locked.
var errNoLongerAsked = errors.New("the label was removed, or the issue was closed or locked")

// keepAsking stops the run when its issue is closed or locked, or loses the label that was
// on when it began. A look that fails is repeated.
func (j *Job) keepAsking(ctx context.Context, id run.ID, stop context.CancelCauseFunc) {
	row, err := j.store.Run(ctx, id)
	if err != nil {
		return // Drive finds out by itself
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

// Active lists the runs that have not ended.
func (j *Job) Active(ctx context.Context) ([]run.ID, error) {
	rows, err := j.store.ActiveRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	var ids []run.ID
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids, nil
}
