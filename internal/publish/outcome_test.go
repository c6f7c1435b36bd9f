package publish_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
)

// left is something that an agent leaves behind, and what becomes of it.
type left struct {
	do func(t *testing.T, dir string)
	// landed is path → mode and content of what differs from the base then.
	landed map[string]string
	// putBack is why what do left is put back; the rest lands. none is the error where there
	// is nothing to land.
	putBack string
	none    bool
}

func write(path, content string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		name := filepath.Join(dir, path)
		check(t, os.MkdirAll(filepath.Dir(name), 0o750))
		check(t, os.WriteFile(name, []byte(content), mode))
		check(t, os.Chmod(name, mode))
	}
}

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

var outcomes = map[string]left{
	"nothing":     {do: func(*testing.T, string) {}, none: true},
	"a text file": {do: write("a.txt", "a\n", 0o644), landed: map[string]string{"a.txt": "100644 a\n"}},
	"a new executable": {
		do: write("tool.sh", "#!/bin/sh\n", 0o755), landed: map[string]string{"tool.sh": "100755 #!/bin/sh\n"},
	},
	"a change of mode": {
		do: write("run.sh", "#!/bin/sh\n", 0o644), landed: map[string]string{"run.sh": "100644 #!/bin/sh\n"},
	},
	"a changed program": {
		do: write("run.sh", "#!/bin/sh\necho\n", 0o755), landed: map[string]string{"run.sh": "100755 #!/bin/sh\necho\n"},
	},
	"a deleted file": {do: func(t *testing.T, dir string) {
		t.Helper()
		check(t, os.Remove(filepath.Join(dir, "run.sh")))
	}, landed: map[string]string{"run.sh": ""}},
	"a binary file": {
		do:     write("logo.png", "\x89PNG\r\n\x1a\n\x00\xff\xfe", 0o644),
		landed: map[string]string{"logo.png": "100644 \x89PNG\r\n\x1a\n\x00\xff\xfe"},
	},
	"a pointer of Git LFS": {do: func(t *testing.T, dir string) {
		t.Helper()
		write(".gitattributes", "*.psd filter=lfs\n", 0o644)(t, dir)
		write("big.psd", pointer, 0o644)(t, dir)
	}, landed: map[string]string{".gitattributes": "100644 *.psd filter=lfs\n", "big.psd": "100644 " + pointer}},
	"a symbolic link": {do: func(t *testing.T, dir string) {
		t.Helper()
		check(t, os.Symlink("README.md", filepath.Join(dir, "link")))
		check(t, os.Remove(filepath.Join(dir, "run.sh")))
		check(t, os.Symlink("README.md", filepath.Join(dir, "run.sh")))
	}, putBack: "symbolic link"},
	"a repository within": {do: func(t *testing.T, dir string) {
		t.Helper()
		write("vendor/x/.git/HEAD", "ref: refs/heads/main\n", 0o644)(t, dir)
		write("vendor/x/a", "a", 0o644)(t, dir)
	}, landed: map[string]string{"vendor/x/a": "100644 a", "vendor/x/.git/HEAD": ""}},
	"a file over 50 MiB": {do: func(t *testing.T, dir string) {
		t.Helper()
		name := filepath.Join(dir, "huge")
		check(t, os.WriteFile(name, nil, 0o600))
		check(t, os.Truncate(name, publish.MaxFile+1))
	}, putBack: "the limit is 52428800"},
	"a name that Git cannot carry everywhere": {do: write("con\x01trol", "x", 0o644), putBack: "control character"},
}

// TestF6 holds the table of docs/progress.md against what happens, row by row.
func TestF6(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.FromSlash("../../docs/progress.md"))
	check(t, err)
	_, table, _ := strings.Cut(string(doc), "### What an agent leaves")
	table, _, _ = strings.Cut(table, "\n### ")
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*?) \| ([^|]*) \|`).FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
		if back := strings.HasPrefix(m[2], "Is put back"); back != (outcomes[m[1]].putBack != "") {
			t.Errorf("the table says of %s: %s", m[1], m[2])
		}
	}
	var names []string
	for name := range outcomes {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Sort(rows)
	if diff := cmp.Diff(names, rows); diff != "" {
		t.Errorf("cases (-) and rows of the table (+):\n%s", diff)
	}
	w := newWorld(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			w.nextIssue(t)
			outcomes[name].try(t, w)
		})
	}
}

func (l left) try(t *testing.T, w *world) {
	t.Helper()
	ctx, main := t.Context(), w.head(t, "main")
	base := get[gitrepo.OID](t)(w.mirror.TreeOf(ctx, gitrepo.OID(main)))
	dir := filepath.Join(t.TempDir(), "tree")
	wt := get[*gitrepo.Worktree](t)(w.mirror.Export(ctx, dir, base, filepath.Join(t.TempDir(), "index")))
	l.do(t, dir)
	if l.putBack != "" {
		write("rest.txt", "rest\n", 0o644)(t, dir)
		l.landed = map[string]string{"rest.txt": "100644 rest\n"}
	}
	snap := get[gitrepo.Snapshot](t)(wt.Snapshot(ctx))
	var refused []string
	for _, r := range snap.Refused {
		refused = append(refused, r.Reason)
	}
	var back []gitrepo.TreeEdit
	for _, c := range get[[]gitrepo.Change](t)(w.mirror.Diff(ctx, base, snap.Tree)) {
		change := loop.Change{Path: c.Path, OldMode: c.OldMode, NewMode: c.NewMode}
		for _, r := range publish.Screen(loop.State{}, []loop.Change{change}) {
			refused = append(refused, r.Reason)
			back = append(back, gitrepo.TreeEdit{Path: c.Path, Mode: c.OldMode, OID: c.OldOID, Remove: c.OldMode == 0})
		}
	}
	tree := get[gitrepo.OID](t)(w.mirror.TreeWith(ctx, snap.Tree, back))
	if got := strings.Join(refused, "\n"); !strings.Contains(got, l.putBack) || l.putBack == "" && got != "" {
		t.Errorf("put back for %q, want %q", refused, l.putBack)
	}
	landed, err := w.publisher("r-1").LandCommit(ctx, publish.Commit{
		Run: "r-1", Iteration: 1, TaskID: "T1", TaskTitle: "Try it", Base: main, BaseTree: string(base),
		Tree: string(tree),
	})
	if l.none {
		if !errors.Is(err, publish.ErrNoChange) {
			t.Errorf("err = %v", err)
		}
		return
	}
	check(t, err)
	if !*landed.Verified || landed.Tree != string(tree) {
		t.Errorf("landed %+v", landed)
	}
	before, after := get[map[string]string](t)(w.Files(owner, name, "main")),
		get[map[string]string](t)(w.Files(owner, name, w.branch()))
	for path, want := range l.landed {
		got := ""
		if mode, ok := after[path]; ok {
			got = mode + " " + string(get[[]byte](t)(w.File(owner, name, w.branch(), path)))
		}
		if got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
		delete(before, path)
		delete(after, path)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what else changed:\n%s", diff)
	}
}
