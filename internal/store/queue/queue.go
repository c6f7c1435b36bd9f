package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// ErrBusy is what a handler returns when it has to wait for someone else: for
// Handlers.Advance the holder of the run's lease, for Handlers.Delivery an
// earlier run that is ending. The job is tried again in a moment, and it is no
// failure.
var ErrBusy = errors.New("queue: someone else is at work on it")

// LaterError is what Handlers.Delivery returns when it has to wait for a time that it
// knows. It is no failure.
type LaterError struct {
	// After is how long to wait.
	After time.Duration
	Err   error
}

// Error implements error.
func (e *LaterError) Error() string { return fmt.Sprintf("wait for %s: %v", e.After, e.Err) }

// Unwrap gives the cause.
func (e *LaterError) Unwrap() error { return e.Err }

const (
	// maxSnooze caps what a tick may sleep. A signal wakes the run at once, so
	// this bounds what a lost signal costs; 100 sleeping runs then take 3 % of
	// a core.
	maxSnooze = 2 * time.Second
	// busySnooze is the wait for a lease that is taken.
	busySnooze = 20 * time.Millisecond

	// deliverySnooze is the wait of a delivery for a run that is ending.
	deliverySnooze = 250 * time.Millisecond

	// jobTimeout ends the context of a job, tickTimeout that of one that ticks
	// a run: laying out or storing a large tree takes minutes.
	jobTimeout  = time.Minute
	tickTimeout = 15 * time.Minute
	// rescueAfter is when a job is taken from a process that neither ends it
	// nor is known to be dead. It is longer than any job may take.
	rescueAfter = tickTimeout + time.Minute
	// stopTimeout is how long jobs may go on after a stop before their context
	// is cancelled.
	stopTimeout = 5 * time.Second

	// fetchCooldown and fetchPoll pace the look for due jobs; idle they cost
	// under 2 % of a core.
	fetchCooldown = 10 * time.Millisecond
	fetchPoll     = 100 * time.Millisecond

	// presenceEvery is the pause between two looks for dead processes.
	presenceEvery = time.Second

	defaultWorkers    = 16
	defaultSweepEvery = 30 * time.Second
)

// Handlers do the work.
type Handlers struct {
	// Delivery works the delivery with this GUID and marks it in the store; one
	// that is not marked comes back, soon after ErrBusy. It may be called again
	// for the same GUID after a crash.
	Delivery func(ctx context.Context, guid string) error
	// Advance ticks the run: as many transitions as it can make now, each of
	// them persisted. It returns how long it wants to sleep before the next
	// tick (at most two seconds are granted), 0 when the run needs no more
	// ticks, or ErrBusy. It may be called concurrently for one run, and takes
	// the run's lease itself.
	Advance func(ctx context.Context, id run.ID) (snooze time.Duration, err error)
}

// Options are the settings of a queue.
type Options struct {
	// Workers is how many jobs this process works at once; 0 means 16.
	Workers int
	// SweepEvery is the pause between two sweeps that make up for lost jobs;
	// 0 means 30 seconds.
	SweepEvery time.Duration
	// Log gets failures of jobs, and is the logger in the contexts of handlers.
	Log zerolog.Logger
}

// Queue inserts jobs and, once started, works them. Several queues, in one
// process or in many, may share a database. It is safe for concurrent use.
type Queue struct {
	id         string
	st         *store.Store
	jobs       jobs
	sweepEvery time.Duration
	log        zerolog.Logger

	// woken are the wakes, by id, that have had their run ticked and wait until it is sure
	// that another job polls it.
	woken sync.Map

	mu       sync.Mutex
	handlers Handlers // set once, before the client starts
	peers    *presence
	sweepers sync.WaitGroup
	cancel   context.CancelFunc
}

// Open prepares the queue's tables in st. The queue it returns can insert jobs;
// to work them it must be started.
func Open(ctx context.Context, st *store.Store, opts Options) (*Queue, error) {
	if opts.Workers <= 0 {
		opts.Workers = defaultWorkers
	}
	if opts.SweepEvery <= 0 {
		opts.SweepEvery = defaultSweepEvery
	}
	q := &Queue{
		id:         fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text())),
		st:         st,
		sweepEvery: opts.SweepEvery,
		log:        opts.Log,
	}
	// While the database is away River says so many times a second.
	log := slog.New(zerolog.NewSlogHandler(opts.Log.Level(max(opts.Log.GetLevel(), zerolog.WarnLevel)).
		Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Minute})))

	workers := river.NewWorkers()
	err := errors.Join(
		river.AddWorkerSafely(workers, river.WorkFunc(q.workDelivery)),
		river.AddWorkerSafely(workers, &ticker[advanceArgs]{work: q.workAdvance}),
		river.AddWorkerSafely(workers, &ticker[wakeArgs]{work: q.workWake}),
	)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	q.jobs, err = openJobs(ctx, st, &river.Config{
		ID:                          q.id,
		Logger:                      log,
		Queues:                      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: opts.Workers}},
		Workers:                     workers,
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchPoll,
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		SoftStopTimeout:             stopTimeout,
		RetryPolicy:                 retryPolicy{},
		ErrorHandler:                failureLog{},
		CompletedJobRetentionPeriod: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	return q, nil
}

// ID names this queue among those that share the database. As owner of a run's
// lease it has an advantage: when the process dies, the lease is given back at
// once, without waiting for it to run out.
func (q *Queue) ID() string { return q.id }

// Start works jobs until Stop, or until ctx ends. It can be called once.
func (q *Queue) Start(ctx context.Context, h Handlers) error {
	if h.Delivery == nil || h.Advance == nil {
		return errors.New("start queue: a handler is missing")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancel != nil {
		return errors.New("start queue: already started")
	}
	peers, err := announce(q.st.Path()+".alive", q.id)
	if err != nil {
		return fmt.Errorf("start queue: %w", err)
	}
	ctx, cancel := context.WithCancel(q.log.WithContext(ctx))
	q.handlers, q.peers, q.cancel = h, peers, cancel

	// First what others left behind, so that the first fetch sees it.
	q.maintain(ctx, "take over from dead processes", q.takeOver)
	q.maintain(ctx, "take over from lost processes", q.takeOverLost)
	q.maintain(ctx, "sweep", q.sweep)
	if err := q.jobs.Start(ctx); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("start queue: %w", err), peers.leave())
	}
	q.sweepers.Go(func() { q.every(ctx, presenceEvery, "take over from dead processes", q.takeOver) })
	q.sweepers.Go(func() { q.every(ctx, q.sweepEvery, "sweep", q.sweep) })
	return nil
}

// Stop fetches no more jobs and waits for those that run; after five seconds
// their contexts are cancelled. When ctx ends first it returns ctx's error with
// jobs still running: the process should end then. Stopping twice, or without
// a start, is fine.
func (q *Queue) Stop(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.peers == nil {
		return nil
	}
	if err := q.jobs.Stop(ctx); err != nil {
		return fmt.Errorf("stop queue: %w", err)
	}
	q.cancel()
	q.sweepers.Wait()
	// Only now: as long as a job may run, others must not take it for dead.
	peers := q.peers
	q.peers = nil
	if err := peers.leave(); err != nil {
		return fmt.Errorf("stop queue: %w", err)
	}
	return nil
}

// every calls f until ctx ends.
func (q *Queue) every(ctx context.Context, pause time.Duration, what string, f func(context.Context) error) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			q.maintain(ctx, what, f)
		}
	}
}

// maintain calls f, whose failure is not the end: it will be called again.
func (q *Queue) maintain(ctx context.Context, what string, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		q.log.Error().Err(err).Msg("queue: " + what)
	}
}
