package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// advance makes a tree from HEAD by the edits and advances the checkout to it.
func advance(t *testing.T, r *Repo, edits ...TreeEdit) (OID, error) {
	t.Helper()
	base := headTree(t, r)
	tree := edited(t, r, base, edits...)
	return tree, r.AdvanceCheckout(t.Context(), base, tree)
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
	files{"untracked": "u"}.write(t, dir)
	if got, err := r.Dirty(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("clean: %q, %v", got, err)
	}
	files{"a": "2", "c\td": "2"}.write(t, dir)
	mustGit(t, dir, "rm", "-q", "--cached", "e")
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Dirty(t.Context()); err != nil || !slices.Equal(got, []string{"a", "b", "c\td", "e"}) {
		t.Errorf("dirty: %q, %v", got, err)
	}
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

// What the person's own git says of them.
func TestIdentity(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
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
	if signs, err := r.Signs(t.Context()); signs || err != nil {
		t.Errorf("signs: %v, %v", signs, err)
	}
	files{".gitconfig": "[user]\n\tname = Ann Other\n\temail = ann@example.org\n[commit]\n\tgpgSign = yes\n"}.write(t, home)
	if name, email, err := r.Identity(t.Context()); err != nil || name != "Ann Other" || email != "ann@example.org" {
		t.Errorf("%q %q %v", name, email, err)
	}
	if signs, err := r.Signs(t.Context()); !signs || err != nil {
		t.Errorf("signs: %v, %v", signs, err)
	}
}
