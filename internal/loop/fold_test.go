package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
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

// TestUnfinishedWorkOutlivesASplit: the first part of a task that was split beside others goes on
// from what calls at the whole task left.
func TestUnfinishedWorkOutlivesASplit(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	goesOn := false
	c.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		switch {
		case s.Job == prompt.JobSplit:
			w.add(s, "first half", "second half")
			return completed("split")
		case s.TaskID == "T2":
			w.work["half.txt"] = "begun"
			return completed("RALPH_RESULT: partial: the other half")
		case s.TaskID == "T3":
			goesOn = w.work["half.txt"] == "begun"
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	s := parallel(t, fourTasks[:strings.Index(fourTasks, "- [ ] T3")], 2)
	s.Limits.PartialCalls = 1
	last := []int{1, 0, 1} // T1 is at work all the time
	s = c.play(s, func(n int) (i int) {
		if len(last) > 0 {
			i, last = min(last[0], n-1), last[1:]
		}
		return i
	}, nil)
	if s.End != run.EndAllTasksComplete || !goesOn {
		t.Errorf("ended %s: %s; the first part finds the work: %v\n%s", s.End, s.EndDetail, goesOn, s.Progress)
	}
	if tip := c.world.trees[c.head().Tree]; tip["half.txt"] != "begun" || tip["src/T1.txt"] != "done" {
		t.Errorf("work is lost: %v", tip)
	}
}

// TestNobodyFindsWorkThatWaits: where the parts of a split task wait for approval, the next call
// begins with what has landed, and people are told what is lost.
func TestNobodyFindsWorkThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobSplit {
			w.add(s, "first half", "second half")
			return completed("split")
		}
		if s.TaskID == "T1" {
			w.work["half.txt"] = "begun"
			return completed("RALPH_RESULT: partial: the other half")
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	s := loop.NewState(request(t, "- [ ] one\n- [ ] two\n"), w.now)
	s.Limits.PartialCalls, s.Approved, s.KeepProgress = 1, "a plan", true
	s = w.drive(s, nil)
	if len(s.Commits) == 0 || w.trees[s.Commits[0].Tree]["half.txt"] != "" {
		t.Errorf("ended %s: %s, with %d commits", s.End, s.EndDetail, len(s.Commits))
	}
	if !slices.ContainsFunc(w.events, func(ev run.Event) bool { return strings.Contains(ev.Text, "is lost") }) {
		t.Error("nobody is told")
	}
}
