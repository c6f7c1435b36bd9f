package loop_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// suite is a test runner: each test passes by what a tree holds.
func suite(tests map[string]func(files) bool) func(files, loop.GateStart) gate.Result {
	return func(tree files, _ loop.GateStart) gate.Result {
		var failed []string
		for name, passes := range tests {
			if !passes(tree) {
				failed = append(failed, name)
			}
		}
		return outcome(len(tests), failed...)
	}
}

func outcome(total int, failed ...string) gate.Result {
	r := gate.Result{Passed: len(failed) == 0, Reason: "exited"}
	r.Facts = gate.Facts{Known: true, Passed: total - len(failed), Failed: len(failed), FailedTests: failed}
	if !r.Passed {
		r.ExitCode, r.Output = 1, "FAILED "+strings.Join(failed, " ")
	}
	return r
}

func never(files) bool  { return false }
func always(files) bool { return true }

func withGate(t *testing.T, g gate.Gate) loop.Request {
	t.Helper()
	r := request(t, threeTasks)
	g.Command = "suite"
	r.Gates = []gate.Gate{g}
	return r
}

func standings(s loop.State) []gate.Standing {
	var got []gate.Standing
	for _, r := range s.GateLast {
		got = append(got, r.Verdict.Standing)
	}
	return got
}

func TestWhatFailedBeforeDoesNotBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = suite(map[string]func(files) bool{"TestOld": never, "TestNew": always})
	s := w.drive(loop.NewState(withGate(t, gate.Gate{}), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 3 {
		t.Fatalf("ended %s after %d iterations", s.End, s.Iteration)
	}
	if diff := cmp.Diff([]gate.Standing{gate.KnownFailing}, standings(s)); diff != "" {
		t.Error(diff)
	}
	if note := s.GateLast[0].Verdict.Note; !strings.Contains(note, "TestOld") {
		t.Errorf("the report does not name the test: %q", note)
	}
	// Three proposals, and the base once for the whole run.
	if len(w.checks) != 4 {
		t.Errorf("%d checks ran, want 4", len(w.checks))
	}
}

// TestWhatWasMendedMustNotBreakAgain, be it named or not; and that a check fails on a tree from
// before it was there excuses nothing.
func TestWhatWasMendedMustNotBreakAgain(t *testing.T) {
	t.Parallel()
	bare := func(tree files, _ loop.GateStart) gate.Result {
		r := gate.Result{Reason: "exited", Passed: tree["state"] == "good"}
		if !r.Passed {
			r.ExitCode = 1
		}
		return r
	}
	for name, tt := range map[string]struct {
		judge func(files, loop.GateStart) gate.Result
		base  files
		// breaks is the task at which the first attempt breaks the check.
		breaks string
	}{
		"exit code": {bare, files{"go.mod": "module m"}, "T2"},
		"names": {
			suite(map[string]func(files) bool{"TestOld": with("state", "good")}), files{"go.mod": "module m"}, "T2",
		},
		"a new check": {bare, files{"README": "hello"}, "T1"},
	} {
		w := newWorld(t)
		w.judge = tt.judge
		w.landed[0].Tree = w.store(tt.base)
		w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
			w.work["go.mod"], w.work["state"], w.work["src/"+s.TaskID] = "module m", "good", "x"
			if s.TaskID == tt.breaks && a.Attempt == 1 {
				w.work["state"] = "bad"
			}
			return claimed()
		}
		if s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil); s.End != run.EndAllTasksComplete ||
			s.Iteration != 4 {
			t.Errorf("%s: ended %s after %d iterations, want 4", name, s.End, s.Iteration)
		}
	}
}

func TestFlakyTestIsNotBlamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := map[string]int{}
	w.judge = func(_ files, g loop.GateStart) gate.Result {
		if g.Trust == loop.TrustBase {
			return outcome(3)
		}
		if seen[g.Tree]++; seen[g.Tree] == 1 && len(seen) == 2 {
			return outcome(3, "TestRace")
		}
		return outcome(3)
	}
	s := w.drive(loop.NewState(withGate(t, gate.Gate{}), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 3 {
		t.Fatalf("ended %s after %d iterations", s.End, s.Iteration)
	}
	told := false
	for _, ev := range w.events {
		told = told || strings.Contains(ev.Text, "TestRace") && strings.Contains(ev.Text, "passed on retry")
	}
	if !told {
		t.Error("nobody was told of the flaky test")
	}
	// Three proposals, the one that was run again, and where the work began: what is
	// landed later is compared with the commit before it, which has passed.
	if len(w.checks) != 5 {
		t.Errorf("%d checks ran, want 5", len(w.checks))
	}
}

// TestFewerTestsAreNoPass is attack 19: a runner that was switched off, in whatever
// way, ends well.
func TestFewerTestsAreNoPass(t *testing.T) {
	t.Parallel()
	ran := func(n int) gate.Result {
		return gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: n >= 0, Passed: max(n, 0)}}
	}
	for name, tt := range map[string]struct {
		gate gate.Gate
		// base and first are how many tests ran before the work began and on the first
		// proposal; -1 where the runner does not say.
		base, first int
		task        string // "" for one that asks for tests to go
		does        func(files)
		iterations  int
		standing    gate.Standing
		told        string
	}{
		"none any more": {base: 5, first: 0, iterations: 2, standing: gate.Passed, told: "it ran 0 tests, but 5 before the work began"},
		"fewer":         {base: 5, first: 4, iterations: 2, standing: gate.Passed, told: "it ran 4 tests, but 5 before"},
		"no more counted": {
			gate: gate.Gate{Kind: gate.Test, Detected: true}, base: 5, first: -1, iterations: 2, standing: gate.Passed,
			told: "it ran 0 tests, but 5 before",
		},
		"fewer, as the task asks": {
			base: 5, first: 4, does: func(f files) { delete(f, "old_test.go") }, iterations: 1, standing: gate.Passed,
		},
		"none, as the task asks": {
			base: 5, first: 0, does: func(f files) { delete(f, "old_test.go") }, iterations: 1, standing: gate.NoTests,
		},
		"fewer where an old test may change": {
			task: "Let TestOld expect more", base: 5, first: 1, iterations: 2, standing: gate.Passed,
			does: func(f files) { f["old_test.go"] = "package a\n\nfunc TestOld(t *testing.T) { t.Error() }\n" },
			told: "it ran 1 test, but 5 before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.landed[0].Tree = w.store(files{"a.go": "package a", "old_test.go": "package a\n\nfunc TestOld(t *testing.T) {}\n"})
			w.judge = func(tree files, g loop.GateStart) gate.Result {
				switch {
				case g.Trust == loop.TrustBase:
					return ran(tt.base)
				case tree["again"] != "":
					return ran(tt.base)
				default:
					return ran(tt.first)
				}
			}
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				w.work["done"] = "x"
				if tt.does != nil {
					tt.does(w.work)
				}
				if a.Attempt == 2 {
					w.work["again"] = "x"
				}
				return claimed()
			}
			task := "Remove the tests of the old door"
			if tt.task != "" {
				task = tt.task
			}
			r := request(t, "- [ ] "+task+"\n")
			tt.gate.Command = "suite"
			r.Gates = []gate.Gate{tt.gate.WithDefaults()}
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete || s.Iteration != tt.iterations {
				t.Fatalf("ended %s (%s) after %d iterations, want %d", s.End, s.EndDetail, s.Iteration, tt.iterations)
			}
			if got := s.GateLast[0].Verdict.Standing; got != tt.standing {
				t.Errorf("the check stands as %s, want %s", got, tt.standing)
			}
			if tt.told != "" && !strings.Contains(w.prompts[1], tt.told) {
				t.Errorf("the next call is not told %q:\n%s", tt.told, w.prompts[1])
			}
			if (s.Proof().Passed == 0) != (tt.standing == gate.NoTests) {
				t.Errorf("proof: %+v", s.Proof())
			}
		})
	}
}

func TestMinPassRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate float64
		want run.EndReason
	}{{0.9, run.EndAllTasksComplete}, {0.95, run.EndStagnated}, {0, run.EndStagnated}} {
		w := newWorld(t)
		w.judge = func(tree files, _ loop.GateStart) gate.Result {
			if len(tree) == 1 { // the base has fewer tests, all of which pass
				return outcome(9)
			}
			return outcome(10, "TestHard")
		}
		st := loop.NewState(withGate(t, gate.Gate{}), w.now)
		w.settings.Quality = gate.Quality{MinPassRate: tt.rate}
		if s := w.drive(st, nil); s.End != tt.want {
			t.Errorf("rate %v: ended %s, want %s", tt.rate, s.End, tt.want)
		}
	}
}

// absent is a runner that is not installed.
func absent(files, loop.GateStart) gate.Result {
	return gate.Result{ExitCode: 1, Reason: "exited", Output: "/usr/bin/python3: No module named pytest\n"}
}

// A check that was found and cannot run holds nobody up, is no proof, and is told.
func TestFoundCheckThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(files{"requirements.txt": "pytest\n", "test_a.py": ""})}}
	w.judge = absent
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete || s.Iteration != 3 {
		t.Fatalf("ended %s after %d iterations: %s", s.End, s.Iteration, s.EndDetail)
	}
	if diff := cmp.Diff([]gate.Standing{gate.Unrunnable}, standings(s)); diff != "" {
		t.Error(diff)
	}
	said := s.Proof().Sentence(s.End)
	if want := "All tasks are done; nothing was checked: pytest could not run: No module named pytest"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	var noted bool
	for _, ev := range w.events {
		noted = noted || ev.Kind == run.EventGateNote && strings.Contains(ev.Text, "requirements.txt")
	}
	if !noted {
		t.Error("nobody is told how to provide it")
	}
}

// Nothing lands without a check that a person has named, and no task is to blame.
func TestNamedCheckThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = absent
	s := w.drive(loop.NewState(withGate(t, gate.Gate{Name: "pytest"}), w.now), nil)
	if s.End != run.EndFailed || !strings.HasPrefix(s.EndDetail, "pytest could not run: No module named pytest. What to do first: ") {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	if len(w.commits) != 0 || s.Attempts["T1"] != 0 || s.Iteration != 1 {
		t.Errorf("%d commits, %d attempts, %d iterations", len(w.commits), s.Attempts["T1"], s.Iteration)
	}
	if len(w.refused) != 1 || w.refused[0].Task.ID != "T1" {
		t.Errorf("kept %+v", w.refused)
	}
}

// What a failed attempt changed is kept without the run's own notes, and the event has
// the lines that failed.
func TestRefusedWorkIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = suite(map[string]func(files) bool{"TestNew": func(tree files) bool { return tree["src/T1.txt"] == "" }})
	w.drive(loop.NewState(withGate(t, gate.Gate{Name: "suite"}), w.now), nil)
	if len(w.refused) == 0 {
		t.Fatal("nothing is kept")
	}
	got := w.refused[0]
	changes, err := w.Changes(t.Context(), got.From, got.To)
	if err != nil || len(changes) != 1 || changes[0].Path != "src/T1.txt" || got.Iteration != 1 {
		t.Errorf("kept %+v, which changes %+v, %v", got, changes, err)
	}
	for _, ev := range w.events {
		if ev.Kind == run.EventAttemptFailed {
			if diff := cmp.Diff([]string{"FAILED TestNew"}, ev.Lines); diff != "" || !ev.Kept || ev.Gate != "suite" {
				t.Errorf("event %+v: %s", ev, diff)
			}
			return
		}
	}
	t.Error("no failed attempt is told of")
}
