package test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

// TestNothingIgnoredIsTracked: what .gitignore names is in no commit. Checking
// out a commit that holds such a path removes what a developer has there.
func TestNothingIgnoredIsTracked(t *testing.T) {
	t.Parallel()
	if _, err := os.Lstat("../.git"); errors.Is(err, fs.ErrNotExist) {
		return // an unpacked release: nothing is tracked
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "--cached", "--ignored",
		"--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 0 {
		t.Errorf("tracked, though .gitignore names it (git rm --cached):\n%s", out)
	}
}
