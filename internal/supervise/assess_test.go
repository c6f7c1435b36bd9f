package supervise_test

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// failed is a call for a task that ended with the given error.
func failed(n int, task, err string) supervise.Iteration {
	return supervise.Iteration{
		Number: n, TaskID: task, Role: supervise.Implementer, Outcome: supervise.Completed,
		Class: supervise.FailTest, Error: supervise.Normalise(err),
		Change: fmt.Sprintf("tree%d", n), Duration: time.Minute,
	}
}

// landed is a call whose work was committed.
func landed(n int, task string) supervise.Iteration {
	return supervise.Iteration{
		Number: n, TaskID: task, Role: supervise.Implementer, Outcome: supervise.Completed,
		Landed: true, LinesAdded: 30, Change: fmt.Sprintf("tree%d", n), Duration: time.Minute,
	}
}

// with is n times what f gives.
func with(n int, f func(i int) supervise.Iteration) []supervise.Iteration {
	its := make([]supervise.Iteration, 0, n)
	for i := range n {
		its = append(its, f(i+1))
	}
	return its
}

// planless is a call of a planner that came to no plan.
func planless(n int) supervise.Iteration {
	it := failed(n, "T1", "")
	it.Class, it.Error, it.Role, it.Verdict = supervise.FailEmpty, supervise.Signature{}, supervise.Planner,
		supervise.VerdictDecompose
	return it
}

func find(a supervise.Assessment, kind supervise.PatternKind) supervise.Pattern {
	for _, p := range a.Patterns {
		if p.Kind == kind {
			return p
		}
	}
	return supervise.Pattern{}
}

// lenient are the defaults without limits of their own for a task, so that a
// test sees the pattern it is about.
func lenient() supervise.Config {
	cfg := supervise.Defaults()
	cfg.MaxTaskAttempts, cfg.TaskTimeout, cfg.StagnationThreshold = 0, 0, supervise.MaxStagnationThreshold
	return cfg
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	task := supervise.Task{ID: "T1"}
	set := func(n int, change func(i int, it *supervise.Iteration)) supervise.History {
		return supervise.History{Task: task, Iterations: with(n, func(i int) supervise.Iteration {
			it := failed(i, "T1", fmt.Sprintf("error: number %c", 'a'+i))
			change(i, &it)
			return it
		})}
	}
	tests := []struct {
		kind supervise.PatternKind
		// history is one with n steps of what the pattern is about.
		history                     func(n int) supervise.History
		warning, elevated, critical int
	}{
		{supervise.PatternStagnation, func(n int) supervise.History {
			return set(n, func(int, *supervise.Iteration) {})
		}, 16, 32, 48},
		{supervise.PatternRepeatingError, func(n int) supervise.History {
			return set(n, func(_ int, it *supervise.Iteration) { it.Error = supervise.Normalise("error: boom") })
		}, 2, 3, 4},
		{supervise.PatternSharedError, func(n int) supervise.History {
			return set(n, func(i int, it *supervise.Iteration) {
				it.TaskID, it.Error = fmt.Sprintf("T%d", i), supervise.Normalise("error: no database")
			})
		}, 2, 3, 4},
		{supervise.PatternRegression, func(n int) supervise.History {
			h := set(1, func(_ int, it *supervise.Iteration) {
				it.Metrics = metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 100, TestsPassed: 100 - n})
			})
			h.Checkpoints = []supervise.Checkpoint{
				{Metrics: metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 100, TestsPassed: 100})},
			}
			return h
		}, 1, 20, 50},
		{supervise.PatternTimeOnTask, func(n int) supervise.History {
			return set(1, func(_ int, it *supervise.Iteration) { it.Duration = time.Duration(n) * time.Hour })
		}, 1, 2, 3},
	}
	covered := map[supervise.PatternKind]bool{}
	for _, tt := range tests {
		covered[tt.kind] = true
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			cfg := lenient()
			cfg.TaskTimeout = time.Hour
			for n := 1; n <= tt.critical+1; n++ {
				want := supervise.Steps{Warning: tt.warning, Elevated: tt.elevated, Critical: tt.critical}.Level(n)
				a := supervise.Assess(cfg, tt.history(n))
				got := find(a, tt.kind)
				if got.Level != want {
					t.Fatalf("%d: level %s, want %s (%+v)", n, got.Level, want, a.Patterns)
				}
				if want == supervise.None {
					continue
				}
				if got.Count != n || len(got.Iterations) == 0 || len(got.Iterations) > 10 || got.Detail == "" {
					t.Errorf("%d: evidence lacks something: %+v", n, got)
				}
				if a.Level < want {
					t.Errorf("%d: the whole is %s, below its pattern's %s", n, a.Level, want)
				}
			}
		})
	}
	for _, kind := range supervise.PatternKinds() {
		if !covered[kind] {
			t.Errorf("pattern %s has no test", kind)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	good := metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 10, TestsPassed: 10})
	bad := metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 10, TestsPassed: 9})
	start := supervise.Checkpoint{Commit: "c0", Tree: "tree0", Metrics: good}
	same := func(n int) []supervise.Iteration {
		return with(n, func(i int) supervise.Iteration { return failed(i, "T1", "error: boom") })
	}
	each := func(its []supervise.Iteration, change func(*supervise.Iteration)) []supervise.Iteration {
		for i := range its {
			change(&its[i])
		}
		return its
	}
	tests := []struct {
		name    string
		cfg     func(*supervise.Config)
		history supervise.History
		want    supervise.Verdict // Reason is not compared
	}{
		{name: "nothing happened yet", want: supervise.Verdict{Kind: supervise.VerdictProceed}},
		{
			name:    "one failure is no reason to step in",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Iterations: same(1)},
			want:    supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name:    "the same error twice",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 2}, Iterations: same(2)},
			want:    supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name:    "the same error three times, with attempts left",
			cfg:     func(c *supervise.Config) { c.MaxTaskAttempts = 10 },
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: same(3)},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name: "the debugger does not get on either",
			cfg:  func(c *supervise.Config) { c.MaxTaskAttempts = 10 },
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: each(same(3),
				func(it *supervise.Iteration) { it.Role = supervise.Debugger })},
			want: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Architect},
		},
		{
			name: "nor does the architect",
			cfg:  func(c *supervise.Config) { c.MaxTaskAttempts = 10 },
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: each(same(3),
				func(it *supervise.Iteration) { it.Role = supervise.Architect })},
			want: supervise.Verdict{Kind: supervise.VerdictNarrow},
		},
		{
			name:    "attempts used up",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: same(3)},
			want:    supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Planner},
		},
		{
			name: "the agent says it is too much",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Iterations: each(same(1),
				func(it *supervise.Iteration) { it.Class = supervise.FailTooComplex })},
			want: supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Architect},
		},
		{
			name: "out of time twice",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 2}, Iterations: each(same(2),
				func(it *supervise.Iteration) { it.Class, it.Outcome = supervise.FailTimeout, supervise.TimedOut })},
			want: supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Planner},
		},
		{
			name:    "attempts used up, split up before",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3, Decomposed: true}, Iterations: same(3)},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name:    "attempts used up, and it names one file only",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3, OneFile: true}, Iterations: same(3)},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name:    "last tries used up",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 5, OneFile: true}, Iterations: same(5)},
			want:    supervise.Verdict{Kind: supervise.VerdictGiveUp, TaskID: "T1"},
		},
		{
			name: "three attempts, each of which shows something else",
			history: supervise.History{Task: supervise.Task{
				ID: "T1", Attempts: 3, OneFile: true,
			}, Iterations: []supervise.Iteration{
				failed(1, "T1", "error: a"), failed(2, "T1", "error: b"), failed(3, "T1", "error: c"),
			}},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "four attempts, the last of which shows what the first did",
			history: supervise.History{Task: supervise.Task{
				ID: "T1", Attempts: 5, OneFile: true,
			}, Iterations: []supervise.Iteration{
				failed(1, "T1", "error: a"), failed(2, "T1", "error: b"), failed(3, "T1", "error: a"), failed(4, "T1", "error: c"),
			}},
			want: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name: "twice as many attempts, and none like another",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 6}, Iterations: []supervise.Iteration{
				failed(1, "T1", "error: a"), failed(2, "T1", "error: b"), failed(3, "T1", "error: c"),
				failed(4, "T1", "error: d"), failed(5, "T1", "error: e"), failed(6, "T1", "error: f"),
			}},
			want: supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Planner},
		},
		{
			name:    "a planner did not split it",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: append(same(3), planless(4))},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Architect, Clean: true},
		},
		{
			name: "too much for the agent, and a planner came to nothing",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Iterations: []supervise.Iteration{
				func() supervise.Iteration {
					it := failed(1, "T1", "error: boom")
					it.Analysis.TooComplex = true
					return it
				}(), planless(2),
			}},
			want: supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Planner},
		},
		{
			name: "too much for the agent, and three planners came to nothing",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Iterations: []supervise.Iteration{
				func() supervise.Iteration {
					it := failed(1, "T1", "error: boom")
					it.Analysis.TooComplex = true
					return it
				}(), planless(2), planless(3), planless(4),
			}},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "another role failed too, so that the last try begins anew",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 4, OneFile: true}, Iterations: append(same(3),
				func() supervise.Iteration {
					it := failed(4, "T1", "error: other")
					it.Role = supervise.Debugger
					return it
				}())},
			want: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Architect, Clean: true},
		},
		{
			name: "the agent says that it is too much, whatever the check says",
			history: supervise.History{Task: supervise.Task{
				ID: "T1", Attempts: 1, OneFile: true,
			}, Iterations: []supervise.Iteration{func() supervise.Iteration {
				it := failed(1, "T1", "error: boom")
				it.Analysis.TooComplex = true
				return it
			}()}},
			want: supervise.Verdict{Kind: supervise.VerdictDecompose, TaskID: "T1", Role: supervise.Architect},
		},
		{
			name: "a part fails once as the whole did",
			history: supervise.History{
				Task: supervise.Task{ID: "T7", ParentID: "T1", Attempts: 1}, Iterations: append(same(3), part(4, "T7")),
			},
			want: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name: "a part fails twice as the whole did",
			history: supervise.History{
				Task:       supervise.Task{ID: "T7", ParentID: "T1", Attempts: 2},
				Iterations: append(same(3), part(4, "T7"), part(5, "T7")),
			},
			want: supervise.Verdict{Kind: supervise.VerdictGiveUp, TaskID: "T7"},
		},
		{
			name: "another part fails as that did",
			history: supervise.History{
				Task:       supervise.Task{ID: "T8", ParentID: "T1", Attempts: 1},
				Iterations: append(same(3), part(4, "T7"), part(5, "T7"), part(6, "T8")),
			},
			want: supervise.Verdict{Kind: supervise.VerdictGiveUp, TaskID: "T1"},
		},
		{
			name: "the whole took long and its first part is fresh",
			history: supervise.History{Task: supervise.Task{ID: "T7", ParentID: "T1"}, Iterations: each(same(3),
				func(it *supervise.Iteration) {
					it.Duration, it.Class, it.Files = 10*time.Hour, supervise.FailEmpty, []string{"a.go"}
				})},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "worse than the checkpoint twice",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 2}, Checkpoints: []supervise.Checkpoint{start}, Iterations: each(same(2),
				func(it *supervise.Iteration) { it.Metrics = bad })},
			want: supervise.Verdict{Kind: supervise.VerdictRollBack, Checkpoint: start},
		},
		{
			name: "much worse at once",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Checkpoints: []supervise.Checkpoint{start}, Iterations: each(same(1),
				func(it *supervise.Iteration) {
					it.Metrics = metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 10, TestsPassed: 5})
				})},
			want: supervise.Verdict{Kind: supervise.VerdictRollBack, Checkpoint: start},
		},
		{
			name: "worse once",
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 1}, Checkpoints: []supervise.Checkpoint{start}, Iterations: each(same(1),
				func(it *supervise.Iteration) { it.Metrics = bad })},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "rolled back before",
			cfg:  func(c *supervise.Config) { c.MaxTaskAttempts = 10 },
			history: supervise.History{Task: supervise.Task{ID: "T1", Attempts: 2}, Checkpoints: []supervise.Checkpoint{start}, Iterations: each(same(2),
				func(it *supervise.Iteration) { it.Metrics, it.Verdict = bad, supervise.VerdictRollBack })},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "high risk",
			cfg: func(c *supervise.Config) {
				c.Without, c.MaxTaskAttempts = "repeating_error", 0
			},
			history: supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: each(same(4),
				func(it *supervise.Iteration) { it.Files = []string{"a.go"} })},
			want: supervise.Verdict{Kind: supervise.VerdictNarrow},
		},
		{
			name: "high risk, not to be predicted",
			cfg: func(c *supervise.Config) {
				c.Without, c.MaxTaskAttempts, c.Predictive = "repeating_error", 0, false
			},
			history: supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: func() []supervise.Iteration {
				its := each(same(4), func(it *supervise.Iteration) { it.Files = []string{"a.go"} })
				its[3].Role = supervise.Debugger
				return its
			}()},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "stagnation, first level",
			cfg:  func(c *supervise.Config) { c.MaxTaskAttempts = 0 },
			history: supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: with(5, func(i int) supervise.Iteration {
				return failed(i, "T1", fmt.Sprintf("error: number %c", 'a'+i))
			})},
			want: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name:    "stagnation to the end",
			history: supervise.History{Task: supervise.Task{ID: "T5", Attempts: 8}, Iterations: hopeless(15)},
			want:    supervise.Verdict{Kind: supervise.VerdictAbort},
		},
		{
			name:    "stagnation, the task at hand has a last try",
			history: supervise.History{Task: supervise.Task{ID: "T5", Attempts: 3}, Iterations: hopeless(15)},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name:    "stagnation, the task at hand is fresh",
			history: supervise.History{Task: supervise.Task{ID: "T6"}, Iterations: hopeless(15)},
			want:    supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name:    "stagnation, other tasks are fresh",
			history: supervise.History{Task: supervise.Task{ID: "T5", Attempts: 8}, Fresh: 2, Iterations: hopeless(15)},
			want:    supervise.Verdict{Kind: supervise.VerdictGiveUp, TaskID: "T5"},
		},
		{
			name:    "stagnation for which others are to blame",
			history: supervise.History{Task: supervise.Task{ID: "T6", Attempts: 1}, Fresh: 2, Iterations: hopeless(16)},
			want:    supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Debugger},
		},
		{
			name:    "stagnation, the fresh ones had their chance",
			history: supervise.History{Task: supervise.Task{ID: "T16"}, Fresh: 7, Iterations: hopeless(45)},
			want:    supervise.Verdict{Kind: supervise.VerdictAbort},
		},
		{
			name: "the same failing test in four tasks, others are fresh",
			history: supervise.History{
				Task: supervise.Task{ID: "T4", Attempts: 1}, Fresh: 3, Iterations: everywhere(supervise.FailTest),
			},
			want: supervise.Verdict{Kind: supervise.VerdictGiveUp, TaskID: "T4"},
		},
		{
			name:    "the same failing test in four tasks, the one at hand is fresh",
			history: supervise.History{Task: supervise.Task{ID: "T5"}, Iterations: everywhere(supervise.FailTest)},
			want:    supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name:    "the same failing test in four tasks, and no other is left",
			history: supervise.History{Task: supervise.Task{ID: "T4", Attempts: 1}, Iterations: everywhere(supervise.FailTest)},
			want:    supervise.Verdict{Kind: supervise.VerdictAbort},
		},
		{
			name:    "nothing compiles in four tasks",
			history: supervise.History{Task: supervise.Task{ID: "T5"}, Fresh: 3, Iterations: everywhere(supervise.FailCompile)},
			want:    supervise.Verdict{Kind: supervise.VerdictAbort},
		},
		{
			name:    "four tasks changed nothing",
			history: supervise.History{Task: supervise.Task{ID: "T4", Attempts: 1}, Iterations: everywhere(supervise.FailEmpty)},
			want:    supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "a person has changed the task",
			history: supervise.History{
				Task: supervise.Task{ID: "T1"}, Acknowledged: map[string]int{"T1": 9}, Iterations: same(9),
			},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
		{
			name: "a person has answered to all of it",
			history: supervise.History{
				Task: supervise.Task{
					ID: "T5",
				}, Acknowledged: map[string]int{
					"T1": 18, "T2": 18, "T3": 18, "T4": 18, "T5": 18, "T6": 18,
				}, Iterations: hopeless(18),
			},
			want: supervise.Verdict{Kind: supervise.VerdictProceed},
		},
	}
	covered := map[supervise.VerdictKind]bool{}
	for _, tt := range tests {
		covered[tt.want.Kind] = true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := supervise.Defaults()
			if tt.cfg != nil {
				tt.cfg(&cfg)
			}
			a := supervise.Assess(cfg, tt.history)
			got := a.Verdict
			if (got.Reason == "") != (got.Kind == supervise.VerdictProceed) {
				t.Errorf("reason %q of %s", got.Reason, got.Kind)
			}
			got.Reason = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("%s\n%+v", diff, a)
			}
			ends := got.Kind == supervise.VerdictGiveUp || got.Kind == supervise.VerdictAbort
			if ends != (a.Diagnostics != "") || ends && a.Guidance != "" {
				t.Errorf("%s with diagnostics %q and guidance %q", got.Kind, a.Diagnostics, a.Guidance)
			}
			if !ends && got.Kind != supervise.VerdictProceed && a.Guidance == "" {
				t.Errorf("%s without guidance", got.Kind)
			}
		})
	}
	for _, kind := range supervise.VerdictKinds() {
		if !covered[kind] {
			t.Errorf("verdict %s has no test", kind)
		}
	}
}

// part is a call for a part of T1 that ended in the error of [TestVerdicts].
func part(n int, task string) supervise.Iteration {
	it := failed(n, task, "error: boom")
	it.ParentID = "T1"
	return it
}

// everywhere are four tasks that fail with one error of the given class.
func everywhere(class supervise.FailureClass) []supervise.Iteration {
	return with(4, func(i int) supervise.Iteration {
		it := failed(i, fmt.Sprintf("T%d", i), "error: no database")
		it.Class = class
		return it
	})
}

// hopeless are n iterations of tasks with three attempts each, none of which
// lands; each fails in a way of its own.
func hopeless(n int) []supervise.Iteration {
	return with(n, func(i int) supervise.Iteration {
		return failed(i, fmt.Sprintf("T%d", (i+2)/3), fmt.Sprintf("error: number %c", 'a'+i))
	})
}

func TestDiagnosticsTellThePersonEverything(t *testing.T) {
	t.Parallel()
	its := with(6, func(i int) supervise.Iteration { return failed(i, "T1", "error: boom RALPH\u200b_DONE") })
	its[2].Verdict, its[2].Role = supervise.VerdictSwitchRole, supervise.Debugger
	its[3] = supervise.Iteration{
		Number: 4, TaskID: "T1", Role: supervise.Planner, Outcome: supervise.Completed, Landed: true,
		Verdict: supervise.VerdictDecompose,
	}
	for i := range its[4:] {
		its[4+i].TaskID, its[4+i].ParentID = "T4", "T1"
	}
	a := supervise.Assess(supervise.Defaults(), supervise.History{
		Task: supervise.Task{ID: "T4", ParentID: "T1", Attempts: 2}, Iterations: its,
	})
	want := `Gave up task T4: the same error 4 times: error: boom (…).

What repeated:
- repeating_error (critical): the same error 4 times: error: boom (…), in iterations 2, 3, 5, 6
- stagnation (warning): 5 iterations without progress, in iterations 1, 2, 3, 5, 6

The last error (iteration 6, task T4, test):
- error: boom (…)

What was tried:
- switch_role before iteration 3 (debugger)
- decompose before iteration 4 (planner)

What to do:
- Run the failing check yourself. If the task cannot pass it, correct the task or the check; otherwise describe in the task how to solve it, then retry it.
`
	if diff := cmp.Diff(want, a.Diagnostics); diff != "" {
		t.Error(diff)
	}
}

func TestDiagnosticsQuoteWhatTheAgentAsked(t *testing.T) {
	t.Parallel()
	its := with(8, func(i int) supervise.Iteration { return failed(i, "T1", fmt.Sprintf("error: number %c", 'a'+i)) })
	for i := range its {
		its[i].Analysis = supervise.AnalyseOutput("I had a look.\nWhich database should\x1b I use?", supervise.Activity{})
	}
	a := supervise.Assess(supervise.Defaults(), supervise.History{
		Task: supervise.Task{ID: "T1", Attempts: 8, Decomposed: true}, Iterations: its,
	})
	if want := "\nWhat the agent asked:\n- Which database should I use?\n"; a.Verdict.Kind != supervise.VerdictGiveUp ||
		!strings.Contains(a.Diagnostics, want) {
		t.Errorf("%s: no %q in\n%s", a.Verdict.Kind, want, a.Diagnostics)
	}
}

func TestAdviceFitsTheTrouble(t *testing.T) {
	t.Parallel()
	of := func(n int, change func(it *supervise.Iteration)) supervise.History {
		return supervise.History{Task: supervise.Task{ID: "T1", Attempts: n, Decomposed: true}, Iterations: with(n,
			func(i int) supervise.Iteration {
				it := failed(i, "T1", fmt.Sprintf("error: number %c", 'a'+i))
				change(&it)
				return it
			})}
	}
	class := func(c supervise.FailureClass) supervise.History {
		return of(8, func(it *supervise.Iteration) { it.Class = c })
	}
	shared := of(4, func(it *supervise.Iteration) {
		it.TaskID, it.Error = fmt.Sprintf("T%d", it.Number), supervise.Normalise("error: no database")
	})
	tests := []struct {
		name    string
		history supervise.History
		want    string
	}{
		{"shared error", shared, "outside the tasks"},
		{"questions", of(8, func(it *supervise.Iteration) { it.Analysis.Asked = "Which?" }), "Answer the agent's question"},
		{"refusals", class(supervise.FailRefused), "Make the change to the protected files yourself"},
		{"compile", class(supervise.FailCompile), "Run the failing check yourself"},
		{"timeout", class(supervise.FailTimeout), "allow more time"},
		{"crash", class(supervise.FailCrash), "Check the agent"},
		{"empty", class(supervise.FailEmpty), "anything left to do"},
		{"too complex", class(supervise.FailTooComplex), "Split the task"},
		{"missing context", class(supervise.FailMissingContext), "what the agent could not find"},
		{"unknown", class(supervise.FailUnknown), "Read the last attempts"},
		{
			"no task at hand", supervise.History{Task: supervise.Task{ID: "T99"}, Iterations: hopeless(45)},
			"Run the failing check yourself",
		},
	}
	for _, tt := range tests {
		_, got, ok := strings.Cut(supervise.Assess(supervise.Defaults(), tt.history).Diagnostics, "What to do:\n- ")
		if !ok || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}

func TestRunsThatLandAreNotStopped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h supervise.History
		for task := range rapid.IntRange(1, 60).Draw(t, "tasks") {
			for range rapid.IntRange(0, 2).Draw(t, "failures") {
				h.Iterations = append(h.Iterations, failed(len(h.Iterations)+1, fmt.Sprintf("T%d", task),
					rapid.SampledFrom([]string{"error: a", "error: b", "--- FAIL: TestX"}).Draw(t, "error")))
				attempts := 0
				for i := len(h.Iterations) - 1; i >= 0 && !h.Iterations[i].Landed; i-- {
					attempts++
				}
				h.Task = supervise.Task{ID: fmt.Sprintf("T%d", task), Attempts: attempts}
				if v := supervise.Assess(supervise.Defaults(), h).Verdict; v.Kind == supervise.VerdictAbort ||
					v.Kind == supervise.VerdictGiveUp {
					t.Fatalf("a run that lands task after task is told to %s: %s", v.Kind, v.Reason)
				}
			}
			h.Iterations = append(h.Iterations, landed(len(h.Iterations)+1, fmt.Sprintf("T%d", task)))
		}
	})
}

// hopelessRun plays a run none of whose tasks can be solved, the way a loop is
// meant to ask and to obey, and counts the iterations: of planners, of the
// first task, and of all. errorOf gives what the n-th iteration ends with.
func hopelessRun(
	t *testing.T, cfg supervise.Config, tasks int, errorOf func(n int, task string) string,
) (planned, first, all int) {
	t.Helper()
	type todo struct {
		supervise.Task
		blocked bool
	}
	var open []todo
	for i := range tasks {
		open = append(open, todo{Task: supervise.Task{ID: fmt.Sprintf("T%d", i+1)}})
	}
	var h supervise.History
	for range 1000 {
		at := -1
		h.Fresh = 0
		for i := range open {
			if open[i].blocked {
				continue
			}
			if at < 0 {
				at = i
			} else if open[i].Attempts == 0 {
				h.Fresh++
			}
		}
		if at < 0 {
			return planned, first, all
		}
		h.Task = open[at].Task
		v := supervise.Assess(cfg, h).Verdict
		switch v.Kind {
		case supervise.VerdictAbort:
			return planned, first, all
		case supervise.VerdictGiveUp:
			for i := range open {
				if i == at || open[i].ParentID == v.TaskID {
					open[i].blocked = true
				}
			}
			continue
		case supervise.VerdictDecompose:
			all++
			planned++
			h.Iterations = append(h.Iterations, supervise.Iteration{
				Number: all, TaskID: v.TaskID, Role: v.Role, Outcome: supervise.Completed, Landed: v.Role == supervise.Planner,
				Verdict: v.Kind,
			})
			open[at].Decomposed, open[at].blocked = true, true
			for part := range 3 {
				open = append(open, todo{Task: supervise.Task{ID: fmt.Sprintf("%s.%d", v.TaskID, part), ParentID: v.TaskID}})
			}
			continue
		case supervise.VerdictProceed, supervise.VerdictNarrow, supervise.VerdictSwitchRole, supervise.VerdictRollBack:
		}
		all++
		if open[at].ID == "T1" || open[at].ParentID == "T1" {
			first++
		}
		it := failed(all, open[at].ID, errorOf(all, open[at].ID))
		it.ParentID, it.Verdict = open[at].ParentID, v.Kind
		h.Iterations = append(h.Iterations, it)
		open[at].Attempts++
	}
	t.Fatal("the run does not come to an end")
	return 0, 0, 0
}

func TestHopelessRunsComeToAnEnd(t *testing.T) {
	t.Parallel()
	own := func(_ int, task string) string { return "error: " + strings.SplitN(task, ".", 2)[0] + " cannot work" }
	tests := []struct {
		name          string
		tasks         int
		cfg           func(*supervise.Config)
		errorOf       func(int, string) string
		planned       int
		maxFirst, max int
	}{
		// Three attempts are the evidence; a plan, two attempts at a part and one at
		// the next follow.
		// Where none is like another, the run ends for want of progress.
		{name: "one task, one error", tasks: 1, errorOf: own, planned: 1, maxFirst: 6, max: 7},
		{
			name: "one task, no limit of attempts", tasks: 1, errorOf: own,
			cfg: func(c *supervise.Config) { c.MaxTaskAttempts = 0 }, planned: 1, maxFirst: 7, max: 8,
		},
		{
			name: "one task, ever new errors", tasks: 1,
			errorOf: func(n int, _ string) string { return fmt.Sprintf("error: number %c", 'a'+n) }, planned: 1, maxFirst: 16,
			max: 17,
		},
		{
			name: "one error everywhere", tasks: 20, errorOf: func(int, string) string { return "error: no database" },
			planned: 3, maxFirst: 6, max: 34,
		},
		{name: "many tasks, each with an error of its own", tasks: 20, errorOf: own, planned: 14, maxFirst: 4, max: 59},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := supervise.Defaults()
			if tt.cfg != nil {
				tt.cfg(&cfg)
			}
			planned, first, all := hopelessRun(t, cfg, tt.tasks, tt.errorOf)
			if planned > tt.planned || first > tt.maxFirst || all > tt.max {
				t.Errorf("%d plans, %d iterations of the first task, %d in all; want at most %d, %d, %d", planned, first, all,
					tt.planned, tt.maxFirst, tt.max)
			}
		})
	}
}

func TestWaitsAreNoEvidence(t *testing.T) {
	t.Parallel()
	h := supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: with(40, func(i int) supervise.Iteration {
		return supervise.Iteration{
			Number: i, TaskID: "T1", Outcome: supervise.RateLimited, Class: supervise.FailRateLimit,
			Error: supervise.Normalise("429"),
		}
	})}
	if a := supervise.Assess(supervise.Defaults(), h); a.Level != supervise.None ||
		a.Verdict.Kind != supervise.VerdictProceed {
		t.Errorf("40 waits: %+v", a)
	}
}

func TestReadingIsAllowedOnAFreshTask(t *testing.T) {
	t.Parallel()
	read := func(i int) supervise.Iteration {
		return supervise.Iteration{
			Number: i, TaskID: "T1", Outcome: supervise.Completed, Class: supervise.FailEmpty,
			Analysis: supervise.Analysis{Exploring: true},
		}
	}
	cfg := supervise.Defaults()
	cfg.MaxTaskAttempts = 0
	for _, tt := range []struct {
		reads int
		want  supervise.Level
	}{{5, supervise.None}, {9, supervise.None}, {10, supervise.Warning}, {20, supervise.Critical}} {
		h := supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: with(tt.reads, read)}
		if got := supervise.Assess(cfg, h).Level; got != tt.want {
			t.Errorf("%d calls that only read: %s, want %s", tt.reads, got, tt.want)
		}
	}
}

func BenchmarkAssess(b *testing.B) {
	h := supervise.History{Task: supervise.Task{ID: "T1", Attempts: 2}}
	for i := 1; i <= 500; i++ {
		it := failed(i, "T1", "error: boom")
		for f := range 20 {
			it.Files = append(it.Files, fmt.Sprintf("internal/some/package/file%d_%d.go", i%3, f))
		}
		it.Metrics = metrics(supervise.GateMetrics{
			TestsKnown: true, TestsTotal: 100, TestsPassed: 100 - i%10, WarningsKnown: true, Warnings: i % 7,
		})
		h.Iterations = append(h.Iterations, it)
	}
	for i := range 20 {
		h.Checkpoints = append(h.Checkpoints, supervise.Checkpoint{
			Iteration: i, Metrics: metrics(supervise.GateMetrics{TestsKnown: true, TestsPassed: 100}),
		})
	}
	cfg := lenient()
	b.ReportAllocs()
	for b.Loop() {
		if a := supervise.Assess(cfg, h); a.Level != supervise.Critical {
			b.Fatal(a.Level)
		}
	}
}

// anyIteration draws one from few values, so that things repeat, and now and
// then something absurd.
func anyIteration(n int) *rapid.Generator[supervise.Iteration] {
	return rapid.Custom(func(t *rapid.T) supervise.Iteration {
		count := rapid.OneOf(rapid.IntRange(0, 12), rapid.SampledFrom([]int{-1, math.MinInt, math.MaxInt, 1000}))
		it := supervise.Iteration{
			Number:   n,
			TaskID:   rapid.SampledFrom([]string{"", "T1", "T2", "T3"}).Draw(t, "task"),
			ParentID: rapid.SampledFrom([]string{"", "", "T1"}).Draw(t, "parent"),
			Role:     rapid.SampledFrom(append(run.Roles(), "")).Draw(t, "role"),
			Outcome: rapid.SampledFrom([]supervise.Outcome{
				supervise.Completed, supervise.GaveUp, supervise.TimedOut, supervise.Broken, supervise.RateLimited,
				supervise.OverBudget, "?",
			}).Draw(t, "outcome"),
			Landed:   rapid.IntRange(0, 4).Draw(t, "landed") == 0,
			Duration: time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(time.Hour)), rapid.Int64()).Draw(t, "duration")),
			Class:    rapid.SampledFrom(append(supervise.FailureClasses(), "")).Draw(t, "class"),
			Error: supervise.Normalise(rapid.SampledFrom([]string{
				"", "error: a", "--- FAIL: RALPH_DONE (0.1s)", "x_test.go:3: <promise>COMPLETE</promise>",
			}).Draw(t, "error")),
			Files: rapid.SliceOfN(rapid.SampledFrom([]string{"a.go", "a_test.go", "docs/x.md", "RALPH_DONE"}), 0, 4).Draw(t,
				"files"),
			Change:     rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "change"),
			LinesAdded: count.Draw(t, "lines"), TestsAdded: count.Draw(t, "tests"),
			Metrics: metrics(supervise.GateMetrics{
				TestsKnown: rapid.Bool().Draw(t, "known"), TestsTotal: count.Draw(t, "total"), TestsPassed: count.Draw(t, "passed"),
				WarningsKnown: rapid.Bool().Draw(t, "warned"), Warnings: count.Draw(t, "warnings"),
			}),
			Analysis: supervise.Analysis{
				Exploring: rapid.Bool().Draw(t, "exploring"),
			},
			ClaimedDone: rapid.Bool().Draw(t, "claimed"),
			Verdict:     rapid.SampledFrom(append(supervise.VerdictKinds(), "")).Draw(t, "verdict"),
		}
		return it
	})
}

func anyHistory(limit int) *rapid.Generator[supervise.History] {
	return rapid.Custom(func(t *rapid.T) supervise.History {
		var h supervise.History
		for n := range rapid.IntRange(0, limit).Draw(t, "iterations") {
			h.Iterations = append(h.Iterations, anyIteration(n+1).Draw(t, "iteration"))
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "checkpoints") {
			h.Checkpoints = append(h.Checkpoints, supervise.Checkpoint{
				Iteration: n, Commit: rapid.SampledFrom([]string{"", "c"}).Draw(t, "commit"),
				Metrics: anyIteration(n).Draw(t, "checkpoint").Metrics,
			})
		}
		h.Task = supervise.Task{
			ID:         rapid.SampledFrom([]string{"", "T1", "T2", "RALPH_DONE"}).Draw(t, "task"),
			ParentID:   rapid.SampledFrom([]string{"", "", "T1"}).Draw(t, "parent"),
			Attempts:   rapid.IntRange(-1, 4).Draw(t, "attempts"),
			Decomposed: rapid.Bool().Draw(t, "decomposed"),
		}
		h.Fresh = rapid.IntRange(-1, 3).Draw(t, "fresh")
		h.Acknowledged = map[string]int{"T1": rapid.SampledFrom([]int{0, 0, 2, 9}).Draw(t, "acknowledged")}
		return h
	})
}

func TestAssessIsTotalAndDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHistory(30).Draw(t, "history")
		cfg := supervise.Defaults()
		if rapid.Bool().Draw(t, "absurd configuration") {
			n := rapid.SampledFrom([]int{0, -5, math.MaxInt})
			cfg = supervise.Config{
				StagnationThreshold: n.Draw(t, "threshold"), TaskTimeout: time.Duration(n.Draw(t, "timeout")),
				MaxTaskAttempts: n.Draw(t, "attempts"),
				Predictive:      true,
			}
		}
		a := supervise.Assess(cfg, h)
		if diff := cmp.Diff(a, supervise.Assess(cfg, h)); diff != "" {
			t.Fatalf("not deterministic: %s", diff)
		}
		if a.Risk.Score < 0 || a.Risk.Score > 1 || a.Verdict.Kind == "" || a.Level < supervise.None ||
			a.Level > supervise.Critical {
			t.Fatalf("out of range: %+v", a)
		}
		for _, said := range []string{a.Guidance, a.Strategy.Guidance, a.Diagnostics, a.Verdict.Reason} {
			for _, mark := range []string{"RALPH_DONE", "<promise>", "ALL_TASKS_COMPLETE"} {
				if strings.Contains(said, mark) {
					t.Fatalf("says %q: %q", mark, said)
				}
			}
			if len(said) > 4000 {
				t.Fatalf("says %d bytes", len(said))
			}
		}
	})
}

func TestMoreOfTheSameFailureNeverLowersTheLevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHistory(40).Draw(t, "history")
		it := anyIteration(len(h.Iterations)+1).Draw(t, "failure")
		it.Landed = false
		h.Acknowledged = nil // what a person has answered to is no evidence any more
		if it.TaskID == "" {
			it.TaskID = "T1"
		}
		h.Iterations = append(h.Iterations, it)
		h.Task.ID, h.Task.ParentID = it.TaskID, it.ParentID
		cfg := supervise.Defaults()
		level := supervise.Assess(cfg, h).Level
		for range 20 {
			it.Number++
			h.Iterations = append(h.Iterations, it)
			next := supervise.Assess(cfg, h).Level
			if next < level && it.Number > h.Acknowledged["T1"]+1 { // else the first that counts
				t.Fatalf("iteration %d lowers the level from %s to %s", it.Number, level, next)
			}
			level = next
		}
		if it.Outcome != supervise.RateLimited && it.Outcome != supervise.OverBudget && it.Number > h.Acknowledged["T1"]+20 &&
			level != supervise.Critical {
			t.Fatalf("20 times the same failure are only %s", level)
		}
	})
}
