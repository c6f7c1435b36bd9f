// Package queuetest holds what every database under the queue must pass.
package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/queue"
)

// Database opens one more handle on the same database, as another process
// would. It is closed when the test ends.
type Database func(t *testing.T) *store.Store

// patience is how long a test waits for what must happen; it is no measure of
// how soon it should.
const patience = 30 * time.Second

// Run exercises a queue on databases made by newDatabase, a new one for each
// test.
func Run(t *testing.T, newDatabase func(t *testing.T) Database) {
	for _, tc := range []struct {
		name string
		test func(t *testing.T, db Database)
	}{
		{"works what is committed, and soon", testDelivery},
		{"does not work what is rolled back", testRollback},
		{"ticks a run until it needs no more", testAdvance},
		{"has one polling job per run", testUnique},
		{"lets no run sleep longer than two seconds", testSnoozeCap},
		{"loses no wake", testWake},
		{"wakes a run that had ceased to tick", testRevive},
		{"waits for a lease without complaint", testBusy},
		{"tries again what failed, and says so", testFailure},
		{"makes up for lost jobs at start and later", testSweep},
		{"shares work without overlap", testShare},
		{"waits for what runs when it stops", testStop},
		{"refuses to start wrongly", testStartTwice},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, newDatabase(t))
		})
	}
}

// handlers are Handlers of which a test sets what it expects to be called.
type handlers struct {
	t        *testing.T
	delivery func(ctx context.Context, guid string) error
	advance  func(ctx context.Context, id run.ID) (time.Duration, error)
}

func (h handlers) queue() queue.Handlers {
	out := queue.Handlers{Delivery: h.delivery, Advance: h.advance}
	if out.Delivery == nil {
		out.Delivery = func(_ context.Context, guid string) error {
			h.t.Errorf("unexpected delivery %s", guid)
			return nil
		}
	}
	if out.Advance == nil {
		out.Advance = func(_ context.Context, id run.ID) (time.Duration, error) {
			h.t.Errorf("unexpected tick of run %s", id)
			return 0, nil
		}
	}
	return out
}

func open(t *testing.T, st *store.Store, opts queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), st, opts)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// start starts q and stops it when the test ends.
func start(t *testing.T, q *queue.Queue, h queue.Handlers) {
	t.Helper()
	if err := q.Start(context.WithoutCancel(t.Context()), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, q) })
}

func stop(t *testing.T, q *queue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := q.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func inTx(t *testing.T, st *store.Store, f func(tx *store.Tx) error) {
	t.Helper()
	if err := st.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func accept(t *testing.T, st *store.Store, tx *store.Tx, guid string) error {
	t.Helper()
	isFresh, err := st.InsertDelivery(t.Context(), tx, store.Delivery{GUID: guid, ReceivedAt: time.Now()})
	if err == nil && !isFresh {
		err = fmt.Errorf("delivery %s is there already", guid)
	}
	return err
}

func createRun(t *testing.T, st *store.Store, tx *store.Tx, id run.ID) error {
	t.Helper()
	return st.CreateRun(t.Context(), tx, store.Run{
		ID: id, RepoNode: string(id), Phase: run.PhaseQueued, CreatedAt: time.Now(),
	})
}

func advanceJob(t *testing.T, q *queue.Queue, st *store.Store, id run.ID) {
	t.Helper()
	inTx(t, st, func(tx *store.Tx) error { return q.EnqueueAdvance(t.Context(), tx, id) })
}

func wake(t *testing.T, q *queue.Queue, st *store.Store, id run.ID) {
	t.Helper()
	inTx(t, st, func(tx *store.Tx) error { return q.Wake(t.Context(), tx, id) })
}

// receive waits for a value.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func testDelivery(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{})
	worked := make(chan string, 100)
	start(t, q, handlers{t: t, delivery: func(ctx context.Context, guid string) error {
		worked <- guid
		return st.InTx(ctx, func(tx *store.Tx) error { return st.MarkDelivery(ctx, tx, guid, "done", time.Now()) })
	}}.queue())

	quickest := patience
	for i := range 11 {
		guid := fmt.Sprint("guid-", i)
		begin := time.Now()
		inTx(t, st, func(tx *store.Tx) error {
			return errors.Join(
				accept(t, st, tx, guid),
				q.EnqueueDelivery(t.Context(), tx, guid),
				q.EnqueueDelivery(t.Context(), tx, guid)) // once is enough
		})
		if got := receive(t, worked, guid); got != guid {
			t.Errorf("worked %s, want %s", got, guid)
		}
		quickest = min(quickest, time.Since(begin))
	}
	// Of the quickest, so that a busy machine is no failure.
	if quickest > time.Second/2 {
		t.Errorf("every delivery took more than %v to be picked up", quickest)
	}
	stop(t, q)
	if len(worked) != 0 {
		t.Errorf("worked again: %s", <-worked)
	}
}

func testRollback(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{Workers: 1})
	worked := make(chan string, 10)
	start(t, q, handlers{t: t, delivery: func(_ context.Context, guid string) error {
		worked <- guid
		return nil
	}}.queue())
	changedMind := errors.New("changed my mind")
	err := st.InTx(t.Context(), func(tx *store.Tx) error {
		return errors.Join(q.EnqueueDelivery(t.Context(), tx, "no"), changedMind)
	})
	if !errors.Is(err, changedMind) {
		t.Fatal(err)
	}
	inTx(t, st, func(tx *store.Tx) error { return q.EnqueueDelivery(t.Context(), tx, "yes") })
	if got := receive(t, worked, "the second delivery"); got != "yes" {
		t.Errorf("worked %q", got)
	}
}

func testAdvance(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{})
	ticks := make(chan int64, 100)
	var count atomic.Int64
	start(t, q, handlers{t: t, advance: func(context.Context, run.ID) (time.Duration, error) {
		n := count.Add(1)
		ticks <- n
		if n == 4 {
			return 0, nil
		}
		return time.Millisecond, nil
	}}.queue())
	advanceJob(t, q, st, "r-1")
	for want := int64(1); want <= 4; want++ {
		if got := receive(t, ticks, "a tick"); got != want {
			t.Errorf("tick %d, want %d", got, want)
		}
	}
	stop(t, q)
	if len(ticks) != 0 {
		t.Error("ticked on after the end")
	}
}

func testUnique(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{Workers: 1})
	ticks := make(chan run.ID, 100)
	for range 5 {
		advanceJob(t, q, st, "r-1")
	}
	advanceJob(t, q, st, "r-2")
	start(t, q, handlers{t: t, advance: func(_ context.Context, id run.ID) (time.Duration, error) {
		ticks <- id
		return 0, nil
	}}.queue())
	// One worker, first come, first served: more jobs of r-1 would be first.
	for _, want := range []run.ID{"r-1", "r-2"} {
		if got := receive(t, ticks, "a tick"); got != want {
			t.Errorf("tick of %s, want %s", got, want)
		}
	}
}

func testSnoozeCap(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{})
	ticks := make(chan time.Time, 100)
	start(t, q, handlers{t: t, advance: func(context.Context, run.ID) (time.Duration, error) {
		ticks <- time.Now()
		return time.Hour, nil
	}}.queue())
	advanceJob(t, q, st, "r-1")
	first := receive(t, ticks, "the first tick")
	second := receive(t, ticks, "the second tick")
	if slept := second.Sub(first); slept < time.Second {
		t.Errorf("slept only %v", slept)
	}
}

// Every signal is seen, at whatever moment of whatever tick it comes, although
// nothing but the wakes makes the run tick.
func testWake(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{})
	inTx(t, st, func(tx *store.Tx) error {
		// At its end, so that no sweep makes it tick.
		return st.CreateRun(t.Context(), tx, store.Run{ID: "r-1", Phase: run.PhaseDone, CreatedAt: time.Now()})
	})
	var (
		mu            sync.Mutex
		written, seen int
		inside        int
	)
	start(t, q, handlers{t: t, advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
		lease, err := st.ClaimRun(ctx, id, q.ID(), time.Minute, time.Now())
		if errors.Is(err, store.ErrLeaseTaken) {
			return 0, queue.ErrBusy
		}
		if err != nil {
			return 0, err
		}
		mu.Lock()
		if inside++; inside > 1 {
			t.Error("two ticks of one run at a time")
		}
		now := written
		mu.Unlock()
		// The tick does something else after it has looked at the signals: what
		// comes from here on is the business of another tick.
		if err := st.RenewLease(ctx, id, lease, time.Minute, time.Now()); err != nil {
			return 0, err
		}
		mu.Lock()
		seen = max(seen, now)
		inside--
		mu.Unlock()
		return 0, st.ReleaseRun(ctx, id, lease)
	}}.queue())

	const signals = 36
	for i := range signals {
		inTx(t, st, func(tx *store.Tx) error {
			mu.Lock()
			written++
			mu.Unlock()
			return q.Wake(t.Context(), tx, "r-1")
		})
		if i%3 == 0 { // the next one then comes right after a tick's end
			eventually(t, "a signal to be seen", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return seen == written
			})
		}
	}
	eventually(t, "the last signal to be seen", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return seen == signals
	})
}

// A wake finds the polling job about to end, ended, or not there at all; the
// run ticks on in each case.
func testRevive(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{SweepEvery: time.Hour})
	var (
		mu   sync.Mutex
		left int
	)
	finished := make(chan struct{}, 100)
	start(t, q, handlers{t: t, advance: func(context.Context, run.ID) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return 0, nil
		}
		if left--; left == 0 {
			finished <- struct{}{}
			return 0, nil
		}
		return time.Millisecond, nil
	}}.queue())
	for range 8 {
		mu.Lock()
		left = 3
		mu.Unlock()
		wake(t, q, st, "r-1")
		receive(t, finished, "the last tick")
	}
}

func testBusy(t *testing.T, db Database) {
	st := db(t)
	var log logBuffer
	q := open(t, st, queue.Options{Log: zerolog.New(&log)})
	ticks := make(chan run.ID, 100)
	var mu sync.Mutex
	n := map[run.ID]int{}
	start(t, q, handlers{t: t, advance: func(_ context.Context, id run.ID) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		if n[id]++; n[id] <= 3 {
			return 0, fmt.Errorf("tick: %w", queue.ErrBusy)
		}
		ticks <- id
		return 0, nil
	}}.queue())
	advanceJob(t, q, st, "polled")
	wake(t, q, st, "woken")
	receive(t, ticks, "the lease")
	receive(t, ticks, "the lease")
	if got := log.String(); got != "" {
		t.Errorf("logged: %s", got)
	}
}

func testFailure(t *testing.T, db Database) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			st := db(t)
			var log logBuffer
			q := open(t, st, queue.Options{Log: zerolog.New(&log)})
			id := run.ID("r-" + how)
			ticks := make(chan int64, 100)
			var count atomic.Int64
			start(t, q, handlers{t: t, advance: func(context.Context, run.ID) (time.Duration, error) {
				n := count.Add(1)
				ticks <- n
				switch {
				case n == 4:
					return 0, nil
				case n > 1:
					return time.Millisecond, nil
				case how == "panic":
					panic("the disk is gone")
				default:
					return 0, errors.New("the disk is gone")
				}
			}}.queue())
			advanceJob(t, q, st, id)
			for want := int64(1); want <= 4; want++ { // and on, as if nothing had been
				if got := receive(t, ticks, "a tick"); got != want {
					t.Errorf("tick %d, want %d", got, want)
				}
			}
			got := log.String()
			for _, want := range []string{"the disk is gone", string(id), "run.advance", `"level":"error"`} {
				if !strings.Contains(got, want) {
					t.Errorf("the log does not say %q:\n%s", want, got)
				}
			}
		})
	}
}

func testSweep(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{SweepEvery: 50 * time.Millisecond})
	worked, ticked := make(chan string, 1000), make(chan run.ID, 1000)
	// No job is inserted for any of these.
	lose := func(n int) {
		inTx(t, st, func(tx *store.Tx) error {
			return errors.Join(
				accept(t, st, tx, fmt.Sprint("guid-", n)),
				createRun(t, st, tx, run.ID(fmt.Sprint("run-", n))))
		})
	}
	lose(1)
	start(t, q, handlers{t: t,
		delivery: func(ctx context.Context, guid string) error {
			worked <- guid
			return st.InTx(ctx, func(tx *store.Tx) error { return st.MarkDelivery(ctx, tx, guid, "done", time.Now()) })
		},
		advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			lease, err := st.ClaimRun(ctx, id, "test", time.Minute, time.Now())
			if err != nil {
				return 0, err
			}
			ticked <- id
			return 0, st.SaveState(ctx, id, lease, run.PhaseDone, run.EndAllTasksComplete, nil, time.Now())
		},
	}.queue())
	check := func(n int) {
		t.Helper()
		if got, want := receive(t, worked, "the lost delivery"), fmt.Sprint("guid-", n); got != want {
			t.Errorf("worked %s, want %s", got, want)
		}
		if got, want := receive(t, ticked, "the lost run"), run.ID(fmt.Sprint("run-", n)); got != want {
			t.Errorf("ticked %s, want %s", got, want)
		}
	}
	check(1)
	lose(2)
	check(2)
	stop(t, q)
	if len(worked)+len(ticked) != 0 {
		t.Error("what was done is done again")
	}
}

func testShare(t *testing.T, db Database) {
	const runs, ticksEach = 12, 3
	var (
		mu      sync.Mutex
		inside  = map[run.ID]bool{}
		ticks   = map[run.ID]int{}
		byQueue = map[int]int{}
	)
	finished := make(chan run.ID, 1000)
	first := db(t)
	var queues []*queue.Queue
	for i, st := range []*store.Store{first, db(t)} {
		q := open(t, st, queue.Options{Workers: 2})
		queues = append(queues, q)
		start(t, q, handlers{t: t, advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			mu.Lock()
			if inside[id] {
				t.Errorf("run %s ticks twice at a time", id)
			}
			inside[id] = true
			byQueue[i]++
			mu.Unlock()
			// Long enough that one queue cannot do it all alone: a write.
			err := st.ReleaseOwner(ctx, "nobody")
			mu.Lock()
			defer mu.Unlock()
			inside[id] = false
			if ticks[id]++; ticks[id] == ticksEach {
				finished <- id
				return 0, err
			}
			return time.Millisecond, err
		}}.queue())
	}
	for n := range runs * 3 {
		advanceJob(t, queues[n%2], first, run.ID(fmt.Sprint("r-", n/3)))
	}
	for range runs {
		receive(t, finished, "a run's last tick")
	}
	mu.Lock()
	defer mu.Unlock()
	if byQueue[0] == 0 || byQueue[1] == 0 {
		t.Errorf("ticks by queue: %v", byQueue)
	}
}

func testStop(t *testing.T, db Database) {
	st := db(t)
	q := open(t, st, queue.Options{})
	entered, release := make(chan struct{}), make(chan struct{})
	var ended bool
	start(t, q, handlers{t: t, advance: func(ctx context.Context, _ run.ID) (time.Duration, error) {
		close(entered)
		<-release
		ended = ctx.Err() == nil
		return time.Millisecond, nil
	}}.queue())
	advanceJob(t, q, st, "r-1")
	receive(t, entered, "the tick")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop(t, q)
	}()
	select {
	case <-stopped:
		t.Error("stopped while a tick was running")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	receive(t, stopped, "the stop")
	if !ended {
		t.Error("the tick was not left to end")
	}

	// Another queue goes on with what this one left.
	other := db(t)
	next := open(t, other, queue.Options{})
	ticks := make(chan run.ID, 100)
	start(t, next, handlers{t: t, advance: func(_ context.Context, id run.ID) (time.Duration, error) {
		ticks <- id
		return 0, nil
	}}.queue())
	if got := receive(t, ticks, "the next tick"); got != "r-1" {
		t.Errorf("ticked %s", got)
	}
}

func testStartTwice(t *testing.T, db Database) {
	q := open(t, db(t), queue.Options{})
	stop(t, q) // before the start: nothing
	if err := q.Start(t.Context(), queue.Handlers{}); err == nil {
		t.Error("started without handlers")
	}
	start(t, q, handlers{t: t}.queue())
	if err := q.Start(t.Context(), handlers{t: t}.queue()); err == nil {
		t.Error("started twice")
	}
	stop(t, q)
	stop(t, q)
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
