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

// What the person has of Git LFS an agent gets, too, and the pointer stays what is stored. What
// belongs there and is new is refused: clones could not make anything of it.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	const content = "what the pointer stands for\n"
	pointer, object := large(t, content)
	away, _ := large(t, "what the person does not have")
	dir := person(t, files{".gitattributes": lfsRule, "data.bin": pointer, "away.bin": away, "note": pointer, "old.bin": "text"})
	files{".git/" + object: content}.write(t, dir)
	w := export(t, open(t, dir))
	base := headTree(t, w.repo)
	at := func(name string) string { return filepath.Join(w.Dir(), name) }
	for name, tt := range map[string]struct {
		do      func() error
		refused string
		changed []string
	}{
		"nothing":   {do: func() error { return w.InitAgentGit(t.Context(), History{}) }},
		"touched":   {do: func() error { return os.Chtimes(at("data.bin"), testTime(), testTime()) }},
		"no rules":  {do: func() error { return os.Remove(at(".gitattributes")) }, changed: []string{"D .gitattributes"}},
		"moved":     {do: func() error { return os.Rename(at("note"), at("moved.bin")) }, changed: []string{"A moved.bin", "D note"}},
		"new":       {do: func() error { return os.WriteFile(at("logo.bin"), []byte("raw"), 0o600) }, refused: errLFS.Error()},
		"changed":   {do: func() error { return os.WriteFile(at("data.bin"), []byte("raw"), 0o600) }, refused: errLFS.Error()},
		"old":       {do: func() error { return os.WriteFile(at("old.bin"), []byte("raw"), 0o600) }, refused: errLFS.Error()},
		"a pointer": {do: func() error { return os.WriteFile(at("p.bin"), []byte(away), 0o600) }, changed: []string{"A p.bin"}},
		"too large": {do: func() error { // and not read
			w.MaxFileSize = 10
			return os.WriteFile(at("data.bin"), []byte("As large as what was there.\n"), 0o600)
		}, refused: "28 bytes; the limit is 10"},
		"large, touched": {do: func() error {
			w.MaxFileSize = 10
			return os.Chtimes(at("data.bin"), testTime(), testTime())
		}},
	} {
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		s := snapshot(t, w)
		var got []string
		changes, err := w.repo.Diff(t.Context(), base, s.Tree)
		for _, c := range changes {
			got = append(got, c.Status.String()+" "+c.Path)
			if data, err := w.repo.Blob(t.Context(), c.NewOID, 1<<10); c.Path == "moved.bin" && (string(data) != pointer || err != nil) {
				t.Errorf("%s holds %q, %v", c.Path, data, err)
			}
		}
		ok := len(s.Refused) == 0
		if tt.refused != "" {
			ok = len(s.Refused) == 1 && s.Refused[0].Reason == tt.refused
		}
		if !ok || !cmp.Equal(tt.changed, got) || err != nil {
			t.Errorf("%s: changed %q, refused %v, %v", name, got, s.Refused, err)
		}
		if name == "nothing" && mustGit(t, w.Dir(), "status", "--porcelain") != "" {
			t.Error("the agent's git says that something changed")
		}
		w.MaxFileSize = DefaultMaxFileSize
		if err := w.Reset(t.Context(), base, false); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(at("data.bin")); string(got) != content || err != nil {
			t.Errorf("%s: laid out %q, %v", name, got, err)
		}
	}
}

// withModule makes a repository with a submodule at third/x.
func withModule(t *testing.T, fs files, library string) string {
	t.Helper()
	dir := person(t, fs)
	mustGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "third/x")
	mustGit(t, dir, "commit", "-q", "-m", "Add a module")
	return dir
}

// What is not there is named, wherever the rules stand and for whatever reason.
func TestAbsent(t *testing.T) {
	t.Parallel()
	const content = "what the pointer stands for\n"
	pointer, object := large(t, content)
	away, _ := large(t, "what the person does not have")
	library := person(t, files{".gitattributes": lfsRule, "here.bin": pointer})
	dir := withModule(t, files{"sub/.gitattributes": lfsRule, "sub/here.bin": pointer, "sub/away.bin": away, "a": "a"}, library)
	head := mustGit(t, dir, "rev-parse", "HEAD")
	mustGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+head+",third/y") // not checked out
	mustGit(t, dir, "commit", "-q", "-m", "Add another")
	files{".git/" + object: content, ".git/modules/third/x/" + object: content}.write(t, dir)
	r := open(t, dir)
	pointers, submodules, err := r.Absent(t.Context(), headTree(t, r))
	if !cmp.Equal(pointers, []string{"sub/away.bin"}) || !cmp.Equal(submodules, []string{"third/y"}) || err != nil {
		t.Errorf("pointers %q, submodules %q, %v", pointers, submodules, err)
	}
	if got := onDisk(t, export(t, r).Dir())["third/x/here.bin"]; got != "-rw-r--r-- "+content {
		t.Errorf("laid out %q", got)
	}
}

// The files of a submodule that the person has checked out are there, and stay what they are.
func TestSubmodulesAreLaidOut(t *testing.T) {
	t.Parallel()
	library := person(t, files{"x.txt": "hi", "sub/y": "y", ".gitignore": "*.log\n", "away": "->/etc"})
	r := open(t, withModule(t, files{"a": "a"}, library))
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
	if err := w.InitAgentGit(t.Context(), History{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s := snapshot(t, w); s.Tree != base || len(s.Refused) > 0 {
			t.Errorf("got %+v, want %s", s, base)
		}
		if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("the agent's git says %q", got)
		}
		if err := os.Chtimes(filepath.Join(w.Dir(), "third/x/x.txt"), testTime(), testTime()); err != nil {
			t.Fatal(err)
		}
		files{"third/x/a.log": "x", "third/x/node_modules/p": "x"}.write(t, w.Dir())
	}
	files{"third/x/x.txt": "changed", "third/x/new": "new", "a": "b"}.write(t, w.Dir())
	if err := os.RemoveAll(filepath.Join(w.Dir(), "third/x/sub")); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, w)
	changes, err := fork.Diff(t.Context(), base, s.Tree)
	if len(s.Refused) != 2 || s.Refused[0].Reason != inSubmodule || err != nil || len(changes) != 1 || changes[0].Path != "a" {
		t.Errorf("refused %v, changed %v, %v", s.Refused, changes, err)
	}
	if err := w.Reset(t.Context(), base, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, onDisk(t, w.Dir())); diff != "" {
		t.Error(diff)
	}
}
