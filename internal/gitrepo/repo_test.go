package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func newGit(t testing.TB) *Git {
	t.Helper()
	g, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// person makes a repository with one commit of the files, as a person has it.
func person(t testing.TB, fs files) string {
	t.Helper()
	dir := t.TempDir()
	mustGit(t, dir, "init", "-q")
	fs.write(t, dir)
	mustGit(t, dir, "add", "-A")
	mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "First\n\nWith a body.")
	return dir
}

func open(t testing.TB, dir string) *Repo {
	t.Helper()
	r, err := newGit(t).OpenLocal(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func headTree(t testing.TB, r *Repo) OID {
	t.Helper()
	_, head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.TreeOf(t.Context(), head)
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

func TestCommitCycle(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		t.Run(map[bool]string{false: "loose", true: "packed"}[packed], func(t *testing.T) {
			t.Parallel()
			dir := person(t, files{"a.txt": "one\n", "bin/run*": "#!/bin/sh\n", "sub/deep/x": "x", "link": "->a.txt"})
			if packed {
				mustGit(t, dir, "gc", "-q")
			}
			ctx := t.Context()
			r := open(t, dir)
			branch, head, err := r.Head(ctx)
			if err != nil || branch != "main" {
				t.Fatalf("head %q %v", branch, err)
			}
			if got := mustGit(t, dir, "rev-parse", "HEAD"); got != string(head) {
				t.Errorf("head %s, want %s", head, got)
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
			if len(s.Refused) > 0 {
				t.Errorf("refused %v", s.Refused)
			}
			commit, err := r.CommitTree(ctx, CommitSpec{
				Tree: s.Tree, Parents: []OID{head}, Message: "Do it\n\nWhy.", Author: ann(), When: testTime(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.UpdateRef(ctx, "refs/heads/main", commit, head); err != nil {
				t.Fatal(err)
			}
			if err := r.AdvanceCheckout(ctx, base, s.Tree); err != nil {
				t.Fatal(err)
			}
			if got := mustGit(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("the checkout is not clean:\n%s", got)
			}
			mustGit(t, dir, "fsck", "--strict", "--no-dangling")
			want := "D\tbin/run\nM\ta.txt\nA\tnew/file"
			if diff := cmp.Diff(sorted(strings.Split(want, "\n")),
				sorted(strings.Split(mustGit(t, dir, "diff-tree", "-r", "--name-status", "HEAD~", "HEAD"), "\n"))); diff != "" {
				t.Error(diff)
			}
			if got := mustGit(t, dir, "log", "-1", "--format=%an %ae %ad|%s|%b",
				"--date=iso"); got != "Ann ann@example.com 2026-05-04 03:02:01 +0200|Do it|Why.\n" {
				t.Errorf("commit %q", got)
			}
			infos, err := r.Log(ctx, head, commit)
			if err != nil {
				t.Fatal(err)
			}
			wantInfo := []CommitInfo{{
				OID: commit, Tree: s.Tree, Parents: []OID{head}, Author: ann(), When: testTime(), Subject: "Do it", Body: "Why.",
			}}
			if diff := cmp.Diff(wantInfo, infos); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOpenLocalRefuses(t *testing.T) {
	t.Parallel()
	plain := t.TempDir()
	unborn := t.TempDir()
	mustGit(t, unborn, "init", "-q")
	bare := t.TempDir()
	mustGit(t, bare, "init", "-q", "--bare")
	repo := person(t, files{"a": "a"})
	long := t.TempDir()
	mustGit(t, long, "init", "-q", "--object-format=sha256")
	for name, tt := range map[string]struct{ dir, want string }{
		"no repository":      {plain, "is not in a git repository"},
		"no commit":          {unborn, "has no commit yet"},
		"bare":               {bare, "bare repository"},
		"SHA-256":            {long, "names its objects by sha256"},
		"inside the git dir": {filepath.Join(repo, ".git"), "git dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newGit(t).OpenLocal(t.Context(), tt.dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestUpdateRefIsConditional(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "a"}))
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.CommitTree(ctx, CommitSpec{
		Tree: headTree(t, r), Parents: []OID{head}, Message: "x", Author: ann(), When: testTime(),
	})
	if err != nil {
		t.Fatal(err)
	}
	const ref = "refs/ralph/7"
	steps := []struct {
		name     string
		new, old OID
		want     error
	}{
		{"create", head, "", nil},
		{"create again", head, "", ErrStale},
		{"move from elsewhere", other, other, ErrStale},
		{"move", other, head, nil},
		{"delete from elsewhere", "", head, ErrStale},
		{"delete", "", other, nil},
		{"move what is gone", head, other, ErrStale},
		{"delete what is gone", "", other, ErrStale},
	}
	for _, s := range steps {
		if err := r.UpdateRef(ctx, ref, s.new, s.old); !errors.Is(err, s.want) || (s.want == nil && err != nil) {
			t.Errorf("%s: %v, want %v", s.name, err, s.want)
		}
	}
	for _, bad := range []string{"HEAD", "main", "refs/heads/../x", "-d", "refs/heads/a b"} {
		if err := r.UpdateRef(ctx, bad, head, ""); err == nil {
			t.Errorf("updated %q", bad)
		}
	}
}
