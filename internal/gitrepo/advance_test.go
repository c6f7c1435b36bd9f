package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestAdvanceCheckoutAgain: a call that was cut off anywhere, or came through
// without the caller's knowing, may be repeated.
func TestAdvanceCheckoutAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		before   func(t *testing.T, advance func() error, top string)
		conflict bool
	}{
		{"all of it was done", func(t *testing.T, advance func() error, _ string) {
			if err := advance(); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"only the files were written", func(t *testing.T, _ func() error, top string) {
			write(t, filepath.Join(top, "added"), "new\n")
			write(t, filepath.Join(top, "changed"), "after\n")
			remove(t, filepath.Join(top, "removed"))
		}, false},
		{"some files were written", func(t *testing.T, _ func() error, top string) {
			write(t, filepath.Join(top, "added"), "new\n")
		}, false},
		{"somebody else wrote", func(t *testing.T, _ func() error, top string) {
			write(t, filepath.Join(top, "added"), "mine\n")
			write(t, filepath.Join(top, "changed"), "after\n")
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			git := func(args ...string) string { return mustGit(t, top, args...) }
			write(t, filepath.Join(top, "changed"), "before\n")
			write(t, filepath.Join(top, "removed"), "old\n")
			git("init", "-q", "-b", "main")
			git("add", "-A")
			git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "one")
			r, err := newGit(t).OpenLocal(t.Context(), top)
			if err != nil {
				t.Fatal(err)
			}
			from := OID(git("rev-parse", "HEAD^{tree}"))
			to, err := r.TreeWith(t.Context(), from, []TreeEdit{
				{Path: "added", Data: []byte("new\n")}, {Path: "changed", Data: []byte("after\n")}, {Path: "removed", Remove: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			advance := func() error { return r.AdvanceCheckout(t.Context(), from, to) }
			tt.before(t, advance, top)
			err = advance()
			if _, conflict := errors.AsType[*ConflictError](err); conflict != tt.conflict || (err != nil && !conflict) {
				t.Fatalf("got %v, want a conflict: %v", err, tt.conflict)
			}
			if tt.conflict {
				if got, err := os.ReadFile(filepath.Join(top, "added")); err != nil || string(got) != "mine\n" {
					t.Errorf("the person's file: %q, %v", got, err)
				}
				return
			}
			if got := OID(git("write-tree")); got != to {
				t.Errorf("the index holds %s, want %s", got, to)
			}
			if got := git("diff-files"); got != "" {
				t.Errorf("the checkout differs from the index:\n%s", got)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
