package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A repository that a tool made in a folder is files without history. What its
// .git holds is not read, and removed only when that is asked for.
func TestSnapshotDropsNestedRepositories(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a", "sub/x": "x", ".gitignore": "/build/\n"}))
	w := export(t, r)
	program, ran := canary(t)
	for _, dir := range []string{"app", "sub/lib", "build/dep", ".ralph/x"} {
		mustGit(t, w.Dir(), "init", "-q", dir)
		files{dir + "/new": dir, dir + "/.git/config": evilConfig(program), dir + "/.git/bad\nname": ""}.write(t, w.Dir())
	}
	files{"sub/.git": "gitdir: /etc\n", "tree/.git": "x", "tree/inner/.git/a": "", "tree/inner/f": "f"}.write(t, w.Dir())
	outside := t.TempDir()
	files{"keep/.git/a": "a"}.write(t, outside)
	want := []string{".ralph/x", "app", "sub", "sub/lib", "tree", "tree/inner"}
	for round := range 2 {
		s := snapshot(t, w)
		if len(s.Refused) > 0 || !slices.Equal(sorted(s.Nested), want) {
			t.Errorf("round %d: refused %v, nested %q", round, s.Refused, s.Nested)
		}
		if got := treePaths(t, r, s.Tree); !slices.Equal(got,
			[]string{".gitignore", ".ralph/x/new", "a", "app/new", "sub/lib/new", "sub/x", "tree/inner/f"}) {
			t.Errorf("round %d: the tree holds %q", round, got)
		}
	}
	// A folder may be something else by now: no link is followed.
	if err := os.RemoveAll(filepath.Join(w.Dir(), "tree")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "keep"), filepath.Join(w.Dir(), "tree")); err != nil {
		t.Fatal(err)
	}
	if err := w.RemoveNested(t.Context(), append(want, "gone/deep")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.Dir(), "tree")); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, w); len(s.Nested) > 0 || len(s.Refused) > 0 {
		t.Errorf("afterwards: nested %q, refused %v", s.Nested, s.Refused)
	}
	for _, name := range []string{filepath.Join(outside, "keep/.git/a"), filepath.Join(w.Dir(), "build/dep/.git/config")} {
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
	if ran() {
		t.Error("a program of a nested repository ran")
	}
}

// What the repository itself has under that name is not an agent's to replace.
func TestNestedGitOfTheTreeIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a"}))
	for name, path := range map[string]string{"file": ".git", "directory": ".git/config"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			blob, err := r.WriteBlob(t.Context(), []byte("evil"))
			if err != nil {
				t.Fatal(err)
			}
			tree := blob
			mode := uint32(ModeFile)
			parts := strings.Split("sub/"+path, "/")
			slices.Reverse(parts)
			for _, part := range parts {
				if tree, err = r.writeTree(t.Context(), []treeItem{{mode, part, tree}}); err != nil {
					t.Fatal(err)
				}
				mode = modeDir
			}
			w, err := r.Export(t.Context(), filepath.Join(dir, "tree"), tree, filepath.Join(dir, "index"))
			if err != nil {
				t.Fatal(err)
			}
			files{"sub/" + path: "other"}.write(t, w.Dir())
			s := snapshot(t, w)
			if got := fmt.Sprint(s.Refused); s.Tree != tree || len(s.Nested) > 0 || got != "[sub/.git: nested git repository]" {
				t.Errorf("refused %s, nested %q, tree %s, not %s", got, s.Nested, s.Tree, tree)
			}
		})
	}
}
