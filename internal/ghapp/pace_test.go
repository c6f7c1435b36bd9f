package ghapp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceOfWrites: ten at once, then one a second; an urgent one goes at once
// and is paid for by those after it.
func TestPaceOfWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l, begin := t.Context(), newLane(writeEvery), time.Now()
		enter := func(ctx context.Context, at time.Duration) {
			t.Helper()
			if err := l.enter(ctx); err != nil {
				t.Fatal(err)
			}
			l.leave()
			if got := time.Since(begin); got != at {
				t.Errorf("sent after %s, want %s", got, at)
			}
		}
		for range writesAtOnce {
			enter(ctx, 0)
		}
		enter(ctx, time.Second)
		enter(ctx, 2*time.Second)
		enter(Urgent(ctx), 2*time.Second)
		enter(ctx, 4*time.Second)
		<-time.After(time.Minute) // by the clock of the bubble
		enter(ctx, time.Minute+4*time.Second)
	})
}

// TestWritesThatAreTooMany are given back with the time to come again, and take
// nothing from those that wait.
func TestWritesThatAreTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLane(writeEvery)
		for range writesAtOnce + 5 {
			if err := l.enter(Urgent(t.Context())); err != nil {
				t.Fatal(err)
			}
			l.leave()
		}
		for range 3 {
			if class, after := Classify(l.enter(t.Context())); class != RateLimited || after != 6*time.Second {
				t.Errorf("class = %s, come back after %s", class, after)
			}
		}
		<-time.After(6 * time.Second) // by the clock of the bubble
		begin := time.Now()
		if err := l.enter(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("when it came back: %v after %s", err, time.Since(begin))
		}
		// A turn that is taken is waited for, not longer than the caller wants.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := l.enter(Urgent(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a turn that nobody gave back: %v", err)
		}
	})
}
