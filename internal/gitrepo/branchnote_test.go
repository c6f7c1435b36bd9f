package gitrepo

import (
	"errors"
	"path/filepath"
	"strings"
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

// TestRemoveBranch: a branch goes with its notes, and only from where it is meant to
// stand.
func TestRemoveBranch(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a"})
	r := open(t, dir)
	ctx := t.Context()
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	note := BranchNote{Plan: "plan:a.md", Base: "main", Run: "r1", From: "main", Made: OID(strings.Repeat("a", 40))}
	for _, branch := range []string{"ralph/kept", "ralph/a"} {
		if err := r.CreateBranch(ctx, branch, head); err != nil {
			t.Fatal(err)
		}
		if err := r.NoteBranch(ctx, branch, note); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // to repeat it changes nothing
		if err := r.KeepBranch(ctx, "ralph/kept"); err != nil {
			t.Fatal(err)
		}
	}
	mustGit(t, dir, "switch", "-q", "ralph/a")
	mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "more")
	mustGit(t, dir, "switch", "-q", "-")
	if err := r.RemoveBranch(ctx, "ralph/a", head); !errors.Is(err, ErrStale) {
		t.Errorf("a branch that has moved: %v", err)
	}
	tip, err := r.Free(ctx, "ralph/a")
	if err != nil || tip == head {
		t.Fatalf("the tip is %s, %v", tip, err)
	}
	if err := r.RemoveBranch(ctx, "ralph/a", tip); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Free(ctx, "ralph/a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a branch that is gone: %v", err)
	}
	got, err := r.BranchNotes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]BranchNote{"ralph/kept": {Plan: "plan:a.md", Base: "main"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	mustGit(t, dir, "worktree", "add", "-q", elsewhere, "ralph/kept")
	if _, err := r.Free(ctx, "ralph/kept"); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a branch that is checked out: %v", err)
	}
}
