package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestStopAfterCall: the call at work ends and lands, and no other one begins.
func TestStopAfterCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _, _, err := w.driveSteering(loop.NewState(request(t, threeTasks), w.now), loop.Wish{Kind: loop.WishStop, By: ada},
		func(s loop.State) bool { return s.Iteration == 1 && s.Process != nil && s.Process.Handle != "" })
	if err != nil {
		t.Fatal(err)
	}
	if s.End != run.EndCancelled || s.EndDetail != "stopped by ada" || s.Iteration != 1 || len(subjectsOf(w)) != 1 {
		t.Errorf("end %q (%s) after iteration %d with %q", s.End, s.EndDetail, s.Iteration, subjectsOf(w))
	}
}

// TestPauseHoldsTheNextCall: a paused run starts no agent, and the time counts for none.
func TestPauseHoldsTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paused, held := false, 0
	d := loop.Driver{
		Engine: w.engine(),
		Save:   func(context.Context, loop.State) error { return nil },
		Await:  func(context.Context, loop.Handle) error { return nil },
		Steer: func(_ context.Context, s loop.State) (loop.State, bool, error) {
			paused = s.Iteration == 2 && held == 0
			return s, paused, nil
		},
	}
	d.Sleep = func(_ context.Context, until time.Time) error {
		if paused {
			held = len(w.agents)
		}
		w.now = until
		return nil
	}
	s, err := d.Run(t.Context(), loop.NewState(request(t, threeTasks), w.now))
	if err != nil || s.End != run.EndAllTasksComplete {
		t.Fatalf("end %q, error %v", s.End, err)
	}
	if held != 1 || s.Waited < time.Hour {
		t.Errorf("it was held after %d calls, for %s", held, s.Waited)
	}
}
