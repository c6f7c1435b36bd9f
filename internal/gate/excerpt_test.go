package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

// TestTellingLines: a person reads what a test expected and where, and not what was printed
// before; the next attempt is told it, too, wherever in a long log it stands.
func TestTellingLines(t *testing.T) {
	t.Parallel()
	chatter := strings.Repeat("INFO all is well here\n", 300)
	for _, tt := range []struct {
		name, log string
		want      []string
	}{
		{
			"go test", "=== RUN   TestOld\n--- PASS: TestOld (0.00s)\n=== RUN   TestSlug\n    slug_test.go:8: got \"a b\"\n" +
				"--- FAIL: TestSlug (0.00s)\nFAIL\nFAIL\texample.com/slug\t0.002s\nFAIL\n",
			[]string{`    slug_test.go:8: got "a b"`, "--- FAIL: TestSlug (0.00s)"},
		},
		{"go vet", "# example.com/slug\n./slug.go:5:2: undefined: strings\n", []string{"./slug.go:5:2: undefined: strings"}},
		{
			"pytest", "/usr/lib/python3/site-packages/x.py:3: DeprecationWarning: old\n____ test_slug ____\n    def test_slug():\n" +
				">       assert slug('a b') == 'a-b'\nE       AssertionError: assert 'a b' == 'a-b'\n\ntests/test_slug.py:4: AssertionError\n" +
				"=========== short test summary info ===========\nFAILED tests/test_slug.py::test_slug - AssertionError: no\n1 failed in 0.01s\n",
			[]string{
				"____ test_slug ____", "E       AssertionError: assert 'a b' == 'a-b'", "tests/test_slug.py:4: AssertionError",
				"FAILED tests/test_slug.py::test_slug - AssertionError: no",
			},
		},
		{
			"node:test", "(node:1) ExperimentalWarning: x\nnot ok 1 - slug\n  error: 'Expected values'\n  expected: 'a-b'\n" +
				"  actual: 'a b'\n      at Object.<anonymous> (node:internal/x:1:1)\n      at test (/tmp/w/slug.test.js:5:10)\n",
			[]string{"not ok 1 - slug", "  expected: 'a-b'", "  actual: 'a b'", "      at test (/tmp/w/slug.test.js:5:10)"},
		},
		{
			"jest", "  ● sums › adds\n\n    expect(received).toBe(expected)\n\n    Expected: 3\n    Received: 4\n",
			[]string{"  ● sums › adds", "    Expected: 3", "    Received: 4"},
		},
		{
			"cargo test", "warning: unused\nthread 'tests::slug' panicked at src/lib.rs:9:9:\nassertion failed\n  left: 1\n right: 2\n",
			[]string{"thread 'tests::slug' panicked at src/lib.rs:9:9:", "  left: 1", " right: 2"},
		},
		{
			"rustc", "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:2:5\n  |\n2 |     x\n",
			[]string{"error[E0425]: cannot find value `x` in this scope", " --> src/lib.rs:2:5"},
		},
		{
			"typescript", "src/a.ts(3,5): error TS2304: Cannot find name 'x'.\n",
			[]string{"src/a.ts(3,5): error TS2304: Cannot find name 'x'."},
		},
		{
			"maven", "[ERROR] FooTest.bad -- Time elapsed: 0.01 s <<< FAILURE!\nAssertionFailedError: expected: <3> but was: <4>\n",
			[]string{"[ERROR] FooTest.bad -- Time elapsed: 0.01 s <<< FAILURE!", "AssertionFailedError: expected: <3> but was: <4>"},
		},
		{"colours", "\x1b[31m--- FAIL: TestAdd\x1b[0m\n", []string{"--- FAIL: TestAdd"}},
	} {
		if diff := cmp.Diff(tt.want, gate.FailureLines(tt.log)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		got := gate.Excerpt(chatter + tt.log + chatter)
		for _, want := range tt.want {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%s: the excerpt lacks %q:\n%s", tt.name, want, got)
			}
		}
		if strings.Count(got, "\n") > 110 || strings.Contains(got, "\x1b") {
			t.Errorf("%s: the excerpt is\n%q", tt.name, got)
		}
	}
}

// TestFailureLinesAreFew: at most eight short ones, the last where none tells.
func TestFailureLinesAreFew(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"two", "three", "four", "five"}, gate.FailureLines("one\ntwo\n\nthree\nfour\nfive\n")); diff != "" {
		t.Error(diff)
	}
	if got := gate.FailureLines(""); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	if got := gate.FailureLines(strings.Repeat("x_test.go:1: "+strings.Repeat("é", 400)+"\n", 50)); len(got) != 1 || len(got[0]) > 210 {
		t.Errorf("%d lines, the first of %d bytes", len(got), len(got[0]))
	}
}

// TestExcerptKeepsTheFirstFailure: where there is no room for all, the first is the one to
// keep, and what is said a thousand times counts once.
func TestExcerptKeepsTheFirstFailure(t *testing.T) {
	t.Parallel()
	other := "--- FAIL: TestOther (0.00s)\n    " + strings.Repeat("x", 300) + "\n"
	for name, log := range map[string]string{
		"many failures": "    a_test.go:1: the cause\n" + strings.Repeat(other, 400),
		"one failure a thousand times": strings.Repeat("a.c:3:5: error: x\n", 1000) + "b.c:9:1: the cause\n" +
			strings.Repeat("all is well\n", 300),
	} {
		if got := gate.Excerpt(log); !strings.Contains(got, "the cause") {
			t.Errorf("%s: it is gone:\n%s", name, got)
		}
	}
}

func TestRemediation(t *testing.T) {
	t.Parallel()
	log := strings.Repeat("chatter\n", 4000) + "    add_test.go:7: got 3, want 4\n" + strings.Repeat("chatter\n", 4000) + "the end\n"
	for _, tt := range []struct {
		r    gate.Result
		want []string
	}{
		{
			gate.Result{Gate: "go test", Command: "go test ./...", ExitCode: 1, Output: log},
			[]string{`"go test"`, "exit code 1", "got 3, want 4", "the end", "[…]"},
		},
		{
			gate.Result{Gate: "slow", Command: "slow", Reason: "wall_timeout", Duration: 90 * time.Second},
			[]string{"ran out of time after 1m30s"},
		},
	} {
		got := gate.Remediation(tt.r)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("it lacks %q:\n%s", want, got)
			}
		}
		if n := strings.Count(got, "\n"); n > 100 {
			t.Errorf("it has %d lines", n)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("one\ntwo error\n")
	f.Add(strings.Repeat("x\n", 500))
	f.Fuzz(func(t *testing.T, log string) {
		if got := gate.Excerpt(log); len(got) > 9<<10 {
			t.Errorf("excerpt of %d bytes has %d bytes", len(log), len(got))
		}
	})
}
