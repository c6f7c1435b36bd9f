package loop_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestFailuresThatDoNotFitCount: what a call says that failed or lacks something counts, also where
// what it did to the files does not fit what landed meanwhile.
func TestFailuresThatDoNotFitCount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status loop.AgentStatus
		failed int // attempts
		end    run.EndReason
	}{
		"failed":    {completed("RALPH_RESULT: failed: it is hard"), 1, run.EndAllTasksComplete},
		"timed out": {loop.AgentStatus{Outcome: loop.AgentTimedOut, Detail: "no time"}, 1, run.EndAllTasksComplete},
		"blocked":   {completed("RALPH_RESULT: blocked: a key"), 0, run.EndAwaitingPerson},
	} {
		c := newCrew(t)
		calls := 0
		c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			w.work["shared.txt"] += s.TaskID + "\n"
			if s.TaskID != "T2" {
				return claimed()
			}
			if calls++; calls == 1 {
				return tt.status
			}
			return claimed()
		}
		s := c.play(parallel(t, fourTasks[:strings.Index(fourTasks, "- [ ] T3")], 2), func(int) int { return 0 }, nil)
		if s.End != tt.end || s.Attempts["T2"] != tt.failed {
			t.Errorf("%s: ended %s: %s; %d attempts failed, not %d", name, s.End, s.EndDetail, s.Attempts["T2"], tt.failed)
		}
		c.linear(s)
	}
}

// TestUnfinishedWorkThatDoesNotFitIsGone: a task whose unfinished work does not fit begins again.
func TestUnfinishedWorkThatDoesNotFitIsGone(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	calls := 0
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["shared.txt"] += s.TaskID + "\n"
		if s.TaskID == "T2" {
			if calls++; calls == 1 {
				return completed("RALPH_RESULT: partial: the rest")
			}
		}
		return claimed()
	}
	first := true
	s := c.play(parallel(t, fourTasks[:strings.Index(fourTasks, "- [ ] T3")], 2), func(n int) int {
		if first {
			first = false
			return n - 1
		}
		return 0
	}, nil)
	if s.End != run.EndAllTasksComplete || calls != 3 || s.Partial["T2"] != 0 {
		t.Errorf("ended %s: %s; %d calls at T2, of which %d count as unfinished", s.End, s.EndDetail, calls, s.Partial["T2"])
	}
	c.linear(s)
}

// TestThePlansFileFitsAlways: what agents do to the plan's own file, which only the host writes,
// keeps their work from nothing.
func TestThePlansFileFitsAlways(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	w, r := fromFile(t, "PLAN.md", fourTasks)
	c.world = w
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["PLAN.md"] = strings.Replace(w.work["PLAN.md"], "- [ ] "+s.TaskID, "- [x] "+s.TaskID, 1)
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	r.Limits.Parallel = 4
	s := c.play(loop.NewState(r, c.now), func(int) int { return 0 }, nil)
	if s.End != run.EndAllTasksComplete || c.most != 4 || len(c.started) != 4 {
		t.Errorf("ended %s: %s; %d agents at once, %d in all", s.End, s.EndDetail, c.most, len(c.started))
	}
	if got := c.world.trees[c.head().Tree]["PLAN.md"]; strings.Count(got, "[x]") != 4 {
		t.Errorf("the plan's file is %q", got)
	}
	c.linear(s)
}

// TestRemovedTasksStayAway: a task that a person removes while agents work side by side does not
// come back with the work of those who found it in the file.
func TestRemovedTasksStayAway(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work[a.ProgressPath] = strings.Replace(w.work[a.ProgressPath], "- [ ] "+s.TaskID, "- [x] "+s.TaskID, 1)
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	e := c.engine()
	s, n := c.atWork(e, parallel(t, fourTasks, 4))
	for len(s.Commits) == 0 {
		if n.Kind == loop.Wait {
			c.end(string(n.Handles[0]))
		}
		var err error
		if s, n, err = e.Step(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	c.push("- [ ] T4 [P] four\n", "")
	s = c.play(s, func(int) int { return 0 }, nil)
	if got := c.tasks(s); len(got) != 3 || s.End != run.EndAllTasksComplete || c.moved == 0 {
		t.Errorf("ended %s: %s with the tasks %+v", s.End, s.EndDetail, got)
	}
}
