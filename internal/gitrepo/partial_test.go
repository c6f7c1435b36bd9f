package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// What a partial clone has left with its remote comes from there when a run begins, or the
// person is told what to do.
func TestPartialClone(t *testing.T) {
	t.Parallel()
	from := person(t, files{"README.md": "x", "src/a.go": "a", "src/deep/b.go": "b"})
	mustGit(t, from, "config", "uploadpack.allowFilter", "true")
	mustGit(t, from, "config", "uploadpack.allowAnySHA1InWant", "true")
	clone := func() *Repo {
		dir := filepath.Join(t.TempDir(), "clone")
		mustGit(t, from, "-c", "protocol.file.allow=always", "clone", "-q", "--filter=blob:none", "--no-checkout", "file://"+from,
			dir)
		return open(t, dir)
	}
	r := clone()
	_, head, err := r.Head(t.Context())
	if err == nil {
		err = r.Complete(t.Context(), head, head)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asGitHas(t, open(t, from), headTree(t, r)), onDisk(t, export(t, r).Dir())); diff != "" {
		t.Error(diff)
	}
	if err := open(t, from).Complete(t.Context(), head); err != nil {
		t.Errorf("a whole clone: %v", err)
	}
	r = clone()
	if err := os.RemoveAll(from); err != nil {
		t.Fatal(err)
	}
	err = r.Complete(t.Context(), head)
	if user, ok := errors.AsType[*run.UserError](err); !ok || user.Hint == "" {
		t.Errorf("without the remote: %v", err)
	}
}
