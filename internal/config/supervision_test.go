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
history:
  enabled: false
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
	if err := r.Supervision.Validate(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(run.Limits{MaxIterations: 40, TaskAttempts: 4}, r.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[run.Role]Role{run.RoleReviewer: {Model: "big"}, run.RoleTester: {MaxTurns: 20, DenyTools: []string{"WebFetch", "Bash(git push:*)"}}}, r.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if !r.Forget || r.Review == nil || *r.Review {
		t.Errorf("forget %v, review %v", r.Forget, r.Review)
	}
	own, problems := ParseRepo([]byte(`
supervision:
  task_timeout: 90s
  exploration: 0
  regression_patience: 3
  risk: {guide: 0.8, narrow: 0.6, touches: 0, flat_tests: 0.1, repetition: 0.5, role_switch: 0.3, churn: 0.2, breadth: 0.25}
  patterns:
    shared_error: [3, 4, 5]
    accumulating_warnings: [1, 2, 3]
    repeating_error: [0, 0, 9]
    same_change: [3, 4, 6]
    no_change: [3, 4, 7]
    repeated_touches: [3, 4, 8]
    thrashing: [3, 4, 9]
    oscillation: [1, 2, 10]
    regression: [5, 10, 15]
    questions: [2, 3, 0]
    refusals: [4, 5, 6]
    false_claims: [7, 8, 9]
`))
	want = supervise.Defaults()
	want.TaskTimeout, want.ExplorationAllowance, want.RegressionPatience = 90*time.Second, 0, 3
	want.GuideRisk, want.NarrowRisk = 0.8, 0.6
	want.Risk = supervise.RiskWeights{FlatTests: 0.1, Repetition: 0.5, RoleSwitch: 0.3, Churn: 0.2, Breadth: 0.25}
	for _, s := range []struct {
		of                          *supervise.Steps
		warning, elevated, critical int
	}{
		{&want.SharedError, 3, 4, 5},
		{&want.Warnings, 1, 2, 3},
		{&want.RepeatingError, 0, 0, 9},
		{&want.SameChange, 3, 4, 6},
		{&want.NoChange, 3, 4, 7},
		{&want.RepeatedTouches, 3, 4, 8},
		{&want.Thrashing, 3, 4, 9},
		{&want.Oscillation, 1, 2, 10},
		{&want.Regression, 5, 10, 15},
		{&want.Questions, 2, 3, 0},
		{&want.Refusals, 4, 5, 6},
		{&want.FalseClaims, 7, 8, 9},
	} {
		*s.of = supervise.Steps{Warning: s.warning, Elevated: s.elevated, Critical: s.critical}
	}
	if diff := cmp.Diff(want, own.Supervision); diff != "" || len(problems) > 0 {
		t.Errorf("own thresholds: %v (-want +got):\n%s", problems, diff)
	}
	if err := own.Supervision.Validate(); err != nil {
		t.Error(err)
	}
	off, problems := ParseRepo([]byte("checkpoints: {enabled: false}\n"))
	if len(problems) > 0 || off.Supervision.MaxCheckpoints != 0 || off.Supervision.StagnationThreshold != 5 {
		t.Errorf("%v, %+v", problems, off.Supervision)
	}
}

func TestSupervisionProblems(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"loop: {stagnationThreshold: 0}":                                 "between 1 and 16",
		"loop: {stagnationThreshold: 17}":                                "between 1 and 16",
		"loop: {maxIterations: -1}":                                      "between 1 and",
		"checkpoints: {maxCheckpoints: 1000}":                            "between 1 and 100",
		"supervision: {task_timeout: 0s}":                                "more than 0",
		"supervision: {task_timeout: 1h}\nloop: {taskTimeoutMinutes: 5}": "the same as loop.taskTimeoutMinutes",
		"supervision: {exploration: 17}":                                 "between 0 and 16",
		"supervision: {regression_patience: 0}":                          "between 1 and 10",
		"supervision: {risk: {guide: 0}}":                                "more than 0",
		"supervision: {risk: {churn: 1.5}}":                              "from 0 to 1",
		"supervision: {risk: {touches: .nan}}":                           "from 0 to 1",
		"supervision: {risk: {guide: 0.3}}":                              "narrow must be at most guide",
		"supervision: {patterns: {questions: [1, 2]}}":                   "three whole numbers that rise",
		"supervision: {patterns: {questions: [3, 2, 4]}}":                "three whole numbers that rise",
		"supervision: {patterns: {questions: [1, 2, 1001]}}":             "at most 1000",
		"supervision: {patterns: {stagnation: [1, 2, 3]}}":               "stagnation",
		"roles: [{name: wizard}]":                                        "there is no role",
		"roles: [{name: tester}, {name: tester}]":                        "is listed twice",
		"roles: [{name: tester, model: \"a b\"}]":                        "name of a model",
		"roles: [{name: tester, max_turns: 0}]":                          "max_turns of tester",
		"roles: [{name: tester, deny_tools: [\"a b\"]}]":                 "look like a tool",
		"history: {persistPath: x}":                                      "persistPath",
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
