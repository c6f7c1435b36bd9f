package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

func TestLoop(t *testing.T) {
	t.Parallel()
	r, problems := ParseRepo([]byte(`
review: false
loop:
  maxIterations: 40
  maxTaskAttempts: 2
  taskTimeoutMinutes: 10
  stagnationThreshold: 4
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
	if diff := cmp.Diff(run.Limits{MaxIterations: 40, TaskAttempts: 4, Stagnation: 4, TaskTime: 10 * time.Minute},
		r.Limits); diff != "" {
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
}

func TestLoopProblems(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"loop: {stagnationThreshold: 0}":                 "between 1 and 16",
		"loop: {stagnationThreshold: 17}":                "between 1 and 16",
		"loop: {maxIterations: -1}":                      "between 1 and",
		"loop: {enablePredictiveStagnation: true}":       "enablePredictiveStagnation",
		"checkpoints: {enabled: true}":                   "checkpoints",
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
