package run_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// TestStoppedNeverLooksFinished: no surface may tell the one for the other, not
// even for a reason that this version does not know.
func TestStoppedNeverLooksFinished(t *testing.T) {
	t.Parallel()
	finished := run.EndAllTasksComplete.Sentence()
	for _, r := range append(run.EndReasons(), "", "of_a_later_version") {
		passes := r.Conclusion() == run.ConclusionSuccess || r.Conclusion() == run.ConclusionNeutral
		switch {
		case (r.Conclusion() == run.ConclusionSuccess) != r.Complete():
			t.Errorf("%q: conclusion %s, complete %t", r, r.Conclusion(), r.Complete())
		case passes != (r.ExitCode() == run.ExitComplete):
			t.Errorf("%q: conclusion %s, exit code %d", r, r.Conclusion(), r.ExitCode())
		case (r.Sentence() == finished) != r.Complete():
			t.Errorf("%q: %s", r, r.Sentence())
		}
	}
}

// TestEndingsAreDocumented: the table of docs/commands.md has each reason once,
// with its exit code and its conclusion.
func TestEndingsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "\n### How a run ends\n")
	table, _, _ = strings.Cut(table, "\n### ")
	got, want := map[string]string{}, map[string]string{}
	row := regexp.MustCompile("(?m)^\\|[^|]*\\| (`[a-z_`, ]+`) \\| (\\d+)[^|]*\\| `([a-z_]+)` \\|$")
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			got[strings.Trim(name, "`")] += m[2] + " " + m[3]
		}
	}
	for _, r := range run.EndReasons() {
		want[string(r)] = fmt.Sprintf("%d %s", r.ExitCode(), r.Conclusion())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
