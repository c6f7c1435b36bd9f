package publish

import (
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// What a description shows of patterns and learnings is read back from it alone.
func TestNotesAreReadBack(t *testing.T) {
	t.Parallel()
	v := View{
		IssueNumber: 1, Phase: run.PhaseDone, Analysis: "- not this", Patterns: "- `a_b` is *odd*\n- ping @ada",
		Learnings: "- </details> flushes late\n\nand slowly",
	}
	const want = "- `a_b` is *odd*\n- ping @ada\n- </details> flushes late\n- and slowly"
	if got := Notes("Hello.\n" + rendered(t, v)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, body := range []string{"", "<details>\n<summary>Learnings</summary>\n\n- mine\n</details>", rendered(t, View{})} {
		if got := Notes(body); got != "" {
			t.Errorf("%q has notes: %q", body, got)
		}
	}
}
