package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// bell rings for all who wait whenever something may have changed: GitHub has
// answered, a run has told something or was saved, a job of the queue is done.
// Nobody has to look again and again, which cost more than the work itself.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// next is closed by the next ring. Who asks for it first and looks then misses
// nothing.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

// wrap rings after each request that next has served.
func (b *bell) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer b.ring()
		next.ServeHTTP(w, r)
	})
}

// await waits until the condition holds, looking when the stage's bell has rung.
func (st *stage) await(what string, condition func() bool) {
	st.t.Helper()
	awaitBell(st.t, st.bell, what, condition)
}

// awaitBell waits until the condition holds, looking when b has rung.
func awaitBell(t testing.TB, b *bell, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := untilDeadline(t, longestWait)
	defer cancel()
	for {
		rung := b.next()
		if condition() {
			return
		}
		select {
		case <-rung:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, context.Cause(ctx))
		}
	}
}

// watchOthers rings from time to time until the test ends: what a program does
// that is not of this process, or a container, rings no bell.
func (st *stage) watchOthers() {
	st.others.Do(func() {
		ctx, cancel := context.WithCancel(st.t.Context())
		var looking sync.WaitGroup
		looking.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					st.bell.ring()
				case <-ctx.Done():
					return
				}
			}
		})
		st.t.Cleanup(func() {
			cancel()
			looking.Wait()
		})
	})
}

// longestWait is more than anything takes that a test waits for, also on a busy machine. A
// wrong expectation costs no more than this.
const longestWait = 5 * time.Minute

// untilDeadline ends after a time, and shortly before go test's own -timeout would end
// everything, so that the test can still say what it waited for.
func untilDeadline(t testing.TB, longest time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(longest)
	if timed, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := timed.Deadline(); ok && at.Add(-10*time.Second).Before(end) {
			end = at.Add(-10 * time.Second)
		}
	}
	return context.WithDeadline(t.Context(), end)
}
