package progress

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

func TestNew(t *testing.T) {
	t.Parallel()
	d := New("a\n# b", Binding{Key: "plan:x"})
	var got []string
	for _, h := range d.heads {
		got = append(got, h.text)
	}
	want := append([]string{"Progress: a # b"}, sectionOrder[:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headings (-want +got):\n%s", diff)
	}
	if d.Status() != StatusInProgress || len(d.Tasks()) != 0 {
		t.Errorf("status %q, tasks %v", d.Status(), d.Tasks())
	}
	if New("\u200b", Binding{}).Title() != "(untitled)" {
		t.Error("no title")
	}
}

// Each edit, with the one stretch it may change.
func TestEdits(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 30, 5, 0, time.FixedZone("", 3600))
	tests := []struct {
		name     string
		edit     func(*Doc) error
		old, now string // in sample(false)
	}{
		{"tick", func(d *Doc) error { return d.Tick("T2") }, "- [ ] T2", "- [x] T2"},
		{"tick again", func(d *Doc) error { return d.Tick("T1") }, "", ""},
		{"status", func(d *Doc) error { return d.SetStatus("RALPH_DONE") }, "IN_PROGRESS", "RALPH_DONE"},
		{
			"block", func(d *Doc) error { return d.Block("T2", "needs (a)\nkey") }, "Wire the flag",
			"Wire the flag (blocked: needs (a) key)",
		},
		{
			"block for a reason with a parenthesis too many", func(d *Doc) error { return d.Block("T2", "1) a key :(") },
			"Wire the flag", "Wire the flag (blocked: 1] a key :[)",
		},
		{
			"block without reason", func(d *Doc) error { return d.Block("T3", " ") }, "whole suite",
			"whole suite (blocked: no reason given)",
		},
		{"attempt", func(d *Doc) error { return d.RecordAttempt(Attempt{Iteration: 5, Tried: "x", Result: "y", Next: "z"}) },
			"- Next: c\n", "- Next: c\n\n### Iteration 5\n- Tried: x\n- Result: y\n- Next: z\n"},
		{
			"clear attempts", func(d *Doc) error { return d.ClearSection(SectionAttempts) },
			"### Iteration 4\n- Tried: a\n- Result: b\n- Next: c\n", "",
		},
		{"log", func(d *Doc) error {
			return d.AppendLog(LogRow{
				Iteration: 2, Started: at, Duration: 63*time.Second + 400*time.Millisecond, Completed: "T2", Notes: "a|b\n| c \\|",
			})
		}, "| T1 | |\n", "| T1 | |\n| 2 | 2026-11-20 11:30:05Z | 1m3s | T2 | a&#124;b &#124; c \\&#124; |\n"},
		{"completed", func(d *Doc) error { return d.SetCompleted([]string{"T1 Serialise", "", "# two"}) },
			"## Completed This Iteration\n", "## Completed This Iteration\n- T1 Serialise\n- \\# two\n"},
		{"nothing completed", func(d *Doc) error { return d.SetCompleted(nil) }, "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, crlf := range []bool{false, true} {
				eol := func(s string) string {
					if crlf {
						return strings.ReplaceAll(s, "\n", "\r\n")
					}
					return s
				}
				d := parse(t, bom+sample(crlf))
				if err := tc.edit(d); err != nil {
					t.Fatal(err)
				}
				want := bom + strings.Replace(sample(crlf), eol(tc.old), eol(tc.now), 1)
				if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
					t.Errorf("crlf %v (-want +got):\n%s", crlf, diff)
				}
				if diff := cmp.Diff(parse(t, want).Tasks(), d.Tasks()); diff != "" {
					t.Errorf("the tasks in memory are others (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Edits of documents that people or other systems wrote.
func TestEditsElsewhere(t *testing.T) {
	t.Parallel()
	status := func(s string) func(*Doc) error { return func(d *Doc) error { return d.SetStatus(s) } }
	learn := func(d *Doc) error { return d.RecordAttempt(Attempt{Iteration: 1}) }
	tests := []struct {
		name      string
		src, want string
		edit      func(*Doc) error
	}{
		{"status in bold", "## Status\n\n**IN_PROGRESS**\n\nnote\n", "## Status\n\nX\n\nnote\n", status("X")},
		{"status over a rule", "## Status\nRALPH_DONE\n---\n## A\n", "## Status\nX\n---\n## A\n", status("X")},
		{"markers elsewhere", "## Status\nSTUCK\n`RALPH_DONE`\nnote\n\nRALPH_DONE", "## Status\nX\nnote\n\n", status("X")},
		{"empty status", "## Status\n## A\n", "## Status\nX\n\n## A\n", status("X")},
		{"status at the very end", "## Status", "## Status\nX\n", status("X")},
		{"no status", "# T\n\n## Tasks\n- [ ] a\n", "# T\n\n## Status\nX\n\n## Tasks\n- [ ] a\n", status("X")},
		{"nothing at all", "", "## Status\nX\n", status("X")},
		{"no section", "# T", "# T\n\n## Recent Attempts\n### Iteration 1\n", learn},
		{
			"section in between", "## Tasks\n\n## Mine\n\n## Iteration Log\n",
			"## Tasks\n\n## Mine\n\n## Recent Attempts\n### Iteration 1\n\n## Iteration Log\n", learn,
		},
		{"attempts of prose", "## Attempts\nprose\n\n\n## B", "## Attempts\nprose\n\n### Iteration 1\n\n\n## B", learn},
		{"html before", "## Attempts\n<div>\nx\n## B\n", "## Attempts\n<div>\nx\n## B\n\n### Iteration 1\n", learn},
		{
			"log without table", "## Iteration Log\n\nnone\n",
			"## Iteration Log\n\nnone\n\n" + logHeader + "| 1 | 0001-01-01 00:00:00Z | 0s |  |  |\n",
			func(d *Doc) error { return d.AppendLog(LogRow{Iteration: 1}) },
		},
		{
			"log with text after the table", "## Iteration Log\n| a |\n|---|\n| b |\n\ntext",
			"## Iteration Log\n| a |\n|---|\n| b |\n| 1 | 0001-01-01 00:00:00Z | 0s |  |  |\n\ntext",
			func(d *Doc) error { return d.AppendLog(LogRow{Iteration: 1}) },
		},
		{
			"block a task over lines", "- [ ] T1 a\n  b\n  - Accept: c\n", "- [ ] T1 a\n  b (blocked: x)\n  - Accept: c\n",
			func(d *Doc) error { return d.Block("T1", "x") },
		},
		{
			"block again", "- [ ] T1 a  (blocked: y (z))  \n", "- [ ] T1 a (blocked: x)  \n",
			func(d *Doc) error { return d.Block("T1", "x") },
		},
		{"ids", "## Tasks\n- [ ] a\n- [x] T2 b\n  - [ ] c\n* [ ]\td\n1. [ ] (P1) e\n\n## Iteration Log\nT4 was removed\n",
			"## Tasks\n- [ ] T3 a\n- [x] T2 b\n  - [ ] c\n* [ ] T5\td\n1. [ ] T6 (P1) e\n\n## Iteration Log\nT4 was removed\n",
			func(d *Doc) error { d.AssignIDs(); return nil }},
		{
			"doubled ids", "- [ ] T1 a\n- [ ] **T1** b\n- [ ] T001: c", "- [ ] T1 a\n- [ ] **T2** b\n- [ ] T3: c",
			func(d *Doc) error { d.AssignIDs(); return nil },
		},
		{
			"huge id", "- [ ] T999999 a\n- [ ] b", "- [ ] T999999 a\n- [ ] T1 b",
			func(d *Doc) error { d.AssignIDs(); return nil },
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tc.src)
			if err := tc.edit(d); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(d.Bytes())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, tc.want).Tasks(), d.Tasks()); diff != "" {
				t.Errorf("the tasks in memory are others (-want +got):\n%s", diff)
			}
		})
	}
}

// A section cannot be added behind a fence or a comment that never ends.
func TestEditAfterOpenBlock(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"# T\n\n```\ncode", "# T\n\n<!-- note"} {
		d := parse(t, src)
		if err := d.RecordAttempt(Attempt{Iteration: 1}); !errors.Is(err, errOpenBlock) {
			t.Errorf("%q: %v", src, err)
		}
		if string(d.Bytes()) != src {
			t.Errorf("changed to %q", d.Bytes())
		}
	}
}

func TestClone(t *testing.T) {
	t.Parallel()
	d := parse(t, sample(false))
	c := d.Clone()
	if err := errors.Join(c.Tick("T2"), c.SetStatus("X")); err != nil {
		t.Fatal(err)
	}
	tasks := d.Tasks()
	tasks[0].Accept[0] = "changed"
	if string(d.Bytes()) != sample(false) || d.Tasks()[1].Status != run.TaskOpen || d.Tasks()[0].Accept[0] == "changed" {
		t.Error("a copy shares memory with its original")
	}
}

// evil draws text with everything in it that Markdown makes something of.
func evil() *rapid.Generator[string] {
	token := rapid.SampledFrom([]string{
		"a", "word ", " ", "  ", "    ", "\t", "\n", "\r\n", "\n\n", "\r", "#", "## Tasks", "\n## Status\n", "RALPH_DONE",
		"- [ ] ", "- [x] T1 ",
		"- ", "* ", "1. ", "> ", "```", "~~~", "````\n", "<!--", "-->", "<div>", "|", "| a |", "---", "===", "\\", "`", "**",
		"_", "[a]: b", "](",
		"(blocked: x)", "(", ")", "T1 ", "T2", "(P1) ", "[P] ", "\x00", "\x1b[31m", "\u200b", "\u202e", "\U000e0041",
		"\ufeff", "é", "中", "👩‍💻", "\xff",
		strings.Repeat("> ", 40), strings.Repeat("x", 700),
	})
	return rapid.Map(rapid.SliceOfN(token, 0, 30), func(s []string) string { return strings.Join(s, "") })
}

// outline is what an edit must not change besides what it is asked to.
func outline(d *Doc) []string {
	var out []string
	for _, h := range d.heads {
		if h.level <= 2 {
			out = append(out, h.text)
		}
	}
	return out
}

// Whatever text goes in, sections, tasks and completion stay what they were.
func TestEditsAreSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		d, text := before.Clone(), evil().Draw(t, "text")
		if err := errors.Join(
			d.RecordAttempt(Attempt{Iteration: 1, Tried: text, Result: text, Next: text}),
			d.AppendLog(LogRow{Completed: text, Notes: text}), d.SetCompleted([]string{text, text}),
		); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outline(before), outline(d)); diff != "" {
			t.Fatalf("sections: %s\n%s", diff, d.Bytes())
		}
		if diff := cmp.Diff(before.Tasks(), d.Tasks()); diff != "" || d.MarkedDone() {
			t.Fatalf("tasks: %s\n%s", diff, d.Bytes())
		}
		n := New(text, Binding{Key: text, PlanSHA256: text})
		if diff := cmp.Diff(sectionOrder[:], outline(n)[1:]); diff != "" || len(n.Tasks()) > 0 || n.MarkedDone() {
			t.Fatalf("%s\n%s", diff, n.Bytes())
		}
	})
}

func mustParse(t *rapid.T, src string) *Doc {
	d, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(sample(false)), "text", uint8(0))
	f.Add([]byte("## Learnings\n```\n"), "- [ ] x", uint8(1))
	f.Add([]byte("- [ ] T1 a\n"), "needs (a (key)) :) &#41;", uint8(4))
	f.Fuzz(func(t *testing.T, src []byte, text string, which uint8) { editHolds(t, src, text, which) })
}

// What FuzzEdit tests, of documents that are mostly Markdown.
func TestEditsOfAnyDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := evil().Draw(t, "before") + "\n" + document().Draw(t, "document") + evil().Draw(t, "after")
		editHolds(t, []byte(strings.ToValidUTF8(strings.ReplaceAll(src, "\x00", ""), "")), evil().Draw(t, "text"),
			rapid.Uint8().Draw(t, "edit"))
	})
}

// editHolds holds for any document and text: an edit that fails changes
// nothing, one that does not leaves all the old bytes but those of one stretch,
// and the tasks are what they were but for the one that was meant.
func editHolds(t interface {
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}, src []byte, text string, which uint8) {
	d, err := Parse(src)
	if err != nil {
		return
	}
	before := d.Clone()
	id := ""
	for _, task := range before.tasks {
		if task.ID != "" {
			id = task.ID
		}
	}
	fresh := run.Task{Title: text, Group: text, Accept: []string{text}}
	edits := [...]func() error{
		func() error { return d.RecordAttempt(Attempt{Iteration: 1, Tried: text, Result: text}) },
		func() error { return d.AppendLog(LogRow{Iteration: 1, Notes: text}) },
		func() error { return d.Block(id, text) },
		func() error { return d.Skip(id, text) },
		func() error { return d.Reopen(id) },
		func() error { _, err := d.AddTask(fresh); return err },
		func() error { _, err := d.InsertAfter(id, fresh); return err },
	}
	n := int(which) % len(edits)
	if err := edits[n](); err != nil {
		if string(d.Bytes()) != string(src) {
			t.Error("failed and changed the document")
		}
		return
	}
	now := d.Bytes()
	if again, err := Parse(now); err != nil || !cmp.Equal(again.Tasks(), d.Tasks()) {
		t.Fatalf("another parse: %v", err)
	}
	if n < 2 {
		// The old bytes are all there, around one insertion.
		head := 0
		for head < len(src) && head < len(now) && src[head] == now[head] {
			head++
		}
		if !strings.HasSuffix(string(now), string(src[head:])) {
			t.Errorf("more than an insertion:\n%q\n%q", src, now)
		}
		if before.tasksHead >= 0 && !sameTasks(before.tasks, d.tasks) {
			t.Errorf("tasks changed:\n%q\n%q", src, now)
		}
		return
	}
	if n == 2 || n == 3 {
		reasonHolds(t, d, id, text)
	}
	kept := slices.DeleteFunc(slices.Clone(d.tasks), func(task task) bool {
		return task.ID == id || task.ID != "" && !slices.ContainsFunc(before.Tasks(),
			func(b run.Task) bool { return b.ID == task.ID })
	})
	others := slices.DeleteFunc(slices.Clone(before.tasks), func(task task) bool { return task.ID == id })
	if !sameTasks(others, kept) {
		t.Errorf("other tasks changed:\n%q\n%q", src, now)
	}
}

// reasonHolds: the reason of a mark is read back as it went in, but for what does
// not fit or show.
func reasonHolds(t interface {
	Errorf(format string, args ...any)
}, d *Doc, id, text string) {
	text, _ = Clean(text)
	want := strs.OneLine(text)
	if want == "" || len(want) > maxCell || strings.Contains(want, "<!--") {
		return
	}
	if !paired(want) {
		want = strings.NewReplacer("(", "[", ")", "]").Replace(want)
	}
	if got, _ := d.Task(id); got.Reason != want {
		t.Errorf("reason %q is read as %q in\n%s", want, got.Reason, d.Bytes())
	}
}

// What goes in as a reason comes out, and an agent or a person who writes the
// same line by hand is read alike.
func TestReasonsKeepTheirParentheses(t *testing.T) {
	t.Parallel()
	for reason, line := range map[string]string{
		"no key (see the wiki)": "no key (see the wiki)",
		"f(g(x)) (and y)":       "f(g(x)) (and y)",
		"why :)":                "why :]",
		"((":                    "[[",
		") then (":              "] then [",
		"a) x b) (blocked: y)":  "a] x b] [blocked: y]",
		"(blocked: y":           "[blocked: y",
		`C:\dir\(x)\`:           `C:\dir\(x)\`,
		"#12 is first":          "#12 is first",
	} {
		d := parse(t, "## Tasks\n- [ ] T1 a\n")
		if err := d.Block("T1", reason); err != nil {
			t.Fatalf("%q: %v", reason, err)
		}
		if want := "- [ ] T1 a (blocked: " + line + ")\n"; !strings.HasSuffix(string(d.Bytes()), want) {
			t.Errorf("%q is written as\n%s", reason, d.Bytes())
		}
		reasonHolds(t, parse(t, string(d.Bytes())), "T1", line)
		if err := d.Reopen("T1"); err != nil || !strings.HasSuffix(string(d.Bytes()), "- [ ] T1 a\n") {
			t.Errorf("%q: opened again: %v\n%s", reason, err, d.Bytes())
		}
	}
}

func sameTasks(a, b []task) bool {
	return slices.EqualFunc(a, b, func(x, y task) bool {
		return x.ID == y.ID && x.Title == y.Title && x.Status == y.Status
	})
}

func TestPatch(t *testing.T) {
	t.Parallel()
	const src = bom + "## Tasks\n- [ ] T1 a\n- [ ] T2 b\n" // offsets do not count the mark
	tests := []struct {
		name    string
		patches []Patch
		want    string // "" is an error
	}{
		{"none", nil, src},
		{
			"out of order", []Patch{{29, 31, "c\n- [ ] d\n"}, {18, 19, "longer"}},
			bom + "## Tasks\n- [ ] T1 longer\n- [ ] T2 c\n- [ ] d\n",
		},
		{
			"at the ends", []Patch{{31, 31, "- [ ] c\n"}, {0, 0, "# A\n"}},
			bom + "# A\n## Tasks\n- [ ] T1 a\n- [ ] T2 b\n- [ ] c\n",
		},
		{
			"insertions at one place keep their order", []Patch{{20, 20, "- [ ] c\n"}, {20, 20, "- [ ] d\n"}},
			bom + "## Tasks\n- [ ] T1 a\n- [ ] c\n- [ ] d\n- [ ] T2 b\n",
		},
		{
			"insertion before a replacement", []Patch{{20, 22, "* "}, {20, 20, "- [ ] c\n"}},
			bom + "## Tasks\n- [ ] T1 a\n- [ ] c\n* [ ] T2 b\n",
		},
		{"side by side", []Patch{{9, 20, ""}, {20, 31, ""}}, bom + "## Tasks\n"},
		{"overlap", []Patch{{9, 20, ""}, {19, 31, ""}}, ""},
		{"insertion inside a replacement", []Patch{{9, 20, ""}, {10, 10, "x"}}, ""},
		{"backwards", []Patch{{20, 9, ""}}, ""},
		{"before the start", []Patch{{-1, 2, ""}}, ""},
		{"behind the end", []Patch{{31, 32, ""}}, ""},
		{"not a document any more", []Patch{{9, 9, "\x00"}}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, src)
			err := d.patch(tc.patches...)
			want := tc.want
			if want == "" {
				want = src
				if err == nil {
					t.Error("no error")
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, want).Tasks(), d.Tasks()); diff != "" {
				t.Errorf("the tasks in memory are others (-want +got):\n%s", diff)
			}
		})
	}
}
