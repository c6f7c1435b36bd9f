package island

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

func mustParse(t interface {
	Helper()
	Fatalf(string, ...any)
}, body string) Island {
	t.Helper()
	got, err := Parse(body)
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, body)
	}
	return got
}

// tokens are what hostile text is made of.
var tokens = []string{
	"@me", "@org/team", "#1", "fixes #12", "GH-1", "closes o/r#3", "https://e.x", "www.e.x", "a@b.example", "`", "``", "```", "`a`", "`_blocked_`", "\\", "\\`", "\\(",
	"[", "]", "(", ")", "](", "![x](y)", "!", "<", ">", "<a>", "</details>", "<!--", "-->", "<!-- ralph:island:end -->", islandStart, "*", "**", "_", "__", "~", "~~", "|", "$", "&", "&#64;", "&amp;",
	" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2028", "a", "T1", "T99", "T2:", "**T3**", "(P1)", "(p2)", "[P]", "[VERIFY]", "[ ]", "[x]", "- ", "– ", "— ", "+ ", "1. ", "1) ", "#", "# ", "## Tasks", "> ", "===", "---",
	"(blocked: x)", "(skipped: y)", "(blocked:", "(after T1)", "(needs T1, T2)", "after T1", "depends on T1", "_blocked_", " _skipped_: z", "⛔ _blocked_", "⏭️", "⏳", "…", cutMark, "Accept:", "accept: ", "Other", "_Other_", "/merge", "[skip ci]",
	"\u200b", "\u200d", "\u200c", "\ufeff", "\u202e", "\ufe0f", "\U000e0041", "👩\u200d👩\u200d👧", "#️⃣", "שלום", "ب\u200c", "ك\u200cب", "é", "e\u0301", "世", "\xff", "\x00", "\x1b[31m", ":tada:", "snake_case", "x_blocked_ y", "Co-authored-by: v", "… and 3 tasks not shown here.",
}

func hostileText(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(tokens), rapid.SampledFrom(tokens), rapid.StringN(0, 5, -1)), 0, most).Draw(t, "text"), "")
	})
}

func hostileTasks(most int) *rapid.Generator[[]run.Task] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) run.Task {
		id := ""
		if rapid.Bool().Draw(t, "has id") {
			id = fmt.Sprintf("T%d", rapid.IntRange(0, 40).Draw(t, "id"))
		}
		return run.Task{
			ID:       rapid.OneOf(rapid.Just(id), rapid.Just(id), hostileText(3)).Draw(t, "id text"),
			Title:    hostileText(8).Draw(t, "title"),
			Group:    rapid.OneOf(rapid.SampledFrom([]string{"", "Phase 1", "Tasks", "Other"}), hostileText(4)).Draw(t, "group"),
			Accept:   rapid.SliceOfN(hostileText(5), 0, 3).Draw(t, "accept"),
			Priority: rapid.IntRange(-1, 11).Draw(t, "priority"),
			Parallel: rapid.Bool().Draw(t, "parallel"),
			Verify:   rapid.Bool().Draw(t, "verify"),
			Status:   rapid.SampledFrom([]run.TaskStatus{run.TaskOpen, run.TaskInProgress, run.TaskDone, run.TaskBlocked, run.TaskSkipped, "", "odd"}).Draw(t, "status"),
		}
	}), 0, most)
}

// TestParseOfRender: whatever the tasks hold, reading them back gives them.
func TestParseOfRender(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := View{IssueNumber: 7, Phase: run.PhaseIterating, Tasks: hostileTasks(6).Draw(t, "tasks"), Reasons: map[string]string{}}
		for _, task := range v.Tasks {
			v.Reasons[task.ID] = hostileText(4).Draw(t, "reason")
		}
		v.Note, v.Learnings = hostileText(4).Draw(t, "note"), hostileText(8).Draw(t, "learnings")
		v.Gates = []Gate{{Name: hostileText(3).Draw(t, "gate"), Detail: hostileText(8).Draw(t, "output")}}
		want := Normalise(v.Tasks, nil)
		if diff := cmp.Diff(want, Normalise(want, nil)); diff != "" {
			t.Fatalf("normalising again changes it:\n%s", diff)
		}
		body := Render(v)
		got := mustParse(t, body)
		if diff := cmp.Diff(want, got.RunTasks(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, body)
		}
		if got.Edited || got.Hidden != 0 {
			t.Fatalf("edited = %t, %d hidden", got.Edited, got.Hidden)
		}
		for i, task := range got.Tasks {
			reason := ""
			if task.Status == run.TaskBlocked || task.Status == run.TaskSkipped {
				reason = tidy(nil, v.Reasons[want[i].ID])
			}
			if task.Reason != reason || task.Cut {
				t.Fatalf("%s: cut = %t, reason = %q, want %q\n%s", task.ID, task.Cut, task.Reason, reason, body)
			}
		}
		// GitHub's editor makes other line ends.
		again := mustParse(t, strings.ReplaceAll(body, "\n", "\r\n"))
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("with other line ends (-want +got):\n%s", diff)
		}
	})
}
