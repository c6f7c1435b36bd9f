package gitrepo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBranchNotes: what is noted of a branch goes where the branch goes.
func TestBranchNotes(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a"})
	r := open(t, dir)
	ctx := t.Context()
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	has := func(want map[string]BranchNote) {
		t.Helper()
		got, err := r.BranchNotes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("notes (-want +got):\n%s", d)
		}
	}
	has(map[string]BranchNote{})
	odd := BranchNote{Plan: "plan:a \"b\"\n[c] = #d.md", Base: "main"}
	for _, branch := range []string{"ralph/X.y", "gone"} {
		if err := r.CreateBranch(ctx, branch, head); err != nil {
			t.Fatal(err)
		}
		if err := r.NoteBranch(ctx, branch, BranchNote{Plan: "plan:old"}); err != nil {
			t.Fatal(err)
		}
		if err := r.NoteBranch(ctx, branch, odd); err != nil {
			t.Fatal(err)
		}
	}
	has(map[string]BranchNote{"ralph/X.y": odd, "gone": odd})
	mustGit(t, dir, "branch", "-q", "-m", "ralph/X.y", "mine")
	mustGit(t, dir, "branch", "-q", "-D", "gone")
	has(map[string]BranchNote{"mine": odd})
	if err := r.NoteBranch(ctx, "--global", odd); err == nil {
		t.Error("a note on what is no branch")
	}
}
