package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
)

// bench is a queue in a bubble of synctest, and what its handlers were called for.
type bench struct {
	*Queue
	t     *testing.T
	begin time.Time

	mu sync.Mutex
	// deliveries and runs are what the store says is due.
	deliveries []string
	runs       []run.ID
	// calls are "WHAT at SECONDS".
	calls []string
	// answers are given one after the other by the handler of each item, the last one for ever.
	answers map[string][]answer
	log     bytes.Buffer
}

type answer struct {
	after time.Duration
	err   error
	// takes is how long the handler is at work.
	takes time.Duration
	panic any
}

// inBubble starts a queue and has test use it.
func inBubble(t *testing.T, answers map[string][]answer, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, begin: time.Now(), answers: answers}
		b.Queue = New(b.due, zerolog.New(&b.log))
		test(b)
		if err := b.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) start() {
	b.Start(context.WithoutCancel(b.t.Context()), Handlers{
		Delivery: func(ctx context.Context, guid string) error {
			_, err := b.work(ctx, guid, deliveryTime)
			return err
		},
		Advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			return b.work(ctx, string(id), tickTime)
		},
	})
}

// stores says what the store says is due from now on.
func (b *bench) stores(deliveries []string, runs []run.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliveries, b.runs = deliveries, runs
}

func (b *bench) due(context.Context) ([]string, []run.ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deliveries, b.runs, nil
}

func (b *bench) work(ctx context.Context, what string, limit time.Duration) (time.Duration, error) {
	if deadline, _ := ctx.Deadline(); time.Until(deadline) != limit {
		b.t.Errorf("%s has until %v", what, deadline)
	}
	b.mu.Lock()
	b.calls = append(b.calls, fmt.Sprintf("%s at %v", what, time.Since(b.begin).Seconds()))
	var a answer
	if left := b.answers[what]; len(left) > 0 {
		a = left[0]
		if len(left) > 1 {
			b.answers[what] = left[1:]
		}
	}
	b.mu.Unlock()
	if a.panic != nil {
		panic(a.panic)
	}
	if a.takes > 0 {
		select {
		case <-time.After(a.takes): // by the clock of the bubble
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return a.after, a.err
}

// pass lets so many seconds pass and gives what was called since.
func (b *bench) pass(seconds float64) []string {
	<-time.After(time.Duration(seconds * float64(time.Second))) // by the clock of the bubble
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

func (b *bench) want(seconds float64, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.pass(seconds)); diff != "" {
		b.t.Errorf("called (-want +got):\n%s", diff)
	}
}

// What the store says is due is worked at the start and every half minute, and what is woken
// at once.
func TestWorksWhatIsDue(t *testing.T) {
	t.Parallel()
	inBubble(t, map[string][]answer{"r1": {{after: time.Second}, {after: time.Hour}, {}}}, func(b *bench) {
		b.stores([]string{"d1"}, nil)
		b.start()
		b.want(0, "d1 at 0")
		b.stores(nil, nil)
		b.wake(item{run: "r1"})
		b.want(0.5, "r1 at 0")
		// As long as the handler says, two seconds at most; the end is the end.
		b.want(20, "r1 at 1", "r1 at 3")
		b.stores([]string{"d2"}, nil)
		b.want(10, "d2 at 30")
	})
}

// A run that is woken while it is ticked is ticked once more, and never twice at once.
func TestNoWakeIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, map[string][]answer{"r1": {{takes: 3 * time.Second}, {}}}, func(b *bench) {
		b.start()
		for range 3 {
			b.wake(item{run: "r1"})
		}
		b.want(1, "r1 at 0")
		for range 3 {
			b.wake(item{run: "r1"})
		}
		b.want(1)
		b.want(2, "r1 at 3")
		b.want(10)
	})
}

// What fails or panics is tried again ever later, at least once a minute, and is logged; who
// waits for another, or for a time that it knows, is no failure. A wake ends every wait.
func TestFailuresComeBack(t *testing.T) {
	t.Parallel()
	failed := errors.New("disk full")
	inBubble(t, map[string][]answer{
		"r1": {{err: failed}, {panic: "oops"}, {err: failed}, {after: time.Second}, {err: failed}, {}},
		"r2": {{err: failed}},
		"d1": {{err: fmt.Errorf("ends: %w", ErrBusy)}, {err: &LaterError{After: 5 * time.Second, Err: failed}}, {}},
	}, func(b *bench) {
		b.stores(nil, []run.ID{"r1"})
		b.start()
		b.stores(nil, nil)
		b.want(15, "r1 at 0", "r1 at 1", "r1 at 3", "r1 at 7", "r1 at 8", "r1 at 9")
		if log := b.log.String(); strings.Count(log, "disk full") != 3 || !strings.Contains(log, "panic: oops") {
			t.Errorf("the log:\n%s", log)
		}
		b.log.Reset()
		b.wake(item{delivery: "d1"})
		b.want(10, "d1 at 15", "d1 at 15.25", "d1 at 20.25")
		if b.log.Len() > 0 {
			t.Errorf("the log:\n%s", b.log.String())
		}
		b.wake(item{run: "r2"})
		b.pass(200)
		last := time.Now()
		for range 3 {
			if n := len(b.pass(60)); n != 1 {
				t.Errorf("worked %d times in a minute, %s after the first failure", n, time.Since(last))
			}
		}
		b.wake(item{run: "r2"})
		if n := len(b.pass(0)); n != 1 {
			t.Errorf("woken in its wait, it was worked %d times", n)
		}
	})
}

// No more than so many items are worked at once, in the order in which they came.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	answers, guids := map[string][]answer{}, []string{}
	for i := range 3 * workers {
		guid := fmt.Sprintf("d%02d", i)
		answers[guid], guids = []answer{{takes: time.Second}}, append(guids, guid)
	}
	inBubble(t, answers, func(b *bench) {
		b.stores(guids, nil)
		b.start()
		b.stores(nil, nil)
		calls := b.pass(0.5)
		for round := range 3 {
			if len(calls) != workers {
				t.Errorf("%d at once", len(calls))
			}
			for _, call := range calls {
				guid, _, _ := strings.Cut(call, " ")
				if first := guids[round*workers]; guid < first || guid >= fmt.Sprintf("d%02d", (round+1)*workers) {
					t.Errorf("%s in the round of %s", call, first)
				}
			}
			calls = b.pass(1)
		}
		if len(calls) > 0 {
			t.Errorf("in the end %v", calls)
		}
	})
}

// A stop begins nothing more, waits for what is being worked, cuts it off after five seconds,
// and leaves the rest to the next start.
func TestStop(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration]time.Duration{2 * time.Second: 2 * time.Second, time.Hour: stopTime} {
		inBubble(t, map[string][]answer{"r1": {{takes: takes}}, "d1": {{}}}, func(b *bench) {
			b.wake(item{run: "r1"})
			b.start()
			b.want(0, "r1 at 0")
			b.wake(item{run: "r1"})
			begin := time.Now()
			if err := b.Stop(b.t.Context()); err != nil || time.Since(begin) != want {
				t.Errorf("stopped after %s: %v", time.Since(begin), err)
			}
			b.wake(item{delivery: "d1"})
			b.want(60)
		})
	}
	inBubble(t, nil, func(*bench) {}) // never started
}

// A stop whose own time is over says so, with work still going on.
func TestStopInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(func(context.Context) ([]string, []run.ID, error) { return []string{"d1"}, nil, nil }, zerolog.Nop())
		hung := make(chan struct{})
		q.Start(context.WithoutCancel(t.Context()), Handlers{Delivery: func(context.Context, string) error {
			<-hung
			return nil
		}})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := q.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped: %v", err)
		}
		close(hung)
		if err := q.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
