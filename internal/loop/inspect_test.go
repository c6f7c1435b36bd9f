package loop_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// TestInspection: the first call does what is told of, later ones fix it.
func TestInspection(t *testing.T) {
	t.Parallel()
	const tests = "package a\n\nfunc TestA(t *testing.T) {\n\tt.Error(1)\n}\n"
	remove := func(f files) { delete(f, "a_test.go") }
	fill := func(f files, n int, name string) {
		for i := range n {
			f[fmt.Sprintf(name, i)] = "x"
		}
	}
	large := strings.Repeat("# filler\n", 1<<17)
	key := func(content string) func(files) { return func(f files) { f["config"] = content } }
	cases := []struct {
		name    string
		task    string
		quality gate.Quality
		does    func(files)
		// told is what the second prompt holds, "" where the work lands at once;
		// found is the rule of what people are told of then.
		told, found string
	}{
		{name: "deletes a test", task: "Add a flag", does: remove, told: "test TestA of a_test.go is gone"},
		{
			name: "deletes a test behind many sources", task: "Add a flag",
			does: func(f files) { remove(f); fill(f, 3000, "0filler/%d.go") }, told: "test TestA of a_test.go is gone",
		},
		{
			name: "empties the test command behind many tests", task: "Add a flag",
			does: func(f files) { fill(f, 1500, "0filler/%d_test.go"); f["package.json"] = `{"scripts":{"test":"true"}}` },
			told: "Restore the command",
		},
		{
			name: "changes more tests than can be inspected", task: "Add a flag",
			does: func(f files) { remove(f); fill(f, 3000, "0filler/%d_test.go") }, told: "are too much to inspect",
		},
		{
			name: "makes a test too large to inspect", task: "Add a flag",
			does: func(f files) { f["a_test.go"] = "package a\n" + large }, told: "a_test.go cannot be inspected",
		},
		{
			name: "adds a runner that is too large to inspect", task: "Add a flag",
			does: func(f files) { f["GNUmakefile"] = "test:\n\t@true\n" + large }, told: "GNUmakefile cannot be inspected",
		},
		{
			name: "adds a large file that the task names", task: "Record all sessions in tests/sessions.js",
			does: func(f files) { f["tests/sessions.js"] = large }, found: gate.RuleUnseen,
		},
		{name: "deletes a test it was asked to", task: "Remove the tests of A", does: remove, found: gate.RuleDeleted},
		{
			name: "renames a test", task: "Add a flag",
			does: func(f files) { f["a_test.go"] = strings.ReplaceAll(tests, "TestA", "TestB") }, found: gate.RuleReplaced,
		},
		{
			name: "skips a test", task: "Add a flag",
			does:  func(f files) { f["a_test.go"] = strings.Replace(tests, "\tt.Error", "\tt.Skip()\n\tt.Error", 1) },
			found: gate.RuleSkipped,
		},
		{name: "moves a test", task: "Add a flag", does: func(f files) { remove(f); f["b/a_test.go"] = tests }},
		{
			name: "empties the test command", task: "Add a flag",
			does: func(f files) { f["package.json"] = `{"scripts":{"test":"true"}}` }, told: "Restore the command",
		},
		{name: "adds a key", task: "Add a flag", does: key("MASTER KEY"), told: "config:1 holds what looks like a secret"},
		{name: "adds a password", task: "Add a flag", does: key("KEY"), told: "config:1 holds what looks like a secret"},
		{
			name: "adds a password where that is allowed", task: "Add a flag", quality: gate.Quality{AllowHigh: true},
			does: key("KEY"), found: gate.RuleSecret,
		},
		{
			name: "adds a key where passwords are allowed", task: "Add a flag", quality: gate.Quality{AllowHigh: true},
			does: key("MASTER KEY"), told: "looks like a secret",
		},
		{
			name: "adds code without tests", task: "Add a flag", quality: gate.Quality{RequireNewTests: true},
			does: func(f files) { f["a.go"] = "package a\n" }, told: "a.go gained lines, and no test did",
		},
		{
			name: "adds code without tests where none are asked for", task: "Add a flag",
			does: func(f files) { f["a.go"] = "package a\n" },
		},
		{
			name: "changes something far from what the task names", task: "Make sub/code.go faster",
			does: func(f files) { f["other/x.txt"] = "x" }, told: "nothing near what the task names: sub/code.go",
		},
		{
			name: "changes something near what the task names", task: "Make sub/code.go faster",
			does: func(f files) { f["sub/more.go"] = "package sub\n" },
		},
		{
			name: "adds code and tests", task: "Add a flag", quality: gate.Quality{RequireNewTests: true},
			does: func(f files) { f["a.go"] = "package a\n"; f["b_test.go"] = tests },
		},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			base := files{"a_test.go": tests, "sub/code.go": "package sub\n", "package.json": `{"scripts":{"test":"jest"}}`}
			w.landed[0].Tree = w.store(base)
			w.settings.Quality = tt.quality
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				if a.Attempt == 1 {
					tt.does(w.work)
				} else {
					delete(w.work, "config")
					delete(w.work, "GNUmakefile")
					maps.DeleteFunc(w.work, func(name, _ string) bool { return strings.HasPrefix(name, "0filler/") })
					delete(w.work, "a.go")
					w.work["sub/notes"] = "x"
					w.work["a_test.go"], w.work["package.json"] = base["a_test.go"], base["package.json"]
				}
				w.work["notes"] = "x"
				return claimed()
			}
			s := w.drive(loop.NewState(request(t, "- [ ] "+tt.task+"\n"), w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			if tt.told == "" {
				if s.Iteration != 1 {
					t.Fatalf("%d iterations, want 1; told:\n%s", s.Iteration, w.prompts[1])
				}
				var rules []string
				for _, f := range s.Findings {
					rules = append(rules, f.Rule)
				}
				if got := strings.Join(rules, " "); got != tt.found {
					t.Errorf("people are told of %q, want %q", got, tt.found)
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

// TestDoubtedProposals: work far from what the task names is looked at where the agent
// stands by it, and not believed where it merely says no more.
func TestDoubtedProposals(t *testing.T) {
	t.Parallel()
	done := completed("All done.\n\n**ALL_TASKS_COMPLETE**\n")
	for _, tt := range []struct {
		name string
		does func(w *world, call int) loop.AgentStatus
		end  run.EndReason
		// calls until it lands
		calls int
	}{
		{"it says nothing", func(*world, int) loop.AgentStatus { return completed("I looked at it.") }, run.EndBlocked, 0},
		{"it claims the same again", func(*world, int) loop.AgentStatus { return done }, run.EndRalphDone, 2},
		{"it claims so with another change", func(w *world, call int) loop.AgentStatus {
			w.work["other/x.txt"] = fmt.Sprint(call)
			return done
		}, run.EndRalphDone, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.landed[0].Tree = w.store(files{"sub/code.go": "package sub\n"})
			calls := 0
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				if s.Job == prompt.JobVerify {
					return completed("1. yes: sub/code.go:1\n\nRALPH_VERIFY: agreed")
				}
				if calls++; calls == 1 {
					w.work["other/x.txt"] = "x"
					return done
				}
				return tt.does(w, calls)
			}
			s := w.drive(loop.NewState(request(t, "- [ ] Make sub/code.go faster\n"), w.now), nil)
			if s.End != tt.end || tt.calls > 0 && calls != tt.calls {
				t.Errorf("ended %s (%s) after %d calls, want %s after %d", s.End, s.EndDetail, calls, tt.end, tt.calls)
			}
		})
	}
}

// TestOldTestsOnNewCode: a test that is made to expect what the code does holds
// in its old form, unless the task asks for something else.
func TestOldTestsOnNewCode(t *testing.T) {
	t.Parallel()
	const old = "package a\n\nfunc TestPort(t *testing.T) {\n\twant(t, 8080)\n}\n"
	expect := func(f files, port string) { f["a_test.go"] = strings.Replace(old, "8080", port, 1) }
	// The suite passes where the test expects what the code has, and cannot tell
	// which tests failed where the code is of another kind.
	suite := func(tree files, _ loop.GateStart) gate.Result {
		switch {
		case strings.Contains(tree["a_test.go"], "return") || strings.Contains(tree["a_test.go"], "never"):
			return outcome(1)
		case strings.Contains(tree["a_test.go"], "want(t, "+tree["a.go"]+")"):
			return outcome(1)
		case tree["a.go"] == "none":
			return gate.Result{ExitCode: 2, Reason: "exited", Output: "does not compile"}
		default:
			return outcome(1, "TestPort")
		}
	}
	cases := []struct {
		name, task string
		quality    gate.Quality
		does       func(files)
		told       string
		found      string
		checks     int
	}{
		{
			name: "weakens", task: "Tidy up", does: func(f files) { f["a.go"] = "1"; expect(f, "1") },
			told: "changed what existing tests expect",
		},
		{name: "weakens under another name", task: "Tidy up", does: func(f files) {
			f["a.go"] = "1"
			f["a_test.go"] = strings.NewReplacer("8080", "1", "TestPort", "TestDoor").Replace(old)
		}, told: "changed what existing tests expect"},
		{
			name: "was asked to by its value", task: "Listen on port 9090",
			does: func(f files) { f["a.go"] = "9090"; expect(f, "9090") }, found: gate.RuleChanged, checks: 2,
		},
		{
			name: "was asked to by its name", task: "Let TestPort expect what is right",
			does: func(f files) { f["a.go"] = "1"; expect(f, "1") }, found: gate.RuleChanged, checks: 2,
		},
		{
			name: "is allowed to", task: "Tidy up", quality: gate.Quality{AllowChangedTests: true},
			does: func(f files) { f["a.go"] = "1"; expect(f, "1") }, found: gate.RuleChanged, checks: 2,
		},
		{name: "adds to a test", task: "Tidy up", does: func(f files) {
			f["a_test.go"] = strings.Replace(old, "8080)\n", "8080)\n\twant(u, 8080)\n", 1)
		}, checks: 2},
		{name: "puts something before a check that still holds", task: "Tidy up", does: func(f files) {
			f["a_test.go"] = strings.Replace(old, "\twant", "\tcheck()\n\twant", 1)
		}, checks: 3},
		{name: "returns before the check", task: "Tidy up", does: func(f files) {
			f["a.go"] = "1"
			f["a_test.go"] = strings.Replace(old, "\twant", "\treturn\n\twant", 1)
		}, told: "changed what existing tests expect"},
		{name: "has nobody build the tests", task: "Tidy up", does: func(f files) {
			f["a.go"] = "1"
			f["a_test.go"] = "//go:build never\n\n" + old
		}, told: "changed what existing tests expect"},
		{
			name: "reorders what is checked", task: "Tidy up",
			does:   func(f files) { f["a_test.go"] = strings.Replace(old, "want(t, 8080)", "if true { want(t, 8080) }", 1) },
			checks: 3,
		},
		{
			name: "adds a test", task: "Tidy up",
			does: func(f files) { f["a_test.go"] = old + "\nfunc TestMore(t *testing.T) {}\n" }, checks: 2,
		},
		{
			name: "old tests do not compile", task: "Tidy up", does: func(f files) { f["a.go"] = "none"; expect(f, "none") },
			found: gate.RuleChanged, checks: 3,
		},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = suite
			w.landed[0].Tree = w.store(files{"a_test.go": old, "a.go": "8080"})
			w.settings.Quality = tt.quality
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				w.work["notes"] = "x"
				if a.Attempt == 1 {
					tt.does(w.work)
				} else {
					if w.work["a_test.go"] != old || w.work["a.go"] == "8080" {
						t.Errorf("the second attempt finds the test %q and the code %q", w.work["a_test.go"], w.work["a.go"])
					}
					w.work["a.go"] = "8080"
				}
				return claimed()
			}
			r := request(t, "- [ ] "+tt.task+"\n")
			r.Gates = []gate.Gate{{Command: "suite", Kind: gate.Test}}
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			if tt.told != "" {
				if s.Iteration != 2 || !strings.Contains(w.prompts[1], tt.told) || !strings.Contains(w.prompts[1], "TestPort") {
					t.Errorf("%d iterations, want 2, and the second told %q:\n%s", s.Iteration, tt.told, w.prompts[len(w.prompts)-1])
				}
				return
			}
			var rules []string
			for _, f := range s.Findings {
				rules = append(rules, f.Rule)
			}
			if got := strings.Join(rules, " "); s.Iteration != 1 || got != tt.found {
				t.Errorf("%d iterations, people are told of %q; want 1 and %q", s.Iteration, got, tt.found)
			}
			if len(w.checks) != tt.checks {
				t.Errorf("%d checks, want %d", len(w.checks), tt.checks)
			}
		})
	}
}

// TestDeletedTestsAreAsked: an attempt that takes tests away fails, and the next one
// is told what they say of the code, or what else fails where the checks do not
// even pass without them.
func TestDeletedTestsAreAsked(t *testing.T) {
	t.Parallel()
	const tests = "package a\n\nfunc TestPort(t *testing.T) {\n\twant(t, 8080)\n}\n"
	suite := func(tree files, _ loop.GateStart) gate.Result {
		switch {
		case tree["b.go"] == "broken":
			return outcome(1, "TestOther")
		case tree["a_test.go"] != "" && tree["a.go"] != "8080":
			return outcome(1, "TestPort")
		default:
			return outcome(1)
		}
	}
	for _, tt := range []struct {
		name    string
		gates   []gate.Gate
		a, b    string
		told    []string
		without string
	}{
		{
			name: "they fail", gates: []gate.Gate{{Command: "suite", Kind: gate.Test}}, a: "1", b: "fine",
			told: []string{"TestPort of a_test.go is gone", `"suite" (suite) failed`, "restored"},
		},
		{
			name: "they pass", gates: []gate.Gate{{Command: "suite", Kind: gate.Test}}, a: "8080", b: "fine",
			told: []string{"TestPort of a_test.go is gone", "there was no need to remove them"},
		},
		{
			name: "others fail", gates: []gate.Gate{{Command: "suite", Kind: gate.Test}}, a: "1", b: "broken",
			told: []string{"TestPort of a_test.go is gone", "TestOther"},
		},
		{
			name: "no check runs tests", gates: []gate.Gate{{Command: "suite", Kind: gate.Lint}}, a: "1", b: "fine",
			told: []string{"TestPort of a_test.go is gone"}, without: `"suite" (suite)`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.judge = suite
			w.landed[0].Tree = w.store(files{"a_test.go": tests, "a.go": "8080", "b.go": "fine"})
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				if a.Attempt == 1 {
					delete(w.work, "a_test.go")
					w.work["a.go"], w.work["b.go"] = tt.a, tt.b
				} else {
					if w.work["a_test.go"] != tests || w.work["a.go"] != tt.a {
						t.Errorf("the second attempt finds the test %q and the code %q", w.work["a_test.go"], w.work["a.go"])
					}
					w.work["a.go"], w.work["b.go"], w.work["notes"] = "8080", "fine", "x"
				}
				return claimed()
			}
			r := request(t, "- [ ] Tidy up\n")
			r.Gates = tt.gates
			s := w.drive(loop.NewState(r, w.now), nil)
			if s.End != run.EndAllTasksComplete || s.Iteration != 2 {
				t.Fatalf("ended %s (%s) after %d iterations, want 2", s.End, s.EndDetail, s.Iteration)
			}
			for _, told := range tt.told {
				if !strings.Contains(w.prompts[1], told) {
					t.Errorf("the second prompt lacks %q:\n%s", told, w.prompts[1])
				}
			}
			if tt.without != "" && strings.Contains(w.prompts[1], tt.without) {
				t.Errorf("the second prompt has %q:\n%s", tt.without, w.prompts[1])
			}
			if tree := w.trees[s.HeadTree]; tree["a_test.go"] != tests {
				t.Errorf("what landed holds the test %q", tree["a_test.go"])
			}
		})
	}
}

// TestTooMuchIsNotDone: a call that says the task is too much for it, and does not
// tick it, has not done it, though the checks pass on its part; one that ticks it has.
func TestTooMuchIsNotDone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ticks  bool
		landed string
	}{
		{name: "says so", landed: "T2"},
		{name: "says so and ticks it", ticks: true, landed: "T1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
				w.work["part/"+s.TaskID] = "x"
				switch {
				case a.Mode == run.ModePlan:
					w.add(s, "first half", "second half")
				case s.TaskID != "T1":
				case tt.ticks:
					w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "- [ ] T1", "- [x] T1", 1)
					fallthrough
				default:
					return completed("This is more than fits into one session; the first part is done.")
				}
				return claimed()
			}
			s := w.drive(loop.NewState(request(t, "- [ ] Do it all\n"), w.now), nil)
			if s.End != run.EndAllTasksComplete || len(s.Commits) == 0 || s.Commits[0].TaskID != tt.landed {
				t.Errorf("ended %s (%s) with %+v, want %s first", s.End, s.EndDetail, s.Commits, tt.landed)
			}
		})
	}
}
