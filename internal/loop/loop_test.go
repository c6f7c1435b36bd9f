package loop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

func subjects(commits []loop.Landed) []string {
	var got []string
	for _, c := range commits {
		got = append(got, c.TaskID+" "+c.Subject)
	}
	return got
}

var wantThree = []string{"T1 one", "T2 two", "T3 three"}

func TestRunLandsOneCommitPerTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"README": "hello", ".ralph/1/notes.md": "a person's"})
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Phase != run.PhaseDone {
		t.Fatalf("ended %s (%s) in phase %s", s.End, s.EndDetail, s.Phase)
	}
	if diff := cmp.Diff(wantThree, subjects(s.Commits)); diff != "" {
		t.Error(diff)
	}
	if s.Iteration != 3 || s.Usage.CostUSD != 0.75 {
		t.Errorf("%d iterations for $%v, want 3 for $0.75", s.Iteration, s.Usage.CostUSD)
	}
	var told float64
	for _, l := range w.commits {
		told += l.CostUSD
	}
	if told != s.Usage.CostUSD {
		t.Errorf("the commits tell of $%v", told)
	}
	if s.Closing == nil {
		t.Fatal("no closing commit")
	}
	final := w.trees[w.head().Tree]
	if diff := cmp.Diff(files{
		"README": "hello", ".ralph/1/notes.md": "a person's", "src/T1.txt": "done", "src/T2.txt": "done", "src/T3.txt": "done",
	}, final); diff != "" {
		t.Errorf("tree of the closing commit: %s", diff)
	}
	if tree := w.trees[s.Commits[1].Tree]; !strings.Contains(tree[".ralph/1/progress.md"], "- [x] T2 two") {
		t.Errorf("progress.md in the second commit:\n%s", tree[".ralph/1/progress.md"])
	}
	if last := w.shown[len(w.shown)-1]; last.End != run.EndAllTasksComplete {
		t.Errorf("last shown state ended %q", last.End)
	}
}

func TestCrashAtEveryStepLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	clean := newWorld(t)
	clean.gate = func(tree files, _ string) bool { return tree["src/T2.txt"] != "bad" }
	want := clean.drive(loop.NewState(gated(t), clean.now), nil)
	steps := len(clean.prompts)
	for at, crash := range eachCrash {
		w := newWorld(t)
		w.gate = clean.gate
		s := w.drive(loop.NewState(gated(t), w.now), crash)
		if s.End != want.End {
			t.Errorf("crash at step %d: ended %s (%s)", at, s.End, s.EndDetail)
		}
		if diff := cmp.Diff(subjects(want.Commits), subjects(s.Commits)); diff != "" {
			t.Errorf("crash at step %d: %s", at, diff)
		}
		if len(w.landed) != len(clean.landed) {
			t.Errorf("crash at step %d: %d commits on the branch, want %d", at, len(w.landed), len(clean.landed))
		}
		if len(w.prompts) != steps {
			t.Errorf("crash at step %d: %d agents started, want %d", at, len(w.prompts), steps)
		}
	}
}

func gated(t *testing.T) loop.Request {
	t.Helper()
	r := request(t, threeTasks)
	r.Gates = []gate.Gate{{Name: "check", Command: "check"}, {Name: "final", Command: "final", When: gate.Final}}
	return r
}

func TestEndReasons(t *testing.T) {
	t.Parallel()
	nothing := func(*world, loop.State, loop.AgentStart) loop.AgentStatus { return completed("I looked around.") }
	tests := []struct {
		name   string
		change func(*loop.Request)
		agent  func(*world, loop.State, loop.AgentStart) loop.AgentStatus
		want   run.EndReason
		detail string
		agents int
	}{
		{
			name: "max iterations", change: func(r *loop.Request) { r.Limits.MaxIterations = 2 }, want: run.EndMaxIterations,
			agents: 2,
		},
		{name: "once", change: func(r *loop.Request) { r.Once = true }, want: run.EndSingleIteration, agents: 1},
		{
			name: "budget", change: func(r *loop.Request) { r.Limits.BudgetUSD = 0.5 }, want: run.EndBudgetExhausted,
			detail: "$0.50 of $0.50", agents: 2,
		},
		{
			name: "budget of a planner without a plan", change: func(r *loop.Request) { r.Plan, r.Limits.BudgetUSD = vague(t), 0.2 },
			agent: nothing, want: run.EndBudgetExhausted, agents: 1,
		},
		{
			name: "budget of a broken call", change: func(r *loop.Request) { r.Limits.BudgetUSD = 0.2 },
			agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
				return loop.AgentStatus{Outcome: loop.AgentBroken, Usage: run.Usage{CostUSD: 1}}
			}, want: run.EndBudgetExhausted, agents: 1,
		},
		{
			name: "deadline", change: func(r *loop.Request) { r.Limits.RunTimeout = 90 * time.Second }, want: run.EndDeadline,
			agents: 2,
		},
		{name: "nothing to do, so nothing to review", change: func(r *loop.Request) {
			r.Plan.Tasks[0].Status, r.Plan.Tasks, r.Review = run.TaskDone, r.Plan.Tasks[:1], loop.ReviewAlways
		}, want: run.EndAllTasksComplete},
		{name: "one blocked, others done", agent: func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if s.TaskID == "T2" {
				return completed("hm")
			}
			w.work["src/"+s.TaskID] = "x"
			return claimed()
		}, want: run.EndBlocked, agents: 5},
		{name: "broken three times", agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{Outcome: loop.AgentBroken, Detail: "Invalid API key"}
		}, want: run.EndFailed, detail: "Invalid API key", agents: 3},
		{name: "broken six times at work", agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{
				Outcome: loop.AgentBroken, Detail: "signal: killed", Usage: run.Usage{Turns: 1, OutputTokens: 1},
			}
		}, want: run.EndFailed, detail: "signal: killed", agents: 6},
		{name: "refused at work", agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{
				Outcome: loop.AgentBroken, Detail: "No credit.", DoFirst: "add some", Usage: run.Usage{CostUSD: 1, OutputTokens: 1},
			}
		}, want: run.EndFailed, detail: "No credit. What to do first: add some. (3 agent calls", agents: 3},
		{name: "refused for good", agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{Outcome: loop.AgentBroken, Detail: "No credit.", DoFirst: "add some", Lasts: true}
		}, want: run.EndFailed, detail: "No credit. What to do first: add some. No task is blamed.", agents: 1},
		{name: "over budget at the gateway", agent: func(*world, loop.State, loop.AgentStart) loop.AgentStatus {
			return loop.AgentStatus{Outcome: loop.AgentOverBudget, Detail: "budget"}
		}, want: run.EndBudgetExhausted, agents: 1},
		{name: "hint", agent: func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
			w.work["src/"+s.TaskID] = "x"
			return completed("All done.\n\n**ALL_TASKS_COMPLETE**\n")
		}, want: run.EndAllTasksComplete, agents: 3},
		{
			name: "the planner asks", change: func(r *loop.Request) { r.Plan = vague(t) }, agent: asks,
			want: run.EndAwaitingPerson, detail: "has questions", agents: 1,
		},
		{
			name: "the planner asks in plan mode", agent: asks,
			change: func(r *loop.Request) { r.Plan, r.Mode = vague(t), run.ModePlan }, want: run.EndAwaitingPerson, agents: 1,
		},
		{name: "the planner asks and may not", change: func(r *loop.Request) {
			r.Plan, r.Ask = vague(t), plan.AskNever
		}, agent: asks,
			want: run.EndFailed, detail: "no task", agents: 8},
		{
			name: "build without tasks", change: func(r *loop.Request) { r.Plan.Tasks, r.Mode = nil, run.ModeBuild },
			want: run.EndFailed, detail: "no tasks",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.agent != nil {
				w.agent = tt.agent
			}
			r := request(t, threeTasks)
			if tt.change != nil {
				tt.change(&r)
			}
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != tt.want || !strings.Contains(s.EndDetail, tt.detail) {
				t.Errorf("ended %s (%q), want %s (%q)", s.End, s.EndDetail, tt.want, tt.detail)
			}
			if len(w.prompts) != tt.agents {
				t.Errorf("%d agent calls, want %d", len(w.prompts), tt.agents)
			}
		})
	}
}

// vague is a plan that nobody could begin with.
func vague(t *testing.T) plan.Plan {
	t.Helper()
	p, err := plan.FromIssue("Make it better", "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asks is a planner that writes half a plan and asks.
func asks(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
	if s.Ask == plan.AskAuto || s.Ask == "" {
		w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "## Tasks\n", "## Tasks\n\n- [ ] Guess\n", 1)
	}
	return completed("I read all of it.\n\nRALPH_RESULT: blocked: Which of the two reports? How fast is fast enough?")
}

// TestPlannersQuestions: they are the agent's, whenever the process dies, and what it wrote
// besides is no plan; a repository's word counts where the door leaves the choice, and a
// planner that may not ask is not told how.
func TestPlannersQuestions(t *testing.T) {
	t.Parallel()
	want := []string{"Which of the two reports? How fast is fast enough?"}
	for at, crash := range eachCrash {
		w := newWorld(t)
		w.agent = asks
		r := request(t, threeTasks)
		r.Plan = vague(t)
		s := w.drive(loop.NewState(r, w.now), crash)
		if diff := cmp.Diff(want, s.Questions); diff != "" || s.End != run.EndAwaitingPerson || strings.Contains(s.Progress, "Guess") {
			t.Errorf("crash at step %d: ended %s: %s\n%s", at, s.End, diff, s.Progress)
		}
		if shown := w.shown[len(w.shown)-1]; len(shown.Questions) == 0 || shown.Phase != run.PhasePaused {
			t.Errorf("crash at step %d: shown %q in phase %s", at, shown.Questions, shown.Phase)
		}
		if !strings.Contains(w.prompts[0], "## If you cannot plan") {
			t.Error("the planner is not told how to ask")
		}
	}
	for ask, want := range map[plan.Ask]run.EndReason{"": run.EndFailed, plan.AskAuto: run.EndAwaitingPerson} {
		w := newWorld(t)
		w.agent, w.settings.Ask = asks, plan.AskNever
		r := request(t, threeTasks)
		r.Plan, r.Ask = vague(t), ask
		s := w.drive(loop.NewState(r, w.now), nil)
		if may := ask != ""; s.End != want || strings.Contains(w.prompts[0], "## If you cannot plan") != may {
			t.Errorf("the repository does not want to be asked, the door %q, and the run ended %s", ask, s.End)
		}
	}
}

// What looks like a box and could not be read may be open work: the run does not say that all
// is done, with a task worked or without.
func TestUnreadBoxesAreNotDone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"- [x] one\n- [~] two\n", "- [ ] one\n- [~] two\n", "- [x] one\n  - [ ] part\n"} {
		w := newWorld(t)
		s := w.drive(loop.NewState(request(t, text), w.now), nil)
		var told []string
		for _, ev := range w.events {
			told = append(told, ev.Text)
		}
		if s.End != run.EndAwaitingPerson || !strings.Contains(s.EndDetail, "were not read: 1") {
			t.Errorf("%q ended %s: %s", text, s.End, s.EndDetail)
		}
		if !strings.Contains(strings.Join(told, "\n"), "Line 2,") {
			t.Errorf("%q: line 2 is not named in %q", text, told)
		}
	}
}

func TestRateLimitIsAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reset := w.now.Add(2 * time.Hour)
	calls := 0
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		calls++
		if calls <= 2 {
			return loop.AgentStatus{Outcome: loop.AgentRateLimited, RetryAt: reset, Limit: "Overloaded"}
		}
		if w.now.Before(reset) {
			t.Errorf("called again at %s, before the reset at %s", w.now, reset)
		}
		w.work["src/"+s.TaskID] = "x"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 3 || len(s.Attempts) != 0 {
		t.Errorf("ended %s after %d iterations with attempts %v", s.End, s.Iteration, s.Attempts)
	}
	waits := slices.DeleteFunc(slices.Clone(w.events), func(ev run.Event) bool { return ev.Kind != run.EventWaiting })
	if len(waits) == 0 || waits[0].Text != "Overloaded" || !waits[0].Until.Equal(reset) {
		t.Errorf("people were told %+v", waits)
	}
}

func TestFailedGateGoesIntoTheNextPrompt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = func(tree files, _ string) bool { return tree["src/T1.txt"] != "bad" }
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		content := "good"
		if s.TaskID == "T1" && a.Attempt == 1 {
			content = "bad"
		}
		w.work["src/"+s.TaskID+".txt"] = content
		return claimed()
	}
	r := request(t, threeTasks)
	r.Gates = []gate.Gate{{Name: "unit tests", Command: "run-tests"}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 4 {
		t.Fatalf("ended %s after %d iterations", s.End, s.Iteration)
	}
	if !strings.Contains(w.prompts[1], "output of run-tests") {
		t.Errorf("the second prompt lacks the output of the check:\n%s", w.prompts[1])
	}
	for _, tree := range w.commits {
		if w.trees[tree.Tree]["src/T1.txt"] == "bad" {
			t.Error("a tree that failed its check landed")
		}
	}
}

func TestFinalGateBecomesATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = func(tree files, command string) bool { return command != "final" || tree["src/T4.txt"] != "" }
	s := w.drive(loop.NewState(gated(t), w.now), nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	if got := len(s.Commits); got != 4 {
		t.Errorf("%d commits, want 4", got)
	}
	never := newWorld(t)
	never.gate = func(_ files, command string) bool { return command != "final" }
	if s := never.drive(loop.NewState(gated(t), never.now), nil); s.End != run.EndBlocked {
		t.Errorf("ended %s when the final check never passes, want blocked", s.End)
	}
}

func TestMisbehavingAgents(t *testing.T) {
	t.Parallel()
	const path = ".ralph/1/progress.md"
	tests := []struct {
		name string
		// first is what the first call does; later ones do the task.
		first func(w *world, s loop.State) loop.AgentStatus
		// told is what the second prompt must hold.
		told string
		// lands says that the first call's work lands all the same.
		lands bool
	}{
		{
			"does nothing", func(*world, loop.State) loop.AgentStatus { return completed("Looks fine.") },
			"without changing any file", false,
		},
		{"ticks another task", func(w *world, _ loop.State) loop.AgentStatus {
			w.work["x"] = "y"
			w.work[path] = strings.Replace(w.work[path], "- [ ] T3", "- [x] T3", 1)
			return claimed()
		}, "T3", true},
		{"deletes progress.md", func(w *world, _ loop.State) loop.AgentStatus {
			w.work["x"] = "y"
			delete(w.work, path)
			return claimed()
		}, "progress", true},
		{"replaces progress.md by a link", func(w *world, _ loop.State) loop.AgentStatus {
			w.work["x"] = "y"
			w.links[path] = true
			return claimed()
		}, "plain, readable file", true},
		{"plants a link", func(w *world, _ loop.State) loop.AgentStatus {
			w.work["x"] = "y"
			w.links["evil"] = true
			return claimed()
		}, "it is a link", true},
		{"writes another run's notes", func(w *world, _ loop.State) loop.AgentStatus {
			w.work[".ralph/9/progress.md"] = "y"
			return claimed()
		}, "only the run's own progress file", false},
		{"times out", func(w *world, _ loop.State) loop.AgentStatus {
			w.work["x"] = "y"
			return loop.AgentStatus{Outcome: loop.AgentTimedOut, Detail: "no output for 10m"}
		}, "no output for 10m", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := true
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if first {
					first = false
					return tt.first(w, s)
				}
				w.work["src/"+s.TaskID+".txt"] = "done"
				return claimed()
			}
			s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			if diff := cmp.Diff(wantThree, subjects(s.Commits)); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(w.prompts[1], tt.told) {
				t.Errorf("the second prompt does not hold %q:\n%s", tt.told, w.prompts[1])
			}
			wantIterations := 4
			if tt.lands {
				wantIterations = 3
			}
			if s.Iteration != wantIterations {
				t.Errorf("%d iterations, want %d", s.Iteration, wantIterations)
			}
		})
	}
}
