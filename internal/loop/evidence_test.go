package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
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

// TestThePartsOfATaskBeginAnew: that the whole took long says nothing about its
// parts, and one failure of a part as the whole failed is no reason to give it up.
func TestThePartsOfATaskBeginAnew(t *testing.T) {
	t.Parallel()
	split := func(agent func(*world, loop.State) loop.AgentStatus) func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
		return func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			if s.Job == prompt.JobSplit {
				w.add(s, "first half", "second half")
				return completed("split")
			}
			return agent(w, s)
		}
	}
	t.Run("after a whole that took long", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent = split(func(w *world, s loop.State) loop.AgentStatus {
			if w.took = 0; s.TaskID == "T1" {
				w.took = 46 * time.Minute
				return loop.AgentStatus{Outcome: loop.AgentTimedOut, Detail: "it took too long"}
			}
			w.work["src/"+s.TaskID] = "done"
			return completed("done")
		})
		r := request(t, "- [ ] one\n")
		r.Limits.RunTimeout = 100 * time.Hour
		if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete || len(s.Commits) != 2 {
			t.Errorf("the run ended %s (%s) with %d commits, want both parts\n%s", s.End, s.EndDetail, len(s.Commits), s.Progress)
		}
	})
	t.Run("after a whole that failed in the same way", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.judge = func(tree files, _ loop.GateStart) gate.Result {
			for _, content := range tree {
				if strings.HasPrefix(content, "wrong") {
					out := "--- FAIL: TestOne (0.00s)\n    src/one_test.go:12: got wrong, want right\nFAIL\n"
					return gate.Result{ExitCode: 1, Reason: "exited", Output: out, Facts: gate.Read(out, false)}
				}
			}
			return gate.Result{Passed: true, Reason: "exited"}
		}
		tried := map[string]int{}
		w.agent = split(func(w *world, s loop.State) loop.AgentStatus {
			tried[s.TaskID]++
			w.work["src/"+s.TaskID] = fmt.Sprint("wrong", s.Iteration)
			if s.TaskID != "T1" && tried[s.TaskID] == 2 {
				w.work["src/"+s.TaskID] = "right"
			}
			return completed("done")
		})
		r := request(t, "- [ ] one\n")
		r.Gates = []gate.Gate{{Name: "test", Command: "go test ./...", Kind: gate.Test}}
		if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete || len(s.Commits) != 2 {
			t.Errorf("the run ended %s (%s) with %d commits, want both parts: %v\n%s", s.End, s.EndDetail, len(s.Commits), w.verdicts(), s.Progress)
		}
	})
}
