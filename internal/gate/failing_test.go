package gate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

// A person reads what the test expected and where, and not what was printed before.
func TestFailing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, output string
		want         []string
	}{
		{
			name: "go test",
			output: "=== RUN   TestOld\n--- PASS: TestOld (0.00s)\n=== RUN   TestSlug\n" +
				"    slug_test.go:8: Slug(\"a b\") = \"a b\", want \"a-b\"\n--- FAIL: TestSlug (0.00s)\nFAIL\nFAIL\texample.com/slug\t0.002s\nFAIL\n",
			want: []string{`    slug_test.go:8: Slug("a b") = "a b", want "a-b"`, "--- FAIL: TestSlug (0.00s)"},
		},
		{
			name:   "go vet",
			output: "# example.com/slug\n./slug.go:5:2: undefined: strings\n",
			want:   []string{"./slug.go:5:2: undefined: strings"},
		},
		{
			name: "pytest after warnings",
			output: "/usr/lib/python3/site-packages/x.py:3: DeprecationWarning: old\n    def test_slug():\n" +
				">       assert slug('a b') == 'a-b'\nE       AssertionError: assert 'a b' == 'a-b'\n\n" +
				"tests/test_slug.py:4: AssertionError\n=========== short test summary info ===========\n" +
				"FAILED tests/test_slug.py::test_slug - AssertionError: assert 'a b' == 'a-b'\n1 failed in 0.01s\n",
			want: []string{
				"E       AssertionError: assert 'a b' == 'a-b'", "tests/test_slug.py:4: AssertionError",
				"FAILED tests/test_slug.py::test_slug - AssertionError: assert 'a b' == 'a-b'",
			},
		},
		{
			name: "node:test",
			output: "(node:1) ExperimentalWarning: x\nnot ok 1 - slug\n  error: 'Expected values'\n  expected: 'a-b'\n" +
				"  actual: 'a b'\n      at Object.<anonymous> (node:internal/x:1:1)\n      at test (/tmp/w/slug.test.js:5:10)\n",
			want: []string{
				"not ok 1 - slug", "  expected: 'a-b'", "  actual: 'a b'", "      at test (/tmp/w/slug.test.js:5:10)",
			},
		},
		{
			name:   "rust",
			output: "warning: unused\nthread 'tests::slug' panicked at src/lib.rs:9:9:\nassertion `left == right` failed\n  left: 1\n right: 2\n",
			want:   []string{"thread 'tests::slug' panicked at src/lib.rs:9:9:", "  left: 1", " right: 2"},
		},
		{name: "nothing known", output: "one\ntwo\n\nthree\nfour\nfive\n", want: []string{"two", "three", "four", "five"}},
		{name: "nothing", output: "", want: []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, gate.FailureLines(tt.output)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := gate.FailureLines(strings.Repeat("x_test.go:1: "+strings.Repeat("é", 400)+"\n", 50)); len(got) != 1 ||
		len(got[0]) > 210 {
		t.Errorf("%d lines, the first of %d bytes", len(got), len(got[0]))
	}
}
