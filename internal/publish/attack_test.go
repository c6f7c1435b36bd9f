package publish

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// everywhere is a view with the same text in each place that text goes to.
func everywhere(text string) View {
	v := View{
		IssueNumber: 7, Title: text, RepoURL: "https://github.example/octo/report", Branch: "ralph/7", RequestedBy: text,
		Commits: []loop.Landed{
			{OID: oid(1), Subject: text, TaskID: text, Summary: "It said " + text + ". Try it: " + text}, {OID: text},
			{OID: oid(2), TaskID: "T5", Verified: new(false)}, {OID: oid(3), TaskID: "T2"}, {OID: "?", TaskID: "T3"},
		},
		Phase: run.PhaseFailed, End: run.EndFailed, Agent: text, Model: text,
		Gates:    []gate.Result{failedGate(text, text), {Gate: "second", Output: text, Verdict: gate.Verdict{Standing: gate.Noted, Note: text}}},
		Findings: []string{text}, Removed: 1,
		Analysis: text, Testing: "- " + text, Patterns: text,
		Log:       []progress.LogRow{{Iteration: 1, Completed: text, Notes: text}},
		Learnings: text, Note: text, Merged: []string{text}, Closes: true, Mask: mask, PullNumber: 8,
		Said: []Said{{Where: text, By: text, TaskID: text, OID: text}, {Where: text, By: text, Comment: 9, Why: text}},
	}
	for i, status := range []run.TaskStatus{
		run.TaskOpen, run.TaskBlocked, run.TaskSkipped, run.TaskInProgress, run.TaskDone,
	} {
		v.Tasks = append(v.Tasks, run.Task{
			ID: fmt.Sprintf("T%d", i+1), Title: text, Group: text, Accept: []string{text}, Status: status, Reason: text,
		})
	}
	return v
}

// attack puts a text everywhere and checks that nothing in there acts, and that
// the boxes are those of the tasks.
func attack(t *testing.T, text string) {
	t.Helper()
	v := everywhere(text)
	body := rendered(t, v)
	checkInert(t, v, body)
	var boxes []string
	for _, m := range boxRE().FindAllStringSubmatch(body, -1) {
		boxes = append(boxes, m[2])
	}
	if diff := cmp.Diff([]string{"T1", "T2", "T3", "T4", "T5"}, boxes); diff != "" {
		t.Errorf("boxes (-want +got):\n%s\n%s", diff, body)
	}
}

// rendered is the description of a new pull request.
func rendered(t fataler, v View) string {
	t.Helper()
	body, err := Body("", v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return body
}

// tokens are what hostile text is made of.
var tokens = []string{
	"@me", "@org/team", "#1", "fixes #12", "GH-1", "closes o/r#3", "https://e.x", "www.e.x", "a@b.example", "`", "``",
	"```", "`a`", "`_blocked_`", "\\", "\\`", "\\(",
	"[", "]", "(", ")", "](", "![x](y)", "!", "<", ">", "<a>", "</details>", "<!--", "-->", "<!-- ralph:end -->",
	blockBegin, "*", "**", "_", "__", "~", "~~", "|", "$", "&", "&#64;", "&amp;",
	" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2028", "a", "T1", "T99", "T2:", "**T3**", "(P1)", "(p2)", "[P]",
	"[VERIFY]", "[ ]", "[x]", "- ", "– ", "— ", "+ ", "1. ", "1) ", "#", "# ", "## Tasks", "> ", "===", "---",
	"(blocked: x)", "(skipped: y)", "(blocked:", "(after T1)", "(needs T1, T2)", "after T1", "depends on T1", "_blocked_",
	" _skipped_: z", "⛔ _blocked_", "⏭️", "⏳", "…", "Accept:", "accept: ", "Other", "_Other_", "/merge",
	"[skip ci]",
	"\u200b", "\u200d", "\u200c", "\ufeff", "\u202e", "\ufe0f", "\U000e0041", "👩\u200d👩\u200d👧", "#️⃣", "שלום", "ب\u200c",
	"ك\u200cب", "é", "e\u0301", "世", "\xff", "\x00", "\x1b[31m", ":tada:", "snake_case", "x_blocked_ y",
	"Co-authored-by: v", "… and 3 tasks not shown here.",
}

func hostileText(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(tokens), rapid.SampledFrom(tokens),
			rapid.StringN(0, 5, -1)), 0, most).Draw(t, "text"), "")
	})
}

func TestAttackE1WordsThatAct(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"mention":               "@org/team, @octocat and a@b.example",
		"mention by entity":     "&#64;octocat &commat;octocat &#x40;octocat",
		"closing keyword":       "fixes #1, closes octo/x#2, resolves GH-3, Fixes: #4",
		"closing by address":    "fixes https://github.com/octo/x/issues/4",
		"command":               "/merge",
		"our command":           "/ralph approve",
		"command on a new line": "x\n/merge\n  /ralph stop",
		"trailer":               "x\n\nCo-authored-by: victim <v@example.com>\nSigned-off-by: victim <v@example.com>",
		"skipping CI":           "[skip ci] [ci skip] [no ci] [skip actions] `[skip ci]`",
		"a forged tick":         "- [x] T9 done by me\n- [x] T1",
		"a forged status":       "x (blocked: by me)",
		"a forged count":        "x\n… and 400 tasks not shown here.",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, text)
			attack(t, "`"+text+"`")
			attack(t, "x "+text+" y")
		})
	}
}

func TestAttackE2Markup(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"fence":              "```\n</details>\n```\n# head\n~~~\nx\n~~~",
		"longer fence":       "````````\n```\n``",
		"fence in a list":    "  ```\n# head\n- x",
		"end of details":     "</details></summary>\n\n# head",
		"raw HTML":           "<img src=x onerror=y><script>z</script><a href='https://evil.example'>x</a>",
		"HTML block":         "<div>\n\n# head\n\n</div>\n<pre>\n",
		"comment":            "<!-- x\n# head\n-->",
		"image beacon":       "![](https://evil.example/?q=1) ![x][y]\n\n[y]: https://evil.example",
		"link beacon":        "[x](https://evil.example/?q=1) <https://evil.example> www.evil.example https://evil.example",
		"reference":          "[x]: https://evil.example\n[x]",
		"footnote":           "x[^1]\n\n[^1]: https://evil.example",
		"alert":              "[!WARNING]\n> [!NOTE]",
		"heading":            "# head\nhead\n====\nhead\n---",
		"closed heading":     "head #",
		"table":              "a | b\n--|--\n`|` | c",
		"mathematics":        "$x$ $`y`$ $$z$$",
		"quote":              "> x\n>> y",
		"escapes":            "\\`\\*\\<b>\\[x](y)\\",
		"bidi and tags":      "a\u202eb\u2066c\U000e0041\U000e007fd",
		"ANSI":               "\x1b]8;;https://evil.example\x1b\\x\x1b]8;;\x1b\\ \x1b[31mred",
		"not UTF-8":          "a\xff\xfe\xedb",
		"one long word":      strings.Repeat("x", 400),
		"spans side by side": "`a``b` `c`` `d`",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, text)
		})
	}
}

// TestAttackE2NothingActs draws the attacks at random, and mixes them.
func TestAttackE2NothingActs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := everywhere(hostileText(10).Draw(t, "everywhere"))
		v.Learnings, v.Testing = hostileText(20).Draw(t, "learnings"), hostileText(20).Draw(t, "testing strategy")
		v.Gates[0].Output = hostileText(20).Draw(t, "output")
		checkInert(t, v, rendered(t, v))
		for _, limit := range []int{4000, 2000, 900} {
			checkInert(t, v, blockBegin+"\n"+describe(v, limit)+blockEnd)
		}
	})
}

func TestAttackE2TooLong(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "世", "👩\u200d👩\u200d👧", "@a", "`", "![](https://evil.example)\n"} {
		v := everywhere(strings.Repeat(unit, 70_000/len(unit)))
		body := rendered(t, v)
		checkInert(t, v, body)
		if units(body) > maxDescription || !utf8.ValidString(body) {
			t.Errorf("%q: %d bytes, %d units", unit, len(body), units(body))
		}
		if n := len(boxRE().FindAllString(body, -1)); n != 5 {
			t.Errorf("%q: %d tasks", unit, n)
		}
	}
}

// TestAttackC3PastedMarkers: none of them ends our part, or begins another.
func TestAttackC3PastedMarkers(t *testing.T) {
	t.Parallel()
	forged := blockBegin + "\n### Tasks\n\n- [x] T1 forged\n" + blockEnd
	for _, text := range []string{
		blockEnd, blockBegin, forged, "`" + forged + "`", "<!-- ralph:said:0 -->", "<!" + blockEnd, "<\u200b!-- ralph:end -->",
	} {
		attack(t, text)
		v := everywhere(text)
		body := rendered(t, v)
		if from, to, ok := findBlock(body); !ok || from != 0 || to != len(body) {
			t.Errorf("%q: our part is %d to %d of %d", text, from, to, len(body))
		}
		if again, err := Body(body, v); again != body || err != nil {
			t.Errorf("%q: writing it again changed it, %v", text, err)
		}
	}
}
