package loop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

func TestPlanMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if a.Mode != run.ModePlan {
			w.work["src/"+s.TaskID+".txt"] = "done"
			return claimed()
		}
		w.work["sneaked.txt"] = "code in plan mode"
		path := ".ralph/1/progress.md"
		w.work[path] = strings.Replace(w.work[path], "## Tasks\n", "## Tasks\n\n- [ ] first\n- [x] second\n", 1)
		return completed("planned")
	}
	auto := request(t, "Make greetings nicer, please.")
	s := w.drive(loop.NewState(auto, w.now), nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	if diff := cmp.Diff([]string{"T1 first", "T2 second"}, subjects(s.Commits)); diff != "" {
		t.Error(diff)
	}
	for _, c := range w.commits {
		if _, ok := w.trees[c.Tree]["sneaked.txt"]; ok {
			t.Error("code written in plan mode landed")
		}
	}

	only := newWorld(t)
	only.agent = w.agent
	r := request(t, "Make greetings nicer, please.")
	r.Mode = run.ModePlan
	s = only.drive(loop.NewState(r, only.now), nil)
	if s.End != run.EndPlanned || len(only.prompts) != 1 || len(only.tasks(s)) != 2 {
		t.Errorf("plan mode ended %s after %d calls with %d tasks", s.End, len(only.prompts), len(only.tasks(s)))
	}

	lazy := newWorld(t)
	lazy.agent = func(*world, loop.State, loop.AgentStart) loop.AgentStatus { return completed("no idea") }
	s = lazy.drive(loop.NewState(auto, lazy.now), nil)
	if s.End != run.EndFailed || len(lazy.prompts) != 8 {
		t.Errorf("a planner without a plan: ended %s after %d calls", s.End, len(lazy.prompts))
	}
}

func TestFinishedFileCostsNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request(t, threeTasks)
	r.KeepProgress = true
	first := w.drive(loop.NewState(r, w.now), nil)
	if first.End != run.EndAllTasksComplete {
		t.Fatal(first.End)
	}
	w.prompts = nil
	r.Run = "r2"
	second := w.drive(loop.NewState(r, w.now), nil)
	if second.End != run.EndAllTasksComplete || len(w.prompts) != 0 || len(second.Commits) != 0 {
		t.Errorf("ended %s with %d calls and %d commits", second.End, len(w.prompts), len(second.Commits))
	}
}

// TestAChangedPlanKeepsWhatPeopleWrote: the tasks that are new in a plan are added to the list as it stands, with
// what they depend on in the list's own ids.
func TestAChangedPlanKeepsWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := request(t, "- [ ] one\n- [ ] two\n")
	doc := progress.New(first.Subject.Name, progress.Binding{Key: first.Subject.Key, PlanSHA256: first.Plan.SHA256})
	if err := doc.SetSection(progress.SectionTasks, "Ask Bob first.\n\n- [ ] T1 one\n  - Note: ask Bob\n- [ ] T2 two\n"); err != nil {
		t.Fatal(err)
	}
	w.landed[0].Tree = w.store(files{progressPath: string(doc.Bytes())})
	now := request(t, "- [ ] T1 zero\n- [ ] T2 one\n- [ ] T3 last\n  - Depends on: T1, T2\n- [ ] T4 two\n"+
		"- [x] T5 by hand\n- [ ] T6 never (skipped: dear)\n")
	now.KeepProgress = true
	s := w.drive(loop.NewState(now, w.now), nil)
	want := "Ask Bob first.\n\n- [x] T1 one\n  - Note: ask Bob\n- [x] T2 two\n- [x] T3 zero\n- [x] T4 last\n  - Depends on: T3, T1\n" +
		"- [x] T5 by hand\n- [ ] T6 never (skipped: dear)\n"
	if s.End != run.EndAllTasksComplete || len(s.Commits) != 4 || !strings.Contains(s.Progress, want) {
		t.Errorf("ended %s (%s) with\n%s", s.End, s.EndDetail, s.Progress)
	}
}

func TestForeignProgressIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := "<!-- ralph:progress key=issue:OTHER plan=00 -->\n# Progress: Other\n\n## Tasks\n\n- [ ] T1 not ours\n"
	w.landed[0].Tree = w.store(files{"README": "hello", ".ralph/1/progress.md": foreign})
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.ProgressPath != ".ralph/1-2/progress.md" {
		t.Errorf("ended %s with progress at %s", s.End, s.ProgressPath)
	}
	if got := w.trees[w.head().Tree][".ralph/1/progress.md"]; got != foreign {
		t.Errorf("the other issue's file changed:\n%s", got)
	}
}

func TestCancelKeepsWhatLanded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T2" {
			cancel(errBoom)
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	saved := 0
	d := loop.Driver{
		Engine: w.engine(),
		Save:   func(context.Context, loop.State) error { saved++; return nil },
		Await:  func(context.Context, loop.Handle) error { return nil },
		Sleep:  func(context.Context, time.Time) error { return nil },
	}
	s, err := d.Run(ctx, loop.NewState(request(t, threeTasks), w.now))
	if err != nil {
		t.Fatal(err)
	}
	if s.End != run.EndCancelled || s.EndDetail != "boom" || s.Phase != run.PhaseCancelled {
		t.Errorf("ended %s (%s) in phase %s", s.End, s.EndDetail, s.Phase)
	}
	if len(w.stopped) != 1 || saved == 0 {
		t.Errorf("stopped %v, saved %d times", w.stopped, saved)
	}
	if len(s.Commits) == 0 || s.Commits[0].TaskID != "T1" {
		t.Errorf("commits %v", subjects(s.Commits))
	}
}

func TestErrorLeavesTheStateAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landErr = []error{errBoom}
	e := w.engine()
	s := loop.NewState(request(t, threeTasks), w.now)
	for {
		next, n, err := e.Step(t.Context(), s)
		if err != nil {
			if !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fmt.Sprint(s), fmt.Sprint(next)); diff != "" {
				t.Error(diff)
			}
			break
		}
		if n.Kind == loop.Done {
			t.Fatal("the error did not come out")
		}
		s = next
	}
	if s := w.drive(s, nil); s.End != run.EndAllTasksComplete {
		t.Errorf("after the error: ended %s", s.End)
	}
}

// The parts of a state are stored as one object: a field that two of them have would be
// lost without a word.
func TestStateFieldsHaveOneNameEach(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for f := range typ.Fields() {
			if f.Anonymous {
				walk(f.Type)
				continue
			}
			if other, ok := seen[f.Name]; ok && f.IsExported() {
				t.Errorf("%s is a field of %s and of %s", f.Name, other, typ.Name())
			}
			seen[f.Name] = typ.Name()
		}
	}
	walk(reflect.TypeFor[loop.State]())
	for name := range seen {
		if _, ok := reflect.TypeFor[loop.State]().FieldByName(name); !ok {
			t.Errorf("%s cannot be reached from a state", name)
		}
	}
}

func TestDecodeRefusesOtherVersions(t *testing.T) {
	t.Parallel()
	if _, err := loop.Decode([]byte(`{"Version":99}`)); !errors.Is(err, loop.ErrStateVersion) {
		t.Errorf("got %v", err)
	}
	if _, err := loop.Decode([]byte(`{`)); err == nil {
		t.Error("broken JSON was accepted")
	}
}

func TestLostProcessesEndTheRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want run.EndReason
	}{{loop.ErrLost, run.EndFailed}, {loop.ErrGone, run.EndFailed}} {
		w := newWorld(t)
		w.observeErr = tt.err
		s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
		if s.End != tt.want {
			t.Errorf("%v: ended %s: %s", tt.err, s.End, s.EndDetail)
		}
	}
}

// TestChecksAreGone: a check that is gone before it has ended is no fault of the task's, however often.
func TestChecksAreGone(t *testing.T) {
	t.Parallel()
	for gone, want := range map[int]run.EndReason{5: run.EndAllTasksComplete, 1000: run.EndFailed} {
		w := newWorld(t)
		w.gone = gone
		r := request(t, threeTasks)
		r.Gates = []gate.Gate{{Name: "test", Command: "make test"}}
		s := w.drive(loop.NewState(r, w.now), nil)
		if s.End != want || len(s.Attempts) != 0 {
			t.Errorf("%d gone: ended %s, attempts %v: %s", gone, s.End, s.Attempts, s.EndDetail)
		}
		if want == run.EndFailed && !strings.HasSuffix(s.EndDetail, "gone each time") {
			t.Errorf("ended with %q", s.EndDetail)
		}
	}
}

// TestCrashWhilePlanning: a plan that was paid for is not lost with a process.
func TestCrashWhilePlanning(t *testing.T) {
	t.Parallel()
	for at, crash := range eachCrash {
		w := newWorld(t)
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			if a.Mode == run.ModePlan {
				path := ".ralph/1/progress.md"
				w.work[path] = strings.Replace(w.work[path], "## Tasks\n", "## Tasks\n\n- [ ] first\n- [ ] second\n", 1)
				return completed("planned")
			}
			w.work["src/"+s.TaskID+".txt"] = "done"
			return claimed()
		}
		s := w.drive(loop.NewState(request(t, "Make greetings nicer."), w.now), crash)
		if s.End != run.EndAllTasksComplete || len(w.prompts) != 3 {
			t.Errorf("crash at step %d: ended %s after %d calls: %s", at, s.End, len(w.prompts), s.EndDetail)
		}
	}
}

func TestChangedPlanIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request(t, threeTasks)
	r.KeepProgress = true
	if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndAllTasksComplete {
		t.Fatal(s.End)
	}
	r = request(t, threeTasks+"- [ ] four\n")
	r.Run, r.KeepProgress = "r2", true
	s := w.drive(loop.NewState(r, w.now), nil)
	if diff := cmp.Diff([]string{"T4 four"}, subjects(s.Commits)); diff != "" || s.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", s.End, diff)
	}
	for _, task := range w.tasks(s) {
		if task.Status != run.TaskDone {
			t.Errorf("%s is %s", task.ID, task.Status)
		}
	}
}

// TestCancelEndsAnAgentWhoseStartWasNotSaved: the process died between the start
// and the save, and then the run was cancelled.
func TestCancelEndsAnAgentWhoseStartWasNotSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.engine()
	s := loop.NewState(request(t, threeTasks), w.now)
	for len(w.prompts) == 0 {
		next, _, err := e.Step(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.prompts) == 0 {
			s = next // the step that starts the agent is lost
		}
	}
	s.CancelRequested = true
	if s = w.drive(s, nil); s.End != run.EndCancelled || len(w.stopped) != 1 {
		t.Errorf("ended %s, stopped %v", s.End, w.stopped)
	}
}

// ticks is an agent that does its task and says so in each way there is.
func ticks(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
	w.work["src/"+s.TaskID+".txt"] = "done"
	w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "[ ] "+s.TaskID, "[x] "+s.TaskID, 1)
	return completed("RALPH_RESULT: done")
}

func log(t *testing.T, s loop.State) (numbers []int) {
	t.Helper()
	d, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range d.Log() {
		numbers = append(numbers, row.Iteration)
	}
	return numbers
}

// Each run of a subject may begin as many iterations as its limit says, and
// numbers them from where the last one stopped.
func TestIterationsCountOnFromTheRunBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = ticks
	w.settings.KeepProgress = true
	r := request(t, "- [ ] one\n- [ ] two\n- [ ] three\n- [ ] four\n- [ ] five\n")
	r.Limits.MaxIterations = 2
	first := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, first); first.End != run.EndMaxIterations || !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("ended %s: %s; log %v", first.End, first.EndDetail, got)
	}

	r.Run, r.Earlier = "r2", first.Sum()
	second := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, second); second.End != run.EndMaxIterations || second.Iterations() != 2 ||
		!slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("ended %s after %d iterations: %s; log %v", second.End, second.Iterations(), second.EndDetail, got)
	}

	// Of the third, no door knows anything; the file tells enough.
	r.Run, r.Earlier, r.Once = "r3", loop.Earlier{}, true
	third := w.drive(loop.NewState(r, w.now), nil)
	if got := log(t, third); third.Iteration != 5 || third.Iterations() != 1 || !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		t.Errorf("ended %s (%s); log %v", third.End, third.EndDetail, got)
	}
	var landed []int
	for _, l := range w.commits {
		if l.Task.ID != "" {
			landed = append(landed, l.Iteration)
		}
	}
	if !slices.Equal(landed, []int{1, 2, 3, 4, 5}) {
		t.Errorf("commits of iterations %v", landed)
	}
	last := w.events[len(w.events)-1]
	if last.Iteration != 5 || last.Iterations != 1 {
		t.Errorf("the last event is of iteration %d, the run's %d.", last.Iteration, last.Iterations)
	}
}

// The branch says which commits there are; what it does not know, the run before does.
func TestSumOfEarlierRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = ticks
	w.earlier = loop.Earlier{
		Runs: 2, Iterations: 4, CostUSD: 1,
		Commits: []loop.Landed{{OID: "a", Subject: "one"}, {OID: "b", Subject: strings.Repeat("x", 500)}},
	}
	r := request(t, "- [ ] one\n")
	r.Earlier = loop.Earlier{
		Runs: 3, Iterations: 7, CostUSD: 2.5, Commits: []loop.Landed{{OID: "gone"}, {OID: "b", Verified: new(true)}},
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	sum := s.Sum()
	if sum.Runs != 4 || sum.Iterations != 8 || sum.CostUSD != 2.75 || sum.Older != 0 {
		t.Errorf("%+v", sum)
	}
	want := []loop.Landed{
		{OID: "a", Subject: "one"}, {OID: "b", Subject: strings.Repeat("x", 197) + "…", Verified: new(true)}, s.Commits[0],
	}
	if diff := cmp.Diff(want, sum.Commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}

	// However many there are, a state stays small.
	for range 300 {
		w.earlier.Commits = append(w.earlier.Commits, loop.Landed{OID: "c"})
	}
	r.Run = "r5"
	if s = w.drive(loop.NewState(r, w.now), nil); len(s.Earlier.Commits) != 100 || s.Earlier.Older != 202 {
		t.Errorf("%d commits are kept, %d are not", len(s.Earlier.Commits), s.Earlier.Older)
	}
	if fresh := (&loop.State{}).Sum(); fresh.Runs != 0 {
		t.Errorf("no run is %+v", fresh)
	}
}

// TestAPlanThatHasLandedIsKnown: a run that is cancelled while its plan's commit lands knows of that commit.
func TestAPlanThatHasLandedIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.add(s, "first", "second")
		return completed("planned")
	}
	w.meanwhile = func(s loop.State) loop.State {
		s.CancelRequested = s.CancelRequested || len(w.commits) > 0
		return s
	}
	r := request(t, "Make greetings nicer, please.")
	r.Mode = run.ModePlan
	died := false
	s := w.drive(loop.NewState(r, w.now), func(int) bool {
		dies := !died && len(w.commits) > 0
		died = died || dies
		return dies
	})
	if s.End != run.EndCancelled || len(s.Commits) != 1 || len(w.commits) != 1 {
		t.Errorf("ended %s with %d commits, of which it knows %d", s.End, len(w.commits), len(s.Commits))
	}
}

// TestChecksOfTheBranch: what a run shows at its end are the checks of the head; of what was refused only where
// nothing landed, and none twice.
func TestChecksOfTheBranch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bad    string                       // the file that the check fails with
		work   func(w *world, s loop.State) // besides the task's file
		final  bool                         // a final check fails once, and a person skips the task that this makes
		end    run.EndReason
		shown  string
		passed int
		tasks  int // 0 is not looked at
	}{
		"the second is refused": {bad: "src/T2", end: run.EndBlocked, shown: "test passed", passed: 1},
		"all is refused":        {bad: "any", end: run.EndBlocked, shown: "test failed"},
		"a person breaks it and ticks the rest": {
			bad: "hand", end: run.EndAllTasksComplete, shown: "test passed", passed: 1, tasks: 3, work: func(w *world, s loop.State) {
				w.push("- [ ] T2", "- [x] T2")
				f := maps.Clone(w.trees[w.head().Tree])
				f["hand"] = "x"
				w.landed = append(w.landed, loop.Landed{OID: "more", Tree: w.store(f)})
			},
		},
		"a person ticks the rest": {
			bad: "x", end: run.EndAllTasksComplete, shown: "test passed", passed: 1,
			work: func(w *world, _ loop.State) { w.push("- [ ] T2", "- [x] T2") },
		},
		"a final check passes in the end": {
			bad: "x", final: true, end: run.EndAllTasksComplete, shown: "test passed, final passed", passed: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
				w.work["src/"+s.TaskID], w.work["any"] = a.Name, "x"
				if s.TaskID == "T3" {
					delete(w.work, "hand")
				}
				if s.TaskID == "T2" && tc.work != nil {
					tc.work(w, s)
				}
				return claimed()
			}
			ended, mended := false, false
			w.gate = func(tree files, command string) bool {
				if command == "final" {
					ended = true
					return mended
				}
				return tree[tc.bad] == ""
			}
			r := request(t, "- [ ] one\n- [ ] two\n")
			r.Gates = []gate.Gate{{Name: "test", Command: "make test", Kind: gate.Test}}
			if tc.final {
				r.Gates = append(r.Gates, gate.Gate{Name: "final", Command: "final", When: gate.Final})
			}
			s := loop.NewState(r, w.now)
			if tc.final {
				var said string
				s, said, _, _ = w.driveSteering(s, loop.Wish{Kind: loop.WishSkip, By: ada, TaskID: "T3"}, func(s loop.State) bool {
					mended = ended && s.Phase == run.PhaseIterating
					return mended
				})
				if said != "`ada` skipped T3." {
					t.Error(said)
				}
			} else {
				s = w.drive(s, nil)
			}
			var shown []string
			for _, g := range s.LastGates() {
				shown = append(shown, g.Gate+" "+string(g.Verdict.Standing))
			}
			if got := strings.Join(shown, ", "); s.End != tc.end || got != tc.shown || s.Proof().Passed != tc.passed {
				t.Errorf("ended %s (%s) and shows %q; %d passed", s.End, s.EndDetail, got, s.Proof().Passed)
			}
			if n := len(w.tasks(s)); tc.tasks > 0 && n != tc.tasks {
				t.Errorf("%d tasks", n)
			}
		})
	}
}
