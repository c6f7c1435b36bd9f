package loop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestResume: a run that waits for a person goes on as the same run, with all
// attempts, what it has done and what it has spent; the wait is none of its time.
// The commits are one for each task and the record that it left when it paused.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asks := true
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T2" && asks {
			return completed("Which of the two should I use?")
		}
		w.work["src/"+s.TaskID] = "done"
		return completed("done")
	}
	r := request(t, "- [ ] one\n- [ ] two\n")
	r.Limits.RunTimeout = time.Hour
	paused := w.drive(loop.NewState(r, w.now), nil)
	if paused.End != run.EndAwaitingPerson || paused.Phase != run.PhasePaused || len(paused.Commits) != 2 {
		t.Fatalf("it ended %s (%s) in %s with %d commits", paused.End, paused.EndDetail, paused.Phase, len(paused.Commits))
	}
	w.now, asks = w.now.Add(48*time.Hour), false
	resumed, err := loop.Resume(paused, w.now)
	if err != nil {
		t.Fatal(err)
	}
	s := w.drive(resumed, nil)
	if s.End != run.EndAllTasksComplete || s.Run != paused.Run || len(s.Commits) != 3 || len(s.History) != len(paused.History)+1 {
		t.Errorf("it ended %s (%s) with %d commits and %d calls, %d of them before the pause", s.End, s.EndDetail, len(s.Commits), len(s.History), len(paused.History))
	}
	if s.Usage.CostUSD <= paused.Usage.CostUSD {
		t.Errorf("it has spent $%g, and $%g before the pause", s.Usage.CostUSD, paused.Usage.CostUSD)
	}
	var user *run.UserError
	if _, err := loop.Resume(s, w.now); !errors.As(err, &user) {
		t.Errorf("a run that has ended: %v", err)
	}
}
