package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

func TestSupervision(t *testing.T) {
	t.Parallel()
	r, problems := ParseRepo([]byte(`
review: false
loop:
  maxIterations: 40
  maxTaskAttempts: 2
  taskTimeoutMinutes: 10
  stagnationThreshold: 4
  enablePredictiveStagnation: false
checkpoints:
  autoCheckpointInterval: 3
  maxCheckpoints: 5
roles:
  - name: reviewer
    model: big
  - name: tester
    max_turns: 20
    deny_tools: [WebFetch, "Bash(git push:*)"]
limits:
  task_attempts: 4
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := supervise.Defaults()
	want.TaskTimeout, want.StagnationThreshold, want.Predictive = 10*time.Minute, 4, false
	want.CheckpointInterval, want.MaxCheckpoints = 3, 5
	if diff := cmp.Diff(want, r.Supervision); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(run.Limits{MaxIterations: 40, TaskAttempts: 4}, r.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[run.Role]Role{
		run.RoleReviewer: {Model: "big"}, run.RoleTester: {MaxTurns: 20, DenyTools: []string{"WebFetch", "Bash(git push:*)"}},
	}, r.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if r.Review == nil || *r.Review {
		t.Errorf("review %v", r.Review)
	}
	off, problems := ParseRepo([]byte("checkpoints: {enabled: false}\n"))
	if len(problems) > 0 || off.Supervision.MaxCheckpoints != 0 || off.Supervision.StagnationThreshold != 5 {
		t.Errorf("%v, %+v", problems, off.Supervision)
	}
}

func TestSupervisionProblems(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"loop: {stagnationThreshold: 0}":                 "between 1 and 16",
		"loop: {stagnationThreshold: 17}":                "between 1 and 16",
		"loop: {maxIterations: -1}":                      "between 1 and",
		"checkpoints: {maxCheckpoints: 1000}":            "between 1 and 100",
		"roles: [{name: wizard}]":                        "there is no role",
		"roles: [{name: tester}, {name: tester}]":        "is listed twice",
		"roles: [{name: tester, model: \"a b\"}]":        "name of a model",
		"roles: [{name: tester, max_turns: 0}]":          "max_turns of tester",
		"roles: [{name: tester, deny_tools: [\"a b\"]}]": "look like a tool",
		"history: {persistPath: x}":                      "history",
	} {
		r, problems := ParseRepo([]byte(src))
		if len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v", src, problems)
		}
		if diff := cmp.Diff(Repo{}, r); diff != "" {
			t.Errorf("%s: half used: %s", src, diff)
		}
	}
}
