package formats_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// TestParseSaysWhere checks that what cannot be read is said with its line and
// column and with what to do.
func TestParseSaysWhere(t *testing.T) {
	t.Parallel()
	const head = "{\"userStories\": [\n  {\"id\": \"US-001\", \"title\": \"a\", "
	for name, tc := range map[string]struct {
		format formats.Format
		src    string
		want   string
	}{
		"passes as a string": {
			formats.PRD, head + `"passes": "true"}]}`,
			`x:2:49: userStories.passes must be true or false, not string: see the format of prd.json`,
		},
		"two passes": {
			formats.PRD, head + `"passes": true, "Passes": false}]}`,
			`x:1:1: a key stands twice in one object: remove one of the two`,
		},
		"criteria as a string": {
			formats.PRD, head + `"acceptanceCriteria": "x"}]}`,
			`x:2:58: userStories.acceptanceCriteria must be a list, not string: see the format of prd.json`,
		},
		"no title": {
			formats.PRD, `{"userStories": [{"id": "a"}]}`, `x:1:18: the story has no title: add "title": "…"`,
		},
		"no stories": {
			formats.PRD, "\ufeff{}",
			`x:1:1: there is no "userStories": name the stories: "userStories": [{"id": "US-001", "title": "…", "passes": false}]`,
		},
		"stories as an object, in characters": {
			formats.PRD, `{"ü": "😀", "userStories": {}}`,
			`x:1:27: userStories must be a list, not object: see the format of prd.json`,
		},
		"a comma too many": {
			formats.PRD, "{\"userStories\": [\n],\n}",
			`x:3:1: this is not JSON: invalid character '}' looking for beginning of object key string: fix it; a comma too many or too few is the usual cause`,
		},
		"deep objects": {
			formats.PRD, strings.Repeat(`{"a":`, 20_000),
			`x:1:50001: this is not JSON: invalid character '{' exceeded max depth: fix it; a comma too many or too few is the usual cause`,
		},
		"a NUL": {
			formats.Checklist, "- [ ] a\n\x00", `x:2:1: not plain UTF-8 text: save the file as UTF-8 without NUL bytes`,
		},
		"too many bytes": {
			formats.PRD, strings.Repeat(" ", progress.MaxSize+1),
			`x has 1048577 bytes, and at most 1048576 are read: split the plan`,
		},
		"deep quotes": {
			formats.Checklist, strings.Repeat(">", 100) + " a",
			`x cannot be read: document is nested too deeply: write it as plain Markdown text, with lists nested less deeply`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := formats.Parse(tc.format, "x", []byte(tc.src))
			user, ok := errors.AsType[*run.UserError](err)
			if !ok {
				t.Fatalf("got %v, want a *run.UserError", err)
			}
			if user.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", user.Error(), tc.want)
			}
		})
	}
}

// TestHugeInputIsLinear reads large files that are made to cost much;
// what takes the square of their size would not be done before the tests'
// time is up.
func TestHugeInputIsLinear(t *testing.T) {
	t.Parallel()
	const size = progress.MaxSize / 4
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	wrap := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)) + tail
	}
	for name, tc := range map[string]struct {
		format formats.Format
		src    string
	}{
		"brackets":        {formats.PRD, fill("[")},
		"open objects":    {formats.PRD, fill(`{"a":`)},
		"stories":         {formats.PRD, wrap(`{"userStories":[{"title":"a"}`, `,{"title":"b"}`, `]}`)},
		"unknown fields":  {formats.PRD, wrap(`{"userStories":[{"title":"a"}`, `,{"title":"b","x":1}`, `]}`)},
		"criteria":        {formats.PRD, wrap(`{"userStories":[{"title":"a","acceptanceCriteria":["b"`, `,"b"`, `]}]}`)},
		"one long string": {formats.PRD, wrap(`{"userStories":[],"x":"`, `a`, `"}`)},
		"boxes":           {formats.Checklist, fill("- [ ] a\n")},
		"ids all taken":   {formats.Checklist, takenIDs(size)},
		"details":         {formats.Specum, "- [ ] 1.1 a\n" + fill("  - Do: b\n")},
		"text in phases":  {formats.Specum, fill("## P\ntext\n\n- [ ] 1.1 a\n")},
		"long heading":    {formats.Checklist, "# " + fill("long ")[:size/2] + "\n" + fill("- a\n")[:size/2]},
		"notes":           {formats.Portable, "## Notes\n" + fill("- a\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := formats.Parse(tc.format, "x", []byte(tc.src))
			if err == nil {
				p := f.Plan()
				p.RunTasks()
				f.Text()
				f.Unread()
				f.Unworked()
			}
			if err != nil {
				if _, ok := errors.AsType[*run.UserError](err); !ok {
					t.Errorf("got %v, want a *run.UserError", err)
				}
			}
		})
	}
}

// TestDetect tells files apart that are not whole, too: a progress file that
// lacks sections is ours, and a check says what it lacks.
func TestDetect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, src string
		want      formats.Format
		ok        bool
	}{
		{"x.md", "# Progress: x\n## Tasks\n- [ ] T1 a\n", formats.Progress, true},
		{"x.md", "# Progress: x\n## Tasks\n- [ ] a\n", formats.Progress, true},
		{"x.md", "# Progress: x\n## Tasks\n### Phase 1: a\n- [ ] T1 a\n", formats.Progress, true},
		{"x.md", "# Progress: x\n## Tasks\n### Phase 1: a\n- [ ] a\n", formats.Progress, true},
		{"x.md", "# Progress: x\n##Tasks\n- [ ] a\n", formats.Progress, true},
		{"a/progress.md", "", formats.Progress, true},
		{"a/progress.md", "- [ ] a\n", formats.Progress, true},
		{"progress.md", "# Progress: x\n## Task List\n- [ ] a\n", formats.Portable, true},
		{"x.md", "- [ ] a\n", formats.Checklist, true},
		{"x.md", "# x\n## Task 1: a\n- [ ] a\n", formats.Checklist, true},
		{"x.md", "text\n", formats.Checklist, false},
		{"x.json", "{}", "", false},
		{"prd.json", "", formats.PRD, true},
	} {
		if got, ok := formats.Detect(tc.name, []byte(tc.src)); ok != tc.ok || ok && got != tc.want {
			t.Errorf("Detect(%s, %q) = %s, %v", tc.name, tc.src, got, ok)
		}
	}
}

// takenIDs is a list whose tasks without an id come before those that have taken
// all of the first.
func takenIDs(size int) string {
	var b strings.Builder
	for b.Len() < size/2 {
		b.WriteString("- [ ] a\n")
	}
	for i := 1; b.Len() < size; i++ {
		fmt.Fprintf(&b, "- [ ] T%d b\n", i)
	}
	return b.String()
}

// TestEditsKeepLineEndingsAndMarks edits files as Windows writes them.
func TestEditsKeepLineEndingsAndMarks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		format    formats.Format
		src, want string
		edit      func(*formats.File) error
	}{
		"tick a story": {
			formats.PRD, "\ufeff{\r\n \"userStories\": [\r\n  {\"title\": \"a\", \"passes\": false}\r\n ]\r\n}\r\n",
			"\ufeff{\r\n \"userStories\": [\r\n  {\"title\": \"a\", \"passes\": true}\r\n ]\r\n}\r\n",
			func(f *formats.File) error { return tick(f, 0) },
		},
		"a story without passes": {
			formats.PRD, "{\"userStories\": [{\r\n\t\"title\" : \"a\"\r\n}]}",
			"{\"userStories\": [{\r\n\t\"title\" : \"a\",\r\n\t\"passes\" : true\r\n}]}",
			func(f *formats.File) error { return tick(f, 0) },
		},
		"block a box": {
			formats.Checklist, "\ufeff- [ ] a  \r\n", "\ufeff- [ ] a (blocked: b)  \r\n",
			func(f *formats.File) error { return mark(f, 0, run.TaskBlocked, "b") },
		},
		"nothing to do": {
			formats.PRD, `{"userStories":[{"title":"a"}]}`, `{"userStories":[{"title":"a"}]}`,
			func(f *formats.File) error { return untick(f, 0) },
		},
		"many at once": {
			formats.PRD, `{"userStories":[{"title":"a","passes":false},{"title":"b","passes":false},{"title":"c","passes":true}]}`,
			`{"userStories":[{"title":"a","passes":true},{"title":"b","passes":false,"notes":"blocked: why"},{"title":"c","passes":false}]}`,
			func(f *formats.File) error {
				return f.Apply(
					progress.Mark{Task: 2, Status: run.TaskOpen},
					progress.Mark{Task: 1, Status: run.TaskBlocked, Reason: "why"},
					progress.Mark{Task: 0, Status: run.TaskDone},
				)
			},
		},
		"a reason cannot leave its line": {
			formats.PRD, `{"userStories":[{"title":"a","notes":""}]}`,
			`{"userStories":[{"title":"a","notes":"blocked: \"}], \"passes\": true"}]}`,
			func(f *formats.File) error { return mark(f, 0, run.TaskBlocked, "\"}],\n\"passes\": true") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := formats.Parse(tc.format, "x", []byte(tc.src))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.edit(f); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(f.Bytes())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestRefusedEditsChangeNothing asks for what cannot be.
func TestRefusedEditsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		format formats.Format
		src    string
		edit   func(*formats.File) error
		want   string
	}{
		"no such story": {
			formats.PRD, `{"userStories":[{"title":"a"}]}`, func(f *formats.File) error { return tick(f, 1) },
			"no such task: number 2 of 1",
		},
		"no such box": {
			formats.Checklist, "- [ ] a\n", func(f *formats.File) error { return tick(f, -1) }, "no such task: number 0 of 1",
		},
		"done story": {
			formats.PRD, `{"userStories":[{"title":"a","passes":true}]}`,
			func(f *formats.File) error { return mark(f, 0, run.TaskBlocked, "b") }, `"a" is done: untick it first`,
		},
		"done box": {
			formats.Checklist, "- [x] a\n", func(f *formats.File) error { return mark(f, 0, run.TaskSkipped, "b") },
			`"a" is done: untick it first`,
		},
		"one task twice": {formats.Checklist, "- [ ] a\n", func(f *formats.File) error {
			return f.Apply(progress.Mark{Task: 0, Status: run.TaskDone}, progress.Mark{Task: 0, Status: run.TaskDone})
		}, "two changes of one task"},
		"no such format": {formats.Checklist, "- [ ] a\n", func(*formats.File) error {
			_, err := formats.Parse("yaml", "x", nil)
			return err
		}, `"yaml" is not a format`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := formats.Parse(tc.format, "x", []byte(tc.src))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.edit(f); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if string(f.Bytes()) != tc.src {
				t.Errorf("the file changed: %q", f.Bytes())
			}
		})
	}
}

// documents draws task files of every format, from pieces that matter to its
// reader.
func documents(t *rapid.T) (formats.Format, []byte) {
	format := rapid.SampledFrom([]formats.Format{
		formats.Progress, formats.PRD, formats.Portable, formats.Specum, formats.Checklist,
	}).Draw(t, "format")
	if format == formats.PRD {
		stories := rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"id":"US-1","title":"a","passes":false}`, "{ \"title\" : \"b\" }",
			"{\n\t\"title\": \"c\",\n\t\"notes\": \"x\\nskipped: y\"\n}",
			`{"id":"U 2","title":"d (blocked: z)","passes":true,"more":[{"passes":1}]}`,
			`{"title":"e","priority":3.5,"acceptanceCriteria":["f","# g"]}`,
		}), 0, 6).Draw(t, "stories")
		return format, []byte(`{"n": 1e3, "userStories": [` + strings.Join(stories, ",\n") + `], "z": null}`)
	}
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{
		"# Progress: x", "## Tasks", "## Task List", "## High Priority", "## Optional", "## Learnings", "## Notes",
		"## Status", "RALPH_DONE",
		"### Task 1: a", "### Phase 2", "- [ ] a", "- [x] 1.1 [P] b", "- [ ] Task 3: c (blocked: d)",
		"* [X] T4 (P2) [US-1] e", "  - Accept: f",
		"  - **Verify**: g", "  - [ ] h", "- i", "text", "", "```", "<!--", "-->", "> - [ ] j", "1. [ ] k\r",
		"- [ ]  l (skipped: m)  ",
	}), 0, 14).Draw(t, "lines")
	return format, []byte(strings.Join(lines, "\n") + "\n")
}

// TestEditChangesOnlyItsRange: a tick changes the boxes or the value of its
// task, a mark adds in one place, and all other tasks stay as they were.
func TestEditChangesOnlyItsRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		format, src := documents(t)
		f, err := formats.Parse(format, "x", src)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(f.Bytes(), src) {
			t.Fatalf("read and written back: %q", f.Bytes())
		}
		before := f.Plan()
		if len(before.Tasks) == 0 {
			return
		}
		i := rapid.IntRange(0, len(before.Tasks)-1).Draw(t, "task")
		want := rapid.SampledFrom([]run.TaskStatus{run.TaskDone, run.TaskOpen, run.TaskBlocked, run.TaskSkipped}).Draw(t,
			"status")
		if err := f.Apply(progress.Mark{Task: i, Status: want, Reason: "because"}); err != nil {
			if before.Tasks[i].Status != run.TaskDone || !bytes.Equal(f.Bytes(), src) {
				t.Fatalf("%v, and the file is %q", err, f.Bytes())
			}
			return
		}
		after := f.Plan()
		if len(after.Tasks) != len(before.Tasks) {
			t.Fatalf("%d tasks became %d: %q", len(before.Tasks), len(after.Tasks), f.Bytes())
		}
		got := after.Tasks[i].Status
		marked := before.Tasks[i].Status == run.TaskBlocked || before.Tasks[i].Status == run.TaskSkipped ||
			before.Tasks[i].Status == run.TaskDone
		if got != want && (want != run.TaskOpen || !marked || got == run.TaskDone) {
			t.Fatalf("status %s, want %s: %q", got, want, f.Bytes())
		}
		for k := range after.Tasks {
			if k != i {
				if d := cmp.Diff(before.Tasks[k], after.Tasks[k]); d != "" {
					t.Fatalf("task %d changed too:\n%s", k, d)
				}
			}
		}
		if (want == run.TaskDone || !marked) && want != run.TaskBlocked && want != run.TaskSkipped && format != formats.PRD {
			for k := range src {
				if b := f.Bytes()[k]; b != src[k] && (!strings.ContainsRune(" xX\t", rune(b)) || src[k-1] != '[') {
					t.Fatalf("byte %d became %q", k, b)
				}
			}
		}
	})
}
