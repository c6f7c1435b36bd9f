package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// judgedRepo is a repository with a test, and with all that may decide whether it runs.
func judgedRepo() files {
	return files{
		"a.go": "func Port = 8080", "a_test.go": "TestPort: Port = 8080\nTestAny: func\n",
		"Makefile": "test:\n\tsh scripts/check.sh\n", "scripts/check.sh": "run all\n", "package.json": `{"test": "run all"}`,
	}
}

// runJudged runs the tests of a tree like judgedRepo: each line of a test names what the
// code has to hold. What calls a function that is not there does not build.
func runJudged(tree files, _ loop.GateStart) gate.Result {
	switch {
	case strings.Contains(tree["Makefile"], "true"), strings.Contains(tree["scripts/check.sh"], "exit 0"):
		return gate.Result{Passed: true, Reason: "exited"} // says nothing
	case strings.Contains(tree["Makefile"], "install"):
		return gate.Result{ExitCode: 127, Reason: "exited", Output: "sh: install: not found\n"}
	case tree["conftest.py"] != "", strings.Contains(tree["package.json"], "true"):
		return gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: true}}
	case strings.Contains(tree["a.go"], "newdep") && !strings.Contains(tree["package.json"], "newdep"):
		return gate.Result{ExitCode: 2, Reason: "exited", Output: "cannot build without newdep"}
	}
	code, n := tree["a.go"], 0
	var failed []string
	for _, name := range []string{"a_test.go", "b_test.go"} {
		for line := range strings.Lines(tree[name]) {
			test, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if called, _, ok := strings.Cut(want, " = "); ok && !strings.Contains(code, called) {
				return gate.Result{ExitCode: 2, Reason: "exited", Output: "undefined: " + called}
			}
			if n++; !strings.Contains(code, want) {
				failed = append(failed, test)
			}
		}
	}
	slices.Sort(failed)
	return outcome(n, failed...)
}

// TestOldJudges: an attempt that touches tests, or what decides how they run, is judged by
// these as they were, too. The first call does what the case says; a later one puts the code right.
func TestOldJudges(t *testing.T) {
	t.Parallel()
	wrong := func(f files) { f["a.go"] = "func Port = 1" }
	put := func(name, content string) func(files) { return func(f files) { f[name] = content } }
	for _, tt := range []struct {
		name, task string
		does       []func(files)
		quality    gate.Quality
		// refused: the attempt fails, and the next call is told of TestPort; found are the
		// rules of what people are told of where it does not, and checks are how often a check ran.
		refused bool
		found   string
		checks  int
	}{
		// Cheats: the code is wrong, and what would tell is not asked.
		{name: "a weakened assertion", does: []func(files){wrong, put("a_test.go", "TestPort: Port = 1\nTestAny: func\n")}, refused: true},
		{name: "under another name", does: []func(files){wrong, put("a_test.go", "TestDoor: Port = 1\nTestAny: func\n")}, refused: true},
		{name: "a deleted test", does: []func(files){wrong, put("a_test.go", "TestAny: func\n")}, refused: true},
		{name: "a deleted file of tests", does: []func(files){wrong, func(f files) { delete(f, "a_test.go") }}, refused: true},
		{name: "an emptied target", does: []func(files){wrong, put("Makefile", "test:\n\ttrue\n")}, refused: true},
		{name: "a switch in a file of settings", does: []func(files){wrong, put("package.json", `{"test": "true"}`)}, refused: true},
		{name: "a conftest.py that skips", does: []func(files){wrong, put("conftest.py", "skip all")}, refused: true},
		{name: "a script that the check calls", does: []func(files){wrong, put("scripts/check.sh", "exit 0\n")}, refused: true},
		{
			name: "a weakened test and an emptied target", refused: true,
			does: []func(files){wrong, put("a_test.go", "TestPort: Port = 1\n"), put("Makefile", "test:\n\ttrue\n")},
		},
		{
			name: "behind a dependency without which nothing builds", refused: true,
			does: []func(files){
				put("a.go", "func Port = 1 newdep"), put("package.json", `{"test": "run all", "newdep": 1}`),
				put("a_test.go", "TestPort: Port = 1\nTestAny: func\n"),
			},
		},
		{
			name: "a target that the task does not name, behind one that it does", task: "Have b_test.go say more", refused: true,
			does: []func(files){wrong, put("b_test.go", "TestMore: func\n"), put("a_test.go", "TestPort: Port = 1\nTestAny: func\n")},
		},
		// Honest work.
		{name: "code alone", does: []func(files){put("a.go", "func Port = 8080 fast")}, checks: 2},
		{
			name: "a test more", checks: 3,
			does: []func(files){put("a_test.go", "TestPort: Port = 8080\nTestAny: func\nTestMore: func\n")},
		},
		{name: "a test fewer", does: []func(files){put("a_test.go", "TestPort: Port = 8080\n")}, found: gate.RuleFewer, checks: 3},
		{name: "a file of tests that moved", does: []func(files){func(f files) {
			f["b_test.go"] = f["a_test.go"]
			delete(f, "a_test.go")
		}}, checks: 3},
		{
			name: "a default with its test", task: "Listen on port 9090", found: gate.RuleChanged, checks: 4,
			does: []func(files){put("a.go", "func Port = 9090"), put("a_test.go", "TestPort: Port = 9090\nTestAny: func\n")},
		},
		{
			name: "a test that the task names", task: "Let TestPort expect what is right", found: gate.RuleChanged, checks: 4,
			does: []func(files){wrong, put("a_test.go", "TestPort: Port = 1\nTestAny: func\n")},
		},
		{
			name: "other expectations where these may change", quality: gate.Quality{AllowChangedTests: true},
			found: gate.RuleChanged, checks: 4,
			does: []func(files){wrong, put("a_test.go", "TestPort: Port = 1\nTestAny: func\n")},
		},
		{
			name: "another name", found: gate.RuleChanged, checks: 3,
			does: []func(files){put("a.go", "func Door = 8080"), put("a_test.go", "TestDoor: Door = 8080\nTestAny: func\n")},
		},
		{
			name: "another runner", does: []func(files){put("Makefile", "test:\n\tfaster scripts/check.sh\n")}, checks: 3,
		},
		{
			name: "a dependency with its test", found: gate.RuleChanged, checks: 5,
			does: []func(files){
				put("a.go", "func Port = 8080 newdep"), put("package.json", `{"test": "run all", "newdep": 1}`),
				put("b_test.go", "TestNew: newdep\n"),
			},
		},
		{name: "a script that no check calls", does: []func(files){put("scripts/deploy.sh", "deploy\n")}, checks: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = runJudged
			w.landed[0].Tree = w.store(judgedRepo())
			w.settings.Quality = tt.quality
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				if a.Attempt > 1 {
					if w.work["a_test.go"] != judgedRepo()["a_test.go"] && w.work["conftest.py"] == "" {
						t.Errorf("the second attempt finds the tests\n%s", w.work["a_test.go"])
					}
					w.work["a.go"] = "func Port = 8080 newdep again"
					return claimed()
				}
				for _, does := range tt.does {
					does(w.work)
				}
				return claimed()
			}
			task := tt.task
			if task == "" {
				task = "Tidy up"
			}
			r := request(t, "- [ ] "+task+"\n")
			r.Gates = []gate.Gate{{Command: "make test", Kind: gate.Test}}
			s := w.drive(loop.NewState(r, w.now), nil)
			if tt.refused {
				if s.Iteration < 2 || !strings.Contains(w.prompts[1], "is not right by them as they were") {
					t.Fatalf("ended %s after %d iterations with %+v, and was not refused", s.End, s.Iteration, s.Findings)
				}
				return
			}
			if s.End != run.EndAllTasksComplete || s.Iteration != 1 {
				t.Fatalf("ended %s (%s) after %d iterations\n%s", s.End, s.EndDetail, s.Iteration, w.prompts[len(w.prompts)-1])
			}
			var rules []string
			for _, f := range s.Findings {
				rules = append(rules, f.Rule)
			}
			if got := strings.Join(rules, " "); got != tt.found || len(w.checks) != tt.checks {
				t.Errorf("people are told of %+v after %d checks, want %q and %d", s.Findings, len(w.checks), tt.found, tt.checks)
			}
		})
	}
}

// TestCheckThatWasEmptied: where one task empties a target, as it was asked to, the code that
// the next one breaks is no longer judged. That is said of the whole run, which claims no passing check.
func TestCheckThatWasEmptied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge = runJudged
	w.landed[0].Tree = w.store(judgedRepo())
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		if s.TaskID == "T1" {
			w.work["Makefile"] = "test:\n\ttrue\n"
		} else {
			w.work["a.go"] = "func Port = 1"
		}
		return claimed()
	}
	r := request(t, "- [ ] Rework the Makefile\n- [ ] Tidy up\n")
	r.Gates = []gate.Gate{{Name: "suite", Command: "make test", Kind: gate.Test}}
	s := w.drive(loop.NewState(r, w.now), nil)
	if len(w.commits) < 2 || s.Iteration != 2 {
		t.Fatalf("ended %s (%s) after %d iterations", s.End, s.EndDetail, s.Iteration)
	}
	for _, got := range s.GateLast {
		if got.Verdict.Standing != gate.NoTests || got.Verdict.Note != "it ran 2 tests before the work began, and tells of none now" {
			t.Errorf("%+v", got.Verdict)
		}
	}
	if said := s.Proof().Sentence(s.End); strings.Contains(said, "the checks pass") || !strings.Contains(said, "suite proves nothing: it ran 2 tests") {
		t.Errorf("the end says %q", said)
	}
}

// TestSecretsAndMissingTests: the first call does what is told of, later ones fix it.
func TestSecretsAndMissingTests(t *testing.T) {
	t.Parallel()
	key := func(content string) func(files) { return func(f files) { f["config"] = content } }
	for _, tt := range []struct {
		name    string
		quality gate.Quality
		does    func(files)
		// told is what the second prompt holds, "" where the work lands at once;
		// found is the rule of what people are told of then.
		told, found string
	}{
		{name: "adds a key", does: key("MASTER KEY"), told: "config:1 holds what looks like a secret"},
		{name: "adds a password", does: key("KEY"), told: "config:1 holds what looks like a secret"},
		{
			name: "adds a password where that is allowed", quality: gate.Quality{AllowHigh: true},
			does: key("KEY"), found: gate.RuleSecret,
		},
		{
			name: "adds a key where passwords are allowed", quality: gate.Quality{AllowHigh: true},
			does: key("MASTER KEY"), told: "looks like a secret",
		},
		{
			name: "adds code without tests", quality: gate.Quality{RequireNewTests: true},
			does: func(f files) { f["a.go"] = "package a\n" }, told: "a.go was changed, and no test was",
		},
		{
			name: "adds code without tests where none are asked for",
			does: func(f files) { f["a.go"] = "package a\n" },
		},
		{
			name: "adds code and tests", quality: gate.Quality{RequireNewTests: true},
			does: func(f files) { f["a.go"] = "package a\n"; f["b_test.go"] = "package a\n" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settings.Quality = tt.quality
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				if w.work["notes"] = fmt.Sprint(a.Attempt); a.Attempt == 1 {
					tt.does(w.work)
				} else {
					delete(w.work, "config")
					delete(w.work, "a.go")
				}
				return claimed()
			}
			s := w.drive(loop.NewState(request(t, "- [ ] Add a flag\n"), w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			if tt.told == "" {
				var rules []string
				for _, f := range s.Findings {
					rules = append(rules, f.Rule)
				}
				if got := strings.Join(rules, " "); s.Iteration != 1 || got != tt.found {
					t.Errorf("%d iterations; people are told of %q, want %q", s.Iteration, got, tt.found)
				}
				return
			}
			if s.Iteration != 2 || !strings.Contains(w.prompts[1], tt.told) {
				t.Errorf("%d iterations, want 2; the second prompt lacks %q:\n%s", s.Iteration, tt.told,
					w.prompts[len(w.prompts)-1])
			}
			if len(s.Findings) > 0 {
				t.Errorf("findings of what did not land are kept: %+v", s.Findings)
			}
		})
	}
}
