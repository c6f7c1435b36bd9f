package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" // #nosec G505 -- git's object names are SHA-1
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "content", "d/e/f": "deep", "*x": "star", "l": "->a", "sp ace": "s"}))
	ctx := t.Context()
	head := headOf(t, r)
	missing := OID(strings.Repeat("1", 40))
	for _, treeish := range []OID{head, headTree(t, r)} {
		for _, tt := range []struct {
			path, want string
			limit      int64
			err        error
		}{
			{"a", "content", 7, nil}, {"d/e/f", "deep", 100, nil}, {"sp ace", "s", 1, nil},
			{"a", "", 6, ErrTooLarge}, {"b", "", 9, ErrNotFound}, {"d", "", 9, ErrNotFound}, {"d/e", "", 9, ErrNotFound},
			{"a/b", "", 9, ErrNotFound}, {"l", "", 9, ErrNotFound}, {"", "", 9, ErrNotFound}, {"../a", "", 9, ErrNotFound},
			{"/a", "", 9, ErrNotFound}, {"d//e/f", "", 9, ErrNotFound}, {"a\nb", "", 9, ErrNotFound},
			{"?", "", 9, ErrNotFound},
			{":(glob)*", "", 9, ErrNotFound},
		} {
			got, err := r.ReadFile(ctx, treeish, tt.path, tt.limit)
			if !errors.Is(err, tt.err) || (tt.err == nil && err != nil) || string(got) != tt.want {
				t.Errorf("%q: %q, %v; want %q, %v", tt.path, got, err, tt.want, tt.err)
			}
		}
	}
	for _, oid := range []OID{missing, "", "HEAD", "--help"} {
		if _, err := r.ReadFile(ctx, oid, "a", 9); !errors.Is(err, ErrNotFound) {
			t.Errorf("in %q: %v", oid, err)
		}
		if _, err := r.Blob(ctx, oid, 9); !errors.Is(err, ErrNotFound) {
			t.Errorf("blob %q: %v", oid, err)
		}
		if _, err := r.CommitInfo(ctx, oid); !errors.Is(err, ErrNotFound) {
			t.Errorf("commit %q: %v", oid, err)
		}
	}
	if _, err := r.Blob(ctx, head, 1000); !errors.Is(err, ErrNotFound) {
		t.Errorf("a commit read as a blob: %v", err)
	}
	for _, ref := range []string{"HEAD", "main", "refs/heads/main", string(head)} {
		if got, err := r.Resolve(ctx, ref); err != nil || got != head {
			t.Errorf("%s: %s, %v", ref, got, err)
		}
	}
	for _, ref := range []string{
		"nonesuch", string(missing), "-h", "HEAD~1", "main^{tree}", "a b", "", "@{-1}", ":/First",
	} {
		if got, err := r.Resolve(ctx, ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %s, %v", ref, got, err)
		}
	}
}

func TestTreeWith(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a", "d/x": "x", "d/e/y": "y", ".r/7/p": "p", "a.b": "ab", "a0": "a0"}))
	ctx := t.Context()
	base := headTree(t, r)
	for edits, want := range map[string]string{
		"":                    ".r/7/p a a.b a0 d/e/y d/x",
		"+a/z +n/m":           ".r/7/p a.b a/z a0 d/e/y d/x n/m",
		"-.r":                 "a a.b a0 d/e/y d/x",
		"-.r/7/p":             "a a.b a0 d/e/y d/x",
		"-q/w/e -a/x":         ".r/7/p a a.b a0 d/e/y d/x",
		"+d":                  ".r/7/p a a.b a0 d",
		"-d +d/x":             ".r/7/p a a.b a0 d/x",
		"+n/m -n":             ".r/7/p a a.b a0 d/e/y d/x",
		"+n/m -n/m":           ".r/7/p a a.b a0 d/e/y d/x",
		"-a -a.b -a0 -d -.r":  "",
		"-d/e/y +d/e/z":       ".r/7/p a a.b a0 d/e/z d/x",
		"+a +a/x/y -a/x +a/z": ".r/7/p a.b a/z a0 d/e/y d/x",
	} {
		var all []TreeEdit
		for edit := range strings.FieldsSeq(edits) {
			all = append(all, TreeEdit{Path: edit[1:], Remove: edit[0] == '-', Data: []byte("new")})
		}
		tree, err := r.TreeWith(ctx, base, all)
		if err != nil {
			t.Errorf("%s: %v", edits, err)
			continue
		}
		if got := strings.Join(treePaths(t, r, tree), " "); got != want {
			t.Errorf("%s: %q, want %q", edits, got, want)
		}
		// git itself builds the same tree from the same entries, and no empty directory.
		mustGit(t, r.Top(), "read-tree", string(tree))
		if got := mustGit(t, r.Top(), "write-tree"); got != string(tree) {
			t.Errorf("%s: %s, git says %s", edits, tree, got)
		}
	}
	for _, bad := range []TreeEdit{
		{Path: "../x"}, {Path: ""}, {Path: ".git/config"}, {Path: "/x"}, {Path: "x", Mode: 0o40000}, {Path: "x", OID: "zz"},
		{Path: "x/.GIT/y", Remove: true},
	} {
		if tree, err := r.TreeWith(ctx, base, []TreeEdit{bad}); err == nil {
			t.Errorf("%+v gave %s", bad, tree)
		}
	}
	if _, err := r.TreeWith(ctx, OID(strings.Repeat("1", 40)), []TreeEdit{{Path: "x"}}); err == nil {
		t.Error("edited a tree that does not exist")
	}
}

func TestDiffAgreesWithGit(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{
		"a": "1\n2\n", "b*": "x", "d/x": "x\n", "d/e/y": "y\n", "l": "->a", "f-g": "f", "to-dir": "t", "bin": "a\x00b",
	}))
	ctx := t.Context()
	base := headTree(t, r)
	tree := edited(t, r, base, []TreeEdit{
		{Path: "a", Data: []byte("1\n3\n4\n")}, {Path: "b", Data: []byte("x")}, {Path: "d/e", Remove: true},
		{Path: "l", Data: []byte("file\n")}, {Path: "to-dir/x", Data: []byte("t\n")}, {Path: "f/n", Data: []byte("n\n")},
		{Path: "bin", Data: []byte("\x00")},
	}...)
	for _, pair := range [][2]OID{{base, tree}, {tree, base}, {"", tree}, {base, base}} {
		changes, err := r.Diff(ctx, pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, c := range changes {
			fmt.Fprintf(&got, ":%06o %06o %s %s %v\t%s\n", c.OldMode, c.NewMode, cmp.Or(c.OldOID, noOID), cmp.Or(c.NewOID, noOID),
				c.Status, c.Path)
		}
		want := mustGit(t, r.Top(), "diff-tree", "-r", "--raw", "--no-abbrev", "--no-renames",
			string(cmp.Or(pair[0], emptyTree)), string(pair[1]))
		if strings.TrimSuffix(got.String(), "\n") != want {
			t.Errorf("it is\n%s\ngit says\n%s", got.String(), want)
		}
	}
	patch, err := r.Patch(ctx, base, tree, []string{"a", "f"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(patch, []byte("-2\n+3\n+4\n")) || !bytes.Contains(patch, []byte("b/f/n")) ||
		bytes.Contains(patch, []byte("to-dir")) {
		t.Errorf("patch\n%s", patch)
	}
	if late, err := r.patch(ctx, base, tree, nil, 1<<20, time.Nanosecond); !errors.Is(err, ErrTooLarge) || len(late) > 0 {
		t.Errorf("a patch that takes too long: %q, %v", late, err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := r.patch(ended, base, tree, nil, 1<<20, time.Hour); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTooLarge) {
		t.Errorf("a patch that nobody waits for: %v", err)
	}
	if cut, err := r.Patch(ctx, base, tree, nil, 20); !errors.Is(err, ErrTooLarge) || len(cut) != 20 {
		t.Errorf("cut to %q, %v", cut, err)
	}
	if _, err := r.Diff(ctx, base, "HEAD"); !errors.Is(err, ErrNotFound) {
		t.Errorf("diff to HEAD: %v", err)
	}
}

func TestCommitTreeCleansAndRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, person(t, files{"a": "a"}))
	tree := headTree(t, r)
	oid, err := r.CommitTree(ctx, CommitSpec{
		Tree: tree, Message: "Subject\x00\xff\n\nBody\n\n\n", When: testTime(),
		Author: Person{Name: "Ev<il>\nauthor X", Email: "a@b>\ncommitter Y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustGit(t, r.Top(), "fsck", "--strict", "--no-dangling")
	want := "tree " + string(tree) + "\nauthor Evilauthor X <a@bcommitter Y> 1777856521 +0200\n" +
		"committer Evilauthor X <a@bcommitter Y> 1777856521 +0200\n\nSubject\uFFFD\n\nBody"
	if got := mustGit(t, r.Top(), "cat-file", "-p", string(oid)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for name, spec := range map[string]CommitSpec{
		"no tree":    {Message: "x", Author: ann(), When: testTime()},
		"bad tree":   {Message: "x", Author: ann(), When: testTime(), Tree: "x\nparent y"},
		"bad parent": {Message: "x", Author: ann(), When: testTime(), Tree: tree, Parents: []OID{"HEAD"}},
		"no name":    {Message: "x", Author: Person{Name: "<>"}, When: testTime(), Tree: tree},
	} {
		if oid, err := r.CommitTree(ctx, spec); err == nil {
			t.Errorf("%s: made %s", name, oid)
		}
	}
}

// TestMerge3: what git itself would make of two trees and the one that they come from.
func TestMerge3(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "1\n2\n3\n", "b": "b\n", "gone": "x\n"}))
	base := headTree(t, r)
	with := func(edits ...TreeEdit) OID { return edited(t, r, base, edits...) }
	mine := []TreeEdit{{Path: "a", Data: []byte("1\nours\n3\n")}, {Path: "gone", Remove: true}}
	theirs := TreeEdit{Path: "b", Data: []byte("theirs\n")}
	m, err := r.Merge3(t.Context(), base, with(mine...), with(theirs))
	if want := with(append(mine, theirs)...); err != nil || len(m.Conflicts) > 0 || m.Tree != want {
		t.Errorf("%v, %v, want %s", m, err, want)
	}
	m, err = r.Merge3(t.Context(), base, with(mine...), with(TreeEdit{Path: "a", Data: []byte("1\ntheirs\n3\n")}))
	if !slices.Equal(m.Conflicts, []string{"a"}) || err != nil {
		t.Errorf("%q, %v", m.Conflicts, err)
	}
	if _, err := r.Merge3(t.Context(), base, base, "--help"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v", err)
	}
	head := OID(mustGit(t, r.top, "rev-parse", "HEAD"))
	if _, err := r.merge(t.Context(), head, head, time.Nanosecond); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a merge that takes too long: %v", err)
	}
}

func TestNewWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New("")
	if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Errorf("error %v, want a UserError", err)
	}
	old := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho git version 2.20.1\n"), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	if _, err := New(old); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("error %v", err)
	}
	if _, err := New("/nonexistent/git"); err == nil {
		t.Error("took a git that is not there")
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00" + strings.Repeat("1", sha1.Size)))
	f.Add([]byte("100644 a\x00short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := parseTree(data)
		for _, item := range items {
			if err == nil && (!item.oid.Valid() || item.name == "" || strings.ContainsAny(item.name, "/\x00")) {
				t.Errorf("read %+v", item)
			}
		}
	})
}
