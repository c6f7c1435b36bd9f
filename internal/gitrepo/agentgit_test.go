package gitrepo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/proc"
)

// layered makes a repository of many commits: every tenth merges a side branch
// of three.
func layered(t testing.TB, commits, fileCount int) string {
	t.Helper()
	dir := t.TempDir()
	mustGit(t, dir, "init", "-q")
	var in bytes.Buffer
	mark := 0
	commit := func(ref string, parents ...int) int {
		mark++
		fmt.Fprintf(&in, "commit %s\nmark :%d\ncommitter Ann <ann@example.com> %d +0000\ndata <<E\nCommit %d\nE\n", ref, mark,
			1700000000+60*mark, mark)
		for i, p := range parents {
			fmt.Fprintf(&in, "%s :%d\n", []string{"from", "merge"}[min(i, 1)], p)
		}
		n := mark % fileCount
		if mark == 1 {
			for n := range fileCount {
				fmt.Fprintf(&in, "M 100644 inline d%d/f%d.go\ndata <<E\npackage x\n\n// File %d.\nE\n", n%50, n, n)
			}
		}
		fmt.Fprintf(&in, "M 100644 inline d%d/f%d.go\ndata <<E\npackage x\n\n// File %d.\n// Commit %d.\nE\n\n", n%50, n, n,
			mark)
		return mark
	}
	tip := commit("refs/heads/main")
	for mark < commits {
		if mark%10 == 9 {
			side := tip
			for range 3 {
				side = commit("refs/heads/side", side)
			}
			tip = commit("refs/heads/main", tip, side)
			continue
		}
		tip = commit("refs/heads/main", tip)
	}
	fastImport(t, dir, &in)
	mustGit(t, dir, "reset", "-q", "--hard", "main")
	return dir
}

func fastImport(t testing.TB, dir string, in io.Reader) {
	t.Helper()
	_, err := proc.Run(t.Context(), proc.Cmd{
		Path: "/bin/sh", Args: []string{"-c", "git fast-import --quiet --force"}, Dir: dir, Stdin: in,
		Env: proc.ScrubbedEnv("HOME=/nonexistent"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// historyOf is the history of HEAD, to the depth.
func historyOf(t testing.TB, r *Repo, depth int) History {
	t.Helper()
	return History{Tip: headOf(t, r), Depth: depth}
}

// cloned is what git log says in a clone of the depth.
func cloned(t testing.TB, dir string, depth int, args ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "clone")
	mustGit(t, dir, "clone", "-q", "--no-checkout", "--single-branch", "--no-tags", fmt.Sprintf("--depth=%d", depth),
		"file://"+dir, to)
	return mustGit(t, to, args...)
}

func TestAgentSeesHistory(t *testing.T) {
	t.Parallel()
	dir := layered(t, 120, 20)
	mustGit(t, dir, "tag", "v1")
	mustGit(t, dir, "branch", "other", "HEAD~3")
	r := open(t, dir)
	for _, depth := range []int{1, 2, 50, 1000} {
		w := export(t, r)
		if err := w.InitAgentGit(t.Context(), historyOf(t, r, depth)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"log", "--format=%H %P %an %s"}, {"log", "-p"}, {"blame", "HEAD", "--", "d1/f1.go"}, {"rev-parse", "HEAD"},
		} {
			if got, want := mustGit(t, w.Dir(), args...), cloned(t, dir, depth, args...); got != want {
				t.Errorf("depth %d: git %s gives\n%s\nin a clone\n%s", depth, args[0], got, want)
			}
		}
		mustGit(t, w.Dir(), "fsck", "--strict")
		for args, want := range map[string]string{
			"status --porcelain": "", "remote": "", "reflog": "", "for-each-ref --format=%(refname)": "refs/heads/work",
		} {
			if got := mustGit(t, w.Dir(), strings.Fields(args)...); got != want {
				t.Errorf("depth %d: git %s gives %q", depth, args, got)
			}
		}
		if got, err := os.ReadFile(filepath.Join(w.Dir(), ".git/config")); err != nil || string(got) != agentConfig {
			t.Errorf("configuration %s, %v", got, err)
		}
		if _, err := os.Lstat(filepath.Join(w.Dir(), ".git/hooks")); !os.IsNotExist(err) {
			t.Errorf("there are hooks: %v", err)
		}
	}
}

// A branch that moves adds what is new to what is kept, merges and rewritten
// branches included, and the agent's copy is its own.
func TestAgentHistoryFollowsTheBranch(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := layered(t, 80, 20)
	mustGit(t, dir, "branch", "old", "HEAD~40")
	r := open(t, dir)
	w := export(t, r)
	const depth = 12
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"commit", func() { mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "more") }},
		{"merge of an old branch", func() { mustGit(t, dir, "merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "old") }},
		{"three commits", func() {
			for _, n := range []string{"a", "b", "c"} {
				files{"d1/" + n: n}.write(t, dir)
				mustGit(t, dir, "add", "-A")
				mustGit(t, dir, "commit", "-q", "-m", n)
			}
		}},
		{"back", func() { mustGit(t, dir, "reset", "-q", "--hard", "HEAD~2") }},
		{"elsewhere", func() { mustGit(t, dir, "reset", "-q", "--hard", "old") }},
	} {
		step.do()
		if err := w.Reset(ctx, headTree(t, r), false); err != nil {
			t.Fatal(err)
		}
		if err := w.InitAgentGit(ctx, historyOf(t, r, depth)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		args := []string{"log", "-p", "-m", "--format=%H %P"}
		if got, want := mustGit(t, w.Dir(), args...), cloned(t, dir, depth, args...); got != want {
			t.Errorf("%s: log\n%s\nin a clone\n%s", step.name, got, want)
		}
		mustGit(t, w.Dir(), "fsck", "--strict")
		if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q", step.name, got)
		}
	}
	// What the agent is given may differ from the branch: that is one more commit, as young as its
	// parent, so that a limit in time does not stop at it.
	files{"new": "n\n"}.write(t, w.Dir())
	snapshot(t, w)
	if err := w.InitAgentGit(ctx, historyOf(t, r, depth)); err != nil {
		t.Fatal(err)
	}
	if got, want := mustGit(t, w.Dir(), "show", "--format=%P %ct", "--name-only", "HEAD"),
		mustGit(t, dir, "log", "-1", "--format=%H %ct")+"\n\nnew"; got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	theirs, err := filepath.Glob(filepath.Join(w.Dir(), ".git/objects/pack/*.pack"))
	if err != nil || len(theirs) == 0 || len(theirs) > 7 {
		t.Fatalf("the agent has %q, %v", theirs, err)
	}
	for _, path := range theirs {
		mine, err := os.Stat(filepath.Join(w.index+".git/objects/pack", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if its, err := os.Stat(path); err != nil || os.SameFile(mine, its) {
			t.Errorf("the agent can write %s: %v", filepath.Base(path), err)
		}
	}
}

// Where the history, or the newest of it, is not there, the agent works without.
func TestAgentHistoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	full := layered(t, 40, 20)
	t.Run("shallow", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "clone")
		mustGit(t, full, "clone", "-q", "--depth=3", "file://"+full, dir)
		r := open(t, dir)
		w := export(t, r)
		if err := w.InitAgentGit(ctx, historyOf(t, r, 50)); err != nil {
			t.Fatal(err)
		}
		if got, want := mustGit(t, w.Dir(), "log", "-p"), mustGit(t, dir, "log", "-p"); got != want {
			t.Errorf("log\n%s\nnot\n%s", got, want)
		}
		mustGit(t, w.Dir(), "fsck", "--strict")
	})
	t.Run("partial", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "clone")
		mustGit(t, full, "config", "uploadpack.allowFilter", "true")
		mustGit(t, full, "clone", "-q", "--filter=blob:none", "--no-checkout", "file://"+full, dir)
		// What is checked out is there.
		files := filepath.Join(dir, ".git/objects/pack/tip")
		if _, err := proc.Run(ctx, proc.Cmd{
			Path: "/bin/sh", Args: []string{"-c", `git rev-list --objects --no-walk HEAD | git pack-objects -q "$0"`, files},
			Dir: full, Env: proc.ScrubbedEnv("HOME=/nonexistent"),
		}); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir)
		w := export(t, r)
		for range 2 {
			if err := w.InitAgentGit(ctx, historyOf(t, r, 50)); err != nil {
				t.Fatal(err)
			}
			if got := mustGit(t, w.Dir(), "log", "--format=%B"); !strings.Contains(got,
				"left out: the repository holds only a part of it") {
				t.Errorf("log %q", got)
			}
			if got := mustGit(t, w.Dir(), "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
		}
	})
	t.Run("tip", func(t *testing.T) {
		t.Parallel()
		r := open(t, full)
		w := export(t, r)
		unknown := History{Tip: OID(strings.Repeat("ab", 20)), Depth: 4}
		for _, want := range []struct {
			h       History
			commits string
		}{{unknown, "1"}, {historyOf(t, r, 4), "4"}, {unknown, "1"}, {History{}, "1"}} {
			if err := w.InitAgentGit(ctx, want.h); err != nil {
				t.Fatal(err)
			}
			if got := mustGit(t, w.Dir(), "rev-list", "--first-parent", "--count", "HEAD"); got != want.commits {
				t.Errorf("%+v: %s commits, not %s", want.h, got, want.commits)
			}
			mustGit(t, w.Dir(), "fsck", "--strict")
		}
	})
}
