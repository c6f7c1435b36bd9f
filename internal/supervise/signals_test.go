package supervise_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/supervise"
)

// metrics are those of a single check.
func metrics(g supervise.GateMetrics) supervise.Metrics {
	g.Gate = "check"
	return supervise.Metrics{Gates: []supervise.GateMetrics{g}}
}

func tested(passed int) supervise.Metrics {
	return metrics(supervise.GateMetrics{TestsKnown: true, TestsTotal: 100, TestsPassed: passed})
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	type iterations = []supervise.Iteration
	tests := []struct {
		name string
		its  iterations
		// want is of the last one.
		want supervise.Signals
	}{
		{"nothing", iterations{{}}, supervise.Signals{}},
		{
			"landed", iterations{{Landed: true, LinesAdded: 10}},
			supervise.Signals{Score: 0.65, Progress: supervise.ProgressMade, Commit: 1, Lines: 0.5, Quality: 1},
		},
		{
			"landed without a change", iterations{{Landed: true}},
			supervise.Signals{Score: 0.55, Progress: supervise.ProgressMade, Commit: 1, Quality: 1},
		},
		{
			"landed though warnings grew",
			iterations{
				{Landed: true, Metrics: metrics(supervise.GateMetrics{WarningsKnown: true})},
				{Landed: true, Metrics: metrics(supervise.GateMetrics{WarningsKnown: true, Warnings: 9})},
			},
			supervise.Signals{Score: 0.25, Progress: supervise.ProgressMade, Commit: 1, Quality: -1},
		},
		{
			"many lines alone", iterations{{LinesAdded: 500, LinesRemoved: 20}},
			supervise.Signals{Score: 0.2, Progress: supervise.ProgressPartial, Lines: 1},
		},
		{"few lines alone", iterations{{LinesAdded: 10}}, supervise.Signals{Score: 0.1, Lines: 0.5}},
		{
			"the same content again", iterations{
				{LinesAdded: 40, TestsAdded: 1, Change: "x"}, {LinesAdded: 40, TestsAdded: 1, Change: "x"},
			},
			supervise.Signals{},
		},
		{
			"more tests pass", iterations{{Metrics: tested(5)}, {Metrics: tested(6), LinesAdded: 20}},
			supervise.Signals{Score: 0.45, Progress: supervise.ProgressPartial, Lines: 1, Tests: 1},
		},
		{
			"more tests pass with fewer warnings",
			iterations{
				{Metrics: metrics(supervise.GateMetrics{TestsKnown: true, WarningsKnown: true, Warnings: 3})},
				{LinesAdded: 20, Metrics: metrics(supervise.GateMetrics{TestsKnown: true, TestsPassed: 1, WarningsKnown: true})},
			},
			supervise.Signals{Score: 0.6, Progress: supervise.ProgressMade, Lines: 1, Tests: 1, Quality: 1},
		},
		{
			"as many tests pass as two calls ago", iterations{{Metrics: tested(6)}, {Metrics: tested(5)}, {Metrics: tested(6)}},
			supervise.Signals{},
		},
		{
			"fewer tests pass", iterations{{Metrics: tested(5)}, {Metrics: tested(4), LinesAdded: 40}},
			supervise.Signals{Lines: 1, Tests: -1},
		},
		{
			"tests added", iterations{{TestsAdded: 2, LinesAdded: 20}},
			supervise.Signals{Score: 0.325, Progress: supervise.ProgressPartial, Lines: 1, Tests: 0.5},
		},
		{
			"only read", iterations{{Outcome: supervise.Completed, Analysis: supervise.Analysis{Exploring: true}}},
			supervise.Signals{Progress: supervise.ProgressPartial},
		},
		{
			"files by kind",
			iterations{
				{Files: []string{"internal/a/a.go"}},
				{Files: []string{"internal/a/a.go", "internal/a/a_test.go", "README.md", "go.mod", "logo.png"}},
			},
			supervise.Signals{Source: 1, Test: 1, Docs: 1, Config: 1, Other: 1, Breadth: 2, Churn: 0.2},
		},
		{
			"files that landed are no churn", iterations{{Landed: true, Files: []string{"a.go"}}, {Files: []string{"a.go"}}},
			supervise.Signals{Source: 1, Breadth: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := supervise.Measure(tt.its)
			if len(all) != len(tt.its) {
				t.Fatalf("%d signals of %d iterations", len(all), len(tt.its))
			}
			if diff := cmp.Diff(tt.want, all[len(all)-1], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	tests := map[supervise.FileKind][]string{
		supervise.KindSource: {"main.go", "src/Cart.java", "lib/cart.rb", "src/latest.ts", "contest.py", "run.sh"},
		supervise.KindTest: {
			"a_test.go", "src/cart.test.ts", "spec/cart_spec.rb", "tests/test_cart.py", "test_cart.py",
			"src/test/java/CartTest.java", "src/CartTests.cs", "x/testdata/golden.txt", "a/__tests__/b.js", "a/b.snap",
		},
		supervise.KindDocs: {"README.md", "docs/a.rst", "LICENSE", "notes.txt"},
		supervise.KindConfig: {
			"go.mod", "package.json", ".github/workflows/ci.yml", ".gitignore", "Makefile", "Dockerfile", "Cargo.toml",
		},
		supervise.KindOther: {"logo.png", "bin/tool", "", "data.csv"},
	}
	for want, files := range tests {
		for _, f := range files {
			if got := supervise.KindOf(f); got != want {
				t.Errorf("%s: got %s, want %s", f, got, want)
			}
		}
	}
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	at := func(n int, commit string, passed int) supervise.Checkpoint {
		return supervise.Checkpoint{Iteration: n, Commit: commit, Metrics: tested(passed)}
	}
	unknown := supervise.Checkpoint{Iteration: 9}
	for _, tt := range []struct {
		name string
		all  []supervise.Checkpoint
		want int // the iteration; -1 for none
	}{
		{"none", nil, -1},
		{"most tests", []supervise.Checkpoint{at(1, "", 5), at(2, "", 7), at(3, "", 6)}, 2},
		{"the latest of equals", []supervise.Checkpoint{at(1, "", 5), at(2, "", 5)}, 2},
		{"not before the last landing", []supervise.Checkpoint{at(1, "a", 9), at(2, "b", 5), at(3, "", 4)}, 2},
		{"known beats unknown", []supervise.Checkpoint{at(1, "", 1), unknown}, 1},
		{"fewer warnings", []supervise.Checkpoint{
			{Iteration: 1, Metrics: metrics(supervise.GateMetrics{WarningsKnown: true, Warnings: 2})},
			{Iteration: 2, Metrics: metrics(supervise.GateMetrics{WarningsKnown: true, Warnings: 3})},
		}, 1},
	} {
		got, ok := supervise.Best(tt.all)
		if !ok {
			got.Iteration = -1
		}
		if got.Iteration != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got.Iteration, tt.want)
		}
	}

	if !supervise.Regressed(tested(4), tested(5)) || supervise.Regressed(tested(5), tested(5)) ||
		supervise.Regressed(supervise.Metrics{}, tested(5)) || supervise.Regressed(tested(0), supervise.Metrics{}) {
		t.Error("regressed means that both are known and fewer tests pass")
	}

	rapid.Check(t, func(t *rapid.T) {
		var kept []supervise.Checkpoint
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		for n := range rapid.IntRange(1, 20).Draw(t, "checkpoints") {
			c := at(n, rapid.SampledFrom([]string{"", "", "c"}).Draw(t, "commit"), rapid.IntRange(0, 9).Draw(t, "passed"))
			before, _ := supervise.Best(kept)
			was := append([]supervise.Checkpoint(nil), kept...)
			next := supervise.AddCheckpoint(kept, c, limit)
			if diff := cmp.Diff(was, kept, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("changed what was handed in: %s", diff)
			}
			kept = next
			after, ok := supervise.Best(kept)
			if len(kept) > limit || !ok {
				t.Fatalf("keeps %d of at most %d", len(kept), limit)
			}
			if c.Commit == "" && (supervise.Regressed(after.Metrics, before.Metrics) ||
				supervise.Regressed(after.Metrics, c.Metrics)) {
				t.Fatalf("lost the best one: %+v", kept)
			}
		}
	})
	if got := supervise.AddCheckpoint([]supervise.Checkpoint{unknown}, unknown, 0); got != nil {
		t.Errorf("keeps %v where none are wanted", got)
	}
}

func TestCheckpointDue(t *testing.T) {
	t.Parallel()
	first := supervise.Checkpoint{Metrics: tested(5), Commit: "c"}
	tests := []struct {
		name string
		it   supervise.Iteration
		cps  []supervise.Checkpoint
		want bool
	}{
		{"the first one", supervise.Iteration{Number: 1}, nil, true},
		{"after a landing", supervise.Iteration{Number: 1, Landed: true}, []supervise.Checkpoint{first}, true},
		{"better", supervise.Iteration{Number: 1, Metrics: tested(6)}, []supervise.Checkpoint{first}, true},
		{"as good", supervise.Iteration{Number: 1, Metrics: tested(5)}, []supervise.Checkpoint{first}, false},
		{"not known to be better", supervise.Iteration{Number: 1}, []supervise.Checkpoint{first}, false},
		{"long ago", supervise.Iteration{Number: 10, Metrics: tested(5)}, []supervise.Checkpoint{first}, true},
		{"long ago, but worse", supervise.Iteration{Number: 10, Metrics: tested(4)}, []supervise.Checkpoint{first}, false},
		{"there already", supervise.Iteration{Number: 3, Landed: true}, []supervise.Checkpoint{{Iteration: 3}}, false},
		{"a wait", supervise.Iteration{Number: 1, Outcome: supervise.RateLimited}, nil, false},
		{"a crash", supervise.Iteration{Number: 1, Outcome: supervise.Broken}, nil, false},
	}
	for _, tt := range tests {
		h := supervise.History{Iterations: []supervise.Iteration{tt.it}, Checkpoints: tt.cps}
		if got := supervise.CheckpointDue(supervise.Defaults(), h); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
		off := supervise.Defaults()
		off.MaxCheckpoints = 0
		if supervise.CheckpointDue(off, h) {
			t.Errorf("%s: due though none are kept", tt.name)
		}
	}
	if supervise.CheckpointDue(supervise.Defaults(), supervise.History{}) {
		t.Error("due before anything happened")
	}
}
