package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
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

// TestTasksWithNothingToDoDoNotEndTheRun: that four tasks change nothing says
// nothing about the fifth.
func TestTasksWithNothingToDoDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T5" {
			w.work["src/T5"] = "done"
			return claimed()
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
	split := func(agent func(*world, loop.State) loop.AgentStatus) func(*world, loop.State,
		loop.AgentStart) loop.AgentStatus {
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
			return claimed()
		})
		r := request(t, "- [ ] one\n")
		r.Limits.RunTimeout = 100 * time.Hour
		if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete || len(s.Commits) != 2 {
			t.Errorf("the run ended %s (%s) with %d commits, want both parts\n%s", s.End, s.EndDetail, len(s.Commits),
				s.Progress)
		}
	})
	t.Run("after a whole that failed in the same way", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.judge = func(tree files, _ loop.GateStart) gate.Result {
			for _, content := range tree {
				if strings.HasPrefix(content, "wrong") {
					out := "--- FAIL: TestOne (0.00s)\n    src/one_test.go:12: got wrong, want right\nFAIL\n"
					return gate.Result{ExitCode: 1, Reason: "exited", Output: out, Facts: gate.Read(out)}
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
			return claimed()
		})
		r := request(t, "- [ ] one\n")
		r.Gates = []gate.Gate{{Name: "test", Command: "go test ./...", Kind: gate.Test}}
		if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete || len(s.Commits) != 2 {
			t.Errorf("the run ended %s (%s) with %d commits, want both parts: %v\n%s", s.End, s.EndDetail, len(s.Commits),
				w.verdicts(), s.Progress)
		}
	})
}

// TestOnlyWhatWasCountedBothTimesIsCompared: a proposal ends at its first check
// that fails, a package that does not compile runs no test, and a linter that was
// stopped counts no warnings.
func TestOnlyWhatWasCountedBothTimesIsCompared(t *testing.T) {
	t.Parallel()
	passing := func(pkg string, n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "=== RUN   Test%d\n--- PASS: Test%d (0.00s)\n", i, i)
		}
		return out.String() + "PASS\nok  \texample.com/" + pkg + "\t0.01s\n"
	}
	lints := 0
	tests := []struct {
		name  string
		gates []gate.Gate
		judge func(content string, g loop.GateStart) gate.Result
	}{
		{"the first of two checks fails", []gate.Gate{
			{Name: "unit", Command: "unit", Kind: gate.Test}, {Name: "e2e", Command: "e2e", Kind: gate.Test},
		},
			func(content string, g loop.GateStart) gate.Result {
				if g.Gate.Name == "unit" && strings.HasPrefix(content, "wrong") {
					return gate.Result{
						ExitCode: 1, Reason: "exited", Output: "FAIL: " + content,
						Facts: gate.Facts{Known: true, Passed: 100, Failed: 1, FailedTests: []string{"new"}},
					}
				}
				return gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: true, Passed: 100}}
			}},
		{"a package does not compile", []gate.Gate{{Name: "test", Command: "go test -v ./...", Kind: gate.Test}},
			func(content string, _ loop.GateStart) gate.Result {
				if strings.HasPrefix(content, "wrong") {
					out := passing("a", 4) + "# example.com/b\nb/b.go:3:2: undefined: " + strings.ReplaceAll(content, " ", "") +
						"\nFAIL\texample.com/b [build failed]\nFAIL\n"
					return gate.Result{ExitCode: 1, Reason: "exited", Output: out, Facts: gate.Read(out)}
				}
				out := passing("a", 4) + passing("b", 6)
				return gate.Result{Passed: true, Reason: "exited", Output: out, Facts: gate.Read(out)}
			}},
		{"a linter ran out of time once", []gate.Gate{
			{Name: "lint", Command: "lint", Kind: gate.Lint, Advisory: true}, {Name: "test", Command: "test", Kind: gate.Test},
		},
			func(content string, g loop.GateStart) gate.Result {
				switch {
				case g.Gate.Name == "lint":
					if lints++; lints == 1 {
						return gate.Result{ExitCode: -1, Reason: "wall_timeout", Output: "..."}
					}
					return gate.Result{ExitCode: 1, Reason: "exited"}
				case strings.HasPrefix(content, "wrong"):
					return gate.Result{ExitCode: 1, Reason: "exited", Output: "FAIL " + content}
				}
				return gate.Result{Passed: true, Reason: "exited"}
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = func(tree files, g loop.GateStart) gate.Result { return tt.judge(tree["src/T2"], g) }
			calls := 0
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				w.work["src/"+s.TaskID] = "done"
				if s.TaskID == "T2" {
					calls++
					w.work["src/T2"] = []string{"", "wrong a", "wrong b", "right"}[min(calls, 3)]
				}
				return claimed()
			}
			r := request(t, "- [ ] one\n- [ ] two\n")
			r.Gates = tt.gates
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete || calls != 3 {
				t.Errorf("the run ended %s (%s) after %d calls at T2, want 3", s.End, s.EndDetail, calls)
			}
		})
	}
}
