package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

func counts(passed, failed, skipped int, names ...string) gate.Facts {
	return gate.Facts{Known: true, Passed: passed, Failed: failed, Skipped: skipped, FailedTests: names}
}

func names(names ...string) gate.Facts { return gate.Facts{FailedTests: names} }

func TestRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output string
		want         gate.Facts
	}{
		{"nothing", "", gate.Facts{}},
		{"chatter", "building\ndone in 3s\n", gate.Facts{}},

		{
			"go test",
			"ok  \tm/a\t0.1s\n--- FAIL: TestB (0.00s)\n    b_test.go:7: got 1\n    --- FAIL: TestB/sub (0.00s)\nFAIL\nFAIL\tm/b\t0.2s\nFAIL\n",
			names("m/b TestB", "m/b TestB/sub"),
		},
		{
			"go test -v",
			"=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- SKIP: TestS (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\tm\t0.2s\n",
			counts(1, 1, 1, "m TestB"),
		},
		{
			"go test -v that ends itself with 0",
			"--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\nok  \tm/a\t0.1s\n", counts(1, 1, 0, "m/a TestB"),
		},
		{
			"go does not compile", "# m/a\na/a.go:3:5: undefined: x\nFAIL\tm/a [build failed]\n",
			gate.Facts{FailedTests: []string{"m/a [build failed]"}},
		},
		{"go panic without a test", "panic: boom\n\ngoroutine 1 [running]:\nFAIL\tm\t0.01s\n", names("m")},
		{
			"go test -json",
			`{"Action":"pass","Package":"m","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"m","Test":"TestB"}` + "\n" +
				`{"Action":"fail","Package":"m"}` + "\n" + `{"Action":"skip","Package":"m","Test":"TestC"}` + "\n" +
				`{"Action":"fail","Package":"n"}` + "\n",
			counts(1, 1, 1, "m TestB", "n"),
		},

		{"pytest", "FAILED tests/test_a.py::test_x[1] - assert 1 == 2\nERROR tests/test_b.py\n=== 1 failed, 2 passed, 1 skipped, 3 warnings, 1 error in 0.12s ===\n",
			gate.Facts{
				Known: true, Passed: 2, Failed: 2, Skipped: 1,
				FailedTests: []string{"tests/test_a.py::test_x[1]", "tests/test_b.py"},
			}},
		{
			"pytest -q", "..F\nFAILED a_test.py::T::test_y\n1 failed, 2 passed in 0.01s\n",
			counts(2, 1, 0, "a_test.py::T::test_y"),
		},
		{
			"jest",
			"FAIL src/a.test.js\n  ● sums › adds\n\n    expect(1)\nTests:       1 failed, 1 skipped, 2 passed, 4 total\n",
			counts(2, 1, 1, "src/a.test.js: sums › adds"),
		},
		{
			"vitest", " FAIL  src/a.test.ts > sums > adds\n      Tests  1 failed | 2 passed (3)\n",
			counts(2, 1, 0, "src/a.test.ts > sums > adds"),
		},

		{
			"cargo",
			"test a::works ... ok\ntest a::breaks ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\ntest result: ok. 3 passed; 0 failed; 0 ignored\n",
			counts(4, 1, 2, "a::breaks"),
		},
		{
			"maven",
			"[ERROR] com.x.FooTest.bad -- Time elapsed: 0.01 s <<< FAILURE!\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.1 s <<< FAILURE! -- in com.x.FooTest\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1\n",
			counts(1, 1, 1, "com.x.FooTest.bad"),
		},
		{
			"maven, old",
			"bad(com.x.FooTest)  Time elapsed: 0.01 sec  <<< FAILURE!\nTests run: 2, Failures: 0, Errors: 1, Skipped: 0\n",
			counts(1, 1, 0, "com.x.FooTest.bad"),
		},
		{
			"gradle", "FooTest > bad() FAILED\n    org.opentest4j\n4 tests completed, 1 failed, 1 skipped\n",
			counts(2, 1, 1, "FooTest > bad()"),
		},

		{"colours", "\x1b[31m--- FAIL: TestA (0.00s)\x1b[0m\r\nFAIL\tm\t0.1s\r\n", names("m TestA")},
		{"a count that is no number", "99999999999999999999 tests completed, 0 failed\n", counts(0, 0, 0)},
		{"another runner", "  1) sums\n  2 passing (10ms)\n  1 failing\nnot ok 2 - b\n", gate.Facts{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := gate.Read(tt.output)
			got.Unloaded = nil // see TestUnloaded
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestUnloaded: what failed without that a test has judged.
func TestUnloaded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, output, failed, unloaded string }{
		{"go judges", "--- FAIL: TestB (0.00s)\n    b_test.go:7: got 1\nFAIL\nFAIL\tm/b\t0.2s\n", "m/b TestB", ""},
		{"go does not compile", "# m/a\na/a_test.go:3:5: undefined: x\nFAIL\tm/a [build failed]\n", "m/a [build failed]", "m/a [build failed]"},
		{
			"go test -json", `{"Action":"fail","Package":"m","Test":"TestB"}` + "\n" + `{"Action":"fail","Package":"n"}` + "\n",
			"m TestB n", "n",
		},
		{"pytest judges", "FAILED a_test.py::test_a - assert 1 == 2\nFAILED a_test.py::test_b - AssertionError: no\n", "a_test.py::test_a a_test.py::test_b", ""},
		{
			"pytest finds no such name",
			"FAILED a_test.py::test_a - AttributeError: module 'm' has no attribute 'old'\nERROR b_test.py - ImportError: x\nERROR c_test.py\n",
			"a_test.py::test_a b_test.py c_test.py", "a_test.py::test_a b_test.py c_test.py",
		},
		{
			"jest", "FAIL src/a.test.js\n  ● adds\n\n    expect(received).toBe(expected)\n\n  ● calls\n\n    TypeError: (0 , _a.old) is not a function\n",
			"src/a.test.js: adds src/a.test.js: calls", "src/a.test.js: calls",
		},
		{
			"jest loads nothing", "FAIL src/a.test.js\n  ● Test suite failed to run\n\n    Cannot find module './old'\n",
			"src/a.test.js: Test suite failed to run", "src/a.test.js: Test suite failed to run",
		},
		{
			"vitest", " FAIL  a.test.ts > adds\nAssertionError: expected 1\n\n FAIL  a.test.ts > calls\nTypeError: old is not a function\n",
			"a.test.ts > adds a.test.ts > calls", "a.test.ts > calls",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := gate.Read(tt.output)
			if failed := strings.Join(got.FailedTests, " "); failed != tt.failed {
				t.Errorf("failed: %q, want %q", failed, tt.failed)
			}
			if unloaded := strings.Join(got.Unloaded, " "); unloaded != tt.unloaded {
				t.Errorf("unloaded: %q, want %q", unloaded, tt.unloaded)
			}
		})
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
		if got.Passed < 0 || got.Failed < 0 || got.Skipped < 0 {
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
