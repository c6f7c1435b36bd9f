package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A repository that a tool made in a folder is files without history: its .git is not read,
// and not removed.
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
	for range 2 {
		s := snapshot(t, w)
		if got := treePaths(t, r, s.Tree); len(s.Refused) > 0 || !slices.Equal(got,
			[]string{".gitignore", ".ralph/x/new", "a", "app/new", "sub/lib/new", "sub/x", "tree/inner/f"}) {
			t.Errorf("refused %v, the tree holds %q", s.Refused, got)
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
	for _, path := range []string{"sub/.git", "sub/.git/config"} {
		tree, err := r.WriteBlob(t.Context(), []byte("evil"))
		mode := ModeFile
		parts := strings.Split(path, "/")
		slices.Reverse(parts)
		for _, part := range parts {
			if err == nil {
				tree, err = r.writeTree(t.Context(), []treeItem{{mode, part, tree}})
			}
			mode = modeDir
		}
		dir := t.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		w, err := r.Export(t.Context(), filepath.Join(dir, "tree"), tree, filepath.Join(dir, "index"))
		if err != nil {
			t.Fatal(err)
		}
		files{path: "other"}.write(t, w.Dir())
		if s := snapshot(t, w); s.Tree != tree || len(s.Refused) != 1 || s.Refused[0].String() != "sub/.git: nested git repository" {
			t.Errorf("%s: %+v, not tree %s", path, s, tree)
		}
	}
}

// What is tracked stays, whatever it is called, and the way to it.
func TestPurge(t *testing.T) {
	t.Parallel()
	w := export(t, open(t, person(t, files{"bad": "tracked", "sub/x": "x", ".gitignore": "*.o\n/build/\n"})))
	files{"new/bad/good": "tracked by now"}.write(t, w.Dir())
	snapshot(t, w)
	files{
		"sub/bad": "new", "sub/bad.o": "", "sub/more/bad/x.o": "", "sub/more/y.o": "", "build/a/bad": "", "build/good": "",
		"new/bad/x.o": "", "sub/worse-bad": "untracked",
	}.write(t, w.Dir())
	if err := unix.Mkfifo(filepath.Join(w.Dir(), "sub/more/badfifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Purge(t.Context(), func(path string) bool {
		return strings.Contains(filepath.Base(path), "bad")
	}); err != nil {
		t.Fatal(err)
	}
	var left []string
	for name := range onDisk(t, w.Dir()) {
		left = append(left, name)
	}
	want := []string{".gitignore", "bad", "build/good", "new/bad/good", "new/bad/x.o", "sub/more/y.o", "sub/x"}
	if !slices.Equal(sorted(left), want) {
		t.Errorf("left %q, want %q", sorted(left), want)
	}
}

// What a process that died was about to store goes; another one may be at work.
func TestIncomingFilesOfTheDeadGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files{"incoming-dead": "", "incoming-young": ""}.write(t, dir)
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "incoming-dead"), long, long); err != nil {
		t.Fatal(err)
	}
	if err := makeBare(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "incoming-*")); err != nil || len(left) != 1 ||
		filepath.Base(left[0]) != "incoming-young" {
		t.Errorf("left %q, %v", left, err)
	}
}
