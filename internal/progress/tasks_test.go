package progress

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// Where a new task goes, and as what.
func TestAddTask(t *testing.T) {
	t.Parallel()
	add := func(task run.Task) func(*Doc) (string, error) {
		return func(d *Doc) (string, error) { return d.AddTask(task) }
	}
	after := func(id string, task run.Task) func(*Doc) (string, error) {
		return func(d *Doc) (string, error) { return d.InsertAfter(id, task) }
	}
	tests := []struct {
		name, src, want, id string
		edit                func(*Doc) (string, error)
	}{
		{
			"behind the last", "## Tasks\n- [x] T1 a\n\n## Learnings\n", "## Tasks\n- [x] T1 a\n- [ ] T2 new\n\n## Learnings\n",
			"T2", add(run.Task{Title: "new"}),
		},
		{
			"in its group", "## Tasks\n### A\n- [ ] T1 a\n\n### B\n- [ ] T2 b\n",
			"## Tasks\n### A\n- [ ] T1 a\n- [ ] T3 new\n\n### B\n- [ ] T2 b\n", "T3", add(run.Task{Title: "new", Group: "A"}),
		},
		{
			"in a group that is new", "## Tasks\n### A\n- [ ] T1 a\n\n## B",
			"## Tasks\n### A\n- [ ] T1 a\n\n### New\n- [ ] T2 new\n\n## B", "T2", add(run.Task{Title: "new", Group: "New"}),
		},
		{
			"into an empty section", "## Tasks\n\n## B\n", "## Tasks\n- [ ] T1 new\n\n## B\n", "T1", add(run.Task{Title: "new"}),
		},
		{"into no section", "# T\n", "# T\n\n## Tasks\n- [ ] T1 new\n", "T1", add(run.Task{Title: "new"})},
		{
			"into a plain list", "# T\n- [ ] a\n\ntext\n", "# T\n- [ ] a\n- [ ] T1 new\n\ntext\n", "T1",
			add(run.Task{Title: "new", Group: "G"}),
		},
		{"with everything", "## Tasks\n- [ ] T1 a", "## Tasks\n- [ ] T1 a\n- [ ] T2 (P3) [P] [VERIFY] new\n  - Accept: b\n  - Depends on: T1\n", "T2",
			add(run.Task{
				Title: "new", Priority: 3, Parallel: true, Verify: true, Accept: []string{"b"}, DependsOn: []string{"T1", "no id"},
			})},
		{
			"with an id in use", "## Tasks\n- [ ] T1 a\n\n## Iteration Log\nT2 is gone\n",
			"## Tasks\n- [ ] T1 a\n- [ ] T3 new\n\n## Iteration Log\nT2 is gone\n", "T3", add(run.Task{ID: "T2", Title: "new"}),
		},
		{"after detail", "## Tasks\n1) [ ] T1 a\n   - Accept: b\n   ```\n   code\n   ```\n\n2) [ ] T2 c\n", "## Tasks\n1) [ ] T1 a\n   - Accept: b\n   ```\n   code\n   ```\n1) [ ] T3 new\n   - Accept: d\n\n2) [ ] T2 c\n", "T3",
			after("T1", run.Task{Title: "new", Accept: []string{"d"}})},
		{
			"after a nested one", "## Tasks\n- Phase\n  - [ ] T1 a\n  - note\n- - [ ] T2 b\n",
			"## Tasks\n- Phase\n  - [ ] T1 a\n  - note\n- - [ ] T2 b\n  - [ ] T3 new\n", "T3",
			after("T2", run.Task{Title: "new"}),
		},
		{
			"of text that looks like more", "## Tasks\n- [ ] T1 a\n",
			"## Tasks\n- [ ] T1 a\n- [ ] T2 \\(P1) [P] b \\(blocked: c)\n", "T2",
			add(run.Task{Title: "(P1) [P]\nb (blocked: c)"}),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, eol := range []string{"\n", "\r\n"} {
				d := parse(t, strings.ReplaceAll(tc.src, "\n", eol))
				id, err := tc.edit(d)
				if err != nil || id != tc.id {
					t.Fatalf("%q, %v", id, err)
				}
				if diff := cmp.Diff(strings.ReplaceAll(tc.want, "\n", eol), string(d.Bytes())); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got, ok := d.Task(id); !ok || got.Status != run.TaskOpen {
					t.Errorf("%+v, %v", got, ok)
				}
			}
		})
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	d := parse(t, "## Tasks\n- [ ] T1 a\n- [ ] T2 (P2) b\n  - Depends on: T1\n- [ ] T3 c\n  - Depends on: T2, T1\n")
	ids, err := d.Split("T2", []run.Task{
		{Title: "one"}, {Title: "two", Priority: 1}, {Title: "three", DependsOn: []string{"T1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"T4", "T5", "T6"}, ids); diff != "" {
		t.Error(diff)
	}
	want := "## Tasks\n- [ ] T1 a\n- [ ] T2 (P2) b (skipped: split into T4, T5, T6)\n  - Depends on: T1\n" +
		"- [ ] T4 (P2) one\n  - Depends on: T1\n- [ ] T5 (P1) two\n  - Depends on: T1\n- [ ] T6 (P2) three\n  - Depends on: T1\n" +
		"- [ ] T3 c\n  - Depends on: T4, T5, T6, T1\n"
	if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := d.Tasks()[1].Reason; got != "split into T4, T5, T6" {
		t.Errorf("reason %q", got)
	}
}

func TestSkipAndReopen(t *testing.T) {
	t.Parallel()
	const src = "## Tasks\n- [ ] T1 a\n- [x] T2 b\n- [ ] T3 c (blocked: d)\n- [X] T4 e  (skipped: f)\n"
	tests := []struct {
		name     string
		edit     func(*Doc) error
		old, now string
	}{
		{"skip", func(d *Doc) error { return d.Skip("T1", "not needed") }, "T1 a", "T1 a (skipped: not needed)"},
		{"skip a blocked one", func(d *Doc) error { return d.Skip("T3", "x") }, "(blocked: d)", "(skipped: x)"},
		{"reopen an open one", func(d *Doc) error { return d.Reopen("T1") }, "", ""},
		{"reopen a done one", func(d *Doc) error { return d.Reopen("T2") }, "[x] T2", "[ ] T2"},
		{"reopen a blocked one", func(d *Doc) error { return d.Reopen("T3") }, " (blocked: d)", ""},
		{
			"reopen a done one that was skipped", func(d *Doc) error { return d.Reopen("T4") }, "[X] T4 e  (skipped: f)",
			"[ ] T4 e",
		},
	}
	for _, tc := range tests {
		d := parse(t, src)
		if err := tc.edit(d); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(strings.Replace(src, tc.old, tc.now, 1), string(d.Bytes())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	d := parse(t, src)
	for id, want := range map[string]string{"T1": "", "T3": "d", "T4": "f", "T9": ""} {
		if task, _ := d.Task(id); task.Reason != want {
			t.Errorf("reason of %s: %q", id, task.Reason)
		}
	}
	if _, ok := d.Task("T9"); ok {
		t.Error("there is no T9")
	}
}

// What cannot be done is an error, and changes nothing.
func TestEditErrors(t *testing.T) {
	t.Parallel()
	two := []run.Task{{Title: "x"}, {Title: "y"}}
	for name, tc := range map[string]struct {
		edit func(*Doc) error
		is   error
	}{
		"tick":                  {func(d *Doc) error { return d.Tick("T9") }, ErrNoTask},
		"block":                 {func(d *Doc) error { return d.Block("T0", "x") }, ErrNoTask},
		"block done":            {func(d *Doc) error { return d.Block("T1", "x") }, nil},
		"status of two words":   {func(d *Doc) error { return d.SetStatus("IN PROGRESS") }, nil},
		"status over two lines": {func(d *Doc) error { return d.SetStatus("A\n## B") }, nil},
		"insert":                {func(d *Doc) error { _, err := d.InsertAfter("T9", run.Task{}); return err }, ErrNoTask},
		"split":                 {func(d *Doc) error { _, err := d.Split("T9", two); return err }, ErrNoTask},
		"split done":            {func(d *Doc) error { _, err := d.Split("T1", two); return err }, nil},
		"split in one":          {func(d *Doc) error { _, err := d.Split("T2", two[:1]); return err }, nil},
		"split without room":    {func(d *Doc) error { _, err := d.Split("T2", slices.Repeat(two, MaxSize/20)); return err }, ErrTooLarge},
		"new tasks without room": {func(d *Doc) error {
			return d.SetTasks(slices.Repeat([]run.Task{{Title: strings.Repeat("x", maxTitle)}}, MaxSize/maxTitle))
		}, ErrTooLarge},
	} {
		d := parse(t, sample(false))
		if err := tc.edit(d); err == nil || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v", name, err)
		}
		if string(d.Bytes()) != sample(false) {
			t.Errorf("%s: failed and changed the document", name)
		}
	}
}

// document draws a document with tasks in every form that people write.
func document() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")
		word := rapid.SampledFrom([]string{
			"alpha", "beta `x`", "é中", "(P2) gamma", "[P] delta", "**T9: e**", "- f", "g (blocked: h)", "Tau",
		})
		var b strings.Builder
		b.WriteString("# Progress: x\n\n## Status\nIN_PROGRESS\n\n## " +
			rapid.SampledFrom([]string{"Tasks", "Task List", "todo:", "**TASKS**"}).Draw(t, "name") + "\n")
		n := rapid.IntRange(1, 8).Draw(t, "tasks")
		marker := rapid.SampledFrom([]string{"- ", "* ", "+ ", "-\t", "1. ", "3) ", "  - "}).Draw(t, "marker")
		pad := strings.Repeat(" ", len(strings.ReplaceAll(marker, "\t", "   ")))
		for i := range n {
			switch rapid.IntRange(0, 7).Draw(t, "before") {
			case 0:
				b.WriteString("\n### " + word.Draw(t, "group") + "\n")
			case 1:
				b.WriteString("\n")
			case 2:
				b.WriteString("\n```\n- [ ] no task\n```\n\n")
			}
			b.WriteString(marker + rapid.SampledFrom([]string{"[ ] ", "[x] ", "[X] "}).Draw(t, "box"))
			if rapid.Bool().Draw(t, "id") {
				b.WriteString("T" + string(rune('1'+i)) + " ")
			}
			b.WriteString(word.Draw(t, "title") + "\n")
			for range rapid.IntRange(0, 2).Draw(t, "below") {
				b.WriteString(pad + rapid.SampledFrom([]string{
					"- Accept: it works", "- [ ] nested", "- Depends on: T1, T2", "more", "```\n" + pad + "- [ ] code\n" + pad + "```",
					"> - [ ] quote", "<!-- note -->",
				}).Draw(t, "detail") + "\n")
			}
		}
		b.WriteString(rapid.SampledFrom([]string{
			"", "\n## Learnings\n- T12 was hard\n", "\ntext\n\n## Notes\n", "\n---\n## Iteration Log\n",
		}).Draw(t, "end"))
		return strings.ReplaceAll(b.String(), "\n", eol)
	})
}

// Whatever the document and whatever is done to it: the tasks are what they
// were but for the one that was meant, all other sections too, all bytes
// outside one stretch per place of the edit, and another parse agrees.
func TestTaskEditsDoOnlyWhatTheyAreAskedTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := document().Draw(t, "document")
		d := mustParse(t, src)
		d.AssignIDs()
		src = string(d.Bytes())
		want := d.Tasks()
		if len(want) == 0 {
			return
		}
		i := rapid.IntRange(0, len(want)-1).Draw(t, "task")
		id, text := want[i].ID, evil().Draw(t, "text")
		fresh := run.Task{Title: text, Group: want[i].Group, Accept: []string{text}, Status: run.TaskOpen}
		done := want[i].Status == run.TaskDone
		added, at := 0, 0
		var err error
		switch rapid.SampledFrom([]string{"tick", "block", "skip", "reopen", "add", "insert", "split"}).Draw(t,
			"edit") {
		case "tick":
			err = d.Tick(id)
			want[i].Status = run.TaskDone
		case "block", "skip":
			mark, edit := run.TaskBlocked, d.Block
			if rapid.Bool().Draw(t, "skip") {
				mark, edit = run.TaskSkipped, d.Skip
			}
			if err = edit(id, text); done && err == nil {
				t.Fatal("a done task was blocked")
			} else if done {
				return
			}
			want[i].Status = mark
		case "reopen":
			err = d.Reopen(id)
			want[i].Status = run.TaskOpen
		case "add":
			_, err = d.AddTask(fresh)
			for added, at = 1, len(want); at > 0 && want[at-1].Group != fresh.Group && fresh.Group != ""; {
				at--
			}
		case "insert":
			_, err = d.InsertAfter(id, fresh)
			added, at = 1, i+1
		case "split":
			if _, err = d.Split(id, []run.Task{fresh, fresh}); done {
				return
			}
			want[i].Status = run.TaskSkipped
			added, at = 2, i+1
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, src)
		}
		got := d.Tasks()
		if len(got) != len(want)+added {
			t.Fatalf("%d tasks, want %d:\n%s", len(got), len(want)+added, d.Bytes())
		}
		for _, n := range got[at : at+added] {
			if n.ID == "" || strings.Contains(src, n.ID) || n.Status != run.TaskOpen || n.Group != fresh.Group &&
				fresh.Group != "" {
				t.Fatalf("new task %+v in\n%s", n, d.Bytes())
			}
		}
		got = slices.Delete(got, at, at+added)
		want[i].Reason = got[i].Reason // as text that was made safe
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(run.Task{}, "DependsOn")); diff != "" {
			t.Fatalf("%s\n%s\nbecame\n%s", diff, src, d.Bytes())
		}
		again := mustParse(t, string(d.Bytes()))
		if diff := cmp.Diff(again.Tasks(), d.Tasks()); diff != "" {
			t.Fatalf("another parse gives other tasks: %s", diff)
		}
		before := mustParse(t, src)
		if added == 0 && before.PlanSHA256() != d.PlanSHA256() {
			t.Fatalf("another plan:\n%s", d.Bytes())
		}
		if diff := cmp.Diff(outline(before), outline(d)); diff != "" {
			t.Fatal(diff)
		}
		for _, name := range sectionOrder {
			if name != SectionTasks && before.Section(name) != d.Section(name) {
				t.Fatalf("section %s changed:\n%s", name, d.Bytes())
			}
		}
	})
}

// A title that reads as a tag once the rest of the line is written is a title
// still, and written again it is the same.
func TestTitlesThatLookLikeTags(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"-": `\-`, "–": `\–`, "- a": `\- a`, "(P1)": `\(P1)`, "(P1) a": `\(P1) a`, "[P]": `\[P]`, "[VERIFY] a": `\[VERIFY] a`,
		"a (blocked: b)": `a \(blocked: b)`, "(skipped: b)": `\(skipped: b)`, "-a": "-a", "[x]": "[x]", "": "(untitled)",
	} {
		for _, status := range []run.TaskStatus{run.TaskOpen, run.TaskDone, run.TaskBlocked, run.TaskSkipped} {
			d := New("x", Binding{})
			tasks := []run.Task{{ID: "T1", Title: title, Status: status}}
			if status == run.TaskBlocked || status == run.TaskSkipped {
				tasks[0].Reason = "why"
			}
			for range 2 {
				if err := d.SetTasks(tasks); err != nil {
					t.Fatal(err)
				}
				tasks[0].Title = want
				if diff := cmp.Diff(tasks, d.Tasks(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%q, %s: %s", title, status, diff)
				}
			}
		}
	}
}

// What is written as a task is read as that task: parse∘render = identity, and
// for text that has to be made safe, once that is done.
func TestSetTasksIsReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		title := rapid.StringMatching(`[A-Za-z"(é][a-zé.:()*\[\]-]{0,12}( [a-z(\[*-][a-z)\]*]{0,8}){0,4}[a-z.]`)
		group, tasks := "", make([]run.Task, rapid.IntRange(1, 12).Draw(t, "tasks"))
		for i := range tasks {
			if rapid.IntRange(0, 3).Draw(t, "new group") == 0 {
				group = "Phase " + title.Draw(t, "group")
			}
			task := run.Task{ID: fmt.Sprintf("T%d", i+1), Title: title.Draw(t,
				"title"), Group: group, Priority: rapid.IntRange(0, 9).Draw(t, "priority"),
				Parallel: rapid.Bool().Draw(t, "parallel"), Verify: rapid.Bool().Draw(t, "verify"),
				Accept: rapid.SliceOfN(title, 0, 3).Draw(t, "accept"),
				Status: rapid.SampledFrom([]run.TaskStatus{run.TaskOpen, run.TaskDone, run.TaskBlocked, run.TaskSkipped}).Draw(t,
					"status")}
			if task.Status == run.TaskBlocked || task.Status == run.TaskSkipped {
				task.Reason = rapid.StringMatching(`[a-zé]{1,9}`).Draw(t, "reason")
			}
			if i > 0 && rapid.Bool().Draw(t, "depends") {
				task.DependsOn = []string{fmt.Sprintf("T%d", rapid.IntRange(1, i).Draw(t, "on"))}
			}
			tasks[i] = task
		}
		d := New("x", Binding{})
		if err := d.SetTasks(tasks); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tasks, d.Tasks(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s\n%s", diff, d.Bytes())
		}
		tasks[0].Title, tasks[0].Accept = evil().Draw(t, "evil"), []string{evil().Draw(t, "evil")}
		if err := d.SetTasks(tasks); err != nil {
			t.Fatal(err)
		}
		once := string(d.Bytes())
		if err := d.SetTasks(d.Tasks()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once, string(d.Bytes())); diff != "" {
			t.Fatalf("written again, it is another text: %s", diff)
		}
	})
}
