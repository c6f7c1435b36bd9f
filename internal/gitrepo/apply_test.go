package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// addsFile is a patch that makes the file at path, below a few words.
func addsFile(path string) []byte {
	return []byte("T1 words of a task\n\ndiff --git a/" + path + " b/" + path + "\nnew file mode 100644\n" +
		"index 0000000..587be6b\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n")
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "one\n"})
	r := open(t, dir)
	patch := append(addsFile("new/b"), "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"...)
	paths, err := r.PatchPaths(t.Context(), patch)
	if diff := cmp.Diff([]string{"a", "new/b"}, sorted(paths)); err != nil || diff != "" {
		t.Errorf("paths %v: %s", err, diff)
	}
	if err := r.ApplyPatch(t.Context(), patch); err != nil {
		t.Fatal(err)
	}
	if status := mustGit(t, dir, "status", "--porcelain"); status != "M  a\nA  new/b" {
		t.Errorf("the checkout holds %q", status)
	}
	err = r.ApplyPatch(t.Context(), patch)
	user, ok := errors.AsType[*run.UserError](err)
	if !ok || !strings.HasPrefix(user.Message, "the patch does not apply: ") {
		t.Errorf("the second time: %v", err)
	}
}

// What leads out of the checkout is refused, and nothing is done by halves.
func TestApplyHostilePatch(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := person(t, files{"a": "one\n"})
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "add", "link")
	mustGit(t, dir, "commit", "-q", "-m", "A link")
	r := open(t, dir)
	for _, path := range []string{"../out", "link/out", ".git/config.d", "a/../../out", outside + "/out"} {
		patch := append(addsFile("fine"), addsFile(path)...)
		_, err := r.PatchPaths(t.Context(), patch)
		if err == nil {
			err = r.ApplyPatch(t.Context(), patch)
		}
		if err == nil {
			t.Errorf("a patch for %q is applied", path)
		}
	}
	if status := mustGit(t, dir, "status", "--porcelain"); status != "" {
		t.Errorf("the checkout holds %q", status)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}
