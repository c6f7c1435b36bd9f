package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
)

// secret looks like a key and never was one.
func secret(of string) string { return "npm_" + strings.Repeat(of+"aB3xK9mQ7", 5)[:36] }

// opened is a host on a repository with these files, and the tree they make.
func opened(t *testing.T, files map[string]string) (h *host.Host, work, base string) {
	t.Helper()
	dir := t.TempDir()
	h = newHost(newSource(t, files), dir, "")
	o, err := h.Open(t.Context(), loop.State{})
	if err != nil {
		t.Fatal(err)
	}
	return h, filepath.Join(dir, "work", "tree"), o.HeadTree
}

func snapshot(t *testing.T, h *host.Host) string {
	t.Helper()
	tree, refused, _, err := h.Snapshot(t.Context())
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	return tree
}

// TestSecretsAreThoseThatAreNew: what was there before is no news, not even in
// another file.
func TestSecretsAreThoseThatAreNew(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{
		"old.txt": "token\n" + secret("o") + "\n", "moved.txt": secret("m") + "\n", "still.txt": secret("s"),
	})
	put(t, work, map[string]string{
		secret("p"):     "named like one",
		"old.txt":       "one more line\ntoken\n" + secret("o") + "\n",
		"elsewhere.txt": secret("m") + "\n",
		"new.txt":       "first\n" + secret("n") + "\n",
	})
	if err := os.Remove(filepath.Join(work, "moved.txt")); err != nil {
		t.Fatal(err)
	}
	got, err := h.Secrets(t.Context(), base, snapshot(t, h))
	if err != nil {
		t.Fatal(err)
	}
	want := []gate.Leak{
		{Path: "new.txt", Line: 2, Rule: "npm_token", Critical: true}, {Path: secret("p"), Rule: "npm_token", Critical: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFileOfATree(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{"dir/a.txt": "hello"})
	put(t, work, map[string]string{"dir/a.txt": "changed"})
	for _, tt := range []struct {
		path  string
		limit int64
		want  string
		ok    bool
	}{
		{"dir/a.txt", 100, "hello", true},
		{"dir/a.txt", 4, "", false},
		{"dir", 100, "", false},
		{"dir/b.txt", 100, "", false},
	} {
		got, ok, err := h.File(t.Context(), base, tt.path, tt.limit)
		if err != nil || ok != tt.ok || string(got) != tt.want {
			t.Errorf("%s within %d bytes: %q, %v, %v", tt.path, tt.limit, got, ok, err)
		}
	}
}

// TestNamesFollowNoLinks: a link to a folder is no folder of the tree.
func TestNamesFollowNoLinks(t *testing.T) {
	t.Parallel()
	h, work, _ := opened(t, map[string]string{"dir/a.txt": "x", "b.txt": "x"})
	if err := os.Symlink("/", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := h.Names()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"b.txt", "dir/", "link"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	h, work, base := opened(t, map[string]string{
		"gone_test.go": "old", "changed_test.go": "old", "kept_test.go": "old", "dir/x": "x",
	})
	if err := os.Remove(filepath.Join(work, "gone_test.go")); err != nil {
		t.Fatal(err)
	}
	put(t, work, map[string]string{
		"changed_test.go": "new", "kept_test.go": "new", "added_test.go": "new", "code.go": "new",
	})
	tree, _, _, err := h.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Restore(t.Context(), tree, base,
		[]string{"gone_test.go", "changed_test.go", "added_test.go", "never_test.go"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"gone_test.go": "old", "changed_test.go": "old", "kept_test.go": "new", "added_test.go": "", "code.go": "new",
		"dir/x": "x",
	} {
		if src, ok, err := h.File(t.Context(), got, path, 100); err != nil || ok != (want != "") || string(src) != want {
			t.Errorf("%s: %q, %t, %v; want %q", path, src, ok, err, want)
		}
	}
}
