package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

func TestGone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		diffs   []gate.FileDiff
		deleted []string
		want    []string
	}{
		{
			"go", []gate.FileDiff{diff("a.go",
				"package a\n\nfunc ParseAll() {}\nfunc (p *P) Close() {}\ntype Reader struct{}\nconst maxSize = 1\nvar run = 2\n",
				"package a\n\nfunc ParseOne() {}\n")},
			nil,
			[]string{"ParseAll", "Reader", "maxSize"},
		},
		{
			"moved", []gate.FileDiff{diff("a.go", "func ParseAll() {}\n", "package a\n"), diff("b.go", "", "func ParseAll() {}\n")},
			nil, nil,
		},
		{"still called", []gate.FileDiff{diff("a.go", "func ParseAll() {}\n", "x := ParseAll()\n")}, nil, nil},
		{"the file, too", []gate.FileDiff{diff("lib/a.py", "def load_all():\n  pass\nclass Old:\n  def run_it(self): pass\n", "")},
			[]string{"lib/a.py"}, []string{"lib/a.py", "load_all"}},
		{"a test is no source", []gate.FileDiff{diff("a_test.go", "func TestParseAll() {}\n", "")}, nil, nil},
		{
			"other languages", []gate.FileDiff{
				diff("a.ts", "export async function loadAll() {}\nexport const maxSize = 1\n", "//\n"),
				diff("a.rs", "pub(crate) fn parse_all() {}\nstruct Reader;\n", "//\n"),
				diff("A.java", "public final class OldOne {\n  void closeIt() {}\n}\n", "//\n"),
				diff("a.rb", "class Reader2\n  def close_it; end\nend\n", "#\n"),
				diff("a.php", "<?php\nfunction load_rows() {}\n", "<?php\n"),
			}, nil,
			[]string{"OldOne", "Reader", "Reader2", "loadAll", "load_rows", "maxSize", "parse_all"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, gate.NamesTaken(tt.diffs, tt.deleted)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	gone := []string{"ParseAll", "internal/a/a.go", "main.go", "max_size"}
	tests := map[string]struct{ text, want string }{
		"code span":         {"Call `a.ParseAll(x)` first.\n", "ParseAll"},
		"fenced":            {"```go\nx := ParseAll()\n```\n", "ParseAll"},
		"no code":           {"ParseAll is not marked, and max_size neither.\n", ""},
		"part of a word":    {"Call `ParseAllOf`, `my_max_size`.\n", ""},
		"path":              {"See internal/a/a.go.\n", "internal/a/a.go"},
		"link":              {"[it](../internal/a/a.go#L3)\n", "internal/a/a.go"},
		"another path":      {"`x/internal/a/a.go`, internal/a/a.gob, internal/a/a.go.bak, internal/a/a.go/x\n", ""},
		"a file in the top": {"Run main.go, not cmd/main.go.\n", "main.go"},
		"only below":        {"Run cmd/main.go, my-main.go or .main.go\n", ""},
		"after the fence":   {"```\nx\n```\nParseAll\n", ""},
		"all of them":       {"`ParseAll max_size` internal/a/a.go main.go", "ParseAll, internal/a/a.go, main.go, max_size"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, f := range gate.Stale(gone, "README.md", []byte(tt.text)) {
				if f.Grave || f.Rule != gate.RuleStale || f.Path != "README.md" {
					t.Errorf("it is not only told: %+v", f)
				}
				got = strings.TrimPrefix(f.Text, "README.md still names what is gone: ")
			}
			if got != tt.want {
				t.Errorf("it names %q, want %q", got, tt.want)
			}
		})
	}
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("Name%d", i))
	}
	if got := gate.Stale(many, "a.md", []byte("`"+strings.Join(many, " ")+"`")); len(got) != 1 ||
		!strings.HasSuffix(got[0].Text, "Name0, Name1, Name2, Name3, Name4 and 4 more") {
		t.Errorf("of many: %+v", got)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	got := gate.Documents([]string{
		".github/x.md", ".ralph/7/progress.md", "CHANGELOG.md", "PLAN.md", "README.md", "a.go", "docs/a.md", "docs/adr/1.md",
		"docs/b/c.md", "docs/changes.md", "docs/plans/x.md", "node_modules/x/README.md", "planet.md", "web/vendor/x.md",
	})
	if d := cmp.Diff([]string{"README.md", "planet.md", "docs/a.md", "docs/b/c.md"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestGrown(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return strings.Repeat("x\n", n) }
	tests := []struct {
		name string
		most int
		diff gate.FileDiff
		want string
	}{
		{"within", 0, diff("a.go", lines(700), lines(800)), ""},
		{"beyond", 0, diff("a.go", lines(700), lines(801)), "a.go grew to 801 lines; more than 800 lines are hard to work on"},
		{"new", 10, diff("a_test.go", "", lines(11)), "a_test.go grew to 11 lines; more than 10 lines are hard to work on"},
		{"a little more", 0, diff("a.go", lines(900), lines(979)), ""},
		{"much more", 0, diff("a.go", lines(900), lines(980)), "a.go grew to 980 lines; more than 800 lines are hard to work on"},
		{"shorter", 10, diff("a.go", lines(90), lines(50)), ""},
		{"long lines", 0, diff("a.js", "", strings.Repeat("x", 90<<10)+"\n"), "a.js grew to 90 KiB; more than 800 lines are hard to work on"},
		{"off", -1, diff("a.go", "", lines(5000)), ""},
		{"gone", 10, diff("a.go", lines(500), ""), ""},
		{"generated", 10, diff("a.pb.go", "", "// Code generated by x. DO NOT EDIT.\n"+lines(500)), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range (gate.Quality{MaxLines: tt.most}).Grown([]gate.FileDiff{tt.diff}) {
				if f.Grave {
					t.Error("it fails the attempt")
				}
				got = append(got, f.Text)
			}
			if got := strings.Join(got, "\n"); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever a document and sources hold, what is told is short and valid.
func FuzzStale(f *testing.F) {
	f.Add("func ParseAll() {}\n", "`ParseAll` a/b.go", "a/b.go")
	f.Add("type X1__ int\n", "```\n~~~\nX1__", "")
	f.Fuzz(func(t *testing.T, source, document, path string) {
		gone := gate.NamesTaken([]gate.FileDiff{{Path: "a.go", Old: []byte(source)}}, []string{path})
		for _, found := range gate.Stale(gone, path+".md", []byte(document)) {
			if len(found.Text) > 2048 || !utf8.ValidString(found.Text) {
				t.Errorf("%d bytes are told: %q", len(found.Text), found.Text)
			}
		}
	})
}
