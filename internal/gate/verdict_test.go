package gate_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// red is a gate that names these tests as failed, of 20.
func red(names ...string) gate.Result {
	return gate.Result{
		ExitCode: 1, Reason: "exited",
		Facts: gate.Facts{Known: true, Passed: 20 - len(names), Failed: len(names), FailedTests: names},
	}
}

// green is a gate that ran so many tests, 0 where it tells of none.
func green(ran int) gate.Result {
	return gate.Result{Passed: true, Reason: "exited", Facts: gate.Facts{Known: ran > 0, Passed: ran}}
}

// zero is a runner that names these as failed, and ends with 0.
func zero(names ...string) gate.Result {
	r := red(names...)
	r.Passed, r.ExitCode, r.Facts.Passed = true, 0, 18-len(names)
	return r
}

func absent(what string) gate.Result {
	return gate.Result{ExitCode: 1, Reason: "exited", Missing: what}
}

func unloaded(r gate.Result, names ...string) gate.Result {
	r.Facts.Unloaded = names
	return r
}

func TestJudge(t *testing.T) {
	t.Parallel()
	bare := gate.Result{ExitCode: 1, Reason: "exited"}
	slow := gate.Result{ExitCode: -1, Reason: "wall_timeout"}
	lost := gate.Result{Reason: "it ran out of memory"}
	cut, few, listing, silenced, none := red("a"), red("z"), green(18), green(0), green(18)
	cut.Facts.Cut = true
	few.Facts.Passed, none.Facts.Passed = 17, 0
	listing.Facts.FailedTests = []string{"first"}
	silenced.Verdict = gate.Verdict{Standing: gate.NoTests, Note: "it ran 12 tests before the work began"}
	many := red("a", "b", "c", "d", "e", "f")
	detected, final, advisory := gate.Gate{Detected: true}, gate.Gate{When: gate.Final}, gate.Gate{Advisory: true}
	accept := gate.Gate{Name: "accept"}
	most, half := gate.Quality{MinPassRate: 0.95}, gate.Quality{MinPassRate: 0.5}
	type results = []gate.Result // on the proposal, at the base, and again on the proposal
	for _, tt := range []struct {
		name string
		gate gate.Gate
		q    gate.Quality
		task string
		ran  results
		want gate.Standing // "" where need says what is
		need gate.Need
	}{
		{name: "passes", ran: results{green(18)}, want: gate.Passed},
		{name: "advisory", gate: advisory, ran: results{bare}, want: gate.Noted},
		{name: "ended from outside", ran: results{lost}, want: gate.Failed},
		{name: "a failure asks for the base", ran: results{red("a")}, need: gate.Baseline},

		{name: "new failure is run again", ran: results{red("a"), green(18)}, need: gate.Again},
		{name: "new failure", ran: results{red("a"), green(18), red("a")}, want: gate.Failed},
		{name: "flaky", ran: results{red("a"), green(18), green(18)}, want: gate.Flaky},
		{name: "flaky beside known ones", ran: results{red("a", "b"), red("a"), red("a")}, want: gate.Flaky},
		{name: "another one fails the second time", ran: results{red("a"), green(18), red("b")}, want: gate.Failed},
		{name: "many are no accident", ran: results{many, green(18)}, want: gate.Failed},
		{name: "no names, no second run", ran: results{bare, green(18)}, want: gate.Failed},

		{name: "known", ran: results{red("a"), red("a", "b")}, want: gate.KnownFailing},
		{name: "worse", ran: results{red("a", "b"), red("a"), red("a", "b")}, want: gate.Failed},
		{name: "does not even run any more", ran: results{bare, red("a")}, want: gate.Failed},
		{name: "list is not whole", ran: results{cut, red("a")}, want: gate.Failed},
		{name: "list of the base is not whole", gate: detected, ran: results{red("a"), cut}, want: gate.RedAtBase},
		{name: "named at the base, which passed", ran: results{red("a"), zero("a"), red("a")}, want: gate.Failed},
		{name: "exit code alone, detected", gate: detected, ran: results{bare, bare}, want: gate.RedAtBase},
		{name: "exit code alone, asked for", ran: results{bare, bare}, want: gate.Failed},
		{name: "slow before and after", gate: detected, ran: results{slow, slow}, want: gate.RedAtBase},
		{name: "base was ended from outside", gate: detected, ran: results{bare, lost}, want: gate.Failed},

		{name: "goal of the run", gate: final, ran: results{red("a"), red("a"), red("a")}, want: gate.Failed},
		{name: "goal of another task", task: gate.Goal("accept"), ran: results{red("a"), red("a")}, want: gate.KnownFailing},
		{
			name: "goal of this task", gate: accept, task: gate.Goal("accept"), ran: results{red("a"), red("a"), red("a")},
			want: gate.Failed,
		},
		{name: "task is to mend it", task: "Fix the tests", ran: results{red("a"), red("a"), red("a")}, want: gate.Failed},
		{
			name: "task is to mend an exit code", gate: detected, task: "Make the build pass", ran: results{bare, bare},
			want: gate.Failed,
		},
		{
			name: "task names the test", task: "Let TestAdd round", ran: results{red("m TestAdd"), red("m TestAdd"), red("m TestAdd")},
			want: gate.Failed,
		},
		{name: "another task", task: "Add a test fixture", ran: results{red("a"), red("a")}, want: gate.KnownFailing},

		{name: "rate is met", q: most, ran: results{red("z"), green(18)}, want: gate.Passed},
		{name: "rate is not met", q: most, ran: results{red("y", "z"), green(18), red("y", "z")}, want: gate.Failed},
		{name: "rate is met, yet fewer pass than before", q: half, ran: results{few, green(18), few}, want: gate.Failed},

		{name: "ends well and names a test", ran: results{zero("a"), green(18)}, need: gate.Again},
		{name: "names it again", ran: results{zero("a"), green(18), zero("a")}, want: gate.Failed},
		{name: "names another test", ran: results{zero("a"), green(18), zero("b")}, want: gate.Passed},
		{name: "named it before, too", ran: results{zero("a"), zero("a")}, want: gate.Passed},
		{name: "prints a list", ran: results{listing, green(18)}, want: gate.Passed},
		{name: "fewer tests", ran: results{green(17), green(18)}, need: gate.Again},
		{name: "fewer tests again", ran: results{green(17), green(18), green(17)}, want: gate.Failed},
		{name: "fewer tests by chance", ran: results{green(17), green(18), green(18)}, want: gate.Passed},
		{name: "no test, as before", ran: results{none, none}, want: gate.NoTests},
		{name: "none since an earlier task", ran: results{green(0), silenced}, want: gate.NoTests},
		{name: "some since an earlier task had none", ran: results{green(3), silenced}, want: gate.Passed},

		// A proposal cannot excuse itself by what is missing.
		{name: "lacks something", ran: results{absent("no x")}, need: gate.Baseline},
		{name: "lacks the same as before", ran: results{absent("no x"), absent("no x")}, want: gate.Unrunnable},
		{name: "lacks it in a person's check", gate: final, ran: results{absent("no x"), absent("no x")}, want: gate.Unrunnable},
		{name: "lacks something else", ran: results{absent("no y"), absent("no x")}, want: gate.Failed},
		{name: "lacked nothing before", ran: results{absent("no x"), green(1)}, want: gate.Failed},
		{name: "lacks nothing any more", gate: detected, ran: results{bare, absent("no x")}, want: gate.Failed},
		{name: "lacks it, and is advisory", gate: advisory, ran: results{absent("no x")}, want: gate.Unrunnable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := gate.Results{First: tt.ran[0]}
			if len(tt.ran) > 1 {
				r.Base, r.Again, r.SameTests = &tt.ran[1], tt.ran[2:], true
			}
			got, need := gate.Judge(tt.gate, tt.q, run.Task{Title: tt.task}, r)
			if got.Standing != tt.want || need != tt.need {
				t.Errorf("standing %q, need %d; want %q, %d (%s)", got.Standing, need, tt.want, tt.need, got.Note)
			}
			if need == gate.Nothing && got.Standing != gate.Passed && got.Standing != gate.Failed && got.Note == "" {
				t.Error("nobody is told why it holds nothing back")
			}
		})
	}
	// A task that changed how tests run has silenced the check.
	r := gate.Results{First: green(0), Base: new(green(12))}
	if got, _ := gate.Judge(gate.Gate{Kind: gate.Test}, gate.Quality{}, run.Task{}, r); got.Standing != gate.NoTests ||
		!strings.Contains(got.Note, "12 tests") {
		t.Errorf("a check was silenced: %+v", got)
	}
}

// TestJudgeOfOldTests: on the new code with tests as they were, nothing but a test that ran
// fails, and one that failed before is forgiven though the task is to fix it.
func TestJudgeOfOldTests(t *testing.T) {
	t.Parallel()
	bare, few := gate.Result{ExitCode: 1, Reason: "exited"}, green(18)
	few.Facts.Passed = 0
	for _, tt := range []struct {
		name, task  string
		first, base gate.Result
		want        gate.Standing
		tests       string
	}{
		{name: "they pass", first: green(18), base: green(18), want: gate.Passed},
		{name: "one fails", first: red("a"), base: green(18), want: gate.Failed, tests: "a"},
		{name: "one cannot be loaded", first: unloaded(red("a"), "a"), base: green(18), want: gate.Failed},
		{name: "one of two cannot", first: unloaded(red("a", "b"), "a"), base: green(18), want: gate.Failed, tests: "b"},
		{name: "nothing is built", first: bare, base: green(18), want: gate.Failed},
		{name: "one failed before", task: "Fix the tests", first: red("a"), base: red("a"), want: gate.KnownFailing, tests: "a"},
		{name: "they said no before", first: bare, base: bare, want: gate.RedAtBase},
		{name: "none runs", first: few, base: green(18), want: gate.Failed},
	} {
		got, need := gate.Judge(gate.Gate{Kind: gate.Test}, gate.Quality{}, run.Task{Title: tt.task}, gate.Results{
			First: tt.first, Base: &tt.base, Again: []gate.Result{tt.first}, SameTests: true, Old: true,
		})
		if got.Standing != tt.want || need != gate.Nothing || strings.Join(got.Tests, " ") != tt.tests {
			t.Errorf("%s: %+v, need %d; want %s of %q", tt.name, got, need, tt.want, tt.tests)
		}
	}
}

// TestMissing: what says that a check could not run, and what is the work's own.
func TestMissing(t *testing.T) {
	t.Parallel()
	const lookup = "x.go:3:2: m@v1: Get \"https://proxy.golang.org/m\": dial tcp: lookup proxy.golang.org on 1.1.1.1:53: no such host\n"
	for _, tt := range []struct {
		command string
		code    int
		output  string
		want    string
	}{
		{"python3 -m pytest", 1, "/usr/bin/python3: No module named pytest\n", "No module named pytest"},
		{"python3 -m pytest", 2, "E   ModuleNotFoundError: No module named 'slug'\n", ""}, // the work is about it
		{"cargo test", 127, "sh: 1: cargo: not found\n", "cargo: command not found"},
		{"mvn -B test", 127, "sh: line 1: mvn: command not found\n", "mvn: command not found"},
		{"cargo test", 127, "", "cargo: command not found"},
		{"make test", 2, "make: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", "pytest: command not found"},
		{"npm test", 127, "sh: 1: vitest: not found\n", "vitest: command not found"},
		{"./mvnw -B test", 126, "sh: 1: ./mvnw: Permission denied\n", "./mvnw: cannot be executed"},
		{"npm test", 1, "Error: Cannot find module './slug'\n", ""},
		{"bundle exec rspec", 7, "Could not find rake-13, rspec-3 in locally installed gems\n", "Could not find rake-13, rspec-3 in locally installed gems"},
		{"cargo clippy", 101, "error: no such command: `clippy`\n", "no such command: `clippy`"},
		{"go test ./...", 1, lookup, "dial tcp: lookup proxy.golang.org"},
		{"go test ./...", 1, "--- FAIL: TestX (0.00s)\n", ""},
	} {
		r := gate.Result{ExitCode: tt.code, Reason: "exited", Output: tt.output}
		if got := gate.Missing(gate.Gate{Command: tt.command, Detected: true}, r); got != tt.want {
			t.Errorf("%s, %q: %q, want %q", tt.command, tt.output, got, tt.want)
		}
		if r.Facts.Passed = 3; gate.Missing(gate.Gate{Command: tt.command}, r) != "" {
			t.Errorf("%s: it ran", tt.command)
		}
	}
	r := gate.Result{ExitCode: 127, Reason: "exited", Output: "sh: 1: ./check.sh: not found\n"}
	if got := gate.Missing(gate.Gate{Command: "./check.sh"}, r); got != "" {
		t.Errorf("a script of the tree that a person named: %q", got)
	}
}
