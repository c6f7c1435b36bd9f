package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestDoubtedProposals: work far from what the task names is looked at where the agent
// stands by it, and not believed where it merely says no more.
func TestDoubtedProposals(t *testing.T) {
	t.Parallel()
	done := completed("All done.\n\n**ALL_TASKS_COMPLETE**\n")
	for _, tt := range []struct {
		name string
		does func(w *world, call int) loop.AgentStatus
		end  run.EndReason
		// calls until it lands
		calls int
	}{
		{"it says nothing", func(*world, int) loop.AgentStatus { return completed("I looked at it.") }, run.EndBlocked, 0},
		{"it claims the same again", func(*world, int) loop.AgentStatus { return done }, run.EndAllTasksComplete, 2},
		{"it claims so with another change", func(w *world, call int) loop.AgentStatus {
			w.work["other/x.txt"] = fmt.Sprint(call)
			return done
		}, run.EndAllTasksComplete, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.landed[0].Tree = w.store(files{"sub/code.go": "package sub\n"})
			calls := 0
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if s.Job == prompt.JobVerify {
					return completed("1. yes: sub/code.go:1\n\nRALPH_VERIFY: agreed")
				}
				if calls++; calls == 1 {
					w.work["other/x.txt"] = "x"
					return done
				}
				return tt.does(w, calls)
			}
			s := w.drive(loop.NewState(request(t, "- [ ] Make sub/code.go faster\n"), w.now), nil)
			if s.End != tt.end || tt.calls > 0 && calls != tt.calls {
				t.Errorf("ended %s (%s) after %d calls, want %s after %d", s.End, s.EndDetail, calls, tt.end, tt.calls)
			}
		})
	}
}

// TestWorkNearWhatTheTaskNames is not doubted.
func TestWorkNearWhatTheTaskNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"sub/code.go": "package sub\n"})
	w.agent = func(w *world, _ loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["sub/more.go"] = "package sub\n"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, "- [ ] Make sub/code.go faster\n"), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 1 {
		t.Errorf("ended %s (%s) after %d iterations", s.End, s.EndDetail, s.Iteration)
	}
}

// TestTooMuchIsNotDone: a call that says the task is too much for it, and does not
// tick it, has not done it, though the checks pass on its part; one that ticks it has.
func TestTooMuchIsNotDone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ticks  bool
		landed string
	}{
		{name: "says so", landed: "T2"},
		{name: "says so and ticks it", ticks: true, landed: "T1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
				w.work["part/"+s.TaskID] = "x"
				switch {
				case a.Mode == run.ModePlan:
					w.add(s, "first half", "second half")
				case s.TaskID != "T1":
				case tt.ticks:
					w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "- [ ] T1", "- [x] T1", 1)
					fallthrough
				default:
					return completed("This is more than fits into one session; the first part is done.")
				}
				return claimed()
			}
			s := w.drive(loop.NewState(request(t, "- [ ] Do it all\n"), w.now), nil)
			if s.End != run.EndAllTasksComplete || len(s.Commits) == 0 || s.Commits[0].TaskID != tt.landed {
				t.Errorf("ended %s (%s) with %+v, want %s first", s.End, s.EndDetail, s.Commits, tt.landed)
			}
		})
	}
}
