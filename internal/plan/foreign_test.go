package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			"MyApp", "- Story: As a user",
			[]run.Task{
				{Title: "[US-001] First", Priority: 1, Accept: []string{"works"}, Status: run.TaskDone},
				{Title: "[US-002] Second", Priority: 2, Status: run.TaskBlocked, Reason: "no key"},
			},
		},
		"tasks.md": {
			"specs/tasks.md", "# Tasks: export\n\n## Phase 1: Work\n- [ ] 1.1 [P] Write it\n  - **Do**: steps\n  - **Done when**: it runs\n  - **Verify**: `make`\n",
			"export", "**Do**: steps",
			[]run.Task{{Title: "[1.1] Write it", Group: "Phase 1: Work", Parallel: true, Accept: []string{"it runs", "Verify: `make`"}, Status: run.TaskOpen}},
		},
		"fix_plan.md": {
			"fix_plan.md", "# Fix\n## High Priority\n- [ ] now\n## Optional\n- [ ] one day\n",
			"Fix", "one day",
			[]run.Task{{Title: "now", Priority: 1, Status: run.TaskOpen}, {Title: "one day", Group: "Optional", Status: run.TaskSkipped, Reason: "it stands under Optional"}},
		},
		"portableralph": {
			"x_PROGRESS.md", "# Progress: x\n## Status\nIN_PROGRESS\n## Task List\n- [x] Task 1: a\n- [ ] Task 2: b\n",
			"x", "## Status",
			[]run.Task{{Title: "[Task 1] a", Status: run.TaskDone}, {Title: "[Task 2] b", Status: run.TaskOpen}},
		},
		"headings": {
			"plan.md", "# P\n### Task 1: a\n- [x] b\n- [ ] c\n",
			"P", "### Task 1",
			[]run.Task{{Title: "[Task 1] a", Accept: []string{"b", "c"}, Status: run.TaskOpen}},
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
		"passes":   {"prd.json", `{"userStories": [{"title": "a", "passes": "no"}]}`, `prd.json:1:43: "passes" must be true or false`},
		"no tasks": {"fix_plan.md", "# Fix\n", "fix_plan.md has no tasks"},
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
		{"prd.json", prd, "progress.txt", "# Log\n\n## Codebase Patterns\n- wrap errors\n---\n## today - US-0\n- **Learnings for future iterations:**\n  - the cache is cold\u202e\n---\n", "\n\n## Codebase Patterns\n- wrap errors\n\n## Learnings\n- the cache is cold"},
		{"specs/tasks.md", tasks, ".progress.md", "# Progress\n\n## Learnings\n- one store\n", "\n\n## Learnings\n- one store"},
		{"prd.json", prd, "progress.txt", "x\n", ""},
		{"plan.md", "- [ ] a\n", "", "- b\n", ""},
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
