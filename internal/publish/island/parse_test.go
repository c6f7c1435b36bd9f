package island

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

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

func mustParse(t fataler, body string) Island {
	t.Helper()
	got, err := Parse(body)
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, body)
	}
	return got
}

// tokens are what hostile text is made of.
var tokens = []string{
	"@me", "@org/team", "#1", "fixes #12", "GH-1", "closes o/r#3", "https://e.x", "www.e.x", "a@b.example", "`", "``",
	"```", "`a`", "`_blocked_`", "\\", "\\`", "\\(",
	"[", "]", "(", ")", "](", "![x](y)", "!", "<", ">", "<a>", "</details>", "<!--", "-->", "<!-- ralph:island:end -->",
	islandStart, "*", "**", "_", "__", "~", "~~", "|", "$", "&", "&#64;", "&amp;",
	" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2028", "a", "T1", "T99", "T2:", "**T3**", "(P1)", "(p2)", "[P]",
	"[VERIFY]", "[ ]", "[x]", "- ", "– ", "— ", "+ ", "1. ", "1) ", "#", "# ", "## Tasks", "> ", "===", "---",
	"(blocked: x)", "(skipped: y)", "(blocked:", "(after T1)", "(needs T1, T2)", "after T1", "depends on T1", "_blocked_",
	" _skipped_: z", "⛔ _blocked_", "⏭️", "⏳", "…", cutMark, "Accept:", "accept: ", "Other", "_Other_", "/merge",
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

func hostileTasks(most int) *rapid.Generator[[]run.Task] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) run.Task {
		id := ""
		if rapid.Bool().Draw(t, "has id") {
			id = fmt.Sprintf("T%d", rapid.IntRange(0, 40).Draw(t, "id"))
		}
		return run.Task{
			ID:    rapid.OneOf(rapid.Just(id), rapid.Just(id), hostileText(3)).Draw(t, "id text"),
			Title: hostileText(8).Draw(t, "title"),
			Group: rapid.OneOf(rapid.SampledFrom([]string{"", "Phase 1", "Tasks", "Other"}), hostileText(4)).Draw(t,
				"group"),
			Accept:   rapid.SliceOfN(hostileText(5), 0, 3).Draw(t, "accept"),
			Priority: rapid.IntRange(-1, 11).Draw(t, "priority"),
			Parallel: rapid.Bool().Draw(t, "parallel"),
			Verify:   rapid.Bool().Draw(t, "verify"),
			DependsOn: rapid.SliceOfN(rapid.SampledFrom([]string{"T1", "T2", "T40", "T01", "x", ""}), 0, 3).Draw(t,
				"depends on"),
			Reason: hostileText(4).Draw(t, "reason"),
			Status: rapid.SampledFrom([]run.TaskStatus{
				run.TaskOpen, run.TaskInProgress, run.TaskInReview, run.TaskDone, run.TaskBlocked, run.TaskSkipped, "", "odd",
			}).Draw(t, "status"),
		}
	}), 0, most)
}

// TestParseOfRender: whatever the tasks hold, reading them back gives them.
func TestParseOfRender(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := View{IssueNumber: 7, Phase: run.PhaseIterating, Tasks: hostileTasks(6).Draw(t, "tasks")}
		v.Note, v.Learnings = hostileText(4).Draw(t, "note"), hostileText(8).Draw(t, "learnings")
		v.Analysis, v.Log = hostileText(8).Draw(t, "analysis"),
			[]progress.LogRow{{Iteration: 1, Notes: hostileText(4).Draw(t, "log")}}
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
		for _, task := range got.Tasks {
			if task.Cut {
				t.Fatalf("%s was cut\n%s", task.ID, body)
			}
		}
		// GitHub's editor makes other line ends.
		again := mustParse(t, strings.ReplaceAll(body, "\n", "\r\n"))
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("with other line ends (-want +got):\n%s", diff)
		}
	})
}

// TestPeoplesEdits is what people do to a list of tasks on GitHub.
func TestPeoplesEdits(t *testing.T) {
	t.Parallel()
	base := View{IssueNumber: 7, Phase: run.PhaseIterating, Gates: []Gate{
		{Name: "go test", Passed: true},
	}, Tasks: []run.Task{
		{ID: "T1", Title: "Serialise", Priority: 1, Group: "One", Status: run.TaskDone, Accept: []string{"`jq .` works"}},
		{ID: "T2", Title: "Wire the @flag", Group: "One", Status: run.TaskInProgress, Parallel: true},
		{ID: "T3", Title: "Describe it", Group: "Two", Status: run.TaskOpen, DependsOn: []string{"T1", "T2"}},
		{ID: "T4", Title: "Run all", Group: "Two", Status: run.TaskBlocked, Reason: "no network", Verify: true},
		{ID: "T5", Title: "Drop it", Group: "Two", Status: run.TaskSkipped},
	}}
	body := Render(base)
	at := func(tasks []run.Task, id string) *run.Task {
		for i := range tasks {
			if tasks[i].ID == id {
				return &tasks[i]
			}
		}
		t.Fatalf("no task %s", id)
		return nil
	}
	replace := func(old, fresh string) func(string) string {
		return func(s string) string {
			if strings.Count(s, old) != 1 {
				t.Fatalf("%q is there %d times in\n%s", old, strings.Count(s, old), s)
			}
			return strings.Replace(s, old, fresh, 1)
		}
	}
	set := func(id string, change func(*run.Task)) func([]run.Task) []run.Task {
		return func(tasks []run.Task) []run.Task {
			change(at(tasks, id))
			return tasks
		}
	}
	status := func(id string, s run.TaskStatus) func([]run.Task) []run.Task {
		return set(id, func(t *run.Task) { t.Status, t.Reason = s, "" })
	}
	add := func(i int, task run.Task) func([]run.Task) []run.Task {
		return func(tasks []run.Task) []run.Task {
			task.Status = run.TaskOpen
			return append(append(tasks[:i:i], task), tasks[i:]...)
		}
	}
	const t3 = "- [ ] T3 Describe it\n  - Depends on: T1, T2\n"
	cases := []struct {
		name string
		edit func(string) string
		want func([]run.Task) []run.Task
	}{
		{"ticked", replace("- [ ] T3", "- [x] T3"), status("T3", run.TaskDone)},
		{"ticked with a capital", replace("- [ ] T3", "- [X] T3"), status("T3", run.TaskDone)},
		{"ticked in progress", replace("- [ ] T2", "- [x] T2"), status("T2", run.TaskDone)},
		{"ticked blocked", replace("- [ ] T4", "- [x] T4"), status("T4", run.TaskDone)},
		{"ticked skipped", replace("- [ ] T5", "- [x] T5"), status("T5", run.TaskDone)},
		{"unticked", replace("- [x] T1", "- [ ] T1"), status("T1", run.TaskOpen)},
		{"mark of progress removed", replace(" ⏳ _in progress_", ""), status("T2", run.TaskOpen)},
		{"mark of a blocked task removed", replace(" ⛔ _blocked_: no network", ""), status("T4", run.TaskOpen)},
		{"skipped task wanted again", replace("~~Drop it~~ ⏭️ _skipped_", "Drop it"), status("T5", run.TaskOpen)},
		{"only its mark removed", replace(" ⏭️ _skipped_", ""), status("T5", run.TaskSkipped)},
		{"title struck out", replace("T3 Describe it", "T3 ~~Describe it~~"), status("T3", run.TaskSkipped)},
		{"text struck out", replace("T3 Describe it", "~~T3 Describe it~~"), status("T3", run.TaskSkipped)},
		{"line struck out", replace("- [ ] T3 Describe it", "~~- [ ] T3 Describe it~~"), status("T3", run.TaskSkipped)},
		{
			"struck out in progress", replace("[P] Wire the @\u200bflag ⏳ _in progress_", "[P] ~~Wire the @\u200bflag~~"),
			status("T2", run.TaskSkipped),
		},
		{
			"a word struck out", replace("Describe it", "~~Describe~~ it"),
			set("T3", func(t *run.Task) { t.Title = "~~Describe~~ it" }),
		},
		{
			"marked as progress.md does", replace("T3 Describe it", "T3 Describe it (skipped: not now)"),
			set("T3", func(t *run.Task) { t.Status, t.Reason = run.TaskSkipped, "not now" }),
		},
		{"marked by words", replace("T3 Describe it", "T3 Describe it _blocked_"), status("T3", run.TaskBlocked)},
		{
			"title edited", replace("Wire the @\u200bflag", "Wire the *other* @flag"),
			set("T2", func(t *run.Task) { t.Title = "Wire the *other* @flag" }),
		},
		{
			"title escaped by hand", replace("Describe it", `Describe \*it\* & \_that_`),
			set("T3", func(t *run.Task) { t.Title = "Describe *it* & _that_" }),
		},
		{
			"title over two lines", replace("Describe it", "Describe it\n  in the README"),
			set("T3", func(t *run.Task) { t.Title = "Describe it in the README" }),
		},
		{
			"priority and marker", replace("T3 Describe", "T3 (P2) [P] Describe"),
			set("T3", func(t *run.Task) { t.Priority, t.Parallel = 2, true }),
		},
		{
			"criterion edited", replace("Accept: `jq .` works", "Accept: it works\n  - Accept: always"),
			set("T1", func(t *run.Task) { t.Accept = []string{"it works", "always"} }),
		},
		{"dependency removed", replace("  - Depends on: T1, T2\n", ""), set("T3", func(t *run.Task) { t.DependsOn = nil })},
		{"heading renamed", replace("#### Two", "#### Polish"), func(tasks []run.Task) []run.Task {
			for i := range tasks {
				tasks[i].Group = strings.Replace(tasks[i].Group, "Two", "Polish", 1)
			}
			return tasks
		}},
		{"line deleted", replace(t3, ""), func(tasks []run.Task) []run.Task { return append(tasks[:2:2], tasks[3:]...) }},
		{"line moved", func(s string) string {
			return replace("#### One\n\n", "#### One\n\n"+t3)(replace(t3, "")(s))
		}, func(tasks []run.Task) []run.Task {
			tasks[2].Group = "One"
			return []run.Task{tasks[2], tasks[0], tasks[1], tasks[3], tasks[4]}
		}},
		{"line added", replace(t3, t3+"- [ ] Tell @walt\n"), add(3, run.Task{Title: "Tell @walt", Group: "Two"})},
		{
			"line added at the top", replace("#### One\n\n", "#### One\n\n- [ ] First\n"),
			add(0, run.Task{Title: "First", Group: "One"}),
		},
		{
			"line added at the end", replace("\n### Checks", "- [ ] Last\n\n### Checks"),
			add(5, run.Task{Title: "Last", Group: "Two"}),
		},
		{
			"line added with another bullet", replace("\n### Checks", "* [ ] (P1) Last\n\n### Checks"),
			add(5, run.Task{Title: "Last", Group: "Two", Priority: 1}),
		},
		{
			"box added below a task", replace("\n### Checks", "   - [ ] last\n\n### Checks"),
			set("T5", func(t *run.Task) { t.Accept = []string{"last"} }),
		},
		{
			"line added out of line", replace("\n### Checks", " - [ ] Last\n   - Accept: done\n\n### Checks"),
			add(5, run.Task{Title: "Last", Group: "Two", Accept: []string{"done"}}),
		},
		{"an empty box", replace(t3, t3+"- [ ] \n- [ ]\n"), nil},
		{"a remark", replace(t3, t3+"- see #1\n- [x](y)\n"), nil},
		{
			"an example", replace("\n### Checks", "\n```\n- [ ] T9 x\n```\n\n<!-- - [ ] T8 y -->\n> - [ ] T7 z\n\n### Checks"),
			nil,
		},
		{"a list elsewhere", replace("### Checks\n", "### Checks\n\n- [ ] T9 x\n"), nil},
		{"heading deleted", replace("### Tasks\n\n", ""), nil},
		{
			"everything after the tasks deleted",
			func(s string) string { return s[:strings.Index(s, "\n### Checks")] + islandEnd }, nil,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := Normalise(base.Tasks, nil)
			if c.want != nil {
				want = c.want(want)
			}
			edited := c.edit(body)
			for name, text := range map[string]string{
				"": edited, ", CRLF": strings.ReplaceAll(edited, "\n", "\r\n"),
				", text around": "- [ ] T1 theirs\n\n" + edited + "\n\n- [ ] T8 theirs\n",
			} {
				got := mustParse(t, text)
				if diff := cmp.Diff(want, got.RunTasks(), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if !got.Edited {
					t.Errorf("%s: not seen as an edit", name)
				}
			}
		})
	}
}

func TestParseReasons(t *testing.T) {
	t.Parallel()
	v := View{
		Tasks: []run.Task{
			{ID: "T1", Title: "x", Status: run.TaskBlocked, Reason: "@me: why (not)"},
			{ID: "T2", Title: "y", Status: run.TaskSkipped}, {ID: "T3", Title: "z", Status: run.TaskOpen, Reason: "not shown"},
		},
	}
	body := strings.Replace(Render(v), "- [ ] T3 z", "- [ ] T3 z (blocked: by hand)", 1)
	var got []string
	for _, task := range mustParse(t, body).Tasks {
		got = append(got, task.Reason)
	}
	if diff := cmp.Diff([]string{"@me: why (not)", "", "by hand"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParseKnowsWhatWasCut: what was shortened is not taken for the whole, and
// both sides of a comparison have the same.
func TestParseKnowsWhatWasCut(t *testing.T) {
	t.Parallel()
	v := many(300, strings.Repeat("long ", 30))
	v.Tasks[1].Title = "short"
	v.Tasks = append(v.Tasks, run.Task{ID: "T999", Title: "ends with an ellipsis…", Status: run.TaskInProgress})
	got := mustParse(t, Render(v))
	if got.Hidden != 0 || len(got.Tasks) != len(v.Tasks) {
		t.Fatalf("%d tasks, %d hidden", len(got.Tasks), got.Hidden)
	}
	for i, task := range got.Tasks {
		whole := v.Tasks[i]
		if cut := whole.ID != "T999"; task.Cut != cut {
			t.Errorf("%s: cut = %t", task.ID, task.Cut)
		}
		if whole.ID == "T2" && task.Title != "short" || !strings.HasPrefix(whole.Title, task.Title) {
			t.Errorf("%s: %q is no part of %q", task.ID, task.Title, whole.Title)
		}
	}
	for name, task := range map[string]run.Task{
		"title":         {ID: "T1", Title: strings.Repeat("x", 2001)},
		"group":         {ID: "T1", Title: "x", Group: strings.Repeat("x", 501)},
		"criterion":     {ID: "T1", Title: "x", Accept: []string{strings.Repeat("x", 1001)}},
		"many criteria": {ID: "T1", Title: "x", Accept: make([]string, 30)},
	} {
		for i := range task.Accept {
			task.Accept[i] += "a"
		}
		if got := mustParse(t, Render(View{Tasks: []run.Task{task}})); len(got.Tasks) != 1 || !got.Tasks[0].Cut {
			t.Errorf("%s: %+v", name, got.Tasks)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing": "", "no markers": "- [ ] T1 x", "an end alone": islandEnd,
		"a start alone": islandStart + " -->\n- [ ] T1 x",
	} {
		if _, err := Parse(body); !errors.Is(err, ErrNoIsland) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		content string
		want    error
	}{
		"too deep":  {strings.Repeat(">", 5000) + " - [ ] x", progress.ErrTooDeep},
		"NUL":       {"- [ ] x\x00", progress.ErrEncoding},
		"too large": {strings.Repeat("- [ ] x\n", progress.MaxSize/8+1), progress.ErrTooLarge},
	} {
		if _, err := Parse(frame(c.content)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// FuzzParse: whatever people made of the text, what is read are tasks that a
// description can hold, and reading them again gives the same.
func FuzzParse(f *testing.F) {
	f.Add(strings.TrimPrefix(Render(working()), islandStart))
	f.Add("### Tasks\n\n- [ ] ~~T1 a~~\n~~- [ ] T2 b~~\n- [x] T3 `c` ⏳ _in progress_\n")
	for _, token := range tokens {
		f.Add("- [ ] T1 " + token + " x\n  - Accept: " + token + "\n#### " + token + "\n- [ ] " + token)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if len(content) > 20_000 {
			return
		}
		got, err := Parse(frame(content))
		if err != nil {
			return
		}
		tasks := got.RunTasks()
		for _, task := range got.Tasks {
			if len(task.Title) > 400 || len(task.Reason) > 200 || len(task.Group) > 80 || len(task.Accept) > maxCriteria ||
				len(strings.Join(task.Accept, "")) > 200 {
				return // could be shortened
			}
		}
		if diff := cmp.Diff(Normalise(tasks, nil), tasks, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("not normal (-want +got):\n%s", diff)
		}
		v := View{Tasks: tasks}
		body := Render(v)
		checkInert(t, v, body)
		if again := mustParse(t, body); again.Hidden == 0 && len(body) < MaxSize/2 {
			if diff := cmp.Diff(tasks, again.RunTasks(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("again (-want +got):\n%s\n%s", diff, body)
			}
		}
	})
}

// FuzzRender: no text in any place acts on GitHub, and the tasks stay the same.
func FuzzRender(f *testing.F) {
	for _, token := range tokens {
		f.Add(token, 3000)
		f.Add("x "+token+"\n"+token+" y", MaxSize)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if len(text) > 5000 {
			return
		}
		v := everywhere(text)
		body := newRenderer(v).within(limit)
		checkInert(t, v, body)
		if least := newRenderer(v).within(0); len(body) > limit && body != least {
			t.Fatalf("%d bytes, at most %d", len(body), limit)
		}
		got, want := mustParse(t, body), Normalise(v.Tasks, mask)
		if len(got.Tasks)+got.Hidden != len(want) && strings.Contains(body, "### Tasks") {
			t.Fatalf("%d tasks and %d hidden, want %d\n%s", len(got.Tasks), got.Hidden, len(want), body)
		}
		for _, task := range got.Tasks {
			i := slices.IndexFunc(want, func(w run.Task) bool { return w.ID == task.ID })
			if i < 0 || task.Status != want[i].Status {
				t.Fatalf("%s is %s:\n%s", task.ID, task.Status, body)
			}
			// A reason is cut like a title, and nothing is read back from it.
			if task.Reason != "" && strings.HasPrefix(want[i].Reason, task.Reason) {
				want[i].Reason = task.Reason
			}
			if diff := cmp.Diff(want[i], task.Task, cmpopts.EquateEmpty()); diff != "" && !task.Cut {
				t.Fatalf("(-want +got):\n%s\n%s", diff, body)
			}
		}
	})
}
