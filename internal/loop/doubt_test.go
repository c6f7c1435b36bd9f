package loop_test

import (
	"fmt"
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
