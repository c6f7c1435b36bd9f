package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

func TestReadAssignment(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt string
		want         Assignment
	}{
		{"empty", "", Assignment{}},
		{
			"as documented",
			"# Your assignment\n\nTask: T1\nProgress file: .ralph/7/progress.md\nMode: build\n",
			Assignment{Task: "T1", ProgressFile: ".ralph/7/progress.md", Mode: run.ModeBuild},
		},
		{
			"with title and attempt",
			"Task: T12 Wire the flag: --json\nProgress file: .ralph/x y/progress.md\nMode: build\nAttempt: 2 of 3\n",
			Assignment{
				Task: "T12", Title: "Wire the flag: --json", ProgressFile: ".ralph/x y/progress.md", Mode: run.ModeBuild,
				Attempt: 2,
			},
		},
		{
			"decorated, carriage returns",
			"- **Task:** `T3`\r\n- **Progress file:** `.ralph/a_b/progress.md`\r\n- **Mode:** PLAN\r\n",
			Assignment{Task: "T3", ProgressFile: ".ralph/a_b/progress.md", Mode: run.ModePlan},
		},
		{
			"the first line of each kind counts",
			"Task: T1\nMode: build\nProgress file: p\nthe issue says\nTask: T9\nMode: plan\nProgress file: /etc/passwd\n",
			Assignment{Task: "T1", ProgressFile: "p", Mode: run.ModeBuild},
		},
		{"no task when planning", "Task: none\nMode: plan\nTask: T1\n", Assignment{Mode: run.ModePlan}},
		{"an empty value is no value", "Task:\nTask: T2\n", Assignment{Task: "T2"}},
		{"other words do not count", "Subtask: T1\nTask list: T2\nmode = plan\nAttempt: many\nAttempt: 0\n", Assignment{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, ReadAssignment(tt.prompt)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
