package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// What becomes of the review does not spoil work that is done and checked.
func TestAReviewThatFailsLeavesTheRunComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status loop.AgentStatus
		limits run.Limits
		note   string
	}{
		"crash": {
			loop.AgentStatus{Outcome: loop.AgentBroken, Detail: "Invalid API key"}, run.Limits{}, "Invalid API key",
		},
		"over budget": {loop.AgentStatus{Outcome: loop.AgentOverBudget, Detail: "no money"}, run.Limits{}, "no money"},
		"waits and waits": {
			loop.AgentStatus{Outcome: loop.AgentRateLimited}, run.Limits{RunTimeout: 3 * time.Hour}, "deadline",
		},
		"no iteration left": {loop.AgentStatus{}, run.Limits{MaxIterations: 1}, "no budget or calls were left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settings.Review = loop.ReviewAlways
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if s.Job == prompt.JobReview {
					return tc.status
				}
				w.work["src/"+s.TaskID] = "done"
				return claimed()
			}
			r := request(t, "- [ ] one\n")
			r.Limits = tc.limits
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete || !strings.Contains(s.ReviewNote, tc.note) {
				t.Errorf("ended %s (%s), review: %q", s.End, s.EndDetail, s.ReviewNote)
			}
		})
	}
}

// The deadline holds for checks as well: none is started after it, and none is
// given more time than is left.
func TestTheDeadlineHoldsForChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var given []time.Duration
	w.judge = func(_ files, g loop.GateStart) gate.Result {
		given = append(given, g.Gate.Timeout)
		w.now = w.now.Add(min(14*time.Minute, g.Gate.Timeout))
		if g.Gate.Timeout < 14*time.Minute {
			return gate.Result{ExitCode: -1, Reason: "wall_timeout"}
		}
		return gate.Result{Passed: true, Reason: "exited"}
	}
	r := request(t, "- [ ] one\n")
	r.Limits.RunTimeout = 30 * time.Minute
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		r.Gates = append(r.Gates, gate.Gate{Name: name, Command: name, Timeout: 15 * time.Minute})
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndDeadline || w.now.After(s.StartedAt.Add(31*time.Minute)) {
		t.Errorf("ended %s (%s) after %s", s.End, s.EndDetail, w.now.Sub(s.StartedAt))
	}
	if diff := cmp.Diff([]time.Duration{15 * time.Minute, 15 * time.Minute, time.Minute}, given); diff != "" {
		t.Error(diff)
	}
}

// A task that has used up its own budget is given up; the others go on.
func TestATaskOverItsBudgetIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T1" {
			return loop.AgentStatus{Outcome: loop.AgentOverTaskBudget, Detail: "$1.00 of $1.00 for the task are spent"}
		}
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndBlocked || !strings.Contains(s.Progress, "T1 one (blocked: its budget is used up") {
		t.Errorf("ended %s (%s)\n%s", s.End, s.EndDetail, s.Progress)
	}
	if got := subjects(s.Commits); len(got) < 2 || got[0] != "T2 two" || got[1] != "T3 three" {
		t.Errorf("commits %q", got)
	}
}

// However an agent ends, what it cost and that it ended is stored once,
// whenever the process dies.
func TestCrashWhenAnAgentComesToNothing(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]loop.AgentStatus{
		"broken":       {Outcome: loop.AgentBroken, Detail: "crash", Usage: run.Usage{CostUSD: 5}},
		"rate limited": {Outcome: loop.AgentRateLimited, Usage: run.Usage{CostUSD: 5}},
		"over budget":  {Outcome: loop.AgentOverBudget, Detail: "no money", Usage: run.Usage{CostUSD: 5}},
	} {
		drive := func(crash func(int) bool) (loop.State, int) {
			w := newWorld(t)
			calls := 0
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if calls++; calls == 1 {
					return bad
				}
				w.work["src/"+s.TaskID] = "done"
				return claimed()
			}
			return w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), crash), len(w.prompts)
		}
		want, calls := drive(nil)
		for at, crash := range eachCrash {
			s, n := drive(crash)
			if s.End != want.End || s.Usage.CostUSD != want.Usage.CostUSD || n != calls || len(s.History) != len(want.History) {
				t.Errorf("%s, crash at step %d: ended %s for $%v after %d calls, want %s for $%v after %d", name, at, s.End,
					s.Usage.CostUSD, n, want.End, want.Usage.CostUSD, calls)
			}
		}
	}
}

// However late a provider names, the deadline ends the run; and however soon, asking again and
// again is not what it meant.
func TestWaitsEndWithTheDeadline(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{61 * time.Second, 1000 * time.Hour} {
		w := newWorld(t)
		began := w.now
		w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{Outcome: loop.AgentRateLimited, RetryAt: w.now.Add(wait)}
		}
		s := w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
		if s.End != run.EndDeadline || len(w.prompts) > 40 || len(s.History) != 1 || w.now.Sub(began) > 6*time.Hour+time.Minute {
			t.Errorf("ended %s after %s and %d calls, %d entries", s.End, w.now.Sub(began), len(w.prompts), len(s.History))
		}
	}
}
