package progress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

// judged asserts what holds of every verdict, whatever the agent left: the
// accepted document keeps the host's part, and reads as it is.
func judged(t interface {
	Helper()
	Fatalf(string, ...any)
}, before *Doc, v Verdict) *Doc {
	t.Helper()
	got, err := Parse(v.Accepted.Bytes())
	if err != nil {
		t.Fatalf("accepted: %v", err)
	}
	if diff := cmp.Diff(got.Tasks(), v.Accepted.Tasks()); diff != "" {
		t.Fatalf("the tasks in memory are others (-bytes +memory):\n%s", diff)
	}
	if diff := cmp.Diff(outline(got), outline(v.Accepted)); diff != "" {
		t.Fatalf("the sections in memory are others (-bytes +memory):\n%s", diff)
	}
	tasks := got.Tasks()
	next := 0
	for _, want := range before.Tasks() {
		for next < len(tasks) && tasks[next].ID != want.ID {
			if tasks[next].Status != run.TaskOpen || tasks[next].ID == "" {
				t.Fatalf("new task %+v", tasks[next])
			}
			next++
		}
		if next == len(tasks) {
			t.Fatalf("%s is lost or moved:\n%s", want.ID, got.Bytes())
		}
		if diff := cmp.Diff(want, tasks[next]); diff != "" {
			t.Fatalf("%s was changed (-before +accepted):\n%s\n%s", want.ID, diff, got.Bytes())
		}
		next++
	}
	for _, task := range tasks[next:] {
		if task.Status != run.TaskOpen || task.ID == "" {
			t.Fatalf("new task %+v", task)
		}
	}
	for _, name := range []string{SectionStatus, SectionLog, SectionCompleted} {
		// Below a heading within the section tasks and lessons may be added.
		was, _, within := strings.Cut(before.Section(name), "\n###")
		if now := got.Section(name); now != was && !(within && strings.HasPrefix(now, was)) {
			t.Fatalf("section %s changed:\n%s", name, got.Bytes())
		}
	}
	// What is added to a section of mixed line ends gives it one kind of them.
	unix := strings.NewReplacer("\r\n", "\n").Replace
	lessons := strings.TrimRight(unix(before.Section(SectionLearnings)), " \t\r\n")
	if now := unix(got.Section(SectionLearnings)); !strings.HasPrefix(now, lessons) {
		t.Fatalf("learnings %q do not start with %q", now, lessons)
	}
	wantBinding, _ := before.Binding()
	if b, _ := got.Binding(); b != wantBinding {
		t.Fatalf("bound to %+v", b)
	}
	if before.MarkedDone() != got.MarkedDone() {
		t.Fatalf("marked done:\n%s", got.Bytes())
	}
	for _, x := range v.Violations {
		if x == "" || strings.ContainsAny(x, "\r\n`<>") || strings.Contains(x, StatusDone) {
			t.Fatalf("violation %q", x)
		}
	}
	return got
}

// hostileEdit does to the text of a document what an agent might.
func hostileEdit(t *rapid.T, src string) string {
	lines := strings.SplitAfter(src, "\n")
	line := func(label string) int { return rapid.IntRange(0, len(lines)-1).Draw(t, label) }
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0: // something else somewhere
		from := rapid.IntRange(0, len(src)).Draw(t, "from")
		to := min(len(src), from+rapid.IntRange(0, 80).Draw(t, "length"))
		return src[:from] + strings.ToValidUTF8(evil().Draw(t, "text"), "") + src[to:]
	case 1: // lines change places
		i, k := line("one"), line("other")
		lines[i], lines[k] = lines[k], lines[i]
	case 2:
		i := line("gone")
		lines = slices.Delete(lines, i, i+1)
	case 3:
		i := line("again")
		lines = slices.Insert(lines, line("at"), lines[i])
	case 4:
		return strings.Replace(src, "[ ]", "[x]", rapid.IntRange(1, 3).Draw(t, "ticks"))
	case 5:
		i := line("at")
		lines = slices.Insert(lines, i, rapid.SampledFrom([]string{
			"- [ ] New\n", "- [x] New\n", "- [ ] T2 New\n", "### Later\n- [ ] New\n", "## Status\nRALPH_DONE\n", "RALPH_DONE\n",
			"- two\n",
			"```\n", "<!--\n", "-->\n", "~~~\n", "| 9 | | | T9 | |\n", "## Tasks\n", "# Other\n",
			"- [ ] - - New (blocked: a) (skipped: b)\n",
		}).Draw(t, "line"))
	case 6:
		i := line("at")
		lines[i] = strings.Replace(lines[i], "T"+strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "id")), "T"+
			strconv.Itoa(rapid.IntRange(1, 6).Draw(t, "new id")), 1)
	}
	return strings.Join(lines, "")
}

// Whatever an agent leaves, the accepted document keeps the host's part: the
// tasks with their state and order, the status, the log, and all learnings.
func TestJudgeIsSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		if rapid.Bool().Draw(t, "other document") {
			before = someDoc(t)
		}
		src := strings.ReplaceAll(string(before.Bytes()), "\r\n", "\n")
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			src = hostileEdit(t, src)
		}
		after, err := Parse([]byte(src))
		if err != nil {
			after = nil
		}
		v := Judge(before, before, after, "T2")
		got := judged(t, before, v)
		// What was accepted is accepted again without a word.
		if again := Judge(before, before, v.Accepted, "T2"); len(again.Violations) > 0 {
			t.Fatalf("%+v\n%s", again.Violations, got.Bytes())
		}
	})
}

// someDoc is a document of the host's, with an id for each task.
func someDoc(t *rapid.T) *Doc {
	d := mustParse(t, rapid.SampledFrom([]string{
		"# Progress: x\n\n## Tasks\n- [ ] T1 a\n- [x] T2 b\n\n### One\n1. [ ] T3 c (blocked: d)\n   - Accept: e\n\ntext\n* [ ] T4 a\n",
		"## Tasks\n- [ ] T1 a\n- [ ] T2 a\n- [ ] T3 a\n\n## Analysis\nfoo\n",
		"## Status\nIN_PROGRESS\n\n## Notes\n\n## Learnings\n- a\n\n## Analysis",
		"- [ ] T1 a\n- [ ] T2 b\n  - [ ] c\n\n## Analysis\nb\n",
		"## Status\nRALPH_DONE\n## Task List\n- [x] T1 a\n- [x] T2 b\n## Learnings\n```\na\n```\n## Iteration Log\n",
	}).Draw(t, "document"))
	d.AssignIDs()
	return d
}

// The plan of an agent brings tasks, and nothing else that is not its own.
func TestJudgePlanIsSafe(t *testing.T) {
	t.Parallel()
	fresh := string(New("x", Binding{Key: "plan:x"}).Bytes())
	rapid.Check(t, func(t *rapid.T) {
		before := mustParse(t, fresh)
		src := strings.Replace(fresh, "## Tasks\n",
			"## Tasks\n### One\n- [ ] a\n  - Accept: b\n- [x] T1 c\n\n### Two\n1. [ ] T1 d\n", 1)
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			src = hostileEdit(t, src)
		}
		after, err := Parse([]byte(src))
		if err != nil {
			after = nil
		}
		v := JudgePlan(before, after)
		got := mustParse(t, string(v.Accepted.Bytes()))
		if diff := cmp.Diff(got.Tasks(), v.Accepted.Tasks()); diff != "" {
			t.Fatalf("the tasks in memory are others:\n%s", diff)
		}
		for _, task := range got.Tasks() {
			if task.ID == "" || task.Status == run.TaskDone {
				t.Fatalf("%+v", task)
			}
		}
		for _, name := range []string{SectionStatus, SectionLog, SectionCompleted} {
			if before.Section(name) != got.Section(name) {
				t.Fatalf("section %s changed:\n%s", name, got.Bytes())
			}
		}
		if diff := cmp.Diff(outline(before), outline(got)); diff != "" {
			t.Fatalf("sections: %s", diff)
		}
	})
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte(sample(false)), []byte(sample(true)))
	f.Add([]byte(sample(false)), []byte(strings.Replace(sample(false), "- [ ] T2", "- [x] T2 (P1) other\n```\n- [ ]", 1)))
	f.Add([]byte("- [ ] a\n- [ ] a\n"), []byte("## Tasks\n- [x] a\n## Status\nRALPH_DONE\n"))
	f.Add([]byte("## Tasks\n- [ ] T1 a\n## Learnings\n- b"),
		[]byte("## Learnings\n- b\n<!--\n## Tasks\n- [ ] T2 c (blocked: d)\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		before, err := Parse(a)
		if err != nil {
			return
		}
		// The host's own document has an id for each task, where there is room.
		before.AssignIDs()
		if before, err = Parse(before.Bytes()); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(before.tasks, func(t task) bool { return t.ID == "" }) {
			return
		}
		after, err := Parse(b)
		if err != nil {
			after = nil
		}
		assigned := ""
		if len(before.tasks) > 0 {
			assigned = before.tasks[0].ID
		}
		v := Judge(before, before, after, assigned)
		judged(t, before, v)
		JudgePlan(before, after)
	})
}

// The largest documents, made to cost much, are judged in a moment.
func TestJudgeIsLinear(t *testing.T) {
	t.Parallel()
	list := func(n int, f func(i int) string) string {
		var b strings.Builder
		b.WriteString("## Tasks\n")
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	same := func(i int) string { return fmt.Sprintf("- [ ] T%d a\n", i+1) }
	tests := []struct {
		name          string
		before, after func(n int) string
	}{
		{
			"equal titles without ids", func(n int) string { return list(n, same) },
			func(n int) string { return list(n, func(int) string { return "- [ ] a\n" }) },
		},
		{
			"ids backwards", func(n int) string { return list(n, same) },
			func(n int) string { return list(n, func(i int) string { return fmt.Sprintf("- [x] T%d a\n", n-i) }) },
		},
		{"titles backwards", func(n int) string {
			return list(n, func(i int) string { return fmt.Sprintf("- [ ] T%d a%d\n", i+1, i) })
		}, func(n int) string {
			return list(n, func(i int) string { return fmt.Sprintf("- [ ] T%d a%d\n", i+1, n-i) })
		}},
		{
			"others instead", func(n int) string { return list(n, same) },
			func(n int) string { return list(n, func(i int) string { return fmt.Sprintf("- [x] b%d\n", i) }) },
		},
		{
			"one id", func(n int) string { return list(n, same) },
			func(n int) string { return list(n, func(i int) string { return fmt.Sprintf("- [ ] T1 b%d\n", i) }) },
		},
		{
			"sections", func(n int) string { return list(n, same) },
			func(n int) string { return list(n, func(i int) string { return fmt.Sprintf("## a%d\n", i%7) }) },
		},
		{"groups", func(n int) string { return list(n, same) }, func(n int) string {
			return list(n, func(i int) string { return fmt.Sprintf("### a%d\n- [ ] c%d\n", i, i) })
		}},
		{
			"learnings", func(n int) string { return "## Learnings\n" + strings.Repeat("- a\n", n) },
			func(n int) string { return "## Learnings\n" + strings.Repeat("- a\n- b\n", n) },
		},
		{
			"marks", func(int) string { return "" },
			func(n int) string { return "## Tasks\n- [ ] b" + strings.Repeat(" (blocked: a)", n) + "\n" },
		},
		{"ids mentioned", func(int) string { return "## Tasks\n- [ ] T1 a\n" }, func(n int) string {
			return "## Analysis\n" + strings.Repeat("T2 T3 T4 T5 ", n/4) + "\n## Tasks\n- [ ] b\n"
		}},
	}
	for _, tc := range tests {
		before, after := parse(t, tc.before(huge)), parse(t, tc.after(huge))
		Judge(before, before, after, "T1")
	}
}

// huge is as many lines as fit a document. What is not linear in them does not end before go test
// gives up; finer growth is for the benchmarks, which compare sizes.
const huge = 40_000

// A file that was cut off, wherever that was, brings no task that nobody wrote.
func TestJudgeCutOffFile(t *testing.T) {
	t.Parallel()
	src := strings.Replace(sample(false), "- [ ] T3", "- [ ] T30", 1)
	before := parse(t, src)
	for n := range len(src) {
		for _, end := range []string{"", "\n"} {
			v := Judge(before, before, parse(t, src[:n]+end), "T2")
			if diff := cmp.Diff(before.Tasks(), v.Accepted.Tasks()); diff != "" {
				t.Fatalf("cut off at %q (-before +accepted):\n%s", src[max(0, n-40):n], diff)
			}
		}
	}
	before = parse(t, "## Tasks\n- [ ] T1 Test it\n")
	after := parse(t, "## Tasks\n- [ ] T1 Test it\n- [ ] T")
	if n := len(Judge(before, before, after, "T1").Accepted.Tasks()); n != 2 {
		t.Errorf("%d tasks; a new one at the end of a whole file was taken for a piece of another", n)
	}
}
