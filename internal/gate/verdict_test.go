package gate_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

func red(names ...string) gate.Result {
	return gate.Result{
		ExitCode: 1, Reason: "exited",
		Facts: gate.Facts{Known: true, Passed: 20 - len(names), Failed: len(names), FailedTests: names},
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	green := gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: true, Passed: 18}}
	bare := gate.Result{ExitCode: 1, Reason: "exited"}
	slow := gate.Result{ExitCode: -1, Reason: "wall_timeout"}
	cut := red("a")
	cut.Facts.Cut = true
	few := red("z")
	few.Facts.Passed = 17
	again := func(all ...gate.Result) []gate.Result { return all }
	ref := func(r gate.Result) *gate.Result { return &r }
	type testCase struct {
		name    string
		gate    gate.Gate
		quality gate.Quality
		task    string
		first   gate.Result
		base    *gate.Result
		again   []gate.Result
		want    gate.Standing
		need    gate.Need
	}
	tests := []testCase{
		{name: "passes", first: green, want: gate.Passed},
		{name: "advisory", gate: gate.Gate{Advisory: true}, first: bare, want: gate.Noted},
		{name: "ended from outside", first: gate.Result{Reason: "it ran out of memory"}, want: gate.Failed},
		{name: "a failure asks for the base", first: red("a"), need: gate.Baseline},
		{name: "new failure is run again", first: red("a"), base: &green, need: gate.Again},
		{name: "new failure", first: red("a"), base: &green, again: again(red("a")), want: gate.Failed},
		{name: "flaky", first: red("a"), base: &green, again: again(green), want: gate.Flaky},
		{
			name: "flaky beside known ones", first: red("a", "b"), base: ref(red("a")), again: again(red("a")), want: gate.Flaky,
		},
		{name: "another one fails the second time", first: red("a"), base: &green, again: again(red("b")), want: gate.Failed},
		{
			name: "goal of the run that names what failed before", gate: gate.Gate{When: gate.Final}, first: red("a"),
			base: ref(red("a")), again: again(red("a")), want: gate.Failed,
		},
		{
			name: "goal of another task", task: gate.Goal("accept"), first: red("a"), base: ref(red("a")),
			want: gate.KnownFailing,
		},
		{
			name: "goal of this task", gate: gate.Gate{Name: "accept"}, task: gate.Goal("accept"), first: red("a"),
			base: ref(red("a")), again: again(red("a")), want: gate.Failed,
		},
		{name: "many are no accident", first: red("a", "b", "c", "d", "e", "f"), base: &green, want: gate.Failed},
		{name: "no names, no second run", first: bare, base: &green, want: gate.Failed},
		{name: "known", first: red("a"), base: ref(red("a", "b")), want: gate.KnownFailing},
		{name: "worse", first: red("a", "b"), base: ref(red("a")), again: again(red("a", "b")), want: gate.Failed},
		{name: "does not even run any more", first: bare, base: ref(red("a")), want: gate.Failed},
		{name: "list is not whole", first: cut, base: ref(red("a")), want: gate.Failed},
		{
			name: "list of the base is not whole", gate: gate.Gate{Detected: true}, first: red("a"), base: &cut,
			want: gate.RedAtBase,
		},
		{name: "exit code alone, detected", gate: gate.Gate{Detected: true}, first: bare, base: &bare, want: gate.RedAtBase},
		{name: "exit code alone, asked for", first: bare, base: &bare, want: gate.Failed},
		{name: "slow before and after", gate: gate.Gate{Detected: true}, first: slow, base: &slow, want: gate.RedAtBase},
		{
			name: "base was ended from outside", gate: gate.Gate{Detected: true}, first: bare,
			base: ref(gate.Result{Reason: "it was lost"}), want: gate.Failed,
		},
		{
			name: "task is to mend it", task: "Fix the tests of the parser", first: red("a"), base: ref(red("a")),
			again: again(red("a")), want: gate.Failed,
		},
		{
			name: "task is to mend an exit code", gate: gate.Gate{Detected: true}, task: "Make the build pass", first: bare,
			base: &bare, want: gate.Failed,
		},
		{
			name: "task names the test", task: "Let TestAdd round", first: red("m TestAdd"), base: ref(red("m TestAdd")),
			again: again(red("m TestAdd")), want: gate.Failed,
		},
		{
			name: "task is about something else", task: "Add a test fixture", first: red("a"), base: ref(red("a")),
			want: gate.KnownFailing,
		},
		{name: "rate is met", quality: gate.Quality{MinPassRate: 0.95}, first: red("z"), base: &green, want: gate.Passed},
		{
			name: "rate is not met", quality: gate.Quality{MinPassRate: 0.95}, first: red("y", "z"), base: &green,
			again: again(red("y", "z")), want: gate.Failed,
		},
		{
			name: "rate is met, yet fewer pass than before", quality: gate.Quality{MinPassRate: 0.5}, first: few, base: &green,
			again: again(few), want: gate.Failed,
		},
	}
	told := func(failed ...string) gate.Result { // a runner that ends well and says that tests failed
		r := red(failed...)
		r.Passed, r.ExitCode, r.Facts.Known, r.Facts.Failed, r.Facts.Passed = true, 0, true, len(failed), 18-len(failed)
		return r
	}
	tests = append(tests, []testCase{
		{name: "ends well and says that a test failed", first: told("a"), base: &green, need: gate.Again},
		{name: "says so again", first: told("a"), base: &green, again: again(told("a")), want: gate.Failed},
		{name: "says so of another test", first: told("a"), base: &green, again: again(told("b")), want: gate.Passed},
		{name: "tried it again, as always", first: told("a"), base: ref(told("a")), want: gate.Passed},
		{name: "prints a list", first: gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{
			Known: true, Passed: 18, FailedTests: []string{"first"},
		}}, base: &green, want: gate.Passed},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, need := gate.Judge(tt.gate, tt.quality, run.Task{Title: tt.task},
				gate.Results{First: tt.first, Base: tt.base, Again: tt.again, SameTests: tt.base != nil})
			if got.Standing != tt.want || need != tt.need {
				t.Errorf("standing %q, need %d; want %q, %d (%s)", got.Standing, need, tt.want, tt.need, got.Note)
			}
			if need == gate.Nothing && got.Standing != gate.Passed && got.Standing != gate.Failed && got.Note == "" {
				t.Error("nobody is told why it holds nothing back")
			}
		})
	}
}

// TestJudgeOfOldTests: on the new code with tests as they were, nothing but a test that ran
// fails, and one that failed before is forgiven though the task is to fix it.
func TestJudgeOfOldTests(t *testing.T) {
	t.Parallel()
	green := gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: true, Passed: 18}}
	unloaded := func(r gate.Result, names ...string) gate.Result {
		r.Facts.Unloaded = names
		return r
	}
	few := green
	few.Facts.Passed = 0
	for _, tt := range []struct {
		name, task  string
		first, base gate.Result
		want        gate.Standing
		tests       string
	}{
		{name: "they pass", first: green, base: green, want: gate.Passed},
		{name: "one fails", first: red("a"), base: green, want: gate.Failed, tests: "a"},
		{name: "one cannot be loaded", first: unloaded(red("a"), "a"), base: green, want: gate.Failed},
		{name: "one fails, one cannot be loaded", first: unloaded(red("a", "b"), "a"), base: green, want: gate.Failed, tests: "b"},
		{name: "nothing is built", first: gate.Result{ExitCode: 2, Reason: "exited"}, base: green, want: gate.Failed},
		{name: "one failed before", task: "Fix the tests", first: red("a"), base: red("a"), want: gate.KnownFailing, tests: "a"},
		{name: "they said no before", first: gate.Result{ExitCode: 1, Reason: "exited"}, base: gate.Result{ExitCode: 1, Reason: "exited"}, want: gate.RedAtBase},
		{name: "none runs", first: few, base: green, want: gate.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, need := gate.Judge(gate.Gate{Kind: gate.Test}, gate.Quality{}, run.Task{Title: tt.task}, gate.Results{
				First: tt.first, Base: &tt.base, Again: []gate.Result{tt.first}, SameTests: true, Old: true,
			})
			if got.Standing != tt.want || need != gate.Nothing || strings.Join(got.Tests, " ") != tt.tests {
				t.Errorf("%+v, need %d; want %s of %q", got, need, tt.want, tt.tests)
			}
		})
	}
}

// TestSilenced: a check that ran tests until a task changed how they run proves nothing from
// then on, and does again once it runs some.
func TestSilenced(t *testing.T) {
	t.Parallel()
	ran := func(n int) gate.Result {
		return gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: n > 0, Passed: n}}
	}
	judge := func(first, base gate.Result, same bool) gate.Verdict {
		v, _ := gate.Judge(gate.Gate{Kind: gate.Test}, gate.Quality{}, run.Task{}, gate.Results{First: first, Base: &base, SameTests: same})
		return v
	}
	first := ran(0)
	first.Verdict = judge(first, ran(12), false)
	if first.Verdict.Standing != gate.NoTests || !strings.Contains(first.Verdict.Note, "12 tests") {
		t.Fatalf("%+v", first.Verdict)
	}
	if got := judge(ran(0), first, true); got.Standing != gate.NoTests || got.Note != first.Verdict.Note {
		t.Errorf("the next task: %+v", got)
	}
	if got := judge(ran(3), first, true); got.Standing != gate.Passed {
		t.Errorf("once it runs some: %+v", got)
	}
}

func TestExcerptPerTool(t *testing.T) {
	t.Parallel()
	chatter := func(n int) string { return strings.Repeat("INFO all is well here\n", n) }
	tests := []struct {
		name, log string
		want      []string
		not       string
	}{
		{
			"go", chatter(500) + "--- FAIL: TestAdd (0.00s)\n    add_test.go:7: Add(1, 2) = 4, want 3\n" + chatter(500),
			[]string{"--- FAIL: TestAdd", "Add(1, 2) = 4, want 3"}, "",
		},
		{
			"go compiler", "# m/a\na/a.go:3:5: undefined: frobnicate\n" + chatter(500) + "FAIL\tm/a [build failed]\n",
			[]string{"undefined: frobnicate", "[build failed]"}, "",
		},
		{
			"pytest",
			chatter(300) + "____ test_add ____\n\n    def test_add():\n>       assert add(1, 2) == 3\nE       assert 4 == 3\n\ntests/test_a.py:4: AssertionError\n" + chatter(300),
			[]string{"____ test_add ____", "E       assert 4 == 3"}, "",
		},
		{
			"jest",
			chatter(300) + "  ● sums › adds\n\n    expect(received).toBe(expected)\n\n    Expected: 3\n    Received: 4\n" +
				chatter(300),
			[]string{"● sums › adds", "Expected: 3", "Received: 4"}, "",
		},
		{
			"rustc",
			chatter(300) + "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:2:5\n  |\n2 |     x\n  |     ^ not found\n" + chatter(300),
			[]string{"error[E0425]", "--> src/lib.rs:2:5"}, "",
		},
		{
			"typescript", chatter(300) + "src/a.ts(3,5): error TS2304: Cannot find name 'x'.\n" + chatter(300),
			[]string{"error TS2304"}, "",
		},
		{
			"maven",
			chatter(300) + "[ERROR] com.x.FooTest.bad -- Time elapsed: 0.01 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: expected: <3> but was: <4>\n" + chatter(300),
			[]string{"com.x.FooTest.bad", "expected: <3> but was: <4>"}, "",
		},
		{
			"the same report a thousand times",
			strings.Repeat("a.c:3:5: error: use of undeclared x\n", 1000) + chatter(300) +
				"b.c:9:1: error: missing semicolon\n" + chatter(300),
			[]string{"use of undeclared x", "missing semicolon"}, "",
		},
		{
			"colours", chatter(300) + "\x1b[31m--- FAIL: TestAdd\x1b[0m\n" + chatter(300), []string{"--- FAIL: TestAdd\n"},
			"\x1b",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := gate.Excerpt(tt.log)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("excerpt lacks %q:\n%s", want, got)
				}
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("excerpt holds %q", tt.not)
			}
			if n := strings.Count(got, "\n"); n > 110 {
				t.Errorf("excerpt has %d lines", n)
			}
		})
	}
}

// TestExcerptKeepsTheFirstFailure: where there is no room for all, the first
// is the one to keep.
func TestExcerptKeepsTheFirstFailure(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	log.WriteString("--- FAIL: TestFirst (0.00s)\n    a_test.go:1: the cause\n")
	for range 400 {
		log.WriteString("--- FAIL: TestOther (0.00s)\n    " + strings.Repeat("x", 300) + "\n")
	}
	if got := gate.Excerpt(log.String()); !strings.Contains(got, "the cause") {
		t.Errorf("the first failure is gone:\n%s", got)
	}
}
