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
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	pointer, err := pointerTo(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	dir := person(t, files{
		".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "data.bin": string(pointer),
		"away.bin": strings.Replace(string(pointer), sum[:4], "0000", 1),
	})
	files{".git/lfs/objects/" + sum[:2] + "/" + sum[2:4] + "/" + sum: content}.write(t, dir)
	r := open(t, dir)
	w := export(t, r)
	base := headTree(t, r)
	path := filepath.Join(w.Dir(), "data.bin")
	for _, touch := range []func() error{
		func() error { return nil },
		func() error { return os.Chtimes(path, testTime(), testTime()) },
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
	files{"data.bin": "other"}.write(t, w.Dir())
	if s := snapshot(t, w); s.Tree != base || len(s.Refused) != 1 {
		t.Errorf("got %+v", s)
	}
	if err := w.Reset(t.Context(), base, false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != content || err != nil { // #nosec G304 -- our own
		t.Errorf("after a reset %q, %v", got, err)
	}
	if !r.HasLargeFiles() {
		t.Error("it does not say that they are there")
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
	if !r.HasSubmodule("third/x") || r.HasSubmodule("a") {
		t.Error("it does not say that it is there")
	}
}
