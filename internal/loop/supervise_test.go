package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// add writes tasks into the progress file, as an agent that plans does.
func (w *world) add(s loop.State, titles ...string) {
	w.t.Helper()
	d, err := progress.Parse([]byte(w.work[s.ProgressPath]))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, title := range titles {
		if _, err := d.AddTask(run.Task{Title: title, Accept: []string{"it is there"}}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.work[s.ProgressPath] = string(d.Bytes())
}

// verdicts are the words of the supervisor in the order in which they fell.
func (w *world) verdicts() (kinds []string) {
	for _, ev := range w.events {
		if ev.Kind == run.EventVerdict {
			kinds = append(kinds, ev.Verdict)
		}
	}
	return kinds
}

// A task that is too much is split, and its parts are worked one by one; what
// the splitting call did to the code does not stay.
func TestATaskThatIsTooMuchIsSplit(t *testing.T) {
	t.Parallel()
	agent := func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		switch {
		case s.Job == prompt.JobSplit:
			w.work["src/left behind"] = "x"
			w.add(s, "first half", "second half")
			return completed("I split it.")
		case s.TaskID == "T2":
			return completed("RALPH_RESULT: failed: it is too complex for one session")
		}
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	clean := newWorld(t)
	clean.agent = agent
	want := clean.drive(loop.NewState(request(t, threeTasks), clean.now), nil)
	if want.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s (%s)\n%s", want.End, want.EndDetail, want.Progress)
	}
	if diff := cmp.Diff([]string{"T1 one", "T4 first half", "T5 second half", "T3 three"},
		subjects(want.Commits)); diff != "" {
		t.Error(diff)
	}
	if _, ok := clean.trees[clean.head().Tree]["src/left behind"]; ok {
		t.Error("what the planner did to the code has landed")
	}
	if !strings.Contains(want.Progress, "T2 two (skipped: split into T4, T5)") {
		t.Error(want.Progress)
	}
	for at, crash := range eachCrash {
		w := newWorld(t)
		w.agent = agent
		s := w.drive(loop.NewState(request(t, threeTasks), w.now), crash)
		if diff := cmp.Diff(subjects(want.Commits), subjects(s.Commits)); diff != "" || len(w.prompts) != len(clean.prompts) {
			t.Errorf("crash at step %d: %d agents, want %d: %s", at, len(w.prompts), len(clean.prompts), diff)
		}
	}
}

// Errors that every task runs into are not the tasks' fault: the run stops
// instead of burning the attempts of each of them.
func TestARunThatDoesNotMoveStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = func(files, loop.GateStart) gate.Result {
		return gate.Result{
			ExitCode: 1, Reason: "exited", Output: "error: cannot find module providing package example.com/x\n",
		}
	}
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID] = a.Name // something new each time
		return claimed()
	}
	var body strings.Builder
	for i := range 20 {
		fmt.Fprintf(&body, "- [ ] task %d\n", i)
	}
	r := request(t, body.String())
	r.Gates = []gate.Gate{{Name: "build", Command: "go build ./...", Kind: gate.Build}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != run.EndStagnated || len(w.prompts) > 15 {
		t.Errorf("ended %s (%s) after %d calls; verdicts %v", s.End, s.EndDetail, len(w.prompts), w.verdicts())
	}
	if !strings.Contains(s.Progress, "; last: error: cannot find module") {
		t.Errorf("the reason of a blocked task does not tell its last error:\n%s", s.Progress)
	}
	if !strings.Contains(s.Diagnostics, "The cause is outside the tasks") {
		t.Errorf("what fails before the work, too, is put down to it: %q", s.Diagnostics)
	}
	if !strings.Contains(s.Diagnostics, "cannot find module") || !strings.Contains(s.Diagnostics, "What to do:") {
		t.Errorf("diagnostics: %q", s.Diagnostics)
	}
}

func TestAReviewMayAskForMore(t *testing.T) {
	t.Parallel()
	agent := func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if s.Job == prompt.JobReview {
			if !strings.Contains(a.Prompt, "+++ b/src/T1") {
				w.t.Errorf("the reviewer does not see the change:\n%s", a.Prompt)
			}
			w.work["src/T1"] = "the reviewer's own idea"
			if s.Reviews == 1 {
				w.add(s, "a case is missing")
			}
			return completed("read")
		}
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	req := func() loop.Request {
		r := request(t, "- [ ] one\n")
		r.Review = loop.ReviewAlways
		return r
	}
	clean := newWorld(t)
	clean.agent = agent
	want := clean.drive(loop.NewState(req(), clean.now), nil)
	if want.End != run.EndAllTasksComplete || want.Reviews != 2 {
		t.Fatalf("ended %s (%s) after %d reviews", want.End, want.EndDetail, want.Reviews)
	}
	if diff := cmp.Diff([]string{"T1 one", "T2 a case is missing"}, subjects(want.Commits)); diff != "" {
		t.Error(diff)
	}
	if got := clean.trees[clean.head().Tree]["src/T1"]; got != "done" {
		t.Errorf("the reviewer changed code: %q", got)
	}
	for at, crash := range eachCrash {
		w := newWorld(t)
		w.agent = agent
		s := w.drive(loop.NewState(req(), w.now), crash)
		if diff := cmp.Diff(subjects(want.Commits), subjects(s.Commits)); diff != "" || len(w.prompts) != len(clean.prompts) {
			t.Errorf("crash at step %d: %d agents, want %d: %s", at, len(w.prompts), len(clean.prompts), diff)
		}
	}
}

func TestDependenciesComeFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want []string
		end  run.EndReason
	}{
		"order": {
			"- [ ] T1 (P1) one\n  - Depends on: T3\n- [ ] T2 (P2) two\n- [ ] T3 (P3) three\n",
			[]string{"T2 two", "T3 three", "T1 one"}, run.EndAllTasksComplete,
		},
		"circle": {
			"- [ ] T1 one\n  - Depends on: T2\n- [ ] T2 two\n  - Depends on: T1\n",
			[]string{"T1 one", "T2 two"}, run.EndAllTasksComplete,
		},
		"itself":  {"- [ ] T1 one\n  - Depends on: T1\n", []string{"T1 one"}, run.EndAllTasksComplete},
		"unknown": {"- [ ] T1 one\n  - Depends on: T9\n", []string{"T1 one"}, run.EndAllTasksComplete},
		"chain": {
			"- [ ] T1 one (blocked: no key)\n- [ ] T2 two\n  - Depends on: T1\n- [ ] T3 three\n  - Depends on: T2\n",
			nil, run.EndBlocked,
		},
		"chain, side by side": {
			"- [ ] T1 [P] one (blocked: no key)\n- [ ] T2 [P] two\n  - Depends on: T1\n- [ ] T3 [P] three\n  - Depends on: T2\n" +
				"- [ ] T4 [P] four\n",
			[]string{"T4 four"}, run.EndBlocked,
		},
		"a circle behind a blocked task": {
			"- [ ] T1 one (blocked: no key)\n- [ ] T2 two\n  - Depends on: T3\n- [ ] T3 three\n  - Depends on: T1, T2\n",
			nil, run.EndBlocked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := request(t, tc.body)
			if name == "chain, side by side" {
				r.Limits.Parallel = 3
			}
			s := w.drive(loop.NewState(r, w.now), nil)
			if strings.HasPrefix(name, "chain") && !strings.Contains(s.EndDetail, "T3 waits for T1, which is blocked") {
				t.Errorf("nobody is told why T3 was not worked: %q", s.EndDetail)
			}
			named := slices.ContainsFunc(w.events, func(ev run.Event) bool { return strings.Contains(ev.Text, "in a circle") })
			if slices.ContainsFunc(w.events, func(ev run.Event) bool {
				return strings.Contains(ev.Text, "T1 depends on itself")
			}) != (name == "itself") {
				t.Error("a task that depends on itself is not named, or another one is")
			}
			if named != strings.Contains(name, "circle") {
				t.Errorf("a circle is named: %t", named)
			}
			got := slices.DeleteFunc(subjects(s.Commits), func(s string) bool { return strings.HasPrefix(s, " ") })
			if diff := cmp.Diff(tc.want, got); diff != "" || s.End != tc.end {
				t.Errorf("ended %s: %s", s.End, diff)
			}
		})
	}
}

// What earlier, merged work noted is told as data, and bounded; a review reads for itself.
func TestMergedNotesAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.MergedNotes = "- the encoder flushes late\n" + strings.Repeat("- more of it\n", 10_000)
	w.drive(loop.NewState(request(t, "- [ ] one\n"), w.now), nil)
	if got := w.prompts[0]; !strings.Contains(got, "What earlier work noted") ||
		!strings.Contains(got, "----\n- the encoder flushes late\n") || strings.Count(got, "- more of it") > 1000 {
		t.Errorf("the notes are not in the prompt, or all of them:\n%s", got)
	}
}

// A role may have a model and a limit of its own.
func TestRolesHaveTheirOwnModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.Model = "common"
	w.settings.Roles = map[run.Role]loop.RoleSettings{
		run.RoleTester: {Model: "special", MaxTurns: 7, DenyTools: []string{"WebFetch"}},
	}
	got := map[string]string{}
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		got[s.TaskID] = fmt.Sprintf("%s %s %d %v", a.Role, a.Model, a.MaxTurns, a.DenyTools)
		w.work["src/"+s.TaskID] = "done"
		return claimed()
	}
	w.drive(loop.NewState(request(t, "- [ ] Fix the parser\n- [ ] Add tests for the parser\n"), w.now), nil)
	if diff := cmp.Diff(map[string]string{"T1": "implementer common 0 []", "T2": "tester special 7 [WebFetch]"},
		got); diff != "" {
		t.Error(diff)
	}
}

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
