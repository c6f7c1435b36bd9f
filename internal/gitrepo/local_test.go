package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// advance makes a tree from HEAD by the edits and advances the checkout to it.
func advance(t *testing.T, r *Repo, edits ...TreeEdit) (OID, error) {
	t.Helper()
	base := headTree(t, r)
	tree, err := r.TreeWith(t.Context(), base, edits)
	if err != nil {
		t.Fatal(err)
	}
	return tree, r.AdvanceCheckout(t.Context(), base, tree)
}

// TestViewError: who may not write to the repository is told what to do.
func TestViewError(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]bool{syscall.EROFS: true, syscall.EACCES: true, syscall.EPERM: true, syscall.EIO: false} {
		err := viewError("/r/.git", &fs.PathError{Op: "mkdir", Path: "/r/.git/ralph-view", Err: cause})
		advice, ok := errors.AsType[*run.UserError](err)
		if ok != want || !errors.Is(err, cause) || !strings.Contains(err.Error(), "/r/.git") {
			t.Errorf("%v: %v", cause, err)
		}
		if ok && advice.Hint == "" {
			t.Errorf("%v: nothing to do", cause)
		}
	}
}

func TestAdvanceCheckoutLosesNothing(t *testing.T) {
	t.Parallel()
	put := func(path string) TreeEdit { return TreeEdit{Path: path, Data: []byte("theirs")} }
	tests := map[string]struct {
		mine  files
		touch string
		edits []TreeEdit
		paths []string // of the conflict; nil means none
	}{
		"clean":               {edits: []TreeEdit{put("a"), put("new")}},
		"other file changed":  {mine: files{"b": "mine"}, edits: []TreeEdit{put("a")}},
		"untracked elsewhere": {mine: files{"mine": "mine"}, edits: []TreeEdit{put("a")}},
		"same file changed":   {mine: files{"a": "mine"}, edits: []TreeEdit{put("b"), put("a")}, paths: []string{"a"}},
		"same file touched":   {touch: "a", edits: []TreeEdit{put("a")}},
		"changed file is deleted": {
			mine: files{"a": "mine"}, edits: []TreeEdit{{Path: "a", Remove: true}}, paths: []string{"a"},
		},
		"untracked in the way": {mine: files{"new": "mine"}, edits: []TreeEdit{put("new")}, paths: []string{"new"}},
		"ignored in the way": {
			mine: files{"x.env": "mine"}, edits: []TreeEdit{put("x.env")}, paths: []string{"x.env"},
		},
		"untracked dir in the way": {
			mine: files{"new/mine": "mine"}, edits: []TreeEdit{put("new")}, paths: []string{"new/mine"},
		},
		"untracked file where a dir": {mine: files{"new": "mine"}, edits: []TreeEdit{put("new/x")}, paths: []string{"new/x"}},
		"dir becomes file":           {edits: []TreeEdit{put("d")}},
		"dir with untracked becomes": {mine: files{"d/mine": "mine"}, edits: []TreeEdit{put("d")}, paths: []string{"d/mine"}},
		"dir with ignored becomes": {
			mine: files{"d/x.env": "mine"}, edits: []TreeEdit{put("d")}, paths: []string{"d/x.env"},
		},
		"file becomes dir": {edits: []TreeEdit{put("a/x")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := person(t, files{"a": "a", "b": "b", "d/x": "x", ".gitignore": "*.env\n"})
			r := open(t, dir)
			tt.mine.write(t, dir)
			if tt.touch != "" {
				if err := os.Chtimes(filepath.Join(dir, tt.touch), time.Now(), time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
			}
			before := onDisk(t, dir)
			tree, err := advance(t, r, tt.edits...)
			for path := range tt.mine {
				if got, readErr := os.ReadFile(filepath.Join(dir, path)); readErr != nil || string(got) != "mine" { // #nosec G304 -- ours
					t.Errorf("%s holds %q, %v", path, got, readErr)
				}
			}
			if tt.paths == nil {
				if err != nil {
					t.Fatal(err)
				}
				if got := mustGit(t, dir, "write-tree"); got != string(tree) {
					t.Errorf("the index holds %s, want %s", got, tree)
				}
				return
			}
			conflict, ok := errors.AsType[*ConflictError](err)
			if !ok {
				t.Fatalf("error %v, want a conflict", err)
			}
			if !slices.ContainsFunc(conflict.Paths, func(p string) bool { return strings.HasPrefix(tt.paths[0], p) }) {
				t.Errorf("conflict in %q, want %q", conflict.Paths, tt.paths)
			}
			if diff := cmp.Diff(before, onDisk(t, dir)); diff != "" {
				t.Errorf("the conflict touched files: %s", diff)
			}
		})
	}
}

func TestDirty(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a", "b": "b", "c\td": "c", "e": "e"})
	r := open(t, dir)
	check := func(want ...string) {
		t.Helper()
		got, err := r.Dirty(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check()
	files{"untracked": "u"}.write(t, dir)
	check()
	files{"a": "2", "c\td": "2"}.write(t, dir)
	mustGit(t, dir, "rm", "-q", "--cached", "e")
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	check("a", "b", "c\td", "e")
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	dir := person(t, files{".gitignore": "progress.txt\n:(glob)x\n", "a": "1", "d/.gitignore": "!progress.txt\n"})
	own := filepath.Join(t.TempDir(), "ignore") // as a person has it for all their repositories
	if err := os.WriteFile(own, []byte("notes.txt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "config", "core.excludesFile", own)
	r := open(t, dir)
	for path, want := range map[string]bool{
		"progress.txt": true, "d/progress.txt": false, "a": false, "missing": false, ":(glob)x": true, "d/notes.txt": true,
	} {
		if got, err := r.Ignored(t.Context(), path); err != nil || got != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
}

// TestHead: what is checked out, from below the top and detached.
func TestHead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := person(t, files{"a": "1", "d/x": "x"})
	r := open(t, filepath.Join(dir, "d"))
	if got, err := filepath.EvalSymlinks(dir); err != nil || r.Top() != got {
		t.Errorf("top %q, want %q, %v", r.Top(), got, err)
	}
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "checkout", "-q", "--detach")
	if branch, oid, err := r.Head(ctx); err != nil || branch != "" || oid != head {
		t.Errorf("detached: %q %s %v", branch, oid, err)
	}
}

// TestRefs: the refs below a prefix, with their commits and dates.
func TestRefs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "1"}))
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"refs/ralph/r2/T1", "refs/ralph/r1/T2"} {
		if err := r.UpdateRef(ctx, name, head, ""); err != nil {
			t.Fatal(err)
		}
		if err := r.UpdateRef(ctx, name, head, ""); !errors.Is(err, ErrStale) {
			t.Errorf("made again: %v", err)
		}
	}
	all, err := r.Refs(ctx, "refs/ralph/")
	if err != nil || len(all) != 2 || all[0].Name != "refs/ralph/r1/T2" || all[1].OID != head || all[0].When.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := r.Refs(ctx, "refs/ralph/r3/"); err != nil || len(all) != 0 {
		t.Errorf("of none: %+v, %v", all, err)
	}
}

func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := person(t, files{"a": "1"})
	linked := filepath.Join(t.TempDir(), "linked")
	mustGit(t, dir, "worktree", "add", "-q", "-b", "side", linked)
	r := open(t, linked)
	branch, head, err := r.Head(ctx)
	if err != nil || branch != "side" {
		t.Fatalf("head %q, %v", branch, err)
	}
	w := export(t, r)
	files{"a": "2"}.write(t, w.Dir())
	base := headTree(t, r)
	s := snapshot(t, w)
	commit, err := r.CommitTree(ctx, CommitSpec{
		Tree: s.Tree, Parents: []OID{head}, Message: "x", Author: ann(), When: testTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.UpdateRef(ctx, "refs/heads/side", commit, head),
		r.AdvanceCheckout(ctx, base, s.Tree)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, linked} {
		if got := mustGit(t, d, "status", "--porcelain"); got != "" {
			t.Errorf("%s: %q", d, got)
		}
	}
	_, err = r.Free(ctx, "main")
	if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Errorf("a branch that is checked out elsewhere: %v", err)
	}
}

// A directory may have any name.
func TestNamesOfTheDirectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		`a:"b`, `back\slash`, "no-break\u00a0space", "\U0001f468\u200d\U0001f4bb", "Latin-1 \xe9", "tab\there", "#1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), name)
			if err := os.Rename(person(t, files{"a": "1"}), dir); err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			fork, err := r.Fork(filepath.Join(t.TempDir(), name, "run.git"))
			if err != nil {
				t.Fatal(err)
			}
			w := export(t, fork)
			files{"b": "2"}.write(t, w.Dir())
			s := snapshot(t, w)
			if err := r.Take(t.Context(), fork, s.Tree); err != nil {
				t.Fatal(err)
			}
			if got := mustGit(t, dir, "show", string(s.Tree)+":b"); got != "2" {
				t.Errorf("the repository has %q", got)
			}
		})
	}
}

func TestSigns(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a"})
	r := open(t, dir)
	for _, value := range []string{"", "yes", "false"} {
		if value != "" {
			mustGit(t, dir, "config", "commit.gpgsign", value)
		}
		if got, err := r.Signs(t.Context()); got != (value == "yes") || err != nil {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, key := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"} {
		t.Setenv(key, "")
		if err := os.Unsetenv(key); err != nil {
			t.Fatal(err)
		}
	}
	dir := person(t, files{"a": "a"})
	r := open(t, dir)
	mustGit(t, dir, "config", "user.useConfigOnly", "true")
	_, _, err := r.Identity(t.Context())
	if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Errorf("nobody: %v", err)
	}
	config := "[user]\n\tname = Ann Other\n\temail = ann@example.org\n"
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, email, err := r.Identity(t.Context()); err != nil || name != "Ann Other" || email != "ann@example.org" {
		t.Errorf("%q %q %v", name, email, err)
	}
}

func TestShallowClone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	origin := person(t, files{"a": "1"})
	for _, v := range []string{"2", "3"} {
		files{"a": v}.write(t, origin)
		mustGit(t, origin, "commit", "-q", "-a", "-m", v)
	}
	dir := filepath.Join(t.TempDir(), "shallow")
	mustGit(t, "/", "clone", "-q", "--depth=1", "file://"+origin, dir)
	r := open(t, dir)
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := r.CommitTree(ctx, CommitSpec{
		Tree: headTree(t, r), Parents: []OID{head}, Message: "x", Author: ann(), When: testTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := r.Log(ctx, head, commit)
	if err != nil || len(infos) != 1 {
		t.Errorf("log %+v, %v", infos, err)
	}
	if infos, err = r.Log(ctx, "", commit); err != nil || len(infos) != 2 {
		t.Errorf("whole log %+v, %v", infos, err)
	}
}
