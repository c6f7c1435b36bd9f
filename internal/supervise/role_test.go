package supervise_test

import (
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

func TestNextRole(t *testing.T) {
	t.Parallel()
	after := func(role supervise.Role, class supervise.FailureClass) supervise.History {
		it := failed(1, "T1", "error: boom")
		it.Role, it.Class = role, class
		return supervise.History{Iterations: []supervise.Iteration{it}}
	}
	done := supervise.History{Iterations: []supervise.Iteration{failed(1, "T1", "error: boom"), landed(2, "T1")}}
	tests := []struct {
		name    string
		history supervise.History
		task    run.Task
		sit     supervise.Situation
		want    supervise.Role
	}{
		{name: "no plan yet", sit: supervise.Situation{Planning: true}, want: supervise.Planner},
		{name: "all done", sit: supervise.Situation{Finishing: true}, want: supervise.Reviewer},
		{name: "a fresh task", task: run.Task{Title: "Add a --test flag"}, want: supervise.Implementer},
		{name: "a task that is tests only", task: run.Task{Title: "Write unit tests for the cart"}, want: supervise.Tester},
		{name: "coverage", task: run.Task{Title: "Increase test coverage"}, want: supervise.Tester},
		{
			name: "a test runner is no test", task: run.Task{Title: "Add test runner to the build"}, want: supervise.Implementer,
		},
		{name: "a task that checks", task: run.Task{Title: "Run the whole suite", Verify: true}, want: supervise.Tester},
		{name: "a design", task: run.Task{Title: "Redesign the storage layer"}, want: supervise.Architect},
		{name: "tests fail", history: after(supervise.Implementer, supervise.FailTest), want: supervise.Debugger},
		{name: "it does not compile", history: after(supervise.Tester, supervise.FailCompile), want: supervise.Debugger},
		{name: "the linter objects", history: after(supervise.Debugger, supervise.FailLint), want: supervise.Debugger},
		{
			name: "the architect's tests fail", history: after(supervise.Architect, supervise.FailTest),
			want: supervise.Architect,
		},
		{name: "nothing changed", history: after(supervise.Implementer, supervise.FailEmpty), want: supervise.Implementer},
		{name: "a crash changes nothing", history: after(supervise.Debugger, supervise.FailCrash), want: supervise.Debugger},
		{name: "after the planner", history: after(supervise.Planner, supervise.FailEmpty), want: supervise.Implementer},
		{name: "what landed is over", history: done, want: supervise.Implementer},
		{
			name: "the supervisor switches", history: after(supervise.Debugger, supervise.FailTest),
			sit:  supervise.Situation{Verdict: supervise.Verdict{Kind: supervise.VerdictSwitchRole, Role: supervise.Architect}},
			want: supervise.Architect,
		},
		{
			name: "the supervisor splits up", history: after(supervise.Debugger, supervise.FailTest),
			sit:  supervise.Situation{Verdict: supervise.Verdict{Kind: supervise.VerdictDecompose, Role: supervise.Planner}},
			want: supervise.Planner,
		},
	}
	given := map[supervise.Role]bool{}
	for _, tt := range tests {
		tt.task.ID = "T1"
		given[tt.want] = true
		if got := supervise.NextRole(tt.history, tt.task, tt.sit); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, r := range run.Roles() {
		if !given[r] {
			t.Errorf("role %s has no test", r)
		}
	}
}
