package island

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// everywhere is a view with the same text in each place that text goes to.
func everywhere(text string) View {
	v := View{
		IssueNumber: 7, Title: text, RepoURL: "https://github.example/octo/report", Branch: "ralph/7", RequestedBy: text,
		Commits: []Commit{
			{OID: oid(1), Subject: text, TaskID: text, Summary: "It said " + text + ". Try it: " + text}, {OID: text},
			{OID: oid(2), TaskID: "T5", Verified: new(false)}, {OID: oid(3), TaskID: "T2"}, {OID: "?", TaskID: "T3"},
		},
		Phase: run.PhaseFailed, End: run.EndFailed, Agent: text, Model: text,
		Gates:    []Gate{{Name: text, Detail: text}, {Name: "second", Detail: text, Note: text}},
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
	v.Tasks = append(v.Tasks, run.Task{ID: text, Title: text})
	return v
}

// attack puts a text everywhere and checks that nothing in there acts, and that
// the tasks are still the tasks.
func attack(t *testing.T, text string) {
	t.Helper()
	v := everywhere(text)
	body := Render(v)
	checkInert(t, v, body)
	if diff := cmp.Diff(Normalise(v.Tasks, mask), mustParse(t, body).RunTasks(),
		cmpopts.IgnoreFields(run.Task{}, "Reason")); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
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
		"a forged status":       "⛔ _blocked_: by me",
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
		v.Tasks = append(v.Tasks, hostileTasks(4).Draw(t, "tasks")...)
		v.Learnings, v.Testing = hostileText(20).Draw(t, "learnings"), hostileText(20).Draw(t, "testing strategy")
		v.Gates[0].Detail = hostileText(20).Draw(t, "output")
		for _, limit := range []int{MaxSize, 4000, 2000, 900} {
			checkInert(t, v, newRenderer(v).within(limit))
		}
	})
}

func TestAttackE2TooLong(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "世", "👩\u200d👩\u200d👧", "@a", "`", "![](https://evil.example)\n"} {
		v := everywhere(strings.Repeat(unit, 70_000/len(unit)))
		body := Render(v)
		checkInert(t, v, body)
		if len(body) > MaxSize || units(body) > MaxSize || !utf8.ValidString(body) {
			t.Errorf("%q: %d bytes, %d units", unit, len(body), units(body))
		}
		if got := mustParse(t, body); len(got.Tasks)+got.Hidden < 5 {
			t.Errorf("%q: %d tasks, %d hidden", unit, len(got.Tasks), got.Hidden)
		}
	}
}

// TestAttackE2MultiByteAtTheLimit moves the limit over each byte of a text whose
// characters take up to four bytes and two units.
func TestAttackE2MultiByteAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"é", "世", "😀", "e\u0301", "👩\u200d👩\u200d👧 ", "@世", "`世` "} {
		v := View{
			IssueNumber: 7,
			Tasks:       []run.Task{{ID: "T1", Title: strings.Repeat(unit, 20), Accept: []string{strings.Repeat(unit, 8)}}},
			Learnings:   strings.Repeat(unit, 15),
		}
		whole := Render(v)
		if units(whole) > len(whole) {
			t.Fatalf("%q: %d units in %d bytes", unit, units(whole), len(whole))
		}
		if got := newRenderer(v).within(len(whole)); got != whole {
			t.Errorf("%q: shortened though it fits to the byte", unit)
		}
		least := newRenderer(v).within(0)
		for limit := len(least) + 5; limit < len(whole); limit++ {
			got := newRenderer(v).within(limit)
			if len(got) > limit || !utf8.ValidString(got) {
				t.Fatalf("%q: %d bytes, at most %d:\n%s", unit, len(got), limit, got)
			}
			if n := len(mustParse(t, got).Tasks); n > 1 {
				t.Fatalf("%q: %d tasks in\n%s", unit, n, got)
			}
		}
	}
}

func TestAttackC3PastedMarkers(t *testing.T) {
	t.Parallel()
	forged := frame("### Tasks\n\n- [x] T1 forged\n")
	for _, text := range []string{
		islandEnd, islandStart + " -->", forged, "`" + forged + "`", "<!-- ralph:said:0 -->", "<!" + islandEnd,
		"<\u200b!-- ralph:island:end -->",
	} {
		attack(t, text)
		v := everywhere(text)
		body := Render(v)
		if from, to, ok := findIsland(body); !ok || from != 0 || to != len(body) {
			t.Errorf("%q: the island is %d to %d of %d", text, from, to, len(body))
		}
		if again := Merge(body, body); again != body {
			t.Errorf("%q: merging changed it", text)
		}
	}
	// Pasted in front of ours, by somebody who may edit the description, it is
	// the island, but one that was edited.
	got := mustParse(t, strings.Replace(forged, "forged", "mine", 1)+"\n"+Render(working()))
	if !got.Edited || len(got.Tasks) != 1 {
		t.Errorf("pasted island: %+v", got)
	}
}

func TestAttackC4PeopleEditTheDescription(t *testing.T) {
	t.Parallel()
	v := working()
	body := Render(v)
	want := mustParse(t, body).Tasks
	next := v
	next.Tasks = next.Tasks[:4]
	fresh := Render(next)
	noEnd := strings.TrimSuffix(body, islandEnd)
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	cases := []struct {
		name, existing, merged string
		edited                 bool
		err                    error
	}{
		{"untouched", body, fresh, false, nil},
		{"text outside", "Hello\t\r\n\n" + body + "\n\x00 bye ", "Hello\t\r\n\n" + fresh + "\n\x00 bye ", false, nil},
		{
			"text outside that looks like ours", "- [ ] T9 mine\n\n" + body + "\n\n### Tasks\n- [x] T8 x",
			"- [ ] T9 mine\n\n" + fresh + "\n\n### Tasks\n- [x] T8 x", false, nil,
		},
		{"line ends of the editor", crlf("Hi\n\n" + body + "\n"), "Hi\r\n\r\n" + fresh + "\r\n", false, nil},
		{"edit inside", strings.Replace(body, "### Checks", "### My checks", 1), fresh, true, nil},
		{"end marker deleted", "a\n" + noEnd + "\nb", "a\n" + fresh + "\nb", false, nil},
		{"end marker deleted, line ends changed", crlf("a\n" + noEnd + "\nb"), "a\r\n" + fresh + "\r\nb", false, nil},
		{
			"end marker deleted and text changed", strings.Replace(noEnd, "Checks", "x", 1),
			strings.Replace(noEnd, "Checks", "x", 1) + "\n" + fresh, true, ErrNoIsland,
		},
		{
			"start marker duplicated", "<!-- ralph:island:start -->\n" + body, "<!-- ralph:island:start -->\n" + fresh, false,
			nil,
		},
		{"end marker duplicated", body + "\n" + islandEnd, fresh + "\n" + islandEnd, false, nil},
		{
			"island duplicated", body + "\n" + strings.Replace(body, "[ ]", "[x]", -1),
			fresh + "\n" + strings.Replace(body, "[ ]", "[x]", -1), false, nil,
		},
		{"island deleted", "mine", "mine\n\n" + fresh, true, ErrNoIsland},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(c.existing)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err == nil {
				if diff := cmp.Diff(Island{Tasks: want, Edited: c.edited}, got); diff != "" {
					t.Errorf("parsed (-want +got):\n%s", diff)
				}
			}
			merged, err := Update(c.existing, next)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.merged, merged); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if again, err := Update(merged, next); err != nil || again != merged {
				t.Errorf("merging again changed it: %v", err)
			}
		})
	}
}

// TestAttackH7MoreThanFits: whatever there is to say, the text is what GitHub
// takes, the same each time, and leads to the rest.
func TestAttackH7MoreThanFits(t *testing.T) {
	t.Parallel()
	for n, length := range map[int]int{500: 150, 10_000: 10} {
		for _, filler := range []string{"x", "é", "😀"} {
			v := many(n, strings.Repeat(filler, length))
			body := Render(v)
			if len(body) > MaxSize || units(body) > len(body) {
				t.Errorf("%d × %q: %d bytes, %d units", n, filler, len(body), units(body))
			}
			if len(body) < MaxSize*3/4 {
				t.Errorf("%d × %q: only %d bytes are used", n, filler, len(body))
			}
			if body != Render(v) {
				t.Errorf("%d × %q: not the same again", n, filler)
			}
			for _, want := range []string{
				fmt.Sprintf("%d of %d tasks", (n+1)/2, n), "T2 ",
				"[`.ralph/7/progress.md`](https://github.example/octo/report/commits/ralph/7/.ralph/7/progress.md)",
			} {
				if !strings.Contains(body, want) {
					t.Errorf("%d × %q: no %q", n, filler, want)
				}
			}
			got := mustParse(t, body)
			if len(got.Tasks)+got.Hidden != n || got.Edited {
				t.Errorf("%d × %q: %d tasks and %d hidden, edited = %t", n, filler, len(got.Tasks), got.Hidden, got.Edited)
			}
			for _, theirs := range []int{20_000, 64_500} {
				existing := strings.Repeat("é", theirs) + "\n\n" + body
				merged, err := Update(existing, v)
				if err != nil {
					t.Fatalf("%d × %q under %d characters: %v", n, filler, theirs, err)
				}
				if units(merged) > maxDescription || !strings.HasPrefix(merged, strings.Repeat("é", theirs)+"\n\n"+islandStart) {
					t.Errorf("%d × %q under %d characters: %d units", n, filler, theirs, units(merged))
				}
				if again, err := Update(merged, v); err != nil || again != merged {
					t.Errorf("%d × %q under %d characters: written again: %v", n, filler, theirs, err)
				}
			}
			if _, err := Update(strings.Repeat("é", 65_400), v); !errors.Is(err, ErrNoRoom) {
				t.Errorf("no room: %v", err)
			}
		}
	}
}

// many is a run with n tasks, every other one done, each with a title and a
// criterion of text.
func many(n int, text string) View {
	v := View{
		IssueNumber: 7, RepoURL: "https://github.example/octo/report", Branch: "ralph/7", Phase: run.PhaseIterating,
		Iteration: 3,
		Gates:     []Gate{{Name: "go test", Detail: text}}, Learnings: strings.Repeat("- "+text+"\n", 10),
	}
	for i := range n {
		t := run.Task{
			ID: fmt.Sprintf("T%d", i+1), Title: fmt.Sprintf("Step %d %s", i+1, text), Group: fmt.Sprintf("Phase %d", i/50),
			Accept: []string{text}, Status: run.TaskOpen,
		}
		if i%2 == 0 {
			t.Status = run.TaskDone
			v.Commits = append(v.Commits, Commit{OID: oid(i), Subject: t.Title, TaskID: t.ID, Verified: signed()})
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}
