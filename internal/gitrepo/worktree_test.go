package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// onDisk lists the files below dir, without .git: path, mode and content.
func onDisk(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			if rel == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			got[rel] = "->" + target
			return err
		}
		data, err := os.ReadFile(path) // #nosec G304,G122 -- our own directory
		got[rel] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// asGitHas lists a tree in the form of onDisk, as git checks it out.
func asGitHas(t *testing.T, r *Repo, tree OID) map[string]string {
	t.Helper()
	dir := t.TempDir()
	index := filepath.Join(t.TempDir(), "index")
	for _, args := range [][]string{{"read-tree", string(tree)}, {"checkout-index", "-a", "--prefix=" + dir + "/"}} {
		_, err := r.refs(t.Context(), call{args: args, env: []string{"GIT_INDEX_FILE=" + index}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return onDisk(t, dir)
}

func TestExportMovesBetweenTrees(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := person(t, files{
		"a": "1", "b*": "#!", "d/x": "x", "d/y": "y", "gone/deep/file": "g", "to-dir": "file", "to-file/x": "x",
		"link": "->a", "same": "same",
	})
	r := open(t, dir)
	first := headTree(t, r)
	second := edited(t, r, first, []TreeEdit{
		{Path: "a", Data: []byte("2")},
		{Path: "b", Data: []byte("#!")},
		{Path: "d/x", Mode: ModeExecutable, Data: []byte("x")},
		{Path: "gone", Remove: true},
		{Path: "to-dir/x", Data: []byte("x")},
		{Path: "to-file", Data: []byte("file")},
		{Path: "link", Mode: ModeSymlink, Data: []byte("d/y")},
		{Path: "new/er/file", Data: []byte("n")},
	}...)
	w := export(t, r)
	same, err := os.Stat(filepath.Join(w.Dir(), "same"))
	if err != nil {
		t.Fatal(err)
	}
	for i, tree := range []OID{second, first, second, second, first} {
		// A new process knows only what the files say.
		if w, err = r.Export(ctx, w.Dir(), tree, w.index); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asGitHas(t, r, tree), onDisk(t, w.Dir())); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
		if s := snapshot(t, w); s.Tree != tree {
			t.Errorf("step %d: snapshot %s, want %s", i, s.Tree, tree)
		}
	}
	if still, err := os.Stat(filepath.Join(w.Dir(), "same")); err != nil || !os.SameFile(same, still) {
		t.Errorf("a file that is the same in both trees was written again: %v", err)
	}
}

// Whatever state an earlier call or an agent left, an export makes it right.
func TestExportRepairs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "a", "d/x": "x", "d/y": "y", "l": "->a"}))
	tree := headTree(t, r)
	want := asGitHas(t, r, tree)
	other := t.TempDir()
	files{"x": "outside"}.write(t, other)
	damages := map[string]func(w *Worktree) error{
		"index lost":    func(w *Worktree) error { return os.Remove(w.index) },
		"index cut":     func(w *Worktree) error { return os.Truncate(w.index, 100) },
		"index garbage": func(w *Worktree) error { return os.WriteFile(w.index, []byte("garbage"), 0o600) },
		"file cut":      func(w *Worktree) error { return os.Truncate(filepath.Join(w.dir, "a"), 0) },
		"file gone":     func(w *Worktree) error { return os.Remove(filepath.Join(w.dir, "d/x")) },
		"all gone":      func(w *Worktree) error { return os.RemoveAll(w.dir) },
		"extra files": func(w *Worktree) error {
			return firstErr(os.MkdirAll(filepath.Join(w.dir, "e/f"), 0o750),
				os.WriteFile(filepath.Join(w.dir, "e/f/g"), nil, 0o600))
		},
		"directory is a link out": func(w *Worktree) error {
			return firstErr(os.RemoveAll(filepath.Join(w.dir, "d")), os.Symlink(other, filepath.Join(w.dir, "d")))
		},
		"file is a link out": func(w *Worktree) error {
			return firstErr(os.Remove(filepath.Join(w.dir, "a")),
				os.Symlink(filepath.Join(other, "x"), filepath.Join(w.dir, "a")))
		},
		"no permissions": func(w *Worktree) error {
			return firstErr(os.Chmod(filepath.Join(w.dir, "d/x"), 0), os.Chmod(filepath.Join(w.dir, "d"), 0))
		},
		"nested git": func(w *Worktree) error { return os.MkdirAll(filepath.Join(w.dir, "d/.git/objects"), 0o750) },
		"same size":  func(w *Worktree) error { return os.WriteFile(filepath.Join(w.dir, "a"), []byte("b"), 0o600) },
		"hard link kept": func(w *Worktree) error {
			return os.Link(filepath.Join(w.dir, "a"), filepath.Join(other, t.Name()[:4]+"a"))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := export(t, r)
			if err := damage(w); err != nil {
				t.Fatal(err)
			}
			w, err := r.Export(ctx, w.dir, tree, w.index)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, onDisk(t, w.dir)); diff != "" {
				t.Error(diff)
			}
			if s := snapshot(t, w); s.Tree != tree || len(s.Refused) > 0 {
				t.Errorf("snapshot %+v, want %s", s, tree)
			}
		})
	}
	t.Cleanup(func() {
		if got, err := os.ReadFile(filepath.Join(other, "x")); err != nil || string(got) != "outside" {
			t.Errorf("the file behind the link holds %q, %v", got, err)
		}
	})
}

func TestResetKeepsUntracked(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			t.Parallel()
			r := open(t, person(t, files{"a": "a", ".gitignore": "cache/\n", "src/x": "x", "gone/y": "y", "out/z": "z"}))
			w := export(t, r)
			tree := edited(t, r, headTree(t, r), []TreeEdit{
				{Path: "gone", Remove: true}, {Path: "out", Remove: true}, {Path: "a", Data: []byte("b")},
				{Path: "new", Data: []byte("n")},
			}...)
			files{
				"cache/deep/file": "c", "src/y.o": "o", "src/x": "changed", ".git/config": "c", "gone/own": "mine",
				"new/in/the/way": "w",
			}.write(t, w.Dir())
			if err := w.Reset(t.Context(), tree, keep); err != nil {
				t.Fatal(err)
			}
			want := asGitHas(t, r, tree)
			if keep {
				for path, content := range map[string]string{"cache/deep/file": "c", "src/y.o": "o", "gone/own": "mine"} {
					want[path] = "-rw-r--r-- " + content
				}
			}
			if diff := cmp.Diff(want, onDisk(t, w.Dir())); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(filepath.Join(w.Dir(), "out")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the empty directory stays: %v", err)
			}
		})
	}
}

func TestExportWithholds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "a", "out": "->../secret", "abs": "->/etc/passwd", "docs/in": "->../a"}))
	// A hostile remote can hold what git itself would never add.
	tree := rawTree(t, r, headTree(t, r), ".git", "a..b", "..")
	base := t.TempDir()
	w, err := r.Export(ctx, filepath.Join(base, "tree"), tree, filepath.Join(base, "index"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "-rw-r--r-- a", "docs/in": "->../a", "a..b/evil": "-rw-r--r-- evil"}
	if diff := cmp.Diff(want, onDisk(t, w.Dir())); diff != "" {
		t.Error(diff)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 2 {
		t.Errorf("beside the directory lies %v, %v", entries, err)
	}
	if s := snapshot(t, w); s.Tree != tree || len(s.Refused) > 0 {
		t.Errorf("snapshot %+v, want %s", s, tree)
	}
	files{"b": "b"}.write(t, w.Dir())
	s := snapshot(t, w)
	changes, err := r.Diff(ctx, tree, s.Tree)
	if err != nil || len(changes) != 1 || changes[0].Path != "b" {
		t.Errorf("changes %+v, %v", changes, err)
	}
}

// rawTree adds directories with these names, each with a file, to a tree.
func rawTree(t *testing.T, r *Repo, base OID, names ...string) OID {
	t.Helper()
	items, err := r.items(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := r.WriteBlob(t.Context(), []byte("evil"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := r.writeTree(t.Context(), []treeItem{{ModeFile, "evil", blob}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		items = append(items, treeItem{modeDir, name, dir})
	}
	tree, err := r.writeTree(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Random changes give the tree that git add -A gives.
func TestSnapshotAgreesWithGit(t *testing.T) {
	t.Parallel()
	fs := files{"a": "a", "d/b": "b", "d/e/c": "c", ".gitignore": "*.o\n/out\n!d/keep.o\n"}
	twin := person(t, fs) // git's view
	r := open(t, person(t, fs))
	w := export(t, r)
	rnd := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- repeatable on purpose
	names := []string{"a", "b", "d", "e", "c", "x.o", "keep.o", "out", "f.g", "f", "f-g"}
	for range 60 {
		var parts []string
		for range 1 + rnd.IntN(3) {
			parts = append(parts, names[rnd.IntN(len(names))])
		}
		what, content := rnd.IntN(5), fmt.Sprint(rnd.IntN(4))
		for _, root := range []string{w.Dir(), twin} {
			full := filepath.Join(root, strings.Join(parts, "/"))
			switch info, err := os.Lstat(full); {
			case what == 0:
				_ = os.RemoveAll(full) // there may be a file on the way
			case what == 1:
				_ = os.Chmod(full, 0o755) // #nosec G302 -- what may not exist
			case err == nil && info.IsDir(), os.MkdirAll(filepath.Dir(full), 0o750) != nil:
			default:
				if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		sameAsGit(t, w, twin)
	}
}

// sameAsGit compares a snapshot with what git add -A makes of a directory.
func sameAsGit(t *testing.T, w *Worktree, dir string) Snapshot {
	t.Helper()
	mustGit(t, dir, "add", "-A")
	want := mustGit(t, dir, "write-tree")
	s := snapshot(t, w)
	if string(s.Tree) != want || len(s.Refused) > 0 {
		t.Fatalf("snapshot %+v, git says %s:\n%s\n%s", s, want, mustGit(t, dir, "ls-tree", "-r", want),
			mustGit(t, w.repo.Top(), "ls-tree", "-r", string(s.Tree)))
	}
	return s
}
