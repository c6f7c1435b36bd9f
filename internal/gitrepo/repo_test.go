package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// files maps paths to contents. A path that ends in "*" is executable, "->"
// before the content makes a symbolic link.
type files map[string]string

func (fs files) write(t testing.TB, dir string) {
	t.Helper()
	for path, content := range fs {
		exe := strings.HasSuffix(path, "*")
		full := filepath.Join(dir, strings.TrimSuffix(path, "*"))
		if err := os.MkdirAll(filepath.Dir(full), 0o750); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(content, "->"); ok {
			if err := os.Symlink(target, full); err != nil {
				t.Fatal(err)
			}
			continue
		}
		perm := os.FileMode(0o644)
		if exe {
			perm = 0o755
		}
		// A new inode each time, as editors do it.
		if err := os.RemoveAll(full); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), perm); err != nil { // #nosec G306 -- a work tree
			t.Fatal(err)
		}
	}
}

var theGit = sync.OnceValues(func() (*Git, error) { return New("") })

func newGit(t testing.TB) *Git {
	t.Helper()
	g, err := theGit()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// person makes a repository with one commit of the files, as a person has it.
func person(t testing.TB, fs files) string {
	t.Helper()
	dir := t.TempDir()
	initGit(t, dir)
	fs.write(t, dir)
	mustGit(t, dir, "add", "-A")
	mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "First\n\nWith a body.")
	return dir
}

// initGit makes as much of a git dir as git needs, without a process.
func initGit(t testing.TB, dir string) {
	t.Helper()
	for _, sub := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", sub), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	files{".git/HEAD": "ref: refs/heads/main\n"}.write(t, dir)
}

func open(t testing.TB, dir string) *Repo {
	t.Helper()
	r, err := newGit(t).OpenLocal(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func headOf(t testing.TB, r *Repo) OID {
	t.Helper()
	_, head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func headTree(t testing.TB, r *Repo) OID {
	t.Helper()
	tree, err := r.TreeOf(t.Context(), headOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// edited is a tree with edits.
func edited(t testing.TB, r *Repo, base OID, edits ...TreeEdit) OID {
	t.Helper()
	tree, err := r.TreeWith(t.Context(), base, edits)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// export puts HEAD into a fresh directory.
func export(t testing.TB, r *Repo) *Worktree {
	t.Helper()
	base := t.TempDir()
	w, err := r.Export(t.Context(), filepath.Join(base, "tree"), headTree(t, r), filepath.Join(base, "index"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func snapshot(t testing.TB, w *Worktree) Snapshot {
	t.Helper()
	s, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ann() Person { return Person{Name: "Ann", Email: "ann@example.com"} }

func testTime() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 0, time.FixedZone("", 2*3600)) }

// A whole iteration, in a repository with loose and packed objects, and in a linked work tree.
func TestCommitCycle(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"loose", "packed", "linked"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, main := person(t, files{"a.txt": "one\n", "bin/run*": "#!/bin/sh\n", "sub/deep/x": "x", "link": "->a.txt"}), "main"
			switch kind {
			case "packed":
				mustGit(t, dir, "gc", "-q")
			case "linked":
				main = "side"
				linked := filepath.Join(t.TempDir(), "linked")
				mustGit(t, dir, "worktree", "add", "-q", "-b", main, linked)
				dir = linked
			}
			ctx := t.Context()
			r := open(t, filepath.Join(dir, "sub"))
			if got, err := filepath.EvalSymlinks(dir); err != nil || r.Top() != got {
				t.Errorf("top %q, want %q, %v", r.Top(), got, err)
			}
			branch, head, err := r.Head(ctx)
			if err != nil || branch != main || string(head) != mustGit(t, dir, "rev-parse", "HEAD") {
				t.Fatalf("head %q %s %v", branch, head, err)
			}
			base := headTree(t, r)
			w := export(t, r)
			if s := snapshot(t, w); s.Tree != base || len(s.Refused) > 0 {
				t.Fatalf("unchanged: %+v, want %s", s, base)
			}
			if err := os.Remove(filepath.Join(w.Dir(), "bin/run")); err != nil {
				t.Fatal(err)
			}
			files{"a.txt": "two\n", "new/file": "new"}.write(t, w.Dir())
			s := snapshot(t, w)
			commit, err := r.CommitTree(ctx, CommitSpec{
				Tree: s.Tree, Parents: []OID{head}, Message: "Do it\n\nWhy.", Author: ann(), When: testTime(),
			})
			if err := errors.Join(err, r.UpdateRef(ctx, branchRef(main), commit, head),
				r.AdvanceCheckout(ctx, base, s.Tree)); err != nil || len(s.Refused) > 0 {
				t.Fatalf("refused %v, %v", s.Refused, err)
			}
			if got := mustGit(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("the checkout is not clean:\n%s", got)
			}
			mustGit(t, dir, "fsck", "--strict", "--no-dangling")
			if got := mustGit(t, dir, "diff-tree", "-r", "--name-status", "HEAD~", "HEAD"); got != "M\ta.txt\nD\tbin/run\nA\tnew/file" {
				t.Errorf("changed %q", got)
			}
			infos, err := r.Log(ctx, head, commit)
			wantInfo := []CommitInfo{{
				OID: commit, Tree: s.Tree, Parents: []OID{head}, Author: ann(), When: testTime(), Subject: "Do it", Body: "Why.",
			}}
			if diff := cmp.Diff(wantInfo, infos); diff != "" || err != nil {
				t.Errorf("%v, %s", err, diff)
			}
			_, err = r.Free(ctx, "main")
			if _, ok := errors.AsType[*run.UserError](err); !ok {
				t.Errorf("a branch that is checked out: %v", err)
			}
			mustGit(t, dir, "checkout", "-q", "--detach")
			if branch, oid, err := r.Head(ctx); err != nil || branch != "" || oid != commit {
				t.Errorf("detached: %q %s %v", branch, oid, err)
			}
		})
	}
}

func TestOpenLocalRefuses(t *testing.T) {
	t.Parallel()
	plain, unborn, bare, long := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	initGit(t, unborn)
	mustGit(t, bare, "init", "-q", "--bare")
	mustGit(t, long, "init", "-q", "--object-format=sha256")
	for dir, want := range map[string]string{
		plain: "is not in a git repository", unborn: "has no commit yet", bare: "bare repository",
		long: "names its objects by sha256", filepath.Join(unborn, ".git"): "git dir",
	} {
		_, err := newGit(t).OpenLocal(t.Context(), dir)
		if _, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	// Who may not write to the repository is told what to do.
	for cause, want := range map[error]bool{syscall.EROFS: true, syscall.EACCES: true, syscall.EIO: false} {
		err := viewError("/r/.git", &fs.PathError{Op: "mkdir", Path: "/r/.git/ralph-view", Err: cause})
		if _, ok := errors.AsType[*run.UserError](err); ok != want || !strings.Contains(err.Error(), "/r/.git") {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

func TestUpdateRefIsConditional(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "a"}))
	head := headOf(t, r)
	other, err := r.CommitTree(ctx, CommitSpec{
		Tree: headTree(t, r), Parents: []OID{head}, Message: "x", Author: ann(), When: testTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	const ref = "refs/ralph/7"
	for i, s := range []struct {
		new, old OID
		want     error
	}{
		{head, "", nil},
		{head, "", ErrStale},
		{other, other, ErrStale},
		{other, head, nil},
		{"", head, ErrStale},
	} {
		if err := r.UpdateRef(ctx, ref, s.new, s.old); !errors.Is(err, s.want) || (s.want == nil && err != nil) {
			t.Errorf("step %d: %v, want %v", i, err, s.want)
		}
	}
	all, err := r.Refs(ctx, "refs/ralph/")
	if err != nil || len(all) != 1 || all[0].Name != ref || all[0].OID != other || !all[0].When.Equal(testTime()) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := r.UpdateRef(ctx, ref, "", other); err != nil {
		t.Error(err)
	}
	for _, old := range []OID{other, head} { // which is gone
		if err := r.UpdateRef(ctx, ref, "", old); !errors.Is(err, ErrStale) {
			t.Errorf("deleted again: %v", err)
		}
	}
	for _, bad := range []string{"HEAD", "main", "refs/heads/../x", "-d", "refs/heads/a b"} {
		if err := r.UpdateRef(ctx, bad, head, ""); err == nil {
			t.Errorf("updated %q", bad)
		}
	}
}
