package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/run"
)

func TestAcceptanceCriteria(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       []string
		tasks      []string
	}{
		{
			"heading with a list", "Do it.\n\n## Acceptance criteria\n\n- one\n* two\n\n## Notes\n\n- three\n",
			[]string{"one", "two"}, nil,
		},
		{
			"deeper headings belong to it", "## Done when\n### Users\n- one\n### Admins\n- two\n## Else\n- three\n",
			[]string{"one", "two"}, nil,
		},
		{"prose", "## Done when\n\nThe page\nloads.\n\nIt is fast.\n", []string{"The page loads.", "It is fast."}, nil},
		{"bold label", "Do it.\n\n**Acceptance criteria:**\n\n- one\n\nMore prose.\n\n- two\n", []string{"one"}, nil},
		{"name within a sentence is no label", "The acceptance criteria are below\n- one\n", nil, nil},
		{
			"lines", "Do it.\nAccept: it runs\n**Done when:** it ends\n- Accept: it prints\n",
			[]string{"it runs", "it ends", "it prints"}, nil,
		},
		{
			"check boxes are criteria there, and no tasks", "- [ ] do it\n\n## Acceptance criteria\n- [ ] one\n- [x] two\n",
			[]string{"one", "two"}, []string{"do it"},
		},
		{
			"nested ones are taken apart", "## Done when\n- On Linux:\n  - it runs\n  - it ends\n- It prints\n  - in colour\n",
			[]string{"it runs", "it ends", "It prints", "in colour"}, nil,
		},
		{"said twice", "## Done when\n- one\n- one\n", []string{"one"}, nil},
		{"nothing written", "### Acceptance criteria\n\n_No response_\n\n### Version\n\n1.2\n", nil, nil},
		{"in another language it is text", "## Akzeptanzkriterien\n- eins\n", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, end := range []string{"\n", "\r\n"} {
				p := mustPlan(t, "t", strings.ReplaceAll(tt.body, "\n", end))
				if diff := cmp.Diff(tt.want, p.Accept); diff != "" {
					t.Errorf("criteria (-want +got):\n%s", diff)
				}
				var titles []string
				for _, task := range p.Tasks {
					titles = append(titles, task.Title)
				}
				if diff := cmp.Diff(tt.tasks, titles); diff != "" {
					t.Errorf("tasks (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("bounds", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		b.WriteString("## Done when\n- " + strings.Repeat("ä", 400) + "\n")
		for i := range 100 {
			fmt.Fprintf(&b, "- %d it runs\n", i)
		}
		p := mustPlan(t, "t", b.String())
		if len(p.Accept) != maxCriteria || len(p.Accept[0]) > maxCriterion || !strings.HasSuffix(p.Accept[0], "ä…") {
			t.Errorf("%d criteria, the first of %d bytes", len(p.Accept), len(p.Accept[0]))
		}
	})
}

func TestTasksOfAnIssue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       []run.Task
	}{
		{"a task said twice is one, under another heading another",
			"### A\n- [x] Write tests\n- [ ] write tests\n### B\n- [ ] Write tests\n",
			[]run.Task{
				{Title: "Write tests", Group: "A", Status: run.TaskDone}, {Title: "Write tests", Group: "B", Status: run.TaskOpen},
			}},
		{"what people confirm in a form is no task",
			"### What should change?\n\n- [ ] Add the flag\n\n### Code of Conduct\n\n- [X] I agree to follow it\n\n### Before\n\n- [x] I have searched the issues\n- [ ] I'm willing to help\n- [x] By submitting this I agree\n",
			[]run.Task{{Title: "Add the flag", Group: "What should change?", Status: run.TaskOpen}}},
		{"where it happens is no task",
			"### Operating system\n\n- [x] Linux\n- [ ] Windows\n\n### Type of change\n- [x] bug\n",
			nil},
		{"words that only begin with I", "- [ ] Icons for the toolbar\n- [ ] Ichthyology page\n",
			[]run.Task{
				{Title: "Icons for the toolbar", Status: run.TaskOpen}, {Title: "Ichthyology page", Status: run.TaskOpen},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, mustPlan(t, "t", tt.body).Tasks, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
