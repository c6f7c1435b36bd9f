package loop_test

import (
	"slices"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestATaskThatAPersonChangedIsJudgedAnew: what the attempts at a task came to is
// nothing against the task as a person has rewritten it.
func TestATaskThatAPersonChangedIsJudgedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var edited bool
	var jobs []prompt.Job
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		switch {
		case s.TaskID != "T1":
			w.work["src/"+s.TaskID] = "done"
		case !edited:
		case len(jobs) < 2:
			jobs = append(jobs, s.Job)
		default:
			jobs = append(jobs, s.Job)
			w.work["src/T1"] = "done"
		}
		return completed("hm")
	}
	w.edit = func(s loop.State) *loop.PlanEdit {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			t.Fatal(err)
		}
		was := doc.Tasks()
		if was[0].Status != run.TaskBlocked {
			return nil
		}
		edited = true
		now := slices.Clone(was)
		now[0].Status, now[0].Reason, now[0].Title = run.TaskOpen, "", "one, with the path of the file written down"
		return &loop.PlanEdit{Was: was, Now: now}
	}
	s := w.drive(loop.NewState(request(t, "- [ ] (P1) one\n- [ ] two\n- [ ] three\n"), w.now), nil)
	if want := []prompt.Job{prompt.JobBuild, prompt.JobBuild, prompt.JobBuild}; s.End != run.EndAllTasksComplete || !slices.Equal(jobs, want) {
		t.Errorf("the run ended %s after the jobs %v at the changed task, want %v\n%s", s.End, jobs, want, s.Progress)
	}
}

// TestTasksWithNothingToDoDoNotEndTheRun: that four tasks change nothing says
// nothing about the fifth.
func TestTasksWithNothingToDoDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T5" {
			w.work["src/T5"] = "done"
		}
		return completed("It is there already.")
	}
	s := w.drive(loop.NewState(request(t, "- [ ] one\n- [ ] two\n- [ ] three\n- [ ] four\n- [ ] five\n"), w.now), nil)
	if tasks := w.tasks(s); s.End != run.EndBlocked || tasks[4].Status != run.TaskDone || len(s.Commits) != 1 {
		t.Errorf("the run ended %s (%s) with %d commits\n%s", s.End, s.EndDetail, len(s.Commits), s.Progress)
	}
}
