package formats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		format formats.Format
		src    string
		want   []string
	}{
		"a sound PRD": {
			formats.PRD, `{"branchName": "b", "userStories": [{"id": "1", "title": "a", "acceptanceCriteria": ["x"]}]}`, nil,
		},
		"a PRD with gaps": {formats.PRD, "{\"userStories\": [\n {\"title\": \"a\", \"acceptanceCriteria\": [\"x\"]},\n {\"id\": \"1\", \"title\": \"b\", \"acceptanceCriteria\": [\"x\"]},\n {\"id\": \"1\", \"title\": \"c\"}]}", []string{
			"1:1 warning no_branch", "2:2 warning no_id", "4:2 error duplicate_id", "4:2 warning no_criteria",
		}},
		"a PRD without stories": {
			formats.PRD, `{"branchName": "b", "userStories": []}`, []string{"1:1 error no_task"},
		},
		"a PRD that cannot be read": {formats.PRD, "{\n \"userStories\": 1}", []string{"2:17 error unreadable"}},
		"a PRD that is too large": {
			formats.PRD, strings.Repeat(" ", progress.MaxSize+1), []string{"1:1 error unreadable"},
		},
		"a sound progress.md": {
			formats.Progress, "# Progress: x\n\n## Status\nIN_PROGRESS\n\n## Tasks\n- [ ] T1 a\n", nil,
		},
		"a progress.md without section": {formats.Progress, "- [ ] a\n", []string{"1:1 warning no_tasks_section"}},
		"a check list needs none":       {formats.Checklist, "- [ ] a\n", nil},
		"boxes that are none": {
			formats.FixPlan, "## High Priority\n- [ ] a\n- [y] b\n- [] c\n", []string{"4:3 error malformed_box"},
		},
		"an early marker": {
			formats.Portable, "# Progress: x\n## Status\nRALPH_DONE\n## Task List\n- [ ] Task 1: a\n",
			[]string{"3:1 error marker"},
		},
		"two tasks of one number": {
			formats.Specum, "# Tasks: x\n- [ ] 1.1 a\n- [ ] 1.1 b\n", []string{"3:3 error duplicate_id"},
		},
		"a task without phase": {
			formats.Rslph, "# Progress: x\n## Tasks\n- [ ] a\n### Phase 1: b\n- [ ] c\n", []string{"3:3 warning no_phase"},
		},
		"headings without boxes": {formats.Ralphex, "# x\n### Task 1: a\n", []string{"1:1 error no_task"}},
		"two headings of one number": {
			formats.Ralphex, "# x\n### Task 1: a\n- [ ] b\n### Task 1: c\n- [ ] d\n", []string{"4:1 error duplicate_id"},
		},
		"binary": {formats.FixPlan, "- [ ] a\n\xff", []string{"2:1 error unreadable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range formats.Check(tc.format, "x", []byte(tc.src)) {
				if p.Message == "" || p.Hint == "" {
					t.Errorf("problem without words: %+v", p)
				}
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Severity, p.Kind))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestCheckTellsAHundredProblemsAtMost(t *testing.T) {
	t.Parallel()
	src := `{"branchName":"b","userStories":[` + strings.Repeat(`{"title":"a"},`, 200) + `{"title":"a"}]}`
	if got := formats.Check(formats.PRD, "x", []byte(src)); len(got) != 100 {
		t.Errorf("%d problems", len(got))
	}
}
