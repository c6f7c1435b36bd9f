package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/plan"
)

func TestDependencies(t *testing.T) {
	t.Parallel()
	nothing := func(title, on string) string {
		return "The task “" + title + "” depends on “" + on + "”, which is not a task in the plan; the dependency is ignored."
	}
	noID := func(line int, text string) string {
		return fmt.Sprintf("Line %d, “%s”, names something that is not the id of a task; that part is ignored.", line, text)
	}
	tests := map[string]struct {
		body     string
		want     []string // id, then what it depends on
		findings []string
	}{
		"by number": {
			"- [ ] a\n  - Depends on: T2\n- [ ] b\n- [ ] c\n  - **Depends on:** T1, T02\n", []string{"T1 T2", "T2", "T3 T1 T2"},
			nil,
		},
		"ids of its own": {"- [ ] T4 a\n- [ ] T7 b\n  - Depends on: T4\n", []string{"T4", "T7 T4"}, nil},
		"no such number": {
			"- [ ] a\n- [ ] b\n  - Depends on: T9\n", []string{"T1", "T2 T9"}, []string{nothing("b", "T9")},
		},
		"no such id": {
			"- [ ] T1 a\n- [ ] b\n  - Depends on: T2\n", []string{"T1", " T2"}, []string{nothing("b", "T2")},
		},
		"a dotted id is another": {
			"- [ ] T1.1 a\n- [ ] T1.2 b\n  - Depends on: T1.3\n- [ ] T1.3 c\n", []string{"", "", ""},
			[]string{noID(3, "Depends on: T1.3")},
		},
		"no id": {
			"- [ ] a\n- [ ] b\n  - Depends on: the release\n", []string{"", ""}, []string{noID(3, "Depends on: the release")},
		},
		"an id and more": {
			"- [ ] a\n- [ ] b\n  - Depends on: T1, the release\n- [ ] c\n  - Depends on: T1 (its schema)\n",
			[]string{"T1", "T2 T1", "T3 T1"}, []string{noID(3, "Depends on: T1, the release")},
		},
		"criteria are no task": {
			"- [ ] a\n- [ ] b\n  - Depends on: T1\n\n## Acceptance criteria\n- [ ] c\n", []string{"T1", "T2 T1"}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.FromIssue("A plan", tt.body)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, task := range p.Tasks {
				got = append(got, strings.Join(append([]string{task.ID}, task.DependsOn...), " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.findings, p.Findings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
