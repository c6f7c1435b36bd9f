package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// TestFromFileReadsOtherSystems takes the tasks out of files that no plan of
// our own looks like; their ids go before the titles.
func TestFromFileReadsOtherSystems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, src string
		title     string
		text      string // somewhere in Plan.Text
		tasks     []run.Task
	}{
		"prd.json": {
			"prd.json", `{"project": "MyApp", "branchName": "ralph/x", "userStories": [
				{"id": "US-002", "title": "Second", "priority": 2, "passes": false, "notes": "blocked: no key"},
				{"id": "US-001", "title": "First", "description": "As a user", "priority": 1, "passes": true, "acceptanceCriteria": ["works"]}]}`,
			"MyApp", "## US-001 First\n\n- As a user\n",
			[]run.Task{
				{Title: "[US-001] First", Priority: 1, Accept: []string{"works"}, Status: run.TaskDone},
				{Title: "[US-002] Second", Priority: 2, Status: run.TaskBlocked, Reason: "no key"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := FromFile(tc.file, []byte(tc.src), nil)
			if err != nil {
				t.Fatal(err)
			}
			if p.Title != tc.title || !strings.Contains(p.Text, tc.text) || p.SHA256 == "" {
				t.Errorf("plan %+v", p)
			}
			if d := cmp.Diff(tc.tasks, p.Tasks); d != "" {
				t.Errorf("tasks (-want +got):\n%s", d)
			}
		})
	}
}

func TestFromFileSaysWhatIsWrongWithOtherSystems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, src, want string }{
		"passes": {
			"prd.json", `{"userStories": [{"title": "a", "passes": "no"}]}`, `prd.json:1:46: userStories.passes must be true or false, not string`,
		},
		"no tasks": {"x_PROGRESS.md", "# Progress: x\n", "x_PROGRESS.md has no tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := FromFile(tc.file, []byte(tc.src), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFromFileKnowsWhatWasLearned: the file beside a plan is told with it, what
// is newest if there is much, and makes it no other plan.
func TestFromFileKnowsWhatWasLearned(t *testing.T) {
	t.Parallel()
	const (
		prd   = `{"project": "x", "userStories": [{"id": "US-1", "title": "a", "passes": false}]}`
		tasks = "# Tasks: x\n\n## Phase 1: Work\n- [ ] 1.1 Write it\n"
	)
	for _, tc := range []struct{ name, src, companion, notes, want string }{
		{
			"prd.json", prd, "progress.txt",
			"# Log\n\n## Codebase Patterns\n- wrap errors\n---\n## today - US-0\n- **Learnings for future iterations:**\n  - the cache is cold\u202e\n---\n",
			"\n\n## Codebase Patterns\n- wrap errors\n\n## Learnings\n- the cache is cold",
		},
		{
			"specs/tasks.md", tasks, ".progress.md", "# Progress\n\n## Learnings\n- one store\n",
			"\n\n## Learnings\n- one store",
		},
		{"prd.json", prd, "progress.txt", "x\n", ""},
		{
			"docs/feature.md", "Build it.\n", "feature_PROGRESS.md", "# Progress: feature\n\n## Notes\n- one store\n",
			"\n\n## Learnings\n- one store",
		},
	} {
		if got := Companion(tc.name, []byte(tc.src)); got != tc.companion {
			t.Errorf("%s: companion %q", tc.name, got)
		}
		bare, err := FromFile(tc.name, []byte(tc.src), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := FromFile(tc.name, []byte(tc.src), []byte(tc.notes))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(p.Text, bare.Text); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if p.SHA256 != bare.SHA256 || !cmp.Equal(p.Tasks, bare.Tasks) {
			t.Errorf("%s: another plan", tc.name)
		}
	}
	much := "## Codebase Patterns\n" + strings.Repeat("- old\n", 10_000) + "- new\n"
	p, err := FromFile("prd.json", []byte(prd), []byte(much))
	if err != nil || len(p.Text) > 2*maxNotes || !strings.HasSuffix(p.Text, "- old\n- new") {
		t.Errorf("%d bytes, %v", len(p.Text), err)
	}
	if _, err := FromFile("prd.json", []byte(prd), []byte{0}); err == nil {
		t.Error("a file that is no text was read")
	}
}

// TestFromFileTakesUpAProgressFile: the tasks of NAME_PROGRESS.md, with their
// ticks, are those of the plan NAME.md, which stays the same plan.
func TestFromFileTakesUpAProgressFile(t *testing.T) {
	t.Parallel()
	const notes = "# Progress: feature\n\n## Status\nIN_PROGRESS\n\n## Task List\n- [x] Task 1: Read it\n- [ ] Task 2: Write it\n"
	bare, err := FromFile("feature.md", []byte("# Feature\n\n- [ ] x\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := FromFile("feature.md", []byte("# Feature\n\n- [ ] x\n"), []byte(notes))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range p.Tasks {
		got = append(got, string(task.Status)+" "+task.Title)
	}
	if d := cmp.Diff([]string{"done [Task 1] Read it", "open [Task 2] Write it"}, got); d != "" {
		t.Errorf("tasks (-want +got):\n%s", d)
	}
	if p.SHA256 != bare.SHA256 || p.Title != "Feature" {
		t.Errorf("another plan: %+v", p)
	}
	for name, want := range map[string]string{"feature_PROGRESS.md": "", "progress.md": "", "feature": ""} {
		if got := Companion(name, []byte("- [ ] x\n")); got != want {
			t.Errorf("%s: companion %q", name, got)
		}
	}
}

// TestPlanIsTheSameWhenTicked: a run writes ticks, statuses and notes into the
// file of its own plan, which is no other plan for that.
func TestPlanIsTheSameWhenTicked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, open, done, other string }{
		{
			"prd.json", `{"userStories":[{"id":"US-1","title":"a","passes":false}]}`,
			`{"userStories":[{"id":"US-1","title":"a","passes":true}]}`,
			`{"userStories":[{"id":"US-1","title":"b","passes":true}]}`,
		},
		{
			"plan.md", "# P\n\ntext\n\n- [ ] a\n- [ ] b\n", "# P\n\ntext\n\n- [x] a\n- [ ] b\n",
			"# P\n\nother\n\n- [x] a\n- [ ] b\n",
		},
		{"prose.md", "Do it.\n", "Do it.\n", "Do that.\n"},
	} {
		sum := func(src string) string {
			p, err := FromFile(tc.name, []byte(src), nil)
			if err != nil {
				t.Fatal(err)
			}
			return p.SHA256
		}
		if sum(tc.open) != sum(tc.done) {
			t.Errorf("%s is another plan when it is ticked", tc.name)
		}
		if sum(tc.done) == sum(tc.other) {
			t.Errorf("%s is the same plan when it is changed", tc.name)
		}
	}
}

// TestWriteBack says what it could not write.
func TestWriteBack(t *testing.T) {
	t.Parallel()
	const own = "# Progress: x\n\n## Status\nRALPH_DONE\n\n## Tasks\n- [x] T1 a\n- [x] T2 gone\n"
	got, err := WriteBack("plan.md", []byte("- [ ] a\n- [ ] new\n"), nil, Work{Progress: own, Task: "T2"})
	if err != nil {
		t.Fatal(err)
	}
	want := Written{
		File: []byte("- [x] a\n- [ ] new\n"), Followed: formats.Followed{Missing: true, Open: []string{`"new"`}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	got, err = WriteBack("prd.json", []byte(`{"userStories":[{"title":"a","passes":false}]}`), nil,
		Work{Progress: own, Task: "T1", When: time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC)})
	if err != nil || !strings.Contains(string(got.File), `"passes":true`) ||
		!strings.Contains(string(got.Notes), "## 2026-01-02 15:04 - \"a\"\n- Implemented: a\n---\n") {
		t.Errorf("%s, %s, %v", got.File, got.Notes, err)
	}
	if _, err = WriteBack("prd.json", []byte(`{`), nil, Work{Progress: own}); err == nil {
		t.Error("what cannot be read was written")
	}
}

// What looks like a box and is no task is named with its line; what is none stays unnamed.
func TestUnreadBoxesAreNamed(t *testing.T) {
	t.Parallel()
	const src = "\n# Plan\n\n- [x] T1.1 a\n- [~] T1.2 b\n- [!] c\n- [-] d\n- [] e\n- [ ]f\n- [  ] g\n- [✓] h\n### 1. [ ] i\n" +
		"- [x] parent\n  - [ ] child\n    - [ ] its own\n- [ ] open\n  - [ ] its criterion\n"
	p, err := FromFile("PLAN.md", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(p.Findings, "\n")
	for _, want := range []string{
		"Line 5, “[~] T1.2 b”", "Line 6, “[!] c”", "Line 7, “[-] d”", "Line 8, “[] e”", "Line 9, “[ ]f”", "Line 10, “[  ] g”",
		"Line 11, “[✓] h”", "Line 12, “1. [ ] i”, is a box in a heading", "Line 14, “[ ] child”, is open",
		"Line 15, “[ ] its own”, is open",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said in:\n%s", want, said)
		}
	}
	if p.Unread != 10 {
		t.Errorf("%d boxes, want 10:\n%s", p.Unread, said)
	}
	for _, text := range []string{
		"- [x](u) link\n", "- [2026-01-29] dated\n", "- [1] a note\n", "- [y] a letter\n", "- [a]: u\n", "- [x][r]\n\n[r]: u\n",
		"```\n- [~] code\n```\n", "> - [~] quoted\n", "[~] no item\n", "# [link](u)\n", "- [ ] open\n  - [x] done\n", "- [ ](u)\n",
		"# About [x] and [ ]\n",
	} {
		if p, err := FromFile("PLAN.md", []byte("Do it.\n\n"+text), nil); err != nil || p.Unread != 0 || len(p.Findings) != 0 {
			t.Errorf("%q: %q, %v", text, p.Findings, err)
		}
	}
}

// A check that nobody can run is named: it is not passed over in silence.
func TestUncheckedLinesAreNamed(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, "t", "- [ ] a\n  - Verify: make test\n- [ ] b\n  - Verify: by hand\n- [ ] c\n  - Verify: `make`\n  - Verify: none\n")
	const want = "2 Verify lines without a command in backticks, “Verify: make test” the first: the agent is told, and nothing is run."
	if len(p.Findings) != 1 || p.Findings[0] != want {
		t.Errorf("%q", p.Findings)
	}
	if p := mustPlan(t, "t", "- [ ] a\n  - Verify: `make`\n"); len(p.Findings) > 0 {
		t.Errorf("%q", p.Findings)
	}
}
