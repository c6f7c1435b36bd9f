package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a snapshot takes is what git itself would add, whatever the rules: they come from
// several files, and files of the tree lie in ignored directories, too.
func TestIgnoreIsGits(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(77, 1)) // #nosec G404 -- repeatable on purpose
	pieces := []string{
		"a", "b", "o", "foo", "x", "*", "**", "/", "?", "[", "]", "!", "^", "-", "\\", " ", ".", "[a-b]", "[!a]", "**/", "/**", "#",
	}
	rules := func() string {
		var b strings.Builder
		for range 1 + rnd.IntN(3) {
			for range 1 + rnd.IntN(5) {
				b.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	made := files{}
	for _, p := range []string{
		"a", "b", "foo/bar/baz", "x/foo", "x/y/foo", "a.o", "x/a.o", "x/b.d/f", "foo.c", "foo bar", "!x", "#x", "d/a/b/c", "d/a/x/y/b",
		"a-b", "\u00e9", "dir/sub/file.txt", "dir/tracked/new",
	} {
		made[p] = "new"
	}
	dir := person(t, files{"dir/tracked/f": "f", "x/t": "t"})
	w := export(t, open(t, dir))
	base := headTree(t, w.repo)
	for range 40 {
		made[".gitignore"], made["x/.gitignore"], made["dir/.gitignore"] = rules(), rules(), rules()
		made.write(t, w.Dir())
		made.write(t, dir)
		t.Logf("%q, %q, %q", made[".gitignore"], made["x/.gitignore"], made["dir/.gitignore"])
		sameAsGit(t, w, dir)
		if _, err := os.Stat(w.index + ".rules"); !os.IsNotExist(err) {
			t.Errorf("the copies of the rules are left: %v", err)
		}
		mustGit(t, dir, "read-tree", "HEAD")
		if err := w.Reset(t.Context(), base, false); err != nil {
			t.Fatal(err)
		}
	}
}

// Only git's comparing counts, not what the walk does between.
func TestRuleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &ruleFiles{left: time.Minute}
		compare := func(d time.Duration) error {
			return r.compare(t.Context(), func(ctx context.Context) error {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return context.Cause(ctx)
			})
		}
		if err := compare(40 * time.Second); err != nil {
			t.Error(err)
		}
		<-time.After(time.Hour)
		if err := compare(10 * time.Second); err != nil {
			t.Errorf("after a slow walk: %v", err)
		}
		if err := compare(11 * time.Second); !errors.Is(err, errSlowRules) {
			t.Errorf("a minute of comparing: %v", err)
		}
	})
}

// Rules beyond the bounds refuse what an agent made; those of the repository itself are no finding.
func TestRulesBeyondTheBounds(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("#", maxIgnoreSize)
	for name, tt := range map[string]struct {
		files int
		rules string
		want  string
	}{
		"together": {files: 17, rules: large, want: "more than 4 MiB of .gitignore and .gitattributes files"},
		"size":     {files: 1, rules: large + "#", want: "its rules are not followed: more than"},
		"lines":    {files: 1, rules: strings.Repeat("a\n", maxIgnoreRules+1), want: "its rules are not followed: more than"},
		"time":     {files: 1, rules: "x", want: "take too long to compare"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := export(t, open(t, person(t, files{"a": "a"})))
			if name == "time" {
				w.MaxRuleTime = 1
			}
			for i := range tt.files {
				files{fmt.Sprintf("d%d/.gitignore", i): tt.rules}.write(t, w.Dir())
			}
			if s := snapshot(t, w); len(s.Refused) == 0 || !strings.Contains(s.Refused[0].Reason, tt.want) {
				t.Errorf("got %v, want %q", s.Refused, tt.want)
			}
		})
	}
	w := export(t, open(t, person(t, files{"a": "a", ".gitignore": strings.Repeat("a\n", maxIgnoreRules+1)})))
	files{"b": "b"}.write(t, w.Dir())
	if s := snapshot(t, w); len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
}

// What the person's git ignores by their own rules is left out as well; a repository's
// .gitignore goes before info/exclude, and that before core.excludesFile.
func TestPersonalIgnoreRules(t *testing.T) {
	t.Parallel()
	dir, own := person(t, files{".gitignore": "!kept.env\n", "d/x": "x"}), t.TempDir()
	files{"ignore": ".DS_Store\n*.env\n*.tmp"}.write(t, own)
	files{".git/info/exclude": "/scratch/\n!good.tmp\n"}.write(t, dir)
	relative, err := filepath.Rel(dir, filepath.Join(own, "ignore"))
	if err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "config", "core.excludesFile", relative)
	repo := open(t, dir)
	fork, err := repo.Fork(filepath.Join(t.TempDir(), "fork"))
	if err != nil {
		t.Fatal(err)
	}
	made := files{
		"d/.DS_Store": "x", "a.env": "x", "kept.env": "x", "scratch/n": "x", "d/scratch/n": "x", "bad.tmp": "x", "good.tmp": "x",
	}
	made.write(t, dir)
	for _, r := range []*Repo{repo, fork} {
		w := export(t, r)
		made.write(t, w.Dir())
		sameAsGit(t, w, dir)
	}
}

// Line ends are stored as git would by .gitattributes, those of a file that had others before too.
func TestLineEndsAreGits(t *testing.T) {
	t.Parallel()
	was := files{
		".gitattributes": "* text=auto\n*.txt text eol=lf\n*.bat eol=crlf\n*.raw -text\nsub/* !text\n" +
			"sub/*.on crlf\nsub/*.in crlf=input\nsub/*.off -crlf eol=lf\n",
		"old.txt": "one\ntwo\n", "old.c": "one\n", "a.raw": "a\r\n",
	}
	made := files{
		"old.txt": "one\r\ntwo\r\n", "old.c": "one\r\nthree\r\n", "new.txt": "a\r\nb\r", "new.bat": "a\r\nb\n", "a.raw": "b\r\n",
		"zero": "a\r\n\x00", "lone": "a\rb\r\n", "sub/x.c": "a\r\n", "plain": "a\n",
		"sub/x.on": "a\r\n", "sub/x.in": "a\r\n", "sub/x.off": "a\r\n",
	}
	dir := person(t, was)
	w := export(t, open(t, dir))
	made.write(t, w.Dir())
	made.write(t, dir)
	s := sameAsGit(t, w, dir)
	if again := snapshot(t, w); again.Tree != s.Tree {
		t.Errorf("a second snapshot is %s, the first %s", again.Tree, s.Tree)
	}
}

// What tools make beside the work is left out of it, and named; what the repository has of the
// same name is not.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	w := export(t, open(t, person(t, files{"lib/node_modules/own/a.js": "a"})))
	files{
		"feature.txt": "ok", "node_modules/p/index.js": "x", "pkg/__pycache__/a.pyc": "x", "env/pyvenv.cfg": "x",
		"env/bin/python3": "->/usr/bin/python3", "target/CACHEDIR.TAG": cacheTag + "\n", "lib/node_modules/own/b.js": "b",
	}.write(t, w.Dir())
	s := snapshot(t, w)
	var left []string
	for _, l := range s.LeftOut {
		left = append(left, l.String())
	}
	want := []string{
		"env: a virtual environment", "node_modules: installed packages", "pkg/__pycache__: compiled Python", "target: a cache",
	}
	if diff := cmp.Diff(want, sorted(left)); diff != "" || len(s.Refused) > 0 {
		t.Errorf("refused %v, left out %s", s.Refused, diff)
	}
	if got := treePaths(t, w.repo, s.Tree); !cmp.Equal(got, []string{"feature.txt", "lib/node_modules/own/a.js", "lib/node_modules/own/b.js"}) {
		t.Errorf("the tree holds %q", got)
	}
}

// What only looks as if tools had made it is not left out, nor what .gitignore takes back in.
func TestNotLeftOut(t *testing.T) {
	t.Parallel()
	made := files{
		".gitignore":                          "node_modules/\n!vendor/node_modules/\n",
		"vendor/node_modules/p/a.js":          "a",
		"vendor/node_modules/p/__pycache__/b": "b",
		"docs/CACHEDIR.TAG":                   strings.Repeat("how caches are tagged\n", 4),
		"short/CACHEDIR.TAG":                  "Signature: ",
		"testdata/pyvenv.cfg":                 "home = /usr/bin\n",
		"away/node_modules/p/a.js":            "a",
	}
	dir := person(t, files{"a": "a"})
	w := export(t, open(t, dir))
	made.write(t, w.Dir())
	made.write(t, dir)
	if s := sameAsGit(t, w, dir); len(s.LeftOut) > 0 {
		t.Errorf("left out %v", s.LeftOut)
	}
}
