// Package queue works what is due: webhooks that were accepted, and runs that have a step to
// take.
//
// It holds no state that matters. What is due is derived from the store at the start and
// every half minute; whoever writes something that a run has to see wakes it once that is
// committed. Losing a wake, or the process, costs a delay.
//
// Each webhook and each run is worked by one worker at a time. One that is woken while it is
// being worked is worked once more: no wake is lost. What fails is tried again, ever less
// often, at least once a minute, until it succeeds.
package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// ErrBusy is what a handler returns that has to wait for somebody else: an earlier run that
// is ending, or whoever cleans up after one. It is no failure.
var ErrBusy = errors.New("queue: someone else is at work on it")

// LaterError is what a handler returns that has to wait for a time that it knows. It is no
// failure.
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
	// workers is how many webhooks and steps of runs are worked at the same time. They wait
	// for GitHub, git and the disk more than they compute; agents and checks are not among
	// them.
	workers = 16
	// maxSleep caps what a run may sleep. Whatever concerns it wakes it at once, so this
	// bounds what GitHub's return, which wakes nobody, takes to be seen.
	maxSleep = 2 * time.Second
	// busySleep is the wait for somebody else.
	busySleep = 250 * time.Millisecond
	// firstSleep and lastSleep bound the wait after a failure, which doubles.
	firstSleep, lastSleep = time.Second, time.Minute
	// deliveryTime and tickTime end the context of what takes too long: laying out or storing
	// a large tree takes minutes.
	deliveryTime, tickTime = time.Minute, 15 * time.Minute
	// stopTime is how long work may go on after a stop before its context is cancelled.
	stopTime = 5 * time.Second
	// lookEvery is the pause between two looks at what the store says is due.
	lookEvery = 30 * time.Second
)

// Handlers do the work.
type Handlers struct {
	// Delivery works an accepted webhook, by its GUID. Without an error it is done.
	Delivery func(ctx context.Context, guid string) error
	// Advance ticks a run, and says after which time to tick it again; zero is not at all.
	Advance func(ctx context.Context, id run.ID) (time.Duration, error)
}

// Due says what there is to work: the GUIDs of webhooks that nobody has worked yet, and the
// runs that have not ended. (*store.Store).Due is one.
type Due func(ctx context.Context) (deliveries []string, runs []run.ID, err error)

// item is a webhook or a run; one of the two is set.
type item struct {
	delivery string
	run      run.ID
}

// job is what the queue knows of an item that it has to work.
type job struct {
	// state is what becomes of it next.
	state state
	// again: it was woken while a worker had it.
	again bool
	// fails counts the failures in a row.
	fails int
	// timer ends its sleep.
	timer *time.Timer
}

type state int

const (
	sleeping state = iota // until its timer ends
	ready                 // for the next worker
	working               // a worker has it
)

// Queue works what is due once it is started. It is safe for concurrent use.
type Queue struct {
	due Due
	log zerolog.Logger

	mu    sync.Mutex
	more  *sync.Cond // ready has one more, or the queue was stopped
	jobs  map[item]*job
	ready []item
	// stopped: nothing more is begun; quit is closed then.
	stopped  bool
	quit     chan struct{}
	handlers Handlers
	cancel   context.CancelFunc // nil before Start
	busy     sync.WaitGroup
}

// New makes a queue. What it is told to work waits until it is started.
func New(due Due, log zerolog.Logger) *Queue {
	q := &Queue{due: due, log: log, jobs: map[item]*job{}, quit: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	return q
}

// Keep stores a webhook, and has it worked if it is new.
func (q *Queue) Keep(ctx context.Context, st *store.Store, d store.Delivery) error {
	return st.InTx(ctx, func(tx *store.Tx) error {
		fresh, err := st.InsertDelivery(ctx, tx, d)
		if err == nil && fresh {
			tx.AfterCommit(func() { q.wake(item{delivery: d.GUID}) })
		}
		return err
	})
}

// Wake has a run ticked once tx, which writes what the run is to see, is committed; where tx
// is nil, now.
func (q *Queue) Wake(tx *store.Tx, id run.ID) {
	if tx == nil {
		q.wake(item{run: id})
		return
	}
	tx.AfterCommit(func() { q.wake(item{run: id}) })
}

func (q *Queue) wake(it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[it]
	switch {
	case j == nil:
		q.add(it)
	case j.state == working:
		j.again = true
	case j.state == sleeping:
		q.push(it, j)
	}
}

// add has an item worked that the queue does not know. q.mu is held.
func (q *Queue) add(it item) {
	if q.jobs[it] == nil {
		j := &job{}
		q.jobs[it] = j
		q.push(it, j)
	}
}

// push has the next free worker take an item. q.mu is held.
func (q *Queue) push(it item, j *job) {
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.state = ready
	q.ready = append(q.ready, it)
	q.more.Signal()
}

// sleep has an item worked after a while. q.mu is held.
func (q *Queue) sleep(it item, j *job, pause time.Duration) {
	j.state = sleeping
	var timer *time.Timer
	timer = time.AfterFunc(pause, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if j.timer == timer { // it was not woken meanwhile
			q.push(it, j)
		}
	})
	j.timer = timer
}

// Start works what is due until Stop, or until ctx ends. It can be called once.
func (q *Queue) Start(ctx context.Context, h Handlers) {
	ctx, cancel := context.WithCancel(q.log.WithContext(ctx))
	q.mu.Lock()
	q.handlers, q.cancel = h, cancel
	q.mu.Unlock()
	q.look(ctx)
	for range workers {
		q.busy.Go(func() { q.work(ctx) })
	}
	q.busy.Go(func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				q.stop()
				return
			case <-q.quit:
				return
			case <-t.C:
				q.look(ctx)
			}
		}
	})
}

// look adds what the store says is due and the queue does not know.
func (q *Queue) look(ctx context.Context) {
	deliveries, runs, err := q.due(ctx)
	if err != nil {
		if ctx.Err() == nil {
			q.log.Error().Err(err).Msg("queue: looking for what is due failed; it is tried again")
		}
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, guid := range deliveries {
		q.add(item{delivery: guid})
	}
	for _, id := range runs {
		q.add(item{run: id})
	}
}

func (q *Queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.stopped = true
	close(q.quit)
	q.more.Broadcast()
}

// Stop begins nothing more and waits for what is being worked; after five seconds its
// contexts are cancelled. When ctx ends first it returns ctx's error with work still going on:
// the process should end then. Stopping twice, or without a start, is fine.
func (q *Queue) Stop(ctx context.Context) error {
	q.stop()
	q.mu.Lock()
	cancel := q.cancel
	q.mu.Unlock()
	if cancel == nil {
		return nil
	}
	ended := make(chan struct{})
	late := time.AfterFunc(stopTime, cancel)
	defer late.Stop()
	go func() {
		defer close(ended)
		q.busy.Wait()
	}()
	select {
	case <-ended:
		cancel()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop queue: %w", context.Cause(ctx))
	}
}

// work works one item after the other until the queue is stopped.
func (q *Queue) work(ctx context.Context) {
	for {
		it, ok := q.take()
		if !ok {
			return
		}
		pause, err := q.call(ctx, it)
		q.done(ctx, it, pause, err)
	}
}

// take waits for the next item; ok is false when the queue was stopped.
func (q *Queue) take() (it item, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.ready) == 0 && !q.stopped {
		q.more.Wait()
	}
	if q.stopped {
		return item{}, false
	}
	it = q.ready[0]
	q.ready = q.ready[1:]
	q.jobs[it].state = working
	return it, true
}

// call has the handler work an item. A panic is an error, with its stack.
func (q *Queue) call(ctx context.Context, it item) (pause time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	log := zerolog.Ctx(ctx).With()
	if it.delivery != "" {
		ctx, cancel := context.WithTimeout(log.Str("github_delivery_id", it.delivery).Logger().WithContext(ctx), deliveryTime)
		defer cancel()
		return 0, q.handlers.Delivery(ctx, it.delivery)
	}
	ctx, cancel := context.WithTimeout(log.Str("run", string(it.run)).Logger().WithContext(ctx), tickTime)
	defer cancel()
	return q.handlers.Advance(ctx, it.run)
}

// done decides when an item is worked again, if it is.
func (q *Queue) done(ctx context.Context, it item, pause time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[it]
	later, known := errors.AsType[*LaterError](err)
	switch {
	case err == nil:
		pause = min(pause, maxSleep)
		j.fails = 0
	case errors.Is(err, ErrBusy):
		pause = busySleep
	case known:
		pause = max(later.After, busySleep)
	default:
		pause = min(firstSleep<<min(j.fails, 10), lastSleep)
		j.fails++
		if !q.stopped || ctx.Err() == nil {
			q.log.Error().Str("github_delivery_id", it.delivery).Str("run", string(it.run)).Int("in_a_row", j.fails).Err(err).
				Msg("queue: work failed; it is tried again")
		}
	}
	switch {
	case j.again:
		j.again = false
		q.push(it, j)
	case pause > 0:
		q.sleep(it, j, pause)
	default:
		delete(q.jobs, it)
	}
}
