package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// play has calls go as they are named, one after the other, and gives what each was for, as
// "task role", with the verdict that it was made by, and how tasks and the run ended. A call
// "fails NAME" leaves something new after which the test NAME fails, "idle" does nothing, "large"
// says that the task is too large, "slow" runs out of time, "crash" breaks off, "error" ends with
// an error of its own, "parts" splits the task and "done" does it. Of a list that has come to its
// end the last one goes on.
func play(t *testing.T, plan string, change func(*loop.Request), calls func(task string) []string) []string {
	t.Helper()
	w := newWorld(t)
	made := map[string]int{}
	failing := map[string]string{}
	w.judge = func(tree files, _ loop.GateStart) gate.Result {
		name := failing[tree["src/work"]]
		if name == "" {
			return gate.Result{Passed: true, Reason: "exited"}
		}
		out := fmt.Sprintf("--- FAIL: %s (0.00s)\n    a_test.go:12: got 3, want 4\nFAIL\n", name)
		return gate.Result{ExitCode: 1, Reason: "exited", Output: out, Facts: gate.Read(out)}
	}
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		script := calls(s.TaskID)
		what, name, _ := strings.Cut(script[min(made[s.TaskID], len(script)-1)], " ")
		made[s.TaskID]++
		switch what {
		case "fails":
			w.work["src/work"] = a.Name
			failing[a.Name] = name
			return claimed()
		case "large":
			return completed("RALPH_RESULT: failed: this task is too large for one call")
		case "slow":
			return loop.AgentStatus{Outcome: loop.AgentTimedOut, Detail: "it took too long and was stopped"}
		case "crash":
			return loop.AgentStatus{Outcome: loop.AgentBroken, Detail: "signal: killed", Usage: run.Usage{CostUSD: 0.1}}
		case "error":
			return loop.AgentStatus{Outcome: loop.AgentGaveUp, Detail: "exit status 3: no such model"}
		case "parts":
			d, err := progress.Parse([]byte(w.work[s.ProgressPath]))
			if err != nil {
				t.Fatal(err)
			}
			for _, title := range []string{"first half", "second half"} {
				if _, err := d.AddTask(run.Task{Title: title, Accept: []string{"it is there"}}); err != nil {
					t.Fatal(err)
				}
			}
			w.work[s.ProgressPath] = string(d.Bytes())
		case "done":
			w.work["src/"+s.TaskID], w.work["src/work"] = "done", ""
			return claimed()
		}
		return completed("I looked around.")
	}
	r := request(t, plan)
	r.Gates = []gate.Gate{{Name: "test", Command: "go test ./...", Kind: gate.Test}}
	if change != nil {
		change(&r)
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	if strings.Contains(s.Diagnostics, "The cause is outside the tasks") {
		t.Errorf("a check that passed before the work is put down to something else: %s", s.Diagnostics)
	}
	var got []string
	for _, ev := range w.events {
		switch ev.Kind { //nolint:exhaustive // the others tell of what happens within a call
		case run.EventIteration:
			got = append(got, strings.TrimSuffix(ev.TaskID+" "+ev.Verdict, " proceed"))
		case run.EventAgentStarted:
			got[len(got)-1] += " " + string(ev.Role)
		case run.EventTaskBlocked:
			got = append(got, ev.TaskID+" is given up: "+ev.Text)
		case run.EventTaskDone:
			got = append(got, ev.TaskID+" is done")
		case run.EventRunEnded:
			got = append(got, string(s.End))
		}
	}
	return got
}

// TestPolicy plays the table of policy.go.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const one = "- [ ] one\n"
	for name, tt := range map[string]struct {
		plan   string
		change func(*loop.Request)
		calls  []string
		parts  []string
		want   []string
	}{
		"a failed check brings the debugger": {
			plan: one, calls: []string{"fails TestA", "done"},
			want: []string{"T1 implementer", "T1 debugger", "T1 is done", "all_tasks_complete"},
		},
		"the same test again: three attempts, a split that comes to nothing, a last try on clean files": {
			plan: one, calls: []string{"fails TestA"},
			want: []string{
				"T1 implementer", "T1 debugger", "T1 debugger", "T1 decompose planner", "T1 switch_role architect",
				"T1 is given up: 3 attempts failed, all in the same way", "blocked",
			},
		},
		"two tries by other roles where one file is named": {
			plan: "- [ ] change src/one.go\n", calls: []string{"fails TestA"},
			want: []string{
				"T1 implementer", "T1 debugger", "T1 debugger", "T1 switch_role architect", "T1 switch_role architect",
				"T1 is given up: 3 attempts failed, all in the same way", "blocked",
			},
		},
		"another test each time: twice as many attempts": {
			plan: one, calls: []string{
				"fails TestA", "fails TestB", "fails TestC", "fails TestD", "fails TestE", "fails TestF", "idle", "fails TestG",
			},
			want: []string{
				"T1 implementer", "T1 debugger", "T1 debugger", "T1 debugger", "T1 debugger", "T1 debugger",
				"T1 decompose planner", "T1 switch_role architect", "T1 is given up: 6 attempts failed", "blocked",
			},
		},
		"one attempt": {
			plan: one, change: func(r *loop.Request) { r.Limits.TaskAttempts = 1 }, calls: []string{"fails TestA", "idle"},
			want: []string{"T1 implementer", "T1 decompose planner", "T1 is given up: 1 attempt failed", "blocked"},
		},
		"too large: split at once, and its parts are worked": {
			plan: one, calls: []string{"large", "parts"}, parts: []string{"done"},
			want: []string{
				"T1 implementer", "T1 decompose architect", "T2 implementer", "T2 is done", "T3 implementer", "T3 is done",
				"all_tasks_complete",
			},
		},
		"out of time twice: split": {
			plan: one, calls: []string{"slow", "slow", "parts"}, parts: []string{"done"},
			want: []string{
				"T1 implementer", "T1 implementer", "T1 decompose planner", "T2 implementer", "T2 is done", "T3 implementer",
				"T3 is done", "all_tasks_complete",
			},
		},
		"nothing is done: no split and no other role": {
			plan: one, calls: []string{"idle"},
			want: []string{
				"T1 implementer", "T1 implementer", "T1 implementer",
				"T1 is given up: 3 calls changed nothing and claimed nothing", "blocked",
			},
		},
		"an agent that ends with an error at once": {
			plan: one, calls: []string{"error"},
			want: []string{
				"T1 implementer", "T1 implementer", "T1 implementer",
				"T1 is given up: the agent ended with an error each time: exit status 3: no such model", "blocked",
			},
		},
		"crashes are no attempts": {
			plan: one, calls: []string{"crash", "crash", "fails TestA", "done"},
			want: []string{
				"T1 implementer implementer implementer", "T1 debugger", "T1 is done", "all_tasks_complete",
			},
		},
		"the same test of every task: the run stops at 15 calls": {
			plan: "- [ ] one\n- [ ] two\n- [ ] three\n- [ ] four\n", calls: []string{"fails TestA"},
			want: []string{
				"T1 implementer", "T1 debugger", "T1 debugger", "T1 decompose planner", "T1 switch_role architect",
				"T1 is given up: 3 attempts failed, all in the same way",
				"T2 implementer", "T2 switch_role debugger", "T2 debugger", "T2 decompose planner", "T2 switch_role architect",
				"T2 is given up: 3 attempts failed, all in the same way",
				"T3 implementer", "T3 switch_role architect", "T3 architect", "T3 decompose planner", "T3 switch_role architect",
				"stagnated",
			},
		},
		"15 calls at one task: the run stops": {
			plan: one, change: func(r *loop.Request) { r.Limits.TaskAttempts, r.Limits.Stagnation = -1, 2 },
			calls: []string{"fails TestA"},
			want: []string{
				"T1 implementer", "T1 debugger", "T1 debugger", "T1 debugger", "T1 switch_role architect", "T1 architect",
				"stagnated",
			},
		},
		"no time is left for the task": {
			plan: one, change: func(r *loop.Request) { r.Limits.TaskTime = 20 * time.Second }, calls: []string{"fails TestA", "idle"},
			want: []string{
				"T1 implementer", "T1 decompose planner", "T1 switch_role architect",
				"T1 is given up: the attempts took 1m0s in all", "blocked",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := play(t, tt.plan, tt.change, func(task string) []string {
				if tt.parts != nil && task != "T1" {
					return tt.parts
				}
				return tt.calls
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A failure brings its sentence into the next prompt, and the numbers of the attempt.
func TestGuidanceFollowsTheKindOfTheCheck(t *testing.T) {
	t.Parallel()
	for kind, want := range map[gate.Kind]string{
		gate.Test: "Read the failing test first", gate.Lint: "Fix only what the linter objects to",
		gate.Build: "Fix only this compilation error", gate.Typecheck: "Fix only this compilation error",
		gate.Check: "Run the failing check yourself",
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = func(tree files, _ loop.GateStart) gate.Result {
				bad := strings.HasPrefix(tree["src/T1"], "wrong")
				return gate.Result{Passed: !bad, ExitCode: 1, Reason: "exited", Output: "error: no\n", Kind: kind}
			}
			calls := 0
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if calls++; calls < 3 {
					w.work["src/T1"] = fmt.Sprint("wrong ", calls)
					return claimed()
				}
				w.work["src/T1"] = "right"
				return claimed()
			}
			r := request(t, "- [ ] one\n")
			r.Gates = []gate.Gate{{Name: "check", Command: "check", Kind: kind}}
			w.drive(loop.NewState(r, w.now), nil)
			if !strings.Contains(w.prompts[1], want) || strings.Contains(w.prompts[1], "choose another way") {
				t.Errorf("the second prompt lacks %q:\n%s", want, w.prompts[1])
			}
			const again = "1 of which had been changed by an attempt before"
			if !strings.Contains(w.prompts[2], "choose another way") || !strings.Contains(w.prompts[2], again) {
				t.Errorf("the third prompt does not say that the second attempt showed the same:\n%s", w.prompts[2])
			}
		})
	}
}

// What earlier attempts left behind is not in the way of the last one.
func TestTheLastTryBeginsOnCleanFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = func(tree files, _ string) bool { return tree["src/left behind"] == "" }
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work["src/T1"] = a.Name
		if s.Job == prompt.JobBuild && len(w.prompts) < 5 {
			w.work["src/left behind"] = "x"
		}
		return claimed()
	}
	r := request(t, "- [ ] one\n")
	r.Gates = []gate.Gate{{Name: "test", Command: "test"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndAllTasksComplete || len(w.prompts) != 5 {
		t.Errorf("ended %s (%s) after %d calls", s.End, s.EndDetail, len(w.prompts))
	}
}

// A task may have to be given up, or put to a person, while no task is at hand.
func TestATaskThatIsNotAtHandIsGivenUp(t *testing.T) {
	t.Parallel()
	t.Run("after the budget was raised", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.gate = func(files, string) bool { return false }
		w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
			w.work["src/a.go"] = a.Name
			return claimed()
		}
		r := request(t, "- [ ] T1 fix src/a.go\n")
		r.Gates = []gate.Gate{{Name: "test", Command: "test"}}
		r.Limits.TaskAttempts, r.Limits.TaskTime, r.Limits.BudgetUSD = 4, 20*time.Second, 0.75
		s := loop.NewState(r, w.now)
		for i := 0; s.End == ""; i++ {
			s, _ = w.step(w.engine(), s, i)
		}
		if s.End != run.EndBudgetExhausted {
			t.Fatalf("ended %s: %s", s.End, s.EndDetail)
		}
		s, _, err := w.engine().Steer(t.Context(), s, loop.Wish{
			Kind: loop.WishBudget, USD: 100, By: loop.Person{Login: "ada"},
		})
		if err != nil {
			t.Fatal(err)
		}
		s = w.drive(s, nil)
		if s.End != run.EndBlocked || !strings.Contains(s.Progress, "(blocked: the attempts took 1m0s in all") {
			t.Errorf("ended %s: %s\n%s", s.End, s.EndDetail, s.Progress)
		}
	})
	t.Run("many calls did a part", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		r := request(t, "- [ ] one\n")
		r.Limits.PartialCalls = 1
		s := loop.NewState(r, w.now)
		s.Records["T1"] = &loop.TaskRecord{Partial: 1, Split: true}
		s = w.drive(s, nil)
		if s.End != run.EndAwaitingPerson || !strings.Contains(s.EndDetail, "T1 needs a person: 1 calls") {
			t.Errorf("ended %s: %s", s.End, s.EndDetail)
		}
	})
}
