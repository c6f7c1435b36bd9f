package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
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
			if s.TaskID == "T3" && !edited { // T1 is given up by now
				edited = true
				_, list, _ := strings.Cut(w.trees[w.head().Tree][progressPath], "## Tasks\n")
				line, _, _ := strings.Cut(list, "\n")
				w.push(line, "- [ ] T1 (P1) one, with the path of the file written down")
			}
		case !edited:
		case len(jobs) < 2:
			jobs = append(jobs, s.Job)
		default:
			jobs = append(jobs, s.Job)
			w.work["src/T1"] = "done"
		}
		if w.work["src/"+s.TaskID] == "" {
			return completed("hm")
		}
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, "- [ ] (P1) one\n- [ ] two\n- [ ] three\n"), w.now), nil)
	if want := []prompt.Job{prompt.JobBuild, prompt.JobBuild, prompt.JobBuild}; s.End != run.EndAllTasksComplete ||
		!slices.Equal(jobs, want) {
		t.Errorf("the run ended %s after the jobs %v at the changed task, want %v\n%s", s.End, jobs, want, s.Progress)
	}
}
