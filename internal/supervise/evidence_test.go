package supervise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/supervise"
)

// attempt is an attempt at T1 after which these tests fail.
func attempt(n int, tests ...string) supervise.Iteration {
	it := failed(n, "T1", fmt.Sprintf("error: number %d", n))
	it.Blamed = tests
	return it
}

// TestWhatIsEvidence: which two attempts show the same, so that a third after them
// uses the attempts up.
func TestWhatIsEvidence(t *testing.T) {
	t.Parallel()
	unchanged := func(n int) supervise.Iteration {
		it := attempt(n, "a")
		it.Unchanged = true
		return it
	}
	odd := func(change func(*supervise.Iteration)) func(int) supervise.Iteration {
		return func(n int) supervise.Iteration {
			it := attempt(n, "a")
			change(&it)
			return it
		}
	}
	tests := []struct {
		name          string
		first, second func(int) supervise.Iteration
		flaky         []string
		want          bool
	}{
		{name: "the same tests", first: odd(plain), second: odd(plain), want: true},
		{name: "other tests", first: odd(plain), second: odd(func(it *supervise.Iteration) { it.Blamed = []string{"b"} })},
		{
			name: "more tests", first: odd(plain), second: odd(func(it *supervise.Iteration) { it.Blamed = []string{"a", "b"} }),
			want: true,
		},
		{
			name: "one test fewer", first: odd(func(it *supervise.Iteration) { it.Blamed = []string{"a", "b"} }),
			second: odd(plain), want: true,
		},
		{
			name: "two tests fewer", first: odd(func(it *supervise.Iteration) { it.Blamed = []string{"a", "b", "c"} }),
			second: odd(plain),
		},
		{
			name:   "one test mended and another broken",
			first:  odd(func(it *supervise.Iteration) { it.Blamed = []string{"a", "b"} }),
			second: odd(func(it *supervise.Iteration) { it.Blamed = []string{"a", "c"} }),
		},
		{name: "tests that are flaky", first: odd(plain), second: odd(plain), flaky: []string{"a"}},
		{name: "nothing changed", first: unchanged, second: unchanged, want: true},
		{
			name: "nothing changed, said in other words", first: unchanged,
			second: odd(func(it *supervise.Iteration) { it.Blamed, it.Class = nil, supervise.FailEmpty }), want: true,
		},
		{name: "tests tampered with", first: odd(tampered), second: odd(tampered)},
		{name: "protected paths", first: odd(refused), second: odd(refused), want: true},
		{name: "broken calls", first: odd(broke), second: odd(broke)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			its := []supervise.Iteration{tt.first(1), tt.second(2), attempt(3, "z")}
			h := supervise.History{Task: supervise.Task{ID: "T1", Attempts: 3, OneFile: true}, Iterations: its, Flaky: tt.flaky}
			if got := supervise.Assess(supervise.Defaults(), h).Verdict; (got.Kind == supervise.VerdictSwitchRole) != tt.want {
				t.Errorf("after them and a third attempt: %+v, want a last try: %t", got, tt.want)
			}
		})
	}
}

func plain(*supervise.Iteration) {}

func tampered(it *supervise.Iteration) {
	it.Class, it.Tampered, it.Blamed = supervise.FailRefused, true, nil
}

func refused(it *supervise.Iteration) { it.Class = supervise.FailRefused }

func broke(it *supervise.Iteration) {
	it.Outcome, it.Class, it.Blamed = supervise.Broken, supervise.FailCrash, nil
}

// TestGuidanceTellsWhatTheLastAttemptDid: its files by kind and place, how many of
// them again, and where tests and warnings went.
func TestGuidanceTellsWhatTheLastAttemptDid(t *testing.T) {
	t.Parallel()
	tested := func(n, passed int, files ...string) supervise.Iteration {
		it := failed(n, "T1", "error: boom")
		it.Files = files
		it.Metrics = supervise.Metrics{
			Gates: []supervise.GateMetrics{{Gate: "test", TestsKnown: true, TestsTotal: 10, TestsPassed: passed}},
		}
		return it
	}
	a := supervise.Assess(supervise.Defaults(), supervise.History{
		Task: supervise.Task{ID: "T1", Attempts: 2},
		Iterations: []supervise.Iteration{
			tested(1, 9, "a/a.go", "a/a_test.go"), tested(2, 7, "a/a.go", "a/a_test.go", "docs/x.md", "go.mod"),
		},
	})
	const want = "it changed 4 files (1 source, 1 test, 1 documentation, 1 configuration) in 3 areas, 50% of which had been changed by an attempt before; fewer tests pass than at the best."
	if !strings.Contains(a.Guidance, want) {
		t.Errorf("guidance lacks %q:\n%s", want, a.Guidance)
	}
	if a.Signals.Breadth != 3 || a.Signals.Churn != 0.5 || a.Signals.Tests != -1 {
		t.Errorf("signals: %+v", a.Signals)
	}
}

// TestFewCallsFollowTheEvidence: once two attempts have shown the same, no more calls
// follow than a task has attempts, whatever they come to.
func TestFewCallsFollowTheEvidence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := supervise.Defaults()
		cfg.MaxTaskAttempts = rapid.IntRange(2, 5).Draw(t, "attempts")
		h := supervise.History{
			Task:  supervise.Task{ID: "T1", OneFile: rapid.Bool().Draw(t, "one file")},
			Fresh: rapid.IntRange(0, 2).Draw(t, "fresh"),
		}
		shown := map[string]int{}
		evidence, after := false, 0
		for n := 1; ; n++ {
			if n > 200 {
				t.Fatal("the task does not come to an end")
			}
			v := supervise.Assess(cfg, h).Verdict
			if slices.Contains([]supervise.VerdictKind{supervise.VerdictGiveUp, supervise.VerdictAbort}, v.Kind) {
				return
			}
			if v.Kind == supervise.VerdictDecompose {
				h.Iterations = append(h.Iterations, planless(n))
				if evidence {
					after++
				}
			} else {
				shows := rapid.SampledFrom([]string{"nothing", "a", "b", "c", "tampered", "broken"}).Draw(t, "shows")
				it := attempt(n, shows)
				it.Verdict, it.Role = v.Kind, v.Role
				switch shows {
				case "nothing":
					it.Unchanged = true
				case "tampered":
					tampered(&it)
				case "broken":
					broke(&it)
				}
				h.Iterations = append(h.Iterations, it)
				if shows == "broken" {
					continue
				}
				h.Task.Attempts++
				if evidence {
					after++
				} else if shows != "tampered" {
					shown[shows]++
					evidence = shown[shows] == 2
				}
			}
			if after > cfg.MaxTaskAttempts {
				t.Fatalf("%d calls after the evidence, and the verdict before the last was %+v", after, v)
			}
		}
	})
}
