package formats_test

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

func parse(t interface{ Fatal(...any) }, format formats.Format, src string) *formats.File {
	f, err := formats.Parse(format, "x", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// taken is the progress.md of a run that has taken up the tasks of a file.
func taken(t interface{ Fatal(...any) }, f *formats.File) *formats.File {
	p := f.Plan()
	doc := progress.New("x", progress.Binding{})
	if err := doc.SetTasks(p.RunTasks()); err != nil {
		t.Fatal(err)
	}
	doc.AssignIDs()
	return parse(t, formats.Progress, string(doc.Bytes()))
}

const head = "# Progress: x\n\n## Status\n"

// TestFollow brings files up to date with a run, twice.
func TestFollow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		format    formats.Format
		src, want string
		own       string // below the status
		done      bool   // the run is
		landed    formats.Work
		open      []string
		missing   bool
	}{
		"the title counts, and then the id elsewhere": {
			format: formats.Specum, own: "- [x] T1 [1.2] Second\n- [x] T2 [1.4] Was called otherwise\n",
			src:  "- [ ] 1.1 First\n- [ ] 1.2 Put between\n- [ ] 1.3 Second\n- [ ] 1.4 Fourth\n",
			want: "- [ ] 1.1 First\n- [ ] 1.2 Put between\n- [x] 1.3 Second\n- [x] 1.4 Fourth\n",
		},
		"numbers of the run mean nothing": {
			format: formats.Checklist, own: "- [x] T1 One\n- [x] T2 Its own\n", landed: formats.Work{Task: "T2"},
			src: "- [ ] T2 Other\n- [ ] T7 One\n", want: "- [ ] T2 Other\n- [x] T7 One\n",
			missing: true,
		},
		"of the same title each once": {
			format: formats.Checklist, own: "- [x] T1 Test\n- [ ] T2 Test\n- [x] T3 Test\n",
			src: "- [ ] Test\n- [ ] Test\n- [ ] Test\n", want: "- [x] Test\n- [ ] Test\n- [x] Test\n",
		},
		"what was written and unticked stays": {
			format: formats.Checklist, own: "- [x] T1 a\n- [x] T2 b\n",
			landed: formats.Work{Task: "T2", Written: []string{"T1"}},
			src:    "- [ ] a\n- [ ] b\n", want: "- [ ] a\n- [x] b\n",
		},
		"no tick is taken back, and what is blocked stays open": {
			format: formats.Checklist, own: "- [ ] T1 a\n- [ ] T2 b (blocked: c)\n- [ ] T3 d (skipped: e)\n",
			src: "- [x] a\n- [ ] b\n- [ ] d\n", want: "- [x] a\n- [ ] b\n- [ ] d (skipped: e)\n",
		},
		"a split task is done with its parts": {
			format: formats.Checklist, own: "- [ ] T1 a (skipped: split into T2, T3)\n- [x] T2 x\n- [ ] T3 y (skipped: split into T5, T9)\n- [x] T5 z\n" +
				"- [ ] T4 b (skipped: split into T6, T7)\n- [x] T6 u\n- [ ] T7 v\n- [ ] T8 c (skipped: split into T8, T8)\n",
			src: "- [ ] a\n- [ ] b\n- [ ] c\n", want: "- [x] a\n- [ ] b\n- [ ] c\n",
		},
		"the status of a finished run": {
			format: formats.Portable, done: true, own: "- [x] T1 [Task 1] a\n",
			src:  head + "IN_PROGRESS   <-- controls the loop\n\n## Task List\r\n- [ ] Task 1: a\n",
			want: head + "RALPH_DONE\n\n## Task List\r\n- [x] Task 1: a\n",
		},
		"nor before the file is": {
			format: formats.Progress, done: true, own: "- [x] T1 a\n",
			src: head + "In Progress\n\n## Tasks\n### Phase 1\n- [ ] a\n- [ ] b\n", want: head +
				"In Progress\n\n## Tasks\n### Phase 1\n- [x] a\n- [ ] b\n", open: []string{`"b"`},
		},
		"other systems have no status": {
			format: formats.Checklist, done: true, own: "- [x] T1 a\n",
			src: "## Status\nIN_PROGRESS\n\n## Tasks\n- [ ] a\n", want: "## Status\nIN_PROGRESS\n\n## Tasks\n- [x] a\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := "IN_PROGRESS"
			if tc.done {
				status = "RALPH_DONE"
			}
			own := parse(t, formats.Progress, head+status+"\n\n## Tasks\n"+tc.own)
			f := parse(t, tc.format, tc.src)
			tc.landed.Progress = string(own.Bytes())
			got, err := f.Follow(tc.landed)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(f.Bytes())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if d := cmp.Diff(tc.open, got.Open); d != "" {
				t.Errorf("open (-want +got):\n%s", d)
			}
			if got.Missing != tc.missing {
				t.Errorf("missing: %t", got.Missing)
			}
			if _, err := f.Follow(tc.landed); err != nil || string(f.Bytes()) != tc.want {
				t.Errorf("again: %v, %q", err, f.Bytes())
			}
		})
	}
}

// TestFollowWritesTheLog: one entry for each story that was done, once, whoever
// made up names and notes.
func TestFollowWritesTheLog(t *testing.T) {
	t.Parallel()
	const log = "# Ralph Progress Log\r\nStarted: long ago\r\n---\r\n## [2026-01-01] - US-009\r\n- done\r\n---"
	own := parse(t, formats.Progress, head+"IN_PROGRESS\n\n## Tasks\n- [x] T1 [US-001] a\n- [x] T2 [US-002] b\n- [ ] T3 [US-003] c\n\n"+
		"## Codebase Patterns\n- one store\n\n## Learnings\n- \\## forged\n- it is cached\n")
	f := parse(t, formats.PRD, `{"userStories":[{"id":"US-001","title":"a","passes":false},{"id":"US-002","title":"b","passes":false},{"id":"US-003","title":"c"}]}`)
	if err := f.Attach([]byte(log)); err != nil {
		t.Fatal(err)
	}
	landed := formats.Work{Progress: string(own.Bytes()), Task: "T2", Files: []string{"a.go", "b\n## c.go"}, When: when}
	for range 2 {
		if _, err := f.Follow(landed); err != nil {
			t.Fatal(err)
		}
	}
	want := "## Codebase Patterns\r\n- one store\r\n\r\n# Ralph Progress Log\r\nStarted: long ago\r\n---\r\n## [2026-01-01] - US-009\r\n- done\r\n---\r\n" +
		"## 2026-01-02 15:04 - US-001\r\n- Implemented: a\r\n---\r\n" +
		"## 2026-01-02 15:04 - US-002\r\n- Implemented: b\r\n- Files changed: a.go, b ## c.go\r\n- **Learnings for future iterations:**\r\n" +
		"  - \\## forged\r\n  - it is cached\r\n---\r\n"
	if d := cmp.Diff(want, string(f.Notes())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestFollowChangesOnlyTicks: whatever the file, only boxes and statuses of what
// is done change, and following again changes nothing.
func TestFollowChangesOnlyTicks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		format, src := documents(t)
		f := parse(t, format, string(src))
		own := taken(t, f)
		for i := range own.Plan().Tasks {
			if rapid.Bool().Draw(t, "done") {
				if err := tick(own, i); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := f.Plan()
		landed := formats.Work{Progress: string(own.Bytes()), Task: "T1", When: when}
		if _, err := f.Follow(landed); err != nil {
			if !bytes.Equal(f.Bytes(), src) {
				t.Fatalf("%v, and the file is %q", err, f.Bytes())
			}
			return
		}
		after := f.Plan()
		if len(after.Tasks) != len(before.Tasks) {
			t.Fatalf("%d tasks became %d: %q", len(before.Tasks), len(after.Tasks), f.Bytes())
		}
		for i, was := range before.Tasks {
			is := after.Tasks[i]
			if was.Status == run.TaskDone && is.Status != run.TaskDone {
				t.Fatalf("%q was unticked: %q", was.Title, f.Bytes())
			}
			known := slices.ContainsFunc(own.Plan().Tasks, func(t formats.Task) bool {
				return t.Status != run.TaskOpen && (t.Title == was.Title || (&t).Key() == (&was).Key())
			})
			if was.Status != is.Status && !known {
				t.Fatalf("%q became %s: %q", was.Title, is.Status, f.Bytes())
			}
		}
		if got, want := strip(f.Bytes()), strip(src); format != formats.PRD && !after.MarkedDone &&
			!strings.Contains(string(f.Bytes()), "(skipped: ") && got != want {
			t.Fatalf("more than boxes changed:\n%q\n%q", want, got)
		}
		once, notes := f.Bytes(), f.Notes()
		if _, err := f.Follow(landed); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once, f.Bytes()) || !bytes.Equal(notes, f.Notes()) {
			t.Fatalf("following again changes:\n%s\n%s", f.Bytes(), f.Notes())
		}
	})
}

// strip is a text with all of its boxes open.
func strip(src []byte) string {
	return strings.NewReplacer("[x]", "[ ]", "[X]", "[ ]", "[\t]", "[ ]").Replace(string(src))
}
