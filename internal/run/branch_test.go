package run_test

import (
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestBranches is H6: there is nothing in the name of a branch that a text could choose, and
// what is not the name of an issue's branch is for no issue.
func TestBranches(t *testing.T) {
	t.Parallel()
	if got := run.Branch(7); got != "ralph/7" {
		t.Errorf("the branch of issue 7 is %q", got)
	}
	if issue, ok := run.BranchIssue("ralph/7"); issue != 7 || !ok {
		t.Errorf("ralph/7 is for issue %d, %v", issue, ok)
	}
	if slug, ok := run.BranchSlug(run.BranchNamed("my-plan")); slug != "my-plan" || !ok {
		t.Errorf("ralph/my-plan is for the plan %q, %v", slug, ok)
	}
	for _, branch := range []string{
		"", "main", "7", "ralph/", "ralph/0", "ralph/-7", "ralph/+7", "ralph/07", "ralph/7x", "ralph/7/x", "x/ralph/7",
		"RALPH/7", "ralph/99999999999999999999", "ralph/٧", "ralph/7\n", "ralph/my-plan",
	} {
		if n, ok := run.BranchIssue(branch); ok {
			t.Errorf("%q is taken for the branch of issue %d", branch, n)
		}
	}
	for _, branch := range []string{"", "mine", "ralph/", "ralph/My_plan", "ralph/a/b", "ralph/a.b", "ralph/{issue}"} {
		if slug, ok := run.BranchSlug(branch); ok {
			t.Errorf("%q is taken for the branch of the plan %q", branch, slug)
		}
	}
}
