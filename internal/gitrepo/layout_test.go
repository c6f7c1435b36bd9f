package gitrepo

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file that belongs into Git LFS is not stored as it is: clones could not make anything of it.
func TestLargeFileStorageIsRefused(t *testing.T) {
	t.Parallel()
	w := export(t, open(t, person(t, files{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "old.bin": "pointer"})))
	files{"logo.bin": "raw", "old.bin": "raw", "a": "a", "pointer.bin": pointerPrefix + "oid sha256:0\nsize 1\n"}.write(t, w.Dir())
	s := snapshot(t, w)
	if len(s.Refused) != 2 || !strings.Contains(s.Refused[0].Reason, "Git LFS") {
		t.Errorf("refused %v", s.Refused)
	}
	if got := treePaths(t, w.repo, s.Tree); !cmp.Equal(got, []string{".gitattributes", "a", "old.bin", "pointer.bin"}) {
		t.Errorf("the tree holds %q", got)
	}
}

// What the person has of Git LFS an agent gets, too; a touch of it is no change.
func TestLargeFilesAreLaidOut(t *testing.T) {
	t.Parallel()
	const content = "what the pointer stands for\n"
	pointer, object := large(t, content)
	away, _ := large(t, "what the person does not have")
	dir := person(t, files{".gitattributes": lfsRule, "data.bin": pointer, "away.bin": away})
	files{".git/" + object: content}.write(t, dir)
	r := open(t, dir)
	w := export(t, r)
	base := headTree(t, r)
	path := filepath.Join(w.Dir(), "data.bin")
	for _, touch := range []func() error{
		func() error { return nil },
		func() error { return os.Chtimes(path, testTime(), testTime()) },
		func() error { w.MaxFileSize = 10; return os.Chtimes(path, testTime(), testTime()) },
		func() error { return w.InitAgentGit(t.Context(), History{}) },
	} {
		if err := touch(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != content || err != nil { // #nosec G304 -- our own
			t.Errorf("laid out %q, %v", got, err)
		}
		if s := snapshot(t, w); s.Tree != base || len(s.Refused) > 0 {
			t.Errorf("got %+v, want %s", s, base)
		}
	}
	if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("the agent's git says %q", got)
	}
	for other, why := range map[string]string{
		"other": errLFS.Error(), "As large as what was there.\n": "28 bytes; the limit is 10", // and not read
	} {
		files{"data.bin": other}.write(t, w.Dir())
		if s := snapshot(t, w); s.Tree != base || len(s.Refused) != 1 || s.Refused[0].Reason != why {
			t.Errorf("got %+v, want %s", s, why)
		}
	}
	if err := w.Reset(t.Context(), base, false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != content || err != nil { // #nosec G304 -- our own
		t.Errorf("after a reset %q, %v", got, err)
	}
}

const lfsRule = "*.bin filter=lfs diff=lfs merge=lfs -text\n"

// large is the pointer of Git LFS to a content, and where in a git dir the content is kept.
func large(t *testing.T, content string) (pointer, object string) {
	t.Helper()
	text, err := pointerTo(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	return string(text), "lfs/objects/" + sum[:2] + "/" + sum[2:4] + "/" + sum
}

// Whatever an agent does to a file that stands for a pointer, or to the rules, the pointer is what
// is stored as long as the content is one that the person has.
func TestLargeFilesStayPointers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do   func(dir string) error
		want files
	}{
		"touch":      {func(string) error { return nil }, files{".gitattributes": lfsRule, "data.bin": "", "note": ""}},
		"rules gone": {func(dir string) error { return os.Remove(filepath.Join(dir, ".gitattributes")) }, files{"data.bin": "", "note": ""}},
		"move": {
			func(dir string) error {
				return os.Rename(filepath.Join(dir, "data.bin"), filepath.Join(dir, "moved.bin"))
			},
			files{".gitattributes": lfsRule, "moved.bin": "", "note": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const content = "what the pointer stands for\n"
			pointer, object := large(t, content)
			dir := person(t, files{".gitattributes": lfsRule, "data.bin": pointer, "note": pointer})
			files{".git/" + object: content}.write(t, dir)
			w := export(t, open(t, dir))
			for _, file := range []string{"data.bin", "note"} {
				if err := os.Chtimes(filepath.Join(w.Dir(), file), testTime(), testTime()); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.do(w.Dir()); err != nil {
				t.Fatal(err)
			}
			s := snapshot(t, w)
			got := files{}
			for _, path := range treePaths(t, w.repo, s.Tree) {
				data, err := w.repo.ReadFile(t.Context(), s.Tree, path, 1<<10)
				if err != nil {
					t.Fatal(err)
				}
				got[path] = strings.TrimPrefix(string(data), pointer)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || len(s.Refused) > 0 {
				t.Errorf("refused %v, stored %s", s.Refused, diff)
			}
		})
	}
}

// What is not there is named, wherever the rules stand and for whatever reason.
func TestAbsent(t *testing.T) {
	t.Parallel()
	const content = "what the pointer stands for\n"
	pointer, object := large(t, content)
	away, _ := large(t, "what the person does not have")
	library := person(t, files{".gitattributes": lfsRule, "here.bin": pointer, "away.bin": away, "large.bin": strings.Repeat("x", 2000)})
	dir := person(t, files{"sub/.gitattributes": lfsRule, "sub/here.bin": pointer, "sub/away.bin": away, "a": "a"})
	for _, path := range []string{"third/x", "third/y", "third/z"} {
		mustGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, path)
	}
	mustGit(t, dir, "update-index", "--cacheinfo", "160000,"+mustGit(t, dir, "rev-parse", "HEAD")+",third/y") // not fetched
	mustGit(t, dir, "commit", "-q", "-m", "Add modules")
	mustGit(t, dir, "submodule", "--quiet", "deinit", "-f", "third/z")
	files{".git/" + object: content, ".git/modules/third/x/" + object: content}.write(t, dir)
	r := open(t, dir)
	pointers, submodules, err := r.Absent(t.Context(), headTree(t, r))
	if want := []string{"sub/away.bin"}; err != nil || !cmp.Equal(pointers, want) {
		t.Errorf("pointers %q, %v, want %q", pointers, err, want)
	}
	if want := []string{"third/y", "third/z"}; !cmp.Equal(submodules, want) {
		t.Errorf("submodules %q, want %q", submodules, want)
	}
	w := export(t, r)
	path := filepath.Join(w.Dir(), "third/x/here.bin")
	if got, err := os.ReadFile(path); string(got) != content || err != nil { // #nosec G304 -- our own
		t.Errorf("laid out %q, %v", got, err)
	}
	if err := os.Chtimes(path, testTime(), testTime()); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, w); s.Tree != headTree(t, r) || len(s.Refused) > 0 {
		t.Errorf("a touch: %+v", s)
	}
}

// The files of a submodule that the person has checked out are there, and stay what they are.
func TestSubmodulesAreLaidOut(t *testing.T) {
	t.Parallel()
	library := person(t, files{"x.txt": "hi", "sub/y": "y", ".gitignore": "*.log\n", "away": "->/etc"})
	dir := person(t, files{"a": "a"})
	mustGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "third/x")
	mustGit(t, dir, "commit", "-q", "-m", "Add a module")
	r := open(t, dir)
	fork, err := r.Fork(filepath.Join(t.TempDir(), "run.git"))
	if err != nil {
		t.Fatal(err)
	}
	w := export(t, fork)
	base := headTree(t, r)
	want := onDisk(t, w.Dir())
	if want["third/x/x.txt"] == "" || want["third/x/sub/y"] == "" || want["third/x/away"] != "" {
		t.Fatalf("laid out %q", want)
	}
	for _, touch := range []func() error{
		func() error { return w.InitAgentGit(t.Context(), History{}) },
		func() error { return os.Chtimes(filepath.Join(w.Dir(), "third/x/x.txt"), testTime(), testTime()) },
		func() error { files{"third/x/a.log": "x", "third/x/node_modules/p": "x"}.write(t, w.Dir()); return nil },
	} {
		if err := touch(); err != nil {
			t.Fatal(err)
		}
		if s := snapshot(t, w); s.Tree != base || len(s.Refused) > 0 {
			t.Errorf("got %+v, want %s", s, base)
		}
		if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("the agent's git says %q", got)
		}
	}
	files{"third/x/x.txt": "changed", "third/x/new": "new", "a": "b"}.write(t, w.Dir())
	if err := os.RemoveAll(filepath.Join(w.Dir(), "third/x/sub")); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, w)
	if len(s.Refused) != 2 || s.Refused[0].Reason != inSubmodule {
		t.Errorf("refused %v", s.Refused)
	}
	changes, err := fork.Diff(t.Context(), base, s.Tree)
	if err != nil || len(changes) != 1 || changes[0].Path != "a" {
		t.Errorf("changed %v, %v", changes, err)
	}
	if err := w.Reset(t.Context(), base, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, onDisk(t, w.Dir())); diff != "" {
		t.Error(diff)
	}
}
