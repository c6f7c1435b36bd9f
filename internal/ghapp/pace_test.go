package ghapp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceOfWrites: ten at once, then one a second; who would wait for longer than
// maxWait, or than it has time, is told when to come back, and holds up nobody.
func TestPaceOfWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, pace, begin := t.Context(), newPace(writeEvery), time.Now()
		for range writesAtOnce {
			if err := pace.wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the first ten took %s", took)
		}
		if err := pace.wait(ctx); err != nil || time.Since(begin) != writeEvery {
			t.Errorf("the next one: %v after %s", err, time.Since(begin))
		}

		hurried, cancel := context.WithTimeout(ctx, writeEvery/2)
		defer cancel()
		if err := pace.wait(hurried); comeBack(t, err) != writeEvery {
			t.Errorf("one that has half a second: %v", err)
		}
		gone, leave := context.WithCancelCause(ctx)
		leave(errors.New("gone"))
		if err := pace.wait(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("one whose caller has gone: %v", err)
		}
		sent, refused := make(chan error, 8), 0
		begin = time.Now()
		for range cap(sent) {
			go func() { sent <- pace.wait(ctx) }()
		}
		for range cap(sent) {
			if err := <-sent; err != nil {
				refused++
				if after := comeBack(t, err); after != maxWait+writeEvery {
					t.Errorf("come back after %s", after)
				}
			}
		}
		if took := time.Since(begin); refused != 3 || took != maxWait {
			t.Errorf("of eight at once %d were refused, the others took %s", refused, took)
		}
	})
}

// comeBack says when a write that was given back is to be tried again.
func comeBack(t *testing.T, err error) time.Duration {
	t.Helper()
	class, after := Classify(err)
	if class != RateLimited {
		t.Fatalf("class %v: %v", class, err)
	}
	return after
}
