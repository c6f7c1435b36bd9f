package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

// TestRead: what each runner prints, in counts and names, and what failed without that a test has
// judged.
func TestRead(t *testing.T) {
	t.Parallel()
	const goFails = "    b_test.go:7: got 1\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/sub (0.00s)\nFAIL\nFAIL\tm/b\t0.2s\nFAIL\n"
	for _, tt := range []struct {
		name, output string
		counts       string // passed, failed
		failed       string
		unloaded     string
	}{
		{"nothing", "", "", "", ""},
		{"chatter", "building\ndone in 3s\n", "", "", ""},
		{"another runner", "  1) sums\n  2 passing (10ms)\n  1 failing\nnot ok 2 - b\n", "", "", ""},
		{"go test", "ok  \tm/a\t0.1s\n" + goFails, "", "m/b TestB, m/b TestB/sub", ""},
		{"go test -v", "--- PASS: TestA (0.00s)\n--- SKIP: TestS (0.00s)\n" + goFails, "1 2", "m/b TestB, m/b TestB/sub", ""},
		{
			"go test -v that ends itself with 0", "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\nok  \tm/a\t0.1s\n",
			"1 1", "m/a TestB", "",
		},
		{
			"go does not compile", "# m/a\na/a.go:3:5: undefined: x\nFAIL\tm/a [build failed]\n",
			"", "m/a [build failed]", "m/a [build failed]",
		},
		{"go panics without a test", "panic: boom\n\ngoroutine 1 [running]:\nFAIL\tm\t0.01s\n", "", "m", "m"},
		{
			"go test -json", `{"Action":"pass","Package":"m","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"m","Test":"TestB"}` +
				"\n" + `{"Action":"fail","Package":"m"}` + "\n" + `{"Action":"skip","Package":"m","Test":"TestC"}` + "\n" +
				`{"Action":"fail","Package":"n"}` + "\n",
			"1 1", "m TestB, n", "n",
		},
		{
			"pytest", "FAILED a.py::test_x[1] - assert 1 == 2\nERROR b.py\n=== 1 failed, 2 passed, 1 skipped, 3 warnings, 1 error in 0.12s ===\n",
			"2 2", "a.py::test_x[1], b.py", "b.py",
		},
		{"pytest -q", "..F\nFAILED a.py::T::test_y\n1 failed, 2 passed in 0.01s\n", "2 1", "a.py::T::test_y", ""},
		{
			"pytest finds no such name", "FAILED a.py::a - AssertionError: no\nFAILED a.py::b - AttributeError: no attribute 'old'\nERROR b.py - ImportError: x\n",
			"", "a.py::a, a.py::b, b.py", "a.py::b, b.py",
		},
		{
			"jest", "FAIL src/a.test.js\n  ● sums › adds\n\n    expect(1)\n\n  ● calls\n\n    TypeError: old is not a function\n" +
				"Tests:       2 failed, 1 skipped, 2 passed, 5 total\n",
			"2 2", "src/a.test.js: calls, src/a.test.js: sums › adds", "src/a.test.js: calls",
		},
		{
			"jest loads nothing", "FAIL src/a.test.js\n  ● Test suite failed to run\n\n    Cannot find module './old'\n",
			"", "src/a.test.js: Test suite failed to run", "src/a.test.js: Test suite failed to run",
		},
		{
			"vitest", " FAIL  a.test.ts > sums > adds\nAssertionError: expected 1\n\n FAIL  a.test.ts > calls\n" +
				"TypeError: old is not a function\n      Tests  2 failed | 2 passed (4)\n",
			"2 2", "a.test.ts > calls, a.test.ts > sums > adds", "a.test.ts > calls",
		},
		{
			"cargo", "test a::works ... ok\ntest a::breaks ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured\n" +
				"test result: ok. 3 passed; 0 failed; 0 ignored\n",
			"4 1", "a::breaks", "",
		},
		{
			"maven", "[ERROR] com.x.FooTest.bad -- Time elapsed: 0.01 s <<< FAILURE!\n" +
				"[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.1 s <<< FAILURE! -- in com.x.FooTest\n" +
				"[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1\n",
			"1 1", "com.x.FooTest.bad", "",
		},
		{
			"maven, old", "bad(com.x.FooTest)  Time elapsed: 0.01 sec  <<< FAILURE!\nTests run: 2, Failures: 0, Errors: 1, Skipped: 0\n",
			"1 1", "com.x.FooTest.bad", "",
		},
		{"gradle", "FooTest > bad() FAILED\n    org.x\n4 tests completed, 1 failed, 1 skipped\n", "2 1", "FooTest > bad()", ""},
		{"colours", "\x1b[31m--- FAIL: TestA (0.00s)\x1b[0m\r\nFAIL\tm\t0.1s\r\n", "", "m TestA", ""},
		{"a count that is no number", "99999999999999999999 tests completed, 0 failed\n", "0 0", "", ""},
	} {
		got, counts := gate.Read(tt.output), ""
		if got.Known {
			counts = fmt.Sprint(got.Passed, got.Failed)
		}
		want := []string{tt.counts, tt.failed, tt.unloaded}
		said := []string{counts, strings.Join(got.FailedTests, ", "), strings.Join(got.Unloaded, ", ")}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// TestReadSaysWhatIsMissing: names that do not fit are not silently left out,
// since what is compared with the base must be all of it.
func TestReadSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "test t%d ... FAILED\n", i)
	}
	for _, tt := range []struct {
		name, output string
	}{
		{"too many", many.String()},
		{"too long", "test " + strings.Repeat("x", 500) + " ... FAILED\n"},
	} {
		if got := gate.Read(tt.output); !got.Cut || len(got.FailedTests) > 300 {
			t.Errorf("%s: cut is %v with %d names", tt.name, got.Cut, len(got.FailedTests))
		}
	}
}

// FuzzRead: whatever a program prints, the facts stay within bounds and sorted.
func FuzzRead(f *testing.F) {
	f.Add("--- FAIL: TestA (0.00s)\nFAIL\tm\t0.1s\n")
	f.Add("FAILED a.py::x - y\n== 1 failed in 0.1s ==\n")
	f.Add("Tests:  1 failed, 2 total\n● a › b\n")
	f.Add("Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n")
	f.Add(`{"Action":"fail","Package":"p","Test":"t"}`)
	f.Fuzz(func(t *testing.T, output string) {
		got := gate.Read(output)
		if got.Passed < 0 || got.Failed < 0 {
			t.Errorf("negative counts: %+v", got)
		}
		if len(got.FailedTests) > 300 || !slices.IsSorted(got.FailedTests) {
			t.Errorf("%d names, sorted: %v", len(got.FailedTests), slices.IsSorted(got.FailedTests))
		}
		for _, name := range got.FailedTests {
			if name == "" || len(name) > 200 || strings.ContainsAny(name, "\n\r\x1b") {
				t.Errorf("name %q", name)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	output := strings.Repeat("2026-01-01T00:00:00Z INFO some chatter of a server under test: handled request 17\n", 25_000)
	b.SetBytes(int64(len(output)))
	for b.Loop() {
		gate.Read(output)
	}
}
