package loop

import (
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/progress"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

func TestWithPatterns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, src string
		add       []string
		want      string
		added     int
	}{
		{"no file", "", []string{"a", "b"}, "# Notes for agents\n\n## Codebase patterns\n\n- a\n- b\n", 2},
		{"no section", "# Hi\n\nBe kind.\n\n\n", []string{"a"}, "# Hi\n\nBe kind.\n\n## Codebase patterns\n\n- a\n", 1},
		{"no end of line", "Be kind.", []string{"a"}, "Be kind.\n\n## Codebase patterns\n\n- a\n", 1},
		{
			"a section in the middle", "## codebase patterns\n\n- x\n\n## Style\n- y\n", []string{"a"},
			"## codebase patterns\n\n- x\n- a\n\n## Style\n- y\n", 1,
		},
		{
			"an empty section", "## Codebase patterns\n\n## Style\n", []string{"a"}, "## Codebase patterns\n\n- a\n\n## Style\n",
			1,
		},
		{"a section without end of line", "## Codebase patterns\n- x", []string{"a"}, "## Codebase patterns\n- x\n- a\n", 1},
		{
			"lower headings belong to it", "## Codebase patterns\n### Tests\n- x\n# Else\n", []string{"a"},
			"## Codebase patterns\n### Tests\n- x\n- a\n# Else\n", 1,
		},
		{
			"a heading in a fence is none", "```\n## Codebase patterns\n```\n", []string{"a"},
			"```\n## Codebase patterns\n```\n\n## Codebase patterns\n\n- a\n", 1,
		},
		{"an open fence", "```\nx\n", []string{"a"}, "```\nx\n", 0},
		{"known, wherever", "* Run Make\n", []string{"run make", "RUN MAKE"}, "* Run Make\n", 0},
		{"twice the same", "## Codebase patterns\n- x\n", []string{"a", "A"}, "## Codebase patterns\n- x\n- a\n", 1},
		{
			"the other ends of lines", "## Codebase patterns\r\n- x\r\n", []string{"a"},
			"## Codebase patterns\r\n- x\r\n- a\r\n", 1,
		},
	}
	for _, tt := range tests {
		got, added := withPatterns(tt.src, tt.add)
		if diff := cmp.Diff(tt.want, got); diff != "" || added != tt.added {
			t.Errorf("%s: %d added (-want +got):\n%s", tt.name, added, diff)
		}
	}
}

// Whatever the file holds: all of it stays, and what was added is not added
// again.
func TestWithPatternsKeepsTheFile(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{
		"", "text", "- x", "# A", "## Codebase patterns", "## Codebase Patterns ", "### B", "```", "~~~", "- a", "  - deep",
		"\r",
	})
	rapid.Check(t, func(t *rapid.T) {
		src := strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), "\n")
		got, added := withPatterns(src, []string{"a", "b"})
		if strings.Count(got, "\n- b") > 1 {
			t.Fatalf("twice in %q", got)
		}
		rest := got
		for l := range strings.FieldsSeq(src) {
			i := strings.Index(rest, l)
			if i < 0 {
				t.Fatalf("%q is gone from %q", l, got)
			}
			rest = rest[i+len(l):]
		}
		if again, more := withPatterns(got, []string{"a", "b"}); added > 0 && (more != 0 || again != got) {
			t.Fatalf("%d more in %q", more, again)
		}
	})
}

func TestNotedPatternsAreOneCleanLineEach(t *testing.T) {
	t.Parallel()
	doc := func(section string) *progress.Doc {
		d, err := progress.Parse([]byte("## Tasks\n- [ ] T1 a\n\n## Codebase Patterns\n" + section))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := doc("- old\n")
	after := doc("- old\n- new \u202e thing\n* another\n+ third\nprose\n- <!-- hidden -->\n- \n-x\n- " +
		strings.Repeat("é", 300) + "\n")
	want := []string{"new thing", "another", "third", strings.Repeat("é", 199) + "…"}
	got := noted(nil, before, after)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// What a later attempt takes back is not noted any more, and there is an end.
	later := doc("- another\n- 1\n- 2\n- 3\n- 3\n- 4\n- 5\n")
	if diff := cmp.Diff([]string{"another", "1", "2", "3", "4"}, noted(got, after, later)); diff != "" {
		t.Error(diff)
	}
}
