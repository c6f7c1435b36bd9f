package supervise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/supervise"
)

func TestStrategies(t *testing.T) {
	t.Parallel()
	goTest := "--- FAIL: TestTotal (0.00s)\n    cart_test.go:21: got 3, want 4"
	tests := []struct {
		name  string
		class supervise.FailureClass
		err   string
		times int
		task  supervise.Task
		by    supervise.Outcome
		want  supervise.StrategyKind
		says  []string
	}{
		{name: "nothing failed", want: supervise.StrategyNone},
		{
			name: "compile", class: supervise.FailCompile, err: "./cart.go:14:9: undefined: total", times: 1,
			want: supervise.IsolatedFix, says: []string{"only this compilation error", "`cart.go:14`"},
		},
		{
			name: "lint", class: supervise.FailLint, err: "src/cart.js:3:10: warning: unused", times: 1,
			want: supervise.IsolatedFix, says: []string{"linter", "`src/cart.js:3`"},
		},
		{
			name: "a check hangs", class: supervise.FailTimeout, err: "panic: test timed out", times: 1, by: supervise.Completed,
			want: supervise.IsolatedFix, says: []string{"hang"},
		},
		{
			name: "test", class: supervise.FailTest, err: goTest, times: 1, want: supervise.TestFirst,
			says: []string{"Read `TestTotal` first", "Do not change or delete the test"},
		},
		{
			name: "many tests", class: supervise.FailTest,
			err: "--- FAIL: A (0s)\n--- FAIL: B (0s)\n--- FAIL: C (0s)\n--- FAIL: D (0s)\n--- FAIL: E (0s)", times: 1,
			want: supervise.TestFirst, says: []string{"`A`, `B`, `C` and 2 more"},
		},
		{
			name: "a test without a name", class: supervise.FailTest, err: "error: failed", times: 1, want: supervise.TestFirst,
			says: []string{"the failing test"},
		},
		{
			name: "a test with the name of a mark", class: supervise.FailTest, err: "--- FAIL: Test`RALPH_DONE (0s)", times: 1,
			want: supervise.TestFirst, says: []string{"`Test'(…)`"},
		},
		{
			name: "the same test again and again", class: supervise.FailTest, err: goTest, times: 3,
			want: supervise.ChangeApproach, says: []string{"another way"},
		},
		{
			name: "the same compile error again and again", class: supervise.FailCompile,
			err: "./cart.go:14:9: undefined: total", times: 3, want: supervise.ChangeApproach,
		},
		{
			name: "too complex", class: supervise.FailTooComplex, times: 1, want: supervise.Decompose,
			says: []string{"first part only"},
		},
		{
			name: "too complex, split up before", class: supervise.FailTooComplex, times: 1,
			task: supervise.Task{Decomposed: true}, want: supervise.ChangeApproach,
		},
		{
			name: "a part is too complex", class: supervise.FailTooComplex, times: 1, task: supervise.Task{ParentID: "T0"},
			want: supervise.ChangeApproach,
		},
		{
			name: "the agent ran out of time", class: supervise.FailTimeout, times: 1, by: supervise.TimedOut,
			want: supervise.Decompose,
		},
		{
			name: "missing context", class: supervise.FailMissingContext, times: 1, want: supervise.GatherContext,
			says: []string{"Gather what you need first"},
		},
		{
			name: "missing context again and again", class: supervise.FailMissingContext, times: 3,
			want: supervise.ChangeApproach,
		},
		{name: "rate limit", class: supervise.FailRateLimit, times: 1, want: supervise.WaitForProvider},
		{name: "crash", class: supervise.FailCrash, times: 1, want: supervise.RetryFresh, says: []string{"broke off"}},
		{name: "empty", class: supervise.FailEmpty, times: 1, want: supervise.RetryFresh, says: []string{"changed no file"}},
		{name: "empty again", class: supervise.FailEmpty, times: 2, want: supervise.ChangeApproach},
		{name: "unknown", class: supervise.FailUnknown, times: 1, want: supervise.RetryFresh, says: []string{"fix that"}},
		{
			name: "refused", class: supervise.FailRefused, times: 1, want: supervise.ChangeApproach,
			says: []string{"Leave those files alone"},
		},
	}
	kinds, classes := map[supervise.StrategyKind]bool{}, map[supervise.FailureClass]bool{}
	for _, tt := range tests {
		kinds[tt.want], classes[tt.class] = true, true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.task.ID = "T1"
			h := supervise.History{Task: tt.task, Iterations: with(tt.times, func(i int) supervise.Iteration {
				it := failed(i, "T1", tt.err)
				it.ParentID, it.Class = tt.task.ParentID, tt.class
				if tt.by != "" {
					it.Outcome = tt.by
				}
				return it
			})}
			got := supervise.StrategyFor(tt.class, h)
			if got.Kind != tt.want {
				t.Fatalf("got %s, want %s", got.Kind, tt.want)
			}
			silent := tt.want == supervise.StrategyNone || tt.want == supervise.WaitForProvider
			if (got.Guidance == "") != silent {
				t.Errorf("guidance of %s: %q", got.Kind, got.Guidance)
			}
			for _, words := range tt.says {
				if !strings.Contains(got.Guidance, words) {
					t.Errorf("guidance lacks %q: %s", words, got.Guidance)
				}
			}
			if a := supervise.Assess(lenient(), h); a.Strategy != got {
				t.Errorf("Assess says %+v, StrategyFor %+v", a.Strategy, got)
			}
		})
	}
	for _, k := range supervise.StrategyKinds() {
		if !kinds[k] {
			t.Errorf("strategy %s has no test", k)
		}
	}
	for _, c := range supervise.FailureClasses() {
		if !classes[c] {
			t.Errorf("class %s has no strategy under test", c)
		}
	}
}

func TestGuidanceSaysWhatToDoAboutEachPattern(t *testing.T) {
	t.Parallel()
	its := with(3, func(i int) supervise.Iteration {
		it := failed(i, "T1", "error: boom")
		return it
	})
	cfg := lenient()
	cfg.MaxTaskAttempts = 10
	got := supervise.Assess(cfg, supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3}, Iterations: its}).Guidance
	for _, words := range []string{"Find the cause of the failure", "another way", "same error came up 3 times"} {
		if !strings.Contains(got, words) {
			t.Errorf("guidance lacks %q: %s", words, got)
		}
	}
	if len(got) > 2000 {
		t.Errorf("guidance has %d bytes", len(got))
	}
}

func TestRiskAddsUpItsParts(t *testing.T) {
	t.Parallel()
	history := func(n int, change func(i int, it *supervise.Iteration)) supervise.History {
		return supervise.History{Task: supervise.Task{ID: "T1"}, Iterations: with(n, func(i int) supervise.Iteration {
			it := failed(i, "T1", fmt.Sprintf("error: number %c", 'a'+i))
			change(i, &it)
			return it
		})}
	}
	same := supervise.Normalise("error: boom")
	tests := []struct {
		name    string
		history supervise.History
		want    float64
		reasons int
	}{
		{"nothing", supervise.History{}, 0, 0},
		{
			"one file in three iterations", history(3, func(_ int, it *supervise.Iteration) { it.Files = []string{"a.go"} }), 0,
			0,
		},
		{
			"one file in four iterations", history(4, func(_ int, it *supervise.Iteration) { it.Files = []string{"a.go"} }), 0.3,
			1,
		},
		{"tests flat for four iterations", history(4, func(_ int, it *supervise.Iteration) {
			it.Metrics = metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 9})
		}), 0, 0},
		{"tests flat for five iterations", history(5, func(_ int, it *supervise.Iteration) {
			it.Metrics = metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 9})
		}), 0.2, 1},
		{"tests grow", history(5, func(i int, it *supervise.Iteration) {
			it.Metrics = metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 9 + i})
		}), 0, 0},
		{"half of the errors repeat", history(2, func(_ int, it *supervise.Iteration) { it.Error = same }), 0, 0},
		{"two thirds of the errors repeat", history(3, func(_ int, it *supervise.Iteration) { it.Error = same }), 0.4, 1},
		{"a switch of roles", history(3, func(i int, it *supervise.Iteration) {
			it.Role = []supervise.Role{"", supervise.Implementer, supervise.Implementer, supervise.Debugger}[i]
		}), 0.2, 1},
		{"a switch of roles long ago", history(4, func(i int, it *supervise.Iteration) {
			it.Role = []supervise.Role{"", supervise.Implementer, supervise.Debugger, supervise.Debugger, supervise.Debugger}[i]
		}), 0, 0},
		{"all of it", history(5, func(i int, it *supervise.Iteration) {
			it.Files, it.Error, it.Metrics = []string{"a.go"}, same,
				metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 9})
			if i == 5 {
				it.Role = supervise.Debugger
			}
		}), 1, 4},
	}
	for _, tt := range tests {
		got := supervise.Assess(lenient(), tt.history).Risk
		if diff := got.Score - tt.want; diff > 1e-9 || diff < -1e-9 || len(got.Reasons) != tt.reasons {
			t.Errorf("%s: got %+v, want %v", tt.name, got, tt.want)
		}
	}
}
