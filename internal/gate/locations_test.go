package gate_test

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

func TestLocations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output string
		want   []gate.Location
	}{
		"go build": {"# example.com/m/pkg\npkg/a.go:3:2: undefined: x\n./main.go:10:1: missing return\n", []gate.Location{
			{Path: "pkg/a.go", Line: 3, Column: 2, Message: "undefined: x"},
			{Path: "main.go", Line: 10, Column: 1, Message: "missing return"},
		}},
		"go vet": {
			"vet: ./a.go:4:5: expected declaration\n",
			[]gate.Location{{Path: "a.go", Line: 4, Column: 5, Message: "expected declaration"}},
		},
		"go test": {"--- FAIL: TestA (0.00s)\n    a_test.go:7: got 1, want 2\nFAIL\n", nil},
		"tsc": {"src/a.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'.\n", []gate.Location{
			{Path: "src/a.ts", Line: 12, Column: 5, Message: "error TS2322: Type 'string' is not assignable to type 'number'."},
		}},
		"tsc, pretty": {"\x1b[96msrc/a.ts\x1b[0m:\x1b[93m12\x1b[0m:\x1b[93m5\x1b[0m - \x1b[91merror\x1b[0m TS2322: Type 'string' …\r\n", []gate.Location{
			{Path: "src/a.ts", Line: 12, Column: 5, Message: "error TS2322: Type 'string' …"},
		}},
		"eslint": {"/workspace/src/a.js:1:10: 'x' is not defined. [Error/no-undef]\n\n1 problem\n", []gate.Location{
			{Path: "src/a.js", Line: 1, Column: 10, Message: "'x' is not defined. [Error/no-undef]"},
		}},
		"pytest": {
			"tests/test_a.py:12: AssertionError\n=== 1 failed in 0.1s ===\n",
			[]gate.Location{{Path: "tests/test_a.py", Line: 12, Message: "AssertionError"}},
		},
		"rustc": {"error[E0308]: mismatched types\n  --> src/main.rs:4:5\n   |\n4  |     1\n", []gate.Location{
			{Path: "src/main.rs", Line: 4, Column: 5, Message: "error[E0308]: mismatched types"},
		}},
		"vitest": {"AssertionError: expected 1 to be 2\n ❯ src/a.test.ts:5:10\n", []gate.Location{
			{Path: "src/a.test.ts", Line: 5, Column: 10, Message: "AssertionError: expected 1 to be 2"},
		}},
		"gcc": {"src/a.c: In function 'main':\nsrc/a.c:3:1: error: expected ';' before '}' token\n", []gate.Location{
			{Path: "src/a.c", Line: 3, Column: 1, Message: "error: expected ';' before '}' token"},
		}},
		"make": {
			"Makefile:12: *** missing separator.  Stop.\n",
			[]gate.Location{{Path: "Makefile", Line: 12, Message: "*** missing separator.  Stop."}},
		},
		"told twice": {
			"a.go:1: x\na.go:1: x\na.go:2: x\n",
			[]gate.Location{{Path: "a.go", Line: 1, Message: "x"}, {Path: "a.go", Line: 2, Message: "x"}},
		},
		"elsewhere": {strings.Join([]string{
			"../a.go:1: up", "/etc/passwd:1: root", "/workspace/../etc/passwd:1: root", "a/../../b.go:1: up", "a//b.go:1: odd",
			`..\a.go:1: up`, "./:1: none",
			"a\u202eb.go:1: turned round", "a.go:0: no line", "a.go:99999999: no file is that long", "http://x.test:80: address",
			"12:30:45: time", "a.go:1:", "a.go:1: \u200b",
		}, "\n"), nil},
		"an arrow without words": {"  --> src/main.rs:4:5\n", nil},
		"none":                   {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, gate.Locations(c.output)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocationsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(strings.Repeat("a", i%50+1) + ".go:1: " + strings.Repeat("é", 5000) + "\n")
		b.WriteString("a.go:" + strings.Repeat("1", i%7+1) + ": x\n")
	}
	got := gate.Locations(b.String())
	if len(got) > 200 {
		t.Errorf("%d places", len(got))
	}
	for _, at := range got {
		if len(at.Message) > 510 {
			t.Errorf("%d bytes of message", len(at.Message))
		}
	}
}

func FuzzLocations(f *testing.F) {
	for _, seed := range []string{
		"a.go:1:2: x", "a.ts(1,2): x", "error: x\n --> a.rs:1:2", "/workspace/a.js:1:1: x", "../a:1: x", "\x1b[31ma.go:1: x",
		"a\xff.go:1: \xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, output string) {
		for _, at := range gate.Locations(output) {
			if at.Line < 1 || at.Column < 0 || at.Message == "" || strings.ContainsAny(at.Message, "\r\n\x00") ||
				!utf8.ValidString(at.Message) {
				t.Errorf("%+v", at)
			}
			if path.IsAbs(at.Path) || path.Clean(at.Path) != at.Path || at.Path == ".." || strings.HasPrefix(at.Path, "../") ||
				!utf8.ValidString(at.Path) {
				t.Errorf("path %q", at.Path)
			}
		}
	})
}
