package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/run"
)

// treePaths lists what a tree holds, as git sees it.
func treePaths(t *testing.T, r *Repo, tree OID) []string {
	t.Helper()
	out := mustGit(t, r.Top(), "-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", string(tree))
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// F1, F3, F6: what a snapshot refuses, and that a refusal adds and deletes
// nothing.
func TestSnapshotRefuses(t *testing.T) {
	t.Parallel()
	mkdir := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	replace := func(name string, make func(t *testing.T, path string)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, name)
			must(t, os.RemoveAll(path))
			make(t, path)
		}
	}
	link := func(target string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { t.Helper(); must(t, os.Symlink(target, path)) }
	}
	write := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range names {
				mkdir(t, filepath.Dir(filepath.Join(dir, name)))
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
			}
		}
	}
	tests := map[string]struct {
		do   func(t *testing.T, dir string)
		want []string // "path: reason", by prefix
	}{
		"progress is a link out": {
			replace("progress.md", link("/etc/passwd")), []string{"progress.md: symbolic link to an absolute path"},
		},
		"progress climbs": {
			replace("progress.md", link("../x")), []string{"progress.md: symbolic link out of the tree"},
		},
		"progress climbs after descent": {
			replace("progress.md", link("sub/../../x")), []string{"progress.md: symbolic link that climbs"},
		},
		"progress is a link into .git": {
			replace("progress.md", link(".git/config")), []string{"progress.md: symbolic link into a git dir"},
		},
		"progress is a FIFO": {replace("progress.md", func(t *testing.T, p string) {
			must(t, unix.Mkfifo(p, 0o600))
		}), []string{"progress.md: FIFO"}},
		"a socket": {replace("progress.md", func(t *testing.T, p string) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			must(t, err)
			t.Cleanup(func() { _ = unix.Close(fd) })
			// The path of a socket must be short.
			short := filepath.Join(t.TempDir(), "s")
			must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: short}))
			must(t, os.Rename(short, p))
		}), []string{"progress.md: socket"}},
		"progress is a hard link": {replace("progress.md", func(t *testing.T, p string) {
			secret := filepath.Join(filepath.Dir(filepath.Dir(p)), "secret")
			must(t, os.WriteFile(secret, []byte("secret"), 0o600))
			must(t, os.Link(secret, p))
		}), []string{"progress.md: hard link"}},
		"progress is sparse and huge": {replace("progress.md", func(t *testing.T, p string) {
			must(t, os.WriteFile(p, nil, 0o600))
			must(t, os.Truncate(p, 5<<30))
		}), []string{"progress.md: 5368709120 bytes"}},
		"a parent is a link out": {replace("sub", link("/")), []string{"sub: symbolic link to an absolute path"}},
		"nested .git link": {func(t *testing.T, dir string) {
			write("vendor/code.go")(t, dir)
			must(t, os.Symlink("../sub", filepath.Join(dir, "vendor/.git")))
		}, []string{"vendor/.git: nested git repository"}},
		"nested .git FIFO": {func(t *testing.T, dir string) {
			write("vendor/code.go")(t, dir)
			must(t, unix.Mkfifo(filepath.Join(dir, "vendor/.git"), 0o600))
		}, []string{"vendor/.git: nested git repository"}},
		"nested in a submodule": {write("module/.git"), []string{"module: files within a submodule"}},
		"lookalikes": {
			write("x/.GIT/a", "y/git~1/a", "z/.git /a", "w/.git./a", "v/.g\u200cit/a", "u/.git::$INDEX_ALLOCATION/a", "GIT~2/a"),
			[]string{
				`"v/.g\u200cit": nested`, "GIT~2: nested", "u/.git::$INDEX_ALLOCATION: nested", "w/.git.: nested",
				"x/.GIT: nested", "y/git~1: nested", "z/.git : nested",
			},
		},
		"names": {
			write("a\nb", "a\x1b[31m", "a\xffb", "a\u202eb", "dot.", "space ", "CON", "aux.c", `back\slash`, "COM1.txt"),
			[]string{
				"CON: name is reserved", "COM1.txt: name is reserved", "aux.c: name is reserved", "dot.: name ends",
				"space : name ends",
				`"a\nb": name contains a control`, `"a\x1b[31m": name contains a control`, `"a\u202eb": name contains an invisible`,
				`"a\xffb": name is not UTF-8`, `"back\\slash": name contains a path`,
			},
		},
		"a link that git would read": {
			replace(".gitattributes", link("a")), []string{".gitattributes: symbolic link in place"},
		},
		"Unicode twins": {write("caf\u00e9", "cafe\u0301"), []string{"caf\u00e9: the same name"}},
		"names that fold together": {
			write("Progress.MD", "Sub/z", "\u017fub/z", "X.c", "x.C", "Makefile:x", "COM\u00b9", "lpt\u00b2.txt"),
			[]string{
				"COM\u00b9: name is reserved", "Makefile:x: name contains a colon", "Progress.MD: the same name as progress.md",
				"Sub/z: its directory has the same name as sub", "lpt\u00b2.txt: name is reserved",
				"x.C: the same name as X.c", "\u017fub/z: its directory has the same name as sub",
			},
		},
		"huge .gitignore": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(strings.Repeat("a\n", maxIgnoreRules+1)), 0o600))
		}, []string{".gitignore: its rules are not followed"}},
		"files in a submodule": {write("module/file"), []string{"module: files within a submodule"}},
		"a withheld link":      {write("away"), []string{"away: stands where the repository has a link"}},
		"deep nesting": {func(t *testing.T, dir string) {
			mkdir(t, filepath.Join(dir, strings.Repeat("d/", maxDepth+1)))
			must(t, os.WriteFile(filepath.Join(dir, strings.Repeat("d/", maxDepth+1), "f"), nil, 0o600))
		}, []string{strings.TrimSuffix(strings.Repeat("d/", maxDepth+1), "/") + ": nested deeper"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := person(t, files{"progress.md": "# Progress\n", "sub/x": "x", "sub/y": "y", "away": "->/etc"})
			head := mustGit(t, dir, "rev-parse", "HEAD")
			mustGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+head+",module")
			mustGit(t, dir, "commit", "-q", "-m", "Add a module")
			r := open(t, dir)
			w := export(t, r)
			base := headTree(t, r)
			before := treePaths(t, r, base)
			tt.do(t, w.Dir())
			s := snapshot(t, w)
			got := make([]string, len(s.Refused))
			for i, refusal := range s.Refused {
				got[i] = refusal.String()
			}
			slices.Sort(got)
			want := sorted(tt.want)
			if len(got) != len(want) {
				t.Fatalf("refused %q, want %q", got, want)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("refused %q, want %q", got[i], want[i])
				}
			}
			after := treePaths(t, r, s.Tree)
			for _, p := range before {
				if !slices.Contains(after, p) {
					t.Errorf("the refusal deleted %s", p)
				}
			}
			for _, p := range after {
				if !slices.Contains(before, p) && p != "vendor/code.go" && p != "X.c" && p != "\"cafe\\314\\201\"" {
					t.Errorf("%s was added", p)
				}
			}
			if got, want := mustGit(t, dir, "rev-parse", string(s.Tree)+":progress.md"),
				mustGit(t, dir, "rev-parse", "HEAD:progress.md"); got != want {
				t.Error("progress.md changed by what was refused")
			}
			// The same again, from the saved index, and a reset repairs it all.
			if again := snapshot(t, w); again.Tree != s.Tree || len(again.Refused) != len(s.Refused) {
				t.Errorf("a second snapshot is %+v, the first %+v", again, s)
			}
			if err := w.Reset(t.Context(), base, false); err != nil {
				t.Fatal(err)
			}
			if s := snapshot(t, w); s.Tree != base || len(s.Refused) > 0 {
				t.Errorf("after a reset: %+v, want %s", s, base)
			}
		})
	}
}

// F6: what a task may well do.
func TestSnapshotTakes(t *testing.T) {
	t.Parallel()
	dir := person(t, files{"a": "a", "b": "b", "d/x": "x", "tracked.log": "kept", ".gitignore": "*.log\n/build/\n"})
	mustGit(t, dir, "add", "-f", "tracked.log")
	mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "Track a log")
	r := open(t, dir)
	tests := map[string]struct {
		do   func(dir string) error
		want string // git diff-tree --raw without names of objects
	}{
		"nothing":     {func(string) error { return nil }, ""},
		"mode only":   {func(d string) error { return os.Chmod(filepath.Join(d, "a"), 0o755) }, "100644 100755 M a"},                      // #nosec G302
		"touch only":  {func(d string) error { return os.Chtimes(filepath.Join(d, "a"), time.Now(), time.Unix(1, 0)) }, ""},               //
		"binary":      {func(d string) error { return os.WriteFile(filepath.Join(d, "a"), []byte{0, 1, 2}, 0o600) }, "100644 100644 M a"}, //
		"symlink":     {func(d string) error { return os.Symlink("d/x", filepath.Join(d, "l")) }, "000000 120000 A l"},
		"climbing in": {func(d string) error { return os.Symlink("../a", filepath.Join(d, "d/l")) }, "000000 120000 A d/l"},
		"file to link": {func(d string) error {
			return firstErr(os.Remove(filepath.Join(d, "a")), os.Symlink("b", filepath.Join(d, "a")))
		}, "100644 120000 T a"},
		"file to directory": {func(d string) error {
			return firstErr(os.Remove(filepath.Join(d, "a")), os.Mkdir(filepath.Join(d, "a"), 0o750),
				os.WriteFile(filepath.Join(d, "a/x"), []byte("n"), 0o600))
		}, "100644 000000 D a\n000000 100644 A a/x"},
		"directory to file": {func(d string) error {
			return firstErr(os.RemoveAll(filepath.Join(d, "d")), os.WriteFile(filepath.Join(d, "d"), []byte("n"), 0o600))
		}, "000000 100644 A d\n100644 000000 D d/x"},
		"ignored": {func(d string) error {
			return firstErr(os.WriteFile(filepath.Join(d, "x.log"), nil, 0o600), os.Mkdir(filepath.Join(d, "build"), 0o750),
				unix.Mkfifo(filepath.Join(d, "build/fifo"), 0o600))
		}, ""},
		"tracked although ignored": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "tracked.log"), []byte("new"), 0o600)
		}, "100644 100644 M tracked.log"},
		"executable": {func(d string) error { return os.WriteFile(filepath.Join(d, "run"), []byte("#!"), 0o700) }, "000000 100755 A run"}, // #nosec G306
		"agent's own git": {func(d string) error {
			return firstErr(os.Mkdir(filepath.Join(d, ".git"), 0o750),
				os.WriteFile(filepath.Join(d, ".git/HEAD"), []byte("x"), 0o600))
		}, ""},
		"empty tree": {func(d string) error {
			for _, name := range []string{"a", "b", "d", "tracked.log", ".gitignore"} {
				if err := os.RemoveAll(filepath.Join(d, name)); err != nil {
					return err
				}
			}
			return nil
		}, "100644 000000 D .gitignore\n100644 000000 D a\n100644 000000 D b\n100644 000000 D d/x\n100644 000000 D tracked.log"},
		"same size, same time": {func(d string) error {
			p := filepath.Join(d, "a")
			info, err := os.Stat(p)
			if err != nil {
				return err
			}
			return firstErr(os.WriteFile(p, []byte("z"), 0o600), os.Chtimes(p, info.ModTime(), info.ModTime()))
		}, "100644 100644 M a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := export(t, r)
			base := headTree(t, r)
			if err := tt.do(w.Dir()); err != nil {
				t.Fatal(err)
			}
			s := snapshot(t, w)
			if len(s.Refused) > 0 {
				t.Errorf("refused %v", s.Refused)
			}
			changes, err := r.Diff(t.Context(), base, s.Tree)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, fmt.Sprintf("%06o %06o %v %s", c.OldMode, c.NewMode, c.Status, c.Path))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestSnapshotLimitsFiles(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a"}))
	w := export(t, r)
	w.MaxFiles = 10
	for i := range 20 {
		files{fmt.Sprint("n", i): "x"}.write(t, w.Dir())
	}
	s := snapshot(t, w)
	if s.Tree != headTree(t, r) || len(s.Refused) != 1 || !strings.Contains(s.Refused[0].Reason, "more than 10 files") {
		t.Errorf("got %+v", s)
	}
}

func TestLargeTrackedFileStays(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"large": strings.Repeat("x", 1000)}))
	w := export(t, r)
	w.MaxFileSize = 100
	path := filepath.Join(w.Dir(), "large")
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, w); s.Tree != headTree(t, r) || len(s.Refused) > 0 {
		t.Errorf("touched: %+v", s)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("y", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, w); s.Tree != headTree(t, r) || len(s.Refused) != 1 {
		t.Errorf("changed: %+v", s)
	}
}

// canary is a program that leaves a mark when anything runs it.
func canary(t *testing.T) (program string, ran func() bool) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "canary")
	mark := filepath.Join(dir, "mark")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho ran \"$@\" >> "+mark+"\ncat\n"), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	return program, func() bool {
		_, err := os.Stat(mark)
		return err == nil
	}
}

// evilConfig makes git run the program in every way a configuration can.
func evilConfig(program string) string {
	return fmt.Sprintf(`[core]
	repositoryformatversion = 0
	fsmonitor = %[1]s
	hooksPath = %[2]s
	sshCommand = %[1]s
	pager = %[1]s
	editor = %[1]s
	alternateRefsCommand = %[1]s
[filter "evil"]
	clean = %[1]s
	smudge = %[1]s
	process = %[1]s
	required = true
[diff "evil"]
	textconv = %[1]s
	command = %[1]s
[diff]
	external = %[1]s
[credential]
	helper = %[1]s
[log]
	showSignature = true
[gpg]
	program = %[1]s
[include]
	path = %[2]s/included
`, program, filepath.Dir(program))
}

func evilHooks(t *testing.T, program string) {
	t.Helper()
	for _, hook := range []string{
		"reference-transaction", "post-checkout", "post-index-change", "pre-commit", "post-commit", "pre-auto-gc",
		"fsmonitor-watchman",
	} {
		if err := os.Symlink(program, filepath.Join(filepath.Dir(program), hook)); err != nil {
			t.Fatal(err)
		}
	}
}

// F4: nothing that an agent leaves in its directory makes the host run a
// program.
func TestAgentConfigurationRunsNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	program, ran := canary(t)
	evilHooks(t, program)
	dir := person(t, files{"a.txt": "one\n", "sub/b": "b\n"})
	r := open(t, dir)
	w := export(t, r)
	base := headTree(t, r)
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}

	// A real repository of the agent's with everything in it.
	mustGit(t, w.Dir(), "init", "-q")
	mustGit(t, w.Dir(), "add", "-A")
	files{
		".git/config":                  evilConfig(program),
		".git/info/attributes":         "* filter=evil diff=evil\n",
		".git/info/grafts":             string(head) + "\n",
		".git/objects/info/alternates": "/nonexistent\n",
		".gitattributes":               "* filter=evil diff=evil merge=evil\n",
		".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ext::" + program + "\n\tupdate = !" +
			program + "\n",
		"sub/.gitattributes": "* filter=evil\n",
		"a.txt":              "two\n",
	}.write(t, w.Dir())

	s := snapshot(t, w)
	if len(s.Refused) > 0 {
		t.Errorf("refused %v", s.Refused)
	}
	exerciseAll(t, r, w, base, s.Tree, head)
	if ran() {
		t.Fatal("the agent's program ran on the host")
	}
	if err := w.Reset(ctx, base, false); err != nil {
		t.Fatal(err)
	}
	if ran() {
		t.Fatal("the agent's program ran on the host")
	}

	// The trap is real: a git process in there springs it.
	w2 := export(t, r)
	mustGit(t, w2.Dir(), "init", "-q")
	mustGit(t, w2.Dir(), "add", "-A")
	files{".git/config": evilConfig(program), ".gitattributes": "* filter=evil\n", "a.txt": "two\n"}.write(t, w2.Dir())
	runGitUnguarded(t, w2.Dir())
	if !ran() {
		t.Error("the canary does not work")
	}
}

// exerciseAll runs every operation of the host on the two trees.
func exerciseAll(t *testing.T, r *Repo, w *Worktree, base, tree, head OID) {
	t.Helper()
	ctx := t.Context()
	commit, err := r.CommitTree(ctx, CommitSpec{
		Tree: tree, Parents: []OID{head}, Message: "x", Author: ann(), When: testTime(),
	})
	steps := []struct {
		name string
		err  error
	}{
		{"commit", err},
		{"agent git", w.InitAgentGit(ctx, History{})},
		{"update ref", r.UpdateRef(ctx, "refs/heads/main", commit, head)},
		{"advance", r.AdvanceCheckout(ctx, base, tree)},
		{"export back", errOf(r.Export(ctx, w.Dir(), base, w.index))},
		{"export", errOf(r.Export(ctx, w.Dir(), tree, w.index))},
		{"diff", errOf(r.Diff(ctx, base, tree))},
		{"patch", errOf(r.Patch(ctx, base, tree, nil, 1<<20))},
		{"read", errOf(r.ReadFile(ctx, commit, "a.txt", 100))},
		{"log", errOf(r.Log(ctx, head, commit))},
		{"dirty", errOf(r.Dirty(ctx))},
		{"edit", errOf(r.TreeWith(ctx, tree, []TreeEdit{{Path: "a.txt", Data: []byte("x")}}))},
		{"branches", errOf(r.Branches(ctx))},
	}
	for _, s := range steps {
		if s.err != nil {
			t.Errorf("%s: %v", s.name, s.err)
		}
	}
	patch, err := r.Patch(ctx, base, tree, []string{"a.txt"}, 1<<20)
	if err != nil || !strings.Contains(string(patch), "-one\n+two\n") {
		t.Errorf("patch %s, %v", patch, err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// The person's own repository may configure programs for content that an
// agent made: they do not run either.
func TestPersonConfigurationRunsNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	program, ran := canary(t)
	evilHooks(t, program)
	dir := person(t, files{"a.txt": "one\n", "sub/b": "b\n"})
	files{".git/config": evilConfig(program)}.write(t, dir)
	r := open(t, dir)
	w := export(t, r)
	base := headTree(t, r)
	_, head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	files{"a.txt": "two\n", ".gitattributes": "* filter=evil diff=evil\n"}.write(t, w.Dir())
	s := snapshot(t, w)
	exerciseAll(t, r, w, base, s.Tree, head)
	// A file whose stamp says nothing makes git look at its content.
	if err := os.Chtimes(filepath.Join(dir, "a.txt"), time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if dirty, err := r.Dirty(ctx); err != nil || len(dirty) > 0 {
		t.Errorf("dirty %q, %v", dirty, err)
	}
	if ran() {
		t.Error("a program of the configuration ran")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "two\n" {
		t.Errorf("checkout holds %q, %v", got, err)
	}
}

// What a run lands in the checkout is no configuration of the person's git, which would run
// the programs that it names.
func TestConfigurationOfTheCheckoutIsRefused(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "config")
	for name, tt := range map[string]struct {
		key, path string
		refused   bool
	}{
		"a file that is there":     {"include.path", "../there", true},
		"a file that is to come":   {"include.path", "../conf/to-come", true},
		"on another branch":        {"includeIf.onbranch:side.path", "../to-come", true},
		"a link of the checkout":   {"include.path", "../link", true},
		"a way through a link":     {"include.path", "back/to-come", true},
		"a file outside":           {"include.path", outside, false},
		"a file beside git's own":  {"include.path", "own", false},
		"outside, if on a branch":  {"includeIf.onbranch:side.path", outside, false},
		"a directory's neighbours": {"include.path", "../../to-come", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := person(t, files{"there": "[user]\n\tname = X\n", "link": "->" + outside})
			if err := os.Symlink(dir, filepath.Join(dir, ".git", "back")); err != nil {
				t.Fatal(err)
			}
			mustGit(t, dir, "config", tt.key, tt.path)
			_, err := newGit(t).OpenLocal(t.Context(), dir)
			if _, refused := errors.AsType[*run.UserError](err); refused != tt.refused || err != nil && !refused {
				t.Errorf("opened with %v", err)
			}
		})
	}
}

// F5: refs and history in the agent's copy mean nothing.
func TestAgentHistoryIsIgnored(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a"}))
	w := export(t, r)
	if err := w.InitAgentGit(t.Context(), History{}); err != nil {
		t.Fatal(err)
	}
	files{"b": "b"}.write(t, w.Dir())
	mustGit(t, w.Dir(), "add", "-A")
	mustGit(t, w.Dir(), "commit", "-q", "-m", "agent's own")
	mustGit(t, w.Dir(), "checkout", "-q", "-b", "evil")
	before := mustGit(t, r.Top(), "for-each-ref")
	s := snapshot(t, w)
	if got := treePaths(t, r, s.Tree); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("tree holds %q", got)
	}
	if after := mustGit(t, r.Top(), "for-each-ref"); after != before {
		t.Errorf("refs changed:\n%s", after)
	}
}

func TestAgentGitWorks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := person(t, files{"a.txt": "one\n", "sub/b": "b\n", "away": "->/etc"})
	r := open(t, dir)
	w := export(t, r)
	for round := range 3 {
		if err := w.InitAgentGit(ctx, History{}); err != nil {
			t.Fatal(err)
		}
		if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("round %d: status\n%s", round, got)
		}
		mustGit(t, w.Dir(), "fsck", "--strict")
		was := fmt.Sprint(round)
		files{"a.txt": was + " changed\n", "sub/new" + was: "n\n"}.write(t, w.Dir())
		if got := mustGit(t, w.Dir(), "diff", "--stat"); !strings.Contains(got, "a.txt") {
			t.Errorf("round %d: diff %q", round, got)
		}
		mustGit(t, w.Dir(), "stash", "-q")
		mustGit(t, w.Dir(), "stash", "pop", "-q")
		if s := snapshot(t, w); len(s.Refused) > 0 {
			t.Errorf("refused %v", s.Refused)
		}
	}
	// Whatever the agent made of it is replaced, and no link is followed.
	outside := t.TempDir()
	files{"keep": "keep"}.write(t, outside)
	if err := os.RemoveAll(filepath.Join(w.Dir(), ".git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.Dir(), ".git")); err != nil {
		t.Fatal(err)
	}
	if err := w.InitAgentGit(ctx, History{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory behind the link holds %v, %v", entries, err)
	}
	if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("status\n%s", got)
	}
}

// TestCancelEndsADiff: between two directories, not after all of them.
func TestCancelEndsADiff(t *testing.T) {
	t.Parallel()
	r := open(t, person(t, files{"a": "a"}))
	base := headTree(t, r)
	var edits []TreeEdit
	for i := range 100 {
		edits = append(edits, TreeEdit{Path: fmt.Sprintf("deep/%d/a", i), Data: []byte("x")})
	}
	tree, err := r.TreeWith(t.Context(), base, edits)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := r.Diff(t.Context(), base, tree); err != nil || len(changes) != len(edits) {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if changes, err := r.Diff(ctx, base, tree); !errors.Is(err, stop) || changes != nil {
		t.Errorf("a diff that was cancelled says %d changes, %v", len(changes), err)
	}
}
