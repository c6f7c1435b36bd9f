package test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestWorkflowsPinTheirActions: a tag can be moved to other code, which would run with
// the workflow's token. So our own workflows name commits, and the version beside them.
func TestWorkflowsPinTheirActions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	permissions := regexp.MustCompile(`(?m)^permissions:(?: \{\}|\n  contents: read)$`)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllSubmatch(src, -1) {
			if !pinned.Match(m[1]) {
				t.Errorf("%s: %s is not pinned to a commit", file, m[1])
			}
		}
		if !permissions.Match(src) {
			t.Errorf("%s begins with more than the permission to read", file)
		}
	}
}
